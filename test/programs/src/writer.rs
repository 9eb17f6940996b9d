//! A thread that keeps writing to one address, mapped or not, on the last CPU. Its writes must end with the kernel call
//! that ends the mapping, whatever the CPU remembers (FAULTS row 9).

use crate::attempt::watch;
use crate::{Outcome, attempt, check, granted};
use alloc::string::String;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use runtime::environment::{Builder, Child};
use runtime::{clock, exposed, time_slice};

/// Where it writes.
pub const PLACE: u64 = 0x2000_0000;
/// Nanoseconds that it may take to write once, however busy the host is.
const PATIENCE: u64 = 20_000_000_000;

/// Writes that came through, and whether it is to end.
static WRITES: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicU64 = AtomicU64::new(0);

/// The thread. There is one at a time.
#[derive(Debug)]
pub struct Writer {
    thread: Child,
}

impl Writer {
    /// Starts it.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn start() -> Result<Self, String> {
        STOP.store(0, SeqCst);
        let mut builder = granted!(Builder::sharing());
        builder.function(write, 0);
        let thread = granted!(builder.create());
        let last = exposed::kernel().cpus.load(SeqCst) - 1;
        granted!(thread.run(last, time_slice::ANY_POSITION));
        Ok(Self { thread })
    }

    /// How many writes came through.
    pub fn writes(&self) -> u64 {
        WRITES.load(SeqCst)
    }

    /// Waits until it has written once more. It has a CPU of its own: no thread gives way here, and the victim keeps to
    /// its slices.
    ///
    /// # Errors
    /// That it does not write.
    pub fn writes_once_more(&self) -> Outcome {
        let (before, end) = (self.writes(), clock::now() + PATIENCE);
        while self.writes() == before && clock::now() < end {
            core::hint::spin_loop();
        }
        check!(self.writes() > before, "the other thread does not write");
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// That it does not end; what the kernel refused.
    pub fn end(self) -> Outcome {
        STOP.store(1, SeqCst);
        check!(self.thread.wait(u64::MAX), "the other thread does not end");
        granted!(self.thread.destroy());
        Ok(())
    }
}

/// Writes for ever.
extern "C" fn write(_: u64) {
    watch();
    while STOP.load(SeqCst) == 0 {
        if attempt!(["mov rax, 0x20000000", "mov qword ptr [rax], 0x666"]).is_none() {
            WRITES.fetch_add(1, SeqCst);
        }
    }
}
