//! Calls that change a file's mode, owner and times (chmod(2), chown(2), utimensat(2)).

use super::path::{HERE, WORKING_DIRECTORY, empty_of, known, note_missing, start, status_with_flags};
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::process::proc_links::walk;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::procfs::Last;
use unix_core::server::protocol::{self, EMPTY_PATH, FOLLOW, Request};

pub(crate) fn chmod(call: &mut Call<'_>) -> Result<u64> {
    let [path, mode, ..] = call.arguments();
    set_at(call, Request::SetMode, HERE, path, &[mode], FOLLOW)
}

pub(crate) fn fchmodat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, mode, ..] = call.arguments();
    set_at(call, Request::SetMode, at, path, &[mode], FOLLOW)
}

pub(crate) fn fchmodat2(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, mode, flags, ..] = call.arguments();
    known(flags, linux::AT_SYMLINK_NOFOLLOW | linux::AT_EMPTY_PATH)?;
    let empty = if flags as u32 & linux::AT_EMPTY_PATH != 0 { EMPTY_PATH } else { 0 };
    if flags as u32 & linux::AT_SYMLINK_NOFOLLOW == 0 {
        return set_at(call, Request::SetMode, at, path, &[mode], FOLLOW | empty);
    }
    if status_with_flags(call, at, path, flags as u32)?.kind() == linux::S_IFLNK {
        return Err(Errno::EOPNOTSUPP);
    }
    set_at(call, Request::SetMode, at, path, &[mode], empty)
}

pub(crate) fn fchmod(call: &mut Call<'_>) -> Result<u64> {
    let [number, mode, ..] = call.arguments();
    set_open(call, Request::SetMode, number, &[mode])
}

pub(crate) fn chown(call: &mut Call<'_>) -> Result<u64> {
    let [path, uid, gid, ..] = call.arguments();
    set_at(call, Request::SetOwner, HERE, path, &[owner(uid, gid)], FOLLOW)
}

pub(crate) fn lchown(call: &mut Call<'_>) -> Result<u64> {
    let [path, uid, gid, ..] = call.arguments();
    set_at(call, Request::SetOwner, HERE, path, &[owner(uid, gid)], 0)
}

pub(crate) fn fchown(call: &mut Call<'_>) -> Result<u64> {
    let [number, uid, gid, ..] = call.arguments();
    set_open(call, Request::SetOwner, number, &[owner(uid, gid)])
}

pub(crate) fn fchownat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, uid, gid, flags, _] = call.arguments();
    known(flags, linux::AT_SYMLINK_NOFOLLOW | linux::AT_EMPTY_PATH)?;
    let follow = if flags as u32 & linux::AT_SYMLINK_NOFOLLOW != 0 { 0 } else { FOLLOW };
    let empty = if flags as u32 & linux::AT_EMPTY_PATH != 0 { EMPTY_PATH } else { 0 };
    set_at(call, Request::SetOwner, at, path, &[owner(uid, gid)], follow | empty)
}

const fn owner(uid: u64, gid: u64) -> u64 {
    uid & 0xffff_ffff | gid << 32
}

pub(crate) fn utimensat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, times, flags, ..] = call.arguments();
    let times = if times == 0 {
        [protocol::TIME_NOW; 2]
    } else {
        let [a_seconds, a_rest, m_seconds, m_rest] = usercopy::read_words::<4>(times)?;
        [time_to_set(a_seconds, a_rest)?, time_to_set(m_seconds, m_rest)?]
    };
    if times == [protocol::TIME_KEEP; 2] {
        return Ok(0);
    }
    known(flags, linux::AT_SYMLINK_NOFOLLOW | linux::AT_EMPTY_PATH)?;
    if path == 0 {
        return match flags {
            _ if at as i32 == WORKING_DIRECTORY => Err(Errno::EFAULT),
            0 => set_open(call, Request::SetTimes, u64::from(at as u32), &times),
            _ => Err(Errno::EINVAL),
        };
    }
    let follow = if flags as u32 & linux::AT_SYMLINK_NOFOLLOW != 0 { 0 } else { FOLLOW };
    let empty = if flags as u32 & linux::AT_EMPTY_PATH != 0 { EMPTY_PATH } else { 0 };
    set_at(call, Request::SetTimes, at, path, &times, follow | empty)
}

/// `utime`: two times in seconds.
pub(crate) fn utime(call: &mut Call<'_>) -> Result<u64> {
    let [path, times, ..] = call.arguments();
    let times = match times {
        0 => [protocol::TIME_NOW; 2],
        at => usercopy::read_words::<2>(at)?.map(|seconds| time_kept(seconds, 0)),
    };
    set_at(call, Request::SetTimes, HERE, path, &times, FOLLOW)
}

pub(crate) fn utimes(call: &mut Call<'_>) -> Result<u64> {
    let [path, times, ..] = call.arguments();
    set_times_at(call, HERE, path, times)
}

pub(crate) fn futimesat(call: &mut Call<'_>) -> Result<u64> {
    let [at, path, times, ..] = call.arguments();
    set_times_at(call, at, path, times)
}

/// Two times in seconds and microseconds.
fn set_times_at(call: &Call<'_>, at: u64, path: u64, times: u64) -> Result<u64> {
    let times = if times == 0 {
        [protocol::TIME_NOW; 2]
    } else {
        let [a_seconds, a_rest, m_seconds, m_rest] = usercopy::read_words::<4>(times)?;
        if a_rest >= 1_000_000 || m_rest >= 1_000_000 {
            return Err(Errno::EINVAL);
        }
        [time_to_set(a_seconds, a_rest * 1000)?, time_to_set(m_seconds, m_rest * 1000)?]
    };
    if path == 0 && at as i32 != WORKING_DIRECTORY {
        return set_open(call, Request::SetTimes, u64::from(at as u32), &times);
    }
    set_at(call, Request::SetTimes, at, path, &times, FOLLOW)
}

fn time_to_set(seconds: u64, nanoseconds: u64) -> Result<u64> {
    match u32::try_from(nanoseconds) {
        Ok(linux::UTIME_NOW) => Ok(protocol::TIME_NOW),
        Ok(linux::UTIME_OMIT) => Ok(protocol::TIME_KEEP),
        Ok(rest) if rest < 1_000_000_000 => Ok(time_kept(seconds, rest)),
        _ => Err(Errno::EINVAL),
    }
}

/// A time as the file system keeps it: what is too long ago or too far ahead becomes the first or last that it can
/// keep.
fn time_kept(seconds: u64, rest: u32) -> u64 {
    const FIRST: i64 = i64::MIN + 2;
    (seconds as i64).saturating_mul(1_000_000_000).saturating_add(i64::from(rest)).max(FIRST) as u64
}

fn set_at(call: &Call<'_>, operation: Request, at: u64, path: u64, words: &[u64], flags: u64) -> Result<u64> {
    let path = usercopy::read_path(path)?;
    let (at, path) = start(call, at, &path)?;
    let last = Last::of(flags & FOLLOW != 0);
    let outcome =
        walk(at, &path, last, |files, at, rest| files.set(operation, at, rest, words, flags | empty_of(&path, rest)));
    note_missing(call, &path, outcome)?.here(Errno::EPERM).map(|()| 0)
}

fn set_open(call: &Call<'_>, operation: Request, number: u64, words: &[u64]) -> Result<u64> {
    match call.process.descriptors.opened(number)?.object.node() {
        Some(node) => {
            let found = call.process.files.lock().set(operation, node, b"", words, EMPTY_PATH)?;
            found.here(Errno::EIO).map(|()| 0)
        }
        // Pipes and the like have no attributes that are kept.
        None => Ok(0),
    }
}
