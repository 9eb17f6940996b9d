// Copies as much of the input as the output holds, word by word.
#include "../program.h"
u64 compute(const u8 *input, u64 length, u8 *output) {
    if (length > 4096) length = 4096;
    u64 i = 0;
    for (; i + 8 <= length; i += 8) *(u64 *)(output + i) = *(const u64 *)(input + i);
    for (; i < length; i++) output[i] = input[i];
    return length;
}
