//! PCI functions by their configuration space in memory (PCI Express base specification, chapter 7).
//!
//! Written by hand because a device may lie. Capability lists are walked a bounded number of steps, every offset is
//! checked before it is followed, and a function that makes no sense is skipped.

use crate::apic;
use crate::kernel_map::KernelMap;
use crate::registers::Registers;

const FUNCTION_BYTES: u64 = 4096;
const FUNCTIONS_PER_BUS: u64 = 256;
const ABSENT: u32 = u32::MAX;
const COMMAND: u64 = 0x04;
const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_MASTER: u16 = 1 << 2;
const COMMAND_NO_LINE_INTERRUPT: u16 = 1 << 10;
const STATUS: u64 = 0x06;
const STATUS_CAPABILITIES: u16 = 1 << 4;
const HEADER_TYPE: u64 = 0x0e;
const MULTIFUNCTION: u8 = 0x80;
const BRIDGE: u8 = 1;
const BARS: u64 = 0x10;
const SECONDARY_BUS: u64 = 0x19;
const FIRST_CAPABILITY: u64 = 0x34;
const LONGEST_LIST: usize = 48;

/// Identifier of a vendor's capability.
pub(crate) const VENDOR_CAPABILITY: u8 = 0x09;
const MSI_X_CAPABILITY: u8 = 0x11;
const MSI_X_ENABLE: u16 = 1 << 15;
const MSI_X_MASK_ALL: u16 = 1 << 14;

/// Configuration space of one segment.
pub(crate) struct Configuration {
    registers: Registers,
}

/// One function.
#[derive(Clone, Copy)]
pub(crate) struct Function<'a> {
    configuration: &'a Configuration,
    offset: u64,
}

impl Configuration {
    /// Over mapped registers of whole buses.
    pub(crate) fn new(registers: Registers) -> Self {
        Self { registers }
    }

    fn buses(&self) -> u64 {
        self.registers.length() / (FUNCTION_BYTES * FUNCTIONS_PER_BUS)
    }

    /// Calls `visit` for every function that can be reached from bus 0.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(Function)) {
        let mut reachable = [false; FUNCTIONS_PER_BUS as usize];
        reachable[0] = true;
        // A bridge leads to a higher bus; one that does not is not followed, so this ends.
        for bus in 0..self.buses().min(FUNCTIONS_PER_BUS) {
            if !reachable[bus as usize] {
                continue;
            }
            self.for_each_on(bus, |function| {
                if let Some(behind) = function.secondary_bus() {
                    reachable[usize::from(behind)] = true;
                }
                visit(function);
            });
        }
    }

    fn for_each_on(&self, bus: u64, mut visit: impl FnMut(Function)) {
        for device in 0..32 {
            let first = (bus * FUNCTIONS_PER_BUS + device * 8) * FUNCTION_BYTES;
            let functions = if self.registers.read::<u8>(first + HEADER_TYPE) & MULTIFUNCTION != 0 { 8 } else { 1 };
            for number in 0..functions {
                let function = Function { configuration: self, offset: first + number * FUNCTION_BYTES };
                if function.identity() != ABSENT {
                    visit(function);
                }
            }
        }
    }
}

impl Function<'_> {
    fn registers(&self) -> &Registers {
        &self.configuration.registers
    }

    pub(crate) fn read8(&self, offset: u64) -> u8 {
        self.registers().read(self.offset + offset)
    }

    fn read16(&self, offset: u64) -> u16 {
        self.registers().read(self.offset + offset)
    }

    pub(crate) fn read32(&self, offset: u64) -> u32 {
        self.registers().read(self.offset + offset)
    }

    fn write16(&self, offset: u64, value: u16) {
        self.registers().write(self.offset + offset, value);
    }

    /// Vendor in the low half, device in the high one; all ones: no device there.
    pub(crate) fn identity(&self) -> u32 {
        self.read32(0)
    }

    fn secondary_bus(&self) -> Option<u8> {
        let is_bridge = self.read8(HEADER_TYPE) & !MULTIFUNCTION == BRIDGE;
        is_bridge.then(|| self.read8(SECONDARY_BUS))
    }

    /// Lets it answer to memory accesses and make its own; its line interrupt stays off.
    pub(crate) fn enable(&self) {
        let command = self.read16(COMMAND) | COMMAND_MEMORY | COMMAND_MASTER | COMMAND_NO_LINE_INTERRUPT;
        self.write16(COMMAND, command);
    }

    /// Offsets and identifiers of its capabilities.
    pub(crate) fn capabilities(&self) -> impl Iterator<Item = (u64, u8)> {
        let listed = self.read16(STATUS) & STATUS_CAPABILITIES != 0;
        let mut next = if listed { self.read8(FIRST_CAPABILITY) } else { 0 };
        core::iter::from_fn(move || {
            let offset = u64::from(next & !3);
            if offset < 0x40 {
                return None;
            }
            next = self.read8(offset + 1);
            Some((offset, self.read8(offset)))
        })
        .take(LONGEST_LIST)
    }

    /// Physical address of a part of one of its memory ranges, as its configuration says it.
    fn bar_address(&self, bar: u8, offset: u64, length: u64) -> Option<u64> {
        const IO: u32 = 1;
        const WIDE: u32 = 1 << 2;
        let slot = BARS + 4 * u64::from(bar);
        let low = if bar < 6 { self.read32(slot) } else { return None };
        let high = if low & WIDE != 0 && bar < 5 { self.read32(slot + 4) } else { 0 };
        let base = u64::from(high) << 32 | u64::from(low & !0xf);
        let start = base.checked_add(offset).filter(|_| low & IO == 0 && base != 0)?;
        start.checked_add(length).map(|_| start)
    }

    /// Maps a part of one of its memory ranges. None if it is not where device memory can be.
    pub(crate) fn map_bar(&self, map: &mut KernelMap, bar: u8, offset: u64, length: u64) -> Option<Registers> {
        let physical = self.bar_address(bar, offset, length)?;
        let base = map.map_device(physical, length).ok()?;
        // SAFETY: just mapped; the map refuses what is RAM, and this function of the device is used by one driver only.
        Some(unsafe { Registers::new(base, length) })
    }

    /// Routes its interrupt number 0 to `vector` of the first CPU by message. False if it has no messages.
    pub(crate) fn open_message_interrupt(&self, map: &mut KernelMap, vector: u8) -> bool {
        const MESSAGE_ADDRESS: u32 = 0xfee0_0000;
        let Some((capability, _)) = self.capabilities().find(|(_, kind)| *kind == MSI_X_CAPABILITY) else {
            return false;
        };
        let table = self.read32(capability + 4);
        let Some(entry) = self.map_bar(map, table as u8 & 7, u64::from(table & !7), 16) else { return false };
        let control = self.read16(capability + 2);
        self.write16(capability + 2, control | MSI_X_ENABLE | MSI_X_MASK_ALL);
        entry.write(0, MESSAGE_ADDRESS | apic::identifier() << 12);
        entry.write(4, 0u32);
        entry.write(8, u32::from(vector));
        entry.write(12, 0u32);
        self.write16(capability + 2, control & !MSI_X_MASK_ALL | MSI_X_ENABLE);
        true
    }
}
