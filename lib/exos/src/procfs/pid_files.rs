//! Table of files that a process's library makes of little: one row a file.
//!
//! A fixed text is what Linux writes for a process that does not use the facility.

use super::{DIRECTORY, Entry, FILE, LINK, maps, mountinfo, named, reachable};
use crate::process::current::process;
use alloc::format;
use alloc::string::String;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::{EnvironmentId, exposed};
use unix_core::procfs::mounts;
use unix_core::signal::frame::Information;
use unix_core::signal::timer::{Clock, Created};

/// Name, permissions, and function that makes the text.
const FILES: [(&str, u32, fn() -> String); 16] = [
    // CPUs do not count the time of wide vectors.
    ("arch_status", 0o444, String::new),
    // Schedulers of ExOS group no sessions.
    ("autogroup", 0o444, String::new),
    ("clear_refs", 0o200, String::new),
    ("cpuset", 0o444, || String::from("/\n")),
    ("io", 0o400, transferred),
    // What lies in these two is read where it is: see `live_files`.
    ("mem", 0o600, String::new),
    ("mountstats", 0o400, mount_statistics),
    ("numa_maps", 0o444, super::smaps::numa_maps),
    ("pagemap", 0o400, String::new),
    ("projid_map", 0o444, || String::from("         0          0 4294967295\n")),
    ("sched", 0o444, schedule),
    ("schedstat", 0o444, schedule_statistics),
    // A process has no stack in the kernel.
    ("stack", 0o400, String::new),
    // The process that answers runs.
    ("syscall", 0o400, || String::from("running\n")),
    ("timens_offsets", 0o444, || String::from("monotonic           0         0\nboottime            0         0\n")),
    ("timers", 0o444, timers),
];
/// Files of security modules in the folder `attr`.
const ATTRIBUTES: [&str; 6] = ["current", "exec", "fscreate", "keycreate", "prev", "sockcreate"];

/// Names of the files and folders.
pub(super) fn names() -> impl Iterator<Item = (String, u32)> {
    let files = FILES.iter().map(|(name, ..)| (String::from(*name), FILE));
    files.chain(["attr", "map_files"].map(|name| (String::from(name), DIRECTORY)))
}

/// What lies at a path below the folder of the process; `None`: nothing of this table.
pub(super) fn entry(rest: &[&str]) -> Option<Result<Entry>> {
    match rest {
        ["attr"] => Some(Ok(Entry::Directory(named(ATTRIBUTES.into_iter(), |_| FILE)))),
        ["attr", name] if ATTRIBUTES.contains(name) => Some(Ok(Entry::Text(Default::default()))),
        ["attr", ..] => Some(Err(Errno::ENOENT)),
        ["map_files"] => Some(Ok(Entry::Directory(maps::files().into_iter().map(|(name, _)| (name, LINK)).collect()))),
        ["map_files", wanted] => {
            let node = maps::files().into_iter().find(|(name, _)| name == wanted).map(|(_, node)| node);
            let path = |node| process().files.lock().shown_path_of(node).map(|path| Entry::Link(reachable(path)));
            Some(node.ok_or(Errno::ENOENT).and_then(path))
        }
        [name] => {
            let (.., make) = FILES.iter().find(|(there, ..)| there == name)?;
            Some(Ok(Entry::Text(make().into_bytes())))
        }
        _ => None,
    }
}

/// Permissions of a file with this name.
pub(super) fn mode(name: &str) -> Option<u32> {
    FILES.iter().find(|(there, ..)| *there == name).map(|(_, mode, _)| *mode)
}

/// CPU time in nanoseconds, and slices, that the kernel counted for the process's environment.
fn account() -> [u64; 2] {
    let info = exposed::environment(EnvironmentId(process().environment()));
    info.map_or([0; 2], |info| [info.time.load(Relaxed), info.slices.load(Relaxed)])
}

fn schedule() -> String {
    let [time, slices] = account();
    let name = process().program.lock().name.clone();
    let threads = process().threads.lock().iter().count();
    let head = format!("{} ({}, #threads: {threads})\n", String::from_utf8_lossy(&name), process().number());
    let (whole, rest) = (time / 1_000_000, time % 1_000_000);
    let line = |name: &str, value: String| format!("{name:<45}:{value:>21}\n");
    let rows = [("se.sum_exec_runtime", format!("{whole}.{rest:06}")), ("nr_switches", format!("{slices}"))];
    format!("{head}{}\n{}", "-".repeat(67), rows.map(|(name, value)| line(name, value)).concat())
}

/// What calls read and wrote. What the disk moves for files is not counted.
fn transferred() -> String {
    let [read, written, reads, writes] = process().transferred();
    let disk = "read_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n";
    format!("rchar: {read}\nwchar: {written}\nsyscr: {reads}\nsyscw: {writes}\n{disk}")
}

/// CPU time, time in a run queue, and slices. The kernel does not count the second.
fn schedule_statistics() -> String {
    let [time, slices] = account();
    format!("{time} 0 {slices}\n")
}

/// Timers of `timer_create`: number, signal, addressee, clock.
fn timers() -> String {
    let timers = process().alarms.timers.lock().created.clone();
    let each = timers.iter().enumerate().filter_map(|(id, created)| Some((id, (*created)?)));
    let text = |(id, created): (usize, Created)| {
        let clock = match created.clock {
            Clock::Wall => linux::CLOCK_REALTIME,
            Clock::Boot => linux::CLOCK_MONOTONIC,
            Clock::Program => linux::CLOCK_PROCESS_CPUTIME_ID,
            Clock::Thread(_) => linux::CLOCK_THREAD_CPUTIME_ID,
        };
        let Information { signal, value, .. } = created.information;
        let way = if signal == 0 { "none" } else { "signal" };
        let to = if created.thread == 0 { ("pid", process().number()) } else { ("tid", created.thread) };
        format!("ID: {id}\nsignal: {signal}/{value:016x}\nnotify: {way}/{}.{}\nClockID: {clock}\n", to.0, to.1)
    };
    each.map(text).collect()
}

/// One line a mount.
fn mount_statistics() -> String {
    let line = |line: &str| {
        let mut parts = line.split(' ');
        let (source, point, kind) = (parts.next()?, parts.next()?, parts.next()?);
        Some(format!("device {source} mounted on {point} with fstype {kind}\n"))
    };
    mounts::mounts(&mountinfo()).lines().filter_map(line).collect()
}
