// How many primes there are below 4,096.
#include "../program.h"
u64 compute(const u8 *input, u64 length, u8 *output) {
    u64 primes = 0;
    for (u32 i = 0; i < 4096; i++) output[i] = 0;
    for (u32 n = 2; n < 4096; n++) {
        if (output[n]) continue;
        primes++;
        for (u32 m = n * n; m < 4096; m += n) output[m] = 1;
    }
    return primes;
}
