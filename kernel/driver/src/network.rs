//! The virtio network card (virtio 1.2, section 5.1): frames into buffers of the kernel, frames out of pages of
//! programs.
//!
//! A card has one queue for each direction. The buffers that frames arrive in are pages of the kernel, which no program
//! maps; a long frame takes several. What is sent is a header, copied into memory of the driver, and pinned pages. The
//! device interrupts for frames that arrive. Transmissions that ended are reaped by the next call, and by the clock.
//! Offloads are what the device offers, and nothing is emulated.
//!
//! A device that breaks the rules of a queue, or keeps a transmission for too long, is reset: all its transmissions end
//! with an error, then it is started anew. After [`RESETS`] resets within a second it is left alone (FAULTS row 75).
//!
//! Invariants:
//! - a page of a transmission stays pinned until the device is done with it or is reset;
//! - a device that does not come out of its reset keeps its pages pinned for ever, because it may still read them;
//! - whatever a device says about a frame, the pieces of the frame lie in buffers that it was given.

use abi::device::State;
use abi::limits::TRANSFER_PATIENCE;
use abi::{EnvironmentId, PageNumber};
use core::sync::atomic::{AtomicU64, Ordering};
use machine::boot::Boot;
use machine::boot_memory::BootMemory;
use machine::dma::{DeviceBuffer, Direction, Part, Pinned, Segment};
use machine::layout::PAGE_SIZE;
use machine::lock::TurnLock;
use machine::packet::{Card, Offload, Origin, Outgoing, Piece, Received};
use machine::virtio::{Device, DeviceError, Kind};
use machine::virtqueue::{Broken, Slot, Virtqueue};

/// Cards of a machine at most.
pub const CARDS: usize = 7;
/// Frames that a card sends at one time at most.
pub const SENDS: usize = 128;
/// Resets within a second after which a card is left alone.
pub const RESETS: usize = 3;
/// Bytes of the header of a frame to be sent at most.
pub const FRAME_HEADER: usize = 128;

/// Entries of a queue at most.
const ENTRIES: usize = 256;
/// Buffers for frames that arrive, one page each, and those of a machine with little memory.
const BUFFERS: usize = 128;
const FEW_BUFFERS: usize = 64;
/// Pages of such a machine.
const LITTLE_MEMORY: u64 = (128 << 20) / PAGE_SIZE;
/// Buffers of one frame at most: 64 KiB and headers.
const PIECES: usize = 17;

/// Numbers of the queues.
const RECEIVE: u16 = 0;
const SEND: u16 = 1;

/// Features.
const SEND_CHECKSUM: u64 = 1 << 0;
const RECEIVE_CHECKSUM: u64 = 1 << 1;
const MTU: u64 = 1 << 3;
const MAC: u64 = 1 << 5;
const RECEIVE_SEGMENTED_4: u64 = 1 << 7;
const RECEIVE_SEGMENTED_6: u64 = 1 << 8;
const RECEIVE_SEGMENTED: u64 = RECEIVE_SEGMENTED_4 | RECEIVE_SEGMENTED_6;
const SEND_SEGMENTED_4: u64 = 1 << 11;
const SEND_SEGMENTED_6: u64 = 1 << 12;
const SEND_SEGMENTED: u64 = SEND_SEGMENTED_4 | SEND_SEGMENTED_6;
const MERGE: u64 = 1 << 15;
const STATUS: u64 = 1 << 16;

/// Offsets in the configuration, of whole words: address, rest of the address and status, MTU in the high half.
const ADDRESS: u64 = 0;
const LINK: u64 = 4;
const LARGEST: u64 = 8;
/// Bytes that a frame has beyond the MTU, and the MTU of a device that names none.
const FRAME_EXTRA: usize = 14;
/// Bytes of a tag that an Ethernet frame may have in addition.
const FRAME_TAG: usize = 4;
const DEFAULT_MTU: usize = 1500;
/// The least MTU of any link.
const LEAST_MTU: usize = 68;

/// The header of virtio before each frame.
const HEADER: usize = 12;
const FLAG_PARTIAL: u8 = 1;
const FLAG_VERIFIED: u8 = 2;
/// Kinds of segmentation.
const SEGMENTED_4: u8 = 1;
const SEGMENTED_6: u8 = 4;
/// Memory of one transmission: virtio's header and that of the frame.
const SEND_BYTES: usize = (HEADER + FRAME_HEADER).next_multiple_of(16);
/// Pages of all of them, before the buffers.
const SEND_PAGES: usize = (SEND_BYTES * SENDS).div_ceil(PAGE_SIZE as usize);

/// Nanoseconds between two looks at a device that sends or is being reset, and those that a reset may take.
const LOOK: u64 = 1_000_000;
const RESET_PATIENCE: u64 = 1_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// What a card is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its place among the devices of the machine.
    pub device: usize,
    /// Its address on the link; zeros: it names none.
    pub address: [u8; 6],
    /// Bytes of a frame at most, without segmentation.
    pub frame: usize,
    /// It computes checksums of frames to be sent.
    pub sends_checksums: bool,
    /// It cuts frames to be sent into segments: kind 1 and kind 4 of virtio.
    pub segments: [bool; 2],
}

/// A transmission that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Whose frame it was.
    pub origin: Origin,
    /// The device has sent it.
    pub done: bool,
}

/// A transmission that the device has.
#[derive(Clone, Copy, Debug)]
struct Sending {
    origin: Origin,
    since: u64,
}

/// One card.
#[derive(Debug)]
pub struct Network {
    device: Device,
    /// Its number among the interfaces of the machine, from 1 on.
    interface: u64,
    receive: Virtqueue<&'static mut [Slot]>,
    send: Virtqueue<&'static mut [Slot]>,
    memory: DeviceBuffer,
    buffers: usize,
    sends: &'static mut [Option<Sending>],
    /// Places in `sends` that are free, the last `free` of them.
    places: [u8; SENDS],
    free: usize,
    /// Parts of a transmission at most, of those that the device has.
    largest: usize,
    /// Features agreed on.
    features: u64,
    /// Bytes of a frame that arrives, at most. Longer ones are dropped.
    longest: usize,
    /// Pieces of the frame that is being handed on, and the buffers that they lie in.
    pieces: [Piece; PIECES],
    taken: [u64; PIECES],
    state: State,
    /// Steps of a new beginning that are done, after a reset.
    steps: u8,
    /// Time of the last call that named it.
    now: u64,
    resets: u64,
    /// When the last resets began, the latest first.
    recent: [u64; RESETS],
}

static CARDS_FOUND: TurnLock<[Option<&'static mut Network>; CARDS]> = TurnLock::new([const { None }; CARDS]);
/// When some card must be looked at.
static DEADLINE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Takes every network card of the machine.
pub fn start(boot: &mut Boot) {
    let pages = boot.start.memory.pages();
    let buffers = if pages < LITTLE_MEMORY { FEW_BUFFERS } else { BUFFERS };
    let mut number = 0;
    while let Some(device) = boot.devices.take(Kind::Network) {
        if number == CARDS {
            machine::log!("more than {CARDS} network cards: the rest stays unused");
            return;
        }
        match Network::begin(device, number as u64 + 1, buffers, &mut boot.memory()) {
            Ok(card) => {
                CARDS_FOUND.lock()[number] = Some(card);
                number += 1;
            }
            Err(error) => machine::log!("a network card cannot be used: {error:?}"),
        }
    }
}

/// Does something with the card of an interface. `action` must not ask for a card itself.
pub fn with<T>(interface: u64, action: impl FnOnce(&mut Network) -> T) -> Option<T> {
    let number = usize::try_from(interface.checked_sub(1)?).ok()?;
    CARDS_FOUND.lock().get_mut(number)?.as_deref_mut().map(action)
}

/// The interface of the card that is the `device`-th device of the machine.
pub fn interface_of(device: usize) -> Option<u64> {
    let is_it = |card: &Option<&'static mut Network>| card.as_ref().is_some_and(|card| card.device.number() == device);
    CARDS_FOUND.lock().iter().position(is_it).map(|number| number as u64 + 1)
}

/// Cards of the machine.
pub fn count() -> usize {
    CARDS_FOUND.lock().iter().flatten().count()
}

/// An environment has died: what it sends is no one's.
pub fn disown(environment: EnvironmentId) {
    CARDS_FOUND.lock().iter_mut().flatten().for_each(|card| card.disown(environment));
}

/// When some card must be looked at; never: `u64::MAX`.
pub fn deadline() -> u64 {
    DEADLINE.load(Ordering::Relaxed)
}

/// Has all cards looked at, at a time or before it.
pub fn look_at(time: u64) {
    DEADLINE.fetch_min(time, Ordering::Relaxed);
}

/// Looks at the time that each card has had. Those that took too long are being reset after it.
pub fn check_time(now: u64) {
    let mut cards = CARDS_FOUND.lock();
    let next = cards.iter_mut().flatten().map(|card| card.check_time(now)).min();
    DEADLINE.store(next.unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Features to ask for. Segments can be received only where several buffers hold a frame.
const fn wanted(offered: u64) -> u64 {
    let mut wanted = MAC | STATUS | MTU | MERGE | SEND_CHECKSUM | RECEIVE_CHECKSUM;
    if offered & SEND_CHECKSUM != 0 {
        wanted |= SEND_SEGMENTED;
    }
    if offered & RECEIVE_CHECKSUM != 0 && offered & MERGE != 0 {
        wanted |= RECEIVE_SEGMENTED;
    }
    wanted
}

impl Network {
    fn begin(
        mut device: Device,
        interface: u64,
        buffers: usize,
        memory: &mut BootMemory<'_>,
    ) -> Result<&'static mut Self, DeviceError> {
        let features = device.start_choosing(wanted)?;
        let mut queue = |index| {
            let slots = memory.slice(ENTRIES, || Slot::EMPTY).ok_or(DeviceError::NoMemory)?;
            device.make_queue(index, memory, slots)
        };
        let (receive, send) = (queue(RECEIVE)?, queue(SEND)?);
        let buffers = buffers.min(receive.room());
        let pages = DeviceBuffer::allocate(memory, (SEND_PAGES + buffers) as u64).ok_or(DeviceError::NoMemory)?;
        let sends = memory.slice(SENDS, || None).ok_or(DeviceError::NoMemory)?;
        let mut card = Some(Self {
            device,
            interface,
            receive,
            send,
            memory: pages,
            buffers,
            sends,
            places: core::array::from_fn(|place| place as u8),
            free: SENDS,
            largest: 0,
            features,
            longest: 0,
            pieces: [Piece::default(); PIECES],
            taken: [0; PIECES],
            state: State::Working,
            steps: 0,
            now: 0,
            resets: 0,
            recent: [0; RESETS],
        });
        let make = || card.take().expect("one card is made");
        let card = memory.slice(1, make).and_then(|made| made.first_mut()).ok_or(DeviceError::NoMemory)?;
        card.go();
        Ok(card)
    }

    /// Gives the device its buffers and lets it go.
    fn go(&mut self) {
        let cut = self.features & RECEIVE_SEGMENTED != 0;
        self.longest = if cut { PIECES * PAGE_SIZE as usize } else { self.facts().frame + FRAME_TAG };
        (0..self.buffers as u64).for_each(|buffer| self.offer(buffer));
        self.send.suppress_interrupts(true);
        self.device.go();
        self.device.notify(RECEIVE);
    }

    /// What it is.
    pub fn facts(&self) -> Facts {
        let has = |bit: u64| self.features & bit != 0;
        let word = |offset| self.device.configuration(offset).to_le_bytes();
        let ([a, b, c, d], [e, f, ..]) = (word(ADDRESS), word(LINK));
        let mtu = if has(MTU) { self.device.configuration(LARGEST) as usize >> 16 } else { DEFAULT_MTU };
        let mtu = if mtu < LEAST_MTU { DEFAULT_MTU } else { mtu };
        Facts {
            device: self.device.number(),
            address: if has(MAC) { [a, b, c, d, e, f] } else { [0; 6] },
            frame: mtu + FRAME_EXTRA,
            sends_checksums: has(SEND_CHECKSUM),
            segments: [has(SEND_SEGMENTED_4), has(SEND_SEGMENTED_6)],
        }
    }

    /// Parts of a transmission at most, of those that have not ended.
    pub fn largest(&self) -> usize {
        self.largest
    }

    /// What it does.
    pub fn state(&self) -> State {
        self.state
    }

    /// Times that it was reset.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// Lets the device interrupt again.
    pub fn acknowledge_interrupt(&self) {
        self.device.acknowledge_interrupt();
    }

    /// Asks the device for no interrupts of frames that arrive, or for them again. Frames that arrived meanwhile must
    /// be looked for then.
    pub fn suppress_interrupts(&self, suppress: bool) {
        self.receive.suppress_interrupts(suppress);
    }

    /// First byte of a buffer in the memory of the card.
    const fn buffer(index: u64) -> usize {
        (SEND_PAGES + index as usize) * PAGE_SIZE as usize
    }

    /// Gives the device a buffer.
    fn offer(&mut self, buffer: u64) {
        let page = self.memory.segment(Self::buffer(buffer), PAGE_SIZE as usize, Direction::FromDevice);
        let offered = self.receive.offer(buffer, &[page]);
        assert!(offered, "the queue has an entry for each buffer");
    }

    /// Bytes of a frame that arrives, at most.
    pub fn longest_frame(&self) -> usize {
        self.longest
    }

    /// Hands the next frame that has arrived to `action`, which must not ask for a card. None: there is no frame.
    /// False: it was too long, and was dropped. The buffers are the device's again when this returns; the device learns
    /// of them by [`Self::notify_buffers`].
    pub fn receive(&mut self, now: u64, action: impl FnOnce(&Received<'_>)) -> Option<bool> {
        self.now = now;
        if self.state != State::Working {
            return None;
        }
        let Ok(arrived) = self.collect() else {
            self.begin_reset(now);
            return None;
        };
        let (count, offload) = arrived?;
        let pieces = &self.pieces[..count];
        let fits = pieces.iter().map(Piece::length).sum::<usize>() <= self.longest;
        if fits {
            action(&Received { interface: self.interface, pieces, offload });
        }
        (0..count).for_each(|index| self.offer(self.taken[index]));
        Some(fits)
    }

    /// Tells the device of the buffers that are its again.
    pub fn notify_buffers(&self) {
        if self.receive.wants_notification() {
            self.device.notify(RECEIVE);
        }
    }

    /// Takes the next frame out of the queue: how many pieces it has, and its claims. A frame of no bytes, or of parts
    /// that are missing, breaks the rules.
    fn collect(&mut self) -> Result<Option<(usize, Offload)>, Broken> {
        let Some(first) = self.receive.take(drop)? else { return Ok(None) };
        let length = first.length as usize;
        if length <= HEADER {
            return Err(Broken);
        }
        let mut header = [0; HEADER];
        self.memory.read(Self::buffer(first.token), &mut header);
        let count = if self.features & MERGE == 0 { 1 } else { usize::from(half(&header, 10)) };
        if !(1..=PIECES).contains(&count) {
            return Err(Broken);
        }
        self.taken[0] = first.token;
        self.pieces[0] = self.memory.piece(Self::buffer(first.token) + HEADER, length - HEADER);
        let mut bytes = length - HEADER;
        for index in 1..count {
            let more = self.receive.take(drop)?.ok_or(Broken)?;
            self.taken[index] = more.token;
            self.pieces[index] = self.memory.piece(Self::buffer(more.token), more.length as usize);
            bytes += more.length as usize;
        }
        Ok(Some((count, self.claims(&header, bytes))))
    }

    /// What the device says about a frame of so many bytes. What makes no sense, or was not agreed on, is no claim.
    fn claims(&self, header: &[u8; HEADER], bytes: usize) -> Offload {
        let (flags, kind) = (header[0], header[1]);
        let [segment, start, offset] = [4, 6, 8].map(|place| half(header, place));
        let partial = flags & FLAG_PARTIAL != 0;
        let inside = usize::from(start) + usize::from(offset) + 2 <= bytes;
        let segmented = [SEGMENTED_4, SEGMENTED_6].contains(&kind) && partial && segment != 0;
        let agreed = match kind {
            0 => RECEIVE_CHECKSUM,
            SEGMENTED_4 => RECEIVE_SEGMENTED_4,
            _ => RECEIVE_SEGMENTED_6,
        };
        if self.features & agreed == 0 || (partial && !inside) || (kind != 0 && !segmented) {
            return Offload::default();
        }
        let verified = flags & FLAG_VERIFIED != 0;
        let claim = Offload {
            verified,
            segmentation: kind,
            segment: if segmented { segment } else { 0 },
            ..Offload::default()
        };
        if partial { Offload { partial, start, offset, ..claim } } else { claim }
    }

    /// The next transmission that has ended; `ended` gets the pins of its pages. After a reset the card begins anew, a
    /// step a call.
    pub fn finish(&mut self, now: u64, ended: impl FnMut(Pinned)) -> Option<Sent> {
        self.now = now;
        match self.state {
            State::Working => match self.send.take(ended) {
                Ok(done) => self.ended(done?.token, true),
                Err(Broken) => {
                    self.begin_reset(now);
                    None
                }
            },
            State::Resetting if self.steps > 0 => {
                self.restart();
                None
            }
            State::Resetting if self.device.is_reset() => match self.device.take_back(&mut self.send, ended) {
                Some(place) => self.ended(place, false),
                None => {
                    self.restart();
                    None
                }
            },
            State::Resetting => None,
            // What it may still read stays pinned; what waits is told.
            State::Dead | State::Unused => {
                let place = self.sends.iter().position(Option::is_some)?;
                self.ended(place as u64, false)
            }
        }
    }

    fn ended(&mut self, place: u64, done: bool) -> Option<Sent> {
        let sending = self.sends[place as usize].take()?;
        self.places[self.free] = place as u8;
        self.free += 1;
        if self.free == SENDS {
            self.largest = 0;
        }
        Some(Sent { origin: sending.origin, done })
    }

    /// Resets the card, if it has had a page for so long. Called for environments under enforcement.
    pub fn give_up_on(&mut self, page: PageNumber, now: u64, patience: u64) {
        let holder = self.send.holder_of(page).and_then(|place| self.sends[place as usize]);
        if self.state == State::Working && holder.is_some_and(|sending| now >= sending.since + patience) {
            self.begin_reset(now);
        }
    }

    fn disown(&mut self, environment: EnvironmentId) {
        let own = self.sends.iter_mut().flatten().filter(|sending| sending.origin.sender == environment);
        own.for_each(|sending| sending.origin.sender = EnvironmentId::NONE);
    }

    /// Begins a reset if a transmission took too long; when it must be looked at again.
    fn check_time(&mut self, now: u64) -> u64 {
        self.now = now;
        match self.state {
            State::Dead | State::Unused => u64::MAX,
            State::Working if self.free == SENDS => u64::MAX,
            State::Working => {
                let oldest = self.sends.iter().flatten().map(|sending| sending.since).min();
                if oldest.is_some_and(|oldest| now >= oldest + TRANSFER_PATIENCE) {
                    self.begin_reset(now);
                }
                now + LOOK
            }
            State::Resetting => {
                if now >= self.recent[0] + RESET_PATIENCE && self.steps == 0 && !self.device.is_reset() {
                    self.die();
                }
                now + LOOK
            }
        }
    }

    fn begin_reset(&mut self, now: u64) {
        machine::log!("network card {}: reset", self.interface);
        (self.state, self.steps) = (State::Resetting, 0);
        self.resets += 1;
        self.recent.rotate_right(1);
        self.recent[0] = now;
        self.device.begin_reset();
        DEADLINE.store(now, Ordering::Relaxed);
    }

    /// Every transmission has its error, and the device no queue: the next step of a new beginning. All steps at once
    /// would be too much for one kernel entry.
    fn restart(&mut self) {
        let often = self.resets >= RESETS as u64 && self.recent[0] - self.recent[RESETS - 1] < SECOND;
        let step = match self.steps {
            _ if often => return self.die(),
            0 => self.device.start_choosing(wanted).map(|features| self.features = features),
            1 => self.device.remake_queue(RECEIVE, &mut self.receive),
            2 => self.device.remake_queue(SEND, &mut self.send),
            _ => {
                self.state = State::Working;
                self.go();
                Ok(())
            }
        };
        match step {
            Ok(()) => self.steps += 1,
            Err(_) => self.die(),
        }
    }

    fn die(&mut self) {
        machine::log!("network card {}: left alone", self.interface);
        self.state = State::Dead;
        self.device.begin_reset();
    }
}

impl Card for Network {
    fn room(&self, parts: usize) -> usize {
        if self.state == State::Working { self.free.min(self.send.room() / (1 + parts)) } else { 0 }
    }

    fn send<P: ExactSizeIterator<Item = Part>>(&mut self, frame: Outgoing<P>) {
        self.free = self.free.checked_sub(1).expect("there is room for the frame");
        let place = usize::from(self.places[self.free]);
        self.sends[place] = Some(Sending { origin: frame.origin, since: self.now });
        let at = place * SEND_BYTES;
        self.memory.write(at, &header_of(&frame.offload, frame.header.length()));
        self.memory.write_piece(at + HEADER, &frame.header);
        let head = self.memory.segment(at, HEADER + frame.header.length(), Direction::ToDevice);
        let part = |segment: Segment| core::iter::once(Part::from(segment));
        let count = frame.parts.len() + 1;
        self.largest = self.largest.max(frame.parts.len());
        let offered = self.send.offer_parts(place as u64, count, part(head).chain(frame.parts));
        assert!(offered, "there is room for the frame");
        DEADLINE.fetch_min(self.now + LOOK, Ordering::Relaxed);
    }

    fn notify(&mut self) {
        if self.send.wants_notification() {
            self.device.notify(SEND);
        }
    }
}

/// Virtio's header of a frame to be sent, whose own header has so many bytes.
fn header_of(offload: &Offload, length: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let mut put = |place: usize, value: u16| header[place..place + 2].copy_from_slice(&value.to_le_bytes());
    if offload.segmentation != 0 {
        put(2, length as u16);
        put(4, offload.segment);
    }
    if offload.partial {
        put(6, offload.start);
        put(8, offload.offset);
    }
    (header[0], header[1]) = (u8::from(offload.partial), offload.segmentation);
    header
}

fn half(header: &[u8; HEADER], place: usize) -> u16 {
    u16::from_le_bytes([header[place], header[place + 1]])
}

#[cfg(test)]
mod tests;
