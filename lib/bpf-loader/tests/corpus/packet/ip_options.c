// UDP ports behind IPv4 options of any length.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (packet + 34 > end || be16(packet + 12) != 0x0800 || packet[23] != 17) return 0;
    u64 header = (packet[14] & 15) * 4;
    if (header < 20) return 0;
    const u8 *udp = packet + 14 + header;
    if (udp + 8 > end) return 0;
    return be32(udp);
}
