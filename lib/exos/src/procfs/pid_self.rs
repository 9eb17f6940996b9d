//! The folder of a process below `/proc`, as its own library makes it: for itself, and for others who ask.

use super::{
    DIRECTORY, Entry, FILE, LINK, machine_entry, maps, named, other_entry, pid_any, pid_files, reachable,
    read_descriptor, smaps, writable,
};
use crate::descriptor::object::Object;
use crate::hw::usercopy;
use crate::process::current::process;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use unix_core::process::rlimits::{Rlimits, UNLIMITED};
use vfs::mount::FIRST_TOLD;

/// Files that only the process itself can make, in addition to those of any process.
const OWN_FILES: [&str; 21] = [
    "auxv",
    "cgroup",
    "coredump_filter",
    "environ",
    "gid_map",
    "limits",
    "loginuid",
    "maps",
    "mountinfo",
    "mounts",
    "oom_adj",
    "oom_score",
    "oom_score_adj",
    "personality",
    "sessionid",
    "setgroups",
    "smaps",
    "smaps_rollup",
    "timerslack_ns",
    "uid_map",
    "wchan",
];
/// Its links and folders.
const OTHERS: [(&str, u32); 8] = [
    ("cwd", LINK),
    ("exe", LINK),
    ("fd", DIRECTORY),
    ("fdinfo", DIRECTORY),
    ("net", DIRECTORY),
    ("ns", DIRECTORY),
    ("root", LINK),
    ("task", DIRECTORY),
];

/// Names in the folder of any process, and their types.
pub(super) fn folder_names() -> impl Iterator<Item = (String, u32)> {
    let mut names = named(pid_any::FILES.into_iter().chain(OWN_FILES), |_| FILE);
    names.extend(OTHERS.map(|(name, kind)| (String::from(name), kind)));
    names.extend(pid_files::names());
    names.sort();
    names.into_iter()
}

/// The folder of any process.
pub(super) fn folder() -> Entry {
    Entry::Directory(folder_names().collect())
}

/// Whether the folder of any process has this name.
pub(super) fn has(name: &str) -> bool {
    folder_names().any(|(there, _)| there == name)
}

pub(super) fn own_entry(rest: &[&str]) -> Result<Entry> {
    let process = process();
    let text = |text: &str| Ok(Entry::Text(text.as_bytes().to_vec()));
    match rest {
        [] => Ok(folder()),
        ["exe"] => Ok(Entry::Link(executed_path())),
        ["cwd"] => {
            let here = process.fs.lock().directory;
            let gone = |_| process.files.lock().shown_path_of(here);
            Ok(Entry::Link(reachable(process.working_directory().or_else(gone)?)))
        }
        ["root"] => Ok(Entry::Link(b"/".to_vec())),
        ["fd"] => Ok(Entry::Directory(descriptors(LINK, 0, usize::MAX))),
        ["fdinfo"] => Ok(Entry::Directory(descriptors(FILE, 0, usize::MAX))),
        ["fd", number] => {
            let number = number.parse().map_err(|_| Errno::ENOENT)?;
            process.descriptors.description(number).map_err(|_| Errno::ENOENT)?;
            Ok(Entry::Descriptor(number))
        }
        ["fdinfo", number] => descriptor(number.parse().map_err(|_| Errno::ENOENT)?),
        ["cmdline"] => Ok(Entry::Text(command_line())),
        ["environ"] => Ok(Entry::Text(process.program.lock().environment.clone())),
        ["auxv"] => Ok(Entry::Text(process.program.lock().auxiliary.clone())),
        ["maps"] => Ok(Entry::Text(maps::text().into_bytes())),
        ["smaps"] => Ok(Entry::Text(smaps::smaps().into_bytes())),
        ["smaps_rollup"] => Ok(Entry::Text(smaps::rollup().into_bytes())),
        ["personality"] => text(&format!("{:08x}\n", process.attributes.prctl.lock().personality)),
        ["uid_map" | "gid_map"] => text("         0          0 4294967295\n"),
        ["setgroups"] => text("allow\n"),
        ["limits"] => Ok(Entry::Text(limits(&process.attributes.limits.lock()).into_bytes())),
        ["cgroup"] => text("0::/\n"),
        ["oom_score"] => text("0\n"),
        ["wchan"] => text("0"),
        ["mounts" | "mountinfo"] | ["net", ..] => machine_entry(rest),
        ["ns", of_folder @ ..] => super::namespaces::entry(of_folder),
        ["task"] => {
            let numbers =
                process.threads.lock().iter().map(|thread| thread.shown_number().to_string()).collect::<Vec<_>>();
            Ok(Entry::Directory(numbers.into_iter().map(|number| (number, DIRECTORY)).collect()))
        }
        ["task", number, of_thread @ ..] => thread_entry(number.parse().map_err(|_| Errno::ENOENT)?, of_thread),
        _ if let Some(found) = pid_files::entry(rest) => found,
        [name] if let Some(setting) = writable::text(name) => text(&setting),
        _ => other_entry(process.number(), rest),
    }
}

/// What the file of the program is called now.
fn executed_path() -> Vec<u8> {
    let process = process();
    let (path, node) = {
        let program = process.program.lock();
        (program.path.clone(), program.node)
    };
    process.files.lock().shown_path_of(node).map_or(path, reachable)
}

/// The arguments as they are in the program's memory, where it may have written what it wants to be called. One that
/// wrote over their end is called by what it wrote, to the NUL, into its environment too (proc(5), `setproctitle`).
fn command_line() -> Vec<u8> {
    let (at, arguments, both) = {
        let program = process().program.lock();
        let arguments = program.arguments.len();
        (program.arguments_at, arguments, arguments + program.environment.len())
    };
    let read = |bytes| usercopy::read_vec(at, bytes);
    match read(arguments) {
        Ok(now) if now.last().is_some_and(|last| *last != 0) => {
            let mut title = read(both).unwrap_or(now);
            title.truncate(title.iter().position(|byte| *byte == 0).map_or(title.len(), |end| end + 1));
            title
        }
        now => now.unwrap_or_default(),
    }
}

/// Names in a folder that lists the descriptors of this process, from a number on, `most` of them; `None`: the folder
/// is of another process.
pub(super) fn descriptors_in(path: &[u8], from: u64, most: usize) -> Option<Vec<(String, u32)>> {
    let path = core::str::from_utf8(path).ok()?;
    let (number, folder) = path.split_once('/')?;
    let folder = match folder.strip_prefix("task/") {
        Some(of_thread) => of_thread.split_once('/')?.1,
        None => folder,
    };
    match folder {
        _ if number.parse() != Ok(process().number()) => None,
        "fd" => Some(descriptors(LINK, from, most)),
        "fdinfo" => Some(descriptors(FILE, from, most)),
        _ => None,
    }
}

fn descriptors(kind: u32, from: u64, most: usize) -> Vec<(String, u32)> {
    let open = process().descriptors.table.lock();
    open.iter_from(from).take(most).map(|(number, _)| (number.to_string(), kind)).collect()
}

/// What `fdinfo` tells of a descriptor.
fn descriptor(number: u64) -> Result<Entry> {
    let process = process();
    let description = process.descriptors.description(number).map_err(|_| Errno::ENOENT)?;
    let closes = process.descriptors.table.lock().close_on_exec(number)?;
    let flags = description.flags() | if closes { linux_raw_sys::general::O_CLOEXEC } else { 0 };
    let status = super::status_of(&description).unwrap_or_default();
    let (node, mount) = (status.node, (status.place >> 32) + FIRST_TOLD);
    let more = match &description.object {
        Object::Other(other) => other.more_information(),
        _ => String::new(),
    };
    // Pipes and the like have no offset.
    let offset = if description.counts_events() { 0 } else { description.offset() };
    let text = format!("pos:\t{offset}\nflags:\t0{flags:o}\nmnt_id:\t{mount}\nino:\t{node}\n{more}");
    read_descriptor(number).map(|_| Entry::Text(text.into_bytes()))
}

/// A file of a thread: what is not the thread's own is the process's.
pub(super) fn thread_entry(number: u64, rest: &[&str]) -> Result<Entry> {
    let process = process();
    let found = process.threads.lock().iter().copied().find(|thread| thread.shown_number() == number);
    let found = found.ok_or(Errno::ENOENT)?;
    let environment = found.number();
    match rest {
        [] => {
            let Entry::Directory(mut names) = folder() else { return Err(Errno::EIO) };
            names.retain(|(name, _)| name != "task");
            Ok(Entry::Directory(names))
        }
        ["task", ..] => Err(Errno::ENOENT),
        ["comm" | "stat" | "status" | "statm"] => {
            let own = crate::process_table::find(process.number()).ok_or(Errno::ENOENT)?;
            let name = found.name();
            let text = pid_any::text(&crate::process_table::ProcessInfo { number, environment, name, ..own }, rest);
            text.map(Entry::Text).ok_or(Errno::ENOENT)
        }
        _ => own_entry(rest),
    }
}

/// A table of limits, in the order of their numbers.
pub(super) fn limits(limits: &Rlimits) -> String {
    const ROWS: [(&str, &str); 16] = [
        ("Max cpu time", "seconds"),
        ("Max file size", "bytes"),
        ("Max data size", "bytes"),
        ("Max stack size", "bytes"),
        ("Max core file size", "bytes"),
        ("Max resident set", "bytes"),
        ("Max processes", "processes"),
        ("Max open files", "files"),
        ("Max locked memory", "bytes"),
        ("Max address space", "bytes"),
        ("Max file locks", "locks"),
        ("Max pending signals", "signals"),
        ("Max msgqueue size", "bytes"),
        ("Max nice priority", ""),
        ("Max realtime priority", ""),
        ("Max realtime timeout", "us"),
    ];
    let told = |value: u64| if value == UNLIMITED { String::from("unlimited") } else { value.to_string() };
    let mut text = format!("{:<25} {:<20} {:<20} {:<10}\n", "Limit", "Soft Limit", "Hard Limit", "Units");
    for (resource, (name, unit)) in ROWS.iter().enumerate() {
        let [soft, hard] = limits.get(resource as u64).unwrap_or([UNLIMITED; 2]).map(told);
        text.push_str(&format!("{name:<25} {soft:<20} {hard:<20} {unit:<10}\n"));
    }
    text
}
