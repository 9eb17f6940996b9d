//! Sending: headers are copied, then compared with a template, then sent from the copy; payload goes by reference.
//!
//! A call only reads the state of the kernel, so nothing that it has looked up changes before it ends. It looks up its
//! ring once, and a filter once for frames that name it in a row.
//!
//! Invariants:
//! - every word of a send slot is read once, before it is checked;
//! - the copy lies in the kernel's buffer of frames ([`Network::frame`]), where no program and no device writes;
//! - what a filter's template fixes is in the copied header, and no offload writes there.

use crate::cost;
use crate::interface;
use crate::interrupt;
use crate::kernel::{Kernel, Outcome, refuse};
use crate::key::permit;
use crate::packet_filter::{Filter, Network};
use crate::packet_ring::{Ring, SlotWords};
use crate::page::access_list;
use abi::capability::Rights;
use abi::interface::{InterfaceInfo, LOOPBACK};
use abi::limits::{PAGE_SIZE, SEND_HEADER, SEND_HEADER_LEAST, SEND_ROWS, SEND_SEGMENTS};
use abi::{Error, KeyIndex, PageNumber};
use core::sync::atomic::Ordering;
use machine::dma::DeviceBuffer;
use machine::exposed::add;
use machine::memory::{self, Numbered};
use machine::packet::{Offload, PREFIX, Received};
use packet_filter::{ABOUT_ATOMS, FIXED_WORDS, Template, first_byte};

/// Words of a slot before its header, and before its segments.
const HEADER_WORD: usize = 4;
pub(crate) const SEGMENT_WORD: usize = HEADER_WORD + SEND_HEADER / 8;
/// In the detail of `BadArgument`: the counts of a slot, its offload, a segment.
const BAD_COUNTS: u64 = 256;
const BAD_OFFLOAD: u64 = 257;
pub(crate) const BAD_SEGMENT: u64 = 258;
/// Where a frame begins in the kernel's buffer of frames.
pub(crate) const FRAME: usize = PREFIX;
/// Kinds of segmentation (virtio 1.2, section 5.1.6).
const SEGMENTATIONS: [u8; 2] = [1, 4];

/// A filter that the caller's key opens, and the record of its interface if that is open.
type Allowed<'a> = (&'a Filter, Option<&'static InterfaceInfo>);

/// What a call has looked up, with the filter of the last frame.
struct Sender<'a> {
    key: KeyIndex,
    network: &'a Network,
    page: PageNumber,
    ring: &'a Ring,
    /// The access list of the ring, by which the key gives *write*.
    list: PageNumber,
    last: Option<Allowed<'a>>,
}

/// A slot that was read, but for its segments. Its header was copied.
pub(crate) struct Order<'a> {
    pub(crate) slot: usize,
    pub(crate) words: SlotWords<'a>,
    pub(crate) offload: Offload,
    /// Bytes of the header.
    pub(crate) length: usize,
    pub(crate) segments: usize,
}

impl Kernel {
    /// Sends frames of a ring (see `abi::syscall`).
    pub(crate) fn send_packets(&mut self, key: KeyIndex, ring: PageNumber, first: u64, count: u64) -> Outcome<u64> {
        let sent = self.send_slots(key, ring, first, count)?;
        self.notify_cards();
        interrupt::wake_all_idle();
        Ok(sent)
    }

    fn send_slots(&self, key: KeyIndex, page: PageNumber, first: u64, count: u64) -> Outcome<u64> {
        let ring_of = |page: Numbered| Some((page.info(), self.memory.get_by::<Ring>(page)?, self.network.as_deref()?));
        let Some((info, ring, network)) = memory::numbered(page).and_then(ring_of) else {
            self.key(key)?;
            self.network()?;
            return self.writable_ring(key, page).and(refuse(Error::Gone, page.0));
        };
        let list = access_list(info);
        permit(self.rights_on_list(key, list)?, Rights::WRITE)?;
        if count > SEND_ROWS {
            return refuse(Error::TooMany, SEND_ROWS);
        }
        if ring.ended {
            return refuse(Error::Gone, page.0);
        }
        let slots = ring.send_slots as u64;
        if first >= slots || count > slots || count == 0 {
            return refuse(Error::BadArgument, if count == 0 { 3 } else { 2 });
        }
        let mut sender = Sender { key, network, page, ring, list, last: None };
        let (mut sent, mut slot) = (0, first);
        while sent < count && !(sent > 0 && self.is_spent()) {
            match self.send_slot(&mut sender, slot as usize) {
                Ok(()) => sent += 1,
                Err(stop) if sent == 0 => return Err(stop),
                Err(_) => break,
            }
            slot = if slot + 1 < slots { slot + 1 } else { 0 };
        }
        Ok(sent)
    }

    /// Sends the frame of one slot.
    #[inline(always)]
    fn send_slot<'a>(&'a self, sender: &mut Sender<'a>, slot: usize) -> Outcome<()> {
        if !self.has_room_for(cost::SEND + cost::CLASSIFY + cost::DELIVER) {
            return refuse(Error::Again, 0);
        }
        self.spend(cost::SEND);
        let Some(words) = sender.ring.send_slot(slot) else { return refuse(Error::Gone, slot as u64) };
        let (state, number, offload, counts) = (words.read(0), words.read(1), words.read(2), words.read(3));
        if state != 1 {
            return refuse(Error::BadArgument, 2);
        }
        let (length, segments) = ((counts & 0xff) as usize, (counts >> 8) as usize);
        if !(SEND_HEADER_LEAST..=SEND_HEADER).contains(&length) || segments > SEND_SEGMENTS {
            return refuse(Error::BadArgument, BAD_COUNTS);
        }
        let offload = offload_of(offload, length)?;
        let (filter, info) = match sender.last {
            Some(last) if last.0.number == number => last,
            _ => self.allowed_filter(sender, number)?,
        };
        copy_header(&words, length, &offload, &filter.template, &sender.network.frame)?;
        let Some(info) = info.filter(|info| interface::offers(info, &offload)) else {
            return refuse(Error::Absent, filter.interface);
        };
        let order = || Order { slot, words, offload, length, segments };
        if filter.interface != LOOPBACK {
            return self.send_on_card(sender.key, sender.page, sender.network, &order(), filter.interface);
        }
        let length = if segments == 0 { length } else { self.assemble(sender.key, sender.network, &order(), info)? };
        add(&info.sent, 1);
        add(&info.sent_bytes, length as u64);
        let piece = sender.network.frame.piece(FRAME, length);
        let frame = Received { interface: LOOPBACK, pieces: &[piece], offload };
        self.receive_by(info, sender.network, &frame, length);
        sender.ring.note_sent(Some(words), true);
        Ok(())
    }

    /// The record of a filter that the caller may send by, and that of its interface if it is open.
    #[inline(always)]
    fn allowed_filter<'a>(&'a self, sender: &mut Sender<'a>, number: u64) -> Outcome<Allowed<'a>> {
        let filter = sender.network.tree.node(sender.network.tree.installed(number)?);
        if filter.attached.list != sender.list {
            permit(self.rights_on_list(sender.key, filter.attached.list)?, Rights::WRITE)?;
        }
        Ok(*sender.last.insert((filter, interface::open_record(filter.interface).ok())))
    }

    /// Puts the segments of a frame to the machine itself behind its header; the length of the frame.
    #[inline(never)]
    fn assemble(&self, key: KeyIndex, network: &Network, order: &Order<'_>, info: &InterfaceInfo) -> Outcome<usize> {
        let most = info.frame_bytes.load(Ordering::Relaxed) as usize;
        let mut length = order.length;
        for index in 0..order.segments {
            let (page, offset, size) = segment(order.words.read(SEGMENT_WORD + index), index)?;
            self.readable(key, page)?;
            if length + size > most {
                return refuse(Error::BadArgument, BAD_SEGMENT + index as u64);
            }
            // The bytes so far, and all of them once more when they are delivered.
            let bytes = |count: usize| (count / cost::BYTES_PER_UNIT) as u32;
            self.spend(cost::SEGMENT + bytes(size));
            if !self.has_room_for(bytes(length + size) + cost::DELIVER) {
                return refuse(Error::Again, index as u64);
            }
            network.frame.write_from_page(FRAME + length, page, offset, size);
            length += size;
        }
        Ok(length)
    }
}

/// Page, offset and bytes of a segment.
pub(crate) fn segment(word: u64, index: usize) -> Outcome<(PageNumber, usize, usize)> {
    let (page, offset, bytes) = (PageNumber(word & 0xffff_ffff), (word >> 32 & 0xfff) as usize, (word >> 44) as usize);
    if bytes == 0 || offset + bytes > PAGE_SIZE as usize {
        return refuse(Error::BadArgument, BAD_SEGMENT + index as u64);
    }
    Ok((page, offset, bytes))
}

/// What a slot asks of the device. It concerns the header alone, which is copied.
#[inline(always)]
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

/// Copies a header. Fails unless the copy is one that the filter allows, and stays it.
#[inline(always)]
fn copy_header(
    slot: &SlotWords<'_>,
    length: usize,
    offload: &Offload,
    template: &Template,
    to: &DeviceBuffer,
) -> Outcome<()> {
    if template.end() > length {
        return refuse(Error::NotPermitted, ABOUT_ATOMS + length as u64);
    }
    let mut differs = 0;
    to.write_words::<FIXED_WORDS>(FRAME, |index| {
        let word = slot.read(HEADER_WORD + index);
        differs |= template.differs(index, word);
        word
    });
    if length > FIXED_WORDS * 8 {
        let rest = |index| slot.read(HEADER_WORD + FIXED_WORDS + index);
        to.write_words::<{ SEND_HEADER / 8 - FIXED_WORDS }>(FRAME + FIXED_WORDS * 8, rest);
    }
    if differs != 0 {
        return refuse(Error::NotPermitted, ABOUT_ATOMS + first_difference(template, to) as u64);
    }
    let at = usize::from(offload.start) + usize::from(offload.offset);
    if offload.partial
        && let Some(byte) = [at, at + 1].into_iter().find(|byte| template.fixes(*byte))
    {
        return refuse(Error::NotPermitted, ABOUT_ATOMS + byte as u64);
    }
    Ok(())
}

/// The first byte of the copy of a header that is not what the filter fixes.
#[cold]
fn first_difference(template: &Template, copy: &DeviceBuffer) -> usize {
    let words = core::array::from_fn(|index| {
        let mut word = [0; 8];
        copy.read(FRAME + index * 8, &mut word);
        template.differs(index, u64::from_ne_bytes(word))
    });
    first_byte(words).unwrap_or_default()
}
