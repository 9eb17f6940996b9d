// The edit distance of two words of 16 bytes.
#include "../program.h"
u64 compute(const u8 *input, u64 length, u8 *output) {
    u8 row[17];
    if (length < 32) return 0;
    for (int i = 0; i < 17; i++) row[i] = i;
#pragma clang loop unroll(disable)
    for (int i = 0; i < 16; i++) {
        u8 diagonal = row[0];
        row[0] = i + 1;
        for (int j = 0; j < 16; j++) {
            u8 best = diagonal + (input[i] != input[16 + j]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j + 1] + 1 < best) best = row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = best;
        }
    }
    return row[16];
}
