//! Calls on locks: `fcntl`'s record locks and `flock`. The server keeps them; who waits watches its count of changes.

use crate::descriptor::open_file::OpenFile;
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::server::client;
use crate::wait;
use core::sync::atomic::Ordering::Acquire;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::predicate::{Operator, word};
use unix_core::server::protocol::{LockHolder, LockKind, LockManner, LockRequest};

const LOCK_SHARED: u32 = 1;
const LOCK_EXCLUSIVE: u32 = 2;
const LOCK_NONBLOCKING: u32 = 4;
const LOCK_NONE: u32 = 8;
/// A lock's last byte where it reaches to the end, wherever that is.
const TO_THE_END: u64 = u64::MAX;
/// Nanoseconds after which who waits looks again, whatever the server said: a holder may have died unheard.
const LOOK_AGAIN: u64 = 100_000_000;

/// `struct flock` as the program has it.
struct Asked {
    kind: LockKind,
    range: (u64, u64),
}

/// The commands of `fcntl` that are about locks; `None` for others.
pub(crate) fn fcntl(call: &Call<'_>, description: &OpenFile, command: u32, at: u64) -> Option<Result<u64>> {
    use LockHolder::{Description as Open, Process};
    use LockManner::{Ask, Try, Wait};
    let (holder, manner) = match command {
        linux::F_GETLK => (Process, Ask),
        linux::F_SETLK => (Process, Try),
        linux::F_SETLKW => (Process, Wait),
        linux::F_OFD_GETLK => (Open, Ask),
        linux::F_OFD_SETLK => (Open, Try),
        linux::F_OFD_SETLKW => (Open, Wait),
        _ => return None,
    };
    Some(record_lock(call, description, holder, manner, at))
}

fn record_lock(
    call: &Call<'_>,
    description: &OpenFile,
    holder: LockHolder,
    manner: LockManner,
    at: u64,
) -> Result<u64> {
    let node = description.object.node();
    let asked = asked(call, description, node.unwrap_or_default(), at)?;
    let node = node.ok_or(Errno::EINVAL)?;
    const PROCESS_AT: u64 = 24;
    if holder == LockHolder::Description && usercopy::read_half(at.saturating_add(PROCESS_AT))? != 0 {
        return Err(Errno::EINVAL);
    }
    let allowed = match asked.kind {
        LockKind::Shared => description.can_read(),
        LockKind::Exclusive => description.can_write(),
        LockKind::None => true,
    };
    if manner != LockManner::Ask {
        let request = LockRequest { kind: asked.kind, holder, manner };
        return if allowed { take(call, description, node, request, asked.range) } else { Err(Errno::EBADF) };
    }
    if asked.kind == LockKind::None {
        return Err(Errno::EINVAL);
    }
    let request = LockRequest { kind: asked.kind, holder, manner };
    // A match would hold the lock while it writes, and the fault of the program's page may need it.
    let in_the_way = call.process.files.lock().lock(node, request, asked.range, description.number())?;
    match in_the_way {
        None => usercopy::write(at, &(linux::F_UNLCK as u16).to_le_bytes())?,
        Some(in_the_way) => tell(at, in_the_way)?,
    }
    Ok(0)
}

/// Reads what is asked for, with the range from the beginning of the file.
fn asked(call: &Call<'_>, description: &OpenFile, node: u64, at: u64) -> Result<Asked> {
    let [kind_whence, start, length] = usercopy::read_words::<3>(at)?;
    let kind = match u32::from(kind_whence as u16) {
        linux::F_RDLCK => LockKind::Shared,
        linux::F_WRLCK => LockKind::Exclusive,
        linux::F_UNLCK => LockKind::None,
        _ => return Err(Errno::EINVAL),
    };
    let base = match u32::from((kind_whence >> 16) as u16) {
        linux::SEEK_SET => 0,
        linux::SEEK_CUR => description.offset(),
        linux::SEEK_END => call.process.files.lock().status_of(node)?.size,
        _ => return Err(Errno::EINVAL),
    };
    Ok(Asked { kind, range: range(base as i64, start as i64, length as i64)? })
}

/// First and last byte of a lock; a negative length reaches downwards.
fn range(base: i64, start: i64, length: i64) -> Result<(u64, u64)> {
    let start = base.checked_add(start).ok_or(Errno::EOVERFLOW)?;
    let (first, last) = match length {
        0 => (start, TO_THE_END),
        1.. => (start, start.checked_add(length - 1).ok_or(Errno::EOVERFLOW)? as u64),
        _ => (start.checked_add(length).ok_or(Errno::EINVAL)?, (start - 1) as u64),
    };
    if first < 0 || start < 0 { Err(Errno::EINVAL) } else { Ok((first as u64, last)) }
}

/// Writes the lock that stands in the way.
fn tell(at: u64, [kind, start, last, process]: [u64; 4]) -> Result<()> {
    let kind = if kind == LockKind::Exclusive as u64 { linux::F_WRLCK } else { linux::F_RDLCK };
    let length = if last == TO_THE_END { 0 } else { last - start + 1 };
    usercopy::write_word(at, u64::from(kind) | u64::from(linux::SEEK_SET) << 16)?;
    usercopy::write_word(at.saturating_add(8), start)?;
    usercopy::write_word(at.saturating_add(16), length)?;
    usercopy::write_half(at.saturating_add(24), process as u32)
}

/// Takes a lock, or waits for it.
fn take(call: &Call<'_>, description: &OpenFile, node: u64, request: LockRequest, range: (u64, u64)) -> Result<u64> {
    let files = &call.process.files;
    let number = description.number();
    description.note_lock();
    loop {
        let changes = client::changes();
        let seen = changes.load(Acquire);
        if files.lock().lock(node, request, range, number)?.is_none() {
            return Ok(0);
        }
        if request.manner != LockManner::Wait {
            return Err(Errno::EAGAIN);
        }
        let changed = word(changes, Operator::NotEqual, seen);
        if let Err(error) = wait::wait(&[changed], Some(runtime::clock::now() + LOOK_AGAIN)) {
            let give_up = LockRequest { manner: LockManner::GiveUp, ..request };
            files.lock().lock(node, give_up, range, number)?;
            return Err(error);
        }
    }
}

pub(crate) fn flock(call: &mut Call<'_>) -> Result<u64> {
    let [number, operation, ..] = call.arguments();
    // Mandatory locks, which Linux has given up: accepted, and nothing is done.
    const MANDATORY: u64 = 32;
    if operation & MANDATORY != 0 {
        return call.process.descriptors.opened(number).map(|_| 0);
    }
    let description = call.process.descriptors.opened(number)?;
    let node = description.object.node().ok_or(Errno::EBADF)?;
    let operation = operation as u32;
    let kind = match operation & !LOCK_NONBLOCKING {
        LOCK_SHARED => LockKind::Shared,
        LOCK_EXCLUSIVE => LockKind::Exclusive,
        LOCK_NONE => LockKind::None,
        _ => return Err(Errno::EINVAL),
    };
    let manner = if operation & LOCK_NONBLOCKING != 0 { LockManner::Try } else { LockManner::Wait };
    let request = LockRequest { kind, holder: LockHolder::Whole, manner };
    take(call, &description, node, request, (0, TO_THE_END))
}
