//! The longest run of one byte in a packet: a handler that rustc compiles for BPF.

#![no_std]

/// The length of the longest run of one byte in a packet, remembered in the state if it is a record.
#[unsafe(no_mangle)]
pub extern "C" fn longest_run(packet: *const u8, length: u64, state: &mut [u64; 8]) -> u64 {
    // SAFETY: the context passes a packet of this length.
    let packet = unsafe { core::slice::from_raw_parts(packet, length as usize) };
    let (mut longest, mut run, mut last) = (0, 0, None);
    for byte in packet {
        run = if last == Some(*byte) { run + 1 } else { 1 };
        last = Some(*byte);
        longest = u64::max(longest, run);
    }
    state[0] = state[0].max(longest);
    longest
}
