// The product of two 8 by 8 matrices of bytes.
#include "../program.h"
u64 compute(const u8 *input, u64 length, u8 *output) {
    u32 *product = (u32 *)output;
    if (length < 128) return 1;
    for (int row = 0; row < 8; row++)
        for (int column = 0; column < 8; column++) {
            u32 sum = 0;
            for (int i = 0; i < 8; i++) sum += (u32)input[8 * row + i] * input[64 + 8 * i + column];
            product[8 * row + column] = sum;
        }
    return 0;
}
