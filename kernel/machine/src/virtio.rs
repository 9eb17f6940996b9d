//! Virtio devices over PCI and over plain memory registers (virtio 1.2, sections 3.1, 4.1 and 4.2): found and mapped at
//! boot, then started by a driver.
//!
//! Written by hand on checked registers, because a device may answer anything at any time. What was read once at
//! start (offsets, sizes) is checked then and remembered, never read again. Only modern devices; nothing but the
//! features that the driver asked for is accepted.

use crate::boot_memory::BootMemory;
use crate::dma::Pinned;
use crate::layout::direct;
use crate::registers::Registers;
use crate::virtqueue::{self, Slot, Virtqueue};
use core::borrow::BorrowMut;

/// Queues that a driver can use.
pub const QUEUES: usize = 8;
const FEATURE_VERSION_1: u64 = 1 << 32;
const STATUS_ACKNOWLEDGE: u8 = 1;
const STATUS_DRIVER: u8 = 2;
const STATUS_DRIVER_OK: u8 = 4;
const STATUS_FEATURES_OK: u8 = 8;
/// Looks at the status until a reset must be over: within the bound of a kernel entry.
const RESET_PATIENCE: u32 = 500;

/// Kinds of device, by their virtio number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Network card.
    Network = 1,
    /// Disk.
    Block = 2,
    /// Console.
    Console = 3,
    /// Source of entropy.
    Entropy = 4,
}

impl Kind {
    /// The kind with this number, if the kernel knows it.
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        [Self::Network, Self::Block, Self::Console, Self::Entropy].into_iter().find(|kind| *kind as u32 == number)
    }
}

/// Why a device cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceError {
    /// It does not come out of reset.
    NoReset,
    /// It is older than virtio 1.0, or refuses the features it offered.
    Features,
    /// It lacks a queue, or describes it wrongly.
    Queue,
    /// No memory for its queues.
    NoMemory,
    /// It does not answer.
    Silent,
}

/// Where the registers are.
#[derive(Debug)]
pub(crate) enum Transport {
    /// PCI: common configuration, notifications with the bytes between two queues', device configuration.
    Pci { common: Registers, notify: Registers, multiplier: u32, configuration: Option<Registers> },
    /// Memory: one block.
    Memory(Registers),
}

/// One device.
#[derive(Debug)]
pub struct Device {
    number: usize,
    kind: Kind,
    transport: Transport,
    vector: Option<u8>,
    /// Where each queue is notified; only for PCI.
    doorbells: [u64; QUEUES],
}

/// Registers of PCI's common configuration.
mod common {
    pub(super) const DEVICE_FEATURE_SELECT: u64 = 0;
    pub(super) const DEVICE_FEATURE: u64 = 4;
    pub(super) const DRIVER_FEATURE_SELECT: u64 = 8;
    pub(super) const DRIVER_FEATURE: u64 = 12;
    pub(super) const CONFIGURATION_VECTOR: u64 = 16;
    pub(super) const STATUS: u64 = 20;
    pub(super) const QUEUE_SELECT: u64 = 22;
    pub(super) const QUEUE_SIZE: u64 = 24;
    pub(super) const QUEUE_VECTOR: u64 = 26;
    pub(super) const QUEUE_ENABLE: u64 = 28;
    pub(super) const QUEUE_NOTIFY: u64 = 30;
    pub(super) const QUEUE_ADDRESSES: [u64; 3] = [32, 40, 48];
    pub(super) const BYTES: u64 = 56;
    pub(super) const NO_VECTOR: u16 = 0xffff;
}

/// Registers of the memory form.
mod memory {
    pub(super) const DEVICE_FEATURE: u64 = 0x10;
    pub(super) const DEVICE_FEATURE_SELECT: u64 = 0x14;
    pub(super) const DRIVER_FEATURE: u64 = 0x20;
    pub(super) const DRIVER_FEATURE_SELECT: u64 = 0x24;
    pub(super) const QUEUE_SELECT: u64 = 0x30;
    pub(super) const QUEUE_SIZE_LIMIT: u64 = 0x34;
    pub(super) const QUEUE_SIZE: u64 = 0x38;
    pub(super) const QUEUE_READY: u64 = 0x44;
    pub(super) const QUEUE_NOTIFY: u64 = 0x50;
    pub(super) const INTERRUPT_STATUS: u64 = 0x60;
    pub(super) const INTERRUPT_ACKNOWLEDGE: u64 = 0x64;
    pub(super) const STATUS: u64 = 0x70;
    pub(super) const QUEUE_ADDRESSES: [u64; 3] = [0x80, 0x90, 0xa0];
    pub(super) const CONFIGURATION: u64 = 0x100;
}

/// Bytes of PCI's common configuration.
pub(crate) const COMMON_BYTES: u64 = common::BYTES;

impl Device {
    /// The device that was found as the `number`-th; its interrupt, if it has one, comes as `vector` on the first CPU.
    pub(crate) fn new(number: usize, kind: Kind, transport: Transport, vector: Option<u8>) -> Self {
        Self { number, kind, transport, vector, doorbells: [0; QUEUES] }
    }

    /// Its place among the devices of the machine, counted from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Vector of its interrupt; none: it must be polled.
    pub fn vector(&self) -> Option<u8> {
        self.vector
    }

    /// Resets it: it forgets its queues and touches no memory any more.
    pub fn reset(&mut self) -> Result<(), DeviceError> {
        self.begin_reset();
        let done = (0..RESET_PATIENCE).any(|_| self.is_reset());
        if done { Ok(()) } else { Err(DeviceError::NoReset) }
    }

    /// Asks for a reset and does not wait for it.
    pub fn begin_reset(&mut self) {
        self.set_status(0);
    }

    /// Whether it is reset: it has no queue and touches no memory.
    pub fn is_reset(&self) -> bool {
        self.status() == 0
    }

    /// Takes back any chain that it had before its reset: its token; `ended` gets the pins of its pages. None: it is
    /// not reset, or had no more.
    pub fn take_back<S: BorrowMut<[Slot]>>(&self, queue: &mut Virtqueue<S>, ended: impl FnMut(Pinned)) -> Option<u64> {
        if self.is_reset() { queue.take_back(ended) } else { None }
    }

    /// Resets it and agrees on those of the wanted features that it has; returns them.
    pub fn start(&mut self, wanted: u64) -> Result<u64, DeviceError> {
        self.start_choosing(|_| wanted)
    }

    /// The same, where what is wanted depends on what is offered.
    pub fn start_choosing(&mut self, wanted: impl FnOnce(u64) -> u64) -> Result<u64, DeviceError> {
        self.reset()?;
        self.set_status(STATUS_ACKNOWLEDGE | STATUS_DRIVER);
        let offered = self.offered();
        let features = offered & (wanted(offered) | FEATURE_VERSION_1);
        if features & FEATURE_VERSION_1 == 0 {
            return Err(DeviceError::Features);
        }
        self.accept(features);
        self.set_status(STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK);
        let accepted = self.status() & STATUS_FEATURES_OK != 0;
        if accepted { Ok(features) } else { Err(DeviceError::Features) }
    }

    /// Makes queue `index`, after [`Self::start`], with as many entries as the device and `slots` have room for.
    /// `slots` are the records of its descriptors.
    pub fn make_queue<S: BorrowMut<[Slot]>>(
        &mut self,
        index: u16,
        memory: &mut BootMemory,
        slots: S,
    ) -> Result<Virtqueue<S>, DeviceError> {
        let limit = self.select_queue(index).min(slots.borrow().len() as u32);
        if limit == 0 || usize::from(index) >= QUEUES {
            return Err(DeviceError::Queue);
        }
        let entries = 1 << limit.ilog2();
        let rings = memory.allocate_zeroed(virtqueue::pages(entries)).ok_or(DeviceError::NoMemory)?;
        // SAFETY: the pages were just taken for this queue, for ever; the device learns of them in the next line.
        let queue = unsafe { Virtqueue::new(rings, direct(rings), entries, slots) };
        self.attach(index, &queue)?;
        Ok(queue)
    }

    /// Empties a queue that was made before and gives it to the device anew, after another [`Self::start`].
    pub fn remake_queue<S: BorrowMut<[Slot]>>(
        &mut self,
        index: u16,
        queue: &mut Virtqueue<S>,
    ) -> Result<(), DeviceError> {
        queue.clear();
        if self.select_queue(index) < u32::from(queue.entries()) {
            return Err(DeviceError::Queue);
        }
        self.attach(index, queue)
    }

    /// Tells the device that all its queues are there.
    pub fn go(&mut self) {
        self.set_status(STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK | STATUS_DRIVER_OK);
    }

    /// Makes the device look at a queue.
    pub fn notify(&self, queue: u16) {
        match &self.transport {
            Transport::Pci { notify, .. } => notify.write(self.doorbells[usize::from(queue)], queue),
            Transport::Memory(block) => block.write(memory::QUEUE_NOTIFY, u32::from(queue)),
        }
    }

    /// Lets the device raise its interrupt line again. Messages need no such thing.
    pub fn acknowledge_interrupt(&self) {
        if let Transport::Memory(block) = &self.transport {
            let status: u32 = block.read(memory::INTERRUPT_STATUS);
            block.write(memory::INTERRUPT_ACKNOWLEDGE, status & 3);
        }
    }

    /// A word of its configuration; 0 where it has none there.
    pub fn configuration(&self, offset: u64) -> u32 {
        match &self.transport {
            Transport::Pci { configuration: Some(registers), .. } if offset + 4 <= registers.length() => {
                registers.read(offset)
            }
            Transport::Pci { .. } => 0,
            Transport::Memory(block) => block.read(memory::CONFIGURATION + offset),
        }
    }

    fn status(&self) -> u8 {
        match &self.transport {
            Transport::Pci { common, .. } => common.read(common::STATUS),
            Transport::Memory(block) => block.read::<u32>(memory::STATUS) as u8,
        }
    }

    fn set_status(&self, status: u8) {
        match &self.transport {
            Transport::Pci { common, .. } => common.write(common::STATUS, status),
            Transport::Memory(block) => block.write(memory::STATUS, u32::from(status)),
        }
    }

    fn offered(&self) -> u64 {
        let (registers, select, value) = match &self.transport {
            Transport::Pci { common, .. } => (common, common::DEVICE_FEATURE_SELECT, common::DEVICE_FEATURE),
            Transport::Memory(block) => (block, memory::DEVICE_FEATURE_SELECT, memory::DEVICE_FEATURE),
        };
        let half = |number: u32| {
            registers.write(select, number);
            u64::from(registers.read::<u32>(value))
        };
        half(0) | half(1) << 32
    }

    fn accept(&self, features: u64) {
        let (registers, select, value) = match &self.transport {
            Transport::Pci { common, .. } => (common, common::DRIVER_FEATURE_SELECT, common::DRIVER_FEATURE),
            Transport::Memory(block) => (block, memory::DRIVER_FEATURE_SELECT, memory::DRIVER_FEATURE),
        };
        for half in 0..2u32 {
            registers.write(select, half);
            registers.write(value, (features >> (32 * half)) as u32);
        }
    }

    /// Makes the queue registers those of queue `index`; returns the most entries it can have, 0 if there is no such
    /// queue.
    fn select_queue(&self, index: u16) -> u32 {
        match &self.transport {
            Transport::Pci { common, .. } => {
                common.write(common::QUEUE_SELECT, index);
                u32::from(common.read::<u16>(common::QUEUE_SIZE))
            }
            Transport::Memory(block) => {
                block.write(memory::QUEUE_SELECT, u32::from(index));
                block.read(memory::QUEUE_SIZE_LIMIT)
            }
        }
    }

    /// Gives the device the queue that is selected.
    fn attach<S: BorrowMut<[Slot]>>(&mut self, index: u16, queue: &Virtqueue<S>) -> Result<(), DeviceError> {
        let write_addresses = |registers: &Registers, places: [u64; 3]| {
            for (place, address) in places.into_iter().zip(queue.addresses()) {
                registers.write(place, address as u32);
                registers.write(place + 4, (address >> 32) as u32);
            }
        };
        match &self.transport {
            Transport::Pci { common, notify, multiplier, .. } => {
                let doorbell = u64::from(common.read::<u16>(common::QUEUE_NOTIFY)) * u64::from(*multiplier);
                if doorbell + 2 > notify.length() || !doorbell.is_multiple_of(2) {
                    return Err(DeviceError::Queue);
                }
                self.doorbells[usize::from(index)] = doorbell;
                common.write(common::CONFIGURATION_VECTOR, common::NO_VECTOR);
                common.write(common::QUEUE_VECTOR, if self.vector.is_some() { 0 } else { common::NO_VECTOR });
                common.write(common::QUEUE_SIZE, queue.entries());
                write_addresses(common, common::QUEUE_ADDRESSES);
                common.write(common::QUEUE_ENABLE, 1u16);
            }
            Transport::Memory(block) => {
                block.write(memory::QUEUE_SIZE, u32::from(queue.entries()));
                write_addresses(block, memory::QUEUE_ADDRESSES);
                block.write(memory::QUEUE_READY, 1u32);
            }
        }
        Ok(())
    }
}
