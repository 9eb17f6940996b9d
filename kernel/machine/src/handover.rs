//! The last step of the boot: what was found becomes the exposed structures, and all memory becomes typed pages.
//!
//! After it the kernel allocates nothing.

use crate::boot::Boot;
use crate::boot_memory::BootMemory;
use crate::kernel_map::{KernelMap, MapFailure};
use crate::layout::PAGE_SIZE;
use crate::memory::{Memory, PageState, set_state};
use crate::memory_map::{MemoryRange, Use};
use crate::{clock, exposed, per_cpu, stop};
use abi::PageNumber;
use abi::feature;
use abi::page::PageKind;
use core::sync::atomic::{AtomicU64, Ordering};

/// Makes the exposed structures for so many CPUs and hands memory over. Called once.
pub fn hand_over(boot: &mut Boot, cpus: usize) -> Memory {
    let pages = boot.start.memory.ranges().last().map_or(0, |range| range.end / PAGE_SIZE);
    if build(boot, pages, cpus).is_err() {
        stop::boot_failure("too little memory for the tables of the kernel: give the machine at least 64 MiB");
    }
    let mut previous = PageNumber::NONE.0;
    for range in boot.start.memory.ranges() {
        record_range(range, &mut previous);
    }
    record_kernel(boot, pages, cpus);
    // SAFETY: the only call, at boot; every page has its kind now.
    unsafe { Memory::new() }
}

fn build(boot: &mut Boot, pages: u64, cpus: usize) -> Result<(), MapFailure> {
    let huge_pages = boot.features.has(feature::PAGE_1G);
    let mut memory = BootMemory::new(&mut boot.start.memory);
    let windows = exposed::make(&mut memory, pages, cpus).ok_or(MapFailure::NoMemory)?;
    let mut map = KernelMap::resume(&mut memory, huge_pages);
    for window in &windows {
        map.map_exposed(window)?;
    }
    Ok(())
}

/// Fills the records of a range; free pages are chained in ascending order, after `previous`.
fn record_range(range: &MemoryRange, previous: &mut u64) {
    let kernel = exposed::kernel();
    let kind = match range.used {
        Use::Free => PageKind::Free,
        Use::Kernel => PageKind::Kernel,
        Use::Archive => PageKind::Archive,
    };
    let numbers = range.start / PAGE_SIZE..range.end / PAGE_SIZE;
    for number in numbers.clone() {
        let info = &exposed::pages()[number as usize];
        set_state(info, PageState::of(kind));
        info.access.store(PageNumber::NONE.0, Ordering::Relaxed);
        let next = if kind == PageKind::Free && number + 1 < numbers.end { number + 1 } else { PageNumber::NONE.0 };
        let before = if kind == PageKind::Free { *previous } else { PageNumber::NONE.0 };
        info.neighbours.store(before << 32 | next, Ordering::Relaxed);
        if kind == PageKind::Free {
            *previous = number;
        }
    }
    let count = match range.used {
        Use::Free => {
            chain(range, numbers.start);
            &kernel.free_pages
        }
        Use::Kernel => &kernel.kernel_pages,
        Use::Archive => &kernel.owned_pages,
    };
    exposed::add(count, range.pages());
}

/// Links the first page of a free range to the last of the one before, or makes it the first of all.
fn chain(range: &MemoryRange, first: u64) {
    let before = exposed::pages()[first as usize].neighbours.load(Ordering::Relaxed) >> 32;
    match before {
        _ if range.start == range.end => {}
        before if before == PageNumber::NONE.0 => exposed::kernel().first_free_page.store(first, Ordering::Relaxed),
        before => {
            let word = &exposed::pages()[before as usize].neighbours;
            word.store(word.load(Ordering::Relaxed) & !PageNumber::NONE.0 | first, Ordering::Relaxed);
        }
    }
}

/// Fills the kernel's own record and those of the CPUs.
fn record_kernel(boot: &Boot, pages: u64, cpus: usize) {
    let kernel = exposed::kernel();
    let scale = clock::scale();
    let features = &boot.features;
    let words: [(&AtomicU64, u64); 15] = [
        (&kernel.version, abi::VERSION),
        (&kernel.features, features.bits),
        (&kernel.cpus, cpus as u64),
        (&kernel.pages, pages),
        (&kernel.environments, exposed::environments().len() as u64),
        (&kernel.quantum, abi::limits::QUANTUM),
        (&kernel.save_window, abi::limits::SAVE_WINDOW),
        (&kernel.critical_section_grace, abi::limits::CRITICAL_SECTION_GRACE),
        (&kernel.tsc_start, clock::start_stamp()),
        (&kernel.tsc_multiplier, scale.multiplier),
        (&kernel.tsc_shift, u64::from(scale.shift)),
        (&kernel.vector_state_bytes, features.vector_state_bytes),
        (&kernel.vector_state_mask, features.vector_state_mask),
        (&kernel.archive_bytes, boot.archive().end - boot.archive().start),
        (&kernel.wall_clock_at_boot, boot.wall_clock),
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
