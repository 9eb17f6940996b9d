// Is the input UTF-8? (Overlong forms and surrogates are refused.)
#include "../program.h"
u64 compute(const u8 *input, u64 length, u8 *output) {
    u64 i = 0;
    while (i < length) {
        u8 first = input[i++];
        u32 more = first < 0x80 ? 0 : first < 0xc2 ? 9 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : 9;
        if (more == 9) return 0;
        u32 code = first & (0x7f >> (more + (more > 0)));
        for (u32 n = 0; n < more; n++) {
            if (i >= length || (input[i] & 0xc0) != 0x80) return 0;
            code = code << 6 | (input[i++] & 0x3f);
        }
        if ((more == 2 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) || (more == 3 && (code < 0x10000 || code > 0x10ffff))) return 0;
    }
    return 1;
}
