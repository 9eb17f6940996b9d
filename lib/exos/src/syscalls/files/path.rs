//! Calls on paths.

use super::openat2::flags_that_count;
use crate::descriptor::object::Object;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::open_node::{of_description, open_node, released};
use crate::hw::usercopy::{self, PathBuffer};
use crate::process::call::Call;
use crate::process::proc_links::walk;
use crate::process::{Process, option};
use crate::procfs;
use crate::procfs::truncate_notify::cut_mappings;
use crate::server::client::{Found, Opened};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::process::fs_context;
use unix_core::procfs::Last;
use unix_core::server::protocol::{self, DIRECTORY, EMPTY_PATH, FOLLOW, REAL};
use unix_core::uapi;
use vfs::handle::right;
use vfs::inode::{OwnerAndMode, Status};
use vfs::namespace::{ROOT, access};

pub(crate) const WORKING_DIRECTORY: i32 = linux::AT_FDCWD;

/// The node where a path begins, that of a descriptor or of the working directory, and the path from there.
#[inline(always)]
pub(crate) fn start<'p>(call: &Call<'_>, descriptor: u64, path: &'p [u8]) -> Result<(u64, Cow<'p, [u8]>)> {
    if path.first() == Some(&b'/') { Ok((ROOT, path.into())) } else { start_below(call, descriptor, path) }
}

#[inline(never)]
fn start_below<'p>(call: &Call<'_>, descriptor: u64, path: &'p [u8]) -> Result<(u64, Cow<'p, [u8]>)> {
    if descriptor as i32 == WORKING_DIRECTORY {
        return Ok(call.process.fs.lock().start(path));
    }
    let description = call.process.descriptors.description(u64::from(descriptor as u32))?;
    let object = &description.object;
    match (object, object.node()) {
        (Object::Listing(folder), _) => Ok((ROOT, fs_context::in_proc(&folder.path, path).into())),
        (Object::Text(text), _) if path.is_empty() => Ok((ROOT, fs_context::in_proc(&text.path, b"").into())),
        (Object::Directory { .. }, Some(node)) => Ok((node, path.into())),
        (_, Some(node)) if path.is_empty() => Ok((node, path.into())),
        _ if path.is_empty() => Err(Errno::ENOENT),
        _ => Err(Errno::ENOTDIR),
    }
}

/// The directory `AT_FDCWD`, as an argument.
pub(crate) const HERE: u64 = WORKING_DIRECTORY as u32 as u64;

/// What a path leads to, where the dcache shows it: no RPC.
#[inline(always)]
fn find_shown(call: &Call<'_>, at: u64, path: &[u8], follow: bool) -> Option<Result<Status>> {
    call.process.files.lock().find(at, path, follow)
}

pub(crate) fn note_missing<T>(call: &Call<'_>, path: &[u8], outcome: Result<T>) -> Result<T> {
    if matches!(outcome, Err(Errno::ENOENT)) && call.process.has_option(option::MISSING_FILES) {
        runtime::log_line!("missing file: {}", String::from_utf8_lossy(path));
    }
    outcome
}

pub(crate) fn open(call: &mut Call<'_>) -> Result<u64> {
    let [path, flags, mode, ..] = call.arguments();
    open_at(call, HERE, path, flags as u32, mode as u32)
}

pub(crate) fn creat(call: &mut Call<'_>) -> Result<u64> {
    let [path, mode, ..] = call.arguments();
    open_at(call, HERE, path, linux::O_CREAT | linux::O_WRONLY | linux::O_TRUNC, mode as u32)
}

pub(crate) fn openat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, flags, mode, ..] = call.arguments();
    open_at(call, at, path, flags as u32, mode as u32)
}

fn open_at(call: &Call<'_>, at: u64, path: u64, flags: u32, mode: u32) -> Result<u64> {
    let mut buffer = PathBuffer::default();
    let path = buffer.read(path)?;
    let outcome = open_path(call, at, path, flags, mode);
    note_missing(call, path, outcome)
}

#[inline]
pub(crate) fn open_path(call: &Call<'_>, at: u64, path: &[u8], flags: u32, mode: u32) -> Result<u64> {
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    if path.starts_with(b"/") {
        return open_from(call, ROOT, path, flags, mode);
    }
    let (at, path) = start_below(call, at, path).map_err(|error| unless_full(call.process, error))?;
    open_from(call, at, &path, flags, mode)
}

fn open_from(call: &Call<'_>, at: u64, path: &[u8], flags: u32, mode: u32) -> Result<u64> {
    let shown = if flags & MAKES == 0 { open_shown(call, at, path, flags) } else { None };
    if let Some(outcome) = shown { outcome } else { open_or_make(call, at, path, flags, mode) }
}

#[inline(never)]
fn open_or_make(call: &Call<'_>, at: u64, path: &[u8], flags: u32, mode: u32) -> Result<u64> {
    let process = call.process;
    require_room(process)?;
    let flags = flags_that_count(flags)?;
    let mode = mode & 0o7777 & !process.fs.lock().mask;
    if flags & linux::O_TMPFILE == linux::O_TMPFILE {
        return open_unnamed(call, at, path, flags, mode);
    }
    let last = if flags & linux::O_NOFOLLOW != 0 { Last::Keep } else { Last::Follow };
    match walk(at, path, last, |files, at, path| files.open(at, path, flags, mode))? {
        Found::Here(opened) => take_up(process, opened, flags),
        Found::LeavesFs(_, rest) => give_number(process, procfs::open(&rest, flags)?, flags),
    }
}

/// `EMFILE` where no descriptor more can be given out, before anything is opened or made for it.
pub(crate) fn require_room(process: &Process) -> Result<()> {
    if process.descriptors.table.lock().room() == 0 { Err(Errno::EMFILE) } else { Ok(()) }
}

/// What opening says that fails for another reason: as on Linux the descriptor is looked for first.
#[cold]
fn unless_full(process: &Process, error: Errno) -> Errno {
    require_room(process).err().unwrap_or(error)
}

/// Gives out a descriptor for what was opened, or closes it if another thread has taken the last number meanwhile.
#[inline]
pub(crate) fn give_number(process: &Process, description: OpenFile, flags: u32) -> Result<u64> {
    process.descriptors.install(description, 0, flags & linux::O_CLOEXEC != 0)
}

/// The same for what the server opened. What it cut off is taken out of the memory of who maps it.
pub(crate) fn take_up(process: &Process, opened: Opened, flags: u32) -> Result<u64> {
    let description = open_node(opened, flags)?;
    if let (Object::File { node }, true) = (&description.object, flags & linux::O_TRUNC != 0) {
        cut_mappings(process, *node, (0, u64::MAX), true, opened.stale_mappings)?;
    }
    give_number(process, description, flags)
}

/// Flags by which opening may make a file.
const MAKES: u32 = linux::O_CREAT | linux::O_TMPFILE & !linux::O_DIRECTORY;

/// What the dcache shows of the node to open.
struct Shown {
    /// Its place, which everybody can find.
    place: u64,
    is_directory: bool,
    /// What this process holds it by without need, with the rights that it is opened for; it is needed from now on.
    held: Option<u64>,
}

/// Looks there. Nothing where it is not shown, or leads elsewhere.
#[inline(always)]
fn look_up(call: &Call<'_>, at: u64, path: &[u8], flags: u32) -> Option<Result<Shown>> {
    let mut files = call.process.files.lock();
    let owned = match files.find_owned(at, path, flags & linux::O_NOFOLLOW == 0)? {
        Ok(owned) => owned,
        Err(error) => return Some(Err(error)),
    };
    let is_directory = match owned.kind() {
        linux::S_IFLNK => return None,
        kind => kind == linux::S_IFDIR,
    };
    let held = match plain_rights(owned, flags) {
        Some((wanted, rights)) if owned.permits_all(wanted) => files.reopen(owned.place, rights),
        Some((wanted, rights)) => {
            drop(files);
            may(call, owned, wanted).then(|| call.process.files.lock().reopen(owned.place, rights)).flatten()
        }
        None => None,
    };
    Some(Ok(Shown { place: owned.place, is_directory, held }))
}

#[inline(never)]
fn may(call: &Call<'_>, owned: OwnerAndMode, wanted: u32) -> bool {
    let identity = call.process.attributes.credentials.lock();
    owned.permits(identity.acting_on_files(), &identity.groups, wanted)
}

/// Opens what the dcache shows: from the handle cache without an RPC, else by its number. Nothing where that cannot be,
/// or is not so any more.
fn open_shown(call: &Call<'_>, at: u64, path: &[u8], flags: u32) -> Option<Result<u64>> {
    let process = call.process;
    let shown = match look_up(call, at, path, flags)? {
        Ok(shown) => shown,
        Err(error) => return Some(Err(unless_full(process, error))),
    };
    if let Some(node) = shown.held {
        let object = if shown.is_directory { Object::Directory { node } } else { Object::File { node } };
        let description = OpenFile::new(object, of_description(flags)).map_err(|error| released(node, error));
        return Some(description.and_then(|description| give_number(process, description, flags)));
    }
    if let Err(error) = require_room(process) {
        return Some(Err(error));
    }
    let opened = process.files.lock().open(shown.place, b"", flags, 0).ok()?.here(Errno::ENXIO).ok()?;
    Some(take_up(process, opened, flags))
}

/// Where opening is no more than looking whether that may be done: bits of `access(2)`, and the rights that it gives.
#[inline]
fn plain_rights(owned: OwnerAndMode, flags: u32) -> Option<(u32, u8)> {
    let (wanted, rights) = match flags & linux::O_ACCMODE {
        linux::O_RDONLY => (access::READ, right::READ),
        linux::O_WRONLY => (access::WRITE, right::WRITE),
        _ => (access::READ | access::WRITE, right::READ | right::WRITE),
    };
    let fits = match owned.kind() {
        linux::S_IFREG => flags & linux::O_DIRECTORY == 0,
        linux::S_IFDIR => wanted == access::READ,
        _ => false,
    };
    let is_plain = fits && flags & (linux::O_TRUNC | linux::O_PATH | linux::O_NOATIME) == 0;
    is_plain.then_some((wanted, rights))
}

/// `O_TMPFILE`: a file without a name, in the file system of a directory.
pub(crate) fn open_unnamed(call: &Call<'_>, at: u64, path: &[u8], flags: u32, mode: u32) -> Result<u64> {
    if flags & linux::O_ACCMODE == linux::O_RDONLY || flags & linux::O_CREAT != 0 {
        return Err(Errno::EINVAL);
    }
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let nameable = flags & linux::O_EXCL == 0;
    let found = walk(at, path, Last::Node, |files, at, path| files.make_unnamed(at, path, mode, [nameable, false]))?;
    let node = match found {
        Found::Here(node) => node,
        Found::LeavesFs(_, rest) => return Err(crate::procfs::why_not_unnamed(&rest)),
    };
    let kept = flags & !(linux::O_CREAT | linux::O_EXCL | linux::O_TMPFILE | linux::O_TRUNC | linux::O_CLOEXEC);
    let description = OpenFile::new(Object::File { node }, kept | linux::O_LARGEFILE)?;
    give_number(call.process, description, flags)
}

pub(crate) fn stat(call: &mut Call<'_>) -> Result<u64> {
    let [path, to, ..] = call.arguments();
    put_status_at(call, HERE, path, FOLLOW, to)
}

pub(crate) fn lstat(call: &mut Call<'_>) -> Result<u64> {
    let [path, to, ..] = call.arguments();
    put_status_at(call, HERE, path, 0, to)
}

/// Stores what `stat` tells.
#[inline(always)]
fn put_status(to: u64, status: &Status) -> Result<u64> {
    usercopy::write_words(to, &uapi::stat(status)).map(|()| 0)
}

pub(crate) fn fstat(call: &mut Call<'_>) -> Result<u64> {
    let [number, to, ..] = call.arguments();
    put_status(to, &procfs::status_of(&*call.process.descriptors.description(number)?)?)
}

pub(crate) fn newfstatat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, to, flags, ..] = call.arguments();
    known(flags, STATUS_FLAGS)?;
    if flags as u32 & linux::AT_EMPTY_PATH != 0 {
        return put_status(to, &status_with_flags(call, at, path, flags as u32)?);
    }
    put_status_at(call, at, path, follow(flags as u32), to)
}

pub(crate) fn statx(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, flags, mask, to, _] = call.arguments();
    const RESERVED: u64 = 1 << 31;
    known(flags, STATUS_FLAGS | linux::AT_STATX_SYNC_TYPE)?;
    if mask & RESERVED != 0 || flags as u32 & linux::AT_STATX_SYNC_TYPE == linux::AT_STATX_SYNC_TYPE {
        return Err(Errno::EINVAL);
    }
    let status = status_with_flags(call, at, path, flags as u32)?;
    usercopy::write_words(to, &uapi::statx(&status)).map(|()| 0)
}

/// Flags of the calls that tell of a node.
const STATUS_FLAGS: u32 = linux::AT_SYMLINK_NOFOLLOW | linux::AT_NO_AUTOMOUNT | linux::AT_EMPTY_PATH;

/// `EINVAL` for flags that a call does not have.
pub(crate) const fn known(flags: u64, all: u32) -> Result<()> {
    if flags as u32 & !all == 0 { Ok(()) } else { Err(Errno::EINVAL) }
}

/// What the server is told of whether a symbolic link is meant itself.
const fn follow(flags: u32) -> u64 {
    if flags & linux::AT_SYMLINK_NOFOLLOW != 0 { 0 } else { FOLLOW }
}

pub(crate) fn status_with_flags(call: &Call<'_>, at: u64, path: u64, flags: u32) -> Result<Status> {
    if flags & linux::AT_EMPTY_PATH != 0 && (path == 0 || usercopy::is_empty_string(path)?) {
        return status_of_start(call, at);
    }
    status_at(call, at, path, follow(flags))
}

/// Status of a descriptor, or of the working directory.
#[inline(never)]
fn status_of_start(call: &Call<'_>, at: u64) -> Result<Status> {
    if at as i32 != WORKING_DIRECTORY {
        return procfs::status_of(&*call.process.descriptors.description(u64::from(at as u32))?);
    }
    let place = call.process.fs.lock().clone();
    match place.below_proc {
        Some(folder) => procfs::status(&folder, true),
        None => call.process.files.lock().status_of(place.directory),
    }
}

/// Stores the status of what a program's path leads to: what is shown goes from the server's page to the program's
/// memory at once.
#[inline(always)]
fn put_status_at(call: &Call<'_>, at: u64, path: u64, flags: u64, to: u64) -> Result<u64> {
    let mut buffer = PathBuffer::default();
    let path = buffer.read(path)?;
    let from_below;
    let (at, path) = if path.first() == Some(&b'/') {
        (ROOT, path)
    } else {
        from_below = start_below(call, at, path)?;
        (from_below.0, &*from_below.1)
    };
    match find_shown(call, at, path, flags & FOLLOW != 0) {
        Some(Ok(status)) => put_status(to, &status),
        Some(Err(error)) => note_missing(call, path, Err(error)),
        None => put_asked(call, at, path, flags, to),
    }
}

#[inline(never)]
fn put_asked(call: &Call<'_>, at: u64, path: &[u8], flags: u64, to: u64) -> Result<u64> {
    put_status(to, &ask_status(call, at, path, flags)?)
}

/// Status of what a program's path leads to; `flags`: of the server.
pub(crate) fn status_at(call: &Call<'_>, at: u64, path: u64, flags: u64) -> Result<Status> {
    let mut buffer = PathBuffer::default();
    let path = buffer.read(path)?;
    let (at, path) = start(call, at, path)?;
    match find_shown(call, at, &path, flags & FOLLOW != 0) {
        Some(Ok(status)) => Ok(status),
        Some(error) => note_missing(call, &path, error),
        None => ask_status(call, at, &path, flags),
    }
}

#[inline(never)]
fn ask_status(call: &Call<'_>, at: u64, path: &[u8], flags: u64) -> Result<Status> {
    let last = Last::of(flags & FOLLOW != 0);
    let found = walk(at, path, last, |files, at, rest| files.status(at, rest, flags | empty_of(path, rest)));
    match note_missing(call, path, found)? {
        Found::Here(status) => Ok(status),
        Found::LeavesFs(_, rest) => procfs::status(&rest, flags & FOLLOW != 0),
    }
}

/// An empty path stands for the node itself only where a walk, and not the program, made it empty.
pub(crate) const fn empty_of(asked: &[u8], rest: &[u8]) -> u64 {
    if rest.is_empty() && !asked.is_empty() { EMPTY_PATH } else { 0 }
}

pub(crate) fn access(call: &mut Call<'_>) -> Result<u64> {
    let [path, wanted, ..] = call.arguments();
    access_at(call, HERE, path, wanted, FOLLOW | REAL)
}

pub(crate) fn faccessat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, wanted, ..] = call.arguments();
    access_at(call, at, path, wanted, FOLLOW | REAL)
}

pub(crate) fn faccessat2(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, wanted, flags, ..] = call.arguments();
    known(flags, linux::AT_SYMLINK_NOFOLLOW | linux::AT_EMPTY_PATH | linux::AT_EACCESS)?;
    let follow = if flags as u32 & linux::AT_SYMLINK_NOFOLLOW != 0 { 0 } else { FOLLOW };
    let empty = if flags as u32 & linux::AT_EMPTY_PATH != 0 { EMPTY_PATH } else { 0 };
    let real = if flags as u32 & linux::AT_EACCESS != 0 { 0 } else { REAL };
    access_at(call, at, path, wanted, follow | empty | real)
}

fn access_at(call: &Call<'_>, at: u64, path: u64, wanted: u64, flags: u64) -> Result<u64> {
    if wanted & !7 != 0 {
        return Err(Errno::EINVAL);
    }
    let mut buffer = PathBuffer::default();
    let path = buffer.read(path)?;
    let (at, path) = start(call, at, path)?;
    // Whether something may be written or run is its mount's affair, too.
    let is_shown = wanted as u32 & !access::READ == 0;
    let find = || call.process.files.lock().find_owned(at, &path, flags & FOLLOW != 0);
    if let Some(shown) = is_shown.then(find).flatten() {
        let owned = note_missing(call, &path, shown)?;
        if owned.permits_all(wanted as u32) {
            return Ok(0);
        }
        let identity = call.process.attributes.credentials.lock();
        let who = if flags & REAL != 0 { identity.real() } else { identity.acting_on_files() };
        return if owned.permits(who, &identity.groups, wanted as u32) { Ok(0) } else { Err(Errno::EACCES) };
    }
    let last = Last::of(flags & FOLLOW != 0);
    let found = walk(at, &path, last, |files, at, rest| files.access(at, rest, wanted, flags | empty_of(&path, rest)));
    match note_missing(call, &path, found)? {
        Found::Here(()) => Ok(0),
        Found::LeavesFs(_, rest) => procfs::status(&rest, true).map(|_| 0),
    }
}

pub(crate) fn readlink(call: &mut Call<'_>) -> Result<u64> {
    let [path, to, bytes, ..] = call.arguments();
    read_link_at(call, HERE, path, to, bytes)
}

pub(crate) fn readlinkat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, to, bytes, ..] = call.arguments();
    read_link_at(call, at, path, to, bytes)
}

fn read_link_at(call: &Call<'_>, at: u64, path: u64, to: u64, bytes: u64) -> Result<u64> {
    if bytes as i32 <= 0 {
        return Err(Errno::EINVAL);
    }
    let mut buffer = PathBuffer::default();
    let path = buffer.read(path)?;
    let (at, path) = start(call, at, path)?;
    let shown = find_shown(call, at, &path, false).and_then(Result::ok);
    // Found before it is written: a fault of the program's page may need the lock.
    let target = shown.and_then(|status| call.process.files.lock().target(&status));
    if let Some((target, length)) = target {
        let length = length.min(bytes as usize);
        return usercopy::write(to, &target[..length]).map(|()| length as u64);
    }
    let found = walk(at, &path, Last::Keep, |files, at, path| files.read_link(at, path));
    // An empty path is that of a link which a descriptor stands for, and of nothing else.
    let found = found.map_err(|error| if path.is_empty() && error == Errno::EINVAL { Errno::ENOENT } else { error });
    let target = match note_missing(call, &path, found)? {
        Found::Here(target) => target,
        Found::LeavesFs(_, rest) => procfs::read_link(&rest)?,
    };
    let length = target.len().min(bytes as usize);
    usercopy::write(to, &target[..length])?;
    Ok(length as u64)
}

pub(crate) fn getcwd(call: &mut Call<'_>) -> Result<u64> {
    let [to, bytes, ..] = call.arguments();
    let mut path = call.process.working_directory()?;
    path.push(0);
    if path.len() as u64 > bytes {
        return Err(Errno::ERANGE);
    }
    usercopy::write(to, &path)?;
    Ok(path.len() as u64)
}

pub(crate) fn chdir(call: &mut Call<'_>) -> Result<u64> {
    let [path, ..] = call.arguments();
    let path = usercopy::read_path(path)?;
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let (at, path) = start(call, HERE, &path)?;
    match walk(at, &path, Last::Node, |files, at, path| files.enter(at, path))? {
        Found::Here(node) => work_in(call, node, None),
        Found::LeavesFs(_, rest) => work_below_proc(call, &procfs::folder(&rest)?),
    }
}

/// From now on paths begin at a directory, for this process and those that it makes.
pub(crate) fn chroot(call: &mut Call<'_>) -> Result<u64> {
    let [path, ..] = call.arguments();
    let path = usercopy::read_path(path)?;
    let (at, path) = start(call, HERE, &path)?;
    walk(at, &path, Last::Node, |files, at, path| files.change_root(at, path))?.here(Errno::EPERM).map(|()| 0)
}

pub(crate) fn fchdir(call: &mut Call<'_>) -> Result<u64> {
    let [number, ..] = call.arguments();
    let description = call.process.descriptors.description(number)?;
    match &description.object {
        Object::Directory { node } => {
            let node = call.process.files.lock().enter(*node, b"")?.here(Errno::EACCES)?;
            work_in(call, node, None)
        }
        Object::Listing(folder) => work_below_proc(call, &folder.path),
        _ => Err(Errno::ENOTDIR),
    }
}

/// Takes a folder of `/proc` as the working directory.
fn work_below_proc(call: &Call<'_>, folder: &[u8]) -> Result<u64> {
    let node = call.process.files.lock().enter(ROOT, &fs_context::in_proc(b"", b""))?.here(Errno::EACCES)?;
    work_in(call, node, Some(folder.into()))
}

/// Takes a directory that is held as the working directory.
fn work_in(call: &Call<'_>, node: u64, below_proc: Option<Arc<[u8]>>) -> Result<u64> {
    let before = {
        let mut place = call.process.fs.lock();
        place.below_proc = below_proc;
        core::mem::replace(&mut place.directory, node)
    };
    call.process.files.lock().hold(before, false);
    Ok(0)
}

pub(crate) fn umask(call: &mut Call<'_>) -> Result<u64> {
    let [mask, ..] = call.arguments();
    let before = core::mem::replace(&mut call.process.fs.lock().mask, mask as u32 & 0o777);
    Ok(u64::from(before))
}

pub(crate) fn mkdir(call: &mut Call<'_>) -> Result<u64> {
    let [path, mode, ..] = call.arguments();
    make_at(call, HERE, path, linux::S_IFDIR | mode as u32 & 0o1777, 0)
}

pub(crate) fn mkdirat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, mode, ..] = call.arguments();
    make_at(call, at, path, linux::S_IFDIR | mode as u32 & 0o1777, 0)
}

pub(crate) fn mknod(call: &mut Call<'_>) -> Result<u64> {
    let [path, mode, device, ..] = call.arguments();
    no_directory(mode)?;
    make_at(call, HERE, path, mode as u32, device)
}

pub(crate) fn mknodat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, mode, device, ..] = call.arguments();
    no_directory(mode)?;
    make_at(call, at, path, mode as u32, device)
}

/// Directories are made by `mkdir` alone.
const fn no_directory(mode: u64) -> Result<()> {
    if mode as u32 & linux::S_IFMT == linux::S_IFDIR { Err(Errno::EPERM) } else { Ok(()) }
}

fn make_at(call: &Call<'_>, at: u64, path: u64, mode: u32, device: u64) -> Result<u64> {
    let path = usercopy::read_path(path)?;
    let (at, path) = start(call, at, &path)?;
    let kind = if mode & linux::S_IFMT == 0 { linux::S_IFREG } else { mode & linux::S_IFMT };
    let is_known = [linux::S_IFREG, linux::S_IFDIR, linux::S_IFCHR, linux::S_IFBLK, linux::S_IFIFO, linux::S_IFSOCK];
    if !is_known.contains(&kind) {
        return Err(Errno::EINVAL);
    }
    let mode = kind | mode & 0o7777 & !call.process.fs.lock().mask;
    let device = uapi::device_parts(device);
    let found = walk(at, &path, Last::Keep, |files, at, path| files.make(at, path, mode, device))?;
    made(found)
}

/// Nothing can be made below `/proc`.
fn made(found: Found<()>) -> Result<u64> {
    match found {
        Found::Here(()) => Ok(0),
        Found::LeavesFs(_, rest) => Err(procfs::why_not_made(&rest)),
    }
}

pub(crate) fn unlink(call: &mut Call<'_>) -> Result<u64> {
    let [path, ..] = call.arguments();
    remove_at(call, HERE, path, 0)
}

pub(crate) fn rmdir(call: &mut Call<'_>) -> Result<u64> {
    let [path, ..] = call.arguments();
    remove_at(call, HERE, path, DIRECTORY)
}

pub(crate) fn unlinkat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, flags, ..] = call.arguments();
    match flags as u32 {
        0 => remove_at(call, at, path, 0),
        linux::AT_REMOVEDIR => remove_at(call, at, path, DIRECTORY),
        _ => Err(Errno::EINVAL),
    }
}

fn remove_at(call: &Call<'_>, at: u64, path: u64, flags: u64) -> Result<u64> {
    let path = usercopy::read_path(path)?;
    let (at, path) = start(call, at, &path)?;
    let found = walk(at, &path, Last::Keep, |files, at, path| files.remove(at, path, flags))?;
    found.here(Errno::EPERM).map(|()| 0)
}

pub(crate) fn rename(call: &mut Call<'_>) -> Result<u64> {
    let [from, to, ..] = call.arguments();
    rename_at(call, [HERE, from], [HERE, to], 0)
}

pub(crate) fn renameat(call: &mut Call<'_>) -> Result<u64> {
    let [from_at, from, to_at, to, ..] = call.arguments();
    rename_at(call, [from_at, from], [to_at, to], 0)
}

pub(crate) fn renameat2(call: &mut Call<'_>) -> Result<u64> {
    let [from_at, from, to_at, to, flags, _] = call.arguments();
    rename_at(call, [from_at, from], [to_at, to], flags as u32)
}

fn rename_at(call: &Call<'_>, from: [u64; 2], to: [u64; 2], flags: u32) -> Result<u64> {
    const KNOWN: u32 = linux::RENAME_NOREPLACE | linux::RENAME_EXCHANGE | linux::RENAME_WHITEOUT;
    let exchanges = flags & linux::RENAME_EXCHANGE != 0;
    if flags & !KNOWN != 0 || exchanges && flags != linux::RENAME_EXCHANGE {
        return Err(Errno::EINVAL);
    }
    let (from_path, to_path) = (usercopy::read_path(from[1])?, usercopy::read_path(to[1])?);
    let (from, to) = (start(call, from[0], &from_path)?, start(call, to[0], &to_path)?);
    let (from, to) = ((from.0, &*from.1), (to.0, &*to.1));
    call.process.files.lock().rename(from, to, flags).map(|()| 0)
}

pub(crate) fn link(call: &mut Call<'_>) -> Result<u64> {
    let [from, to, ..] = call.arguments();
    link_at(call, [HERE, from], [HERE, to], 0)
}

pub(crate) fn linkat(call: &mut Call<'_>) -> Result<u64> {
    let [from_at, from, to_at, to, flags, _] = call.arguments();
    known(flags, linux::AT_SYMLINK_FOLLOW | linux::AT_EMPTY_PATH)?;
    let follow = if flags as u32 & linux::AT_SYMLINK_FOLLOW != 0 { FOLLOW } else { 0 };
    let empty = if flags as u32 & linux::AT_EMPTY_PATH != 0 { EMPTY_PATH } else { 0 };
    link_at(call, [from_at, from], [to_at, to], follow | empty)
}

fn link_at(call: &Call<'_>, from: [u64; 2], to: [u64; 2], flags: u64) -> Result<u64> {
    let (from_path, to_path) = (usercopy::read_path(from[1])?, usercopy::read_path(to[1])?);
    let (from, to) = (start(call, from[0], &from_path)?, start(call, to[0], &to_path)?);
    let to = (to.0, &*to.1);
    // Only the source can lie below /proc with a meaning: a descriptor's file gets a name.
    let last = Last::of(flags & FOLLOW != 0);
    let found =
        walk(from.0, &from.1, last, |files, at, path| files.link((at, path), to, flags | empty_of(&from.1, path)))?;
    found.here(Errno::EXDEV).map(|()| 0)
}

pub(crate) fn symlink(call: &mut Call<'_>) -> Result<u64> {
    let [target, path, ..] = call.arguments();
    symlink_at(call, target, HERE, path)
}

pub(crate) fn symlinkat(call: &mut Call<'_>) -> Result<u64> {
    let [target, at, path, ..] = call.arguments();
    symlink_at(call, target, at, path)
}

fn symlink_at(call: &Call<'_>, target: u64, at: u64, path: u64) -> Result<u64> {
    let (target, path) = (usercopy::read_path(target)?, usercopy::read_path(path)?);
    let (at, path) = start(call, at, &path)?;
    let found = walk(at, &path, Last::Keep, |files, at, path| files.symbolic_link(&target, at, path))?;
    made(found)
}

pub(crate) fn truncate(call: &mut Call<'_>) -> Result<u64> {
    let [path, size, ..] = call.arguments();
    if (size as i64) < 0 {
        return Err(Errno::EINVAL);
    }
    let path = usercopy::read_path(path)?;
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let (at, path) = start(call, HERE, &path)?;
    let found =
        walk(at, &path, Last::Node, |files, at, path| files.open(at, path, linux::O_WRONLY | protocol::QUIET, 0))?;
    let opened = found.here(Errno::EACCES)?;
    let is_file = opened.mode & linux::S_IFMT == linux::S_IFREG;
    let is_file = if is_file { Ok(()) } else { Err(Errno::EINVAL) };
    let allowed = is_file.and_then(|()| crate::syscalls::processes::limit::check_file_size(size));
    let cut = allowed.and_then(|()| {
        let stale_mappings = call.process.files.lock().truncate(opened.node, size)?;
        cut_mappings(call.process, opened.node, (size, u64::MAX), true, stale_mappings)
    });
    call.process.files.lock().hold(opened.node, false);
    cut.map(|()| 0)
}
