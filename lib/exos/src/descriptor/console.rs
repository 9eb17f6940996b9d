//! Output to the host, over its channel: by a console's descriptor, and by terminals.

use super::object::broken_pipe;
use crate::hw::domain::domain;
use crate::hw::usercopy;
use crate::wait;
use core::sync::atomic::Ordering::Acquire;
use linux_abi::errno::{Errno, Result};
use runtime::predicate::{Operator, word};
use runtime::{Kind, channel, exposed};
use unix_core::session::status_page;

pub(super) const FRAME: usize = abi::host_channel::PAYLOAD;

/// Sends bytes to the host, once its channel has room for them. Where the host reads no more that is a broken pipe.
pub(crate) fn send(kind: Kind, bytes: &[u8]) -> Result<u64> {
    let gone = &domain().board.words()[status_page::OUTPUT_GONE];
    if gone.load(Acquire) != 0 {
        return Err(broken_pipe());
    }
    for some in bytes.chunks(FRAME) {
        wait_for_room(some.len() as u64)?;
        channel::send_frame(kind, &[some])?;
    }
    Ok(bytes.len() as u64)
}

/// Sends what goes into a frame to the host: `EAGAIN` where its channel has no room for that.
pub(crate) fn send_now(kind: Kind, bytes: &[u8]) -> Result<u64> {
    if domain().board.words()[status_page::OUTPUT_GONE].load(Acquire) != 0 {
        return Err(broken_pipe());
    }
    let some = &bytes[..bytes.len().min(FRAME)];
    if !has_host_room() {
        return Err(Errno::EAGAIN);
    }
    channel::send_frame(kind, &[some])?;
    Ok(some.len() as u64)
}

/// Whether the host channel can take the longest frame.
pub(crate) fn has_host_room() -> bool {
    let needed = (FRAME + abi::host_channel::HEADER) as u64;
    exposed::kernel().channel_room.load(Acquire) >= needed
}

/// Waits until the host channel can take a frame of so many bytes.
pub(crate) fn wait_for_room(bytes: u64) -> Result<()> {
    let needed = bytes + abi::host_channel::HEADER as u64;
    let room = &exposed::kernel().channel_room;
    while room.load(Acquire) < needed {
        wait::wait(&[word(room, Operator::GreaterOrEqual, needed)], None)?;
    }
    Ok(())
}

pub(super) fn write_console(kind: Kind, from: u64, count: u64) -> Result<u64> {
    let mut done = 0;
    while done < count {
        let now = (count - done).min(FRAME as u64);
        match usercopy::read_vec(from.saturating_add(done), now as usize).and_then(|bytes| send(kind, &bytes)) {
            Err(_) if done > 0 => return Ok(done),
            outcome => done += outcome?,
        }
    }
    Ok(done)
}
