//! Job control: which processes may read from a terminal, write to it and change it (POSIX.1-2017, 11.1.4).

use super::pty_master::forget;
use super::{Terminal, controlling_terminal};
use crate::attributes::attributes;
use crate::descriptor::fd_pins::descriptors;
use crate::descriptor::object::Object;
use crate::hw::domain::domain;
use crate::process_table::{self, ProcessInfo, controls_member, is_orphaned};
use crate::server::client;
use crate::signal;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::process::public_page as public;
use unix_core::signal::pending::from_system;
use unix_core::signal::set::bit;

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// To read.
    Read,
    /// To write, or to change modes.
    Write,
}

/// Waits until the running process may do something to a terminal. A process in the background of its controlling
/// terminal is stopped, if it does not refuse.
pub fn wait_for_turn(terminal: &Terminal, attempt: Attempt) -> Result<()> {
    while is_in_background(terminal) {
        let signal = match attempt {
            Attempt::Read => linux::SIGTTIN,
            Attempt::Write => linux::SIGTTOU,
        };
        let refuses = signal::thread_signals().blocked() & bit(signal) != 0
            || signal::signal_state().actions.lock().ignores(signal);
        match attempt {
            Attempt::Read if refuses => return Err(Errno::EIO),
            Attempt::Write if refuses => return Ok(()),
            _ => {}
        }
        let group = signal::signal_state().group();
        if is_orphaned(group) {
            return Err(Errno::EIO);
        }
        let _ = process_table::sight().send_to_group(group, &from_system(signal));
        if signal::handle_non_handler_signals() {
            return Err(Errno::EINTR);
        }
    }
    Ok(())
}

/// Whether the terminal controls the running process, which is not in its foreground group.
fn is_in_background(terminal: &Terminal) -> bool {
    controls(terminal) && terminal.foreground() != signal::signal_state().group()
}

/// Whether this is the terminal that controls the running process.
pub fn controls(terminal: &Terminal) -> bool {
    terminal.session() == attributes().session.load(Relaxed)
}

/// What members of a group get that nothing controls any more. A foreground group whose leader of the session ends gets
/// the first of them alone, as on Linux.
pub const HANG_UP: [u32; 2] = [linux::SIGHUP, linux::SIGCONT];

/// The running process ends: with a session's leader the machine's own terminal is gone for all who had it open. A
/// process that has a pseudo-terminal open keeps it, as on Linux: what was left in the background can still print.
pub fn process_ends() {
    if let Some(terminal) = give_control_up(&[linux::SIGHUP]).filter(|terminal| terminal.node().is_none()) {
        terminal.end_session();
    }
    set_controlling(None);
}

/// A session's leader leaves its terminal: that controls no session, and its foreground group gets these signals.
pub fn give_control_up(signals: &[u32]) -> Option<Terminal> {
    let terminal = controlling_terminal().lock().clone()?;
    if attributes().session.load(Relaxed) != domain().number() || !controls(&terminal) {
        return None;
    }
    let foreground = terminal.foreground();
    terminal.set_session(0);
    terminal.set_foreground(0);
    if foreground != 0 {
        send_all(foreground, signals);
    }
    Some(terminal)
}

/// The terminal that controls the running process is another one now, or none. The process holds its node.
pub fn set_controlling(terminal: Option<Terminal>) {
    let hold = |terminal: &Option<Terminal>, hold: bool| {
        if let Some(node) = terminal.as_ref().and_then(Terminal::node) {
            client::files().lock().hold(node, hold);
        }
    };
    hold(&terminal, true);
    let before = core::mem::replace(&mut *controlling_terminal().lock(), terminal);
    publish();
    hold(&before, false);
    if let Some(before) = before.filter(|before| !is_used(before)) {
        forget(&before);
    }
}

/// Publishes which terminal controls the running process.
pub fn publish() {
    let terminal = controlling_terminal().lock().clone();
    let shown = terminal.map_or([0; 2], |terminal| [terminal.device(), terminal.pages()[0].0]);
    for (index, word) in shown.into_iter().enumerate() {
        domain().public_word(public::TERMINAL + index).store(word, Release);
    }
}

/// Whether the running process sees a terminal by this window still.
pub fn is_used(terminal: &Terminal) -> bool {
    let is_it = |object: &Object| matches!(object, Object::Terminal(other) if other == terminal);
    descriptors().has_open(|description| is_it(&description.object)) || is_controlling(terminal)
}

/// Whether the running process knows a terminal as the one that controls it.
pub fn is_controlling(terminal: &Terminal) -> bool {
    controlling_terminal().lock().as_ref() == Some(terminal)
}

/// No process has the master of a pseudo-terminal any more: the leader of the session that it controls hangs up.
pub fn master_ends(terminal: &Terminal) {
    let leader = terminal.session();
    terminal.set_session(0);
    terminal.set_foreground(0);
    if let Some(leader) = process_table::find(leader).filter(|leader| leader.number != 0) {
        for signal in [linux::SIGHUP, linux::SIGCONT] {
            // A leader that has gone meanwhile needs no signal.
            let _ = process_table::sight().send(&leader, &from_system(signal));
        }
    }
}

/// Sends a signal to the foreground group of a terminal, if there is one.
pub fn signal_foreground(terminal: &Terminal, signal: u32) {
    if terminal.foreground() != 0 {
        // A group that is empty by now needs no signal.
        let _ = process_table::sight().send_to_group(terminal.foreground(), &from_system(signal));
    }
}

/// Groups that are orphaned by the end of the running process, its own or one of its children's, hang up where a
/// child is a stopped member.
pub fn orphan_groups(children: &[(u64, bool)]) {
    let mut groups: Vec<u64> = children.iter().filter(|(_, stopped)| *stopped).map(|(group, _)| *group).collect();
    groups.sort_unstable();
    groups.dedup();
    let (number, own) = (domain().number(), signal::signal_state().group());
    let everybody: Vec<ProcessInfo> = if groups.is_empty() { Vec::new() } else { process_table::all() };
    let (ending, others): (Vec<ProcessInfo>, Vec<ProcessInfo>) =
        everybody.into_iter().partition(|other| other.number == number);
    for group in groups {
        // Its own group is orphaned by its end only if it was what kept that from being so.
        let is_bereaved = group != own || ending.iter().any(|ending| controls_member(&others, ending));
        let mut members = others.iter().filter(|other| other.group == group);
        if is_bereaved && !members.any(|member| controls_member(&others, member)) {
            send_all(group, &HANG_UP);
        }
    }
}

fn send_all(group: u64, signals: &[u32]) {
    for signal in signals {
        let _ = process_table::sight().send_to_group(group, &from_system(*signal));
    }
}
