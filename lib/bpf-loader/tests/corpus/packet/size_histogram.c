// Packet sizes by power of two.
#include "../program.h"
NOINLINE u64 logarithm(u64 value) {
    u64 result = 0;
    for (int step = 16; step > 0; step >>= 1)
        if (value >> step) { value >>= step; result += step; }
    return result;
}
u64 handle(const u8 *packet, const u8 *end, u64 length) {
    u64 bucket = logarithm(length);
    if (bucket > 31) return 0;
    return ++state[bucket];
}
