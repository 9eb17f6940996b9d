// The transport and the ports of an IPv6 packet without extension headers.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (packet + 58 > end || be16(packet + 12) != 0x86dd) return 0;
    u8 next = packet[20];
    if (next != 6 && next != 17) return 0;
    return (u64)next << 32 | be32(packet + 54);
}
