//! The machine of host tests: memory that stands for physical memory, and virtio devices played by the test.
//!
//! A driver under test runs on it unchanged. The test sees the chains that the driver offers, answers them as it likes,
//! and writes what it likes into rings and buffers.
//!
//! Invariants:
//! - a range of memory is given out once, so tests that run at the same time share nothing.

use crate::dma::copy;
use crate::layout::PAGE_SIZE;
use crate::memory_map::MemoryMap;
use crate::registers::Registers;
use crate::virtio::{Device, Kind, Transport};
use crate::virtqueue::{Slot, Virtqueue};
use core::borrow::BorrowMut;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};

const BYTES: usize = 256 << 20;
/// The boot allocator leaves out what lies below.
const FIRST: u64 = 1 << 20;

#[repr(align(4096))]
struct Memory(UnsafeCell<[u8; BYTES]>);

// SAFETY: each range of it is given out once (`NEXT`), and used only as memory of devices and drivers is.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; BYTES]));
static NEXT: AtomicU64 = AtomicU64::new(FIRST);

/// Address of a physical address in the host's memory.
pub fn direct(physical: u64) -> u64 {
    assert!(physical < BYTES as u64, "{physical:#x} is no memory");
    MEMORY.0.get() as u64 + physical
}

/// Free memory for one test.
pub fn memory(pages: u64) -> MemoryMap {
    let mut map = MemoryMap::new();
    map.add_ram(take(pages), pages * PAGE_SIZE).expect("the map has room for a range");
    map
}

fn take(pages: u64) -> u64 {
    let start = NEXT.fetch_add(pages * PAGE_SIZE, Ordering::Relaxed);
    assert!(start + pages * PAGE_SIZE <= BYTES as u64, "the tests took all memory");
    start
}

/// Writes into memory as a device does.
pub fn write(physical: u64, bytes: &[u8]) {
    direct(physical + bytes.len() as u64);
    // SAFETY: the range lies in `MEMORY`, which no reference covers.
    unsafe { copy(direct(physical), bytes.as_ptr() as u64, bytes.len()) };
}

/// Reads memory as a device does.
pub fn read(physical: u64, bytes: &mut [u8]) {
    direct(physical + bytes.len() as u64);
    // SAFETY: as in `write`.
    unsafe { copy(bytes.as_mut_ptr() as u64, direct(physical), bytes.len()) };
}

/// The registers of a device, as the test changes them. They keep what the driver writes.
#[derive(Debug)]
pub struct Face(Registers);

impl Face {
    const FEATURES: u64 = 0x10;
    const QUEUE_LIMIT: u64 = 0x34;
    const NOTIFY: u64 = 0x50;
    const STATUS: u64 = 0x70;
    const CONFIGURATION: u64 = 0x100;
    const QUIET: u32 = u32::MAX;

    /// Has the device offer these features in both halves of its 64 bits; bit 0 of the high half is `VERSION_1`.
    pub fn offer(&self, features: u32) {
        self.0.write(Self::FEATURES, features);
    }

    /// The queue that the driver has notified since the last question.
    pub fn notified(&self) -> Option<u32> {
        let queue = self.0.read::<u32>(Self::NOTIFY);
        self.0.write(Self::NOTIFY, Self::QUIET);
        (queue != Self::QUIET).then_some(queue)
    }

    /// Has the device ignore the reset that the driver just began.
    pub fn ignore_reset(&self) {
        self.0.write(Self::STATUS, 1u32);
    }

    /// Changes the number of entries that each queue can have.
    pub fn limit_queues(&self, entries: u32) {
        self.0.write(Self::QUEUE_LIMIT, entries);
    }
}

/// A device behind memory registers, whose queues have 256 entries at most.
pub fn device(kind: Kind, features: u32, configuration: &[u8]) -> (Device, Face) {
    let base = direct(take(1));
    // SAFETY: the page was just taken for these registers, for ever.
    let registers = || unsafe { Registers::new(base, PAGE_SIZE) };
    let face = Face(registers());
    face.offer(features);
    face.limit_queues(256);
    face.notified();
    for (offset, byte) in (Face::CONFIGURATION..).zip(configuration) {
        face.0.write(offset, *byte);
    }
    (Device::new(0, kind, Transport::Memory(registers()), None), face)
}

/// A part of a chain, as the device sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Physical address.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// The device writes it.
    pub is_writable: bool,
}

/// The device's side of a queue.
#[derive(Debug)]
pub struct Rings {
    base: u64,
    available: u64,
    used: u64,
    entries: u16,
    seen: u16,
    answered: u16,
}

impl Rings {
    /// The other side of a queue that was just made.
    pub fn of<S: BorrowMut<[Slot]>>(queue: &Virtqueue<S>) -> Self {
        let [descriptors, available, used] = queue.addresses();
        let entries = queue.entries();
        Self { base: descriptors, available, used, entries, seen: 0, answered: 0 }
    }

    /// Head of the next chain that was offered.
    pub fn next_chain(&mut self) -> Option<u16> {
        if word::<2>(self.available + 2) == u64::from(self.seen) {
            return None;
        }
        let head = word::<2>(self.available + 4 + u64::from(self.seen % self.entries) * 2);
        self.seen = self.seen.wrapping_add(1);
        Some(head as u16)
    }

    /// The parts of a chain.
    pub fn parts(&self, head: u16) -> impl Iterator<Item = Buffer> {
        let descriptors = self.base;
        let mut next = Some(head);
        core::iter::from_fn(move || {
            let place = descriptors + u64::from(next?) * 16;
            let flags = word::<2>(place + 12);
            next = (flags & 1 != 0).then(|| word::<2>(place + 14) as u16);
            Some(Buffer { address: word::<8>(place), length: word::<4>(place + 8) as u32, is_writable: flags & 2 != 0 })
        })
    }

    /// Says that a chain is done, with so many bytes written.
    pub fn answer(&mut self, head: u32, length: u32) {
        let entry = self.used + 4 + u64::from(self.answered % self.entries) * 8;
        write(entry, &head.to_le_bytes());
        write(entry + 4, &length.to_le_bytes());
        self.run_away(1);
    }

    /// Counts the used ring up without writing entries.
    pub fn run_away(&mut self, by: u16) {
        self.answered = self.answered.wrapping_add(by);
        write(self.used + 2, &self.answered.to_le_bytes());
    }

    /// Asks for no notifications, or for notifications again.
    pub fn want_no_notification(&self, none: bool) {
        write(self.used, &u16::from(none).to_le_bytes());
    }

    /// Whether the driver asked for no interrupts.
    pub fn is_silenced(&self) -> bool {
        word::<2>(self.available) & 1 != 0
    }
}

fn word<const SIZE: usize>(physical: u64) -> u64 {
    let mut bytes = [0; 8];
    read(physical, &mut bytes[..SIZE]);
    u64::from_le_bytes(bytes)
}
