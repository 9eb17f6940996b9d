// A keyed hash of the four numbers that name a connection (SipHash, two rounds and four).
#include "../program.h"
static const u64 key[2] = {0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};
INLINE void round(u64 v[4]) {
    v[0] += v[1]; v[1] = rotate_left(v[1], 13) ^ v[0]; v[0] = rotate_left(v[0], 32);
    v[2] += v[3]; v[3] = rotate_left(v[3], 16) ^ v[2];
    v[0] += v[3]; v[3] = rotate_left(v[3], 21) ^ v[0];
    v[2] += v[1]; v[1] = rotate_left(v[1], 17) ^ v[2]; v[2] = rotate_left(v[2], 32);
}
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    if (packet + 38 > end) return 0;
    u64 words[2] = {(u64)be32(packet + 26) << 32 | be32(packet + 30), be32(packet + 34)};
    u64 v[4] = {key[0] ^ 0x736f6d6570736575ull, key[1] ^ 0x646f72616e646f6dull,
                key[0] ^ 0x6c7967656e657261ull, key[1] ^ 0x7465646279746573ull};
    for (int word = 0; word < 2; word++) { v[3] ^= words[word]; round(v); round(v); v[0] ^= words[word]; }
    v[2] ^= 0xff;
    for (int last = 0; last < 4; last++) round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
