//! What the session tells the first process: a few words and the command, in pages that it can only read.

use crate::pipe::ring::CAPACITY;
use alloc::vec::Vec;

/// Pages of a terminal.
pub const TERMINAL_PAGES: usize = 4;
/// Pages of the pipe that carries standard input.
pub const PIPE_PAGES: usize = 1 + (CAPACITY / 4096) as usize;
/// Word: environment of the guardian of the file system.
pub const GUARDIAN_WORD: usize = 0;
/// Word: environment that holds the budget nobody uses.
pub const BANK_WORD: usize = 1;
/// Word: page of the table that maps the ExOS image.
pub const IMAGE_TABLE_WORD: usize = 2;
/// Word: options, as bits of `process::option`.
pub const OPTIONS_WORD: usize = 3;
/// Word: bytes of the command.
pub const COMMAND_WORD: usize = 4;
/// Word: page of the board.
pub const BOARD_WORD: usize = 5;
/// Word: access list of what the whole session may read.
pub const READABLE_WORD: usize = 6;
/// Word: access list of what the whole session may read and write.
pub const WRITABLE_WORD: usize = 7;
/// Word: access list of what anybody may read of a process of user 0.
pub const PUBLIC_WORD: usize = 8;
/// Words: pages of the terminal; 0 where there is none.
pub const TERMINAL_WORD: usize = 9;
/// Words: pages of the pipe.
pub const PIPE_WORD: usize = TERMINAL_WORD + TERMINAL_PAGES;
/// How many words there are.
pub const WORDS: usize = PIPE_WORD + PIPE_PAGES;
/// Offset of the command.
pub const COMMAND_OFFSET: usize = 256;

const _: () = assert!(WORDS * 8 <= COMMAND_OFFSET);

/// The bytes of the record; the words are those before the command, in their order.
pub fn build(words: &[u64; WORDS], command: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(COMMAND_OFFSET, 0);
    bytes.extend_from_slice(command);
    bytes
}
