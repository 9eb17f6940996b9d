//! Actions, masks, and the delivery of signals to the program.

use super::frame::{self, Information, Interrupted, place};
use super::mailbox::Mailbox;
use super::set::{self, Default as DefaultAction, UNSTOPPABLE, bit};
use crate::errno::{Errno, Result};
use crate::process::status::Status;
use crate::user_memory::copy;
use crate::user_memory::current::process;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_raw_sys::general as linux;
use runtime::upcall::{Context, Registers};

/// Handler word: the default action.
pub const DEFAULT: u64 = 0;
/// Handler word: nothing.
pub const IGNORE: u64 = 1;

/// `si_code` of a signal from `kill`.
const BY_USER: i32 = 0;

/// What a program wants done with a signal: the kernel's `struct sigaction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// Address of the handler, [`DEFAULT`] or [`IGNORE`].
    pub handler: u64,
    /// `SA_*`.
    pub flags: u64,
    /// Where a handler returns to.
    pub restorer: u64,
    /// Signals that are blocked meanwhile.
    pub mask: u64,
}

/// A process's signals.
#[derive(Clone, Debug)]
pub struct Signals {
    /// Actions; signal 1 comes first.
    pub actions: [Action; set::COUNT as usize],
    /// Signals that wait.
    pub blocked: u64,
    /// Mask to put back once the next signal was delivered: `sigsuspend`.
    pub blocked_before: Option<u64>,
    /// The alternate stack: address, flags, size.
    pub alternate: [u64; 3],
    /// A fault that is about to be delivered.
    pub fault: Option<(Information, [u64; 3])>,
}

impl Default for Signals {
    fn default() -> Self {
        const NO_ALTERNATE: [u64; 3] = [0, linux::SS_DISABLE as u64, 0];
        Self {
            actions: [Action::default(); set::COUNT as usize],
            blocked: 0,
            blocked_before: None,
            alternate: NO_ALTERNATE,
            fault: None,
        }
    }
}

impl Signals {
    /// What is to be done with a signal.
    pub fn action(&self, signal: u32) -> Action {
        self.actions[(signal as usize - 1) % self.actions.len()]
    }

    /// Signals that the program does not notice.
    pub fn ignored(&self) -> u64 {
        (1..=set::COUNT).filter(|signal| self.ignores(*signal)).map(bit).fold(0, |set, one| set | one)
    }

    fn ignores(&self, signal: u32) -> bool {
        match self.action(signal).handler {
            IGNORE => bit(signal) & UNSTOPPABLE == 0,
            DEFAULT => matches!(set::default(signal), DefaultAction::Ignore | DefaultAction::Continue),
            _ => false,
        }
    }

    /// Drops what is ignored from the mailbox, and says whether something is left that interrupts a wait.
    pub fn is_interrupted(&self, mailbox: &Mailbox) -> bool {
        let pending = mailbox.signals().load(Acquire) & !self.blocked;
        if pending == 0 {
            return false;
        }
        let ignored = pending & self.ignored();
        mailbox.signals().fetch_and(!ignored, SeqCst);
        pending & !ignored != 0
    }

    /// Whether a call that the next signal interrupts is made again.
    pub fn next_restarts(&self, mailbox: &Mailbox) -> bool {
        let pending = mailbox.signals().load(Acquire) & !self.blocked & !self.ignored();
        set::first(pending).is_none_or(|signal| {
            let action = self.action(signal);
            action.handler == DEFAULT || action.flags & u64::from(linux::SA_RESTART) != 0
        })
    }

    /// What exec leaves: handlers become defaults.
    pub fn forget_handlers(&mut self) {
        for action in &mut self.actions {
            if action.handler != IGNORE {
                *action = Action::default();
            }
        }
        self.alternate = Self::default().alternate;
    }

    /// Takes the next signal to act on out of the mailbox.
    fn take(&self, mailbox: &Mailbox) -> Option<u32> {
        loop {
            let signal = set::first(mailbox.signals().load(Acquire) & !self.blocked)?;
            mailbox.signals().fetch_and(!bit(signal), SeqCst);
            if !self.ignores(signal) {
                return Some(signal);
            }
        }
    }
}

/// Sends a signal to the running process itself.
pub fn raise_own(signal: u32) {
    process().mailbox().post(signal, process().number());
}

/// Sends the signal of a fault: it cannot wait. Where it is blocked or ignored the process ends.
pub fn raise_fault(signal: u32, code: i32, address: u64, fault: [u64; 3]) {
    let process = process();
    let mut signals = process.signals.lock();
    if signals.blocked & bit(signal) != 0 || signals.action(signal).handler == IGNORE {
        drop(signals);
        crate::process::exit::end(Status::Killed(signal));
    }
    signals.fault = Some((Information { signal, code, detail: address, value: 0 }, fault));
    drop(signals);
    process.mailbox().post(signal, process.number());
}

/// Acts on what is pending before the program goes on at `context`.
pub fn deliver_pending(context: &mut Context) {
    let process = process();
    let mailbox = process.mailbox();
    loop {
        let taken = {
            let signals = process.signals.lock();
            signals.take(&mailbox).map(|signal| (signal, signals.action(signal)))
        };
        let Some((signal, action)) = taken else { break };
        if action.handler != DEFAULT {
            return call_handler(context, signal, action);
        }
        match set::default(signal) {
            DefaultAction::End => crate::process::exit::end(Status::Killed(signal)),
            DefaultAction::Stop => stop(),
            DefaultAction::Ignore | DefaultAction::Continue => {}
        }
    }
    if let Some(before) = process.signals.lock().blocked_before.take() {
        process.signals.lock().blocked = before;
    }
}

/// Waits for SIGCONT or a signal that ends the process.
fn stop() {
    let mailbox = process().mailbox();
    let wanted = bit(linux::SIGCONT) | bit(linux::SIGKILL);
    while mailbox.signals().load(Acquire) & wanted == 0 {
        use runtime::predicate::{Operator, word_masked};
        crate::block::wait_stopped(&[word_masked(mailbox.signals(), wanted, Operator::NotEqual, 0)]);
    }
}

/// Changes `context` so that the program goes on in the handler; where the stack does not hold the frame, it ends.
fn call_handler(context: &mut Context, signal: u32, action: Action) {
    let process = process();
    let (information, fault, blocked, alternate) = {
        let mut signals = process.signals.lock();
        let sent = Information { signal, code: BY_USER, detail: process.mailbox().sender(signal), value: 0 };
        let (information, fault) = match signals.fault.take() {
            Some((information, fault)) if information.signal == signal => (information, fault),
            other => {
                signals.fault = other;
                (sent, [0; 3])
            }
        };
        let blocked = signals.blocked_before.take().unwrap_or(signals.blocked);
        (information, fault, blocked, signals.alternate)
    };
    let interrupted = Interrupted { registers: to_linux(context), blocked, alternate, fault };
    let Some(at) = put_frame(&interrupted, &information, action) else {
        crate::process::exit::end(Status::Killed(linux::SIGSEGV));
    };
    let registers = &mut context.registers;
    (registers.rdi, registers.rax) = (u64::from(signal), 0);
    (registers.rsi, registers.rdx) = (frame::information_at(at), frame::context_at(at));
    (context.frame.rip, context.frame.rsp) = (action.handler, at);
    context.frame.rflags = 0x202;
    let mut signals = process.signals.lock();
    let own = if action.flags & u64::from(linux::SA_NODEFER) != 0 { 0 } else { bit(signal) };
    signals.blocked = (signals.blocked | action.mask | own) & !UNSTOPPABLE;
    if action.flags & u64::from(linux::SA_RESETHAND) != 0 {
        signals.actions[signal as usize - 1] = Action::default();
    }
}

fn put_frame(interrupted: &Interrupted, information: &Information, action: Action) -> Option<u64> {
    let process = process();
    let mut vectors = process.vectors.lock();
    vectors.save();
    let state = vectors.bytes().to_vec();
    drop(vectors);
    let stack = interrupted.registers[place::RSP];
    let [base, flags, size] = interrupted.alternate;
    let on_alternate = stack > base && stack - base <= size;
    let wants = action.flags & u64::from(linux::SA_ONSTACK) != 0 && flags & u64::from(linux::SS_DISABLE) == 0;
    let (top, switched) = if wants && !on_alternate { (base + size, true) } else { (stack, false) };
    let layout = frame::lay_out(top, switched, state.len() as u64)?;
    if switched && layout.frame < base {
        return None;
    }
    let bytes = frame::build(layout, action.restorer, interrupted, information);
    copy::write(layout.vectors, &state).ok()?;
    copy::write(layout.frame, &bytes).ok()?;
    Some(layout.frame)
}

/// `rt_sigreturn`: goes on where a handler interrupted. The frame lies where the handler's return left the stack.
pub fn return_from_handler(context: &mut Context) -> Result<()> {
    let words = copy::read_words(context.frame.rsp)?;
    let returned = frame::read(&words);
    if returned.registers[place::RIP] > crate::layout::PROGRAM_END {
        return Err(Errno::EFAULT);
    }
    let process = process();
    if returned.vectors != 0 {
        let mut vectors = process.vectors.lock();
        let mut state = alloc::vec![0; vectors.bytes().len()];
        drop(vectors);
        copy::read(returned.vectors, &mut state)?;
        vectors = process.vectors.lock();
        vectors.set_bytes(&state);
        drop(vectors);
        crate::user_memory::vectors::load();
    }
    process.signals.lock().blocked = returned.blocked & !UNSTOPPABLE;
    from_linux(context, &returned.registers);
    Ok(())
}

fn to_linux(context: &Context) -> frame::Registers {
    let (registers, frame) = (&context.registers, &context.frame);
    let Registers { r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, .. } = *registers;
    [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, frame.rsp, frame.rip, frame.rflags]
}

fn from_linux(context: &mut Context, linux: &frame::Registers) {
    let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags] = *linux;
    let padding = context.registers.padding;
    context.registers = Registers { r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax, padding };
    (context.frame.rsp, context.frame.rip, context.frame.rflags) = (rsp, rip, rflags);
}
