//! A process's side of System V objects and POSIX queues.

use super::Client;
use super::dcache::{notice, notices};
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use internet::bell;
use linux_abi::errno::Result;
use runtime::clock;
use unix_core::server::protocol::{
    BELL_RECORD, BELLS, CLOCK_OFFSET, FUTEX_WAKES, FUTEX_WAKES_WORDS, IpcCommand, IpcKind, Listed, MOUNTS, NAME_WORDS,
    Request,
};

impl Client {
    /// One operation that needs no more than words; the result is the words of the answer.
    pub fn on_object(&mut self, operation: Request, words: [u64; 5]) -> Result<[u64; 5]> {
        // Some answers lie in the window.
        self.attached()?;
        let [a, b, c, d, e] = words;
        let [_, answer @ ..] = self.exchange([operation as u64, a, b, c, d, e])?;
        Ok(answer)
    }

    /// The same with bytes in the window.
    pub fn on_object_with(&mut self, operation: Request, words: [u64; 5], bytes: &[u8]) -> Result<[u64; 5]> {
        self.window()?.write(0, bytes)?;
        self.on_object(operation, words)
    }

    /// Puts bytes into the window.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.window()?.write(0, bytes)
    }

    /// Bytes that an operation left in the window.
    pub fn left(&mut self, count: u64) -> Result<Vec<u8>> {
        self.take(count)
    }

    /// What can be done with any System V object; the words of the answer.
    pub fn control_object(&mut self, kind: IpcKind, number: u64, command: IpcCommand) -> Result<[u64; 5]> {
        self.window()?;
        self.on_object(Request::IpcControl, [kind as u64, number, command as u64, 0, 0])
    }

    /// The lines of a file below `/proc`.
    pub fn lines(&mut self, listed: Listed) -> Result<Vec<u8>> {
        self.window()?;
        let mut text = Vec::new();
        let mut first = 0;
        loop {
            let [bytes, lines, ..] = self.on_object(Request::Lines, [listed as u64, first, 0, 0, 0])?;
            text.extend(self.take(bytes)?);
            first += lines;
            if lines == 0 {
                return Ok(text);
            }
        }
    }
}

/// The word in which the server tells that it has ended a thread's wait for a word of shared memory.
pub fn futex_wakes(thread: u64) -> &'static AtomicU64 {
    notice(FUTEX_WAKES + thread as usize % FUTEX_WAKES_WORDS)
}

/// A bell: the server counts there when a socket changes whose page asks for it. See `internet::bell`.
pub fn bell(number: u32) -> &'static AtomicU64 {
    notice(BELLS + number as usize % bell::BELLS)
}

/// The names of the sockets that rang bells last.
pub fn bell_record() -> &'static [AtomicU64; bell::RECORD_WORDS] {
    notices(BELL_RECORD)
}

/// The word of the notice page that the clock of the session differs by from that of the machine.
pub fn clock_offset() -> &'static AtomicU64 {
    notice(CLOCK_OFFSET)
}

/// Nanoseconds since 1970; since boot where the machine has no clock and user 0 has set none.
pub fn wall_clock() -> u64 {
    let machine = clock::wall_clock().unwrap_or_else(clock::now);
    machine.wrapping_add(clock_offset().load(Relaxed))
}

/// A name of the host: [`HOST_NAME`](unix_core::server::protocol::HOST_NAME) or its domain.
pub fn machine_name(first: usize) -> Vec<u8> {
    let bytes = notices::<NAME_WORDS>(first).iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
    bytes.take_while(|byte| *byte != 0).collect()
}

/// The server's count of changes that clients wait for.
pub fn changes() -> &'static AtomicU64 {
    notice(0)
}

/// The server's count of changes of the mount table.
pub fn mount_changes() -> &'static AtomicU64 {
    notice(MOUNTS)
}
