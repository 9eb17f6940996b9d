//! What the firmware's tables say of CPUs, interrupt controllers, PCI and the power-management timer
//! (ACPI 6.5, sections 5.2.5 to 5.2.12; PCI firmware 3.3, section 4.1.2).
//!
//! Only the static tables are read, never AML. Every length and checksum is checked before a table is believed, and
//! addresses only below 4 GiB are followed, so this runs while the boot map is in force. A machine without usable
//! tables gets one CPU and the architecture's default addresses.

use crate::start_info::bytes;
use abi::limits::CPUS;

/// I/O interrupt controllers that are kept.
pub const IO_APICS: usize = 4;
const HEADER: usize = 36;
/// Longest table that is believed.
const LONGEST: u32 = 1 << 20;

/// One I/O interrupt controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoApicRecord {
    /// Physical address of its registers.
    pub address: u64,
    /// Number of its first interrupt among all.
    pub first_interrupt: u32,
}

/// PCI configuration space in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigurationSpace {
    /// Physical address of bus 0.
    pub address: u64,
    /// Last bus.
    pub last_bus: u8,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Local APIC identifiers of the usable CPUs, in the order of the table.
    pub apics: [u32; CPUS],
    /// How many of `apics` count.
    pub cpus: usize,
    /// Usable CPUs beyond those.
    pub surplus_cpus: usize,
    /// I/O interrupt controllers; unused ones have address 0.
    pub io_apics: [IoApicRecord; IO_APICS],
    /// PCI configuration space of segment 0.
    pub configuration: Option<ConfigurationSpace>,
    /// I/O port of the power-management timer.
    pub timer_port: Option<u16>,
}

/// Reads the tables, from the root pointer if the loader gave one, else from where a BIOS leaves it.
pub(crate) fn read(root_pointer: Option<u64>) -> Platform {
    let mut platform = Platform::new();
    if let Some(root) = root_pointer.and_then(root_table).or_else(search_root_table) {
        for address in root.addresses() {
            if let Some(table) = table(address) {
                platform.add(table);
            }
        }
    }
    if platform.io_apics[0].address == 0 {
        platform.io_apics[0] = IoApicRecord { address: 0xfec0_0000, first_interrupt: 0 };
    }
    platform
}

/// The table of tables: its bytes after the header, and the width of an address in it.
struct RootTable {
    entries: &'static [u8],
    width: usize,
}

impl RootTable {
    fn addresses(&self) -> impl Iterator<Item = u64> {
        self.entries.chunks_exact(self.width).map(|entry| {
            let mut address = [0; 8];
            address[..entry.len()].copy_from_slice(entry);
            u64::from_le_bytes(address)
        })
    }
}

fn root_table(pointer: u64) -> Option<RootTable> {
    let (address, width) = root_address(bytes(pointer, 36)?)?;
    let table = table(address)?;
    let signature: &[u8] = if width == 8 { b"XSDT" } else { b"RSDT" };
    table.starts_with(signature).then_some(RootTable { entries: &table[HEADER..], width })
}

/// Address and entry width of the table that a root pointer structure leads to.
fn root_address(pointer: &[u8]) -> Option<(u64, usize)> {
    if !pointer.starts_with(b"RSD PTR ") || !sums_to_zero(pointer.get(..20)?) {
        return None;
    }
    let extended = pointer[15] >= 2 && sums_to_zero(pointer.get(..36)?);
    if extended && word64(pointer, 24)? != 0 {
        Some((word64(pointer, 24)?, 8))
    } else {
        Some((u64::from(word32(pointer, 16)?), 4))
    }
}

fn search_root_table() -> Option<RootTable> {
    (0xe_0000u64..0x10_0000).step_by(16).find_map(root_table)
}

/// The whole table at an address, header included, if length and checksum are right.
fn table(address: u64) -> Option<&'static [u8]> {
    let length = word32(bytes(address, HEADER as u64)?, 4)?;
    let plausible = (HEADER as u32..=LONGEST).contains(&length);
    let table = bytes(address, u64::from(length)).filter(|_| plausible)?;
    sums_to_zero(table).then_some(table)
}

fn sums_to_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte)) == 0
}

fn word32(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

fn word64(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}

impl Platform {
    /// Nothing found yet.
    pub(crate) const fn new() -> Self {
        Self {
            apics: [0; CPUS],
            cpus: 0,
            surplus_cpus: 0,
            io_apics: [IoApicRecord { address: 0, first_interrupt: 0 }; IO_APICS],
            configuration: None,
            timer_port: None,
        }
    }

    /// Takes what is of use from a table of any kind.
    fn add(&mut self, table: &[u8]) {
        match table.get(..4) {
            Some(b"APIC") => self.add_interrupt_controllers(table),
            Some(b"MCFG") => self.add_configuration_space(table),
            Some(b"FACP") => self.timer_port = timer_port(table),
            _ => {}
        }
    }

    fn add_interrupt_controllers(&mut self, table: &[u8]) {
        let mut rest = table.get(44..).unwrap_or(&[]);
        while let [kind, length, ..] = *rest {
            let Some(entry) = rest.get(..usize::from(length)).filter(|_| length >= 2) else { return };
            // An entry too short for its kind says nothing.
            let _ = self.add_interrupt_controller(kind, entry);
            rest = &rest[usize::from(length)..];
        }
    }

    fn add_interrupt_controller(&mut self, kind: u8, entry: &[u8]) -> Option<()> {
        const ENABLED: u32 = 1;
        match kind {
            0 if word32(entry, 4)? & ENABLED != 0 => self.add_cpu(u32::from(entry[3])),
            9 if word32(entry, 8)? & ENABLED != 0 => self.add_cpu(word32(entry, 4)?),
            1 => {
                let record = IoApicRecord { address: u64::from(word32(entry, 4)?), first_interrupt: word32(entry, 8)? };
                *self.io_apics.iter_mut().find(|slot| slot.address == 0)? = record;
            }
            _ => {}
        }
        Some(())
    }

    fn add_cpu(&mut self, apic: u32) {
        if self.apics[..self.cpus].contains(&apic) {
            return;
        }
        match self.apics.get_mut(self.cpus) {
            Some(slot) => {
                *slot = apic;
                self.cpus += 1;
            }
            None => self.surplus_cpus += 1,
        }
    }

    fn add_configuration_space(&mut self, table: &[u8]) {
        const SEGMENT_AND_FIRST_BUS: u32 = 0x00ff_ffff;
        for entry in table.get(44..).unwrap_or(&[]).chunks_exact(16) {
            let address = word64(entry, 0).unwrap_or(0);
            if address != 0 && word32(entry, 8).is_some_and(|place| place & SEGMENT_AND_FIRST_BUS == 0) {
                self.configuration = Some(ConfigurationSpace { address, last_bus: entry[11] });
            }
        }
    }
}

/// The port of the power-management timer: PM_TMR_BLK of the fixed description table.
fn timer_port(table: &[u8]) -> Option<u16> {
    let port = word32(table, 76)?;
    u16::try_from(port).ok().filter(|&port| port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn table(signature: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let mut table = signature.to_vec();
        table.extend(((HEADER + body.len()) as u32).to_le_bytes());
        table.resize(HEADER, 0);
        table.extend(body);
        table
    }

    fn controllers(entries: &[&[u8]]) -> Vec<u8> {
        let mut body = std::vec![0; 8];
        entries.iter().for_each(|entry| body.extend(*entry));
        table(b"APIC", &body)
    }

    #[test]
    fn reads_cpus_and_controllers_once_each() {
        let mut platform = Platform::new();
        let io_apic = [1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 24, 0, 0, 0];
        let wide = [9, 16, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        let entries: [&[u8]; 5] =
            [&[0, 8, 0, 3, 1, 0, 0, 0], &[0, 8, 1, 3, 1, 0, 0, 0], &[0, 8, 2, 4, 0, 0, 0, 0], &io_apic, &wide];
        platform.add(&controllers(&entries));
        assert_eq!(&platform.apics[..platform.cpus], &[3, 0x100]);
        assert_eq!(platform.io_apics[0], IoApicRecord { address: 0xfec0_0000, first_interrupt: 24 });
    }

    #[test]
    fn fault_93_more_cpus_than_the_limit_are_counted_not_stored() {
        let mut platform = Platform::new();
        let entries: Vec<[u8; 8]> = (0..40).map(|apic| [0, 8, 0, apic, 1, 0, 0, 0]).collect();
        platform.add(&controllers(&entries.iter().map(|entry| &entry[..]).collect::<Vec<_>>()));
        assert_eq!((platform.cpus, platform.surplus_cpus), (CPUS, 40 - CPUS));
    }

    #[test]
    fn fault_93_random_tables_never_panic() {
        let mut state = 0x1234_5678_9abc_def1u64;
        for round in 0..20_000 {
            let mut random = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            };
            let signature = [b"APIC", b"MCFG", b"FACP"][round % 3];
            let length = usize::from(random());
            let mut bytes = table(signature, &(0..length).map(|_| random() % 20).collect::<Vec<_>>());
            bytes.truncate(usize::from(random()));
            Platform::new().add(&bytes);
            let _ = root_address(&bytes);
        }
    }

    #[test]
    fn the_root_pointer_must_have_its_checksum() {
        let mut pointer = b"RSD PTR ".to_vec();
        pointer.resize(36, 0);
        pointer[16..20].copy_from_slice(&0x1234u32.to_le_bytes());
        assert_eq!(root_address(&pointer), None);
        pointer[8] = pointer.iter().fold(0u8, |sum, &byte| sum.wrapping_sub(byte));
        assert_eq!(root_address(&pointer), Some((0x1234, 4)));
    }
}
