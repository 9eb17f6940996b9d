// A superblock: checks its magic number and owns what it names.
#include "../program.h"
struct superblock { u64 magic; u32 version, root, map_first, map_count, log_first, log_count; };
u64 owns(const u8 *block, u64 type) {
    const struct superblock *super = (const void *)block;
    if (super->magic != 0x4e4954494843ull || super->version != 1) return 1;
    if (super->map_count == 0 || super->map_count > 4096 || super->log_count == 0 || super->log_count > 4096) return 2;
    own_blocks(super->root, 1);
    own_blocks(super->map_first, super->map_count);
    own_blocks(super->log_first, super->log_count);
    return 0;
}
