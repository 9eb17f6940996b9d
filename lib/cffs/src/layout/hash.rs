//! Hash of names: 64 bits, the top pairs of bits choose the child nodes.

/// Deepest level of a trie.
pub const MAX_LEVEL: usize = 23;

/// FNV-1a over the bytes, then two rounds of multiply and shift so that the top bits depend on all bytes.
pub fn of_name(name: &[u8]) -> u64 {
    let fnv = name
        .iter()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3));
    let mixed = (fnv ^ fnv >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Fingerprint in a sector's header; never 0, which marks a free entry.
pub fn fingerprint(hash: u64) -> u8 {
    (hash as u8).max(1)
}

/// Which child of a node at `level` a hash leads to.
pub fn child(hash: u64, level: usize) -> usize {
    (hash >> (62 - 2 * level) & 3) as usize
}

/// The prefix of a hash that a node at `level` stands for.
pub fn prefix(hash: u64, level: usize) -> u64 {
    if level == 0 { 0 } else { hash & u64::MAX << (64 - 2 * level) }
}
