//! From registers to a call and back.

use crate::hw::usercopy;
use crate::process::call::make_again;
pub use crate::process::call::{Call, NUMBERS, Operation, Operations, quick};
use crate::process::current::{process, thread};
use crate::process::thread::Thread;
use crate::process::{Process, option};
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::upcall::Context;
use unix_core::trace_format;

impl Call<'_> {
    /// Performs it as ExOS does, whatever the image has replaced.
    pub fn ordinary(&mut self) -> Result<u64> {
        static ORDINARY: Operations = super::OPERATIONS;
        self.by(&ORDINARY)
    }

    /// Performs it as this table says; what is not there is counted.
    #[inline]
    pub(super) fn by(&mut self, table: &Operations) -> Result<u64> {
        let number = self.number();
        match usize::try_from(number).ok().and_then(|number| table.get(number).copied().flatten()) {
            Some(operation) => operation(self),
            None => {
                self.process.summary.count(number);
                Err(Errno::ENOSYS)
            }
        }
    }

    /// Puts the result where the program finds it.
    #[inline]
    fn give_back(&mut self, number: u64, result: Result<u64>) {
        match result {
            _ if self.keep_registers => {}
            Ok(value) => self.context.registers.rax = value,
            Err(error) => self.fail(number, error),
        }
    }

    #[cold]
    fn fail(&mut self, number: u64, error: Errno) {
        match error {
            Errno::EINTR if restarts(number) => make_again(self.context),
            Errno::MADE_AGAIN => make_again(self.context),
            Errno::INTERRUPTED_FOR_GOOD => self.context.registers.rax = Errno::EINTR.to_register(),
            Errno::FAULT_UNDER_LOCK => self.context.registers.rax = Errno::EFAULT.to_register(),
            error => self.context.registers.rax = error.to_register(),
        }
    }
}

/// Performs a call of the quick ones.
#[inline(always)]
pub fn perform_quickly(
    context: &mut Context,
    (process, thread): (&'static Process, &'static Thread),
    operation: Operation,
) {
    let mut call = Call { context, process, keep_registers: false };
    let result = operation(&mut call);
    process.descriptors.end_uses(&thread.waits);
    match result {
        Ok(value) => call.context.registers.rax = value,
        Err(error) => call.fail(call.number(), error),
    }
}

/// Performs the call that the registers ask for.
pub fn perform(context: &mut Context) {
    let process = process();
    let mut call = Call { context, process, keep_registers: false };
    if process.calls.confines() {
        super::seccomp::check(call.number());
    }
    if process.has_option(option::TRACE_CALLS) {
        return traced(&mut call);
    }
    let number = call.number();
    let result = call.by(process.calls.get());
    process.descriptors.end_uses(&thread().waits);
    call.give_back(number, result);
}

#[cold]
fn traced(call: &mut Call<'_>) {
    let number = call.number();
    let thread = crate::process::current::thread().shown_number();
    let text = trace_format::call(number, call.arguments(), read_argument);
    if matches!(number as u32, linux::__NR_exit | linux::__NR_exit_group) {
        runtime::log_line!("[pid {thread}] {text} = ?");
    }
    let result = call.by(call.process.calls.get());
    call.process.descriptors.end_uses(crate::wait::wait_state());
    runtime::log_line!("[pid {thread}] {}", trace_format::finish(&text, result, read_argument));
    call.give_back(number, result);
}

/// At most so many bytes of the program's memory; of a text those before its 0.
fn read_argument(address: u64, most: usize, is_text: bool) -> Option<Vec<u8>> {
    if !is_text {
        return usercopy::read_vec(address, most).ok();
    }
    // A text may end right before memory that is not there.
    let mut text = Vec::new();
    for index in 0..most as u64 {
        match usercopy::read_vec(address.checked_add(index)?, 1).ok()?[..] {
            [0] => break,
            [byte] => text.push(byte),
            _ => return None,
        }
    }
    Some(text)
}

/// Whether a call that a signal interrupted is made again (signal(7)): unless a handler without SA_RESTART runs first.
#[cold]
fn restarts(number: u64) -> bool {
    const NEVER: [u32; 15] = [
        linux::__NR_semop,
        linux::__NR_semtimedop,
        linux::__NR_msgsnd,
        linux::__NR_msgrcv,
        linux::__NR_poll,
        linux::__NR_ppoll,
        linux::__NR_select,
        linux::__NR_pselect6,
        linux::__NR_nanosleep,
        linux::__NR_clock_nanosleep,
        linux::__NR_pause,
        linux::__NR_rt_sigsuspend,
        linux::__NR_rt_sigtimedwait,
        linux::__NR_epoll_wait,
        linux::__NR_epoll_pwait,
    ];
    if NEVER.iter().any(|never| u64::from(*never) == number) {
        return false;
    }
    crate::signal::next_restarts()
}
