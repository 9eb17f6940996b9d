// The Adler-32 checksum of the input.
#include "../program.h"
u64 compute(const u8 *input, u64 length, u8 *output) {
    u32 a = 1, b = 0;
    for (u64 i = 0; i < length; i++) {
        a = (a + input[i]) % 65521;
        b = (b + a) % 65521;
    }
    return (u64)b << 16 | a;
}
