//! The execution context of an environment (exokernel-sosp95 §5.1.2; DESIGN.md §4, "Environment" and "Protected
//! control transfer"). It holds what the kernel needs to enter the environment, and what it keeps of it while it does
//! not run.
//!
//! A context fills the control page of its environment. Invariants:
//!
//! - the CPU that runs, enters or destroys an environment has claimed its context by one compare-and-swap on
//!   [`Context::claim`]; only the claimer touches the other fields;
//! - the private pages named here stay allocated as long as the context exists;
//! - a page of the upcall stack that the kernel wrote since the environment began is marked in [`Context::written`];
//! - vector state is kept only for a context that was switched out whole with its vector unit on.

use crate::cpu_control;
use abi::area::PrivateWords;
use abi::environment::EnvironmentInfo;
use abi::limits::{ENVIRONMENTS, PAGE_SIZE, PRIVATE_PAGES};
use abi::upcall::{FRAME_ALIGNMENT, UpcallFrame};
use abi::{EnvironmentId, PageNumber};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Bytes kept for vector state: XSAVE's standard form up to AVX-512.
pub const VECTOR_BYTES: usize = 2752;
/// Value of [`Context::claim`] while no CPU holds it.
pub const UNCLAIMED: u64 = 0;
/// Value of [`Context::claim`] while a CPU holds it.
pub const CLAIMED: u64 = 1;
/// Value of [`Context::claim`] once the environment is being destroyed.
pub const CONDEMNED: u64 = u64::MAX;

/// The word [`Context::callee`]: the whole number, and flags below it. All flags but the first send a transfer the slow
/// way. What a caller asks for is shifted by one multiplication, which drops the bits that no number has.
pub(crate) mod callee {
    use abi::EnvironmentId;
    use abi::syscall::CALLEE;

    /// The vector unit is on; it must be as the caller's.
    pub(crate) const VECTOR: u64 = 1 << 0;
    /// Protection keys are on.
    pub(crate) const KEYS: u64 = 1 << 1;
    /// Its context is resumed from more than RIP, RSP and flags.
    pub(crate) const WHOLE: u64 = 1 << 2;
    /// It waits for a predicate.
    pub(crate) const WAITS: u64 = 1 << 3;
    /// It is being destroyed.
    pub(crate) const DYING: u64 = 1 << 4;
    /// On this CPU the bases of FS and GS are no matter of an instruction.
    pub(crate) const BASES: u64 = 1 << 5;
    /// For the caller's side: the fast way is closed.
    pub(crate) const CLOSED: u64 = 1 << 6;
    /// What a number is multiplied by.
    pub(crate) const SCALE: u64 = 1 << CALLEE.leading_zeros();
    /// All flags.
    pub(crate) const FLAGS: u64 = SCALE - 1;

    /// The word of an environment.
    pub(crate) const fn word(number: EnvironmentId, flags: u64) -> u64 {
        number.0.wrapping_mul(SCALE) | flags
    }
}

/// Flags of a program that begins or is entered by a transfer: interrupts may come.
pub(crate) const FIRST_FLAGS: u64 = 0x202;

/// Offset of what the handle of a context points to: in assembly a push there keeps the stack pointer.
pub(crate) const HANDLE: usize = core::mem::offset_of!(Context, number);

/// Entries of [`chitin_contexts`]: one for each value of 16 bits, so that a number's lower bits are an index.
const CONTEXTS: usize = 1 << 16;
const _: () = assert!(ENVIRONMENTS as usize <= CONTEXTS);

/// The handle of the context of each slot of the environment table, again and again up to the end. A slot without one
/// has the handle of the context below that no transfer finds. Assembly reads it without a lock: an entry is taken
/// out and every CPU has left the kernel before the page of its context is used for anything else.
#[unsafe(no_mangle)]
static chitin_contexts: [AtomicPtr<u8>; CONTEXTS] = [const { AtomicPtr::new(handle_of(&raw const NOBODY)) }; CONTEXTS];

const fn handle_of(context: *const Context) -> *mut u8 {
    // SAFETY: a context is larger.
    unsafe { context.cast::<u8>().add(HANDLE).cast_mut() }
}

/// A context that no transfer finds.
static NOBODY: Context = {
    // SAFETY: a Context is made of atomics, for which zero is a value.
    let mut nobody: Context = unsafe { core::mem::zeroed() };
    nobody.callee = AtomicU64::new(u64::MAX);
    nobody.claim = AtomicU64::new(CONDEMNED);
    nobody.record = AtomicPtr::new((&raw const NO_RECORD).cast_mut());
    nobody
};

/// The record of that context.
// SAFETY: an EnvironmentInfo is made of atomics, for which zero is a value.
static NO_RECORD: EnvironmentInfo = unsafe { core::mem::zeroed() };

/// The context that transfers find for a number: it may be another one's whose slot is the same, or the one that no
/// transfer finds.
#[inline(always)]
pub fn published(number: EnvironmentId) -> &'static Context {
    let handle = chitin_contexts[number.0 as usize % CONTEXTS].load(Ordering::Acquire);
    // SAFETY: what stands there was stored by `publish` from a reference, or is the static. It stays until every CPU
    // has left the kernel after it was taken out.
    unsafe { Context::of_handle(handle as u64) }
}

/// Puts the context of a slot where transfers find it, or takes it away.
pub fn publish(slot: usize, context: Option<&'static Context>) {
    let handle = handle_of(core::ptr::from_ref(context.unwrap_or(&NOBODY)));
    let (mut index, slots) = (slot, crate::exposed::environments().len());
    while let Some(entry) = chitin_contexts.get(index) {
        entry.store(handle, Ordering::Release);
        index += slots;
    }
}

/// How a context resumes.
pub mod resume {
    /// From RIP, RSP and flags; every other register is zero.
    pub const VOLUNTARY: u64 = 0;
    /// With all its registers and, if its vector unit is on, its vector state.
    pub const FORCED: u64 = 1;
    /// It has never run: it begins at its slice start entry, critical section or not.
    pub const FRESH: u64 = 2;
}

/// The fields are atomics because assembly on other CPUs looks at some of them; the layout is known to `entry.s`.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Context {
    /// Its stack pointer.
    pub(crate) rsp: AtomicU64,
    /// Number of the environment. [`HANDLE`] is here.
    pub(crate) number: AtomicU64,
    /// [`UNCLAIMED`], [`CLAIMED`] by the CPU that runs or is about to run it, or [`CONDEMNED`].
    pub(crate) claim: AtomicU64,
    /// A word of [`callee`]: what a control transfer by the fast way compares.
    pub(crate) callee: AtomicU64,
    /// Address of [`PrivateWords`] in the direct map.
    pub(crate) private: AtomicU64,
    /// Address of [`PrivateWords`] in its own address space: GS base whenever it is entered or resumes voluntarily.
    pub(crate) area_private: AtomicU64,
    /// What CR3 holds while it runs.
    pub(crate) address_space: AtomicU64,
    /// Where it resumes.
    pub(crate) rip: AtomicU64,
    /// User address of the upcall stack's lowest byte.
    pub(crate) stack_base: AtomicU64,
    /// Length of the upcall stack.
    pub(crate) stack_bytes: AtomicU64,
    /// The same for the short way of exceptions; 0 where protection keys are on, which sends them the longer way.
    pub(crate) short_stack: AtomicU64,
    /// For each page of the upcall stack its address in the direct map less its offset in the stack.
    pub(crate) stack_alias: [AtomicU64; PRIVATE_PAGES - 1],
    /// A byte for each page of the upcall stack: 1 where the kernel has put a frame into it. No table shows that.
    pub(crate) written: [AtomicU64; PRIVATE_PAGES / 8],
    /// One of [`resume`].
    pub(crate) resume: AtomicU64,
    /// Its flags; [`FIRST_FLAGS`] while it runs, because a transfer keeps none.
    pub(crate) rflags: AtomicU64,
    /// All others when it was switched out whole: rax rbx rcx rdx rsi rdi rbp r8 to r15.
    pub(crate) registers: [AtomicU64; 15],
    /// Base of FS; 0 while it runs, because a transfer keeps none.
    pub(crate) fs_base: AtomicU64,
    /// Base of GS when it was switched out whole.
    pub(crate) gs_base: AtomicU64,
    /// PKRU.
    pub(crate) pkru: AtomicU64,
    /// Not zero: the vector unit is on.
    pub(crate) vector_on: AtomicU64,
    /// Not zero: protection keys are on.
    pub(crate) keys_on: AtomicU64,
    /// What a callee of its fast transfers has below its number: [`callee::VECTOR`] if its own vector unit is on, or
    /// [`callee::CLOSED`].
    pub(crate) side: AtomicU64,
    /// The exposed record of its environment.
    pub(crate) record: AtomicPtr<EnvironmentInfo>,
    /// Vector state as XSAVE or FXSAVE writes it.
    pub(crate) vector: VectorState,
}

/// Room for vector state, aligned as XSAVE wants it.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct VectorState(pub(crate) [AtomicU64; VECTOR_BYTES / 8]);

const _: () = assert!(size_of::<Context>() <= PAGE_SIZE as usize);

/// A context that this CPU has claimed by [`Context::claim_simply`].
#[derive(Clone, Copy, Debug)]
pub struct Simple(&'static Context);

impl Simple {
    /// The context.
    #[inline(always)]
    pub fn context(self) -> &'static Context {
        self.0
    }
}

/// Why an upcall could not be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undeliverable {
    /// The frame does not fit.
    StackOverflow,
    /// The declared entry, which is given, is not in the user half.
    BadEntry(u64),
}

/// Which of the declared entries an upcall goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Hardware exceptions.
    Exception,
    /// Start of a slice.
    SliceStart,
    /// End of a slice.
    SliceEnd,
    /// Reflected system calls.
    Reflection,
    /// Events, revocation, repossession, emergency.
    Event,
    /// Protected control transfer that keeps the position.
    Synchronous,
    /// Protected control transfer for the rest of the slice.
    Asynchronous,
}

/// Words of a frame, in the order of its fields.
const FRAME_WORDS: usize = size_of::<UpcallFrame>() / 8;
const _: () = assert!(core::mem::offset_of!(UpcallFrame, ss) == (FRAME_WORDS - 1) * 8);

/// What an upcall tells.
#[derive(Clone, Copy, Debug)]
pub struct Upcall {
    /// The entry it goes to.
    pub entry: Entry,
    /// [`abi::upcall::kind`].
    pub kind: u64,
    /// Error code.
    pub error: u64,
    /// Address or count.
    pub detail: u64,
}

/// The part of a user's registers that an upcall changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Where it executes.
    pub rip: u64,
    /// Its stack pointer.
    pub rsp: u64,
    /// Its flags.
    pub rflags: u64,
    /// Its PKRU.
    pub pkru: u64,
}

/// Flags that are clear when an upcall begins: single step, direction, alignment check, nested task, resume.
const CLEARED_BY_UPCALL: u64 = 1 << 8 | 1 << 10 | 1 << 18 | 1 << 14 | 1 << 16;

impl Context {
    /// What assembly calls the context by.
    #[inline(always)]
    pub(crate) fn handle(&self) -> u64 {
        handle_of(core::ptr::from_ref(self)) as u64
    }

    /// The context of a handle.
    ///
    /// # Safety
    /// It is the handle of a context that stays one as long as the result is used.
    #[inline(always)]
    pub(crate) unsafe fn of_handle(handle: u64) -> &'static Self {
        // SAFETY: by the caller: HANDLE bytes before it the context begins.
        unsafe { &*(handle as *const u8).sub(HANDLE).cast() }
    }

    /// The FS base that was kept, for the CPU that enters the context. From now on FS base and flags are those of the
    /// beginning, as they must be if it leaves by a transfer.
    #[inline(always)]
    pub(crate) fn take_fs_base(&self) -> u64 {
        let base = self.fs_base.load(Ordering::Relaxed);
        self.fs_base.store(0, Ordering::Relaxed);
        self.rflags.store(FIRST_FLAGS, Ordering::Relaxed);
        base
    }

    /// All that an environment of this number begins with, but for where its pages lie. What is kept of vector state
    /// stays: none is read before it was written.
    pub(crate) fn begin(&self, number: EnvironmentId, record: &'static EnvironmentInfo) {
        self.number.store(number.0, Ordering::Relaxed);
        self.record.store(core::ptr::from_ref(record).cast_mut(), Ordering::Relaxed);
        self.set_program(Program { rip: 0, rsp: 0, rflags: FIRST_FLAGS, pkru: 0 });
        let kept = self.registers.iter().chain([&self.fs_base, &self.gs_base, &self.keys_on]);
        kept.for_each(|word| word.store(0, Ordering::Relaxed));
        self.written.iter().for_each(|mark| mark.store(0, Ordering::Relaxed));
        self.short_stack.store(self.stack_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        self.vector_on.store(1, Ordering::Relaxed);
        self.note_side();
        let bases = if cpu_control::has(abi::feature::FSGSBASE) { 0 } else { callee::BASES };
        let word = callee::word(number, callee::VECTOR | callee::WHOLE | bases);
        self.callee.store(word, Ordering::Relaxed);
        self.resume.store(resume::FRESH, Ordering::Relaxed);
        self.claim.store(UNCLAIMED, Ordering::Release);
    }

    /// The pages of the upcall stack that the kernel has written since the environment began, as bits from the lowest.
    #[inline(always)]
    pub fn written(&self) -> u32 {
        let [low, high] = &self.written;
        first_bits(low.load(Ordering::Relaxed)) | first_bits(high.load(Ordering::Relaxed)) << 8
    }

    /// The number of the environment.
    #[inline(always)]
    pub fn number(&self) -> EnvironmentId {
        EnvironmentId(self.number.load(Ordering::Relaxed))
    }

    /// Takes the context for this CPU, unless another one has it.
    #[inline(always)]
    pub fn claim(&self) -> bool {
        self.claim.compare_exchange(UNCLAIMED, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Lets the context go.
    pub fn release(&self) {
        self.claim.store(UNCLAIMED, Ordering::Release);
    }

    /// Takes the context for ever; false if a CPU holds it.
    pub fn condemn(&self) -> bool {
        // A CPU that runs it may leave it by a transfer, which makes the claim free: from now on no transfer enters it.
        self.mark(callee::DYING, true);
        self.claim.compare_exchange(UNCLAIMED, CONDEMNED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            || self.claim.load(Ordering::Acquire) == CONDEMNED
    }

    /// Takes the context for ever on behalf of the CPU that holds it.
    pub fn condemn_own(&self) {
        self.claim.store(CONDEMNED, Ordering::Release);
    }

    /// Whether a CPU holds it.
    pub fn is_claimed(&self) -> bool {
        self.claim.load(Ordering::Acquire) == CLAIMED
    }

    /// Page of the root of its address space.
    pub fn root(&self) -> PageNumber {
        PageNumber(self.address_space.load(Ordering::Relaxed) >> 12)
    }

    /// Gives it another address space from its next entry on.
    pub fn set_root(&self, root: PageNumber) {
        self.address_space.store(root.address(), Ordering::Relaxed);
    }

    /// Whether its vector unit is on.
    pub fn vector_on(&self) -> bool {
        self.vector_on.load(Ordering::Relaxed) != 0
    }

    /// Switches the vector unit of the context, which runs on this CPU, on or off; off, its state is gone.
    pub fn set_vector(&self, on: bool) {
        self.vector_on.store(u64::from(on), Ordering::Relaxed);
        self.mark(callee::VECTOR, on);
        crate::vector_state::set(on);
        self.note_side();
    }

    /// Whether its protection keys are on.
    pub fn keys_on(&self) -> bool {
        self.keys_on.load(Ordering::Relaxed) != 0
    }

    /// Switches the protection keys of the context, which runs on this CPU, on or off.
    pub fn set_keys(&self, on: bool) {
        self.keys_on.store(u64::from(on), Ordering::Relaxed);
        let short = if on { 0 } else { self.stack_bytes.load(Ordering::Relaxed) };
        self.short_stack.store(short, Ordering::Relaxed);
        self.mark(callee::KEYS, on);
        crate::cpu_control::switch_protection_keys(on);
        self.note_side();
    }

    /// Opens or closes its fast transfers: to ones like itself, unless it has protection keys.
    pub(crate) fn note_side(&self) {
        let vector = if self.vector_on() { callee::VECTOR } else { 0 };
        self.side.store(if self.keys_on() { callee::CLOSED } else { vector }, Ordering::Relaxed);
        crate::entry::note_side(self);
    }

    /// The exposed record of its environment.
    #[inline(always)]
    pub fn record(&self) -> &'static EnvironmentInfo {
        // SAFETY: stored by `Memory::create_context` from a reference that lives for ever; that of no environment is
        // a static.
        unsafe { &*self.record.load(Ordering::Relaxed) }
    }

    /// Says whether it waits for a predicate.
    pub fn set_waiting(&self, waits: bool) {
        self.mark(callee::WAITS, waits);
    }

    fn mark(&self, bit: u64, on: bool) {
        if on {
            self.callee.fetch_or(bit, Ordering::AcqRel);
        } else {
            self.callee.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    /// Says how it resumes.
    #[inline(always)]
    pub(crate) fn set_resume(&self, how: u64) {
        if self.resume.load(Ordering::Relaxed) != how {
            self.resume.store(how, Ordering::Relaxed);
            self.mark(callee::WHOLE, how != resume::VOLUNTARY);
        }
    }

    /// Whether it resumes from RIP, RSP and flags alone.
    #[inline(always)]
    pub fn is_voluntary(&self) -> bool {
        self.resume.load(Ordering::Relaxed) == resume::VOLUNTARY
    }

    /// Whether it lives under this number, waits for nothing, resumes from RIP, RSP and flags alone, and has no
    /// protection keys, on a CPU that has FSGSBASE.
    #[inline(always)]
    fn is_simply(&self, number: EnvironmentId) -> bool {
        self.callee.load(Ordering::Acquire) & (callee::FLAGS & !callee::VECTOR) == 0 && self.number() == number
    }

    /// Takes the context for this CPU if it is simply the one of this number. Called with the kernel's lock held:
    /// nothing of that changes meanwhile.
    #[inline(always)]
    pub fn claim_simply(&'static self, number: EnvironmentId) -> Option<Simple> {
        (self.is_simply(number) && self.claim()).then_some(Simple(self))
    }

    /// Whether it waits for a predicate.
    #[inline(always)]
    pub fn is_waiting(&self) -> bool {
        self.callee.load(Ordering::Relaxed) & callee::WAITS != 0
    }

    /// Whether the kernel holds all of its registers.
    pub fn is_forced(&self) -> bool {
        self.resume.load(Ordering::Relaxed) == resume::FORCED
    }

    /// Whether it has never run.
    pub fn is_fresh(&self) -> bool {
        self.resume.load(Ordering::Relaxed) == resume::FRESH
    }

    /// Where it resumes.
    #[inline(always)]
    pub fn program(&self) -> Program {
        Program {
            rip: self.rip.load(Ordering::Relaxed),
            rsp: self.rsp.load(Ordering::Relaxed),
            rflags: self.rflags.load(Ordering::Relaxed),
            pkru: self.pkru.load(Ordering::Relaxed),
        }
    }

    /// The same for a context without protection keys.
    #[inline(always)]
    pub fn program_without_keys(&self) -> Program {
        Program {
            rip: self.rip.load(Ordering::Relaxed),
            rsp: self.rsp.load(Ordering::Relaxed),
            rflags: self.rflags.load(Ordering::Relaxed),
            pkru: 0,
        }
    }

    /// Changes where it resumes, and nothing else.
    #[inline(always)]
    pub fn set_program(&self, program: Program) {
        self.rip.store(program.rip, Ordering::Relaxed);
        self.rsp.store(program.rsp, Ordering::Relaxed);
        self.rflags.store(program.rflags, Ordering::Relaxed);
        self.pkru.store(program.pkru, Ordering::Relaxed);
    }

    /// Keeps what a transfer does: where it resumes, and its stack. `base` is the FS base that the library could not
    /// keep itself, for want of an instruction.
    pub fn keep_transferring(&self, program: Program, base: Option<u64>) {
        self.keep_voluntary(Program { rflags: FIRST_FLAGS, ..program });
        self.fs_base.store(base.unwrap_or(0), Ordering::Relaxed);
    }

    /// Sets the FS base that it resumes with.
    pub fn set_fs_base(&self, base: u64) {
        self.fs_base.store(base, Ordering::Relaxed);
    }

    /// Keeps only where it resumes: it gave up the CPU voluntarily.
    #[inline(always)]
    pub fn keep_voluntary(&self, program: Program) {
        self.set_program(program);
        self.set_resume(resume::VOLUNTARY);
    }

    /// Its private words, through the kernel's own alias.
    #[inline(always)]
    pub fn private_words(&self) -> &PrivateWords {
        // SAFETY: `private` is the direct-map address of a page that is pinned as long as this context exists (set in
        // `Memory::create_context`), PrivateWords is made of atomics only and fits in a page.
        unsafe { &*(self.private.load(Ordering::Relaxed) as *const PrivateWords) }
    }

    /// Pushes the frame of an upcall for a program that was interrupted as `program` says; returns how the program
    /// resumes. The critical section is the caller's affair.
    #[inline(always)]
    pub fn push_upcall(&self, program: Program, upcall: Upcall) -> Result<Program, Undeliverable> {
        let pkru = self.pkru_of_upcalls();
        let is_foreign = self.keys_on() && program.pkru != pkru;
        let top = if is_foreign { self.stack_bytes.load(Ordering::Relaxed) } else { self.stack_top(program) };
        self.push_below(top, program, upcall).map(|above| Program { pkru, ..above })
    }

    /// The same for a context without protection keys, and only where half of the stack is free.
    #[inline(always)]
    pub fn push_frame(&self, program: Program, upcall: Upcall) -> Result<Program, Undeliverable> {
        let top = self.stack_top(program);
        if top < self.stack_bytes.load(Ordering::Relaxed) / 2 {
            return Err(Undeliverable::StackOverflow);
        }
        self.push_below(top, program, upcall)
    }

    /// Where in the upcall stack a frame ends: below the interrupted RSP if that lies there, else at the top.
    #[inline(always)]
    fn stack_top(&self, program: Program) -> u64 {
        let depth = program.rsp.wrapping_sub(self.stack_base.load(Ordering::Relaxed));
        depth.min(self.stack_bytes.load(Ordering::Relaxed))
    }

    /// Whether an upcall that others cause finds this many quarters of the upcall stack below what it interrupts. What
    /// lies deeper is the environment's own doing, and others add nothing to it.
    pub fn has_room(&self, program: Program, quarters: u64) -> bool {
        let is_foreign = self.keys_on() && program.pkru != self.pkru_of_upcalls();
        is_foreign || self.stack_top(program) >= self.stack_bytes.load(Ordering::Relaxed) / 4 * quarters
    }

    #[inline(always)]
    fn push_below(&self, top: u64, program: Program, upcall: Upcall) -> Result<Program, Undeliverable> {
        let entry = self.declared_entry(upcall.entry)?;
        let stack_base = self.stack_base.load(Ordering::Relaxed);
        let Some(below) = top.checked_sub(size_of::<UpcallFrame>() as u64) else {
            return Err(Undeliverable::StackOverflow);
        };
        let offset = below & !(FRAME_ALIGNMENT - 1);
        self.write_frame(
            offset,
            UpcallFrame {
                kind: upcall.kind,
                error: upcall.error,
                detail: upcall.detail,
                pkru: program.pkru,
                rip: program.rip,
                cs: abi::upcall::USER_CODE,
                rflags: program.rflags,
                rsp: program.rsp,
                ss: abi::upcall::USER_DATA,
            },
        );
        Ok(Program {
            rip: entry,
            rsp: stack_base.wrapping_add(offset),
            rflags: program.rflags & !CLEARED_BY_UPCALL,
            pkru: 0,
        })
    }

    /// How a callee resumes that a transfer enters: at the declared entry, its stack pointer as the caller's.
    pub fn enter(&self, program: Program, entry: Entry) -> Result<Program, Undeliverable> {
        let rip = self.declared_entry(entry)?;
        let pkru = self.pkru_of_upcalls();
        Ok(Program { rip, pkru, rflags: program.rflags & !CLEARED_BY_UPCALL, ..program })
    }

    /// PKRU while an upcall or a transfer runs: the declared value where protection keys are on.
    #[inline(always)]
    fn pkru_of_upcalls(&self) -> u64 {
        if !self.keys_on() {
            return 0;
        }
        self.private_words().upcall_pkru.load(Ordering::Relaxed) & 0xffff_ffff
    }

    /// Whether an entry is declared: not 0.
    pub fn declares(&self, entry: Entry) -> bool {
        self.entry_word(entry).load(Ordering::Relaxed) != 0
    }

    /// Whether the next instruction is the first of a declared entry: what was pushed for it has not begun.
    pub fn stands_at(&self, entry: Entry, program: Program) -> bool {
        self.entry_word(entry).load(Ordering::Relaxed) == program.rip
    }

    #[inline(always)]
    fn entry_word(&self, entry: Entry) -> &AtomicU64 {
        let words = self.private_words();
        match entry {
            Entry::Exception => &words.exception_entry,
            Entry::SliceStart => &words.slice_start_entry,
            Entry::SliceEnd => &words.slice_end_entry,
            Entry::Event => &words.event_entry,
            Entry::Reflection => &words.reflection_entry,
            Entry::Synchronous => &words.synchronous_entry,
            Entry::Asynchronous => &words.asynchronous_entry,
        }
    }

    /// The declared entry, read once and checked.
    #[inline(always)]
    fn declared_entry(&self, entry: Entry) -> Result<u64, Undeliverable> {
        let address = self.entry_word(entry).load(Ordering::Relaxed);
        if address != 0 && abi::memory_map::in_user_half(address, 1) {
            Ok(address)
        } else {
            Err(Undeliverable::BadEntry(address))
        }
    }

    /// Writes a frame at an offset of the upcall stack that has room for it.
    #[inline(always)]
    fn write_frame(&self, offset: u64, frame: UpcallFrame) {
        let index = (offset / PAGE_SIZE) as usize;
        // SAFETY: `offset` is below `stack_bytes`, which is no more than the pages that have an alias, and a mark.
        let (page, marks) = unsafe { (self.stack_alias.get_unchecked(index), self.written.get_unchecked(index / 8)) };
        marks.store(marks.load(Ordering::Relaxed) | 1 << (index % 8 * 8), Ordering::Relaxed);
        let alias = page.load(Ordering::Relaxed).wrapping_add(offset);
        // SAFETY: `offset` is below `stack_bytes` and a multiple of FRAME_ALIGNMENT, so that the frame lies within one
        // page of the upcall stack, which stays allocated as long as this context exists. Programs may write there at
        // any time, and nothing in Rust but this reference, to atomics, refers to it.
        let words = unsafe { &*(alias as *const [AtomicU64; FRAME_WORDS]) };
        let UpcallFrame { kind, error, detail, pkru, rip, cs, rflags, rsp, ss } = frame;
        let values = [kind, error, detail, pkru, rip, cs, rflags, rsp, ss];
        let mut index = 0;
        while index < FRAME_WORDS {
            words[index].store(values[index], Ordering::Relaxed);
            index += 1;
        }
    }
}

/// The first bits of eight bytes, each of which is 0 or 1.
const fn first_bits(bytes: u64) -> u32 {
    (bytes.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

#[cfg(test)]
mod tests {
    use super::callee::{FLAGS, SCALE, VECTOR, word};
    use super::first_bits;
    use abi::EnvironmentId;
    use abi::syscall::{ASYNCHRONOUS, CALLEE, SYNCHRONOUS};

    /// Numbers about every power of two, up to the last one.
    fn numbers() -> impl Iterator<Item = u64> {
        (0..CALLEE.trailing_ones()).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1, CALLEE - (1 << bit)])
    }

    /// What `entry.s` compares with a callee's word: the multiplication drops what asks for the transfer.
    fn asked(rax: u64) -> u64 {
        rax.wrapping_mul(SCALE) | VECTOR
    }

    #[test]
    fn marks_of_pages_become_bits() {
        for bits in 0..256u32 {
            let bytes = (0..8).map(|bit| u64::from(bits >> bit & 1) << (8 * bit)).sum();
            assert_eq!(first_bits(bytes), bits);
        }
    }

    #[test]
    fn fault_158_no_number_is_taken_for_another_one_in_a_transfer() {
        for callee in numbers() {
            for number in numbers() {
                for way in [SYNCHRONOUS, ASYNCHRONOUS, SYNCHRONOUS | ASYNCHRONOUS] {
                    let enters = asked(way | number) == word(EnvironmentId(callee), VECTOR);
                    assert_eq!(enters, number == callee, "{number:#x} enters {callee:#x}");
                }
            }
        }
    }

    #[test]
    fn fault_158_no_bits_of_a_caller_stand_for_flags_of_a_callee() {
        for flag in (1..FLAGS.trailing_ones()).map(|bit| 1 << bit) {
            let is_found = |bit: u32| asked(5 | 1 << bit) == word(EnvironmentId(5), VECTOR | flag);
            assert!(!(0..64).any(is_found), "a caller enters past the flag {flag:#x}");
        }
    }
}
