// Verifies the checksum of an IPv4 header without options.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (packet + 34 > end || packet[14] != 0x45) return 0;
    u32 sum = 0;
    for (int word = 0; word < 10; word++) sum += be16(packet + 14 + 2 * word);
    sum = (sum & 0xffff) + (sum >> 16);
    return ((sum + (sum >> 16)) & 0xffff) == 0xffff;
}
