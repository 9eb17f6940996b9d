// A count, then that many extents of first block and length.
#include "../program.h"
struct extent { u32 first, count; };
u64 owns(const u8 *block, u64 type) {
    u32 count = *(const u32 *)block;
    const struct extent *extents = (const void *)(block + 8);
    if (count > 511) return 1;
    for (u32 i = 0; i < count; i++) {
        u32 length = extents[i].count;
        if (length == 0 || length > 1 << 20) return 1;
        own_blocks(extents[i].first, length);
    }
    return 0;
}
