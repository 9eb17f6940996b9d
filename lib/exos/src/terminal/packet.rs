//! Packet mode: the master of a pseudo-terminal is told when its slave is flushed or held, or when the side that does
//! flow control changes (`TIOCPKT`, ioctl_tty(2)).

use super::tty_state::{Terminal, place};
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_raw_sys::general as linux;
use unix_core::terminal::termios::Modes;

/// What the first byte of a packet says (asm-generic/ioctls.h): data follow, or the sum of these events.
pub(super) mod event {
    /// Data follow.
    pub(in crate::terminal) const DATA: u8 = 0;
    /// What waits for the slave's readers was dropped.
    pub(in crate::terminal) const FLUSH_READ: u32 = 1;
    /// What waits for the master was dropped.
    pub(in crate::terminal) const FLUSH_WRITE: u32 = 2;
    /// Output is held.
    pub(in crate::terminal) const STOP: u32 = 4;
    /// Output resumes.
    pub(in crate::terminal) const START: u32 = 8;
    /// The usual characters do no flow control any more.
    pub(in crate::terminal) const NO_FLOW_CONTROL: u32 = 16;
    /// They do.
    pub(in crate::terminal) const FLOW_CONTROL: u32 = 32;
    /// The modes of a terminal whose master edits lines have changed.
    pub(in crate::terminal) const MODES: u32 = 64;
}

impl Terminal {
    /// Whether the master wants packets.
    pub fn has_packets(&self) -> bool {
        self.word(place::PACKET).load(Acquire) != 0
    }

    /// Whether the master is to get packets from now on.
    pub fn set_packets(&self, wanted: bool) {
        self.word(place::EVENTS).store(0, SeqCst);
        self.word(place::PACKET).store(u64::from(wanted), SeqCst);
    }

    /// Notes an event, instead of those in `opposite`.
    pub fn note_event(&self, event: u32, opposite: u32) {
        if self.has_packets() {
            self.word(place::EVENTS).fetch_and(!u64::from(opposite), SeqCst);
            self.word(place::EVENTS).fetch_or(u64::from(event), SeqCst);
            crate::wait::kick_idle();
        }
    }

    /// Records that output was held, or resumes.
    pub fn note_held(&self) {
        let (stop, start) = (event::STOP, event::START);
        let (event, opposite) = if self.is_held() { (stop, start) } else { (start, stop) };
        self.note_event(event, opposite);
    }

    /// Notes what a change of the modes means for the master.
    pub fn note_modes(&self, before: &Modes, after: &Modes) {
        let is_usual = |modes: &Modes| {
            let [stop, start] = [linux::VSTOP, linux::VSTART].map(|index| modes.character(index));
            modes.has_input(linux::IXON) && stop == 0o23 && start == 0o21
        };
        if is_usual(before) != is_usual(after) {
            let (now, past) = (event::FLOW_CONTROL, event::NO_FLOW_CONTROL);
            let (event, opposite) = if is_usual(after) { (now, past) } else { (past, now) };
            self.note_event(event, opposite);
        }
        if before.has_local(linux::EXTPROC) || after.has_local(linux::EXTPROC) {
            self.note_event(event::MODES, 0);
        }
    }

    /// Whether events wait for the master.
    pub fn has_events(&self) -> bool {
        self.word(place::EVENTS).load(Acquire) != 0
    }

    /// Takes the events that wait.
    pub fn take_events(&self) -> u8 {
        self.word(place::EVENTS).swap(0, SeqCst) as u8
    }
}
