// Lines, words and bytes.
#include "../program.h"
u64 compute(const u8 *input, u64 length, u8 *output) {
    u64 *counts = (u64 *)output;
    u64 lines = 0, words = 0, inside = 0;
    for (u64 i = 0; i < length; i++) {
        u8 letter = input[i];
        u64 blank = letter == ' ' || (letter >= '\t' && letter <= '\r');
        lines += letter == '\n';
        words += inside == 0 && !blank;
        inside = !blank;
    }
    counts[0] = lines; counts[1] = words; counts[2] = length;
    return 0;
}
