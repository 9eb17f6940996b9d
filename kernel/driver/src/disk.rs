//! The virtio block device (virtio 1.2, section 5.2): reads and writes straight from and to pages of programs, flushes.
//!
//! The header and the status byte of each request lie in a page of the driver. The kernel's own record says which
//! environment asked and where the result goes. Everything is bounded and nothing waits. A device that breaks the
//! rules of its queue, or keeps a request for too long, is reset: all its requests end with an error, then it is
//! started anew. After [`RESETS`] such events it is left alone (FAULTS row 75).
//!
//! Invariants:
//! - a page of a request stays pinned until the device is done with it or is reset;
//! - a device that does not come out of its reset keeps its pages pinned for ever, because it may still write them.

use abi::device::{SECTOR, State, feature, operation, status};
use abi::limits::{DEVICES, TRANSFER_PATIENCE, TRANSFER_PIECES};
use abi::{EnvironmentId, PageNumber};
use core::sync::atomic::{AtomicU64, Ordering};
use machine::boot::Boot;
use machine::boot_memory::BootMemory;
use machine::dma::{DeviceBuffer, Direction, Part, Pinned, Segment};
use machine::lock::TurnLock;
use machine::virtio::{Device, DeviceError, Kind};
use machine::virtqueue::{Broken, Slot, Virtqueue};

/// Requests that a disk has at most.
pub const REQUESTS: usize = 64;
/// Descriptors of the queue at most.
pub const ENTRIES: usize = 256;
/// How often a device may be reset.
pub const RESETS: u64 = 8;

const HEADER: usize = 16;
/// Where the status bytes stand in the page, behind the headers.
const STATUS: usize = REQUESTS * HEADER;
/// Descriptors of a request beyond its pieces: header and status byte.
const FRAME: usize = 2;
const QUEUE: u16 = 0;

/// Features.
const SEGMENT_LIMIT: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 5;
const BLOCK_SIZE: u64 = 1 << 6;
const FLUSH: u64 = 1 << 9;
const WANTED: u64 = SEGMENT_LIMIT | READ_ONLY | BLOCK_SIZE | FLUSH;

/// Offsets in the configuration.
const CAPACITY: u64 = 0;
const SEGMENTS: u64 = 12;
const BLOCK: u64 = 20;

/// Types of request, and what the status byte says.
const TYPE_READ: u32 = 0;
const TYPE_WRITE: u32 = 1;
const TYPE_FLUSH: u32 = 4;
const ANSWER_DONE: u8 = 0;
const ANSWER_UNSUPPORTED: u8 = 2;
const NO_ANSWER: u8 = 0xff;

/// Nanoseconds between two looks at a device that is being reset or cannot interrupt, and those that a reset may take.
const LOOK: u64 = 1_000_000;
const RESET_PATIENCE: u64 = 1_000_000_000;

/// What a disk is.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Its place among the devices of the machine.
    pub device: usize,
    /// Bytes.
    pub capacity: u64,
    /// Bytes of a block.
    pub block: u64,
    /// Bits of [`abi::device::feature`].
    pub features: u64,
    /// Pieces of a request at most.
    pub pieces: usize,
}

/// A request for the device.
#[derive(Debug)]
pub struct Order {
    /// Its [`operation`].
    pub operation: u64,
    /// First byte on the disk.
    pub place: u64,
    /// The environment that asks.
    pub asked_by: EnvironmentId,
    /// The page of the status word. None: the kernel asks for itself.
    pub status: Option<Pinned>,
    /// The index of the status word, or what the kernel asks about.
    pub word: usize,
    /// Device pins, with that of the status word.
    pub pins: u64,
    /// Nanoseconds since boot.
    pub now: u64,
}

/// A request that has ended.
#[derive(Debug)]
pub struct Finished {
    /// What was asked.
    pub order: Order,
    /// A value of [`abi::device::status`].
    pub outcome: u64,
}

/// One disk.
#[derive(Debug)]
pub struct Disk {
    device: Device,
    queue: Virtqueue<&'static mut [Slot]>,
    page: DeviceBuffer,
    requests: &'static mut [Option<Order>],
    /// Places in `requests`, those that are free at first: so many.
    places: [u8; REQUESTS],
    free: usize,
    facts: Facts,
    state: State,
    /// When the reset began.
    since: u64,
    resets: u64,
}

static DISKS: TurnLock<[Option<&'static mut Disk>; DEVICES]> = TurnLock::new([const { None }; DEVICES]);
/// When some disk must be looked at.
static DEADLINE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Takes every disk of the machine.
pub fn start(boot: &mut Boot) {
    let mut number = 0;
    while let Some(device) = boot.devices.take(Kind::Block) {
        match Disk::begin(device, &mut boot.memory()) {
            Ok(disk) => {
                DISKS.lock()[number] = Some(disk);
                number += 1;
            }
            Err(error) => machine::log!("a virtio disk cannot be used: {error:?}"),
        }
    }
}

/// Does something with the disk of this number.
pub fn with<T>(number: usize, action: impl FnOnce(&mut Disk) -> T) -> Option<T> {
    DISKS.lock().get_mut(number)?.as_deref_mut().map(action)
}

/// The number of the disk that is the `device`-th of the machine.
pub fn number_of(device: usize) -> Option<usize> {
    let is_it = |disk: &Option<&'static mut Disk>| disk.as_ref().is_some_and(|disk| disk.facts.device == device);
    DISKS.lock().iter().position(is_it)
}

/// When some disk must be looked at; never: `u64::MAX`.
pub fn deadline() -> u64 {
    DEADLINE.load(Ordering::Relaxed)
}

/// Looks at the time that each disk has had. Those that took too long are being reset after it.
pub fn check_time(now: u64) {
    let mut disks = DISKS.lock();
    let next = disks.iter_mut().flatten().map(|disk| disk.check_time(now)).min();
    DEADLINE.store(next.unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Disks of the machine.
pub fn count() -> usize {
    DISKS.lock().iter().flatten().count()
}

/// Resets a disk, if it has had a page for so long. Called for environments under enforcement.
pub fn give_up_on(number: usize, page: PageNumber, now: u64, patience: u64) {
    with(number, |disk| disk.give_up_on(page, now, patience));
}

/// The environment is gone: its requests go on without an owner.
pub fn disown(environment: EnvironmentId) {
    for disk in DISKS.lock().iter_mut().flatten() {
        let own = disk.requests.iter_mut().flatten().filter(|order| order.asked_by == environment);
        own.for_each(|order| order.asked_by = EnvironmentId::NONE);
    }
}

impl Disk {
    fn begin(mut device: Device, memory: &mut BootMemory<'_>) -> Result<&'static mut Self, DeviceError> {
        let offered = device.start(WANTED)?;
        let slots = memory.slice(ENTRIES, || Slot::EMPTY).ok_or(DeviceError::NoMemory)?;
        let queue = device.make_queue(QUEUE, memory, slots)?;
        let page = DeviceBuffer::allocate(memory, 1).ok_or(DeviceError::NoMemory)?;
        let requests = memory.slice(REQUESTS, || None).ok_or(DeviceError::NoMemory)?;
        let facts = facts(&device, offered, queue.room());
        if facts.pieces == 0 {
            return Err(DeviceError::Queue);
        }
        device.go();
        let mut disk = Some(Self {
            device,
            queue,
            page,
            requests,
            places: core::array::from_fn(|place| place as u8),
            free: REQUESTS,
            facts,
            state: State::Working,
            since: 0,
            resets: 0,
        });
        let make = || disk.take().expect("one disk is made");
        memory.slice(1, make).and_then(|made| made.first_mut()).ok_or(DeviceError::NoMemory)
    }

    /// What it is.
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// What it does.
    pub fn state(&self) -> State {
        self.state
    }

    /// Times that it was reset.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// Requests that it can take now, and pieces of pages if there is one request.
    pub fn room(&self) -> (usize, usize) {
        if self.state != State::Working {
            return (0, 0);
        }
        (self.free.min(self.queue.room() / FRAME), self.queue.room().saturating_sub(FRAME))
    }

    /// Whether it works and has no request.
    pub fn is_idle(&self) -> bool {
        self.state == State::Working && self.free == REQUESTS
    }

    /// Whether it can take so many requests with so many pieces in all.
    pub fn has_room(&self, requests: usize, pieces: usize) -> bool {
        requests <= self.room().0 && pieces + requests * FRAME <= self.queue.room()
    }

    /// Takes a request, for which there is room. The device learns of it by [`Self::notify`].
    pub fn submit(&mut self, order: Order, pieces: impl ExactSizeIterator<Item = Part>) {
        self.free = self.free.checked_sub(1).expect("there is room for the request");
        let index = usize::from(self.places[self.free]);
        let kind = match order.operation {
            operation::READ => TYPE_READ,
            operation::WRITE => TYPE_WRITE,
            _ => TYPE_FLUSH,
        };
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[8..].copy_from_slice(&(order.place / SECTOR).to_le_bytes());
        self.page.write(index * HEADER, &header);
        self.page.write(STATUS + index, &[NO_ANSWER]);
        let head = self.page.segment(index * HEADER, HEADER, Direction::ToDevice);
        let tail = self.page.segment(STATUS + index, 1, Direction::FromDevice);
        DEADLINE.fetch_min(order.now + self.patience(), Ordering::Relaxed);
        self.requests[index] = Some(order);
        let part = |segment: Segment| core::iter::once(Part::from(segment));
        let count = pieces.len() + FRAME;
        let offered = self.queue.offer_parts(index as u64, count, part(head).chain(pieces).chain(part(tail)));
        assert!(offered, "there is room for the request");
    }

    /// Tells the device of the requests that it was given.
    pub fn notify(&self) {
        self.device.notify(QUEUE);
    }

    /// Lets the device interrupt again.
    pub fn acknowledge_interrupt(&self) {
        self.device.acknowledge_interrupt();
    }

    /// The next request that has ended; `ended` gets the pins of its pages. A reset that is over is finished, too.
    pub fn finish(&mut self, now: u64, ended: impl FnMut(Pinned)) -> Option<Finished> {
        match self.state {
            State::Working => match self.queue.take(ended) {
                Ok(done) => self.answered(done?.token),
                Err(Broken) => {
                    self.begin_reset(now);
                    None
                }
            },
            State::Resetting if self.device.is_reset() => match self.device.take_back(&mut self.queue, ended) {
                Some(token) => self.ended(token, status::RESET),
                None => {
                    self.restart();
                    None
                }
            },
            State::Resetting => None,
            // What it may still write stays pinned; what waits is told.
            State::Dead | State::Unused => {
                let token = self.requests.iter().position(Option::is_some)?;
                self.ended(token as u64, status::RESET)
            }
        }
    }

    /// A request to which the device has answered.
    fn answered(&mut self, token: u64) -> Option<Finished> {
        let mut answer = [NO_ANSWER];
        self.page.read(STATUS + token as usize, &mut answer);
        let outcome = match answer[0] {
            ANSWER_DONE => status::DONE,
            ANSWER_UNSUPPORTED => status::UNSUPPORTED,
            _ => status::FAILED,
        };
        self.ended(token, outcome)
    }

    fn ended(&mut self, token: u64, outcome: u64) -> Option<Finished> {
        let order = self.requests[token as usize].take()?;
        self.places[self.free] = token as u8;
        self.free += 1;
        Some(Finished { order, outcome })
    }

    /// Nanoseconds until it must be looked at after a request.
    fn patience(&self) -> u64 {
        if self.device.vector().is_some() { TRANSFER_PATIENCE } else { LOOK }
    }

    /// Begins a reset if a request took too long; when it must be looked at again.
    fn check_time(&mut self, now: u64) -> u64 {
        let oldest = self.requests.iter().flatten().map(|order| order.now).min();
        match (self.state, oldest) {
            (State::Working, None) | (State::Dead | State::Unused, _) => u64::MAX,
            (State::Working, Some(oldest)) if now >= oldest + TRANSFER_PATIENCE => {
                self.begin_reset(now);
                now + LOOK
            }
            (State::Working, Some(_)) if self.device.vector().is_none() => now + LOOK,
            (State::Working, Some(oldest)) => oldest + TRANSFER_PATIENCE,
            (State::Resetting, _) => {
                if now >= self.since + RESET_PATIENCE && !self.device.is_reset() {
                    self.die();
                }
                now + LOOK
            }
        }
    }

    fn give_up_on(&mut self, page: PageNumber, now: u64, patience: u64) {
        let holder = self.queue.holder_of(page).and_then(|token| self.requests[token as usize].as_ref());
        if self.state == State::Working && holder.is_some_and(|order| now >= order.now + patience) {
            self.begin_reset(now);
        }
    }

    fn begin_reset(&mut self, now: u64) {
        machine::log!("disk {}: reset", self.facts.device);
        (self.state, self.since) = (State::Resetting, now);
        self.resets += 1;
        self.device.begin_reset();
        DEADLINE.store(now, Ordering::Relaxed);
    }

    /// Every request has its error, and the device no queue: it begins anew.
    fn restart(&mut self) {
        let started = self.resets <= RESETS && self.make_anew().is_ok();
        if started { self.state = State::Working } else { self.die() }
    }

    fn make_anew(&mut self) -> Result<(), DeviceError> {
        self.device.start(WANTED)?;
        self.device.remake_queue(QUEUE, &mut self.queue)?;
        self.device.go();
        Ok(())
    }

    fn die(&mut self) {
        machine::log!("disk {}: left alone", self.facts.device);
        self.state = State::Dead;
        self.device.begin_reset();
    }
}

fn facts(device: &Device, offered: u64, room: usize) -> Facts {
    let sectors = u64::from(device.configuration(CAPACITY)) | u64::from(device.configuration(CAPACITY + 4)) << 32;
    let has = |bit: u64| offered & bit != 0;
    let block = if has(BLOCK_SIZE) { u64::from(device.configuration(BLOCK)) } else { SECTOR };
    let segments = if has(SEGMENT_LIMIT) { device.configuration(SEGMENTS) as usize } else { 1 };
    let bits = [(READ_ONLY, feature::READ_ONLY), (FLUSH, feature::FLUSH)];
    Facts {
        device: device.number(),
        capacity: sectors.min(u64::MAX / SECTOR) * SECTOR,
        block: if block.is_power_of_two() && block >= SECTOR { block } else { SECTOR },
        features: bits.into_iter().filter(|(bit, _)| has(*bit)).map(|(_, feature)| feature).sum(),
        pieces: segments.min(room.saturating_sub(FRAME)).min(TRANSFER_PIECES),
    }
}

#[cfg(test)]
mod tests;
