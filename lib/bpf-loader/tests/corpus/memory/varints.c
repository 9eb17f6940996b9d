// Sums numbers written seven bits a byte.
#include "../program.h"
u64 compute(const u8 *input, u64 length, u8 *output) {
    u64 sum = 0, number = 0, shift = 0;
    for (u64 i = 0; i < length; i++) {
        number |= (u64)(input[i] & 0x7f) << shift;
        shift += 7;
        if (!(input[i] & 0x80)) { sum += number; number = 0; shift = 0; }
        else if (shift > 63) return 0;
    }
    return sum;
}
