//! The reference: one filter against one packet, straight from the wire form.
//!
//! It shares no code with the canonical form, the merged structure or the compiler, so that it can
//! be their oracle. It believes the atoms: check them first.

use crate::atom::{Atom, Compare, conjunctions};

/// The first conjunction of the filter that holds for the packet.
#[must_use]
pub fn accepts(atoms: &[Atom], packet: &[u8]) -> Option<usize> {
    conjunctions(atoms).position(|conjunction| holds(conjunction, packet))
}

/// Whether every atom of one conjunction holds.
#[must_use]
pub fn holds(conjunction: &[Atom], packet: &[u8]) -> bool {
    let mut base = 0;
    conjunction.iter().all(|atom| atom_holds(atom, packet, &mut base))
}

fn atom_holds(atom: &Atom, packet: &[u8], base: &mut usize) -> bool {
    let Some(value) = load(packet, *base, atom) else { return false };
    let masked = value & atom.mask;
    match Compare::from_code(atom.compare) {
        Some(Compare::Equal) => masked == atom.low,
        Some(Compare::NotEqual) => masked != atom.low,
        Some(Compare::Within) => (atom.low..=atom.high).contains(&masked),
        Some(Compare::Outside) => !(atom.low..=atom.high).contains(&masked),
        Some(Compare::Shift) => {
            let wide = u64::from(masked);
            *base += if atom.shift < 0 { wide >> -atom.shift } else { wide << atom.shift } as usize;
            *base <= packet.len()
        }
        None => false,
    }
}

fn load(packet: &[u8], base: usize, atom: &Atom) -> Option<u32> {
    let start = base.checked_add(atom.offset as usize)?;
    let bytes = packet.get(start..start.checked_add(usize::from(atom.size))?)?;
    Some(match *bytes {
        [a] => u32::from(a),
        [a, b] => u32::from(u16::from_be_bytes([a, b])),
        [a, b, c, d] => u32::from_be_bytes([a, b, c, d]),
        _ => return None,
    })
}
