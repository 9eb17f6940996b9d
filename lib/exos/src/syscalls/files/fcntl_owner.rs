//! Owners of open files (fcntl(2)): the process that gets a signal when something can be read or written (`O_ASYNC`).
//! `descriptor/async_io.rs` sends it.

use crate::descriptor::async_io::Owner;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::sockets::socket::Socket;
use crate::hw::usercopy;
use crate::process::call::Call;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use linux_raw_sys::ioctl;
use unix_core::signal::set::COUNT;

impl Owner {
    fn keep(self, description: &OpenFile) {
        description.set_owner(self.to_word());
    }

    /// As one number: that of a group is negative.
    const fn signed(self) -> u64 {
        let number = self.number as i32;
        if self.kind == linux::F_OWNER_PGRP { -number as i64 as u64 } else { number as u64 }
    }
}

/// The commands of `fcntl` that are about owners; `None` for others.
pub(crate) fn fcntl(call: &Call<'_>, description: &OpenFile, command: u32, argument: u64) -> Option<Result<u64>> {
    let own = Owner::of(description);
    Some(match command {
        linux::F_GETOWN => Ok(own.signed()),
        linux::F_SETOWN => match argument as i32 {
            i32::MIN => Err(Errno::EINVAL),
            number if number < 0 => set(call, description, linux::F_OWNER_PGRP, number.unsigned_abs()),
            number => set(call, description, linux::F_OWNER_PID, number as u32),
        },
        linux::F_GETOWN_EX => {
            let bytes = u64::from(own.kind) | u64::from(own.number) << 32;
            usercopy::write(argument, &bytes.to_le_bytes()).map(|()| 0)
        }
        linux::F_SETOWN_EX => usercopy::read_word(argument).and_then(|word| match (word as u32, (word >> 32) as i32) {
            (kind, number) if kind <= linux::F_OWNER_PGRP && number >= 0 => set(call, description, kind, number as u32),
            _ => Err(Errno::EINVAL),
        }),
        linux::F_GETSIG => Ok(u64::from(own.signal)),
        linux::F_SETSIG if argument > u64::from(COUNT) => Err(Errno::EINVAL),
        linux::F_SETSIG => {
            Owner { signal: argument as u32, ..own }.keep(description);
            Ok(0)
        }
        _ => return None,
    })
}

/// Makes an existing process or group the owner; 0: none.
fn set(call: &Call<'_>, description: &OpenFile, kind: u32, number: u32) -> Result<u64> {
    let wanted = u64::from(number);
    let is_own =
        wanted == call.process.number() || kind == linux::F_OWNER_PGRP && wanted == call.process.signal.group();
    let is_thread = || call.process.threads.lock().iter().any(|thread| thread.shown_number() == wanted);
    let is_group = || crate::process_table::all().iter().any(|other| other.group == wanted);
    let is_there = match kind {
        _ if number == 0 || is_own => true,
        linux::F_OWNER_PGRP => is_group(),
        linux::F_OWNER_TID => is_thread() || crate::process_table::find_any(wanted).is_some(),
        _ => crate::process_table::find_any(wanted).is_some(),
    };
    if !is_there {
        return Err(Errno::ESRCH);
    }
    Owner { kind, number, ..Owner::of(description) }.keep(description);
    let [descriptor, ..] = call.arguments();
    call.process.alarms.watch(descriptor, description);
    Ok(0)
}

/// `ioctl` with `FIOASYNC`.
pub(crate) fn set_asynchronous(call: &Call<'_>, number: u64, description: &OpenFile, argument: u64) -> Result<u64> {
    let flags = description.flags();
    let wanted = if usercopy::read_half(argument)? != 0 { flags | linux::FASYNC } else { flags & !linux::FASYNC };
    if wanted == flags {
        return Ok(0);
    }
    if !description.object.tells_owner() {
        return Err(Errno::ENOTTY);
    }
    description.set_flags(wanted);
    call.process.alarms.watch(number, description);
    Ok(0)
}

/// `ioctl` with `FIOSETOWN`, `FIOGETOWN` and the like of sockets; `None` for others.
pub(crate) fn socket_ioctl(
    call: &Call<'_>,
    description: &OpenFile,
    request: u32,
    argument: u64,
) -> Option<Result<u64>> {
    let is_socket =
        description.as_kind::<Socket>().is_some() || crate::syscalls::sockets::internet::of(description).is_some();
    Some(match request {
        _ if !is_socket => return None,
        ioctl::FIOGETOWN | ioctl::SIOCGPGRP => {
            usercopy::write_half(argument, Owner::of(description).signed() as u32).map(|()| 0)
        }
        ioctl::FIOSETOWN | ioctl::SIOCSPGRP => usercopy::read_half(argument).and_then(|number| {
            fcntl(call, description, linux::F_SETOWN, u64::from(number)).unwrap_or(Err(Errno::EINVAL))
        }),
        _ => return None,
    })
}
