//! Futexes in memory that several processes share: the guardian knows who waits, so that whoever wakes one learns how many it woke,
//! and no word needs to change for that. A word is known by its page and its place there. Nobody proves that it sees that page: see
//! `ipc::shared_futex` for what strangers can do (wake somebody too early, which futex(2) allows at any time).

use super::protocol::{FUTEX_WAKES, FUTEX_WAKES_WORDS, Operation};
use super::service::Guardian;
use crate::errno::{Errno, Result};
use core::sync::atomic::Ordering::SeqCst;
use runtime::transfer::Message;
use runtime::{EnvironmentId, exposed};

impl Guardian {
    /// See [`Operation::FutexEnter`] and those that follow it. Waiters are threads, each with an environment of its own.
    pub(super) fn futex(
        &mut self,
        (thread, caller): (EnvironmentId, u64),
        operation: Operation,
        message: &mut Message,
    ) -> Result<()> {
        let [_, word, second, third, fourth, _] = *message;
        let principal = self.server.clients.get(&caller).ok_or(Errno::EPERM)?.identity.principal();
        message[1..].fill(0);
        match operation {
            Operation::FutexEnter => {
                self.futexes.bury(|thread| exposed::lives(EnvironmentId(thread)));
                self.futexes.enter(thread.0, principal, word, second as u32);
            }
            Operation::FutexWoken => message[1] = u64::from(self.futexes.is_woken(thread.0)),
            Operation::FutexLeave => message[1] = u64::from(self.futexes.leave(thread.0)),
            Operation::FutexWake => message[1] = self.wake(principal, word, second, third as u32),
            Operation::FutexRequeue => {
                message[1] = self.wake(principal, word, third, u32::MAX);
                message[2] = self.futexes.requeue(principal, word, second, fourth);
            }
            _ => return Err(Errno::ENOSYS),
        }
        Ok(())
    }

    /// How many were woken, as far as they were asked for.
    fn wake(&mut self, principal: u64, word: u64, most: u64, bits: u32) -> u64 {
        self.futexes.bury(|thread| exposed::lives(EnvironmentId(thread)));
        let woken = self.futexes.wake(principal, word, most, bits);
        for thread in &woken {
            let place = FUTEX_WAKES + *thread as usize % FUTEX_WAKES_WORDS;
            self.server.notice.words()[place].fetch_add(1, SeqCst);
        }
        if !woken.is_empty() {
            crate::block::kick_idle();
        }
        (woken.len() as u64).min(most)
    }
}
