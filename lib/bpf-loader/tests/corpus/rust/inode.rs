//! owns: an inode with twelve direct blocks.

unsafe extern "C" {
    fn own_blocks(first: u64, count: u64) -> u64;
}

#[repr(C)]
struct Inode {
    size: u64,
    mode: u32,
    links: u32,
    direct: [u32; 12],
}

#[unsafe(no_mangle)]
extern "C" fn inode(block: *const u8, _type: u64) -> u64 {
    // SAFETY: a block has 4,096 bytes, which is enough for an inode, and any bytes are one.
    let inode = unsafe { &*block.cast::<Inode>() };
    if inode.mode == 0 || inode.links == 0 || inode.size == 0 {
        return 0;
    }
    for &block in inode.direct.iter().filter(|&&block| block != 0) {
        // SAFETY: the helper takes any two numbers, the second from 1 on.
        unsafe { own_blocks(u64::from(block), 1) };
    }
    1
}
