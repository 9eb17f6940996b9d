//! What each CPU has of its own: its structure, reached by GS base in the kernel, its stacks, its descriptor tables.
//!
//! Each CPU has one stack for every entry from user mode and one for each of NMI, double fault and machine check; an
//! unmapped page lies below each. The top 16 bytes of the latter three hold the address of the structure, for handlers
//! that cannot trust GS. The structures are static, so a reference to one is valid for ever.

use crate::entry::EntryState;
use crate::features::{Features, write_msr};
use crate::kernel_map::{KernelMap, MapFailure};
use crate::layout::{PAGE_SIZE, STACKS};
use crate::segment::{self, Descriptors, InterruptStack, TaskState};
use crate::{entry, interrupt_table};
use abi::feature;
use abi::limits::CPUS;
use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// One CPU. [`EntryState`] comes first: GS base points at it.
#[repr(C, align(64))]
pub struct Cpu {
    /// What `entry.s` needs.
    pub(crate) entry: EntryState,
    /// Identifier of its local APIC.
    pub(crate) apic: AtomicU32,
    /// It has finished its own initialisation.
    pub(crate) started: AtomicBool,
    /// Its time stamp when time was zero.
    pub(crate) start_stamp: AtomicU64,
    /// NMIs it has taken.
    pub(crate) non_maskable_interrupts: AtomicU64,
    /// Writes of code arenas before its last call of what lies there.
    pub(crate) code_writes_seen: AtomicU64,
    descriptors: UnsafeCell<Descriptors>,
    task_state: UnsafeCell<TaskState>,
}

// SAFETY: the two cells are written by `prepare` before the CPU runs, and afterwards only read, by its hardware.
unsafe impl Sync for Cpu {}

static STRUCTURES: [Cpu; CPUS] = [const { Cpu::new() }; CPUS];

/// Bytes of address space for the stacks of one CPU.
const AREA_OF_ONE: u64 = 32 * PAGE_SIZE;
/// Bytes of address space for all stacks.
pub(crate) const STACK_AREA: u64 = CPUS as u64 * AREA_OF_ONE;
/// First page (after the guard page below it) and number of pages of each stack in the area of its CPU.
const KERNEL_STACK: (u64, u64) = (1, 8);
const INTERRUPT_STACKS: [(InterruptStack, (u64, u64)); 3] = [
    (InterruptStack::NonMaskable, (10, 2)),
    (InterruptStack::DoubleFault, (13, 2)),
    (InterruptStack::MachineCheck, (16, 2)),
];

const _: () = assert!(core::mem::offset_of!(Cpu, entry) == 0 && core::mem::offset_of!(EntryState, this) == 0);

const MSR_SYSENTER_CS: u32 = 0x174;
const MSR_EFER: u32 = 0xc000_0080;
const MSR_STAR: u32 = 0xc000_0081;
const MSR_LSTAR: u32 = 0xc000_0082;
const MSR_CSTAR: u32 = 0xc000_0083;
const MSR_FLAG_MASK: u32 = 0xc000_0084;
const MSR_GS_BASE: u32 = 0xc000_0101;
const MSR_KERNEL_GS_BASE: u32 = 0xc000_0102;
/// What RDTSCP gives besides the time: the CPU's number.
const MSR_TSC_AUX: u32 = 0xc000_0103;
const EFER: u64 = 1 | 1 << 8 | 1 << 11;
/// TF, IF, DF, IOPL, NT, RF, AC are clear on entry by SYSCALL.
const FLAGS_CLEARED_BY_SYSCALL: u64 = 1 << 8 | 1 << 9 | 1 << 10 | 3 << 12 | 1 << 14 | 1 << 16 | 1 << 18;

/// Virtual address above a stack of a CPU.
fn stack_top(cpu: usize, (first, pages): (u64, u64)) -> u64 {
    STACKS + cpu as u64 * AREA_OF_ONE + (first + pages) * PAGE_SIZE
}

/// Whether an address lies in a mapped stack of some CPU.
pub(crate) fn in_stack(address: u64) -> bool {
    let page = address.wrapping_sub(STACKS) % AREA_OF_ONE / PAGE_SIZE;
    let holds = |(first, pages): (u64, u64)| (first..first + pages).contains(&page);
    address.wrapping_sub(STACKS) < STACK_AREA
        && (holds(KERNEL_STACK) || INTERRUPT_STACKS.iter().any(|(_, pages)| holds(*pages)))
}

/// The structure of a CPU by its number.
pub(crate) fn get(cpu: usize) -> &'static Cpu {
    &STRUCTURES[cpu]
}

/// This CPU's structure.
#[inline(always)]
pub(crate) fn current() -> &'static Cpu {
    let address: u64;
    // SAFETY: GS base is this CPU's structure whenever the kernel runs (`start_on`, swapgs at each entry), and its
    // first word is its own address. It is the same each time: no code of the kernel ever moves to another CPU, so
    // that one look may serve for several.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) address, options(pure, nomem, nostack, preserves_flags));
        &*(address as *const Cpu)
    }
}

/// This CPU's entry state.
#[inline(always)]
pub fn entry_state() -> &'static EntryState {
    &current().entry
}

impl Cpu {
    const fn new() -> Self {
        Self {
            // SAFETY: it is made of atomic integers, for which zero is a value.
            entry: unsafe { core::mem::MaybeUninit::zeroed().assume_init() },
            apic: AtomicU32::new(0),
            started: AtomicBool::new(false),
            start_stamp: AtomicU64::new(0),
            non_maskable_interrupts: AtomicU64::new(0),
            code_writes_seen: AtomicU64::new(0),
            descriptors: UnsafeCell::new(Descriptors::new()),
            task_state: UnsafeCell::new(TaskState::new()),
        }
    }

    /// Address of its descriptor table.
    pub(crate) fn descriptors_address(&self) -> u64 {
        self.descriptors.get() as u64
    }

    /// Top of the stack for entries from user mode.
    pub(crate) fn kernel_stack(&self) -> u64 {
        self.entry.kernel_stack.load(Ordering::Relaxed)
    }
}

/// Makes CPU `number` ready to be started: maps its stacks, fills its structure and descriptor table.
///
/// # Safety
/// At boot, once for each CPU, before that CPU runs; the map is in force.
pub(crate) unsafe fn prepare(
    number: usize,
    apic: u32,
    features: &Features,
    map: &mut KernelMap,
) -> Result<(), MapFailure> {
    let cpu = get(number);
    map_stack(map, number, KERNEL_STACK)?;
    let kernel_stack = stack_top(number, KERNEL_STACK);
    let mut tops = INTERRUPT_STACKS.map(|(stack, _)| (stack, 0));
    for (top, (_, pages)) in tops.iter_mut().zip(INTERRUPT_STACKS) {
        map_stack(map, number, pages)?;
        top.1 = stack_top(number, pages) - 16;
        // SAFETY: the top of a stack that has just been mapped and that no CPU uses yet.
        unsafe { (top.1 as *mut &'static Cpu).write(cpu) };
    }
    // SAFETY: the CPU does not run yet, so nothing reads its tables.
    unsafe {
        (*cpu.task_state.get()).set_stacks(kernel_stack, tops);
        *cpu.descriptors.get() = segment::descriptors(number, cpu.task_state.get() as u64);
    }
    let entry = &cpu.entry;
    entry.this.store(core::ptr::from_ref(cpu) as u64, Ordering::Relaxed);
    entry.cpu.store(number as u64, Ordering::Relaxed);
    entry.cpu_record.store(&raw const crate::exposed::UNEXPOSED as u64, Ordering::Relaxed);
    entry.kernel_stack.store(kernel_stack, Ordering::Relaxed);
    entry.pku.store(u64::from(features.has(feature::PKU)), Ordering::Relaxed);
    entry.smap.store(u64::from(features.has(feature::SMAP)), Ordering::Relaxed);
    cpu.apic.store(apic, Ordering::Relaxed);
    Ok(())
}

fn map_stack(map: &mut KernelMap, cpu: usize, (first, pages): (u64, u64)) -> Result<(), MapFailure> {
    map.map_stack(stack_top(cpu, (first, pages)) - pages * PAGE_SIZE, pages)
}

/// Turns this CPU into CPU `number`: features, segments, interrupts, GS base, system call registers.
///
/// # Safety
/// On that CPU, once, after [`prepare`] and with the kernel's map in force.
#[inline(never)]
pub(crate) unsafe fn start_on(number: usize, features: &Features) {
    let cpu = get(number);
    // SAFETY: the caller guarantees that this is the CPU's own initialisation; every register exists on every 64-bit
    // CPU (SYSENTER's where CPUID says so), and the values are those of the structure made for this CPU.
    unsafe {
        features.enable();
        segment::load(cpu);
        write_msr(MSR_GS_BASE, core::ptr::from_ref(cpu) as u64);
        write_msr(MSR_KERNEL_GS_BASE, 0);
        interrupt_table::load(&interrupt_table::BOOTING);
        write_msr(MSR_EFER, EFER);
        write_msr(MSR_STAR, segment::KERNEL_CODE << 32 | segment::KERNEL_DATA << 48);
        write_msr(MSR_LSTAR, entry::syscall_entry_address());
        write_msr(MSR_CSTAR, refuse_compatibility_call as *const () as u64);
        write_msr(MSR_FLAG_MASK, FLAGS_CLEARED_BY_SYSCALL);
        if features.has(feature::RDTSCP) {
            write_msr(MSR_TSC_AUX, number as u64);
        }
        if features.sysenter {
            (MSR_SYSENTER_CS..MSR_SYSENTER_CS + 3).for_each(|register| write_msr(register, 0));
        }
    }
}

/// A SYSCALL from 32-bit code: there is no such segment, so no program comes here; one that did is sent back.
#[unsafe(naked)]
extern "C" fn refuse_compatibility_call() {
    core::arch::naked_asm!("mov eax, -1", "sysretq")
}
