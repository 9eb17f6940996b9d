//! From the loader to the kernel proper, on the bootstrap CPU: the boot order, top to bottom.
//!
//! `boot.s` comes here with a temporary map of the first 4 GiB. What the loader said is read and checked; the kernel's
//! half of the address space is built and taken into use; the CPU gets its own stack, segments and interrupts. Then
//! `kernel_main` of the linked image is called with a [`Boot`]: all that was found and has no owner yet. Whatever is
//! missing or corrupt ends in one clear line and the boot-failure code (FAULTS row 93).

use crate::acpi::{self, Platform};
use crate::boot_memory::BootMemory;
use crate::code_arena::{CodeArena, NO_MEMORY};
use crate::device_discovery::Devices;
use crate::exposed::Window;
use crate::features::{self, Features};
use crate::kernel_map::{self, KernelMap, MapFailure};
use crate::layout::{CODE_ARENA, PAGE_SIZE, STORAGE_ARENA};
use crate::memory_map::{MemoryRange, Use};
use crate::reference_clock::time_stamp;
use crate::start_info::{BootMap, StartInfo};
use crate::virtio::Kind;
use crate::{apic, clock, interrupt_table, io_apic, per_cpu, processor_start, serial, stop};
use abi::feature;
use abi::limits::{CODE_PAGES, CODE_PAGES_LEAST, FILTERS_PER_CODE_PAGE, PAGES_PER_CODE_PAGE};
use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

/// What the kernel proper is started with.
pub struct Boot {
    /// What the loader told; its memory map says which page is whose.
    pub start: &'static mut StartInfo,
    /// What the firmware's tables told.
    pub platform: &'static Platform,
    /// What the CPUs have; drivers add what they find.
    pub features: Features,
    /// Virtio devices that no driver has taken yet.
    pub devices: Devices,
    /// What compiled code lies in, where the machine has a network.
    pub code_arena: Option<CodeArena>,
    /// Pages of it; 0: none.
    pub code_pages: u64,
    /// What compiled programs of storage lie in, where the machine has a disk.
    pub storage_arena: Option<CodeArena>,
    /// Nanoseconds from 1970 to boot; 0 until the time is known.
    pub wall_clock: u64,
    /// CPUs that have started, this one included; they wait for [`processor_start::release`].
    pub cpus: usize,
}

impl Boot {
    /// What drivers take memory for their devices from.
    pub fn memory(&mut self) -> BootMemory<'_> {
        BootMemory::new(&mut self.start.memory)
    }

    /// Shows whole pages of an array of the kernel's to all, read-only.
    pub fn show<T>(&mut self, address: u64, array: &[T]) -> bool {
        let huge_pages = self.features.has(feature::PAGE_1G);
        let Some(window) = Window::of(address, array) else { return false };
        KernelMap::resume(&mut self.memory(), huge_pages).map_exposed(&window).is_ok()
    }

    /// The boot archive itself, read-only for all from now on.
    pub fn archive_bytes(&self) -> &'static [u8] {
        let archive = self.archive();
        crate::start_info::bytes(archive.start, archive.end - archive.start).unwrap_or(&[])
    }

    /// Physical bytes of the boot archive; empty when there is none.
    pub fn archive(&self) -> Range<u64> {
        self.start.archive.clone()
    }
}

unsafe extern "Rust" {
    /// The linked image's entry: it never returns.
    safe fn kernel_main(boot: Boot) -> !;
}

/// Large, so it does not travel over stacks. Used by the bootstrap CPU only.
struct BootCell<T>(UnsafeCell<T>);

// SAFETY: only the bootstrap CPU touches these, and hands out each once.
unsafe impl<T> Sync for BootCell<T> {}

static START: BootCell<StartInfo> = BootCell(UnsafeCell::new(StartInfo::new()));
static PLATFORM: BootCell<Platform> = BootCell(UnsafeCell::new(Platform::new()));
/// Time stamp of the first Rust instruction.
static STAMP: AtomicU64 = AtomicU64::new(0);

#[cfg(target_os = "none")]
core::arch::global_asm!(
    include_str!("boot.s"),
    direct_map = const crate::layout::DIRECT_MAP,
    serial_port = const serial::PORT,
    exit_port = const stop::EXIT_PORT,
    exit_boot_failure = const abi::host_channel::stop::BOOT_FAILURE,
);

/// The first Rust code, on the boot stack and the boot map.
#[unsafe(no_mangle)]
extern "C" fn bootstrap(start_info: u64) -> ! {
    let stamp = time_stamp();
    serial::initialise();
    STAMP.store(stamp, Ordering::Relaxed);
    // SAFETY: this function runs once, on the only CPU: the tables are filled before they are loaded, the features are
    // shared before anyone asks, and the references are dropped before `continue_boot` makes others.
    let (start, platform) = unsafe {
        interrupt_table::fill();
        features::share(features::detect());
        (&mut *START.0.get(), &mut *PLATFORM.0.get())
    };
    // From here on an exception leaves a record instead of a silent reset.
    interrupt_table::load(&interrupt_table::BOOTING);
    start.read(start_info, &BootMap).unwrap_or_else(|error| stop::boot_failure(error));
    *platform = acpi::read(start.root_pointer);
    build(start, platform).unwrap_or_else(refuse);
    // SAFETY: CPU 0 is this one and has just been prepared; the boot stack is not needed any more.
    unsafe {
        per_cpu::start_on(0, features::get());
        switch_stack(per_cpu::get(0).kernel_stack(), continue_boot)
    }
}

/// Builds the kernel's half of the address space and takes it into use.
fn build(start: &mut StartInfo, platform: &Platform) -> Result<(), MapFailure> {
    let image = kernel_map::image();
    if start.memory.assign(image.start, image.end - image.start, Use::Kernel).is_err() {
        stop::boot_failure("corrupt memory map: the kernel lies outside of RAM");
    }
    // The map is edited while it is walked: page tables come from it.
    let ram = start.memory.clone();
    let mut memory = BootMemory::new(&mut start.memory);
    let mut map = KernelMap::new(&mut memory, features::get().has(feature::PAGE_1G))?;
    for range in ram.ranges() {
        map.map_ram(range)?;
    }
    map.map_image()?;
    // SAFETY: the map holds the image, all RAM (the boot stack too) and so everything in use.
    unsafe { kernel_map::load() };
    apic::prepare(&mut map, features::get())?;
    io_apic::prepare(&mut map, platform)?;
    // SAFETY: CPU 0 is this CPU and has not been prepared before.
    unsafe { per_cpu::prepare(0, apic::start(), features::get(), &mut map) }
}

fn refuse_filters<T>(failure: MapFailure) -> T {
    match failure {
        MapFailure::NoMemory => stop::boot_failure(NO_MEMORY),
        MapFailure::Conflict => refuse(failure),
    }
}

fn refuse<T>(failure: MapFailure) -> T {
    match failure {
        MapFailure::NoMemory => stop::boot_failure("too little memory: give the machine at least 64 MiB"),
        MapFailure::Conflict => stop::boot_failure("corrupt memory map: devices and memory lie in one place"),
    }
}

/// Continues on another stack, with an empty call chain.
///
/// # Safety
/// Nothing on the old stack is used afterwards; the new one is mapped and free.
#[unsafe(naked)]
unsafe extern "C" fn switch_stack(top: u64, then: extern "C" fn() -> !) -> ! {
    naked_asm!("mov rsp, rdi", "xor ebp, ebp", "call rsi", "ud2")
}

/// The rest of the boot, on the stack of CPU 0.
extern "C" fn continue_boot() -> ! {
    // SAFETY: the references that `bootstrap` had are gone, and this function runs once.
    let (start, platform) = unsafe { (&mut *START.0.get(), &*PLATFORM.0.get()) };
    let features = features::get();
    clock::start(STAMP.load(Ordering::Relaxed), platform.timer_port, features)
        .unwrap_or_else(|error| stop::boot_failure(error));
    let mut memory = BootMemory::new(&mut start.memory);
    let mut map = KernelMap::resume(&mut memory, features.has(feature::PAGE_1G));
    let devices = Devices::discover(&mut map, platform, start.command_line.text());
    let has_network = has_network(&devices, start.command_line.text());
    let code_arena = has_network.then(|| reserve_code(start, features).unwrap_or_else(refuse_filters));
    let has_disk = devices.kinds().any(|kind| kind == Kind::Block);
    let storage_arena = has_disk.then(|| {
        let mut memory = BootMemory::new(&mut start.memory);
        let mut map = KernelMap::resume(&mut memory, features.has(feature::PAGE_1G));
        CodeArena::reserve(&mut map, STORAGE_ARENA, STORAGE_CODE_PAGES).unwrap_or_else(refuse)
    });
    let code_pages = code_arena.as_ref().map_or(0, |arena| arena.bytes() as u64 / PAGE_SIZE);
    let mut memory = BootMemory::new(&mut start.memory);
    let cpus = processor_start::start_all(&mut memory, platform).unwrap_or_else(refuse);
    interrupt_table::load(&interrupt_table::RUNNING);
    let (features, wall_clock) = (*features, 0);
    kernel_main(Boot { start, platform, features, devices, code_arena, code_pages, storage_arena, wall_clock, cpus })
}

/// Filters at most: a filter's place is 16 bits of its number.
const FILTERS: u64 = 1 << 16;
/// Pages of the code arena of storage.
const STORAGE_CODE_PAGES: u64 = 32;

/// Whether packets are the machine's affair: it has a network card, or the command line asks for them (`packets`, or
/// `packets=` and how many filters there is to be room for).
fn has_network(devices: &Devices, command_line: &str) -> bool {
    devices.kinds().any(|kind| kind == Kind::Network)
        || command_line.split_ascii_whitespace().any(|word| word == "packets" || word.starts_with("packets="))
}

/// Sets the code arena aside: for the filters that the command line asks for, or by the size of memory.
fn reserve_code(start: &mut StartInfo, features: &Features) -> Result<CodeArena, MapFailure> {
    let pages: u64 = start.memory.ranges().iter().map(MemoryRange::pages).sum();
    let wanted = match start.command_line.value("packets") {
        None => (pages / PAGES_PER_CODE_PAGE).min(CODE_PAGES),
        Some(count) => match count.parse::<u64>() {
            Ok(filters) if filters <= FILTERS => filters.div_ceil(FILTERS_PER_CODE_PAGE),
            _ => stop::boot_failure("packets= on the command line: give a number of filters up to 65536"),
        },
    };
    let wanted = wanted.next_power_of_two().max(CODE_PAGES_LEAST);
    let mut memory = BootMemory::new(&mut start.memory);
    CodeArena::reserve(&mut KernelMap::resume(&mut memory, features.has(feature::PAGE_1G)), CODE_ARENA, wanted)
}
