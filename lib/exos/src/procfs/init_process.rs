//! Process 1 below `/proc`: the session's own environment, which adopts orphans.
//!
//! It runs a program of ExOS that no file system holds, so the link `exe` leads to a path without a file. Its three
//! descriptors are the console. It has no mappings of a process.

use super::{DIRECTORY, Entry, FILE, LINK, machine_entry, named, namespaces, pid_any, pid_self};
use crate::process::current::process;
use crate::process_table::ProcessInfo;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::process::prctl_state::{Attributes, Login};
use unix_core::process::rlimits::Rlimits;

pub(super) const NUMBER: u64 = runtime::entry::FIRST.0;
const NAME: &[u8] = b"init";
/// Where its program would lie.
const PROGRAM: &[u8] = b"/init";
const CONSOLE: &[u8] = b"/dev/console";
const DESCRIPTORS: [&str; 3] = ["0", "1", "2"];

/// A file or folder of process [`NUMBER`]; `ENOENT` for any other process.
pub(super) fn entry(number: u64, rest: &[&str]) -> Result<Entry> {
    let own = crate::process_table::find(process().number());
    let own = own.filter(|_| number == NUMBER).ok_or(Errno::ENOENT)?;
    let init = ProcessInfo {
        number: NUMBER,
        environment: NUMBER,
        parent: 0,
        reaps: true,
        gives_up: false,
        group: NUMBER,
        session: NUMBER,
        name: NAME.to_vec(),
        arguments: [NAME, b"\0"].concat(),
        user: [0; 2],
        groups: [0; 2],
        attributes: Attributes::default(),
        start: 0,
        terminal: [0; 2],
        threads: 1,
        signals: [0; 4],
        change: 0,
        ..own
    };
    match rest {
        [] => Ok(pid_self::folder()),
        ["mounts" | "mountinfo" | "net", ..] => machine_entry(rest),
        ["ns", of_folder @ ..] => namespaces::entry(of_folder),
        _ if let Some(text) = pid_any::text(&init, rest) => Ok(Entry::Text(text)),
        ["task"] => Ok(Entry::Directory(Vec::from([(format!("{NUMBER}"), DIRECTORY)]))),
        ["task", thread] if thread.parse() == Ok(NUMBER) => {
            let of_thread = |(name, _): &(String, u32)| name != "task";
            Ok(Entry::Directory(pid_self::folder_names().filter(of_thread).collect()))
        }
        ["task", thread, name, of_name @ ..] if thread.parse() == Ok(NUMBER) && *name != "task" => {
            entry(NUMBER, &[&[*name], of_name].concat())
        }
        ["limits"] => Ok(Entry::Text(pid_self::limits(&Rlimits::default()).into_bytes())),
        ["loginuid" | "sessionid"] => Ok(Entry::Text(Login::NONE.to_string().into_bytes())),
        [name, ..] if pid_self::has(name) && !process().may(linux::CAP_SYS_PTRACE) => Err(Errno::EACCES),
        _ => private_entry(rest),
    }
}

/// Files that only those see that may look into the process.
fn private_entry(rest: &[&str]) -> Result<Entry> {
    match rest {
        ["cwd" | "root"] => Ok(Entry::Link(Vec::from(b"/"))),
        ["exe"] => Ok(Entry::Link(PROGRAM.to_vec())),
        ["fd"] => Ok(Entry::Directory(named(DESCRIPTORS.into_iter(), |_| LINK))),
        ["fdinfo"] => Ok(Entry::Directory(named(DESCRIPTORS.into_iter(), |_| FILE))),
        ["fd", number] if DESCRIPTORS.contains(number) => Ok(Entry::Link(CONSOLE.to_vec())),
        ["fdinfo", number] if DESCRIPTORS.contains(number) => {
            Ok(Entry::Text(Vec::from(b"pos:\t0\nflags:\t0100002\nmnt_id:\t1\nino:\t1\n")))
        }
        ["cgroup"] => Ok(Entry::Text(Vec::from(b"0::/\n"))),
        ["oom_score" | "oom_score_adj"] => Ok(Entry::Text(Vec::from(b"0\n"))),
        [name] => match pid_self::folder_names().find(|(there, _)| there == name) {
            Some((_, DIRECTORY)) => Ok(Entry::Directory(Vec::new())),
            Some((_, FILE)) => Ok(Entry::Text(Vec::new())),
            _ => Err(Errno::ENOENT),
        },
        _ => Err(Errno::ENOENT),
    }
}
