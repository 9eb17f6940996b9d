// One inode: twelve direct blocks, one indirect and one doubly indirect.
#include "../program.h"
struct inode { u64 size; u32 links, mode; u32 direct[12], indirect, double_indirect; };
u64 owns(const u8 *block, u64 type) {
    const struct inode *inode = (const void *)block;
    for (int i = 0; i < 12; i++)
        if (inode->direct[i]) own_blocks(inode->direct[i], 1);
    if (inode->indirect) own_blocks(inode->indirect, 1);
    if (inode->double_indirect) own_blocks(inode->double_indirect, 1);
    return 0;
}
