//! The interrupt controllers of devices: everything masked at boot, single lines opened for a driver by name
//! (82093AA data sheet; the old 8259 pair is masked for good).

use crate::acpi::{IO_APICS, IoApicRecord, Platform};
use crate::kernel_map::{KernelMap, MapFailure};
use crate::per_cpu;
use crate::port;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const SELECT: u64 = 0;
const WINDOW: u64 = 0x10;
const VERSION: u32 = 1;
const FIRST_ENTRY: u32 = 0x10;
const MASKED: u32 = 1 << 16;
const PIC_DATA: [u16; 2] = [0x21, 0xa1];

/// One controller: where its registers are mapped (0: none), its first interrupt, its number of interrupts.
struct IoApic {
    base: AtomicU64,
    first: AtomicU32,
    count: AtomicU32,
}

static CONTROLLERS: [IoApic; IO_APICS] =
    [const { IoApic { base: AtomicU64::new(0), first: AtomicU32::new(0), count: AtomicU32::new(0) } }; IO_APICS];

/// Maps every controller and masks all its interrupts; masks the 8259 pair. On the bootstrap CPU.
pub(crate) fn prepare(map: &mut KernelMap, platform: &Platform) -> Result<(), MapFailure> {
    for port in PIC_DATA {
        // SAFETY: the mask registers of the 8259 pair; nothing uses it.
        unsafe { port::write_u8(port, 0xff) };
    }
    for (controller, record) in CONTROLLERS.iter().zip(&platform.io_apics) {
        if record.address != 0 {
            controller.start(map, record)?;
        }
    }
    Ok(())
}

impl IoApic {
    fn start(&self, map: &mut KernelMap, record: &IoApicRecord) -> Result<(), MapFailure> {
        let base = map.map_device(record.address, 0x20)?;
        self.base.store(base, Ordering::Relaxed);
        self.first.store(record.first_interrupt, Ordering::Relaxed);
        // The highest entry, in bits 16 to 23. All ones: no controller answers at this address.
        let version = self.read(VERSION);
        let count = if version == u32::MAX { 0 } else { (version >> 16 & 0xff) + 1 };
        self.count.store(count, Ordering::Relaxed);
        for entry in 0..count {
            self.write(FIRST_ENTRY + 2 * entry, MASKED);
        }
        Ok(())
    }

    fn read(&self, register: u32) -> u32 {
        let base = self.base.load(Ordering::Relaxed);
        // SAFETY: `start` mapped the two registers at `base`, uncached, for ever; the bootstrap CPU alone uses them.
        unsafe {
            ((base + SELECT) as *mut u32).write_volatile(register);
            ((base + WINDOW) as *const u32).read_volatile()
        }
    }

    fn write(&self, register: u32, value: u32) {
        let base = self.base.load(Ordering::Relaxed);
        // SAFETY: as in `read`; what is written here only routes interrupts, which every CPU handles.
        unsafe {
            ((base + SELECT) as *mut u32).write_volatile(register);
            ((base + WINDOW) as *mut u32).write_volatile(value);
        }
    }
}

/// Opens an interrupt, edge-triggered, active high: it comes as `vector` on CPU `cpu`. False if there is no such
/// interrupt. At boot only.
pub fn open(interrupt: u32, vector: u8, cpu: usize) -> bool {
    let apic = per_cpu::get(cpu).apic.load(Ordering::Relaxed);
    for controller in &CONTROLLERS {
        let (first, count) = (controller.first.load(Ordering::Relaxed), controller.count.load(Ordering::Relaxed));
        if (first..first.saturating_add(count)).contains(&interrupt) {
            let entry = FIRST_ENTRY + 2 * (interrupt - first);
            controller.write(entry + 1, apic << 24);
            controller.write(entry, u32::from(vector));
            return true;
        }
    }
    false
}
