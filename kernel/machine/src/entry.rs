//! The Rust side of `entry.s`: this CPU's entry state, the frames that the slow ways build, and how a context is left
//! and entered.
//!
//! The kernel proper gives its handlers once, at boot ([`install`]). They run with interrupts off on the CPU's one
//! stack, and either return to where the user was or enter another context and never return.

use crate::context::{self, Context, Program, Simple, callee};
use crate::layout::PAGE_SIZE;
use crate::map_few::LastMap;
use crate::per_cpu::entry_state;
use crate::{cpu_control, vector_state};
use abi::area::PrivateWords;
use abi::page::PageInfo;
use abi::upcall::{FRAME_ALIGNMENT, USER_CODE, USER_DATA, UpcallFrame, kind};
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// What assembly needs of this CPU; GS points to it while the kernel runs. First in the per-CPU structure.
#[repr(C)]
#[derive(Debug, Default)]
pub struct EntryState {
    /// The address of this structure.
    pub this: AtomicU64,
    /// RSP of the user during a system call.
    pub user_rsp: AtomicU64,
    /// The handle of the [`Context`] that runs, 0 while idle. Published before its address space is loaded: a CPU
    /// that narrows a mapping under it waits for this CPU.
    pub current: AtomicU64,
    /// Its [`PrivateWords`] in the direct map.
    pub private: AtomicU64,
    /// Top of this CPU's kernel stack.
    pub kernel_stack: AtomicU64,
    /// Not zero: the CPU has protection keys.
    pub pku: AtomicU64,
    /// Not zero: the CPU has SMAP.
    pub smap: AtomicU64,
    /// CR2 of the last fault inside a user copy.
    pub fault_address: AtomicU64,
    /// Its error code.
    pub fault_error: AtomicU64,
    /// For assembly.
    pub scratch: [AtomicU64; 3],
    /// Lower half of the time stamp of the beginning of this entry into Rust.
    pub entry_stamp: AtomicU32,
    /// Ticks of the longest entry on this CPU so far.
    pub longest_entry: AtomicU32,
    /// Number of the system call, or 0x100 + vector.
    pub entry_cause: AtomicU64,
    /// Not zero: protection keys are switched on (CR4.PKE).
    pub keys_on: AtomicU64,
    /// The exposed record of this CPU.
    pub cpu_record: AtomicU64,
    /// What CR3 holds while no context runs.
    pub address_space: AtomicU64,
    /// Not zero: the running environment is the runner of the position.
    pub position: AtomicU64,
    /// Not zero: the CPU has FSGSBASE.
    pub fs_gs_base: AtomicU64,
    /// What a callee of a synchronous transfer has below its number, or [`callee::CLOSED`].
    pub synchronous_side: AtomicU64,
    /// The same for asynchronous ones.
    pub asynchronous_side: AtomicU64,
    /// Number of this CPU.
    pub cpu: AtomicU64,
    /// Not zero: a program may have left vector state in the registers.
    pub vector_dirty: AtomicU64,
    /// Not zero: CR0.TS is set.
    pub vector_trap: AtomicU64,
}

/// The registers of a program that made a system call, as `entry.s` pushes them.
#[repr(C)]
#[derive(Debug)]
pub struct SyscallFrame {
    /// rdi, rsi, rdx, r10, r8, r9; the third takes the result or the detail.
    pub arguments: [u64; 6],
    /// Number; error.
    pub rax: u64,
    /// Where it resumes.
    pub rip: u64,
    /// Its flags.
    pub rflags: u64,
    /// Its stack pointer.
    pub rsp: u64,
}

/// All registers of an interrupted program, as `entry.s` pushes them.
#[repr(C)]
#[derive(Debug)]
pub struct TrapFrame {
    /// rax rbx rcx rdx rsi rdi rbp r8 to r15.
    pub registers: [u64; 15],
    /// Vector.
    pub vector: u64,
    /// Error code.
    pub error: u64,
    /// Where it was interrupted.
    pub rip: u64,
    /// Code segment.
    pub cs: u64,
    /// Flags.
    pub rflags: u64,
    /// Stack pointer.
    pub rsp: u64,
    /// Stack segment.
    pub ss: u64,
}

impl SyscallFrame {
    /// Puts a result, or an error and its detail, where the program finds them.
    pub fn answer(&mut self, error: u64, value: u64) {
        (self.rax, self.arguments[2]) = (error, value);
    }
}

/// A frame whose program can be made to go on elsewhere.
pub trait Frame {
    /// Where the program resumes, with the PKRU that this CPU has now.
    fn program(&self) -> Program;
    /// Makes it resume elsewhere; PKRU is loaded at once.
    fn set_program(&mut self, program: Program);
}

macro_rules! frame {
    ($($type:ty),*) => {$(
        impl Frame for $type {
            fn program(&self) -> Program {
                Program { rip: self.rip, rsp: self.rsp, rflags: self.rflags, pkru: cpu_control::read_pkru() }
            }
            fn set_program(&mut self, program: Program) {
                (self.rip, self.rsp, self.rflags) = (program.rip, program.rsp, program.rflags);
                cpu_control::write_pkru(program.pkru);
            }
        }
    )*};
}

frame!(SyscallFrame, TrapFrame);

/// What a system call does with the registers of the program that made it.
pub type SystemCall = extern "C" fn(&mut SyscallFrame);

/// The rows of the table, and one more.
pub const SYSTEM_CALLS: usize = abi::syscall::TABLE.len() + 1;

/// What the kernel proper does at each entry.
#[derive(Debug)]
pub struct Handlers {
    /// What each system call does from its entry to its end, by number; the last is for what no row of the table is.
    pub system_calls: [SystemCall; SYSTEM_CALLS],
    /// A device interrupt that came while a program ran; the vector is in the frame.
    pub interrupt: fn(&mut TrapFrame),
    /// A device interrupt that came while this CPU was idle.
    pub interrupt_while_idle: fn(u64),
    /// An upcall of this kind could not be delivered; the program's registers are in the frame.
    pub upcall_failed: fn(&mut TrapFrame) -> !,
}

static HANDLERS: AtomicPtr<Handlers> = AtomicPtr::new(core::ptr::null_mut());

/// Gives the handlers, once, before any program runs.
pub fn install(handlers: &'static Handlers) {
    HANDLERS.store(core::ptr::from_ref(handlers).cast_mut(), Ordering::Release);
    if !cfg!(feature = "trace") {
        for (entry, system_call) in chitin_system_calls.iter().zip(&handlers.system_calls) {
            entry.store(*system_call as *mut (), Ordering::Release);
        }
    }
}

fn handlers() -> &'static Handlers {
    let pointer = HANDLERS.load(Ordering::Acquire);
    assert!(!pointer.is_null(), "an entry before the kernel's handlers were installed");
    // SAFETY: not null, so it was stored by `install` from a reference that lives for ever.
    unsafe { &*pointer }
}

/// What `entry.s` calls for a system call, by number: each a [`SystemCall`].
#[unsafe(no_mangle)]
static chitin_system_calls: [AtomicPtr<()>; SYSTEM_CALLS] =
    [const { AtomicPtr::new(trace_system_call as *mut ()) }; SYSTEM_CALLS];

/// The handler, with a trace where there is one.
extern "C" fn trace_system_call(frame: &mut SyscallFrame) {
    #[cfg(feature = "trace")]
    crate::trace::note(frame.rax, frame.rip);
    handlers().system_calls[frame.rax.min(SYSTEM_CALLS as u64 - 1) as usize](frame);
}

/// The cause of an entry that continues what the one before it began.
const BREATH: u64 = 0x200;

/// Notes that an entry into Rust has begun, and why.
fn began(cause: u64) {
    let state = entry_state();
    state.entry_stamp.store(crate::reference_clock::time_stamp() as u32, Ordering::Relaxed);
    state.entry_cause.store(cause, Ordering::Relaxed);
}

/// The boot of this CPU is over: what follows counts as an entry.
pub fn boot_ended() {
    began(BREATH);
}

/// Records that it is over, here or where the kernel continues with an empty stack.
#[inline(always)]
fn ended() {
    let state = entry_state();
    let now = crate::reference_clock::time_stamp() as u32;
    let ticks = now.wrapping_sub(state.entry_stamp.load(Ordering::Relaxed));
    if ticks > state.longest_entry.load(Ordering::Relaxed) {
        chitin_note_longest_entry(ticks);
    }
}

/// An entry took longer than any before it on this CPU.
#[cold]
#[unsafe(no_mangle)]
extern "C" fn chitin_note_longest_entry(ticks: u32) {
    let state = entry_state();
    state.longest_entry.store(ticks, Ordering::Relaxed);
    let ticks = u64::from(ticks);
    // The kernel that tests the machine alone exposes nothing.
    let Some(kernel) = crate::exposed::kernel_if_made() else { return };
    if kernel.longest_entry.fetch_max(ticks, Ordering::AcqRel) < ticks {
        kernel.longest_entry_call.store(state.entry_cause.load(Ordering::Relaxed), Ordering::Release);
    }
}

#[unsafe(no_mangle)]
extern "C" fn chitin_interrupt(frame: &mut TrapFrame) {
    cpu_control::forbid_user_access();
    began(0x100 + frame.vector);
    #[cfg(feature = "trace")]
    crate::trace::note(0x100 + frame.vector, frame.rip);
    (handlers().interrupt)(frame);
    ended();
}

#[unsafe(no_mangle)]
extern "C" fn chitin_interrupt_while_idle(frame: &mut TrapFrame) {
    began(0x100 + frame.vector);
    #[cfg(feature = "trace")]
    crate::trace::note(0x100 + frame.vector, frame.rip);
    (handlers().interrupt_while_idle)(frame.vector);
}

#[unsafe(no_mangle)]
extern "C" fn chitin_user_return(frame: &mut TrapFrame) {
    cpu_control::forbid_user_access();
    if !crate::user_return::carry_out(frame) {
        (handlers().upcall_failed)(frame);
    }
}

#[unsafe(no_mangle)]
extern "C" fn chitin_upcall_failed(frame: &mut TrapFrame) -> ! {
    cpu_control::forbid_user_access();
    (handlers().upcall_failed)(frame)
}

unsafe extern "C" {
    static chitin_copy_pair_begin: u8;
    static chitin_copy_pair_end: u8;
    static chitin_copy_begin: u8;
    static chitin_copy_end: u8;
    static chitin_copy_fixup: u8;
    static chitin_map_few_begin: u8;
    static chitin_map_few_end: u8;
    static chitin_map_few_otherwise: u8;
    static chitin_map_many_begin: u8;
    static chitin_map_many_end: u8;
    static chitin_map_many_otherwise: u8;
    static chitin_vectors: [u64; 256];
    fn chitin_syscall_entry();
    fn chitin_enter_whole(handle: u64) -> !;
    fn chitin_halt(then: extern "C" fn() -> !) -> !;
    fn chitin_breathe(then: extern "C" fn() -> !) -> !;
}

/// Address for IA32_LSTAR.
pub fn syscall_entry_address() -> u64 {
    chitin_syscall_entry as *const () as u64
}

/// Address of the stub of each interrupt vector.
pub fn vector_addresses() -> &'static [u64; 256] {
    // SAFETY: `entry.s` defines it as 256 words in read-only data.
    unsafe { &chitin_vectors }
}

/// Whether the kernel faulted at an IRETQ: all of them return to a program.
fn is_iretq(rip: u64) -> bool {
    // SAFETY: the CPU has just executed the instruction at this address of the kernel.
    unsafe { (rip as *const [u8; 2]).read() == crate::user_return::INSTRUCTION }
}

/// An exception in the kernel. Inside a user copy the copy ends with a fault; at a return to a RIP that is not
/// canonical the environment dies; anywhere else the kernel is wrong.
#[unsafe(no_mangle)]
extern "C" fn chitin_kernel_fault(frame: &mut TrapFrame) {
    let address_of = |symbol: *const u8| symbol as u64;
    let copies = [
        address_of(&raw const chitin_copy_begin)..address_of(&raw const chitin_copy_end),
        address_of(&raw const chitin_copy_pair_begin)..address_of(&raw const chitin_copy_pair_end),
    ];
    let few = address_of(&raw const chitin_map_few_begin)..address_of(&raw const chitin_map_few_end);
    let many = address_of(&raw const chitin_map_many_begin)..address_of(&raw const chitin_map_many_end);
    let ways = [(few, &raw const chitin_map_few_otherwise), (many, &raw const chitin_map_many_otherwise)];
    let row = ways.iter().find(|(reads, _)| frame.vector == kind::PAGE_FAULT && reads.contains(&frame.rip));
    if let Some((_, otherwise)) = row {
        // The longer way finds the same, and tells it.
        frame.rip = address_of(*otherwise);
        return;
    }
    if frame.vector == kind::PAGE_FAULT && copies.iter().any(|copy| copy.contains(&frame.rip)) {
        let state = entry_state();
        state.fault_address.store(cpu_control::read_cr2(), Ordering::Relaxed);
        state.fault_error.store(frame.error, Ordering::Relaxed);
        frame.rip = address_of(&raw const chitin_copy_fixup);
        return;
    }
    // A user address that is not canonical raises #GP in the copy instead of #PF; the range check keeps those out.
    if frame.vector == kind::GENERAL_PROTECTION && is_iretq(frame.rip) {
        // swapgs was done: take the kernel's GS back before anything else.
        cpu_control::swap_gs();
        (handlers().upcall_failed)(frame);
    }
    panic!(
        "exception {} in the kernel: error {:#x}, rip {:#x}, rsp {:#x}, cr2 {:#x}",
        frame.vector,
        frame.error,
        frame.rip,
        frame.rsp,
        cpu_control::read_cr2()
    );
}

/// The context that runs on this CPU, if one does.
#[inline(always)]
pub fn current() -> Option<&'static Context> {
    let handle = entry_state().current.load(Ordering::Relaxed);
    // SAFETY: set by `enter` from a reference to a context that this CPU has claimed; it stays until `leave`.
    (handle != 0).then(|| unsafe { Context::of_handle(handle) })
}

/// The CPU that runs a context, if one does. A CPU that has claimed it and not entered it yet does not run it.
pub fn runner_of(context: &Context) -> Option<usize> {
    let handle = context.handle();
    (0..crate::exposed::cpu_count())
        .find(|cpu| crate::per_cpu::get(*cpu).entry.current.load(Ordering::Acquire) == handle)
}

/// The number of this CPU.
#[inline(always)]
pub fn cpu() -> usize {
    entry_state().cpu.load(Ordering::Relaxed) as usize
}

/// Keeps the FS base of the running context, which resumes voluntarily. Vector state is dropped, and so is GS base,
/// which is its private page whenever it resumes. Its address space stays loaded.
#[inline(always)]
pub fn leave(context: &Context) {
    context.fs_base.store(cpu_control::read_fs_base(), Ordering::Relaxed);
    leave_address_space(context);
}

/// No context runs any more.
#[inline(always)]
fn leave_address_space(context: &Context) {
    let state = entry_state();
    // In this order: a CPU that reads that none runs reads what is loaded after it.
    state.address_space.store(context.address_space.load(Ordering::Relaxed), Ordering::Release);
    state.current.store(0, Ordering::Release);
    state.private.store(0, Ordering::Relaxed);
}

/// What the CPU of a structure holds in CR3, or is about to load.
#[inline(always)]
pub(crate) fn loaded_on(state: &EntryState) -> u64 {
    match state.current.load(Ordering::SeqCst) {
        0 => state.address_space.load(Ordering::SeqCst),
        // SAFETY: the handle is that of a context that some CPU entered. It may have left it since: the page of a
        // context is not used for anything else before every CPU has left the kernel, and the caller is in it.
        handle => unsafe { Context::of_handle(handle) }.address_space.load(Ordering::SeqCst),
    }
}

/// Whether the CPU of a structure has the kernel's own address space loaded, and runs no context. Called with the
/// kernel's lock held, without which neither changes to that nor from it.
pub(crate) fn shows_no_program(state: &EntryState) -> bool {
    state.current.load(Ordering::SeqCst) == 0
        && state.address_space.load(Ordering::SeqCst) == crate::kernel_map::root_address()
}

/// Leaves the running context with all its registers and vector state, as it was interrupted.
pub fn leave_whole(context: &Context, frame: &TrapFrame) {
    for (kept, register) in context.registers.iter().zip(frame.registers) {
        kept.store(register, Ordering::Relaxed);
    }
    context.set_program(frame.program());
    context.set_resume(context::resume::FORCED);
    if context.vector_on() {
        vector_state::save(&context.vector);
    }
    context.gs_base.store(cpu_control::read_user_gs_base(), Ordering::Relaxed);
    leave(context);
}

/// Leaves the running context, which has no protection keys and resumes as the frame says, for a simple one:
/// [`leave`] and [`install_context`] in one.
#[inline(always)]
pub fn exchange(from: &Context, frame: &SyscallFrame, to: Simple) {
    let to = to.context();
    from.set_program(Program { rip: frame.rip, rsp: frame.rsp, rflags: frame.rflags, pkru: 0 });
    // SAFETY: on a CPU without FSGSBASE no context is simple.
    let fs = unsafe { cpu_control::exchange_segments(to.take_fs_base(), to.area_private.load(Ordering::Relaxed)) };
    from.fs_base.store(fs, Ordering::Relaxed);
    install_address_space(to, from.address_space.load(Ordering::Relaxed));
    from.release();
    vector_state::switch_to(None, to.vector_on());
}

/// Makes a context that this CPU has claimed the running one, up to its registers; none ran.
#[inline(always)]
fn install_context(context: &Context, pkru: u64) {
    install_address_space(context, entry_state().address_space.load(Ordering::Relaxed));
    let forced = context.is_forced();
    let gs = if forced { &context.gs_base } else { &context.area_private };
    cpu_control::load_segments(context.take_fs_base(), gs.load(Ordering::Relaxed));
    install_keys(context, pkru);
    let on = context.vector_on();
    vector_state::switch_to((on && forced).then_some(&context.vector), on);
}

/// Publishes the running context, then loads its address space unless it is the one that is loaded.
#[inline(always)]
fn install_address_space(context: &Context, loaded: u64) {
    let state = entry_state();
    let root = context.address_space.load(Ordering::Relaxed);
    state.current.store(context.handle(), Ordering::Release);
    state.private.store(context.private.load(Ordering::Relaxed), Ordering::Relaxed);
    if root != loaded {
        cpu_control::load_address_space(root);
    }
}

#[inline(always)]
fn install_keys(context: &Context, pkru: u64) {
    if context.keys_on() || entry_state().keys_on.load(Ordering::Relaxed) != 0 {
        cpu_control::switch_protection_keys(context.keys_on());
        cpu_control::write_pkru(pkru);
    }
}

/// Enters a context that this CPU has claimed; it resumes as `program` says.
#[inline(always)]
pub fn enter(context: &Context, program: Program) -> ! {
    install_context(context, program.pkru);
    if !context.is_voluntary() {
        enter_otherwise(context, program);
    }
    go_on(program)
}

/// Resumes a program of the context that was installed last, with every register but RIP, RSP and flags zero.
#[inline(always)]
pub fn go_on(program: Program) -> ! {
    ended();
    // SAFETY: the context is claimed by this CPU and its address space is loaded; RIP is in the user half because every
    // program came from a user return address or from a checked entry. Nothing on the stack is needed any more.
    unsafe {
        core::arch::asm!(
            "mov rsp, {rsp}",
            "xor eax, eax", "xor ebx, ebx", "xor edx, edx", "xor esi, esi", "xor edi, edi", "xor ebp, ebp",
            "xor r8d, r8d", "xor r9d, r9d", "xor r10d, r10d",
            "xor r12d, r12d", "xor r13d, r13d", "xor r14d, r14d", "xor r15d, r15d",
            "swapgs", "sysretq",
            rsp = in(reg) program.rsp, in("rcx") program.rip, in("r11") program.rflags, options(noreturn),
        )
    }
}

/// Enters a context, installed already, that has never run or whose registers are all kept.
#[inline(never)]
fn enter_otherwise(context: &Context, program: Program) -> ! {
    let whole = context.is_forced();
    context.set_program(program);
    context.set_resume(context::resume::VOLUNTARY);
    if whole {
        ended();
        // SAFETY: as in `go_on`.
        unsafe { chitin_enter_whole(context.handle()) }
    }
    go_on(program)
}

/// Whether the environment that runs on this CPU is the runner of the position, so that a synchronous transfer gives
/// the position too. The fast way only changes the running environment: the one that runs at the next entry into Rust
/// is the runner then.
#[inline(always)]
pub fn has_position() -> bool {
    entry_state().position.load(Ordering::Relaxed) != 0
}

/// Notes for the fast way whether the environment that this CPU enters is the runner of the position.
#[inline(always)]
pub fn set_has_position(context: &Context, has: bool) {
    let state = entry_state();
    let side = context.side.load(Ordering::Relaxed);
    state.position.store(u64::from(has), Ordering::Relaxed);
    state.synchronous_side.store(if has { side } else { callee::CLOSED }, Ordering::Relaxed);
    state.asynchronous_side.store(if has { callee::CLOSED } else { side }, Ordering::Relaxed);
}

/// What a context needs of its callees has changed: it may be the one that runs on this CPU.
pub(crate) fn note_side(context: &Context) {
    if current().is_some_and(|running| core::ptr::eq(running, context)) {
        set_has_position(context, has_position());
    }
}

/// Makes a claimed context the running one in the middle of a system call whose registers pass to it; the frame
/// resumes as `program` says. The vector registers pass too if `vector_passes`.
pub fn enter_with_registers(context: &Context, frame: &mut SyscallFrame, program: Program, vector_passes: bool) {
    let dirty = &entry_state().vector_dirty;
    let was_dirty = dirty.load(Ordering::Relaxed);
    if vector_passes {
        dirty.store(0, Ordering::Relaxed);
    }
    install_context(context, program.pkru);
    if vector_passes {
        dirty.store(was_dirty, Ordering::Relaxed);
    }
    (frame.rip, frame.rsp, frame.rflags) = (program.rip, program.rsp, program.rflags);
}

/// Lets interrupts in for a moment, then calls `then` with an empty stack: the end of one bounded entry, the
/// beginning of the next.
pub fn breathe(then: extern "C" fn() -> !) -> ! {
    ended();
    began(BREATH);
    // SAFETY: as in `halt`.
    unsafe { chitin_breathe(then) }
}

/// Whether no interrupt came in the breath before this entry.
pub fn breathed_undisturbed() -> bool {
    entry_state().entry_cause.load(Ordering::Relaxed) == BREATH
}

/// Halts until an interrupt came, then calls `then` with an empty stack.
pub fn halt(then: extern "C" fn() -> !) -> ! {
    ended();
    // SAFETY: nothing on this CPU's kernel stack is needed any more: the caller never returns.
    unsafe { chitin_halt(then) }
}

/// Where a field of a [`Context`] lies, seen from its handle.
macro_rules! context_offset {
    ($field:ident) => {
        offset_of!(Context, $field) as i32 - context::HANDLE as i32
    };
}

// Sign and zero of one comparison in `entry.s` tell the calls that have a way of their own.
const _: () = assert!(abi::syscall::SYNCHRONOUS == 1 << 63 && abi::syscall::number::null == 0);
// A push at the handle writes the stack pointer.
const _: () = assert!(offset_of!(Context, rsp) + 8 == context::HANDLE);

core::arch::global_asm!(
    include_str!("entry.s"),
    USER_RSP = const offset_of!(EntryState, user_rsp),
    CURRENT = const offset_of!(EntryState, current),
    PRIVATE = const offset_of!(EntryState, private),
    KERNEL_STACK = const offset_of!(EntryState, kernel_stack),
    SMAP = const offset_of!(EntryState, smap),
    SCRATCH = const offset_of!(EntryState, scratch),
    STACK_BASE = const context_offset!(stack_base),
    STACK_BYTES = const context_offset!(stack_bytes),
    SHORT_STACK = const context_offset!(short_stack),
    STACK_ALIAS = const context_offset!(stack_alias),
    WRITTEN = const context_offset!(written),
    RIP = const context_offset!(rip),
    RSP = const context_offset!(rsp),
    RFLAGS = const context_offset!(rflags),
    REGISTERS = const context_offset!(registers),
    GATE_START = const offset_of!(PrivateWords, gate_start),
    GATE_END = const offset_of!(PrivateWords, gate_end),
    GATE_PKRU = const offset_of!(PrivateWords, gate_pkru),
    GATE_PKRU_CHECKED = const offset_of!(PrivateWords, gate_pkru_checked),
    UPCALL_PKRU = const offset_of!(PrivateWords, upcall_pkru),
    ENTRY_STAMP = const offset_of!(EntryState, entry_stamp),
    ENTRY_CAUSE = const offset_of!(EntryState, entry_cause),
    LONGEST_ENTRY = const offset_of!(EntryState, longest_entry),
    KEYS_ON = const context_offset!(keys_on),
    CPU_RECORD = const offset_of!(EntryState, cpu_record),
    SYNCHRONOUS_SIDE = const offset_of!(EntryState, synchronous_side),
    ASYNCHRONOUS_SIDE = const offset_of!(EntryState, asynchronous_side),
    NUMBER = const context_offset!(number),
    CLAIM = const context_offset!(claim),
    CALLEE = const context_offset!(callee),
    CALLEE_SCALE = const callee::SCALE,
    CONTEXT_PRIVATE = const context_offset!(private),
    ADDRESS_SPACE = const context_offset!(address_space),
    AREA_PRIVATE = const context_offset!(area_private),
    CPU_ENVIRONMENT = const offset_of!(abi::exposed::CpuInfo, environment),
    READY = const offset_of!(PrivateWords, ready),
    UNGATED = const offset_of!(PrivateWords, ungated_transfers),
    CALLER = const offset_of!(PrivateWords, caller),
    SYNCHRONOUS_ENTRY = const offset_of!(PrivateWords, synchronous_entry),
    ASYNCHRONOUS_ENTRY = const offset_of!(PrivateWords, asynchronous_entry),
    ASYNCHRONOUS_BIT = const abi::syscall::ASYNCHRONOUS.trailing_zeros(),
    CALLS = const abi::syscall::TABLE.len(),
    PAGE_MAP = const abi::syscall::number::page_map,
    LAST_CONTEXT = const offset_of!(LastMap, context),
    LAST_KEY = const offset_of!(LastMap, key),
    LAST_ROOT = const offset_of!(LastMap, root),
    LAST_TABLES = const offset_of!(LastMap, tables),
    LAST_GENERATION = const offset_of!(LastMap, generation),
    GENERATION_SHIFT = const crate::map_few::GENERATION.trailing_zeros(),
    LAST_KEPT = const offset_of!(LastMap, kept),
    LAST_REFUSED = const offset_of!(LastMap, refused),
    LAST_WRITER = const offset_of!(LastMap, writer),
    LAST_LIST = const offset_of!(LastMap, list),
    TABLES = const crate::map_few::TABLES,
    FEW = const crate::map_few::FEW,
    MANY = const crate::map_few::MANY,
    MAP_ROWS = const abi::limits::MAP_ROWS,
    REGION_BITS = const crate::map_few::REGION_BITS,
    PAGE_STATE = const offset_of!(PageInfo, state),
    PAGE_ACCESS = const offset_of!(PageInfo, access),
    PAGE_BLOCK = const offset_of!(PageInfo, block),
    PAGE_LAST_USE = const offset_of!(PageInfo, last_use),
    EIGHTHS_SHIFT = const abi::page::EIGHTHS_SHIFT,
    ZEROED_FLAG = const abi::page::ZEROED,
    OF_DIRECT_MAP = const !crate::layout::DIRECT_MAP & !(PAGE_SIZE - 1),
    ORDINARY = const abi::page::PageKind::Ordinary as u8,
    DIRTY_FLAG = const abi::page::DIRTY,
    PAGE = const abi::page_table::PAGE,
    PRESENT = const abi::page_table::PRESENT,
    WRITE = const abi::page_table::WRITE,
    USER = const abi::page_table::USER,
    DIRTY = const abi::page_table::DIRTY,
    FIRST_FLAGS = const context::FIRST_FLAGS,
    // The interrupt flag is bit 9 of RFLAGS.
    INTERRUPTS_OFF = const !(1i32 << 9),
    EXCEPTION_ENTRY = const offset_of!(PrivateWords, exception_entry),
    REFLECTION_ENTRY = const offset_of!(PrivateWords, reflection_entry),
    FRAME_BYTES = const size_of::<UpcallFrame>(),
    FRAME_ALIGNMENT = const FRAME_ALIGNMENT,
    FRAME_KIND = const offset_of!(UpcallFrame, kind),
    FRAME_ERROR = const offset_of!(UpcallFrame, error),
    FRAME_DETAIL = const offset_of!(UpcallFrame, detail),
    FRAME_PKRU = const offset_of!(UpcallFrame, pkru),
    FRAME_RIP = const offset_of!(UpcallFrame, rip),
    FRAME_CS = const offset_of!(UpcallFrame, cs),
    FRAME_RFLAGS = const offset_of!(UpcallFrame, rflags),
    FRAME_RSP = const offset_of!(UpcallFrame, rsp),
    FRAME_SS = const offset_of!(UpcallFrame, ss),
    // Single step, direction, nested task, resume and alignment check are clear when an upcall begins.
    KEPT_FLAGS = const !(1u32 << 8 | 1 << 10 | 1 << 14 | 1 << 16 | 1 << 18) as i32,
    USER_CODE = const USER_CODE,
    USER_DATA = const USER_DATA,
    REFLECTION = const kind::REFLECTION,
);
