// Finds the length itself among sorted words.
#include "../program.h"
u64 compute(const u8 *input, u64 length, u8 *output) {
    const u64 *words = (const u64 *)input;
    u64 low = 0, high = length / 8;
    while (low < high) {
        u64 middle = (low + high) / 2;
        if (words[middle] < length) low = middle + 1; else high = middle;
    }
    return low;
}
