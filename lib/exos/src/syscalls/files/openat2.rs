//! `openat2`: `openat` whose flags are all checked, and whose path may be kept from leading everywhere (openat2(2)).

use super::path::{give_number, open_path, open_unnamed, require_room, start, take_up};
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::procfs;
use crate::server::client::Found;
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::procfs::Last;

/// Bytes of `struct open_how` as this library knows it: flags, mode, and where the path may not lead.
const HOW_BYTES: u64 = 24;
/// Flags of `open` that there are.
const FLAGS: u32 = linux::O_ACCMODE
    | linux::O_CREAT
    | linux::O_EXCL
    | linux::O_NOCTTY
    | linux::O_TRUNC
    | linux::O_APPEND
    | linux::O_NONBLOCK
    | linux::O_SYNC
    | linux::FASYNC
    | linux::O_DIRECT
    | linux::O_LARGEFILE
    | linux::O_TMPFILE
    | linux::O_NOFOLLOW
    | linux::O_NOATIME
    | linux::O_CLOEXEC
    | linux::O_PATH;
/// What goes with `O_PATH`.
const WITH_PLACE: u32 = linux::O_PATH | linux::O_DIRECTORY | linux::O_NOFOLLOW | linux::O_CLOEXEC;
const RESOLVE: u32 = linux::RESOLVE_NO_XDEV
    | linux::RESOLVE_NO_MAGICLINKS
    | linux::RESOLVE_NO_SYMLINKS
    | linux::RESOLVE_BENEATH
    | linux::RESOLVE_IN_ROOT
    | linux::RESOLVE_CACHED;

/// The flags of `open` that count: with `O_PATH` few do.
///
/// # Errors
/// `EINVAL` for a request to make a folder.
pub(crate) const fn flags_that_count(flags: u32) -> Result<u32> {
    const MADE_FOLDER: u32 = linux::O_CREAT | linux::O_DIRECTORY;
    match if flags & linux::O_PATH == 0 { flags } else { flags & WITH_PLACE } {
        flags if flags & MADE_FOLDER == MADE_FOLDER => Err(Errno::EINVAL),
        flags => Ok(flags),
    }
}

pub(crate) fn openat2(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, how, bytes, ..] = call.arguments();
    let [flags, mode, resolve] = read_how(how, bytes)?;
    let path = usercopy::read_path(path)?;
    match resolve & !linux::RESOLVE_CACHED {
        0 => open_path(call, at, &path, flags, mode),
        resolve => open_within(call, at, path.to_vec(), [flags, mode, resolve]),
    }
}

/// The structure, in which nothing may stand that has no meaning.
fn read_how(how: u64, bytes: u64) -> Result<[u32; 3]> {
    if bytes < HOW_BYTES {
        return Err(Errno::EINVAL);
    }
    if bytes > PAGE_SIZE
        || usercopy::read_vec(how.saturating_add(HOW_BYTES), (bytes - HOW_BYTES) as usize)?
            .iter()
            .any(|byte| *byte != 0)
    {
        return Err(Errno::E2BIG);
    }
    let [flags, mode, resolve] = usercopy::read_words::<3>(how)?;
    let makes = flags as u32 & linux::O_CREAT != 0 || flags as u32 & linux::O_TMPFILE == linux::O_TMPFILE;
    let both = u64::from(linux::RESOLVE_BENEATH | linux::RESOLVE_IN_ROOT);
    let is_wrong = flags & !u64::from(FLAGS) != 0
        || mode & !0o7777 != 0
        || mode != 0 && !makes
        || resolve & !u64::from(RESOLVE) != 0
        || resolve & both == both
        || flags as u32 & linux::O_PATH != 0 && flags as u32 & !WITH_PLACE != 0;
    if is_wrong { Err(Errno::EINVAL) } else { Ok([flags, mode, resolve].map(|word| word as u32)) }
}

fn open_within(call: &Call<'_>, at: u64, mut path: Vec<u8>, [flags, mode, resolve]: [u32; 3]) -> Result<u64> {
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    if path[0] == b'/' && resolve & linux::RESOLVE_BENEATH != 0 {
        return Err(Errno::EXDEV);
    }
    if path[0] == b'/' && resolve & linux::RESOLVE_IN_ROOT != 0 {
        path.splice(..0, *b".");
    }
    require_room(call.process)?;
    let (at, path) = start(call, at, &path)?;
    if flags & linux::O_TMPFILE == linux::O_TMPFILE {
        let place = linux::O_PATH | linux::O_DIRECTORY;
        let folder = call.process.files.lock().open_within(at, &path, place, 0, resolve)?.here(Errno::EOPNOTSUPP)?;
        let made = open_unnamed(call, folder.node, b".", flags, mode & !call.process.fs.lock().mask);
        call.process.files.lock().hold(folder.node, false);
        return made;
    }
    let mode = mode & !call.process.fs.lock().mask;
    let found = call.process.files.lock().open_within(at, &path, flags, mode, resolve)?;
    let description = match found {
        Found::Here(opened) => return take_up(call.process, opened, flags),
        // A link of `/proc` leads by no path at all.
        Found::LeavesFs(_, rest) => match procfs::lead_on(&rest, Last::Node)? {
            None => procfs::open(&rest, flags)?,
            Some(_) if resolve & (linux::RESOLVE_NO_SYMLINKS | linux::RESOLVE_NO_MAGICLINKS) != 0 => {
                return Err(Errno::ELOOP);
            }
            Some(_) => return Err(Errno::EXDEV),
        },
    };
    give_number(call.process, description, flags)
}
