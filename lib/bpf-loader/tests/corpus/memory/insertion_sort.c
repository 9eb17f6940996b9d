// Sorts the first 64 bytes into the output.
#include "../program.h"
u64 compute(const u8 *input, u64 length, u8 *output) {
    u64 count = length < 64 ? length : 64;
    for (u64 i = 0; i < count; i++) {
        u8 value = input[i];
        u64 j = i;
        while (j > 0 && output[j - 1] > value) { output[j] = output[j - 1]; j--; }
        output[j] = value;
    }
    return count;
}
