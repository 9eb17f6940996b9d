//! owns: a count, then that many extents.

unsafe extern "C" {
    fn own_blocks(first: u64, count: u64) -> u64;
}

#[unsafe(no_mangle)]
extern "C" fn extents(block: *const u8, _type: u64) -> u64 {
    // SAFETY: a block has 4,096 bytes, and any bytes are words.
    let words = unsafe { &*block.cast::<[u32; 1024]>() };
    let (pairs, _) = words.as_chunks::<2>();
    let Some(([count, _], extents)) = pairs.split_first() else { return 1 };
    for [first, length] in extents.iter().take(*count as usize) {
        if !(1..=1 << 20).contains(length) {
            return 1;
        }
        // SAFETY: the helper takes any first block and this range of lengths.
        unsafe { own_blocks(u64::from(*first), u64::from(*length)) };
    }
    0
}
