//! packet: the type of an Ethernet frame.

#[unsafe(no_mangle)]
extern "C" fn ethernet_type(packet: *const u8, _end: *const u8, length: u64) -> u64 {
    // SAFETY: the context passes a packet of this length.
    let packet = unsafe { crate::bytes(packet, length) };
    match packet.get(12..14) {
        Some(&[high, low]) => u64::from(high) << 8 | u64::from(low),
        _ => 0,
    }
}
