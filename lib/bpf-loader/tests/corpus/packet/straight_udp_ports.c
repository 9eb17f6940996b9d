// UDP to port 53 over IPv4 without options.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (packet + 42 > end) return 0;
    if (be16(packet + 12) != 0x0800 || packet[14] != 0x45 || packet[23] != 17) return 0;
    if (be16(packet + 20) & 0x1fff) return 0;
    return be16(packet + 36) == 53;
}
