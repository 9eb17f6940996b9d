//! What the session tells the first process: a few words and the command, in pages that it can only read.

use crate::pipe::ring::CAPACITY;
use alloc::vec::Vec;

/// Pages of a terminal.
pub const TERMINAL_PAGES: usize = 4;
/// Pages of the pipe that carries standard input.
pub const PIPE_PAGES: usize = 1 + (CAPACITY / 4096) as usize;
/// Word: environment of the server of the file system.
pub const SERVER_WORD: usize = 0;
/// Word: environment that holds the unused budget.
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
/// Word: access list of the publicly readable pages of a process of user 0.
pub const PUBLIC_WORD: usize = 8;
/// Words: pages of the terminal; 0 where there is none.
pub const TERMINAL_WORD: usize = 9;
/// Words: pages of the pipe.
pub const PIPE_WORD: usize = TERMINAL_WORD + TERMINAL_PAGES;
/// Word: environment that this one is the successor of; 0: it is the first process. What follows is for those that go
/// on.
pub const PREDECESSOR_WORD: usize = PIPE_WORD + PIPE_PAGES;
/// Word: environment of the parent.
pub const PARENT_WORD: usize = PREDECESSOR_WORD + 1;
/// Word: node of the program.
pub const PROGRAM_WORD: usize = PREDECESSOR_WORD + 2;
/// Word: node of the bundle (`process::exec_state`).
pub const BUNDLE_WORD: usize = PREDECESSOR_WORD + 3;
/// Word: bytes of the bundle.
pub const BUNDLE_BYTES_WORD: usize = PREDECESSOR_WORD + 4;
/// How many words there are.
pub const WORDS: usize = BUNDLE_BYTES_WORD + 1;
/// Offset of the command.
pub const COMMAND_OFFSET: usize = 512;

const _: () = assert!(WORDS * 8 <= COMMAND_OFFSET);

/// The bytes of the record; the words are those before the command, in their order.
pub fn build(words: &[u64; WORDS], command: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(COMMAND_OFFSET, 0);
    bytes.extend_from_slice(command);
    bytes
}
