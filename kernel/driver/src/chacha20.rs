//! The ChaCha20 block function (RFC 8439, section 2.3): what stretches a seed into random bytes.

/// Bytes of one block.
pub(crate) const BLOCK: usize = 64;

const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
const COLUMNS_AND_DIAGONALS: [[usize; 4]; 8] = [
    [0, 4, 8, 12],
    [1, 5, 9, 13],
    [2, 6, 10, 14],
    [3, 7, 11, 15],
    [0, 5, 10, 15],
    [1, 6, 11, 12],
    [2, 7, 8, 13],
    [3, 4, 9, 14],
];
const DOUBLE_ROUNDS: usize = 10;

/// The block of a key, a counter and a nonce.
pub(crate) fn block(key: &[u32; 8], counter: u32, nonce: &[u32; 3]) -> [u8; BLOCK] {
    let mut start = [0; 16];
    start[..4].copy_from_slice(&CONSTANTS);
    start[4..12].copy_from_slice(key);
    start[12] = counter;
    start[13..].copy_from_slice(nonce);
    let mut state = start;
    for _ in 0..DOUBLE_ROUNDS {
        COLUMNS_AND_DIAGONALS.iter().for_each(|place| quarter_round(&mut state, place));
    }
    let mut bytes = [0; BLOCK];
    for ((out, word), first) in bytes.chunks_exact_mut(4).zip(state).zip(start) {
        out.copy_from_slice(&word.wrapping_add(first).to_le_bytes());
    }
    bytes
}

fn quarter_round(state: &mut [u32; 16], &[a, b, c, d]: &[usize; 4]) {
    for (left, right) in [(16, 12), (8, 7)] {
        state[a] = state[a].wrapping_add(state[b]);
        state[d] = (state[d] ^ state[a]).rotate_left(left);
        state[c] = state[c].wrapping_add(state[d]);
        state[b] = (state[b] ^ state[c]).rotate_left(right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_test_vector_of_rfc_8439_section_2_3_2() {
        let key = core::array::from_fn(|word| u32::from_le_bytes(core::array::from_fn(|byte| (word * 4 + byte) as u8)));
        let expected = [
            0x10, 0xf1, 0xe7, 0xe4, 0xd1, 0x3b, 0x59, 0x15, 0x50, 0x0f, 0xdd, 0x1f, 0xa3, 0x20, 0x71, 0xc4, 0xc7, 0xd1,
            0xf4, 0xc7, 0x33, 0xc0, 0x68, 0x03, 0x04, 0x22, 0xaa, 0x9a, 0xc3, 0xd4, 0x6c, 0x4e, 0xd2, 0x82, 0x64, 0x46,
            0x07, 0x9f, 0xaa, 0x09, 0x14, 0xc2, 0xd7, 0x05, 0xd9, 0x8b, 0x02, 0xa2, 0xb5, 0x12, 0x9c, 0xd1, 0xde, 0x16,
            0x4e, 0xb9, 0xcb, 0xd0, 0x83, 0xe8, 0xa2, 0x50, 0x3c, 0x4e,
        ];
        assert_eq!(block(&key, 1, &[0x0900_0000, 0x4a00_0000, 0]), expected);
    }
}
