//! What the session exposes of the machine in the notice page: the host's name, its domain, and the clock.

use super::dispatch::{Answer, FileServer, NOTHING};
use core::sync::atomic::Ordering::Relaxed;
use exos::hw::mapping::Mapping;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::server::protocol::{CLOCK_OFFSET, DOMAIN_NAME, HOST_NAME, NAME_WORDS};

/// The names that a session begins with.
pub(super) fn name_machine(notice: &Mapping) {
    set_name(notice, HOST_NAME, b"chitin");
    set_name(notice, DOMAIN_NAME, b"(none)");
}

fn set_name(notice: &Mapping, first: usize, name: &[u8]) {
    for (index, word) in notice.words()[first..first + NAME_WORDS].iter().enumerate() {
        let bytes = core::array::from_fn(|byte| name.get(index * 8 + byte).copied().unwrap_or(0));
        word.store(u64::from_le_bytes(bytes), Relaxed);
    }
}

/// Nanoseconds of a tick: Debian's Linux has 250 a second.
const TICK: u64 = 4_000_000;

impl FileServer {
    /// See [`unix_core::server::protocol::Request::SetMachine`].
    pub(super) fn set_machine(&mut self, caller: u64, capabilities: u64, first: u64, value: u64) -> Result<Answer> {
        let first = first as usize;
        let needed = if first == CLOCK_OFFSET { linux::CAP_SYS_TIME } else { linux::CAP_SYS_ADMIN };
        if capabilities >> needed & 1 == 0 {
            return Err(Errno::EPERM);
        }
        match first {
            CLOCK_OFFSET => self.notice.words()[first].store(value, Relaxed),
            HOST_NAME | DOMAIN_NAME => set_name(&self.notice, first, &self.bytes(caller, value)?),
            _ => return Err(Errno::EINVAL),
        }
        exos::wait::kick_idle();
        Ok(NOTHING)
    }

    /// The time that files get, in nanoseconds since 1970, from what the machine's clock says. As on Linux before 6.13,
    /// it is that of the last tick. Writes within a tick change no inode after the first.
    pub(super) fn file_time(&self, machine: u64) -> u64 {
        let time = machine.wrapping_add(self.notice.words()[CLOCK_OFFSET].load(Relaxed));
        time - time % TICK
    }
}
