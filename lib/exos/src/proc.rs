//! `/proc`, made by the library of whoever reads it from what the kernel and the processes expose.

use crate::call::walk::Last;
use crate::descriptor::description::Description;
use crate::descriptor::object::Object;
use crate::errno::{Errno, Result};
use crate::file_system::node::Status;
use crate::memory::area::{Backing, Protection};
use crate::pipe::Side;
use crate::user_memory::current::process;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as linux;
use runtime::{clock, exposed};

/// What lies behind a path below `/proc`.
enum Entry {
    /// A text.
    Text(Vec<u8>),
    /// A symbolic link.
    Link(Vec<u8>),
    /// A link to what a descriptor is open on.
    Descriptor(u64),
    /// A directory: its names and their types.
    Directory(Vec<(String, u32)>),
}

/// Where a path goes on: from a node, or from wherever a path without one begins.
type Way = (Option<u64>, Vec<u8>);

/// Where a path below `/proc` goes on outside of it, if it crosses a link.
pub(crate) fn lead_on(path: &[u8], last: Last) -> Result<Option<Way>> {
    let Ok(text) = core::str::from_utf8(path) else { return Ok(None) };
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if let Some(up) = parts.iter().position(|part| *part == "..") {
        return Ok(Some((None, upwards(&parts, up))));
    }
    for end in 1..=parts.len() {
        let is_last = end == parts.len();
        if is_last && last == Last::Keep {
            break;
        }
        let rest = parts[end..].join("/").into_bytes();
        match link(&parts[..end], is_last)? {
            Some(Entry::Link(target)) => return Ok(Some((None, onwards(&parts[..end - 1], &target, &rest)))),
            Some(Entry::Descriptor(number)) if !is_last || last == Last::Node => {
                let description = process().description(number).map_err(|_| Errno::ENOENT)?;
                return Ok(description.object.node().map(|node| (Some(node), rest)));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The path with the first `..` carried out.
fn upwards(parts: &[&str], up: usize) -> Vec<u8> {
    let above = match up {
        0 => Vec::from([""]),
        _ => [&["", "proc"], &parts[..up - 1]].concat(),
    };
    let path = [&above, &parts[up + 1..]].concat().join("/");
    if path.is_empty() { b"/".to_vec() } else { path.into_bytes() }
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
        ["mounts"] | [_, "exe" | "cwd" | "root"] | [_, "fd", _] => true,
        _ => false,
    };
    if is_link { find(parts.join("/").as_bytes()).map(Some) } else { Ok(None) }
}

const FILE: u32 = linux::S_IFREG;
const DIRECTORY: u32 = linux::S_IFDIR;
const LINK: u32 = linux::S_IFLNK;
/// Files of the whole machine.
const FILES: [&str; 7] = ["cpuinfo", "loadavg", "meminfo", "mounts", "stat", "uptime", "version"];
/// Files of any process.
const OTHER_FILES: [&str; 4] = ["cmdline", "comm", "stat", "status"];
/// Files of the process itself.
const OWN_FILES: [&str; 6] = ["cmdline", "comm", "environ", "maps", "stat", "status"];

/// Opens what lies at a path.
pub fn open(path: &[u8], flags: u32) -> Result<Description> {
    if flags & linux::O_ACCMODE != linux::O_RDONLY && !is_descriptor(path) {
        return Err(Errno::EACCES);
    }
    let object = match find(path)? {
        Entry::Text(text) => Object::Text(text.into()),
        Entry::Descriptor(number) => {
            let description = process().description(number).map_err(|_| Errno::ENOENT)?;
            return reopen(description, flags);
        }
        Entry::Link(_) => return Err(Errno::ELOOP),
        Entry::Directory(names) => Object::Listing(listing(&names)),
    };
    Description::new(object, flags & !linux::O_CLOEXEC)
}

/// Opens once more what a descriptor is open on.
fn reopen(description: Description, flags: u32) -> Result<Description> {
    if matches!(description.object, Object::Other(_)) {
        return Err(Errno::ENXIO);
    }
    if let (Object::Pipe(pipe, _), linux::O_RDONLY | linux::O_WRONLY) = (&description.object, flags & 3) {
        let side = if flags & 3 == linux::O_RDONLY { Side::Read } else { Side::Write };
        let object = Object::Pipe(pipe.clone(), side);
        object.reopened();
        let fresh = Description::new(object, flags & !linux::O_CLOEXEC)?;
        fresh.refer_object();
        return Ok(fresh);
    }
    if flags & linux::O_TRUNC != 0
        && let Object::File { node } = description.object
    {
        process().files.lock().truncate(node, 0)?;
    }
    description.object.reopened();
    description.refer_object();
    Description::new(description.object, flags & !linux::O_CLOEXEC)
}

fn is_descriptor(path: &[u8]) -> bool {
    matches!(find(path), Ok(Entry::Descriptor(_)))
}

fn listing(names: &[(String, u32)]) -> alloc::sync::Arc<[crate::descriptor::object::Entry]> {
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
    let mode = match find(path)? {
        Entry::Text(_) => FILE | 0o444,
        Entry::Directory(_) => DIRECTORY | 0o555,
        Entry::Descriptor(_) | Entry::Link(_) if !follow => LINK | 0o777,
        Entry::Descriptor(number) => {
            let description = process().description(number).map_err(|_| Errno::ENOENT)?;
            return crate::call::status_of(&description);
        }
        Entry::Link(_) => return Err(Errno::ELOOP),
    };
    // A number for each path, so that two files are not taken for one.
    let node = path.iter().fold(0x4000_0000, |sum: u64, byte| (sum.wrapping_mul(31) + u64::from(*byte)) & 0x7fff_ffff);
    let now = crate::call::wall_clock();
    let (accessed, modified, changed) = (now, now, now);
    Ok(Status { node, mode_links: u64::from(mode) | 1 << 32, accessed, modified, changed, ..Status::default() })
}

/// Where a symbolic link leads.
pub fn read_link(path: &[u8]) -> Result<Vec<u8>> {
    match find(path)? {
        Entry::Link(target) => Ok(target),
        Entry::Descriptor(number) => {
            let description = process().description(number).map_err(|_| Errno::ENOENT)?;
            Ok(match description.object {
                Object::Pipe(pipe, _) if pipe.node == 0 => format!("pipe:[{}]", pipe.pages()[0].0).into_bytes(),
                Object::Console(_) => b"pipe:[1]".to_vec(),
                Object::Terminal(_) => crate::terminal::PATH.to_vec(),
                Object::Other(other) => other.name().into_bytes(),
                Object::Text(_) | Object::Listing(_) => b"/proc".to_vec(),
                object => match process().files.lock().path_of(object.node().unwrap_or_default()) {
                    Err(Errno::ENOENT) => b"(deleted)".to_vec(),
                    found => found?,
                },
            })
        }
        _ => Err(Errno::EINVAL),
    }
}

fn find(path: &[u8]) -> Result<Entry> {
    let path = core::str::from_utf8(path).map_err(|_| Errno::ENOENT)?;
    let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    let Some(first) = parts.next() else { return Ok(root()) };
    let rest: Vec<&str> = parts.collect();
    let own = process().number();
    match first {
        "self" if rest.is_empty() => Ok(Entry::Link(format!("{own}").into_bytes())),
        "self" | "thread-self" => own_entry(&rest),
        number if number.parse() == Ok(own) => own_entry(&rest),
        number if number.parse::<u64>().is_ok() => other_entry(number.parse().map_err(|_| Errno::ENOENT)?, &rest),
        name if rest.is_empty() => machine_text(name).map(|text| Entry::Text(text.into_bytes())).ok_or(Errno::ENOENT),
        _ => Err(Errno::ENOENT),
    }
}

fn root() -> Entry {
    let mut names: Vec<(String, u32)> = FILES.iter().map(|name| (String::from(*name), FILE)).collect();
    names.push((String::from("self"), LINK));
    names.extend(crate::relatives::all().iter().map(|other| (format!("{}", other.number), DIRECTORY)));
    Entry::Directory(names)
}

fn own_entry(rest: &[&str]) -> Result<Entry> {
    let process = process();
    match rest {
        [] => {
            let mut names: Vec<(String, u32)> = OWN_FILES.iter().map(|name| (String::from(*name), FILE)).collect();
            names.extend(
                [("exe", LINK), ("cwd", LINK), ("fd", DIRECTORY)].map(|(name, kind)| (String::from(name), kind)),
            );
            Ok(Entry::Directory(names))
        }
        ["exe"] => Ok(Entry::Link(process.program.lock().path.clone())),
        ["cwd"] => {
            let directory = process.place.lock().directory;
            Ok(Entry::Link(process.files.lock().path_of(directory)?))
        }
        ["root"] => Ok(Entry::Link(b"/".to_vec())),
        ["fd"] => {
            let numbers = process.descriptors.lock().iter().map(|(number, _)| (format!("{number}"), LINK)).collect();
            Ok(Entry::Directory(numbers))
        }
        ["fd", number] => {
            let number = number.parse().map_err(|_| Errno::ENOENT)?;
            process.description(number).map_err(|_| Errno::ENOENT)?;
            Ok(Entry::Descriptor(number))
        }
        ["cmdline"] => Ok(Entry::Text(process.program.lock().arguments.clone())),
        ["environ"] => Ok(Entry::Text(process.program.lock().environment.clone())),
        ["maps"] => Ok(Entry::Text(maps().into_bytes())),
        ["mounts"] => Ok(Entry::Text(machine_text("mounts").unwrap_or_default().into_bytes())),
        _ => other_entry(process.number(), rest),
    }
}

/// What anybody may know of a process.
fn other_entry(number: u64, rest: &[&str]) -> Result<Entry> {
    let other = crate::relatives::find(number).ok_or(Errno::ENOENT)?;
    let name = String::from_utf8_lossy(&other.name).into_owned();
    let text = match rest {
        [] => return Ok(Entry::Directory(OTHER_FILES.iter().map(|name| (String::from(*name), FILE)).collect())),
        ["comm"] => format!("{name}\n"),
        ["cmdline"] => format!("{name}\0"),
        ["stat"] => {
            let ticks = exposed::environment(runtime::EnvironmentId(number))
                .map_or(0, |info| info.time.load(Relaxed) / 10_000_000);
            let pages = exposed::environment(runtime::EnvironmentId(number))
                .map_or(0, |info| info.budget[0].used.load(Relaxed));
            format!(
                "{number} ({name}) R {} {} {} 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 0 {} {pages} 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
                other.parent,
                other.group,
                other.session,
                pages * crate::layout::PAGE_SIZE,
            )
        }
        ["status"] => format!(
            "Name:\t{name}\nState:\tR (running)\nTgid:\t{number}\nPid:\t{number}\nPPid:\t{}\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nThreads:\t1\n",
            other.parent
        ),
        _ => return Err(Errno::ENOENT),
    };
    Ok(Entry::Text(text.into_bytes()))
}

fn maps() -> String {
    let mut text = String::new();
    let memory = process().memory.lock();
    for area in memory.space.areas.iter() {
        let flag = |bit: Protection, letter: char| if area.protection.allows(bit) { letter } else { '-' };
        let (offset, node) = match area.backing {
            Backing::File { node, offset, .. } => (offset, node),
            _ => (0, 0),
        };
        let name = match area.backing {
            Backing::Library => "                          [exos]",
            _ if area.grows => "                          [stack]",
            _ if area.start == memory.space.brk.0 && area.start != memory.space.brk.1 => {
                "                          [heap]"
            }
            _ => "",
        };
        let _ = writeln!(
            text,
            "{:08x}-{:08x} {}{}{}{} {offset:08x} 00:01 {node} {name}",
            area.start,
            area.end,
            flag(Protection::READ, 'r'),
            flag(Protection::WRITE, 'w'),
            flag(Protection::EXECUTE, 'x'),
            if area.shared { 's' } else { 'p' },
        );
    }
    text
}

/// A file that tells of the whole machine.
fn machine_text(name: &str) -> Option<String> {
    let kernel = exposed::kernel();
    let now = clock::now();
    let (seconds, hundredths) = (now / 1_000_000_000, now / 10_000_000 % 100);
    let idle: u64 = exposed::cpus().map(|cpu| cpu.idle_time.load(Relaxed)).sum();
    Some(match name {
        "uptime" => {
            format!("{seconds}.{hundredths:02} {}.{:02}\n", idle / 1_000_000_000, idle / 10_000_000 % 100)
        }
        "version" => String::from("Linux version 6.1.0-chitin (chitin) #1 Chitin ExOS\n"),
        "mounts" => String::from("memory / tmpfs rw 0 0\nproc /proc proc rw 0 0\n"),
        "loadavg" => format!("0.00 0.00 0.00 1/{} {}\n", crate::relatives::all().len(), process().number()),
        "meminfo" => {
            let kilobytes = |pages: u64| pages * 4;
            let [free, owned, orphan, own] =
                [&kernel.free_pages, &kernel.owned_pages, &kernel.orphan_pages, &kernel.kernel_pages]
                    .map(|word| word.load(Relaxed));
            format!(
                "MemTotal: {:>15} kB\nMemFree: {:>16} kB\nMemAvailable: {:>11} kB\nBuffers: {:>16} kB\nCached: {:>17} kB\nSwapTotal: {:>14} kB\nSwapFree: {:>15} kB\n",
                kilobytes(free + owned + orphan + own),
                kilobytes(free),
                kilobytes(free),
                0,
                kilobytes(kernel.cached_pages.load(Relaxed)),
                0,
                0,
            )
        }
        "cpuinfo" => {
            (0..kernel.cpus.load(Relaxed)).map(|cpu| format!("processor\t: {cpu}\nvendor_id\t: Chitin\n\n")).collect()
        }
        "stat" => {
            let idle = idle / 10_000_000;
            let busy = (now / 10_000_000 * kernel.cpus.load(Relaxed)).saturating_sub(idle);
            let boot = kernel.wall_clock_at_boot.load(Relaxed) / 1_000_000_000;
            format!("cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\nbtime {boot}\nprocesses {}\n", process().number())
        }
        _ => return None,
    })
}
