//! Programs of the templates of these tests, in BPF, put together by hand.
//!
//! A metadata block has its owner, the first component of a key's name, at byte 8 of sector 0. Each of its sectors has
//! four entries of 8 bytes from byte 16 on: a block (0: none), and its template in the high byte.

use alloc::vec::Vec;

/// Slots of the templates: metadata, data, and programs that the kernel must refuse.
pub(crate) const DIRECTORY: u8 = 0;
pub(crate) const DATA: u8 = 1;
pub(crate) const OUTSIDE: u8 = 2;
pub(crate) const ENDLESS: u8 = 3;
/// Its owns program claims a fixed block in a sector of zeros.
pub(crate) const GREEDY: u8 = 4;
/// Its programs take as long as a transaction of four sectors and sixteen shown blocks may.
pub(crate) const HEAVY: u8 = 5;
/// Programs of row 63, which are quick on sectors of zeros. Where the first entry is not 0: this owns program does not
/// end,
pub(crate) const SLOW: u8 = 6;
/// and this one claims 80 blocks one by one.
pub(crate) const CLAIMING: u8 = 7;
/// Claims as many blocks as the sector says.
pub(crate) const LARGE: u8 = 8;
/// Has 600 instructions.
pub(crate) const LONG: u8 = 9;

/// Entries of a sector, and where they begin.
pub(crate) const ENTRIES: usize = 4;
pub(crate) const FIRST_ENTRY: usize = 16;
/// Where the owner stands.
pub(crate) const OWNER: usize = 8;

fn op(code: u8, destination: u8, source: u8, offset: i16, value: i32) -> [u8; 8] {
    let ([low, high], [a, b, c, d]) = (offset.to_le_bytes(), value.to_le_bytes());
    [code, destination | source << 4, low, high, a, b, c, d]
}

fn load(destination: u8, base: u8, offset: i16) -> [u8; 8] {
    op(0x79, destination, base, offset, 0)
}

fn set(destination: u8, value: i32) -> [u8; 8] {
    op(0xb7, destination, 0, 0, value)
}

fn copy(destination: u8, source: u8) -> [u8; 8] {
    op(0xbf, destination, source, 0, 0)
}

const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];

fn jump_equal(register: u8, value: i32, offset: i16) -> [u8; 8] {
    op(0x15, register, 0, offset, value)
}

/// Owns what the four entries name.
pub(crate) fn owns() -> Vec<u8> {
    owns_each(1).concat()
}

/// Owns eight blocks from each that the entries name on, in 470 instructions.
pub(crate) fn owns_heavy() -> Vec<u8> {
    let mut program = owns_each(8);
    let padding = 470 - program.len();
    program.splice(0..0, core::iter::repeat_n(set(0, 0), padding));
    program.concat()
}

/// Permits everything, in 60 instructions.
pub(crate) fn access_heavy() -> Vec<u8> {
    let mut program = alloc::vec![set(0, 1); 59];
    program.push(EXIT);
    program.concat()
}

fn owns_each(count: i32) -> Vec<[u8; 8]> {
    let mut program = alloc::vec![copy(6, 1)];
    for entry in 0..ENTRIES {
        program.extend([
            load(1, 6, (FIRST_ENTRY + 8 * entry) as i16),
            jump_equal(1, 0, 6),
            copy(3, 1),
            op(0x77, 3, 0, 0, 56),
            set(2, count),
            op(0x67, 1, 0, 0, 8),
            op(0x77, 1, 0, 0, 8),
            op(0x85, 0, 0, 0, 1),
        ]);
        // The jump leads behind the call.
        let at = program.len() - 7;
        program[at] = jump_equal(1, 0, 6);
    }
    program.extend([set(0, 0), EXIT]);
    program
}

/// Permits the owner of the one shown block, and all if it has none. A change is of the shown block alone.
pub(crate) fn access() -> Vec<u8> {
    let (request, scratch, block) = (1, 4, 5);
    [
        load(2, request, 8),
        jump_equal(2, -1, 13),
        load(3, block, OWNER as i16),
        jump_equal(3, 0, 3),
        load(2, request, 40),
        set(0, 0),
        op(0x5d, 3, 2, 6, 0),
        set(0, 1),
        op(0x7b, scratch, 0, 0, 0),
        load(2, request, 16),
        load(3, request, 80),
        op(0x1d, 2, 3, 2, 0),
        op(0x7b, scratch, 0, 8, 0),
        set(0, 1),
        EXIT,
        // The last run. A root is bound without a block.
        load(0, scratch, 0),
        load(2, request, 0),
        jump_equal(2, 1, 4),
        load(3, request, 72),
        op(0x55, 3, 0, 1, 0),
        set(0, 1),
        EXIT,
        // A transaction: one change, of the shown block.
        load(3, request, 64),
        jump_equal(3, 1, 2),
        set(0, 0),
        EXIT,
        load(3, scratch, 8),
        jump_equal(3, 0, 1),
        set(0, 0),
        EXIT,
    ]
    .concat()
}

/// Reads behind the sector.
pub(crate) fn outside() -> Vec<u8> {
    [load(0, 1, 508), EXIT].concat()
}

/// Does not end.
pub(crate) fn endless() -> Vec<u8> {
    [set(0, 0), op(0x05, 0, 0, -1, 0), EXIT].concat()
}

/// Claims block 400 whatever the sector holds.
pub(crate) fn greedy() -> Vec<u8> {
    [set(1, 400), set(2, 1), set(3, DATA.into()), op(0x85, 0, 0, 0, 1), set(0, 0), EXIT].concat()
}

/// Jumps in circles where the first entry is not 0.
pub(crate) fn slow() -> Vec<u8> {
    [load(2, 1, FIRST_ENTRY as i16), set(0, 0), jump_equal(2, 0, 1), op(0x05, 0, 0, -2, 0), EXIT].concat()
}

/// Claims blocks 600, 601, … where the first entry is not 0.
pub(crate) fn claiming() -> Vec<u8> {
    let mut program = alloc::vec![load(2, 1, FIRST_ENTRY as i16), set(0, 0), jump_equal(2, 0, 80 * 4)];
    for block in 600..680 {
        program.extend([set(1, block), set(2, 1), set(3, DATA.into()), op(0x85, 0, 0, 0, 1)]);
    }
    program.extend([set(0, 0), EXIT]);
    program.concat()
}

/// Claims from block 600 on as many as the first entry says, cut to 32 bits.
pub(crate) fn large() -> Vec<u8> {
    let begin = [load(2, 1, FIRST_ENTRY as i16), set(0, 0), jump_equal(2, 0, 4), set(1, 600), op(0x77, 2, 0, 0, 32)];
    [&begin[..], &[set(3, DATA.into()), op(0x85, 0, 0, 0, 1), set(0, 0), EXIT]].concat().concat()
}

/// Owns nothing, in 600 instructions.
pub(crate) fn long() -> Vec<u8> {
    let mut program = alloc::vec![set(0, 0); 599];
    program.push(EXIT);
    program.concat()
}
