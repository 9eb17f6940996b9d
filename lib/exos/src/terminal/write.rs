//! Writing to a terminal.

use super::job::{self, Attempt};
use super::shared::Terminal;
use crate::block;
use crate::descriptor::object::send;
use crate::errno::{Errno, Result};
use crate::user_memory::copy;
use linux_raw_sys::general as linux;
use runtime::Kind;

/// Bytes that are processed at a time: one frame holds them even if each becomes two.
const AT_ONCE: u64 = abi::host_channel::PAYLOAD as u64 / 2;

impl Terminal {
    /// `write`: from the program's memory.
    pub fn write(&self, from: u64, count: u64, nonblocking: bool) -> Result<u64> {
        let mut done = 0;
        while done < count {
            let some = (count - done).min(AT_ONCE) as usize;
            let outcome = copy::read_vec(from + done, some).and_then(|bytes| self.write_bytes(&bytes, nonblocking));
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
            job::wait_for_turn(self, Attempt::Write)?;
        }
        while self.is_held() && !self.is_hung_up() {
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            block::wait(&self.held_terms(), None)?;
        }
        if self.is_hung_up() {
            return Err(Errno::EIO);
        }
        for some in bytes.chunks(AT_ONCE as usize) {
            send(Kind::Output, &self.process_output(some))?;
        }
        Ok(bytes.len() as u64)
    }
}
