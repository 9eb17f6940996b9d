//! Code arena: the pages that compiled code of others lies in (DESIGN.md §4, "Downloaded code").
//!
//! The pages are set aside at boot, before another CPU starts: for filters where the machine has a network, for
//! programs of storage where it has a disk. They have two aliases: one to execute, at [`crate::layout::CODE_ARENA`] or
//! [`crate::layout::STORAGE_ARENA`], and the direct map, where they are read-only from then on.
//!
//! Invariants:
//! - no alias is writable and executable; [`CodeArena::write`] alone writes, with CR0.WP and interrupts off;
//! - handlers of non-maskable interrupts write nothing there;
//! - a CPU executes a serializing instruction between the last write of any CPU and its next call.

use crate::kernel_map::{KernelMap, MapFailure};
use crate::layout::{PAGE_SIZE, direct};
use crate::packet::{PREFIX, Piece};
use crate::per_cpu;
use core::arch::asm;
use core::arch::x86_64::__cpuid;
use core::sync::atomic::{AtomicU64, Ordering};

/// Writes so far. The structure of each CPU says how many of them it has seen.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// The compiled classifier: what is before and in the packet, its length, its tables, the arena.
type Classify = extern "sysv64" fn(*const u8, usize, *const u32, *const u8) -> u32;

/// Calls that a run may make of [`note_call`].
pub const CALLS: usize = 64;

/// The beginning of the record of a run: what compiled programs and their helpers know of it.
#[derive(Debug)]
#[repr(C)]
pub struct RecordHead {
    budget: u64,
    /// Other than 0: why the program stopped.
    pub stop: u32,
    stop_instruction: u32,
    stack: [u64; 2],
    /// What the helpers need.
    pub helper_data: u64,
}

/// Why [`note_call`] stops a program: a helper did.
const STOPPED_BY_HELPER: u32 = 5;

/// The first three arguments of each call of [`note_call`] in one run.
#[derive(Debug)]
#[repr(C)]
pub struct CallLog {
    count: usize,
    calls: [[u64; 3]; CALLS],
}

impl CallLog {
    /// No calls.
    pub const EMPTY: Self = Self { count: 0, calls: [[0; 3]; CALLS] };

    /// The calls.
    pub fn calls(&self) -> &[[u64; 3]] {
        &self.calls[..self.count.min(CALLS)]
    }
}

/// A helper of compiled programs: notes its arguments in the log. A full log stops the program.
extern "sysv64" fn note_call(first: u64, second: u64, third: u64, _: u64, _: u64, record: *mut RecordHead) -> u64 {
    // SAFETY: only code that `CodeArena::run` called calls this, with the record that it got. Its log outlives the run,
    // and no reference to either is in use meanwhile.
    unsafe {
        let log = (*record).helper_data as *mut CallLog;
        let count = (*log).count;
        if count < CALLS {
            (*log).calls[count] = [first, second, third];
            (*log).count = count + 1;
        } else {
            (*record).stop = STOPPED_BY_HELPER;
        }
    }
    0
}

/// The address of [`note_call`], for the compiler.
pub fn note_call_address() -> u64 {
    note_call as *const () as u64
}

/// What a boot says that has no memory for filters.
pub const NO_MEMORY: &str =
    "too little memory for the filters: give the machine more, or ask for fewer (packets= on the command line)";

/// An arena.
#[derive(Debug)]
pub struct CodeArena {
    base: u64,
    physical: u64,
    bytes: usize,
}

impl CodeArena {
    /// Sets so many pages aside. Called on the only CPU that runs.
    pub(crate) fn reserve(map: &mut KernelMap<'_, '_>, base: u64, pages: u64) -> Result<Self, MapFailure> {
        let physical = map.map_code(base, pages)?;
        flush_all();
        Ok(Self { base, physical, bytes: (pages * PAGE_SIZE) as usize })
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the code at an offset runs.
    pub fn address(&self, offset: usize) -> u64 {
        self.base + offset as u64
    }

    /// Writes code, which a trusted compiler made.
    pub fn write(&mut self, offset: usize, code: &[u8]) {
        assert!(offset.checked_add(code.len()).is_some_and(|end| end <= self.bytes), "outside of the arena");
        let to = direct(self.physical) + offset as u64;
        // SAFETY: the range lies in pages that are the arena's alone, for ever, and that no Rust reference covers. No
        // other CPU executes them meanwhile: calls and writes take the arena, which the kernel's lock guards. The
        // protection of read-only pages is off for these instructions only, on this CPU only.
        unsafe {
            asm!(
                "pushfq", "cli",
                "mov {kept}, cr0", "mov {open}, {kept}", "btr {open}, 16", "mov cr0, {open}",
                "rep movsq", "mov ecx, {rest:e}", "rep movsb",
                "mov cr0, {kept}",
                "popfq",
                kept = out(reg) _, open = out(reg) _, rest = in(reg) code.len() % 8,
                inout("rcx") code.len() / 8 => _, inout("rdi") to => _, inout("rsi") code.as_ptr() => _,
            );
        }
        WRITES.fetch_add(1, Ordering::Release);
    }

    /// Asks the compiled classifier at `entry` about a frame whose prefix was written.
    #[inline(always)]
    pub fn classify(&self, entry: usize, frame: &Piece, words: &[u32]) -> u32 {
        self.prepare_call(entry);
        let base = self.base as *const u8;
        // SAFETY: the classifier's compiler put code of this type there. It reads the packet within its length and its
        // own tables, and writes nothing but its stack.
        let classify: Classify = unsafe { core::mem::transmute(base.add(entry)) };
        // A piece and the bytes before it lie in one buffer: neither sum overflows.
        let packet = frame.address.wrapping_sub(PREFIX as u64) as *const u8;
        classify(packet, frame.length.wrapping_add(PREFIX), words.as_ptr(), base)
    }
}

impl CodeArena {
    /// Runs the compiled program at `entry` with a record of its compiler's making. The log has its helper calls.
    pub fn run<R>(&self, entry: usize, record: &mut R, log: &mut CallLog) -> u64 {
        const { assert!(size_of::<R>() >= size_of::<RecordHead>() && align_of::<R>() >= align_of::<RecordHead>()) };
        self.prepare_call(entry);
        log.count = 0;
        let record: *mut R = record;
        // SAFETY: the record begins as a `RecordHead`. The compiler of downloaded code put a verified program of this
        // type there: it writes the record, its stack and the regions that the record names, and nothing else.
        unsafe {
            (*record.cast::<RecordHead>()).helper_data = core::ptr::from_mut(log) as u64;
            let program: extern "sysv64" fn(*mut R) -> u64 = core::mem::transmute((self.base as *const u8).add(entry));
            program(record)
        }
    }

    /// Serializes if code was written since this CPU's last call.
    #[inline(always)]
    fn prepare_call(&self, entry: usize) {
        assert!(entry < self.bytes, "outside of the arena");
        let writes = WRITES.load(Ordering::Acquire);
        let seen = &per_cpu::current().code_writes_seen;
        if seen.load(Ordering::Relaxed) != writes {
            // Any CPUID serializes.
            let _ = __cpuid(0);
            seen.store(writes, Ordering::Relaxed);
        }
    }
}

/// Drops all translations of this CPU, global ones too.
fn flush_all() {
    // SAFETY: only translations are dropped.
    unsafe {
        asm!(
            "mov {kept}, cr4", "mov {open}, {kept}", "btr {open}, 7", "mov cr4, {open}", "mov cr4, {kept}",
            kept = out(reg) _, open = out(reg) _, options(nostack),
        );
    }
}
