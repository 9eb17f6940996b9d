//! The virtio block device (virtio 1.2, section 5.2): reads and writes straight from and to pages of programs, flushes.
//!
//! The header and the status byte of each request lie in a page of the driver. The kernel's own record says which
//! environment asked and where the result goes. Everything is bounded and nothing waits. A device that breaks the
//! rules of its queue, or keeps a request for too long, is reset: all its requests end with an error, then it is
//! started anew. After [`RESETS`] such events it is left alone (FAULTS row 75).
//!
//! The device has [`AT_ONCE`] requests at most; others wait in `requests.rs`, which sorts and joins them.
//!
//! Invariants:
//! - a page of a request stays pinned until the device is done with it or is reset;
//! - a device that does not come out of its reset keeps its pages pinned for ever, because it may still write them.

mod requests;

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
use requests::Requests;

/// Requests that a disk has at most, with those that wait.
pub const REQUESTS: usize = 64;
/// Parts of their pages, with those that wait.
pub const PARTS: usize = requests::PARTS;
/// Requests that the device has at once. Each further one waits, and may go together with others then.
const AT_ONCE: usize = 8;
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
    requests: Requests,
    /// Groups of them that the device has, and whether the last one of these goes once more.
    out: usize,
    is_again_out: bool,
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
        disk.requests.disown(environment);
    }
}

impl Disk {
    fn begin(mut device: Device, memory: &mut BootMemory<'_>) -> Result<&'static mut Self, DeviceError> {
        let offered = device.start(WANTED)?;
        let slots = memory.slice(ENTRIES, || Slot::EMPTY).ok_or(DeviceError::NoMemory)?;
        let queue = device.make_queue(QUEUE, memory, slots)?;
        let page = DeviceBuffer::allocate(memory, 1).ok_or(DeviceError::NoMemory)?;
        let requests = Requests::begin(memory).ok_or(DeviceError::NoMemory)?;
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
            out: 0,
            is_again_out: false,
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

    /// Requests that it can take now, and parts of pages.
    pub fn room(&self) -> (usize, usize) {
        if self.state == State::Working { self.requests.room() } else { (0, 0) }
    }

    /// Whether it works and has no request.
    pub fn is_idle(&self) -> bool {
        self.room().0 == REQUESTS
    }

    /// Whether it can take so many requests with so many parts in all.
    pub fn has_room(&self, requests: usize, parts: usize) -> bool {
        let room = self.room();
        requests <= room.0 && parts <= room.1
    }

    /// Takes a request, for which there is room. It waits until [`Self::go_on`].
    pub fn submit(&mut self, order: Order, parts: impl Iterator<Item = Part>) {
        DEADLINE.fetch_min(order.now + self.patience(), Ordering::Relaxed);
        self.requests.add(order, parts);
    }

    /// Gives the device what waits, as far as it has little to do.
    pub fn go_on(&mut self) {
        let before = self.out;
        while self.state == State::Working && self.out < AT_ONCE {
            // What goes once more goes alone.
            if self.out > 0 && (self.requests.is_next_again() || self.is_again_out) {
                break;
            }
            let most = self.queue.room().saturating_sub(FRAME).min(self.facts.pieces);
            let Some(group) = self.requests.next(most) else { break };
            self.offer(group);
        }
        if self.out > before {
            self.device.notify(QUEUE);
        }
    }

    /// Offers a group of requests to the device, as one.
    fn offer(&mut self, group: u16) {
        let (index, order) = (usize::from(group), self.requests.order(group));
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
        let part = |segment: Segment| core::iter::once(Part::from(segment));
        let count = self.requests.parts(group) + FRAME;
        let parts = part(head).chain(self.requests.lend(group)).chain(part(tail));
        assert!(self.queue.offer_parts(index as u64, count, parts), "there is room for the request");
        self.out += 1;
        self.is_again_out = self.requests.is_again(group);
    }

    /// Lets the device interrupt again.
    pub fn acknowledge_interrupt(&self) {
        self.device.acknowledge_interrupt();
    }

    /// The next request that has ended; `ended` gets the pins of its pages, and perhaps those of others that ended with
    /// it. A reset that is over is finished, too.
    pub fn finish(&mut self, now: u64, mut ended: impl FnMut(Pinned)) -> Option<Finished> {
        loop {
            if let Some(finished) = self.requests.next_ended() {
                return Some(finished);
            }
            match self.state {
                State::Working => {
                    if !self.take_answer(now, &mut ended) {
                        return None;
                    }
                }
                State::Resetting if self.device.is_reset() => {
                    if let Some(group) = self.device.take_back(&mut self.queue, &mut ended) {
                        self.out -= 1;
                        self.requests.end(group as u16, status::RESET);
                    } else if let Some(finished) = self.requests.end_waiting(&mut ended) {
                        return Some(finished);
                    } else {
                        self.restart();
                        return None;
                    }
                }
                State::Resetting => return None,
                // What it may still write stays pinned; what waits is told.
                State::Dead | State::Unused => {
                    return self.requests.end_waiting(&mut ended).or_else(|| self.requests.end_lost());
                }
            }
        }
    }

    /// Takes an answer of the device, if there is one.
    fn take_answer(&mut self, now: u64, ended: impl FnMut(Pinned)) -> bool {
        let (mut pins, mut count) = ([const { None }; TRANSFER_PIECES], 0);
        let taken = self.queue.take(|pin| {
            pins[count] = Some(pin);
            count += 1;
        });
        let group = match taken {
            Ok(None) => return false,
            Ok(Some(answer)) => answer.token as u16,
            Err(Broken) => {
                self.begin_reset(now);
                return false;
            }
        };
        self.out -= 1;
        let pins = pins.into_iter().flatten();
        let outcome = self.answer(group);
        if outcome == status::FAILED && !self.requests.is_again(group) {
            self.requests.separate(group, pins);
        } else {
            pins.for_each(ended);
            self.requests.end(group, outcome);
        }
        true
    }

    /// What the device has answered to a group.
    fn answer(&self, group: u16) -> u64 {
        let mut answer = [NO_ANSWER];
        self.page.read(STATUS + usize::from(group), &mut answer);
        match answer[0] {
            ANSWER_DONE => status::DONE,
            ANSWER_UNSUPPORTED => status::UNSUPPORTED,
            _ => status::FAILED,
        }
    }

    /// Nanoseconds until it must be looked at after a request.
    fn patience(&self) -> u64 {
        if self.device.vector().is_some() { TRANSFER_PATIENCE } else { LOOK }
    }

    /// Begins a reset if a request took too long; when it must be looked at again.
    fn check_time(&mut self, now: u64) -> u64 {
        let oldest = self.requests.oldest();
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
        let since = match self.queue.holder_of(page) {
            Some(group) => Some(self.requests.order(group as u16).now),
            None => self.requests.waits_with(page).map(|order| order.now),
        };
        if self.state == State::Working && since.is_some_and(|since| now >= since + patience) {
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
