//! The strong tests: generated expressions against libpcap's own compiler, hostile
//! texts, and each refusal. A failing run prints its seed; `CHITIN_SEED` repeats it,
//! and `CHITIN_FULL=1` runs the long ones.

mod classic_bpf;
mod generate;
mod libpcap;
mod meaning;
#[path = "../../../../mechanism/packet-filter/tests/support/mod.rs"]
mod packet_filter_support;
mod refusal;

/// One seed makes one run: from `CHITIN_SEED`, else a fixed one.
fn seed() -> u64 {
    let given = std::env::var("CHITIN_SEED").ok();
    let seed = given.map_or(0x5eed, |text| text.parse().expect("CHITIN_SEED is a decimal number"));
    println!("seed {seed}");
    seed
}

/// How many generated cases to run: `few`, or `many` under `CHITIN_FULL=1`.
fn cases(few: u64, many: u64) -> u64 {
    if std::env::var_os("CHITIN_FULL").is_some_and(|value| value == "1") { many } else { few }
}

/// Whether a filter's atoms accept a packet, by the plainest reading of what
/// packet-filter says atoms mean.
fn accepts(atoms: &[packet_filter::Atom], packet: &[u8]) -> bool {
    atoms.chunk_by(|one, next| one.conjunction == next.conjunction).any(|conjunction| {
        let mut base = 0;
        conjunction.iter().all(|atom| atom_holds(atom, packet, &mut base).unwrap_or(false))
    })
}

fn atom_holds(atom: &packet_filter::Atom, packet: &[u8], base: &mut usize) -> Option<bool> {
    let start = *base + atom.offset as usize;
    let bytes = packet.get(start..start + usize::from(atom.size))?;
    let value = bytes.iter().fold(0, |value, &byte| value << 8 | u32::from(byte)) & atom.mask;
    let inside = (atom.low..=atom.high).contains(&value);
    Some(match atom.compare {
        0 => value == atom.low,
        1 => value != atom.low,
        2 => inside,
        3 => !inside,
        _ => {
            *base += (value << atom.shift) as usize;
            *base <= packet.len()
        }
    })
}
