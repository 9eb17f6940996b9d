//! Writing to a terminal: to the host, or into the ring that the master of a pseudo-terminal reads.

use super::job_control::{self, Attempt};
use super::tty_state::{Screen, Terminal};
use crate::descriptor::console::{has_host_room, send, send_now, wait_for_room};
use crate::hw::usercopy;
use crate::pipe::Pipe;
use crate::wait;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::Kind;
use runtime::predicate::Term;
use unix_core::pipe::ring::ATOMIC;

/// Bytes that are processed at a time: one frame holds them even if each becomes two.
const AT_ONCE: u64 = abi::host_channel::PAYLOAD as u64 / 2;
/// Bytes that a ring takes as one, even if each of them is a tab that becomes eight.
const AT_ONCE_IN_RING: usize = ATOMIC as usize / 8;

impl Terminal {
    /// `write`: from the program's memory.
    pub fn write(&self, from: u64, count: u64, nonblocking: bool) -> Result<u64> {
        let mut done = 0;
        while done < count {
            let some = (count - done).min(AT_ONCE) as usize;
            let outcome = usercopy::read_vec(from.saturating_add(done), some)
                .and_then(|bytes| self.write_bytes(&bytes, nonblocking));
            match outcome {
                Err(_) if done > 0 => return Ok(done),
                outcome => done += outcome?,
            }
        }
        Ok(done)
    }

    /// Writes bytes of ExOS: all of them, unless an error comes.
    pub fn write_bytes(&self, bytes: &[u8], nonblocking: bool) -> Result<u64> {
        if self.modes().has_local(linux::TOSTOP) {
            job_control::wait_for_turn(self, Attempt::Write)?;
        }
        while self.is_held() && !self.is_hung_up() {
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            wait::wait(&self.held_terms(), None)?;
        }
        if self.is_hung_up() {
            return Err(Errno::EIO);
        }
        match self.screen() {
            Screen::Host => {
                for some in bytes.chunks(AT_ONCE as usize) {
                    send(Kind::Output, &self.process_output(some))?;
                }
                Ok(bytes.len() as u64)
            }
            Screen::Master { ring, .. } => self.write_to_ring(ring, bytes, nonblocking),
        }
    }

    /// Writes bytes of ExOS as far as that takes no waiting, for a turn neither: `EAGAIN` where nothing of them can
    /// be written now.
    pub fn write_now(&self, bytes: &[u8]) -> Result<u64> {
        match self.screen() {
            _ if self.is_hung_up() => Err(Errno::EIO),
            _ if self.is_held() => Err(Errno::EAGAIN),
            Screen::Host if !has_host_room() => Err(Errno::EAGAIN),
            Screen::Host => {
                let some = &bytes[..bytes.len().min(AT_ONCE as usize)];
                send_now(Kind::Output, &self.process_output(some))?;
                Ok(some.len() as u64)
            }
            Screen::Master { ring, .. } => self.write_to_ring(ring, bytes, true),
        }
    }

    /// Waits for the turn of the writer, and until something may be written.
    pub fn wait_to_write(&self) -> Result<()> {
        if self.modes().has_local(linux::TOSTOP) {
            job_control::wait_for_turn(self, Attempt::Write)?;
        }
        while self.is_held() && !self.is_hung_up() {
            wait::wait(&self.held_terms(), None)?;
        }
        match self.screen() {
            Screen::Host => wait_for_room(abi::host_channel::PAYLOAD as u64),
            Screen::Master { ring, .. } => self.wait_for_room(ring, false),
        }
    }

    fn write_to_ring(&self, ring: &Pipe, bytes: &[u8], nonblocking: bool) -> Result<u64> {
        let mut done = 0;
        for some in bytes.chunks(AT_ONCE_IN_RING) {
            match self.wait_for_room(ring, nonblocking) {
                Err(_) if done > 0 => return Ok(done),
                outcome => outcome?,
            }
            ring.write_bytes(&self.process_output(some), || false)?;
            done += some.len() as u64;
        }
        Ok(done)
    }

    fn wait_for_room(&self, ring: &Pipe, nonblocking: bool) -> Result<()> {
        while !ring.ring().takes(ATOMIC)? {
            if self.is_hung_up() {
                return Err(Errno::EIO);
            }
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            wait::wait(&self.room_terms(ring), None)?;
        }
        Ok(())
    }

    fn room_terms(&self, ring: &Pipe) -> Vec<Term> {
        [ring.has_room(ATOMIC)].into_iter().chain(self.gone()).collect()
    }

    /// Whether a write would not wait.
    pub fn is_writable(&self) -> bool {
        let has_room = match self.screen() {
            Screen::Host => true,
            Screen::Master { ring, .. } => ring.ring().takes(ATOMIC) != Ok(false),
        };
        has_room && !self.is_held() || self.is_hung_up()
    }

    /// What becomes true when a write would not wait, while it would.
    pub fn output_terms(&self) -> Vec<Term> {
        match self.screen() {
            Screen::Master { ring, .. } if !self.is_held() => self.room_terms(ring),
            _ => self.held_terms().to_vec(),
        }
    }
}
