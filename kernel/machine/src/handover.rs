//! The last step of the boot: what was found becomes the exposed structures, and all memory becomes typed pages.
//!
//! After it the kernel allocates nothing.

use crate::boot::Boot;
use crate::boot_memory::BootMemory;
use crate::kernel_map::MapFailure;
use crate::layout::PAGE_SIZE;
use crate::memory::{Memory, first_state};
use crate::memory_map::{MemoryRange, Use};
use crate::{clock, exposed, per_cpu, stop};
use abi::PageNumber;
use abi::feature;
use abi::limits::FILTERS_PER_CODE_PAGE;
use abi::page::PageKind;
use core::sync::atomic::{AtomicU64, Ordering};

const NONE: u64 = PageNumber::NONE.0;

/// Makes the exposed structures for so many CPUs and hands memory over. Called once.
pub fn hand_over(boot: &mut Boot, cpus: usize) -> Memory {
    let pages = boot.start.memory.ranges().last().map_or(0, |range| range.end / PAGE_SIZE);
    if build(boot, pages, cpus).is_err() {
        stop::boot_failure("too little memory for the tables of the kernel: give the machine at least 64 MiB");
    }
    let mut last = NONE;
    for range in boot.start.memory.ranges() {
        record_range(range, &mut last);
    }
    record_kernel(boot, pages, cpus);
    // SAFETY: the only call, at boot; every page has its kind now.
    unsafe { Memory::new() }
}

fn build(boot: &mut Boot, pages: u64, cpus: usize) -> Result<(), MapFailure> {
    let huge_pages = boot.features.has(feature::PAGE_1G);
    let filters = (boot.code_pages * FILTERS_PER_CODE_PAGE) as usize;
    exposed::make(&mut BootMemory::new(&mut boot.start.memory), pages, cpus, filters, huge_pages)
}

/// Fills the records of a range. `last` is the last page of the free list so far, which free pages follow in
/// ascending order.
fn record_range(range: &MemoryRange, last: &mut u64) {
    let kernel = exposed::kernel();
    let (kind, count) = match range.used {
        Use::Free => (PageKind::Free, &kernel.free_pages),
        Use::Kernel => (PageKind::Kernel, &kernel.kernel_pages),
        Use::Archive => (PageKind::Archive, &kernel.owned_pages),
    };
    let (first, end) = (range.start / PAGE_SIZE, range.end / PAGE_SIZE);
    let records = &exposed::pages()[first as usize..end as usize];
    let (mut links, step) = match kind {
        PageKind::Free => (neighbours(first.wrapping_sub(1), first + 1), neighbours(1, 1)),
        _ => (neighbours(NONE, NONE), 0),
    };
    // A few instructions for each page of the machine: most of what the boot does.
    for info in records {
        info.state.store(first_state(kind), Ordering::Relaxed);
        info.access.store(NONE, Ordering::Relaxed);
        info.neighbours.store(links, Ordering::Relaxed);
        links = links.wrapping_add(step);
    }
    if kind == PageKind::Free && first < end {
        chain(first, end - 1, last);
    }
    exposed::add(count, range.pages());
}

/// The word of a page's neighbours in its list.
fn neighbours(previous: u64, next: u64) -> u64 {
    previous << 32 | next
}

/// Puts free pages that name each other behind the last of the free list, and ends the list there.
fn chain(first: u64, end: u64, last: &mut u64) {
    let links = |page: u64| &exposed::pages()[page as usize].neighbours;
    let next = if first == end { NONE } else { first + 1 };
    links(first).store(neighbours(*last, next), Ordering::Relaxed);
    if first != end {
        links(end).store(neighbours(end - 1, NONE), Ordering::Relaxed);
    }
    match *last {
        NONE => exposed::kernel().first_free_page.store(first, Ordering::Relaxed),
        last => links(last).store(links(last).load(Ordering::Relaxed) & !NONE | first, Ordering::Relaxed),
    }
    *last = end;
}

/// Fills the kernel's own record and those of the CPUs.
fn record_kernel(boot: &Boot, pages: u64, cpus: usize) {
    let kernel = exposed::kernel();
    let scale = clock::scale();
    let features = &boot.features;
    let words: [(&AtomicU64, u64); 21] = [
        (&kernel.version, abi::VERSION),
        (&kernel.features, features.bits),
        (&kernel.cpus, cpus as u64),
        (&kernel.pages, pages),
        (&kernel.environments, exposed::environments().len() as u64),
        (&kernel.quantum, abi::limits::QUANTUM),
        (&kernel.save_window, abi::limits::SAVE_WINDOW),
        (&kernel.excess_limit, abi::limits::EXCESS_LIMIT),
        (&kernel.emergency_grace, abi::limits::EMERGENCY_GRACE),
        (&kernel.shortage_pages, abi::limits::SHORTAGE_PAGES),
        (&kernel.shortage_deadline, abi::limits::SHORTAGE_DEADLINE),
        (&kernel.critical_section_grace, abi::limits::CRITICAL_SECTION_GRACE),
        (&kernel.tsc_start, clock::start_stamp()),
        (&kernel.tsc_multiplier, scale.multiplier),
        (&kernel.tsc_shift, u64::from(scale.shift)),
        (&kernel.vector_state_bytes, features.vector_state_bytes),
        (&kernel.vector_state_mask, features.vector_state_mask),
        (&kernel.archive_bytes, boot.archive().end - boot.archive().start),
        (&kernel.wall_clock_at_boot, boot.wall_clock),
        (&kernel.filters, exposed::filters().len() as u64),
        (&kernel.code_arena_pages, boot.code_pages),
    ];
    words.iter().for_each(|(word, value)| word.store(*value, Ordering::Release));
    for (cpu, info) in exposed::cpus().iter().enumerate() {
        info.apic.store(u64::from(per_cpu::get(cpu).apic.load(Ordering::Relaxed)), Ordering::Relaxed);
        let entry = &per_cpu::get(cpu).entry;
        entry.cpu_record.store(core::ptr::from_ref(info) as u64, Ordering::Relaxed);
        entry.address_space.store(crate::kernel_map::root_address(), Ordering::Relaxed);
        entry.fs_gs_base.store(u64::from(features.has(feature::FSGSBASE)), Ordering::Relaxed);
    }
}
