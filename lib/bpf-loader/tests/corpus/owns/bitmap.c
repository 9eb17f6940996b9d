// How many bits of a block are set.
#include "../program.h"
u64 owns(const u8 *block, u64 type) {
    const u64 *words = (const u64 *)block;
    u64 total = 0;
    for (int i = 0; i < 512; i++) {
        u64 x = words[i];
        x -= x >> 1 & 0x5555555555555555ull;
        x = (x & 0x3333333333333333ull) + (x >> 2 & 0x3333333333333333ull);
        x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
        total += x * 0x0101010101010101ull >> 56;
    }
    return total;
}
