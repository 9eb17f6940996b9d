//! Which virtio devices this machine has. They are found over PCI where the firmware's tables tell of it, else in the
//! slots of QEMU's microvm, or where the command line says (`virtio_mmio.device=SIZE@ADDRESS:INTERRUPT`, as Linux
//! reads it).

use crate::acpi::Platform;
use crate::kernel_map::KernelMap;
use crate::layout::LARGE_PAGE_SIZE;
use crate::pci::{Configuration, Function, VENDOR_CAPABILITY};
use crate::registers::Registers;
use crate::virtio::{COMMON_BYTES, Device, Kind, Transport};
use crate::{apic, io_apic, log};
use core::sync::atomic::{AtomicU64, Ordering};

/// Devices that are kept.
const DEVICES: usize = abi::limits::DEVICES;
/// Vector of the first device's interrupt.
pub const FIRST_VECTOR: u8 = 0x40;

// What waits for a device's turn again comes after the interrupts of all devices, and mere wakeups after that.
const _: () = assert!(FIRST_VECTOR > apic::REST_VECTOR && apic::REST_VECTOR > apic::WAKE_VECTOR);

/// How many vectors devices have.
static GIVEN: AtomicU64 = AtomicU64::new(0);

/// The number of the device that interrupts by this vector.
pub fn number_of(vector: u64) -> Option<usize> {
    let number = vector.checked_sub(u64::from(FIRST_VECTOR))?;
    (number < GIVEN.load(Ordering::Relaxed)).then_some(number as usize)
}

const VENDOR: u32 = 0x1af4;
/// PCI device numbers: modern ones count from the first, transitional ones are listed.
const FIRST_MODERN: u32 = 0x1040;
const TRANSITIONAL: [(u32, u32); 4] = [(0x1000, 1), (0x1001, 2), (0x1003, 3), (0x1005, 4)];

/// Kinds of virtio's vendor capability.
const COMMON: u8 = 1;
const NOTIFY: u8 = 2;
const CONFIGURATION: u8 = 4;

const SLOTS: u64 = 0xfeb0_0000;
const SLOT_BYTES: u64 = 512;
const MAGIC: u32 = 0x7472_6976;
const VERSION: u64 = 4;
const KIND: u64 = 8;
const MODERN: u32 = 2;

/// What was found and not yet taken by a driver.
#[derive(Debug, Default)]
pub struct Devices {
    list: [Option<Device>; DEVICES],
    kinds: [Option<Kind>; DEVICES],
    count: usize,
}

impl Devices {
    /// The first device of a kind that no driver has taken.
    pub fn take(&mut self, kind: Kind) -> Option<Device> {
        self.list.iter_mut().find(|device| device.as_ref().is_some_and(|device| device.kind() == kind))?.take()
    }

    /// What was found, in the order of the devices' numbers, taken or not.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.kinds.iter().map_while(|kind| *kind)
    }

    fn next_vector(&self) -> u8 {
        FIRST_VECTOR + self.count as u8
    }

    fn add(&mut self, kind: Kind, transport: Transport, vector: Option<u8>) {
        let Some(place) = self.list.get_mut(self.count) else {
            log!("more than {DEVICES} virtio devices: the rest stays unused");
            return;
        };
        *place = Some(Device::new(self.count, kind, transport, vector));
        self.kinds[self.count] = Some(kind);
        self.count += 1;
    }

    /// Looks for all devices and maps their registers.
    pub(crate) fn discover(map: &mut KernelMap, platform: &Platform, command_line: &str) -> Self {
        let mut devices = Self::default();
        let mut named = command_line.split_ascii_whitespace().filter_map(named_slot).peekable();
        if let Some(space) = platform.configuration {
            devices.add_pci(map, space.address, (u64::from(space.last_bus) + 1) << 20);
        } else if named.peek().is_none() {
            devices.add_slots(map, platform);
        }
        named.for_each(|(address, interrupt)| devices.add_slot(map, address, interrupt));
        GIVEN.store(devices.count as u64, Ordering::Relaxed);
        devices
    }

    fn add_pci(&mut self, map: &mut KernelMap, address: u64, bytes: u64) {
        let Ok(base) = map.map_device(address, bytes) else {
            log!("PCI configuration space lies where memory is: PCI stays unused");
            return;
        };
        // SAFETY: just mapped as device memory, which the firmware's table says it is; nothing else uses it.
        let configuration = Configuration::new(unsafe { Registers::new(base, bytes) });
        configuration.for_each(|function| {
            if let Some(kind) = virtio_kind(function.identity()) {
                self.add_function(map, kind, &function);
            }
        });
    }

    fn add_function(&mut self, map: &mut KernelMap, kind: Kind, function: &Function) {
        function.enable();
        let Some(transport) = pci_transport(map, function) else {
            log!("a virtio device on PCI has no modern interface: it stays unused");
            return;
        };
        let vector = self.next_vector();
        let has_messages = function.open_message_interrupt(map, vector);
        self.add(kind, transport, has_messages.then_some(vector));
    }

    /// The slots of microvm: 24, on the second interrupt controller, or 8 where there is one only.
    fn add_slots(&mut self, map: &mut KernelMap, platform: &Platform) {
        let second = platform.io_apics[1];
        let (slots, first) = if second.address != 0 { (24, second.first_interrupt) } else { (8, 16) };
        // QEMU fills them from the last one on.
        for slot in (0..slots).rev() {
            self.add_slot(map, SLOTS + u64::from(slot) * SLOT_BYTES, first + slot);
        }
    }

    fn add_slot(&mut self, map: &mut KernelMap, address: u64, interrupt: u32) {
        // All slots lie in one large page, mapped once.
        let Ok(base) = map.map_device(address, SLOT_BYTES) else { return };
        // SAFETY: just mapped as device memory; each slot is used for one device.
        let block = unsafe { Registers::new(base, SLOT_BYTES) };
        if block.read::<u32>(0) != MAGIC {
            return;
        }
        let Some(kind) = Kind::from_number(block.read(KIND)) else { return };
        if block.read::<u32>(VERSION) != MODERN {
            log!(
                "the virtio device at {address:#x} is of the old kind: give QEMU -global virtio-mmio.force-legacy=false"
            );
            return;
        }
        let vector = self.next_vector();
        let routed = io_apic::open(interrupt, vector, 0);
        self.add(kind, Transport::Memory(block), routed.then_some(vector));
    }
}

fn virtio_kind(identity: u32) -> Option<Kind> {
    let (vendor, device) = (identity & 0xffff, identity >> 16);
    let listed = TRANSITIONAL.iter().find(|(number, _)| *number == device).map(|(_, kind)| *kind);
    let number = device.checked_sub(FIRST_MODERN).or(listed)?;
    if vendor == VENDOR { Kind::from_number(number) } else { None }
}

/// Maps the structures that virtio's capabilities tell of. None if one is missing or makes no sense.
fn pci_transport(map: &mut KernelMap, function: &Function) -> Option<Transport> {
    let place = |wanted: u8| {
        function.capabilities().find(|(offset, kind)| {
            *kind == VENDOR_CAPABILITY && *offset <= 0xec && function.read8(offset + 3) == wanted
        })
    };
    let mut region = |offset: u64, least: u64| {
        let length = u64::from(function.read32(offset + 12));
        let fits = (least..=LARGE_PAGE_SIZE).contains(&length);
        let (bar, start) = (function.read8(offset + 4), u64::from(function.read32(offset + 8)));
        if fits { function.map_bar(map, bar, start, length) } else { None }
    };
    let common = region(place(COMMON)?.0, COMMON_BYTES)?;
    let (notify_offset, _) = place(NOTIFY)?;
    let notify = region(notify_offset, 2)?;
    let multiplier = function.read32(notify_offset + 16);
    let configuration = place(CONFIGURATION).and_then(|(offset, _)| region(offset, 4));
    Some(Transport::Pci { common, notify, multiplier, configuration })
}

/// Address and interrupt of `virtio_mmio.device=512@0xfeb00e00:12`.
fn named_slot(argument: &str) -> Option<(u64, u32)> {
    let (_size, place) = argument.strip_prefix("virtio_mmio.device=")?.split_once('@')?;
    let (address, interrupt) = place.split_once(':')?;
    let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
    Some((address, interrupt.split(':').next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_slots_named_on_the_command_line() {
        assert_eq!(named_slot("virtio_mmio.device=512@0xfeb00e00:12"), Some((0xfeb0_0e00, 12)));
        assert_eq!(named_slot("virtio_mmio.device=4K@0xa000000:74:1"), Some((0xa00_0000, 74)));
        for wrong in ["virtio_mmio.device=", "virtio_mmio.device=512@:", "virtio_mmio.device=512@12:1", "quiet"] {
            assert_eq!(named_slot(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn knows_modern_and_transitional_identities() {
        assert_eq!(virtio_kind(0x1043_1af4), Some(Kind::Console));
        assert_eq!(virtio_kind(0x1003_1af4), Some(Kind::Console));
        assert_eq!(virtio_kind(0x1043_8086), None);
        assert_eq!(virtio_kind(0x1050_1af4), None);
    }
}
