// Base64 of the input, as far as the output holds it.
#include "../program.h"
static const char letters[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
u64 compute(const u8 *input, u64 length, u8 *output) {
    u64 out = 0;
    for (u64 i = 0; i + 3 <= length; i += 3) {
        if (out > 4092) break;
        u32 word = (u32)input[i] << 16 | (u32)input[i + 1] << 8 | input[i + 2];
        output[out] = letters[word >> 18 & 63];
        output[out + 1] = letters[word >> 12 & 63];
        output[out + 2] = letters[word >> 6 & 63];
        output[out + 3] = letters[word & 63];
        out += 4;
    }
    return out;
}
