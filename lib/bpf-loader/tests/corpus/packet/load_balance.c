// Chooses one of five servers by a table of constants.
#include "../program.h"
static const u32 servers[5] = {0x0a000001, 0x0a000002, 0x0a000003, 0x0a000004, 0x0a000005};
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (packet + 38 > end) return 0;
    u32 hash = be32(packet + 26) * 2654435761u ^ be32(packet + 34);
    return servers[hash % 5];
}
