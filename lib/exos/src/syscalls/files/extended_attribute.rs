//! Extended attributes of files, by path, by the path of a link itself, and by descriptor (xattr(7)).

use crate::descriptor::object::Object;
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::process::proc_links::walk;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::procfs::Last;
use unix_core::server::protocol::{AttributeRequest, EMPTY_PATH, FOLLOW};
use vfs::extended_attribute::{MOST_BYTES, NAME_BYTES};

/// Bytes that Linux allows a value at most.
const LONGEST_VALUE: u64 = 65536;

/// Of which file.
#[derive(Clone, Copy)]
enum Which {
    Path,
    Link,
    Open,
}

/// What is asked of it: a request with its flags, a name, a value.
struct Wanted {
    request: (AttributeRequest, u32),
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Wanted {
    fn plain(request: AttributeRequest, name: Vec<u8>) -> Self {
        Self { request: (request, 0), name, value: Vec::new() }
    }
}

pub(crate) fn getxattr(call: &mut Call<'_>) -> Result<u64> {
    get(call, Which::Path)
}

pub(crate) fn lgetxattr(call: &mut Call<'_>) -> Result<u64> {
    get(call, Which::Link)
}

pub(crate) fn fgetxattr(call: &mut Call<'_>) -> Result<u64> {
    get(call, Which::Open)
}

pub(crate) fn setxattr(call: &mut Call<'_>) -> Result<u64> {
    set(call, Which::Path)
}

pub(crate) fn lsetxattr(call: &mut Call<'_>) -> Result<u64> {
    set(call, Which::Link)
}

pub(crate) fn fsetxattr(call: &mut Call<'_>) -> Result<u64> {
    set(call, Which::Open)
}

pub(crate) fn listxattr(call: &mut Call<'_>) -> Result<u64> {
    list(call, Which::Path)
}

pub(crate) fn llistxattr(call: &mut Call<'_>) -> Result<u64> {
    list(call, Which::Link)
}

pub(crate) fn flistxattr(call: &mut Call<'_>) -> Result<u64> {
    list(call, Which::Open)
}

pub(crate) fn removexattr(call: &mut Call<'_>) -> Result<u64> {
    remove(call, Which::Path)
}

pub(crate) fn lremovexattr(call: &mut Call<'_>) -> Result<u64> {
    remove(call, Which::Link)
}

pub(crate) fn fremovexattr(call: &mut Call<'_>) -> Result<u64> {
    remove(call, Which::Open)
}

fn get(call: &Call<'_>, which: Which) -> Result<u64> {
    let [_, name, to, room, ..] = call.arguments();
    let value = ask(call, which, &Wanted::plain(AttributeRequest::Get, read_name(name)?))?;
    give(&value, to, room)
}

fn set(call: &Call<'_>, which: Which) -> Result<u64> {
    let [_, name, value, bytes, flags, _] = call.arguments();
    if flags as u32 & !(linux::XATTR_CREATE | linux::XATTR_REPLACE) != 0 {
        return Err(Errno::EINVAL);
    }
    let name = read_name(name)?;
    if bytes > LONGEST_VALUE {
        return Err(Errno::E2BIG);
    }
    let value = usercopy::read_vec(value, bytes as usize)?;
    if value.len() > MOST_BYTES {
        return Err(Errno::ENOSPC);
    }
    ask(call, which, &Wanted { request: (AttributeRequest::Set, flags as u32), name, value }).map(|_| 0)
}

fn list(call: &Call<'_>, which: Which) -> Result<u64> {
    let [_, to, room, ..] = call.arguments();
    let names = ask(call, which, &Wanted::plain(AttributeRequest::List, Vec::new()));
    // What lies elsewhere has none.
    let names = if names == Err(Errno::EOPNOTSUPP) { Vec::new() } else { names? };
    give(&names, to, room)
}

fn remove(call: &Call<'_>, which: Which) -> Result<u64> {
    let [_, name, ..] = call.arguments();
    ask(call, which, &Wanted::plain(AttributeRequest::Remove, read_name(name)?)).map(|_| 0)
}

/// The error for attributes of what is no file: users keep none on a pipe.
fn without_node(object: &Object, request: AttributeRequest, name: &[u8]) -> Errno {
    match request {
        _ if matches!(object, Object::Text(_)) || !name.starts_with(b"user.") => Errno::EOPNOTSUPP,
        AttributeRequest::Get | AttributeRequest::List => Errno::ENODATA,
        AttributeRequest::Set | AttributeRequest::Remove => Errno::EPERM,
    }
}

fn read_name(at: u64) -> Result<Vec<u8>> {
    let name = usercopy::read_string(at, NAME_BYTES + 1, Errno::ERANGE)?;
    if name.is_empty() || name.len() > NAME_BYTES { Err(Errno::ERANGE) } else { Ok(name) }
}

/// Tells how long it is to who has no room at all.
fn give(bytes: &[u8], to: u64, room: u64) -> Result<u64> {
    match bytes.len() as u64 {
        length if room == 0 => Ok(length),
        length if length > room => Err(Errno::ERANGE),
        length => usercopy::write(to, bytes).map(|()| length),
    }
}

fn ask(call: &Call<'_>, which: Which, Wanted { request, name, value }: &Wanted) -> Result<Vec<u8>> {
    let [file, ..] = call.arguments();
    if matches!(which, Which::Open) {
        let description = call.process.descriptors.opened(file)?;
        let node = description.object.node().ok_or_else(|| without_node(&description.object, request.0, name))?;
        let found = call.process.files.lock().attribute((node, b""), EMPTY_PATH, *request, (name, value))?;
        return found.here(Errno::EOPNOTSUPP);
    }
    let path = usercopy::read_path(file)?;
    let (at, path) = call.process.fs.lock().start(&path);
    let follow = matches!(which, Which::Path);
    let flags = if follow { FOLLOW } else { 0 };
    let found = walk(at, &path, Last::of(follow), |files, at, rest| {
        let empty = if rest.is_empty() && !path.is_empty() { EMPTY_PATH } else { 0 };
        files.attribute((at, rest), flags | empty, *request, (name, value))
    })?;
    found.here(Errno::EOPNOTSUPP)
}
