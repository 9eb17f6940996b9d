// A node of a B-tree: keys in order, and a child on each side of every key.
#include "../program.h"
struct node { u16 keys, level; u32 spare; u64 key[250]; u32 child[251]; };
u64 owns(const u8 *block, u64 type) {
    const struct node *node = (const void *)block;
    u16 keys = node->keys;
    if (keys > 250) return 1;
    u64 before = 0;
    for (u16 i = 0; i < keys; i++) {
        if (node->key[i] < before) return 2;
        before = node->key[i];
    }
    if (node->level == 0) return 0;
    for (u16 i = 0; i <= keys; i++) own_blocks(node->child[i], 1);
    return 0;
}
