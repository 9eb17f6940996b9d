//! Calls on the mount table, and what is told of the file system that something lies in.

use super::path::{HERE, empty_of, start};
use crate::descriptor::object::Object;
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::process::proc_links::walk;
use crate::procfs;
use crate::server::client::Found;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::process::fs_context;
use unix_core::procfs::Last;
use unix_core::server::protocol::{EMPTY_PATH, FOLLOW};
use unix_core::uapi;
use vfs::mount_table::Kind;
use vfs::namespace::ROOT;
use vfs::path_walk::PATH_BYTES;

/// What the upper half of the flags of `mount` may hold, so that they are read without it.
const MAGIC: u64 = 0xc0ed_0000;
const MAGIC_MASK: u64 = 0xffff_0000;
/// Flags that Linux's `statfs` tells: that they are told at all, and that times of reads are kept as relatime has it.
const TOLD: u64 = 0x20;
const TOLD_RELATIME: u64 = 0x1000;
const TOLD_NO_LINKS: u64 = 0x2000;

pub(crate) fn mount(call: &mut Call<'_>) -> Result<u64> {
    let [source, target, kind, flags, data, _] = call.arguments();
    let text = |at: u64| if at == 0 { Ok(Vec::new()) } else { usercopy::read_string(at, PATH_BYTES, Errno::EINVAL) };
    let (kind, source_name, data) = (text(kind)?, text(source)?, text(data)?);
    let target = usercopy::read_path(target)?;
    if target.is_empty() {
        return Err(Errno::ENOENT);
    }
    let flags = if flags & MAGIC_MASK == MAGIC { flags & !MAGIC_MASK } else { flags } & 0xffff_ffff;
    let names_place = flags as u32 & (linux::MS_BIND | linux::MS_MOVE) != 0 && flags as u32 & linux::MS_REMOUNT == 0;
    if names_place && source_name.is_empty() {
        return Err(Errno::EINVAL);
    }
    let (source_at, source) =
        if names_place { lead_back(start(call, HERE, &source_name)?)? } else { (ROOT, source_name) };
    let (target_at, target) = start(call, HERE, &target)?;
    let found = walk(target_at, &target, Last::Node, |files, at, path| {
        files.mount([at, source_at], [of_node(path), &source, &kind, &data], flags)
    })?;
    found.here(Errno::EINVAL).map(|()| 0)
}

/// The path of a node itself.
const fn of_node(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"." } else { path }
}

/// A path that may lead through links of `/proc` as one that does not: `mount` has two of them, as few calls have.
fn lead_back((at, path): (u64, Cow<'_, [u8]>)) -> Result<(u64, Vec<u8>)> {
    let mut place = (at, path.to_vec());
    walk(at, &path, Last::Node, |files, at, rest| {
        place = (at, of_node(rest).to_vec());
        files.status(at, rest, FOLLOW | empty_of(&path, rest))
    })?;
    Ok(place)
}

pub(crate) fn umount2(call: &mut Call<'_>) -> Result<u64> {
    let [target, flags, ..] = call.arguments();
    let target = usercopy::read_path(target)?;
    if target.is_empty() {
        return Err(Errno::ENOENT);
    }
    let (at, target) = start(call, HERE, &target)?;
    let found = walk(at, &target, Last::Node, |files, at, path| files.unmount(at, of_node(path), flags))?;
    found.here(Errno::EINVAL).map(|()| 0)
}

pub(crate) fn pivot_root(call: &mut Call<'_>) -> Result<u64> {
    let [new, put_old, ..] = call.arguments();
    let (new, put_old) = (usercopy::read_path(new)?, usercopy::read_path(put_old)?);
    let (new, put_old) = (start(call, HERE, &new)?, start(call, HERE, &put_old)?);
    call.process.files.lock().pivot_root((new.0, &new.1), (put_old.0, &put_old.1)).map(|()| 0)
}

pub(crate) fn statfs(call: &mut Call<'_>) -> Result<u64> {
    let [path, to, ..] = call.arguments();
    let path = usercopy::read_path(path)?;
    let (at, path) = start(call, HERE, &path)?;
    let found = walk(at, &path, Last::Node, |files, at, rest| files.space(at, rest, FOLLOW | empty_of(&path, rest)))?;
    match found {
        Found::Here(told) => tell_space(told, to),
        Found::LeavesFs(_, rest) => {
            procfs::status(&rest, true)?;
            tell_space_of_proc(call, to)
        }
    }
}

pub(crate) fn fstatfs(call: &mut Call<'_>) -> Result<u64> {
    const PIPES: u64 = 0x5049_5045;
    const SOCKETS: u64 = 0x534f_434b;
    const UNNAMED: u64 = 0x0904_1934;
    let [number, to, ..] = call.arguments();
    let description = call.process.descriptors.description(number)?;
    if let Some(node) = description.object.node() {
        let found = call.process.files.lock().space(node, b"", EMPTY_PATH)?;
        return tell_space(found.here(Errno::EIO)?, to);
    }
    match &description.object {
        Object::Text(_) | Object::Listing(_) => tell_space_of_proc(call, to),
        Object::Pipe(..) | Object::Console(_) => tell_space([0, 0, 0, PIPES | TOLD << 32], to),
        Object::Other(other) if other.status().0 & linux::S_IFMT == linux::S_IFSOCK => {
            tell_space([0, 0, 0, SOCKETS], to)
        }
        _ => tell_space([0, 0, 0, UNNAMED], to),
    }
}

fn tell_space_of_proc(call: &Call<'_>, to: u64) -> Result<u64> {
    let found = call.process.files.lock().space(ROOT, &fs_context::in_proc(b"", b""), FOLLOW);
    tell_space(found.and_then(|found| found.here(Errno::EIO)).unwrap_or([0, 0, 0, Kind::Processes.magic()]), to)
}

/// `struct statfs`: 120 bytes.
fn tell_space([all, free, nodes, kind]: [u64; 4], to: u64) -> Result<u64> {
    const NAME_BYTES: u64 = 255;
    let magic = kind & 0xffff_ffff;
    let [all, free, nodes] =
        if [Kind::Memory, Kind::Disk].iter().any(|kind| kind.magic() == magic) { [all, free, nodes] } else { [0; 3] };
    let flags = flags_of((kind >> 32) as u32);
    let free_nodes = if all == 0 { 0 } else { free };
    let mut words =
        Vec::from([magic, PAGE_SIZE, all, free, free, nodes + free_nodes, free_nodes, 0, NAME_BYTES, PAGE_SIZE, flags]);
    words.resize(15, 0);
    usercopy::write(to, &uapi::bytes(&words)).map(|()| 0)
}

/// The flags of a mount as `statfs` tells them: the low ones are the same.
const fn flags_of(flags: u32) -> u64 {
    let same = linux::MS_RDONLY
        | linux::MS_NOSUID
        | linux::MS_NODEV
        | linux::MS_NOEXEC
        | linux::MS_NOATIME
        | linux::MS_NODIRATIME;
    let relatime = if flags & linux::MS_RELATIME != 0 { TOLD_RELATIME } else { 0 };
    let no_links = if flags & linux::MS_NOSYMFOLLOW != 0 { TOLD_NO_LINKS } else { 0 };
    (flags & same) as u64 | relatime | no_links | TOLD
}
