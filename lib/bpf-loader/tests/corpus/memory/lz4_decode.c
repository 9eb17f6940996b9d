// Decodes a block of LZ4 into the output.
#include "../program.h"
u64 compute(const u8 *input, u64 length, u8 *output) {
    u64 at = 0, made = 0;
    while (at < length) {
        u8 token = input[at++], more = 255;
        u64 literals = token >> 4, match = (token & 15) + 4;
        for (; literals >= 15 && more == 255; literals += more) {
            if (at >= length) return -1;
            more = input[at++];
        }
        if (literals > length - at || literals > 4096 - made) return -1;
        for (u64 i = 0; i < literals; i++) output[made++] = input[at++];
        if (at == length) return made;
        if (length - at < 2) return -1;
        u32 distance = input[at] | input[at + 1] << 8;
        at += 2;
        if (distance == 0 || distance > made) return -1;
        more = 255;
        for (; match >= 19 && more == 255; match += more) {
            if (at >= length) return -1;
            more = input[at++];
        }
        if (match > 4096 - made) return -1;
        for (u64 i = 0; i < match; i++, made++) output[made] = output[made - distance];
    }
    return made;
}
