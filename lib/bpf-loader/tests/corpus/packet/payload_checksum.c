// The Internet checksum of all that follows the Ethernet header.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    u64 sum = 0;
    u64 at = 14;
    for (; at + 1 < length; at += 2) sum += be16(packet + at);
    if (at < length) sum += packet[at] << 8;
    for (int fold = 0; fold < 4; fold++) sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}
