// Has this source been seen? Three bits of a filter of 32,768.
#include "../program.h"
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (packet + 30 > end) return 0;
    u32 hash = be32(packet + 26);
    u64 seen = 1;
    for (int round = 0; round < 3; round++) {
        hash = hash * 0x9e3779b1u + 0x7f4a7c15u;
        u32 bit = hash >> 17;
        u64 mask = 1ull << (bit & 63);
        if (!(state[bit >> 6] & mask)) seen = 0;
        state[bit >> 6] |= mask;
    }
    return seen;
}
