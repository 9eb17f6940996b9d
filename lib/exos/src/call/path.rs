//! Calls on paths.

use super::dispatch::Call;
use super::layout;
use crate::descriptor::description::Description;
use crate::descriptor::object::{Device, Object};
use crate::errno::{Errno, Result};
use crate::file_system::node::Status;
use crate::file_system::populate::device;
use crate::guardian::client::{Found, Opened};
use crate::guardian::protocol::{self, DIRECTORY, EMPTY_PATH, FOLLOW, Operation};
use crate::proc;
use crate::process::option;
use crate::user_memory::copy;
use alloc::string::String;
use alloc::vec::Vec;
use linux_raw_sys::general as linux;

const WORKING_DIRECTORY: i32 = linux::AT_FDCWD;

/// The node where a path begins: that of a descriptor, or of the working directory.
fn start(call: &Call<'_>, descriptor: u64, path: &[u8]) -> Result<u64> {
    if path.first() == Some(&b'/') || descriptor as i32 == WORKING_DIRECTORY {
        return Ok(call.process.place.lock().directory);
    }
    match call.process.description(u64::from(descriptor as u32))?.object {
        Object::Directory { node } => Ok(node),
        Object::File { node } if path.is_empty() => Ok(node),
        _ => Err(Errno::ENOTDIR),
    }
}

/// The directory `AT_FDCWD`, as an argument.
const HERE: u64 = WORKING_DIRECTORY as u32 as u64;

fn note_missing<T>(call: &Call<'_>, path: &[u8], outcome: Result<T>) -> Result<T> {
    if matches!(outcome, Err(Errno::ENOENT)) && call.process.has_option(option::MISSING_FILES) {
        runtime::log_line!("missing file: {}", String::from_utf8_lossy(path));
    }
    outcome
}

pub(super) fn open(call: &mut Call<'_>) -> Result<u64> {
    let [path, flags, mode, ..] = call.arguments();
    open_at(call, HERE, path, flags as u32, mode as u32)
}

pub(super) fn creat(call: &mut Call<'_>) -> Result<u64> {
    let [path, mode, ..] = call.arguments();
    open_at(call, HERE, path, linux::O_CREAT | linux::O_WRONLY | linux::O_TRUNC, mode as u32)
}

pub(super) fn openat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, flags, mode, ..] = call.arguments();
    open_at(call, at, path, flags as u32, mode as u32)
}

fn open_at(call: &Call<'_>, at: u64, path: u64, flags: u32, mode: u32) -> Result<u64> {
    let path = copy::read_path(path)?;
    let outcome = open_path(call, at, &path, flags, mode);
    note_missing(call, &path, outcome)
}

fn open_path(call: &Call<'_>, at: u64, path: &[u8], flags: u32, mode: u32) -> Result<u64> {
    let process = call.process;
    if process.descriptors.lock().room() == 0 {
        return Err(Errno::EMFILE);
    }
    let at = start(call, at, path)?;
    let mode = mode & 0o7777 & !process.place.lock().mask;
    let found = process.files.lock().open(at, path, flags, mode)?;
    let description = match found {
        Found::Here(opened) => open_node(opened, flags)?,
        Found::Elsewhere(_, rest) => proc::open(&rest, flags)?,
    };
    process.descriptors.lock().add(description, 0, flags & linux::O_CLOEXEC != 0)
}

/// A description of what the guardian opened, which holds the node if it is a file or a directory.
fn open_node(opened: Opened, flags: u32) -> Result<Description> {
    let node = opened.node;
    let object = match opened.mode & linux::S_IFMT {
        linux::S_IFREG => Object::File { node },
        linux::S_IFDIR => Object::Directory { node },
        linux::S_IFCHR => device_object(opened.device)?,
        _ if flags & linux::O_PATH != 0 => Object::File { node },
        _ => return Err(released(node, Errno::ENXIO)),
    };
    if !matches!(object, Object::File { .. } | Object::Directory { .. }) {
        crate::user_memory::current::process().files.lock().hold(node, false);
    }
    const KEPT: u32 = !(linux::O_CREAT | linux::O_EXCL | linux::O_NOCTTY | linux::O_TRUNC | linux::O_CLOEXEC);
    Description::new(object, flags & KEPT | linux::O_LARGEFILE)
}

fn released(node: u64, error: Errno) -> Errno {
    crate::user_memory::current::process().files.lock().hold(node, false);
    error
}

fn device_object(number: (u32, u32)) -> Result<Object> {
    Ok(match number {
        device::NULL => Object::Device(Device::Null),
        device::ZERO => Object::Device(Device::Zero),
        device::FULL => Object::Device(Device::Full),
        device::RANDOM | device::URANDOM => Object::Device(Device::Random),
        device::TTY | device::CONSOLE => return crate::terminal::control::open(),
        _ => return Err(Errno::ENXIO),
    })
}

pub(super) fn stat(call: &mut Call<'_>) -> Result<u64> {
    let [path, to, ..] = call.arguments();
    let status = status_at(call, HERE, path, FOLLOW)?;
    copy::write(to, &layout::stat(&status)).map(|()| 0)
}

pub(super) fn lstat(call: &mut Call<'_>) -> Result<u64> {
    let [path, to, ..] = call.arguments();
    let status = status_at(call, HERE, path, 0)?;
    copy::write(to, &layout::stat(&status)).map(|()| 0)
}

pub(super) fn fstat(call: &mut Call<'_>) -> Result<u64> {
    let [number, to, ..] = call.arguments();
    let status = status_of(call, &call.process.description(number)?)?;
    copy::write(to, &layout::stat(&status)).map(|()| 0)
}

pub(super) fn newfstatat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, to, flags, ..] = call.arguments();
    let status = status_with_flags(call, at, path, flags as u32)?;
    copy::write(to, &layout::stat(&status)).map(|()| 0)
}

pub(super) fn statx(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, flags, _, to, _] = call.arguments();
    let status = status_with_flags(call, at, path, flags as u32)?;
    copy::write(to, &layout::statx(&status)).map(|()| 0)
}

fn status_with_flags(call: &Call<'_>, at: u64, path: u64, flags: u32) -> Result<Status> {
    let follow = if flags & linux::AT_SYMLINK_NOFOLLOW != 0 { 0 } else { FOLLOW };
    if flags & linux::AT_EMPTY_PATH != 0 && (path == 0 || copy::read_path(path)?.is_empty()) {
        if at as i32 != WORKING_DIRECTORY {
            return status_of(call, &call.process.description(u64::from(at as u32))?);
        }
        let directory = call.process.place.lock().directory;
        return call.process.files.lock().status_of(directory);
    }
    status_at(call, at, path, follow)
}

fn status_at(call: &Call<'_>, at: u64, path: u64, flags: u64) -> Result<Status> {
    let path = copy::read_path(path)?;
    let at = start(call, at, &path)?;
    let found = call.process.files.lock().status(at, &path, flags);
    match note_missing(call, &path, found)? {
        Found::Here(status) => Ok(status),
        Found::Elsewhere(_, rest) => proc::status(&rest, flags & FOLLOW != 0),
    }
}

/// What `fstat` tells of an open description.
pub(crate) fn status_of(call: &Call<'_>, description: &Description) -> Result<Status> {
    let special =
        |mode: u32, device: u64| Status { mode_links: u64::from(mode) | 1 << 32, device, ..Status::default() };
    let character =
        |(major, minor): (u32, u32)| special(linux::S_IFCHR | 0o620, u64::from(major) << 32 | u64::from(minor));
    Ok(match &description.object {
        Object::File { node } | Object::Directory { node } => return call.process.files.lock().status_of(*node),
        Object::Pipe(..) | Object::Console(_) => special(linux::S_IFIFO | 0o600, 0),
        Object::Terminal(_) => {
            let node = call.process.files.lock().status(crate::file_system::tree::ROOT, crate::terminal::PATH, FOLLOW);
            node.and_then(|found| found.here(Errno::ENOENT)).unwrap_or_else(|_| character(device::CONSOLE))
        }
        Object::Device(Device::Null) => character(device::NULL),
        Object::Device(Device::Zero) => character(device::ZERO),
        Object::Device(Device::Full) => character(device::FULL),
        Object::Device(Device::Random) => character(device::URANDOM),
        Object::Text(_) => special(linux::S_IFREG | 0o444, 0),
        Object::Listing(_) => special(linux::S_IFDIR | 0o555, 0),
    })
}

pub(super) fn access(call: &mut Call<'_>) -> Result<u64> {
    let [path, wanted, ..] = call.arguments();
    access_at(call, HERE, path, wanted, FOLLOW)
}

pub(super) fn faccessat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, wanted, ..] = call.arguments();
    access_at(call, at, path, wanted, FOLLOW)
}

pub(super) fn faccessat2(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, wanted, flags, ..] = call.arguments();
    let follow = if flags as u32 & linux::AT_SYMLINK_NOFOLLOW != 0 { 0 } else { FOLLOW };
    let empty = if flags as u32 & linux::AT_EMPTY_PATH != 0 { EMPTY_PATH } else { 0 };
    access_at(call, at, path, wanted, follow | empty)
}

fn access_at(call: &Call<'_>, at: u64, path: u64, wanted: u64, flags: u64) -> Result<u64> {
    if wanted & !7 != 0 {
        return Err(Errno::EINVAL);
    }
    let path = copy::read_path(path)?;
    let at = start(call, at, &path)?;
    let found = call.process.files.lock().access(at, &path, wanted, flags);
    match note_missing(call, &path, found)? {
        Found::Here(()) => Ok(0),
        Found::Elsewhere(_, rest) => proc::status(&rest, true).map(|_| 0),
    }
}

pub(super) fn readlink(call: &mut Call<'_>) -> Result<u64> {
    let [path, to, bytes, ..] = call.arguments();
    read_link_at(call, HERE, path, to, bytes)
}

pub(super) fn readlinkat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, to, bytes, ..] = call.arguments();
    read_link_at(call, at, path, to, bytes)
}

fn read_link_at(call: &Call<'_>, at: u64, path: u64, to: u64, bytes: u64) -> Result<u64> {
    if bytes as i32 <= 0 {
        return Err(Errno::EINVAL);
    }
    let path = copy::read_path(path)?;
    let at = start(call, at, &path)?;
    let found = call.process.files.lock().read_link(at, &path);
    let target = match note_missing(call, &path, found)? {
        Found::Here(target) => target,
        Found::Elsewhere(_, rest) => proc::read_link(&rest)?,
    };
    let length = target.len().min(bytes as usize);
    copy::write(to, &target[..length])?;
    Ok(length as u64)
}

pub(super) fn getcwd(call: &mut Call<'_>) -> Result<u64> {
    let [to, bytes, ..] = call.arguments();
    let directory = call.process.place.lock().directory;
    let mut path = call.process.files.lock().path_of(directory)?;
    path.push(0);
    if path.len() as u64 > bytes {
        return Err(Errno::ERANGE);
    }
    copy::write(to, &path)?;
    Ok(path.len() as u64)
}

pub(super) fn chdir(call: &mut Call<'_>) -> Result<u64> {
    let [path, ..] = call.arguments();
    let path = copy::read_path(path)?;
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let at = start(call, HERE, &path)?;
    let node = call.process.files.lock().enter(at, &path)?.here(Errno::EACCES)?;
    work_in(call, node)
}

pub(super) fn fchdir(call: &mut Call<'_>) -> Result<u64> {
    let [number, ..] = call.arguments();
    let Object::Directory { node } = call.process.description(number)?.object else { return Err(Errno::ENOTDIR) };
    let node = call.process.files.lock().enter(node, b"")?.here(Errno::EACCES)?;
    work_in(call, node)
}

/// Takes a directory that is held as the working directory.
fn work_in(call: &Call<'_>, node: u64) -> Result<u64> {
    let before = core::mem::replace(&mut call.process.place.lock().directory, node);
    call.process.files.lock().hold(before, false);
    Ok(0)
}

pub(super) fn umask(call: &mut Call<'_>) -> Result<u64> {
    let [mask, ..] = call.arguments();
    let before = core::mem::replace(&mut call.process.place.lock().mask, mask as u32 & 0o777);
    Ok(u64::from(before))
}

pub(super) fn mkdir(call: &mut Call<'_>) -> Result<u64> {
    let [path, mode, ..] = call.arguments();
    make_at(call, HERE, path, linux::S_IFDIR | mode as u32 & 0o1777, 0)
}

pub(super) fn mkdirat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, mode, ..] = call.arguments();
    make_at(call, at, path, linux::S_IFDIR | mode as u32 & 0o1777, 0)
}

pub(super) fn mknod(call: &mut Call<'_>) -> Result<u64> {
    let [path, mode, device, ..] = call.arguments();
    make_at(call, HERE, path, mode as u32, device)
}

pub(super) fn mknodat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, mode, device, ..] = call.arguments();
    make_at(call, at, path, mode as u32, device)
}

fn make_at(call: &Call<'_>, at: u64, path: u64, mode: u32, device: u64) -> Result<u64> {
    let path = copy::read_path(path)?;
    let at = start(call, at, &path)?;
    let kind = if mode & linux::S_IFMT == 0 { linux::S_IFREG } else { mode & linux::S_IFMT };
    if matches!(kind, linux::S_IFLNK) {
        return Err(Errno::EINVAL);
    }
    let mode = kind | mode & 0o7777 & !call.process.place.lock().mask;
    call.process.files.lock().make(at, &path, mode, layout::device_parts(device)).map(|()| 0)
}

pub(super) fn unlink(call: &mut Call<'_>) -> Result<u64> {
    let [path, ..] = call.arguments();
    remove_at(call, HERE, path, 0)
}

pub(super) fn rmdir(call: &mut Call<'_>) -> Result<u64> {
    let [path, ..] = call.arguments();
    remove_at(call, HERE, path, DIRECTORY)
}

pub(super) fn unlinkat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, flags, ..] = call.arguments();
    match flags as u32 {
        0 => remove_at(call, at, path, 0),
        linux::AT_REMOVEDIR => remove_at(call, at, path, DIRECTORY),
        _ => Err(Errno::EINVAL),
    }
}

fn remove_at(call: &Call<'_>, at: u64, path: u64, flags: u64) -> Result<u64> {
    let path = copy::read_path(path)?;
    let at = start(call, at, &path)?;
    call.process.files.lock().remove(at, &path, flags).map(|()| 0)
}

pub(super) fn rename(call: &mut Call<'_>) -> Result<u64> {
    let [from, to, ..] = call.arguments();
    rename_at(call, [HERE, from], [HERE, to], 0)
}

pub(super) fn renameat(call: &mut Call<'_>) -> Result<u64> {
    let [from_at, from, to_at, to, ..] = call.arguments();
    rename_at(call, [from_at, from], [to_at, to], 0)
}

pub(super) fn renameat2(call: &mut Call<'_>) -> Result<u64> {
    let [from_at, from, to_at, to, flags, _] = call.arguments();
    rename_at(call, [from_at, from], [to_at, to], flags as u32)
}

fn rename_at(call: &Call<'_>, from: [u64; 2], to: [u64; 2], flags: u32) -> Result<u64> {
    let (from_path, to_path) = (copy::read_path(from[1])?, copy::read_path(to[1])?);
    let from = (start(call, from[0], &from_path)?, from_path.as_slice());
    let to = (start(call, to[0], &to_path)?, to_path.as_slice());
    call.process.files.lock().rename(from, to, flags).map(|()| 0)
}

pub(super) fn link(call: &mut Call<'_>) -> Result<u64> {
    let [from, to, ..] = call.arguments();
    link_at(call, [HERE, from], [HERE, to], 0)
}

pub(super) fn linkat(call: &mut Call<'_>) -> Result<u64> {
    let [from_at, from, to_at, to, flags, _] = call.arguments();
    let follow = if flags as u32 & linux::AT_SYMLINK_FOLLOW != 0 { FOLLOW } else { 0 };
    let empty = if flags as u32 & linux::AT_EMPTY_PATH != 0 { EMPTY_PATH } else { 0 };
    link_at(call, [from_at, from], [to_at, to], follow | empty)
}

fn link_at(call: &Call<'_>, from: [u64; 2], to: [u64; 2], flags: u64) -> Result<u64> {
    let (from_path, to_path) = (copy::read_path(from[1])?, copy::read_path(to[1])?);
    let from = (start(call, from[0], &from_path)?, from_path.as_slice());
    let to = (start(call, to[0], &to_path)?, to_path.as_slice());
    call.process.files.lock().link(from, to, flags).map(|()| 0)
}

pub(super) fn symlink(call: &mut Call<'_>) -> Result<u64> {
    let [target, path, ..] = call.arguments();
    symlink_at(call, target, HERE, path)
}

pub(super) fn symlinkat(call: &mut Call<'_>) -> Result<u64> {
    let [target, at, path, ..] = call.arguments();
    symlink_at(call, target, at, path)
}

fn symlink_at(call: &Call<'_>, target: u64, at: u64, path: u64) -> Result<u64> {
    let (target, path) = (copy::read_path(target)?, copy::read_path(path)?);
    let at = start(call, at, &path)?;
    call.process.files.lock().symbolic_link(&target, at, &path).map(|()| 0)
}

pub(super) fn chmod(call: &mut Call<'_>) -> Result<u64> {
    let [path, mode, ..] = call.arguments();
    set_at(call, Operation::SetMode, HERE, path, &[mode], FOLLOW)
}

pub(super) fn fchmodat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, mode, ..] = call.arguments();
    set_at(call, Operation::SetMode, at, path, &[mode], FOLLOW)
}

pub(super) fn fchmod(call: &mut Call<'_>) -> Result<u64> {
    let [number, mode, ..] = call.arguments();
    set_open(call, Operation::SetMode, number, &[mode])
}

pub(super) fn chown(call: &mut Call<'_>) -> Result<u64> {
    let [path, uid, gid, ..] = call.arguments();
    set_at(call, Operation::SetOwner, HERE, path, &[owner(uid, gid)], FOLLOW)
}

pub(super) fn lchown(call: &mut Call<'_>) -> Result<u64> {
    let [path, uid, gid, ..] = call.arguments();
    set_at(call, Operation::SetOwner, HERE, path, &[owner(uid, gid)], 0)
}

pub(super) fn fchown(call: &mut Call<'_>) -> Result<u64> {
    let [number, uid, gid, ..] = call.arguments();
    set_open(call, Operation::SetOwner, number, &[owner(uid, gid)])
}

pub(super) fn fchownat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, uid, gid, flags, _] = call.arguments();
    let follow = if flags as u32 & linux::AT_SYMLINK_NOFOLLOW != 0 { 0 } else { FOLLOW };
    let empty = if flags as u32 & linux::AT_EMPTY_PATH != 0 { EMPTY_PATH } else { 0 };
    set_at(call, Operation::SetOwner, at, path, &[owner(uid, gid)], follow | empty)
}

const fn owner(uid: u64, gid: u64) -> u64 {
    uid & 0xffff_ffff | gid << 32
}

pub(super) fn utimensat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, times, flags, ..] = call.arguments();
    let times = if times == 0 {
        [protocol::TIME_NOW; 2]
    } else {
        let [a_seconds, a_rest, m_seconds, m_rest] = copy::read_words::<4>(times)?;
        [time_to_set(a_seconds, a_rest)?, time_to_set(m_seconds, m_rest)?]
    };
    if path == 0 {
        return set_open(call, Operation::SetTimes, u64::from(at as u32), &times);
    }
    let follow = if flags as u32 & linux::AT_SYMLINK_NOFOLLOW != 0 { 0 } else { FOLLOW };
    set_at(call, Operation::SetTimes, at, path, &times, follow)
}

fn time_to_set(seconds: u64, nanoseconds: u64) -> Result<u64> {
    match nanoseconds as u32 {
        linux::UTIME_NOW => Ok(protocol::TIME_NOW),
        linux::UTIME_OMIT => Ok(protocol::TIME_KEEP),
        rest if rest < 1_000_000_000 => Ok(seconds.saturating_mul(1_000_000_000).saturating_add(u64::from(rest))),
        _ => Err(Errno::EINVAL),
    }
}

fn set_at(call: &Call<'_>, operation: Operation, at: u64, path: u64, words: &[u64], flags: u64) -> Result<u64> {
    let path = copy::read_path(path)?;
    let at = start(call, at, &path)?;
    let outcome = call.process.files.lock().set(operation, at, &path, words, flags);
    note_missing(call, &path, outcome).map(|()| 0)
}

fn set_open(call: &Call<'_>, operation: Operation, number: u64, words: &[u64]) -> Result<u64> {
    match call.process.description(number)?.object {
        Object::File { node } | Object::Directory { node } => {
            call.process.files.lock().set(operation, node, b"", words, EMPTY_PATH).map(|()| 0)
        }
        // Devices, pipes and the like have no attributes that are kept.
        _ => Ok(0),
    }
}

pub(super) fn truncate(call: &mut Call<'_>) -> Result<u64> {
    let [path, size, ..] = call.arguments();
    if (size as i64) < 0 {
        return Err(Errno::EINVAL);
    }
    let path = copy::read_path(path)?;
    let at = start(call, HERE, &path)?;
    let mut files = call.process.files.lock();
    let opened = files.open(at, &path, linux::O_WRONLY, 0)?.here(Errno::EACCES)?;
    let outcome = files.truncate(opened.node, size);
    files.hold(opened.node, false);
    outcome.map(|()| 0)
}

pub(super) fn statfs(call: &mut Call<'_>) -> Result<u64> {
    let [path, to, ..] = call.arguments();
    status_at(call, HERE, path, FOLLOW)?;
    tell_space(call, to)
}

pub(super) fn fstatfs(call: &mut Call<'_>) -> Result<u64> {
    let [number, to, ..] = call.arguments();
    call.process.description(number)?;
    tell_space(call, to)
}

/// `struct statfs`: 120 bytes.
fn tell_space(call: &Call<'_>, to: u64) -> Result<u64> {
    const TMPFS: u64 = 0x0102_1994;
    const NAME_BYTES: u64 = 255;
    let page = crate::layout::PAGE_SIZE;
    let [all, free, nodes] = call.process.files.lock().space()?;
    let mut words = Vec::from([TMPFS, page, all, free, free, nodes + free, free, 0, NAME_BYTES, page]);
    words.resize(15, 0);
    copy::write(to, &layout::bytes(&words)).map(|()| 0)
}
