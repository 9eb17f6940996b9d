//! memory: the FNV-1a hash of the input.

#[unsafe(no_mangle)]
extern "C" fn fnv(input: *const u8, length: u64, _output: *mut u8) -> u64 {
    // SAFETY: the context passes input of this length.
    let input = unsafe { crate::bytes(input, length) };
    input.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
