//! Sending: headers are copied, then compared with a template, then sent from the copy; payload goes by reference.
//!
//! Invariants:
//! - every word of a send slot is read once, before it is checked;
//! - what a filter's template fixes is in the copied header, and no offload writes there.

use crate::cost;
use crate::interface;
use crate::interrupt;
use crate::kernel::{Kernel, Outcome, refuse};
use crate::key::permit;
use crate::packet_filter::{ABOUT_ATOMS, Template};
use crate::packet_ring::Ring;
use abi::capability::Rights;
use abi::interface::LOOPBACK;
use abi::limits::{PAGE_SIZE, SEND_HEADER, SEND_HEADER_LEAST, SEND_ROWS, SEND_SEGMENTS};
use abi::{Error, KeyIndex, PageNumber};
use core::sync::atomic::Ordering;
use machine::exposed::add;
use machine::packet::{Offload, PREFIX, Received};

/// Words of a slot before its header, and before its segments.
const HEADER_WORD: usize = 4;
const SEGMENT_WORD: usize = HEADER_WORD + SEND_HEADER / 8;
/// In the detail of `BadArgument`: the counts of a slot, its offload, a segment.
const BAD_COUNTS: u64 = 256;
const BAD_OFFLOAD: u64 = 257;
pub(crate) const BAD_SEGMENT: u64 = 258;
/// Where a frame to the machine itself begins in its buffer.
const FRAME: usize = PREFIX;
/// Kinds of segmentation (virtio 1.2, section 5.1.6).
const SEGMENTATIONS: [u8; 2] = [1, 4];

/// A slot, read once. Behind the length of the header stands what was there before.
pub(crate) struct Order {
    filter: u64,
    pub(crate) offload: Offload,
    pub(crate) header: [u8; SEND_HEADER],
    pub(crate) length: usize,
    pub(crate) segments: usize,
}

/// A segment of a slot.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) page: PageNumber,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

impl Segment {
    /// Room for one.
    pub(crate) const NOTHING: Self = Self { page: PageNumber::NONE, offset: 0, bytes: 0 };
}

impl Kernel {
    /// Sends frames of a ring (see `abi::syscall`).
    pub(crate) fn send_packets(&mut self, key: KeyIndex, ring: PageNumber, first: u64, count: u64) -> Outcome<u64> {
        self.key(key)?;
        self.network()?;
        self.writable_ring(key, ring)?;
        if count > SEND_ROWS {
            return refuse(Error::TooMany, SEND_ROWS);
        }
        let slots = self.ring(ring)?.send_slots() as u64;
        if first >= slots || count > slots || count == 0 {
            return refuse(Error::BadArgument, if count == 0 { 3 } else { 2 });
        }
        let mut sent = 0;
        let mut order =
            Order { filter: 0, offload: Offload::default(), header: [0; SEND_HEADER], length: 0, segments: 0 };
        while sent < count && !(sent > 0 && self.is_spent()) {
            let slot = if first + sent < slots { first + sent } else { first + sent - slots };
            match self.send_slot(key, ring, slot as usize, &mut order) {
                Ok(()) => sent += 1,
                Err(stop) if sent == 0 => return Err(stop),
                Err(_) => break,
            }
        }
        self.notify_cards();
        interrupt::wake_all_idle();
        Ok(sent)
    }

    /// The record of a ring that has not ended.
    pub(crate) fn ring(&self, page: PageNumber) -> Outcome<&Ring> {
        match self.memory.get::<Ring>(page) {
            Some(ring) if !ring.has_ended() => Ok(ring),
            _ => refuse(Error::Gone, page.0),
        }
    }

    /// Sends the frame of one slot.
    fn send_slot(&mut self, key: KeyIndex, ring: PageNumber, slot: usize, order: &mut Order) -> Outcome<()> {
        if !self.has_room_for(cost::SEND + cost::CLASSIFY + cost::DELIVER) {
            return refuse(Error::Again, 0);
        }
        self.spend(cost::SEND);
        let pages = self.ring(ring)?;
        read_slot(pages, slot, order)?;
        let network = self.network()?;
        let filter = network.filter(network.installed(order.filter)?);
        permit(self.rights_on_list(key, filter.list)?, Rights::WRITE)?;
        check_header(order, &filter.template)?;
        let info = interface::open_record(filter.interface)?;
        if !interface::offers(info, &order.offload) {
            return refuse(Error::Absent, filter.interface);
        }
        if filter.interface != LOOPBACK {
            let interface = filter.interface;
            return self.send_on_card(key, (ring, slot), order, interface, info);
        }
        let (interface, most) = (filter.interface, info.frame_bytes.load(Ordering::Relaxed) as usize);
        let length = self.assemble(key, pages, slot, order, most)?;
        add(&info.sent, 1);
        add(&info.sent_bytes, length as u64);
        let piece = self.network()?.frame.piece(FRAME, length);
        self.receive(&Received { interface, pieces: &[piece], offload: order.offload });
        if let Some(ring) = self.memory.get_mut::<Ring>(ring) {
            ring.note_sent(slot, true);
        }
        Ok(())
    }

    /// Puts a frame to the machine itself together; its length.
    fn assemble(&self, key: KeyIndex, ring: &Ring, slot: usize, order: &Order, most: usize) -> Outcome<usize> {
        let buffer = &self.network()?.frame;
        let mut length = order.length;
        buffer.write(FRAME, &order.header[..length]);
        for index in 0..order.segments {
            let segment = read_segment(ring, slot, index)?;
            self.readable(key, segment.page)?;
            if length + segment.bytes > most {
                return refuse(Error::BadArgument, BAD_SEGMENT + index as u64);
            }
            // The bytes so far, and all of them once more when they are delivered.
            let bytes = |count: usize| (count / cost::BYTES_PER_UNIT) as u32;
            self.spend(cost::SEGMENT + bytes(segment.bytes));
            if !self.has_room_for(bytes(length + segment.bytes) + cost::DELIVER) {
                return refuse(Error::Again, index as u64);
            }
            buffer.write_from_page(FRAME + length, segment.page, segment.offset, segment.bytes);
            length += segment.bytes;
        }
        Ok(length)
    }
}

/// Reads a submitted slot, but for its segments.
fn read_slot(ring: &Ring, slot: usize, order: &mut Order) -> Outcome<()> {
    let Some((page, offset)) = ring.send_slot(slot) else { return refuse(Error::Gone, slot as u64) };
    let word = |index: usize| page.read(offset / 8 + index);
    if word(0) != 1 {
        return refuse(Error::BadArgument, 2);
    }
    let counts = word(3);
    let (length, segments) = ((counts & 0xff) as usize, (counts >> 8) as usize);
    if !(SEND_HEADER_LEAST..=SEND_HEADER).contains(&length) || segments > SEND_SEGMENTS {
        return refuse(Error::BadArgument, BAD_COUNTS);
    }
    (order.filter, order.length, order.segments) = (word(1), length, segments);
    order.offload = offload_of(word(2), length)?;
    page.copy_out(offset + HEADER_WORD * 8, &mut order.header[..length]);
    Ok(())
}

/// Reads a segment of a slot.
pub(crate) fn read_segment(ring: &Ring, slot: usize, index: usize) -> Outcome<Segment> {
    let Some((page, offset)) = ring.send_slot(slot) else { return refuse(Error::Gone, slot as u64) };
    let word = page.read(offset / 8 + SEGMENT_WORD + index);
    let (page, offset, bytes) = (PageNumber(word & 0xffff_ffff), (word >> 32 & 0xfff) as usize, (word >> 44) as usize);
    if bytes == 0 || offset + bytes > PAGE_SIZE as usize {
        return refuse(Error::BadArgument, BAD_SEGMENT + index as u64);
    }
    Ok(Segment { page, offset, bytes })
}

/// What a slot asks of the device. It concerns the header alone, which was copied.
fn offload_of(word: u64, header: usize) -> Outcome<Offload> {
    if word == 0 {
        return Ok(Offload::default());
    }
    let part = |shift: u32| (word >> shift) as u16;
    let offload = Offload {
        verified: false,
        partial: word >> 32 & 0xff == 1,
        start: part(0),
        offset: part(16),
        segmentation: (word >> 40) as u8,
        segment: part(48),
    };
    let ends = usize::from(offload.start) + usize::from(offload.offset) + 2;
    let is_whole = offload.partial && ends <= header;
    let is_cut = offload.segmentation == 0 && offload.segment == 0
        || SEGMENTATIONS.contains(&offload.segmentation) && offload.segment != 0;
    if word >> 32 & 0xff > 1 || !is_whole || !is_cut { refuse(Error::BadArgument, BAD_OFFLOAD) } else { Ok(offload) }
}

/// Fails unless a header is one that the filter allows, and stays it.
fn check_header(order: &Order, template: &Template) -> Outcome<()> {
    if template.end > order.length {
        return refuse(Error::NotPermitted, ABOUT_ATOMS + order.length as u64);
    }
    let first = order.header.first_chunk().expect("a header has 64 bytes");
    if let Some(byte) = template.differs(first) {
        return refuse(Error::NotPermitted, ABOUT_ATOMS + byte as u64);
    }
    if order.offload.partial {
        let at = usize::from(order.offload.start) + usize::from(order.offload.offset);
        if let Some(byte) = [at, at + 1].into_iter().find(|byte| template.fixes(*byte)) {
            return refuse(Error::NotPermitted, ABOUT_ATOMS + byte as u64);
        }
    }
    Ok(())
}
