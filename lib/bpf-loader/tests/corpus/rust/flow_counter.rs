//! packet: counts packets by a hash of their addresses, in the region `state`.

unsafe extern "C" {
    static mut state: [u64; 512];
}

#[unsafe(no_mangle)]
extern "C" fn flow_counter(packet: *const u8, _end: *const u8, length: u64) -> u64 {
    // SAFETY: the context passes a packet of this length.
    let packet = unsafe { crate::bytes(packet, length) };
    let Some(addresses) = packet.get(26..34) else { return 0 };
    let hash = addresses.iter().fold(5381u32, |hash, &byte| hash.wrapping_mul(33) ^ u32::from(byte));
    // SAFETY: the region has 512 words, and nobody else runs meanwhile.
    unsafe {
        let counter = (&raw mut state).cast::<u64>().add((hash >> 23) as usize);
        *counter = (*counter).wrapping_add(1);
        *counter
    }
}
