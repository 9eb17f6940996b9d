//! Dropping translations from the TLBs of all CPUs before a page is used again (DESIGN.md §2, "TLB").
//!
//! A CPU that may hold translations of a root says so before it loads it: by the context that it runs, or in its own
//! structure. A CPU that has narrowed a mapping asks every CPU that shows the root, and waits for the answers.
//! Without PCID a CPU that loads another root has dropped the old one's translations.
//!
//! Requests are counted a CPU: one has been answered when the count of answers has reached it. A CPU answers when the
//! interrupt reaches it. A CPU that waits for a lock answers before it continues, and is not waited for: the host of
//! a virtual machine may run the two in turns only.

use crate::{apic, cpu_control, entry, exposed, per_cpu};
use abi::PageNumber;
use abi::limits::CPUS;
use core::sync::atomic::{AtomicU64, Ordering};

/// Interrupt vector of a request.
pub const VECTOR: u8 = 0xf1;

static ASKED: [AtomicU64; CPUS] = [const { AtomicU64::new(0) }; CPUS];
static ANSWERED: [AtomicU64; CPUS] = [const { AtomicU64::new(0) }; CPUS];
/// One bit for each CPU that waits for a lock: it uses no translation of a program.
static STANDING_BY: AtomicU64 = AtomicU64::new(0);

/// What to drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The translation of one address.
    Address(u64),
    /// All of the address space.
    All,
}

/// Drops translations under `root` on every CPU that has it loaded; returns when all have. Called with the kernel's
/// lock held, so that there is one asker at a time.
#[inline]
pub fn drop_everywhere(root: PageNumber, extent: Extent) {
    if cpu_control::loaded_root() == root {
        match extent {
            Extent::Address(address) => cpu_control::drop_tlb_entry(address),
            Extent::All => cpu_control::flush_tlb(),
        }
    }
    if exposed::cpu_count() > 1 {
        drop_on_others(root);
    }
}

#[inline(never)]
fn drop_on_others(root: PageNumber) {
    // Order the caller's stores to the tables before the loads of the records.
    core::sync::atomic::fence(Ordering::SeqCst);
    let this = entry::cpu();
    let shows = |cpu| cpu != this && entry::loaded_on(&per_cpu::get(cpu).entry) == root.address();
    // Mostly none does.
    if (0..exposed::cpu_count()).any(shows) {
        ask(shows);
    }
}

/// Makes sure that every other CPU has left whatever it did in the kernel when this was called, and has dropped all
/// that it held of programs. One that shows no program's address space has: it idles, or waits for the lock. The host
/// of a virtual machine may take long to run it.
pub fn quiesce() {
    core::sync::atomic::fence(Ordering::SeqCst);
    ask(|cpu| !entry::shows_no_program(&per_cpu::get(cpu).entry));
}

/// Asks every other CPU that is concerned, and waits for the answers. A CPU that is concerned later has not seen what
/// is dropped.
#[cold]
fn ask(concerned: impl Fn(usize) -> bool) {
    let this = entry::cpu();
    let mut waiting = [None; CPUS];
    for cpu in (0..exposed::cpu_count()).filter(|cpu| *cpu != this && concerned(*cpu)) {
        waiting[cpu] = Some(ASKED[cpu].fetch_add(1, Ordering::SeqCst) + 1);
        if !stands_by(cpu) {
            exposed::add(&exposed::cpus()[cpu].requests, 1);
            apic::send(cpu, VECTOR);
        }
    }
    for (cpu, request) in waiting.iter().enumerate() {
        let Some(request) = request else { continue };
        while ANSWERED[cpu].load(Ordering::Acquire) < *request && !stands_by(cpu) {
            core::hint::spin_loop();
        }
    }
}

fn stands_by(cpu: usize) -> bool {
    STANDING_BY.load(Ordering::SeqCst) & 1 << cpu != 0
}

/// This CPU waits from now on, and uses no translation of a program.
pub fn stand_by() {
    STANDING_BY.fetch_or(1 << entry::cpu(), Ordering::SeqCst);
}

/// It continues, and answers first: a CPU that asked meanwhile has not waited.
pub fn go_on() {
    STANDING_BY.fetch_and(!(1 << entry::cpu()), Ordering::SeqCst);
    answer();
}

/// Answers every request made of this CPU so far.
pub fn answer() {
    let this = entry::cpu();
    let asked = ASKED[this].load(Ordering::SeqCst);
    if ANSWERED[this].load(Ordering::Relaxed) != asked {
        cpu_control::flush_tlb();
        ANSWERED[this].store(asked, Ordering::Release);
    }
}

/// Drops everything on every CPU: when a table that several roots may reach was narrowed.
pub fn drop_all() {
    cpu_control::flush_tlb();
    quiesce();
}
