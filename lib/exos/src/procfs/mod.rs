//! `/proc`, made by the library of the reading process from what the kernel and the processes expose.
//!
//! - Of the machine: `system`, `machine_files`, `cpuinfo`, `disks`, `net` with its parts.
//! - Of processes: `pid_any` is about any process, `pid_self` and `pid_files` about this one. `writable` has what it
//!   sets by writing, `maps` and `smaps` its memory, `namespaces` its name spaces.
//! - `remote_read` has another process's library make what only that one knows.

mod foreign_descriptor;
mod init_process;
mod live_files;
mod machine;
mod maps;
mod namespaces;
mod open_status;
mod pid_any;
mod pid_files;
mod pid_self;
pub(crate) mod process_memory;
mod remote_answers;
mod remote_read;
mod smaps;
pub(crate) mod truncate_notify;
mod writable;

use foreign_descriptor::ForeignDescriptor;
use live_files::LiveFile;
use machine::{machine_files, system};
pub(crate) use open_status::status_of;
use pid_self::{own_entry, thread_entry};
pub(crate) use remote_read::answer;
pub(crate) use writable::write;

use crate::descriptor::object::{InPlace, Listing, Object, Text};
use crate::descriptor::open_file::OpenFile;
use crate::pipe::Side;
use crate::process::current::{process, thread};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::process::fs_context;
use unix_core::procfs::net_settings;
use unix_core::procfs::{Last, Way};
use vfs::inode::Status;
use vfs::superblock::PROC_VOLUME;

/// What lies behind a path below `/proc`.
enum Entry {
    /// A text.
    Text(Vec<u8>),
    /// A symbolic link.
    Link(Vec<u8>),
    /// A link to what a descriptor is open on.
    Descriptor(u64),
    /// A link to what a descriptor of another process is open on.
    Foreign(ForeignDescriptor),
    /// A link to a name space.
    Namespace(namespaces::Namespace),
    /// A directory: its names and their types.
    Directory(Vec<(String, u32)>),
}

/// The text of `/proc/self/mountinfo`, from what the server tells of the mount table.
fn mountinfo() -> String {
    let text = process().files.lock().mounts().unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// The rest of a path below `/proc` that leaves it, if it crosses a link.
pub(crate) fn lead_on(path: &[u8], last: Last) -> Result<Option<Way>> {
    let Ok(text) = core::str::from_utf8(path) else { return Ok(None) };
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    // With a slash behind it a link stands for the folder that it leads to.
    let is_folder = path.ends_with(b"/") || path.ends_with(b"/.");
    for end in 1..=parts.len() {
        if parts[end - 1] == ".." {
            return Ok(Some((None, upwards(&parts, end - 1))));
        }
        let is_last = end == parts.len();
        if is_last && last == Last::Keep && !is_folder {
            break;
        }
        let rest = parts[end..].join("/").into_bytes();
        match link(&parts[..end], is_last)? {
            Some(Entry::Link(target)) => return Ok(Some((None, onwards(&parts[..end - 1], &target, &rest)))),
            Some(Entry::Foreign(foreign)) if foreign.has_path() => {
                return Ok(Some((None, onwards(&[], &foreign.target, &rest))));
            }
            Some(Entry::Foreign(_)) if !is_last => return Err(Errno::ENOTDIR),
            Some(Entry::Descriptor(number)) if !is_last || last == Last::Node => {
                let description = process().descriptors.description(number).map_err(|_| Errno::ENOENT)?;
                return Ok(description.object.node().map(|node| (Some(node), rest)));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The path with the first `..` carried out. What that leads to is a folder, also where it is called by a link.
fn upwards(parts: &[&str], up: usize) -> Vec<u8> {
    let above = match up {
        0 => Vec::from([""]),
        _ => [&["", "proc"], &parts[..up - 1]].concat(),
    };
    let mut path = [&above, &parts[up + 1..]].concat().join("/");
    if up + 1 == parts.len() {
        path.push('/');
    }
    path.into_bytes()
}

/// A link's target with what follows it, from the folder of `/proc` that the link lies in.
fn onwards(folder: &[&str], target: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut path = Vec::new();
    if target.first() != Some(&b'/') {
        path.extend_from_slice(b"/proc/");
        path.extend_from_slice(folder.join("/").as_bytes());
        path.push(b'/');
    }
    path.extend_from_slice(target);
    if !rest.is_empty() {
        path.push(b'/');
        path.extend_from_slice(rest);
    }
    path
}

/// The link at a place, if one is there: what leads through `self` is its target at once.
fn link(parts: &[&str], is_last: bool) -> Result<Option<Entry>> {
    let is_link = match parts {
        ["self" | "thread-self"] => is_last,
        ["net" | "mounts"] => true,
        [_, "exe" | "cwd" | "root"] | [_, "fd" | "map_files", _] => true,
        [_, "task", _, "exe" | "cwd" | "root"] | [_, "task", _, "fd" | "map_files", _] => true,
        _ => false,
    };
    if is_link { find(parts.join("/").as_bytes()).map(Some) } else { Ok(None) }
}

const FILE: u32 = linux::S_IFREG;
const DIRECTORY: u32 = linux::S_IFDIR;
const LINK: u32 = linux::S_IFLNK;

/// The path of a folder below `/proc` that becomes a working directory.
///
/// # Errors
/// `ENOENT` and `ENOTDIR` as for `chdir`; `EACCES` for what is no folder of the library's.
pub fn folder(path: &[u8]) -> Result<Vec<u8>> {
    match find(path)? {
        Entry::Directory(_) => Ok(settled(path)),
        Entry::Text(_) | Entry::Link(_) | Entry::Namespace(_) | Entry::Foreign(_) => Err(Errno::ENOTDIR),
        Entry::Descriptor(_) => Err(Errno::EACCES),
    }
}

/// A path through the number of the process and not through `self`, so that it means the same to a child.
fn settled(path: &[u8]) -> Vec<u8> {
    let own = format!("{}", process().number()).into_bytes();
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let mut parts: Vec<&[u8]> = parts.collect();
    let of_thread = format!("{}/task/{}", process().number(), thread().shown_number()).into_bytes();
    match parts.as_mut_slice() {
        [first @ b"self", _, ..] => *first = &own,
        [first @ b"thread-self", _, ..] => *first = &of_thread,
        _ => {}
    }
    parts.join(&b'/')
}

/// Why nothing can be made at a path below `/proc`.
pub fn why_not_made(path: &[u8]) -> Errno {
    if find(path).is_ok() { Errno::EEXIST } else { Errno::ENOENT }
}

/// Why no file without a name can be made at a path below `/proc`.
pub fn why_not_unnamed(path: &[u8]) -> Errno {
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    let is_of_process = matches!(parts[..], [first] | [first, b"task", _] if first.iter().all(u8::is_ascii_digit))
        || parts[..] == [b"self"]
        || parts[..] == [b"thread-self"];
    match find(path) {
        // The folder of a process takes no change at all.
        Ok(_) if is_of_process => Errno::EPERM,
        Ok(entry) if is_directory(&entry) => Errno::EOPNOTSUPP,
        Ok(_) => Errno::ENOTDIR,
        Err(error) => error,
    }
}

/// Opens what lies at a path.
pub fn open(path: &[u8], flags: u32) -> Result<OpenFile> {
    let entry = find(path)?;
    writable::check_secret(path)?;
    match entry {
        _ if flags & linux::O_ACCMODE == linux::O_RDONLY => {}
        Entry::Descriptor(_) | Entry::Foreign(_) => {}
        Entry::Namespace(_) => return Err(Errno::EPERM),
        Entry::Text(_) if writable::can_be_set(path) => {}
        _ => return Err(Errno::EACCES),
    }
    if flags & linux::O_DIRECTORY != 0 && !is_directory(&entry) {
        return Err(Errno::ENOTDIR);
    }
    const LINK_ITSELF: u32 = linux::O_PATH | linux::O_NOFOLLOW;
    let path = settled(path);
    let object = match entry {
        Entry::Text(bytes) => {
            let in_place = LiveFile::at(&path).map(|file| Box::new(file) as Box<dyn InPlace>);
            Object::Text(Arc::new(Text::new(path, bytes, false).in_place(in_place)))
        }
        Entry::Link(_) | Entry::Descriptor(_) | Entry::Namespace(_) | Entry::Foreign(_)
            if flags & LINK_ITSELF == LINK_ITSELF =>
        {
            Object::Text(Arc::new(Text::new(path, Vec::new(), false)))
        }
        Entry::Descriptor(number) => {
            let description = process().descriptors.description(number).map_err(|_| Errno::ENOENT)?;
            return reopen(&description, flags);
        }
        Entry::Foreign(foreign) => return foreign.reopened(flags),
        Entry::Namespace(_) => Object::Text(Arc::new(Text::new(path, Vec::new(), true))),
        Entry::Link(_) => return Err(Errno::ELOOP),
        Entry::Directory(names) => Object::Listing(Arc::new(Listing { path, entries: listing(&names) })),
    };
    OpenFile::new(object, flags & !linux::O_CLOEXEC)
}

/// Whether a folder lies there: one of `/proc`, or one that a descriptor is open on.
fn is_directory(entry: &Entry) -> bool {
    match entry {
        Entry::Directory(_) => true,
        Entry::Descriptor(number) => {
            let description = process().descriptors.description(*number);
            description.is_ok_and(|open| matches!(open.object, Object::Directory { .. } | Object::Listing(_)))
        }
        Entry::Text(_) | Entry::Link(_) | Entry::Namespace(_) | Entry::Foreign(_) => false,
    }
}

/// Opens once more what a descriptor is open on.
fn reopen(description: &OpenFile, flags: u32) -> Result<OpenFile> {
    if matches!(description.object, Object::Other(_)) {
        return Err(Errno::ENXIO);
    }
    if let (Object::Pipe(pipe, _), linux::O_RDONLY | linux::O_WRONLY) = (&description.object, flags & 3) {
        let side = if flags & 3 == linux::O_RDONLY { Side::Read } else { Side::Write };
        let object = Object::Pipe(pipe.clone(), side);
        object.reopened();
        let fresh = OpenFile::new(object, flags & !linux::O_CLOEXEC)?;
        fresh.refer_object();
        return Ok(fresh);
    }
    if let Object::File { node } | Object::Directory { node } = description.object {
        // Anew, as what is asked for now, and by who asks.
        let opened = process().files.lock().open(node, b"", flags, 0)?.here(Errno::EIO)?;
        return crate::descriptor::open_node::open_node(opened, flags);
    }
    description.object.reopened();
    description.refer_object();
    OpenFile::new(description.object.clone(), flags & !linux::O_CLOEXEC)
}

/// What a folder lists from a place on: each entry, and the place behind it. A folder of one's own descriptors tells of
/// those that are open now, at places by their numbers: what is closed or opened meanwhile moves no other.
pub(crate) fn listed(folder: &Listing, from: u64) -> Vec<(u64, crate::descriptor::object::Entry)> {
    const DOTS: u64 = 2;
    // A process may have a million descriptors: each call lists as many as its buffer may hold.
    const AT_ONCE: usize = 4096;
    let all: Vec<_> = match pid_self::descriptors_in(&folder.path, from.saturating_sub(DOTS), AT_ONCE) {
        Some(names) => {
            let place = |index: usize, name: &[u8]| {
                let number = core::str::from_utf8(name).ok().and_then(|name| name.parse::<u64>().ok());
                number.map_or(index as u64, |number| number + DOTS) + 1
            };
            listing(&names).into_iter().enumerate().map(|(index, entry)| (place(index, &entry.name), entry)).collect()
        }
        None => (1..).zip(folder.entries.iter().cloned()).collect(),
    };
    all.into_iter().filter(|(behind, _)| *behind > from).collect()
}

fn listing(names: &[(String, u32)]) -> Vec<crate::descriptor::object::Entry> {
    let entry = |(index, (name, kind)): (usize, &(String, u32))| crate::descriptor::object::Entry {
        name: name.clone().into_bytes(),
        node: index as u64 + 1,
        kind: (kind >> 12) as u8,
    };
    let dots = [(String::from("."), DIRECTORY), (String::from(".."), DIRECTORY)];
    dots.iter().chain(names).enumerate().map(entry).collect()
}

/// What `stat` tells of a path.
pub fn status(path: &[u8], follow: bool) -> Result<Status> {
    let entry = find(path)?;
    let mode = match &entry {
        Entry::Namespace(_) if follow => FILE | 0o444,
        Entry::Text(_) => FILE | writable::mode(path),
        Entry::Directory(_) => DIRECTORY | writable::mode_of_folder(path),
        Entry::Descriptor(_) | Entry::Link(_) | Entry::Namespace(_) | Entry::Foreign(_) if !follow => {
            LINK | mode_of_link(path)
        }
        Entry::Descriptor(number) => {
            let description = process().descriptors.description(*number).map_err(|_| Errno::ENOENT)?;
            return status_of(&description);
        }
        Entry::Foreign(foreign) => return foreign.status(),
        Entry::Link(_) | Entry::Namespace(_) => return Err(Errno::ELOOP),
    };
    // A number for each path, so that two files are not taken for one.
    let number = |path: &[u8]| {
        path.iter().fold(0x4000_0000, |sum: u64, byte| (sum.wrapping_mul(31) + u64::from(*byte)) & 0x7fff_ffff)
    };
    let node = match entry {
        Entry::Namespace(namespace) if follow => namespace.node,
        _ => number(&settled(path)),
    };
    let now = crate::server::client::wall_clock();
    let (accessed, modified, changed) = (now, now, now);
    let owner = owner(path);
    Ok(Status {
        node,
        mode_links: u64::from(mode) | 1 << 32,
        owner,
        accessed,
        modified,
        changed,
        place: u64::from(PROC_VOLUME),
        ..Status::default()
    })
}

/// The permissions of a link: those of a descriptor's tell what it is open for.
fn mode_of_link(path: &[u8]) -> u32 {
    const ALL: u32 = 0o777;
    let Some(parts) = core::str::from_utf8(path).ok().map(parts_of) else { return ALL };
    let [above @ .., "fd", number] = parts.as_slice() else { return ALL };
    let told = [above, &["fdinfo", number]].concat().join("/");
    let Ok(Entry::Text(text)) = find(told.as_bytes()) else { return ALL };
    let text = String::from_utf8_lossy(&text);
    let flags = text.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("flags:\t")?, 8).ok());
    match flags {
        Some(flags) if flags & linux::O_PATH != 0 => 0,
        Some(flags) => match flags & linux::O_ACCMODE {
            linux::O_RDONLY => 0o500,
            linux::O_WRONLY => 0o300,
            _ => 0o700,
        },
        None => ALL,
    }
}

/// User and group that what lies at a path belongs to: those that the process acts as.
fn owner(path: &[u8]) -> u64 {
    let first = path.split(|byte| *byte == b'/').find(|part| !part.is_empty()).unwrap_or_default();
    let number = match first {
        b"self" | b"thread-self" => Some(process().number()),
        _ => core::str::from_utf8(first).ok().and_then(|text| text.parse().ok()),
    };
    let other = number.and_then(crate::process_table::find);
    other.map_or(0, |other| u64::from(other.user[1]) | u64::from(other.groups[1]) << 32)
}

/// Where a symbolic link leads.
pub fn read_link(path: &[u8]) -> Result<Vec<u8>> {
    match find(path)? {
        Entry::Link(target) | Entry::Foreign(ForeignDescriptor { target, .. }) => Ok(target),
        Entry::Descriptor(number) => read_descriptor(number),
        Entry::Namespace(namespace) => Ok(namespace.target()),
        _ => Err(Errno::EINVAL),
    }
}

/// The path of a link: `getcwd` alone says that no way leads there from the root.
fn reachable(path: Vec<u8>) -> Vec<u8> {
    path.strip_prefix(b"(unreachable)").map_or_else(|| path.clone(), <[u8]>::to_vec)
}

/// What a descriptor is open on, as a link tells it.
fn read_descriptor(number: u64) -> Result<Vec<u8>> {
    let description = process().descriptors.description(number).map_err(|_| Errno::ENOENT)?;
    Ok(match &description.object {
        Object::Pipe(pipe, _) if pipe.node == 0 => format!("pipe:[{}]", pipe.pages()[0].0).into_bytes(),
        Object::Console(_) => b"pipe:[1]".to_vec(),
        Object::Terminal(terminal) if terminal.node().is_none() => crate::terminal::PATH.to_vec(),
        Object::Other(other) => other.name().into_bytes(),
        Object::Text(text) => fs_context::in_proc(&text.path, b""),
        Object::Listing(folder) => fs_context::in_proc(&folder.path, b""),
        object => reachable(process().files.lock().shown_path_of(object.node().unwrap_or_default())?),
    })
}

fn find(path: &[u8]) -> Result<Entry> {
    let above = path.iter().rposition(|byte| *byte == b'/').map_or(&b""[..], |slash| &path[..slash]);
    match look_up(path) {
        Err(Errno::ENOENT) if matches!(look_up(above), Ok(Entry::Text(_))) => Err(Errno::ENOTDIR),
        found => found,
    }
}

fn look_up(path: &[u8]) -> Result<Entry> {
    let path = core::str::from_utf8(path).map_err(|_| Errno::ENOENT)?;
    let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    let Some(first) = parts.next() else { return Ok(root()) };
    let rest: Vec<&str> = parts.collect();
    let own = process().number();
    match first {
        "self" if rest.is_empty() => Ok(Entry::Link(format!("{own}").into_bytes())),
        "self" => own_entry(&rest),
        "thread-self" if rest.is_empty() => {
            Ok(Entry::Link(format!("{own}/task/{}", thread().shown_number()).into_bytes()))
        }
        "thread-self" => thread_entry(thread().shown_number(), &rest),
        "net" | "mounts" if rest.is_empty() => Ok(Entry::Link([b"self/", first.as_bytes()].concat())),
        number if number.parse() == Ok(own) => own_entry(&rest),
        number if number.parse::<u64>().is_ok() => other_entry(number.parse().map_err(|_| Errno::ENOENT)?, &rest),
        _ => machine_entry(&parts_of(path)),
    }
}

fn parts_of(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").collect()
}

/// A file of the whole machine, or a folder of such files.
fn machine_entry(parts: &[&str]) -> Result<Entry> {
    if let Some(bytes) = machine_files::contents(parts) {
        return Ok(Entry::Text(bytes));
    }
    if let Some(text) = system::text(parts).or_else(|| net_settings::text(parts)) {
        return Ok(Entry::Text(text.into_bytes()));
    }
    let kind = |name: &str| {
        let is_text = system::text(&[parts, &[name][..]].concat()).is_some();
        if is_text { FILE } else { DIRECTORY }
    };
    let folders = [machine_files::folder(parts), net_settings::folder(parts)];
    let folder = system::folder(parts);
    if folder.is_none() && folders.iter().all(Option::is_none) {
        return Err(Errno::ENOENT);
    }
    let names = named(folder.unwrap_or_default().iter().copied(), kind);
    Ok(Entry::Directory(folders.into_iter().flatten().fold(names, joined)))
}

/// Names, and of more names those that are not among them.
fn joined(mut names: Vec<(String, u32)>, more: Vec<(String, u32)>) -> Vec<(String, u32)> {
    for (name, kind) in more {
        if names.iter().all(|(there, _)| *there != name) {
            names.push((name, kind));
        }
    }
    names
}

/// Names with their types.
fn named<'n>(names: impl Iterator<Item = &'n str>, kind: impl Fn(&str) -> u32) -> Vec<(String, u32)> {
    names.map(|name| (String::from(name), kind(name))).collect()
}

/// A file or folder of any process.
fn other_entry(number: u64, rest: &[&str]) -> Result<Entry> {
    let Some(other) = crate::process_table::find_any(number) else { return init_process::entry(number, rest) };
    match rest {
        [] => Ok(pid_self::folder()),
        ["net", ..] if !other.ended => machine_entry(rest),
        ["ns", of_folder @ ..] if !other.ended => namespaces::entry(of_folder),
        _ if other.ended => pid_any::text(&other, rest).map(Entry::Text).ok_or(Errno::ENOENT),
        _ if number == process().number() => pid_any::text(&other, rest).map(Entry::Text).ok_or(Errno::ENOENT),
        // What it began with stands in its public page, as far as it fits; what is there now only the process itself
        // knows.
        ["cmdline"] => remote_read::ask(number, rest).or(Ok(Entry::Text(other.arguments))),
        // A request of `process::remote_request` is no file.
        [name, ..] if !pid_self::has(name) => Err(Errno::ENOENT),
        _ => pid_any::text(&other, rest).map_or_else(|| remote_read::ask(number, rest), |text| Ok(Entry::Text(text))),
    }
}

fn root() -> Entry {
    let mut names = named(system::FILES.into_iter(), |_| FILE);
    names.extend(
        [
            ("mounts", LINK),
            ("net", LINK),
            ("self", LINK),
            ("thread-self", LINK),
            ("sys", DIRECTORY),
            ("sysvipc", DIRECTORY),
        ]
        .map(|(n, kind)| (String::from(n), kind)),
    );
    let mut names = joined(names, machine_files::folder(&[]).unwrap_or_default());
    names.push((format!("{}", init_process::NUMBER), DIRECTORY));
    names.extend(crate::process_table::all_and_ended().iter().map(|other| (format!("{}", other.number), DIRECTORY)));
    Entry::Directory(names)
}
