//! memory: sums numbers written seven bits a byte.

#[unsafe(no_mangle)]
extern "C" fn leb128(input: *const u8, length: u64, _output: *mut u8) -> u64 {
    // SAFETY: the context passes input of this length.
    let input = unsafe { crate::bytes(input, length) };
    let (mut sum, mut number, mut shift) = (0u64, 0u64, 0u32);
    for &byte in input {
        number |= u64::from(byte & 0x7f) << (shift & 63);
        shift += 7;
        if byte & 0x80 == 0 {
            sum = sum.wrapping_add(number);
            (number, shift) = (0, 0);
        }
    }
    sum
}
