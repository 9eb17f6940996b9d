// Sorts up to 1,024 words into the output.
#include "../program.h"
INLINE void swap(u32 *words, u32 i, u32 j) {
    u32 word = words[i];
    words[i] = words[j];
    words[j] = word;
}
INLINE void sift(u32 *words, u32 root, u32 count) {
    for (;;) {
        u32 child = 2 * root + 1;
        if (child >= count) return;
        if (child + 1 < count && words[child] < words[child + 1]) child++;
        if (words[root] >= words[child]) return;
        swap(words, root, child);
        root = child;
    }
}
u64 compute(const u8 *input, u64 length, u8 *output) {
    u32 *words = (u32 *)output;
    u32 count = length / 4 < 1024 ? length / 4 : 1024;
    for (u32 i = 0; i < count; i++) words[i] = ((const u32 *)input)[i];
    for (u32 root = count / 2; root-- > 0;) sift(words, root, count);
    for (u32 end = count; end > 1;) {
        swap(words, 0, --end);
        sift(words, 0, end);
    }
    return count;
}
