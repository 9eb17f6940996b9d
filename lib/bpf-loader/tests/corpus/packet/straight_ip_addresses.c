// Is it IPv4 for 10.0.2.15? By comparing with the end of the packet.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (packet + 34 > end) return 0;
    return be16(packet + 12) == 0x0800 && be32(packet + 30) == 0x0a00020f;
}
