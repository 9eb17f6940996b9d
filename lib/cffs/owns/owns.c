// Owns programs of C-FFS: which blocks one sector owns. `lib/cffs/src/template.rs` says the same in Rust, and a test
// compares both. After a change:
// clang -target bpf -mcpu=v3 -O2 -c owns.c -o owns.o
// for name in root node indirect; do llvm-objcopy -O binary --only-section=o.$name owns.o $name.bin; done
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long i64;

static u64 (*const own)(u64 first, u64 count, u64 template) = (void *)1;

#define NODE 1
#define INDIRECT 2
#define DATA 3
#define RESERVED 255
#define BLOCK 0xFFFFFFFFFFull
#define INLINE static inline __attribute__((always_inline))

// Inodes lie at multiples of four only.
INLINE u64 word(const u8 *at) { return *(const u32 *)at | (u64) * (const u32 *)(at + 4) << 32; }

INLINE void pointer(u64 value, u64 kind) {
    u64 block = value & BLOCK;
    if (block) own(block, 1, (i64)value < 0 ? RESERVED : kind);
}

INLINE void inode(const u8 *sector, u32 slot) {
    const u8 *at = sector + 508 - 128 * (slot + 1);
    u32 type = *(const u16 *)at >> 12;
    if (!(sector[9] >> slot & 1)) return;
    if (type == 4) {
        pointer(word(at + 72) & BLOCK, NODE);
        return;
    }
    if (type == 10) {
        if (word(at + 16) > 56) pointer(word(at + 72) & BLOCK, DATA);
        return;
    }
    if (type != 8) return;
    for (int i = 0; i < 4; i++) pointer(word(at + 72 + 8 * i), DATA);
    for (int i = 4; i < 7; i++) pointer(word(at + 72 + 8 * i) & BLOCK, INDIRECT);
}

__attribute__((section("o.root"))) u64 root(const u8 *sector) {
    inode(sector, 0);
    return 0;
}

__attribute__((section("o.node"))) u64 node(const u8 *sector) {
    if (sector[12] == 1)
        for (int i = 0; i < 4; i++) pointer(*(const u64 *)(sector + 32 + 8 * i) & BLOCK, NODE);
    inode(sector, 0);
    inode(sector, 1);
    inode(sector, 2);
    return 0;
}

__attribute__((section("o.indirect"))) u64 indirect(const u8 *sector) {
    u64 level = sector[502];
    if (level == 0) return 0;
    if (level == 1) {
#pragma clang loop unroll_count(2)
        for (int i = 0; i < 62; i++) pointer(*(const u64 *)(sector + 8 * i), DATA);
    } else {
#pragma clang loop unroll_count(2)
        for (int i = 0; i < 62; i++) pointer(*(const u64 *)(sector + 8 * i) & BLOCK, INDIRECT);
    }
    return 0;
}
