//! memory: the Internet checksum of the input.

#[unsafe(no_mangle)]
extern "C" fn checksum(input: *const u8, length: u64, _output: *mut u8) -> u64 {
    // SAFETY: the context passes input of this length.
    let input = unsafe { crate::bytes(input, length) };
    let (pairs, rest) = input.as_chunks::<2>();
    let mut sum: u64 = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum();
    if let [last] = rest {
        sum += u64::from(*last) << 8;
    }
    for _ in 0..4 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !sum & 0xffff
}
