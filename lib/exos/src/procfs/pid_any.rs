//! Files of `/proc` that tell of any process: from its public page, where it says who it is, and from the kernel's
//! record of its environment, where it cannot lie.

use super::smaps;
use crate::process::current::process;
use crate::process::thread::Thread;
use crate::process_table::{ProcessInfo, is_runnable};
use crate::terminal;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::address_map::{PAGE_SIZE, STACK_TOP};
use runtime::address_space::Access;
use runtime::window::Window;
use runtime::{EnvironmentId, PageNumber, exposed};
use unix_core::process::capabilities::{ALL, Capabilities};
use unix_core::process::exit_status::Change;

/// The files.
pub(super) const FILES: [&str; 5] = ["cmdline", "comm", "stat", "statm", "status"];
/// Nanoseconds in a tick.
const TICK: u64 = 10_000_000;

/// What a file says; `None`: there is no such file.
pub(super) fn text(other: &ProcessInfo, rest: &[&str]) -> Option<Vec<u8>> {
    let name = String::from_utf8_lossy(&other.name).into_owned();
    let text = match rest {
        ["comm"] => format!("{name}\n"),
        ["cmdline"] if other.ended => return Some(Vec::new()),
        ["cmdline"] => return Some(other.arguments.clone()),
        ["stat"] => statistics(other, &name),
        ["statm"] if other.number == process().number() => smaps::statm(),
        ["statm"] => {
            let pages = pages(other.environment);
            format!("{pages} {pages} 0 0 0 {pages} 0\n")
        }
        ["status"] => status(other, &name),
        _ => return None,
    };
    Some(text.into_bytes())
}

fn state(other: &ProcessInfo) -> (char, &'static str) {
    match Change::from_word(other.change) {
        _ if other.ended => ('Z', "Z (zombie)"),
        Some(Change::Stopped(_)) => ('T', "T (stopped)"),
        _ if is_runnable(other.environment) => ('R', "R (running)"),
        _ => ('S', "S (sleeping)"),
    }
}

/// Pages on a process's account.
fn pages(number: u64) -> u64 {
    exposed::environment(EnvironmentId(number)).map_or(0, |info| info.budget[0].used.load(Relaxed))
}

/// Time that a process ran in the program and in the library. Of the own one the library knows both.
fn times(other: &ProcessInfo) -> [u64; 2] {
    if other.number == process().number() {
        return process().usage().times();
    }
    [exposed::environment(EnvironmentId(other.environment)).map_or(0, |info| info.time.load(Relaxed)), 0]
}

/// The foreground group of the terminal that controls a process; -1: there is none.
fn foreground(other: &ProcessInfo) -> i64 {
    let [device, page] = other.terminal;
    let window = (device != 0).then(|| Window::open(&[PageNumber(page)], process().session_key, Access::READ));
    match window {
        Some(Ok(window)) => terminal::foreground_in(window.words()) as i64,
        _ => -1,
    }
}

/// The 52 fields of proc(5), those that have no meaning here 0.
fn statistics(other: &ProcessInfo, name: &str) -> String {
    let [program, library] = times(other);
    let pages = pages(other.environment) as i64;
    let nice = 20 - other.attributes.priority as i64;
    let [pending, blocked, ignored, caught] = other.signals.map(|set| (set & 0x7fff_ffff) as i64);
    let mut fields = [0i64; 52];
    let mut set = |number: usize, value: i64| fields[number - 1] = value;
    let descent = [(4, other.parent), (5, other.group), (6, other.session), (7, other.terminal[0])];
    descent.into_iter().for_each(|(number, value)| set(number, value as i64));
    set(8, foreground(other));
    set(28, (STACK_TOP - PAGE_SIZE) as i64);
    set(14, (program / TICK) as i64);
    set(15, (library / TICK) as i64);
    let schedule = [(18, 20 + nice), (19, nice), (20, other.threads as i64), (22, (other.start / TICK) as i64)];
    let memory = [(23, pages * PAGE_SIZE as i64), (24, pages), (25, i64::MAX)];
    let signals = [(31, pending), (32, blocked), (33, ignored), (34, caught), (38, 17)];
    schedule.into_iter().chain(memory).chain(signals).for_each(|(number, value)| set(number, value));
    let rest: Vec<String> = fields[3..].iter().map(|field| format!("{field}")).collect();
    format!("{} ({name}) {} {}\n", other.number, state(other).0, rest.join(" "))
}

/// The thread of the running process that a record is of; its first thread stands for the process.
fn own_thread(other: &ProcessInfo) -> Option<&'static Thread> {
    let threads = process().threads.lock();
    threads.iter().copied().find(|thread| thread.shown_number() == other.number)
}

/// What only a process itself knows to tell in its status: its other groups, its memory, its capabilities.
fn details(other: &ProcessInfo) -> [String; 3] {
    let own = own_thread(other);
    let lines = |sets: Capabilities, renounced: bool| {
        format!(
            "CapInh:\t{:016x}\nCapPrm:\t{:016x}\nCapEff:\t{:016x}\nCapBnd:\t{:016x}\nCapAmb:\t{:016x}\n\
             NoNewPrivs:\t{}\nSeccomp:\t0\n",
            sets.inheritable,
            sets.permitted,
            sets.effective,
            sets.bounding,
            sets.ambient,
            u8::from(renounced),
        )
    };
    let Some(thread) = own else {
        let kilobytes = pages(other.environment) * PAGE_SIZE / 1024;
        let memory = ["VmPeak", "VmSize", "VmRSS"].map(|name| format!("{name}:\t{kilobytes:>8} kB\n")).concat();
        let all = if other.user[1] == 0 { ALL } else { 0 };
        let sets = Capabilities { effective: all, permitted: all, ..Capabilities::default() };
        return [String::new(), memory, lines(sets, false)];
    };
    let identity = process().attributes.credentials.of(&thread.attributes);
    let groups = identity.groups.all().iter().map(|group| format!("{group} ")).collect();
    let sets = process().attributes.capabilities_of(&thread.attributes);
    [groups, smaps::status(), lines(sets, identity.no_new_privileges)]
}

/// Real, effective and saved number and that for files, of users and of groups. Of others no more is shown than the
/// first two.
fn numbers(other: &ProcessInfo) -> [String; 2] {
    let line = |[real, effective, saved, on_files]: [u32; 4]| format!("{real}\t{effective}\t{saved}\t{on_files}");
    let Some(thread) = own_thread(other) else {
        return [other.user, other.groups].map(|[real, effective]| line([real, effective, effective, effective]));
    };
    let identity = process().attributes.credentials.of(&thread.attributes);
    let on_files = identity.acting_on_files();
    let four = [(identity.user, on_files.uid), (identity.group, on_files.gid)];
    four.map(|(three, on_files)| line([three.real, three.effective, three.saved, on_files]))
}

fn status(other: &ProcessInfo, name: &str) -> String {
    let (number, parent) = (other.number, other.parent);
    let group = if own_thread(other).is_some() { process().number() } else { number };
    let [groups, memory, capabilities] = details(other);
    let [users, groups_acting] = numbers(other);
    let [pending, blocked, ignored, caught] = other.signals;
    format!(
        "Name:\t{name}\nUmask:\t0022\nState:\t{}\nTgid:\t{group}\nNgid:\t0\nPid:\t{number}\nPPid:\t{parent}\n\
         TracerPid:\t0\nUid:\t{users}\nGid:\t{groups_acting}\nFDSize:\t64\nGroups:\t{groups}\n\
         {memory}Threads:\t{}\n\
         SigPnd:\t{:016x}\nShdPnd:\t{pending:016x}\nSigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\n\
         SigCgt:\t{caught:016x}\n{capabilities}",
        state(other).1,
        other.threads,
        0,
    )
}
