// Pairs of count and byte.
#include "../program.h"
u64 compute(const u8 *input, u64 length, u8 *output) {
    u64 out = 0, i = 0;
    while (i < length && out <= 4094) {
        u8 byte = input[i];
        u8 count = 0;
        while (i < length && input[i] == byte && count < 255) { count++; i++; }
        output[out] = count;
        output[out + 1] = byte;
        out += 2;
    }
    return out;
}
