// The sum of the input's bytes and the greatest of them, counted by indices of 32 bits.
#include "../program.h"
u64 compute(const u8 *input, u64 length, u8 *output) {
    u64 sum = 0;
    for (u32 i = 0; i < (u32)length; i++)
        sum += input[i];
    int count = (int)length;
    u8 greatest = 0;
    for (int i = 0; i < count; i++)
        greatest = input[i] > greatest ? input[i] : greatest;
    return sum << 8 | greatest;
}
