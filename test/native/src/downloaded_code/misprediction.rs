//! Runs compiled code like a processor that mispredicts jumps, and looks at what it does then (FAULTS row 90).
//!
//! The code is single-stepped. At some conditional jumps it is sent the way that the flags do not say. From there on
//! it runs ahead, for a while, as a processor does before it notices, and may be sent wrong again. Meanwhile a load
//! from outside the memory of the program brings a secret: a word that is not zero. The instructions that follow at
//! once must make it zero, and nothing may be written outside. Then the run is given up, as a processor would undo
//! it.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use iced_x86::{ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::random::Random;
use crate::packet_filter_count::{TURN, set_trap_flag};

/// Instructions that run ahead after a jump went the wrong way.
const AHEAD: u32 = 200;
/// What a load from outside brings.
const SECRET: u64 = 0x5ec2_e7ed_5ec2_e7ed;
/// Instructions after such a load at whose end it must be zero: one that makes a zero, and the mask.
const MASK: u32 = 2;
/// Signals of code that goes wrong: while it runs ahead they end that, else they are failures.
const FAULTS: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// The run that is being stepped; signal handlers have no other way to find it.
static RUN: AtomicPtr<Run> = AtomicPtr::new(ptr::null_mut());

/// What came of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Jumps that were sent the wrong way.
    pub mispredicted: u32,
    /// Loads from outside while it ran ahead: all were masked, if nothing is wrong.
    pub outside: u32,
    /// What was done wrong first, at which offset in the code.
    pub problem: Option<(&'static str, u64)>,
}

struct Run {
    /// Address of the code, and its instructions by offset.
    start: u64,
    instructions: Vec<Option<Instruction>>,
    /// Memory that the program may touch: start and end.
    memory: Vec<(u64, u64)>,
    random: Random,
    /// One jump in so many goes the wrong way.
    rarity: u64,
    /// Registers at the first instruction.
    entry: Option<libc::mcontext_t>,
    /// Instructions left to run ahead; `None` while no jump went wrong.
    ahead: Option<u32>,
    /// The register that holds the secret, and how many more instructions it may.
    secret: Option<(Register, u32)>,
    report: Report,
}

/// Calls `work`, which calls code of `code.len()` bytes at `start` once, and steps through it. `vm` has the start
/// and end of each piece of memory that the program may touch.
///
/// # Panics
/// The handlers cannot be installed.
pub fn run_mispredicting(
    start: u64,
    code: &[u8],
    memory: &[(u64, u64)],
    random: Random,
    work: impl FnOnce(),
) -> Report {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut instructions = vec![None; code.len()];
    for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE).iter() {
        instructions[(instruction.ip() - start) as usize] = Some(instruction);
    }
    let (memory, report) = (memory.to_vec(), Report::default());
    let mut run =
        Run { start, instructions, memory, random, rarity: 1, entry: None, ahead: None, secret: None, report };
    run.rarity = 1 + run.random.below(6);
    RUN.store(&raw mut run, Ordering::Relaxed);
    let signals = FAULTS.into_iter().chain([libc::SIGTRAP]);
    let earlier: Vec<_> = signals.map(|signal| (signal, handle(signal))).collect();
    set_trap_flag(true);
    work();
    set_trap_flag(false);
    for (signal, action) in earlier {
        // SAFETY: puts back what was there.
        unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    }
    RUN.store(ptr::null_mut(), Ordering::Relaxed);
    run.report
}

/// Installs the handler for a signal. Returns what was there.
fn handle(signal: i32) -> libc::sigaction {
    // SAFETY: all zeros are a valid `sigaction`; the handler has the signature that SA_SIGINFO asks for, and touches
    // only the run, which outlives it, and the registers it was given.
    unsafe {
        let (mut action, mut earlier): (libc::sigaction, libc::sigaction) = (std::mem::zeroed(), std::mem::zeroed());
        action.sa_sigaction = on_signal as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(signal, &raw const action, &raw mut earlier), 0);
        earlier
    }
}

extern "C" fn on_signal(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: handlers run on the thread that is stepped, which waits, and only between `store`s of a run that lives;
    // the context is the kernel's `ucontext_t`.
    let (run, context) = unsafe { (RUN.load(Ordering::Relaxed).as_mut(), &mut *context.cast::<libc::ucontext_t>()) };
    let Some(run) = run else { return };
    let registers = &mut context.uc_mcontext;
    if signal == libc::SIGTRAP {
        run.step(registers);
    } else {
        if run.ahead.is_none() {
            run.wrong("a fault", registers);
        }
        run.give_up(registers);
    }
}

impl Run {
    /// Before each instruction.
    fn step(&mut self, registers: &mut libc::mcontext_t) {
        if self.entry.is_none() && get(registers, libc::REG_RIP) == self.start {
            self.entry = Some(*registers);
        }
        // Instructions that are done here instead of by the processor are followed by the next at once.
        while self.within(registers) && self.one(registers) {}
    }

    fn within(&self, registers: &libc::mcontext_t) -> bool {
        let offset = get(registers, libc::REG_RIP).wrapping_sub(self.start);
        self.entry.is_some() && offset < self.instructions.len() as u64
    }

    /// Looks at the next instruction. Says whether it was done here.
    fn one(&mut self, registers: &mut libc::mcontext_t) -> bool {
        self.look_for_the_secret(registers);
        if self.runs_out() {
            self.give_up(registers);
            return false;
        }
        let offset = (get(registers, libc::REG_RIP) - self.start) as usize;
        let Some(instruction) = self.instructions[offset] else {
            self.wrong("a jump into an instruction", registers);
            self.give_up(registers);
            return false;
        };
        match instruction.flow_control() {
            FlowControl::ConditionalBranch => self.jump(&instruction, registers),
            FlowControl::Next => self.plain(&instruction, registers),
            FlowControl::Return | FlowControl::Call | FlowControl::IndirectCall => {
                self.leave(&instruction, registers);
                false
            }
            _ => false,
        }
    }

    /// Whether the time to run ahead is over.
    fn runs_out(&mut self) -> bool {
        self.ahead = self.ahead.map(|left| left.saturating_sub(1));
        self.ahead == Some(0) || self.report.problem.is_some()
    }

    fn look_for_the_secret(&mut self, registers: &libc::mcontext_t) {
        let Some((register, left)) = self.secret else { return };
        if get(registers, place(register)) == 0 {
            self.secret = None;
        } else if left == 0 {
            self.wrong("what was loaded from outside could be used", registers);
        } else {
            self.secret = Some((register, left - 1));
        }
    }

    /// Sends some jumps the way that the flags do not say.
    fn jump(&mut self, instruction: &Instruction, registers: &mut libc::mcontext_t) -> bool {
        let wrong = self.random.once_in(self.rarity);
        if wrong {
            let taken = holds(instruction.condition_code(), get(registers, libc::REG_EFL));
            let other = if taken { instruction.next_ip() } else { instruction.near_branch_target() };
            registers.gregs[libc::REG_RIP as usize] = other as i64;
            self.report.mispredicted += 1;
            self.ahead = self.ahead.or(Some(AHEAD));
        }
        wrong
    }

    /// An instruction that does not jump: what memory does it touch?
    fn plain(&mut self, instruction: &Instruction, registers: &mut libc::mcontext_t) -> bool {
        if instruction.mnemonic() == Mnemonic::Lfence && self.ahead.is_some() {
            self.give_up(registers);
            return false;
        }
        let memory = (0..instruction.op_count()).find(|operand| instruction.op_kind(*operand) == OpKind::Memory);
        let own = matches!(instruction.memory_base(), Register::RBX | Register::RSP);
        let names_only = matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop);
        let Some(operand) = memory.filter(|_| !names_only && !own) else { return false };
        let base = get(registers, place(instruction.memory_base()));
        let address = base.wrapping_add(instruction.memory_displacement64());
        let end = address.saturating_add(instruction.memory_size().size() as u64);
        if self.memory.iter().any(|(start, last)| *start <= address && end <= *last) {
            return false;
        }
        let loads =
            matches!(instruction.mnemonic(), Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd);
        if !loads || operand == 0 || self.ahead.is_none() {
            self.wrong("an access outside", registers);
            self.give_up(registers);
            return false;
        }
        let target = instruction.op0_register().full_register();
        registers.gregs[place(target) as usize] = SECRET as i64;
        registers.gregs[libc::REG_RIP as usize] = instruction.next_ip() as i64;
        self.secret = Some((target, MASK));
        self.report.outside += 1;
        true
    }

    /// Calls and returns: the way out is not followed while code runs ahead. What is called is not stepped, and the
    /// caller expects it to be undone.
    fn leave(&mut self, instruction: &Instruction, registers: &mut libc::mcontext_t) {
        let returns = instruction.flow_control() == FlowControl::Return;
        let entry = self.entry.as_ref().map_or(0, |entry| get(entry, libc::REG_RSP));
        let inside = if returns {
            get(registers, libc::REG_RSP) != entry
        } else {
            let target = instruction.near_branch_target().wrapping_sub(self.start);
            instruction.flow_control() == FlowControl::Call && target < self.instructions.len() as u64
        };
        if self.ahead.is_some() && !inside {
            self.give_up(registers);
        }
    }

    fn wrong(&mut self, what: &'static str, registers: &libc::mcontext_t) {
        let offset = get(registers, libc::REG_RIP).wrapping_sub(self.start);
        self.report.problem = self.report.problem.or(Some((what, offset)));
    }

    /// Returns to the caller as if the code had done nothing.
    fn give_up(&mut self, registers: &mut libc::mcontext_t) {
        let Some(entry) = self.entry else { return };
        // The state of the vector unit is behind a pointer of this signal's own.
        registers.gregs = entry.gregs;
        let stack = get(&entry, libc::REG_RSP);
        // SAFETY: at its first instruction the code's return address lies at the stack pointer.
        registers.gregs[libc::REG_RIP as usize] = unsafe { *(stack as *const i64) };
        registers.gregs[libc::REG_RSP as usize] = stack as i64 + 8;
        (self.ahead, self.secret) = (None, None);
    }
}

fn get(registers: &libc::mcontext_t, place: i32) -> u64 {
    registers.gregs[place as usize] as u64
}

/// Where the kernel puts a register.
fn place(register: Register) -> i32 {
    match register.full_register() {
        Register::RAX => libc::REG_RAX,
        Register::RBX => libc::REG_RBX,
        Register::RCX => libc::REG_RCX,
        Register::RDX => libc::REG_RDX,
        Register::RSI => libc::REG_RSI,
        Register::RDI => libc::REG_RDI,
        Register::RBP => libc::REG_RBP,
        Register::RSP => libc::REG_RSP,
        Register::R8 => libc::REG_R8,
        Register::R9 => libc::REG_R9,
        Register::R10 => libc::REG_R10,
        Register::R11 => libc::REG_R11,
        Register::R12 => libc::REG_R12,
        Register::R13 => libc::REG_R13,
        Register::R14 => libc::REG_R14,
        _ => libc::REG_R15,
    }
}

/// Whether a condition holds with these flags.
fn holds(condition: ConditionCode, flags: u64) -> bool {
    let flag = |bit: u32| flags >> bit & 1 != 0;
    let (carry, parity, zero, sign, overflow) = (flag(0), flag(2), flag(6), flag(7), flag(11));
    match condition {
        ConditionCode::o => overflow,
        ConditionCode::no => !overflow,
        ConditionCode::b => carry,
        ConditionCode::ae => !carry,
        ConditionCode::e => zero,
        ConditionCode::ne => !zero,
        ConditionCode::be => carry || zero,
        ConditionCode::a => !(carry || zero),
        ConditionCode::s => sign,
        ConditionCode::ns => !sign,
        ConditionCode::p => parity,
        ConditionCode::np => !parity,
        ConditionCode::l => sign != overflow,
        ConditionCode::ge => sign == overflow,
        ConditionCode::le => zero || sign != overflow,
        _ => !zero && sign == overflow,
    }
}
