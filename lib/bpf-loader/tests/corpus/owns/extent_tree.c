// A node of an extent tree: a header, then at most 340 entries; those of an inner node lead to one block each.
#include "../program.h"
struct header { u16 magic, count, room, depth; u32 generation; };
struct entry { u32 first; u16 length, start_high; u32 start_low; };
u64 owns(const u8 *block, u64 type) {
    const struct header *header = (const void *)block;
    const struct entry *entries = (const void *)(header + 1);
    u32 count = header->count;
    if (header->magic != 0xf30a || count > (4096 - sizeof *header) / sizeof *entries) return 1;
    for (u32 i = 0; i < count; i++) {
        u64 start = (u64)entries[i].start_high << 32 | entries[i].start_low;
        u16 length = header->depth ? 1 : entries[i].length & 0x7fff;
        if (length) own_blocks(start, length);
    }
    return 0;
}
