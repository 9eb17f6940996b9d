//! Reading from a terminal: lines, or as many bytes as `VMIN` and `VTIME` ask for.

use super::job_control::{self, Attempt};
use super::tty_state::{Screen, Terminal};
use crate::hw::usercopy;
use crate::wait::{self, WakeReason};
use linux_abi::errno::{Errno, Result};
use unix_core::terminal::termios::Modes;

/// Nanoseconds in a unit of `VTIME`.
const TENTH: u64 = 100_000_000;

impl Terminal {
    /// `read`: into the program's memory.
    pub fn read(&self, to: u64, count: u64, nonblocking: bool) -> Result<u64> {
        let most = count.min(linux_abi::address_map::PAGE_SIZE);
        if most == 0 {
            return Ok(0);
        }
        loop {
            job_control::wait_for_turn(self, Attempt::Read)?;
            // What the host typed before it went is read still.
            if self.is_hung_up() && *self.screen() != Screen::Host {
                return Ok(0);
            }
            let modes = self.modes();
            let reachable = usercopy::prepare(to, most, true)?;
            if self.waiting() >= modes.cells_enough(reachable)
                && let Some(bytes) = self.take(reachable as usize)
            {
                usercopy::write(to, &bytes)?;
                return Ok(bytes.len() as u64);
            }
            if self.is_hung_up() || !modes.is_canonical() && modes.minimum() == 0 && modes.timer() == 0 {
                return Ok(0);
            }
            if nonblocking {
                return Err(Errno::EAGAIN);
            }
            if self.wait_for_input(&modes, reachable)? {
                let bytes = self.take(reachable as usize).unwrap_or_default();
                usercopy::write(to, &bytes)?;
                return Ok(bytes.len() as u64);
            }
        }
    }

    /// Whether a read would not wait.
    pub fn is_readable(&self) -> bool {
        let modes = self.modes();
        let least = if modes.has_timer() { 1 } else { modes.cells_enough(u64::MAX) };
        self.waiting() >= least || self.is_hung_up()
    }

    /// Waits for input; whether the time of `VTIME` ran out, so that the read ends with what is there.
    fn wait_for_input(&self, modes: &Modes, count: u64) -> Result<bool> {
        let waiting = self.waiting();
        let timed = modes.has_timer() && (modes.minimum() == 0 || waiting > 0);
        let deadline = timed.then(|| runtime::clock::now() + modes.timer() * TENTH);
        let terms = self.input_terms(modes.cells_awaited(waiting, count));
        Ok(wait::wait(&terms, deadline)? == WakeReason::TimedOut && self.waiting() == waiting)
    }
}
