// The type of an Ethernet frame.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (length < 14) return 0;
    return be16(packet + 12);
}
