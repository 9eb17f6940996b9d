// A block of 64 inodes of 64 bytes.
#include "../program.h"
struct inode { u32 size, mode; u32 direct[12]; u32 indirect, spare; };
u64 owns(const u8 *block, u64 type) {
    const struct inode *inodes = (const void *)block;
    u64 found = 0;
    for (int n = 0; n < 64; n++) {
        if (!inodes[n].mode) continue;
        for (int i = 0; i < 12; i++)
            if (inodes[n].direct[i]) { own_blocks(inodes[n].direct[i], 1); found++; }
        if (inodes[n].indirect) { own_blocks(inodes[n].indirect, 1); found++; }
    }
    return found;
}
