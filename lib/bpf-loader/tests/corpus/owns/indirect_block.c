// 1,024 pointers; neighbours are told as one run.
#include "../program.h"
u64 owns(const u8 *block, u64 type) {
    const u32 *pointers = (const u32 *)block;
    u64 first = 0, count = 0;
    for (int i = 0; i < 1024; i++) {
        if (count && pointers[i] == first + count) { count++; continue; }
        if (count) own_blocks(first, count);
        first = pointers[i];
        count = first ? 1 : 0;
    }
    if (count) own_blocks(first, count);
    return 0;
}
