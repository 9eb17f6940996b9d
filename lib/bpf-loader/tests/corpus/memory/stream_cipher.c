// A cipher with a table of 256 bytes on the stack (RC4's shape).
#include "../program.h"
u64 compute(const u8 *input, u64 length, u8 *output) {
    u8 table[256];
    if (length > 4096) length = 4096;
    for (int i = 0; i < 256; i++) table[i] = i;
    u8 j = 0;
    for (int i = 0; i < 256; i++) {
        j += table[i] + (u8)(i * 7);
        u8 swap = table[i]; table[i] = table[j]; table[j] = swap;
    }
    u8 a = 0, b = 0;
    for (u64 n = 0; n < length; n++) {
        a++; b += table[a];
        u8 swap = table[a]; table[a] = table[b]; table[b] = swap;
        output[n] = input[n] ^ table[(u8)(table[a] + table[b])];
    }
    return length;
}
