//! Terminals: the pages that the processes of a session share. The line discipline and the modes are in
//! `unix_core::terminal`.
//!
//! A terminal lies between relatives who can only hurt each other (DESIGN.md §5, home b). Each holder of the key may
//! type, read, and change the modes, and each checks what it finds. The session feeds the machine's own terminal: it
//! runs the discipline on what the host sends. The holder of the `master` (pty(7)) feeds a pseudo-terminal, and the
//! server keeps its name and pages. Job control is the readers' and writers' affair.

/// Name of the machine's terminal.
pub const PATH: &[u8] = b"/dev/console";

pub mod control;
pub mod job_control;
mod packet;
pub mod pty_master;
mod read;
mod tty_state;
mod write;
pub use tty_state::*;

use crate::hw::current::{Holds, Word, record, word};
use runtime::lock::Lock;

impl Holds for Word<{ word::TERMINAL }> {
    type Record = Lock<Option<Terminal>>;
}

/// The terminal that controls the running process, if there is one.
#[inline]
pub fn controlling_terminal() -> &'static Lock<Option<Terminal>> {
    record::<{ word::TERMINAL }>()
}
