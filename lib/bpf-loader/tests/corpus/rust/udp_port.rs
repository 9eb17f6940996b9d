//! packet: the destination port of a UDP packet over IPv4, behind any options.

fn port(packet: &[u8]) -> Option<u64> {
    let header = packet.get(14..34)?;
    if packet.get(12..14)? != [8, 0] || header.get(9)? != &17 {
        return None;
    }
    let start = 14 + 4 * usize::from(header.first()? & 15);
    let ports = packet.get(start..start + 4)?;
    Some(u64::from(*ports.get(2)?) << 8 | u64::from(*ports.get(3)?))
}

#[unsafe(no_mangle)]
extern "C" fn udp_port(packet: *const u8, _end: *const u8, length: u64) -> u64 {
    // SAFETY: the context passes a packet of this length.
    port(unsafe { crate::bytes(packet, length) }).unwrap_or(0)
}
