//! `ioctl` on a terminal, and `/dev/tty`.

use super::job_control::{self, Attempt, controls};
use super::packet::event;
use super::pty_master;
use super::{Terminal, controlling_terminal};
use crate::attributes::attributes;
use crate::descriptor::object::Object;
use crate::hw::domain::domain;
use crate::hw::usercopy;
use crate::process_table;
use crate::server::client;
use crate::signal::signal_state;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::{general as linux, ioctl};
use unix_core::terminal::termios::{BYTES, BYTES_2, Modes, OLD_BYTES};

/// Speed that the modes of a terminal name, in bits a second (`struct termios2`).
const SPEED: u32 = 38400;
/// The number of the line discipline of terminals (linux/tty.h).
const N_TTY: u32 = 0;

/// What `/dev/tty` opens: the terminal that controls the process.
pub fn open() -> Result<Object> {
    let terminal = controlling_terminal().lock().clone().filter(controls).ok_or(Errno::ENXIO)?;
    if let Some(node) = terminal.node() {
        client::files().lock().hold(node, true);
    }
    Ok(Object::Terminal(terminal))
}

/// What the name of a slave opens, whose node is held: it controls a session's leader that has no terminal yet, unless
/// `flags` forbid it.
pub fn open_slave(node: u64, flags: u32) -> Result<Object> {
    let terminal = pty_master::open_slave(node)?;
    if flags & linux::O_NOCTTY == 0 {
        // All others just have it open.
        let _ = take_control(&terminal, 0);
    }
    Ok(Object::Terminal(terminal))
}

/// `ioctl` on a terminal.
pub fn ioctl(terminal: &Terminal, request: u32, argument: u64) -> Result<u64> {
    match request {
        ioctl::TCGETS => usercopy::write(argument, &terminal.modes().to_bytes()),
        ioctl::TCGETA => usercopy::write(argument, &terminal.modes().to_old_bytes()),
        ioctl::TCGETS2 => usercopy::write(argument, &with_speeds(&terminal.modes())),
        ioctl::TCSETS | ioctl::TCSETSW | ioctl::TCSETSF => {
            set_modes(terminal, argument, BYTES, request == ioctl::TCSETSF)
        }
        ioctl::TCSETA | ioctl::TCSETAW | ioctl::TCSETAF => set_old_modes(terminal, argument, request == ioctl::TCSETAF),
        ioctl::TCSETS2 | ioctl::TCSETSW2 | ioctl::TCSETSF2 => {
            set_modes(terminal, argument, BYTES_2, request == ioctl::TCSETSF2)
        }
        ioctl::TIOCGWINSZ => {
            let bytes: Vec<u8> = terminal.size().iter().flat_map(|part| part.to_le_bytes()).collect();
            usercopy::write(argument, &bytes)
        }
        ioctl::TIOCSWINSZ => set_size(terminal, argument),
        ioctl::TIOCGPGRP => {
            controlling(terminal)?;
            usercopy::write_half(argument, terminal.foreground() as u32)
        }
        ioctl::TIOCSPGRP => set_foreground(terminal, usercopy::read_half(argument)?),
        ioctl::TIOCGSID => {
            controlling(terminal)?;
            usercopy::write_half(argument, terminal.session() as u32)
        }
        ioctl::TIOCSCTTY => take_control(terminal, argument),
        ioctl::TIOCNOTTY => give_control_up(terminal),
        ioctl::TCFLSH => flush(terminal, argument),
        ioctl::TCXONC => hold(terminal, argument),
        // What was written is on its way; there is no line that could break.
        ioctl::TCSBRK | ioctl::TCSBRKP | ioctl::TIOCEXCL | ioctl::TIOCNXCL => Ok(()),
        ioctl::TIOCOUTQ => usercopy::write_half(argument, 0),
        ioctl::FIONREAD => usercopy::write_half(argument, terminal.readable_bytes() as u32),
        // There is one line discipline.
        ioctl::TIOCGETD => usercopy::write_half(argument, N_TTY),
        ioctl::TIOCSETD if usercopy::read_half(argument)? == N_TTY => Ok(()),
        ioctl::TIOCSETD => Err(Errno::EINVAL),
        // Typing in another's name is refused, as Linux does since 6.2.
        ioctl::TIOCSTI => Err(Errno::EIO),
        _ => Err(Errno::ENOTTY),
    }
    .map(|()| 0)
}

fn with_speeds(modes: &Modes) -> Vec<u8> {
    let mut bytes = modes.to_bytes();
    bytes.extend_from_slice(&SPEED.to_le_bytes());
    bytes.extend_from_slice(&SPEED.to_le_bytes());
    bytes
}

fn set_modes(terminal: &Terminal, from: u64, bytes: usize, flush: bool) -> Result<()> {
    let bytes = usercopy::read_vec(from, bytes)?;
    let modes = Modes::from_bytes(&bytes).ok_or(Errno::EINVAL)?;
    take_up(terminal, &modes, flush)
}

fn set_old_modes(terminal: &Terminal, from: u64, flush: bool) -> Result<()> {
    let bytes = usercopy::read_vec(from, OLD_BYTES)?;
    let modes = terminal.modes().with_old_bytes(bytes.first_chunk().ok_or(Errno::EFAULT)?);
    take_up(terminal, &modes, flush)
}

fn take_up(terminal: &Terminal, modes: &Modes, flush: bool) -> Result<()> {
    job_control::wait_for_turn(terminal, Attempt::Write)?;
    if flush {
        terminal.flush_input();
    }
    terminal.note_modes(&terminal.modes(), modes);
    terminal.set_modes(modes);
    crate::wait::kick_idle();
    Ok(())
}

fn set_size(terminal: &Terminal, from: u64) -> Result<()> {
    let bytes = usercopy::read_vec(from, 8)?;
    let size = core::array::from_fn(|index| u16::from_le_bytes([bytes[index * 2], bytes[index * 2 + 1]]));
    if terminal.set_size(size) {
        job_control::signal_foreground(terminal, linux::SIGWINCH);
    }
    Ok(())
}

/// `ENOTTY` where another terminal, or none, controls the process.
fn controlling(terminal: &Terminal) -> Result<()> {
    if controls(terminal) { Ok(()) } else { Err(Errno::ENOTTY) }
}

fn set_foreground(terminal: &Terminal, group: u32) -> Result<()> {
    controlling(terminal)?;
    let group = u64::from(group);
    if group as i32 <= 0 {
        return Err(Errno::EINVAL);
    }
    job_control::wait_for_turn(terminal, Attempt::Write)?;
    let session = attributes().session.load(Relaxed);
    if group != signal_state().group() {
        let member = process_table::member(group).ok_or(Errno::ESRCH)?;
        if member.session != session {
            return Err(Errno::EPERM);
        }
    }
    terminal.set_foreground(group);
    crate::wait::kick_idle();
    Ok(())
}

/// A session's leader without a controlling terminal gets this one, if it controls no session.
fn take_control(terminal: &Terminal, steal: u64) -> Result<()> {
    let session = attributes().session.load(Relaxed);
    if controls(terminal) {
        return Ok(());
    }
    let has_one = controlling_terminal().lock().as_ref().is_some_and(controls);
    if session != domain().number() || has_one || terminal.session() != 0 && steal != 1 {
        return Err(Errno::EPERM);
    }
    terminal.set_session(session);
    terminal.set_foreground(signal_state().group());
    job_control::set_controlling(Some(terminal.clone()));
    Ok(())
}

fn give_control_up(terminal: &Terminal) -> Result<()> {
    controlling(terminal)?;
    job_control::give_control_up(&job_control::HANG_UP);
    job_control::set_controlling(None);
    Ok(())
}

fn flush(terminal: &Terminal, queues: u64) -> Result<()> {
    let (input, output) = (event::FLUSH_READ, event::FLUSH_WRITE);
    match queues as u32 {
        linux::TCIFLUSH | linux::TCIOFLUSH => {
            terminal.flush_input();
            terminal.note_event(if queues as u32 == linux::TCIFLUSH { input } else { input | output }, 0);
        }
        linux::TCOFLUSH => terminal.note_event(output, 0),
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

fn hold(terminal: &Terminal, action: u64) -> Result<()> {
    match action as u32 {
        linux::TCOOFF => terminal.hold(true),
        linux::TCOON => terminal.hold(false),
        linux::TCIOFF | linux::TCION => {}
        _ => return Err(Errno::EINVAL),
    }
    terminal.note_held();
    crate::wait::kick_idle();
    Ok(())
}
