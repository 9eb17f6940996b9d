//! Futexes in memory that several processes share. The server knows the waiters, so that a wakeup learns how many it
//! woke, and no word needs to change for that. A word is known by its page and its place there. No caller proves that
//! it sees that page: see `ipc::shared_futex` for what strangers can do (wake a thread too early, which futex(2) allows
//! at any time).

use super::main_loop::Server;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use exos::wait::CpuHint;
use linux_abi::errno::{Errno, Result};
use runtime::transfer::Message;
use runtime::{EnvironmentId, exposed};
use unix_core::ipc::shared_futex::Waiter;
use unix_core::server::protocol::{FUTEX_WAKES, FUTEX_WAKES_WORDS, Request, wake_of};

impl Server {
    /// See [`Request::FutexEnter`] and those that follow it. Waiters are threads, each with an environment of its own.
    pub(super) fn futex(
        &mut self,
        (thread, caller): (EnvironmentId, u64),
        operation: Request,
        message: &mut Message,
    ) -> Result<()> {
        let [_, word, second, third, fourth, _] = *message;
        let principal = self.server.clients.get(&caller).ok_or(Errno::EPERM)?.credentials.principal();
        message[1..].fill(0);
        match operation {
            Request::FutexEnter => {
                let waiter = Waiter { thread: thread.0, principal, word, bits: second as u32, home: third };
                self.futexes.enter(waiter, is_alive);
            }
            Request::FutexWaits => message[1] = u64::from(self.futexes.waits(thread.0)),
            Request::FutexLeave => message[1] = u64::from(self.futexes.leave(thread.0)),
            Request::FutexWake => [message[1], message[2]] = self.wake(principal, word, second, third as u32),
            Request::FutexRequeue => {
                [message[1], message[3]] = self.wake(principal, word, third, u32::MAX);
                message[2] = self.futexes.requeue(principal, word, second, fourth);
            }
            _ => return Err(Errno::ENOSYS),
        }
        Ok(())
    }

    /// Wakes the first of those that wait for a word that a destroyed process has left.
    pub fn wake_one(&mut self, process: u64, word: u64) {
        let principal = self.server.clients.get(&process).map(|client| client.credentials.principal());
        principal.map(|principal| self.wake(principal, word, 1, u32::MAX));
    }

    /// How many were woken, as far as they were asked for, and the last of them.
    fn wake(&mut self, principal: u64, word: u64, most: u64, bits: u32) -> [u64; 2] {
        let Self { futexes, server, .. } = self;
        let notices = server.notice.words();
        let mut last = 0;
        let woken = futexes.wake(principal, word, most, bits, |Waiter { thread, home, .. }| {
            let lives = is_alive(*thread);
            if lives {
                last = *thread;
                tell(&notices[FUTEX_WAKES + last as usize % FUTEX_WAKES_WORDS], last);
                CpuHint(*home).wake_idle_cpus(last);
            }
            lives
        });
        [woken, last]
    }
}

fn is_alive(thread: u64) -> bool {
    exposed::lives(EnvironmentId(thread))
}

/// Changes a word that a thread watches, and says that it was for this one.
fn tell(word: &AtomicU64, thread: u64) {
    word.store(wake_of(thread, word.load(Relaxed)), SeqCst);
}
