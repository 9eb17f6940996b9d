//! Code arena: the pages that compiled code of others lies in (DESIGN.md §4, "Downloaded code").
//!
//! The pages are set aside at boot, before another CPU starts, where the machine has a network. They have two aliases:
//! one to execute at [`CODE_ARENA`], and the direct map, where they are read-only from then on.
//!
//! Invariants:
//! - no alias is writable and executable; [`CodeArena::write`] alone writes, with CR0.WP and interrupts off;
//! - handlers of non-maskable interrupts write nothing there;
//! - a CPU executes a serializing instruction between the last write of any CPU and its next call.

use crate::entry;
use crate::kernel_map::{KernelMap, MapFailure};
use crate::layout::{CODE_ARENA, PAGE_SIZE, direct};
use crate::packet::{PREFIX, Piece};
use abi::limits::CPUS;
use core::arch::asm;
use core::arch::x86_64::__cpuid;
use core::sync::atomic::{AtomicU64, Ordering};

/// Writes so far, and how many of them each CPU has seen.
static WRITES: AtomicU64 = AtomicU64::new(0);
static SEEN: [AtomicU64; CPUS] = [const { AtomicU64::new(0) }; CPUS];

/// The compiled classifier: what is before and in the packet, its length, its tables, the arena.
type Classify = extern "sysv64" fn(*const u8, usize, *const u32, *const u8) -> u32;

/// The arena. There is one.
#[derive(Debug)]
pub struct CodeArena {
    physical: u64,
    bytes: usize,
}

impl CodeArena {
    /// Sets so many pages aside. Called on the only CPU that runs.
    pub(crate) fn reserve(map: &mut KernelMap<'_, '_>, pages: u64) -> Result<Self, MapFailure> {
        let physical = map.map_code(CODE_ARENA, pages)?;
        flush_all();
        Ok(Self { physical, bytes: (pages * PAGE_SIZE) as usize })
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
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
    #[inline]
    pub fn classify(&self, entry: usize, frame: &Piece, words: &[u32]) -> u32 {
        assert!(entry < self.bytes, "outside of the arena");
        let writes = WRITES.load(Ordering::Acquire);
        let seen = &SEEN[entry::cpu()];
        if seen.load(Ordering::Relaxed) != writes {
            // Any CPUID serializes.
            let _ = __cpuid(0);
            seen.store(writes, Ordering::Relaxed);
        }
        let base = CODE_ARENA as *const u8;
        // SAFETY: the classifier's compiler put code of this type there. It reads the packet within its length and its
        // own tables, and writes nothing but its stack.
        let classify: Classify = unsafe { core::mem::transmute(base.add(entry)) };
        let packet = (frame.address - PREFIX as u64) as *const u8;
        classify(packet, frame.length + PREFIX, words.as_ptr(), base)
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
