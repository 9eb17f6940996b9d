//! The machine's terminal, as a program asks about it.
//!
//! The host's side is in raw mode or not as it likes; what a program sets is kept by the process that set it.

use crate::descriptor::object::Object;
use crate::errno::{Errno, Result};
use crate::user_memory::copy;
use crate::user_memory::current::process;
use linux_raw_sys::ioctl;

/// Modes of a fresh terminal (`struct termios`): input, output, control, local.
const MODES: [u32; 4] = [0x0500, 0x0005, 0x00bf, 0x8a3b];
/// Control characters of a fresh terminal.
const CHARACTERS: [u8; 19] = [3, 28, 127, 21, 4, 0, 1, 0, 17, 19, 26, 0, 18, 15, 23, 22, 0, 0, 0];
/// Rows and columns where the host said nothing.
const SIZE: [u16; 4] = [24, 80, 0, 0];

/// What `/dev/tty` opens: the terminal, if the process has one.
pub fn open() -> Result<Object> {
    let descriptors = process().descriptors.lock();
    let found = descriptors.iter().map(|(_, description)| description.object.clone()).find(Object::is_terminal);
    found.ok_or(Errno::ENXIO)
}

/// `ioctl` on a terminal.
pub fn ioctl(request: u32, argument: u64) -> Result<u64> {
    match request {
        ioctl::TCGETS => {
            let mut bytes: alloc::vec::Vec<u8> = MODES.iter().flat_map(|mode| mode.to_le_bytes()).collect();
            bytes.push(0);
            bytes.extend_from_slice(&CHARACTERS);
            copy::write(argument, &bytes)?;
        }
        ioctl::TIOCGWINSZ => {
            let bytes: alloc::vec::Vec<u8> = SIZE.iter().flat_map(|word| word.to_le_bytes()).collect();
            copy::write(argument, &bytes)?;
        }
        ioctl::TIOCGPGRP => {
            let group = process().group.load(core::sync::atomic::Ordering::Relaxed);
            copy::write_half(argument, group as u32)?;
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}
