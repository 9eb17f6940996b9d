//! Job control: who may read from a terminal, write to it and change it (POSIX.1-2017, 11.1.4).

use super::Terminal;
use crate::errno::{Errno, Result};
use crate::relatives::{self, Other};
use crate::signal;
use crate::signal::post::from_system;
use crate::signal::set::bit;
use crate::user_memory::current::{process, thread};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as linux;

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// To read.
    Read,
    /// To write, or to change modes.
    Write,
}

/// Waits until the running process may do something to a terminal: who is in the background of the terminal that
/// controls it is stopped, if it does not refuse.
pub fn wait_for_turn(terminal: &Terminal, attempt: Attempt) -> Result<()> {
    while is_in_background(terminal) {
        let signal = match attempt {
            Attempt::Read => linux::SIGTTIN,
            Attempt::Write => linux::SIGTTOU,
        };
        let refuses = thread().blocked() & bit(signal) != 0 || process().signals.lock().ignores(signal);
        match attempt {
            Attempt::Read if refuses => return Err(Errno::EIO),
            Attempt::Write if refuses => return Ok(()),
            _ => {}
        }
        let group = process().group();
        if is_orphaned(group) {
            return Err(Errno::EIO);
        }
        let _ = relatives::sight().send_to_group(group, &from_system(signal));
        if signal::settle() {
            return Err(Errno::EINTR);
        }
    }
    Ok(())
}

/// Whether the terminal controls the running process, which is not in its foreground group.
fn is_in_background(terminal: &Terminal) -> bool {
    let process = process();
    controls(terminal) && terminal.foreground() != process.group()
}

/// Whether this is the terminal that controls the running process.
pub fn controls(terminal: &Terminal) -> bool {
    terminal.session() == process().session.load(Relaxed)
}

/// Whether no member of a process group has a parent in the same session but in another group.
pub fn is_orphaned(group: u64) -> bool {
    let everybody = relatives::all();
    let members: Vec<&Other> = everybody.iter().filter(|other| other.group == group).collect();
    !members.iter().any(|member| controls_member(&everybody, member))
}

fn controls_member(everybody: &[Other], member: &Other) -> bool {
    let parent = everybody.iter().find(|other| other.number == member.parent);
    parent.is_some_and(|parent| parent.session == member.session && parent.group != member.group)
}

/// What a session's leader leaves when it ends: the terminal controls nobody, and its foreground group hangs up.
pub fn leader_ends() {
    let process = process();
    let Some(terminal) = process.terminal.lock().clone() else { return };
    if process.session.load(Relaxed) != process.number() || !controls(&terminal) {
        return;
    }
    let foreground = terminal.foreground();
    terminal.set_session(0);
    terminal.set_foreground(0);
    if foreground != 0 {
        hang_up_group(foreground);
    }
}

/// Groups of children that are orphaned by the end of the running process and have a stopped member hang up.
pub fn orphan_groups(children: &[(u64, bool)]) {
    let own = process().group();
    let mut groups: Vec<u64> =
        children.iter().filter(|(group, stopped)| *stopped && *group != own).map(|(group, _)| *group).collect();
    groups.sort_unstable();
    groups.dedup();
    let number = process().number();
    let everybody: Vec<Other> = if groups.is_empty() { Vec::new() } else { relatives::all() };
    let others: Vec<Other> = everybody.iter().filter(|other| other.number != number).cloned().collect();
    for group in groups {
        let mut members = others.iter().filter(|other| other.group == group);
        if !members.any(|member| controls_member(&others, member)) {
            hang_up_group(group);
        }
    }
}

fn hang_up_group(group: u64) {
    for signal in [linux::SIGHUP, linux::SIGCONT] {
        let _ = relatives::sight().send_to_group(group, &from_system(signal));
    }
}
