//! What the session tells every process of the host, and of the machine as a whole: words of a page that only the
//! session writes.

use super::pid_map::{self, PidMap};
use core::sync::atomic::AtomicU64;

/// Not 0 once the host reads no output of programs any more.
pub const OUTPUT_GONE: usize = 0;
/// Load averages of the last minute, five and fifteen minutes, as [`super::load`] has them.
pub const LOADS: usize = 1;
/// How often a client asked the session for a process: the server counts them.
pub const WISHES: usize = 4;
/// How many processes were sent SIGKILL: the server counts them.
pub const KILLS: usize = 5;
/// Where the table of processes with a successor environment begins.
pub const SUCCESSION: usize = 8;

/// That table.
pub fn succession(board: &[AtomicU64]) -> PidMap<'_> {
    PidMap(&board[SUCCESSION..SUCCESSION + pid_map::WORDS])
}
