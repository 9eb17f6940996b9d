//! The machine's terminal: what the host types goes through the line discipline, and comes out as echo, as signals for
//! the foreground process group, and as cells for readers.

use crate::boot::{Session, Source};
use alloc::vec::Vec;
use exos::process_table::ProcessTable;
use exos::terminal::Terminal;
use exos::wait;
use linux_raw_sys::general as linux;
use runtime::predicate::Term;
use runtime::{Kind, channel};
use unix_core::signal::pending::from_system;

/// Bytes that go through the discipline at a time.
const AT_ONCE: usize = 256;

/// Types what waits, as far as readers have room. Behind a reader who does not read, what interrupts still comes
/// through.
pub(super) fn type_bytes(sight: ProcessTable, terminal: &Terminal, waiting: &mut Vec<u8>) {
    while !waiting.is_empty() {
        let some = waiting.len().min(AT_ONCE);
        if terminal.room() <= some && !jump_to_signal(terminal, waiting) {
            return;
        }
        let some = waiting.len().min(AT_ONCE);
        let typed = terminal.type_bytes(&waiting[..some], |screen| channel::send(Kind::Output, screen));
        waiting.drain(..some);
        for signal in typed.signals {
            signal_foreground(sight, terminal, signal);
        }
        wait::kick_idle();
    }
}

/// True when readers have room for what is typed next.
pub(super) fn room_term(terminal: &Terminal, waiting: &[u8]) -> Term {
    terminal.room_to_type(waiting.len().min(AT_ONCE))
}

/// Drops what waits before a character that interrupts; it would be dropped anyway.
fn jump_to_signal(terminal: &Terminal, waiting: &mut Vec<u8>) -> bool {
    let modes = terminal.modes();
    if !modes.has_local(linux::ISIG) || modes.has_local(linux::NOFLSH) {
        return false;
    }
    let interrupts = |byte: &u8| [linux::VINTR, linux::VQUIT, linux::VSUSP].iter().any(|index| modes.is(*byte, *index));
    let found = waiting.iter().position(interrupts);
    if let Some(at) = found {
        waiting.drain(..at);
    }
    found.is_some()
}

/// The host's window has this size: `u16` columns, `u16` rows.
pub(super) fn set_size(session: &Session, payload: &[u8]) {
    let Source::Terminal(terminal) = &session.input else { return };
    let &[a, b, c, d, ..] = payload else { return };
    let (columns, rows) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
    if terminal.set_size([rows, columns, 0, 0]) {
        signal_foreground(session.sight(), terminal, linux::SIGWINCH);
    }
}

/// The host's keyboard is gone.
pub(super) fn hang_up(sight: ProcessTable, terminal: &Terminal) {
    terminal.hang_up();
    wait::kick_idle();
    if let Some(leader) = sight.find(terminal.session()) {
        let _ = sight.send(&leader, &from_system(linux::SIGHUP));
    }
    signal_foreground(sight, terminal, linux::SIGHUP);
    signal_foreground(sight, terminal, linux::SIGCONT);
}

fn signal_foreground(sight: ProcessTable, terminal: &Terminal, signal: u32) {
    let group = terminal.foreground();
    if group != 0 {
        // A group that is empty by now needs no signal.
        let _ = sight.send_to_group(group, &from_system(signal));
    }
}
