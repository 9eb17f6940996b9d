//! The structures that the kernel exposes: made once at boot, mapped read-only for all, written through the kernel's
//! own alias (DESIGN.md §1, test 5; §2, "Exposed words").

use crate::boot_memory::BootMemory;
use crate::kernel_map::{self, KernelMap, MapFailure};
use crate::layout::{self, PAGE_SIZE, direct};
use abi::EnvironmentId;
use abi::device::DeviceInfo;
use abi::environment::EnvironmentInfo;
use abi::exposed::{CpuInfo, KernelInfo};
use abi::interface::InterfaceInfo;
use abi::limits::{DEVICES, ENVIRONMENTS, ENVIRONMENTS_LEAST, INTERFACES, PAGES_PER_ENVIRONMENT, SLICES_PER_CPU};
use abi::memory_map::{
    EXPOSED, EXPOSED_CPUS, EXPOSED_DEVICES, EXPOSED_ENVIRONMENTS, EXPOSED_FILTERS, EXPOSED_INTERFACES, EXPOSED_KERNEL,
    EXPOSED_PAGES, EXPOSED_SLICES,
};
use abi::packet_filter::FilterInfo;
use abi::page::PageInfo;
use abi::time_slice::SliceInfo;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// One array: where it lies in memory and how many entries it has.
#[derive(Debug)]
struct Array<T> {
    first: AtomicPtr<T>,
    length: AtomicUsize,
}

impl<T> Array<T> {
    const fn new() -> Self {
        // Before it is made it is empty, at an address that suits an empty slice.
        Self { first: AtomicPtr::new(core::ptr::dangling_mut()), length: AtomicUsize::new(0) }
    }

    #[inline]
    fn get(&self) -> &'static [T] {
        let length = self.length.load(Ordering::Relaxed);
        let first = self.first.load(Ordering::Relaxed);
        // SAFETY: both words are set once at boot (`make`), the address first, to zeroed memory of this length that the
        // kernel keeps for ever; every T is made of atomics, for which zero is a value. The address is never null.
        unsafe {
            core::hint::assert_unchecked(!first.is_null());
            core::slice::from_raw_parts(first, length)
        }
    }
}

static KERNEL: Array<KernelInfo> = Array::new();
/// The kernel's record once more, for those who need no array; before it is made, one that says nothing.
static KERNEL_RECORD: AtomicPtr<KernelInfo> = AtomicPtr::new((&raw const NOTHING_KNOWN).cast_mut());
// SAFETY: a KernelInfo is made of atomics, for which zero is a value.
static NOTHING_KNOWN: KernelInfo = unsafe { core::mem::zeroed() };
static DEVICE_RECORDS: Array<DeviceInfo> = Array::new();
static CPU_RECORDS: Array<CpuInfo> = Array::new();
static INTERFACE_RECORDS: Array<InterfaceInfo> = Array::new();
static FILTER_RECORDS: Array<FilterInfo> = Array::new();
static SLICES: Array<SliceInfo> = Array::new();
static ENVIRONMENT_RECORDS: Array<EnvironmentInfo> = Array::new();
static PAGE_RECORDS: Array<PageInfo> = Array::new();

/// The kernel's record.
#[inline(always)]
pub fn kernel() -> &'static KernelInfo {
    // SAFETY: it is set by `make` alone, to memory that the kernel keeps for ever, and begins with a static.
    unsafe { &*KERNEL_RECORD.load(Ordering::Relaxed) }
}

/// The kernel's record, once it is made.
pub(crate) fn kernel_if_made() -> Option<&'static KernelInfo> {
    KERNEL.get().first()
}

/// The records of the devices.
#[inline]
pub fn devices() -> &'static [DeviceInfo] {
    DEVICE_RECORDS.get()
}

/// The records of interfaces; none where the machine has no network.
#[inline]
pub fn interfaces() -> &'static [InterfaceInfo] {
    INTERFACE_RECORDS.get()
}

/// The records of filters; none where the machine has no network.
#[inline]
pub fn filters() -> &'static [FilterInfo] {
    FILTER_RECORDS.get()
}

/// The records of the CPUs that run.
#[inline]
pub fn cpus() -> &'static [CpuInfo] {
    CPU_RECORDS.get()
}

/// The record of this CPU.
#[inline(always)]
pub fn own_cpu() -> &'static CpuInfo {
    // SAFETY: stored when the CPU's structure was made, and at boot, from references that live for ever.
    unsafe { &*(crate::per_cpu::entry_state().cpu_record.load(Ordering::Relaxed) as *const CpuInfo) }
}

/// Exposes which environment runs on this CPU.
#[inline(always)]
pub fn show_runner(number: EnvironmentId) {
    own_cpu().environment.store(number.0 & u64::from(u32::MAX), Ordering::Release);
}

/// The record of each CPU before it is exposed: it is never read.
// SAFETY: a CpuInfo is made of atomics, for which zero is a value.
pub(crate) static UNEXPOSED: CpuInfo = unsafe { core::mem::zeroed() };

/// How many CPUs run.
#[inline]
pub fn cpu_count() -> usize {
    CPU_RECORDS.length.load(Ordering::Relaxed)
}

/// The slice vector of a CPU.
pub fn slices(cpu: usize) -> &'static [SliceInfo] {
    &SLICES.get()[cpu * SLICES_PER_CPU..][..SLICES_PER_CPU]
}

/// The environment table.
#[inline]
pub fn environments() -> &'static [EnvironmentInfo] {
    ENVIRONMENT_RECORDS.get()
}

/// The record of every physical page.
#[inline]
pub fn pages() -> &'static [PageInfo] {
    PAGE_RECORDS.get()
}

/// A range of physical memory to map for all, read-only and not executable.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// First virtual address.
    pub address: u64,
    /// First physical address.
    pub physical: u64,
    /// Pages.
    pub pages: u64,
}

impl Window {
    /// The pages of an array in the direct map. None: it does not fill whole pages.
    pub(crate) fn of<T>(address: u64, array: &[T]) -> Option<Self> {
        let (first, bytes) = (array.as_ptr() as u64, size_of_val(array) as u64);
        let physical = first.checked_sub(layout::DIRECT_MAP)?;
        let whole = bytes > 0 && (physical | bytes).is_multiple_of(PAGE_SIZE);
        whole.then_some(Self { address, physical, pages: bytes / PAGE_SIZE })
    }
}

/// How many slots the environment table gets for so many pages of memory.
pub fn environment_slots(pages: u64) -> u64 {
    (pages / PAGES_PER_ENVIRONMENT).next_power_of_two().clamp(ENVIRONMENTS_LEAST, ENVIRONMENTS)
}

/// The physical address of an aligned word that all may read in the kernel's half, if one lies at this address.
#[inline]
pub fn physical(address: u64) -> Option<u64> {
    if address < EXPOSED || !address.is_multiple_of(8) { None } else { kernel_map::exposed(address) }
}

/// Makes the structures for so many page numbers, CPUs and filters, and shows them to users in the kernel's half of
/// every address space.
pub(crate) fn make(
    memory: &mut BootMemory,
    pages: u64,
    cpus: usize,
    filters: usize,
    huge_pages: bool,
) -> Result<(), MapFailure> {
    for window in make_arrays(memory, pages, cpus).ok_or(MapFailure::NoMemory)? {
        KernelMap::resume(memory, huge_pages).map_exposed(&window)?;
    }
    if filters > 0 {
        for window in make_network(memory, filters).ok_or(MapFailure::NoMemory)? {
            KernelMap::resume(memory, huge_pages).map_exposed(&window)?;
        }
    }
    let records = (pages * size_of::<PageInfo>() as u64).div_ceil(PAGE_SIZE);
    KernelMap::resume(memory, huge_pages).map_page_records(EXPOSED_PAGES, records)?;
    PAGE_RECORDS.first.store(layout::PAGE_RECORDS as *mut PageInfo, Ordering::Relaxed);
    PAGE_RECORDS.length.store(pages as usize, Ordering::Relaxed);
    crate::map_few::set_records(PAGE_RECORDS.get(), &KERNEL.get()[0].binding_events);
    KERNEL_RECORD.store(core::ptr::from_ref(&KERNEL.get()[0]).cast_mut(), Ordering::Relaxed);
    Ok(())
}

/// All but the records of pages.
fn make_arrays(memory: &mut BootMemory, pages: u64, cpus: usize) -> Option<[Window; 5]> {
    Some([
        make_array(memory, &KERNEL, EXPOSED_KERNEL, 1)?,
        make_array(memory, &DEVICE_RECORDS, EXPOSED_DEVICES, DEVICES)?,
        make_array(memory, &CPU_RECORDS, EXPOSED_CPUS, cpus)?,
        make_array(memory, &SLICES, EXPOSED_SLICES, cpus * SLICES_PER_CPU)?,
        make_array(memory, &ENVIRONMENT_RECORDS, EXPOSED_ENVIRONMENTS, environment_slots(pages) as usize)?,
    ])
}

/// The arrays of a machine with a network.
fn make_network(memory: &mut BootMemory, filters: usize) -> Option<[Window; 2]> {
    Some([
        make_array(memory, &INTERFACE_RECORDS, EXPOSED_INTERFACES, INTERFACES)?,
        make_array(memory, &FILTER_RECORDS, EXPOSED_FILTERS, filters)?,
    ])
}

fn make_array<T>(memory: &mut BootMemory, array: &Array<T>, address: u64, length: usize) -> Option<Window> {
    let pages = ((length * size_of::<T>()) as u64).div_ceil(PAGE_SIZE);
    let physical = memory.allocate_zeroed(pages)?;
    array.first.store(direct(physical) as *mut T, Ordering::Relaxed);
    array.length.store(length, Ordering::Relaxed);
    Some(Window { address, physical, pages })
}

/// Adds to an exposed counter that only the holder of the kernel's lock changes, or only the own CPU.
#[inline(always)]
pub fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Release);
}

/// Takes from an exposed counter that only the holder of the kernel's lock changes. A count that would fall below
/// zero becomes zero, and the kernel's record counts it.
pub fn subtract(counter: &AtomicU64, amount: u64) {
    let value = counter.load(Ordering::Relaxed).checked_sub(amount).unwrap_or_else(note_miscount);
    counter.store(value, Ordering::Release);
}

#[cold]
fn note_miscount() -> u64 {
    add(&kernel().miscounts, 1);
    0
}
