// Finds or makes the entry of a flow in an open hash table of 256 pairs of words.
#include "../program.h"
INLINE u64 mix(u64 x) {
    x ^= x >> 33; x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (packet + 38 > end) return 0;
    u64 key = mix((u64)be32(packet + 26) << 32 | be32(packet + 30)) ^ be32(packet + 34);
    key |= 1;
    for (u64 probe = 0; probe < 16; probe++) {
        u64 slot = (key + probe) & 255;
        if (state[2 * slot] == 0) state[2 * slot] = key;
        if (state[2 * slot] == key) return ++state[2 * slot + 1];
    }
    return 0;
}
