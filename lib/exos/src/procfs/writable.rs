//! What a process can set by writing to files below `/proc` (proc(5)): its name, OOM score adjustment, core dump
//! filter, timer slack and login. All but the name are kept, inherited and told.
//!
//! A value in a file of another process becomes a request to that process. Name and login are a process's own alone.

use super::init_process::NUMBER;
use crate::hw::usercopy;
use crate::process::current::process;
use crate::process::thread::Thread;
use crate::signal::remote_call;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::process::remote_request::Setting;

/// Bytes of a name.
const NAME_BYTES: usize = 15;
/// Bytes of a number with its sign and its newline.
const NUMBER_BYTES: u64 = 24;
/// The value of `oom_score_adj` that never lets a process be ended, or at once; and those of the older `oom_adj`.
const MOST_SCORE: i32 = 1000;
const OLD_NEVER: i32 = -17;
const OLD_FIRST: i32 = 15;

/// What the file of a setting says.
pub(super) fn text(name: &str) -> Option<String> {
    let attributes = process().attributes.prctl.lock();
    Some(match name {
        "coredump_filter" => format!("{:08x}\n", attributes.core_filter),
        "loginuid" => format!("{}", attributes.login.user),
        "sessionid" => format!("{}", attributes.login.session),
        "oom_adj" => format!("{}\n", to_old(attributes.memory_score)),
        "oom_score_adj" => format!("{}\n", attributes.memory_score),
        "timerslack_ns" => format!("{}\n", attributes.timer_slack()),
        _ => return None,
    })
}

fn to_old(score: i32) -> i32 {
    if score == MOST_SCORE { OLD_FIRST } else { score * -OLD_NEVER / MOST_SCORE }
}

/// The permissions of a file with a name in the folder of a process.
pub(super) fn mode(path: &[u8]) -> u32 {
    if let Some(mode) = of_machine(path) {
        return mode;
    }
    match last(path) {
        Some(name) if let Some(mode) = super::pid_files::mode(name) => mode,
        Some("timerslack_ns") => 0o666,
        Some("comm" | "coredump_filter" | "loginuid" | "oom_adj" | "oom_score_adj") => 0o644,
        Some("auxv" | "environ" | "personality") => 0o400,
        _ => 0o444,
    }
}

/// Permissions of a file of the whole machine that the table has.
fn of_machine(path: &[u8]) -> Option<u32> {
    super::machine::machine_files::mode(&super::parts_of(core::str::from_utf8(path).ok()?).join("/"))
}

/// Refuses a file of the whole machine that only user 0 may read.
///
/// # Errors
/// `EACCES` for a process without `CAP_DAC_READ_SEARCH`.
pub(super) fn check_secret(path: &[u8]) -> Result<()> {
    let is_secret = of_machine(path).is_some_and(|mode| mode & 0o004 == 0);
    if is_secret && !process().may(linux::CAP_DAC_READ_SEARCH) { Err(Errno::EACCES) } else { Ok(()) }
}

/// The same of a folder.
pub(super) fn mode_of_folder(path: &[u8]) -> u32 {
    match last(path) {
        Some("fd" | "map_files") => 0o500,
        Some("ns") => 0o511,
        _ => 0o555,
    }
}

/// The name of a file in the folder of a process, or of one of its threads.
fn last(path: &[u8]) -> Option<&str> {
    let mut parts = core::str::from_utf8(path).ok()?.split('/').filter(|part| !part.is_empty() && *part != ".");
    let name = match (parts.next()?, parts.next()?) {
        (_, "task") => parts.nth(1)?,
        ("self" | "thread-self", name) => name,
        (number, name) => number.parse::<u64>().is_ok().then_some(name)?,
    };
    parts.next().is_none().then_some(name)
}

/// The process whose folder a path leads through, where that is another one.
fn other(path: &[u8]) -> Option<u64> {
    let first = path.split(|byte| *byte == b'/').find(|part| !part.is_empty())?;
    let number = core::str::from_utf8(first).ok()?.parse().ok()?;
    (number != process().number()).then_some(number)
}

/// Whether this process may write to what lies at a path.
pub(super) fn can_be_set(path: &[u8]) -> bool {
    let mode = match last(path) {
        // The session answers no request.
        Some(_) if other(path) != Some(NUMBER) => mode(path),
        _ => return false,
    };
    // The memory of another process has its own rules, which the server knows.
    let is_for_all = other(path).is_none() || last(path) == Some("mem") || mode & 0o002 != 0;
    let is_owner = || process().attributes.credentials.lock().user.effective == super::owner(path) as u32;
    mode & 0o222 != 0 && (is_for_all || is_owner() || process().may(linux::CAP_DAC_OVERRIDE))
}

/// Writes to a file that was opened at a path: all that the program gives is one value.
pub(crate) fn write(path: &[u8], from: u64, count: u64) -> Result<u64> {
    if !can_be_set(path) {
        return Err(Errno::EACCES);
    }
    let name = last(path).ok_or(Errno::EACCES)?;
    let other = other(path);
    match (name, other) {
        ("comm", None) => {
            let name = usercopy::read_vec(from, count.min(NAME_BYTES as u64) as usize)?;
            thread_at(path)?.set_name(name.split(|byte| *byte == 0).next().unwrap_or_default().to_vec());
            return Ok(count);
        }
        ("comm", Some(_)) => return Err(Errno::EINVAL),
        ("loginuid", Some(_)) => return Err(Errno::EPERM),
        ("timerslack_ns", Some(_)) if !process().may(linux::CAP_SYS_NICE) => return Err(Errno::EPERM),
        _ => {}
    }
    let bytes = usercopy::read_vec(from, count.min(NUMBER_BYTES) as usize)?;
    let value = number(&bytes).ok_or(Errno::EINVAL)?;
    let setting = Setting { name, value, may_raise: process().may(linux::CAP_SYS_RESOURCE) };
    match other {
        None => set(setting)?,
        Some(other) => drop(remote_call::request(other, &setting.to_path())?),
    }
    Ok(count)
}

/// Sets a value for another process, which the server has found to have the right.
pub(super) fn answer(path: &str) -> Result<Vec<u8>> {
    let setting = Setting::from_path(path).filter(|setting| setting.name != "loginuid").ok_or(Errno::EINVAL)?;
    set(setting).map(|()| Vec::new())
}

fn set(Setting { name, value, may_raise }: Setting<'_>) -> Result<()> {
    if name == "clear_refs" {
        return clear_references(value);
    }
    let may_log_in = process().may(linux::CAP_AUDIT_CONTROL);
    let mut attributes = process().attributes.prctl.lock();
    match name {
        "coredump_filter" => attributes.core_filter = u32::try_from(value).map_err(|_| Errno::EINVAL)?,
        "loginuid" => {
            let user = u64::try_from(value).map_err(|_| Errno::EINVAL)?;
            let user = u32::try_from(user).map_err(|_| Errno::ERANGE)?;
            attributes.log_in(user, process().number() as u32, may_log_in)?;
        }
        "timerslack_ns" => {
            let slack = u64::try_from(value).map_err(|_| Errno::EINVAL)?;
            attributes.set_timer_slack(slack);
        }
        "oom_adj" | "oom_score_adj" => {
            let score = score(name, value).ok_or(Errno::EINVAL)?;
            if score < attributes.memory_score && !may_raise {
                return Err(Errno::EACCES);
            }
            attributes.memory_score = score;
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// `clear_refs` resets the peak of the resident pages (5). Marks of pages (1 to 4) do not exist: none is cleared.
fn clear_references(number: i64) -> Result<()> {
    match number {
        1..=4 => Ok(()),
        5 => {
            process().memory.lock().space.frames.reset_peak();
            Ok(())
        }
        _ => Err(Errno::EINVAL),
    }
}

/// The thread whose folder a file lies in; that of the process is its first thread's.
fn thread_at(path: &[u8]) -> Result<&'static Thread> {
    let text = core::str::from_utf8(path).map_err(|_| Errno::ENOENT)?;
    let number = match text.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>()[..] {
        [_, "task", thread, ..] => thread.parse().map_err(|_| Errno::ENOENT)?,
        _ => process().number(),
    };
    let threads = process().threads.lock();
    threads.iter().copied().find(|thread| thread.shown_number() == number).ok_or(Errno::ESRCH)
}

fn score(name: &str, number: i64) -> Option<i32> {
    let number = i32::try_from(number).ok()?;
    let is_old = name == "oom_adj";
    let all = if is_old { OLD_NEVER..=OLD_FIRST } else { -MOST_SCORE..=MOST_SCORE };
    let score = match number {
        OLD_FIRST if is_old => MOST_SCORE,
        number if is_old => number * MOST_SCORE / -OLD_NEVER,
        number => number,
    };
    all.contains(&number).then_some(score)
}

/// A number as a program writes it, with a base as in C.
fn number(bytes: &[u8]) -> Option<i64> {
    let text = core::str::from_utf8(bytes).ok()?.trim();
    let (sign, digits) = text.strip_prefix('-').map_or((1i64, text), |rest| (-1, rest));
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => i64::from_str_radix(digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => i64::from_str_radix(&digits[1..], 8),
        None => digits.parse(),
    };
    value.ok()?.checked_mul(sign)
}
