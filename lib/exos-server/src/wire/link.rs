//! The card as the device of a stack, and the bytes that the stack sends.
//!
//! Few bytes of a program are copied out of its page. Many lie in its larger area, and are sent from there: the program
//! gets the room back when the other machine has acknowledged them. They are copied later where more is on its way than
//! the area holds. A program that changes them meanwhile harms its own connection alone.
//!
//! Invariants:
//! - `queued` is the number of bytes of all copies;
//! - the area of a chunk that is lent is mapped until the stack releases the chunk, or it is copied.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use exos::hw::card::Card;
use exos::hw::mapping::Mapping;
use linux_abi::address_map::PAGE_SIZE;
use network::checksum::Sum;
use network::link::{EthernetAddress, Extent, Full, Link, Pages, Part};
use network::slab::Slab;
use runtime::Failure;
use runtime::packet::Frame;

/// Bytes that the stack may send again.
#[derive(Debug)]
enum Chunk {
    Copied(Box<[u8]>),
    /// They begin at an offset in the larger area of a socket.
    Lent(Mapping, u64),
}

#[derive(Debug)]
pub(super) struct CardLink {
    pub(super) card: Card,
    /// By the page of their extents.
    chunks: Slab<Chunk>,
    pub(super) queued: usize,
}

impl CardLink {
    pub(super) fn new(card: Card) -> Self {
        Self { card, chunks: Slab::default(), queued: 0 }
    }

    /// Keeps bytes until the stack releases them.
    pub(super) fn keep(&mut self, bytes: Box<[u8]>) -> Extent {
        self.queued += bytes.len();
        let (length, sum) = (bytes.len() as u32, Sum::of(&bytes));
        self.add(Chunk::Copied(bytes), length, Some(sum))
    }

    /// Takes bytes of an area that stays mapped until the stack releases them, or [`Self::copy_out`] copies them.
    pub(super) fn borrow(&mut self, area: &Mapping, offset: u64, length: u64) -> Extent {
        self.add(Chunk::Lent(area.clone(), offset), length as u32, None)
    }

    /// Copies what is lent of extents: their area may change then.
    pub(super) fn copy_out<'e>(&mut self, extents: impl Iterator<Item = &'e Extent>) {
        for extent in extents {
            let Some(chunk) = self.chunks.at_mut(extent.page as u32) else { continue };
            if let Chunk::Lent(area, offset) = chunk {
                let mut bytes = vec![0; extent.length as usize];
                let _ = area.read(*offset, &mut bytes);
                self.queued += bytes.len();
                *chunk = Chunk::Copied(bytes.into());
            }
        }
    }

    fn add(&mut self, chunk: Chunk, length: u32, sum: Option<Sum>) -> Extent {
        let page = self.chunks.insert(chunk).index().into();
        Extent { page, offset: 0, length, sum }
    }

    fn chunk(&self, part: Part) -> Option<&Chunk> {
        self.chunks.at(part.page as u32)
    }
}

/// The sum of bytes in an area, which others may write: each word is read once.
fn sum_in(area: &Mapping, offset: u64, length: u64) -> Sum {
    let end = offset + length;
    let words = area.words().get((offset / 8) as usize..end.div_ceil(8) as usize).unwrap_or_default();
    let (before, after) = (u64::MAX << (8 * (offset % 8)), u64::MAX >> (8 * (end.wrapping_neg() % 8)));
    let sum = |words: &[AtomicU64], mask: u64| Sum::of_words(words, |word| word.load(Relaxed) & mask);
    let all = match words {
        [] => Sum::ZERO,
        [_] => sum(words, before & after),
        [first @ .., last] => {
            let (first, middle) = first.split_at(1);
            sum(first, before).combine(sum(middle, u64::MAX)).combine(sum(core::slice::from_ref(last), after))
        }
    };
    all.shifted(offset as usize)
}

/// Bytes of a copied chunk.
fn bytes_in(chunk: &[u8], part: Part) -> &[u8] {
    let begin = part.offset as usize;
    chunk.get(begin..begin + part.length as usize).unwrap_or_default()
}

/// Appends a part to a frame: by a copy, or a segment for each page that it lies in.
fn append(frame: &mut Frame<'_, Mapping>, chunk: &Chunk, part: Part) -> Result<(), Failure> {
    let (area, offset) = match chunk {
        Chunk::Copied(bytes) => return frame.copy(bytes_in(bytes, part)),
        Chunk::Lent(area, offset) => (area, offset + u64::from(part.offset)),
    };
    let (mut at, end) = (offset, offset + u64::from(part.length));
    while at < end
        && let Some(page) = area.pages().get((at / PAGE_SIZE) as usize)
    {
        let bytes = (end - at).min(PAGE_SIZE - at % PAGE_SIZE);
        frame.lend(*page, at % PAGE_SIZE, bytes)?;
        at += bytes;
    }
    Ok(())
}

impl Pages for CardLink {
    fn sum(&self, part: Part) -> Sum {
        match self.chunk(part) {
            Some(Chunk::Copied(bytes)) => Sum::of(bytes_in(bytes, part)),
            Some(Chunk::Lent(area, offset)) => sum_in(area, offset + u64::from(part.offset), part.length.into()),
            None => Sum::ZERO,
        }
    }

    fn append(&self, part: Part, to: &mut Vec<u8>) {
        match self.chunk(part) {
            Some(Chunk::Copied(bytes)) => to.extend_from_slice(bytes_in(bytes, part)),
            Some(Chunk::Lent(area, offset)) => {
                let first = to.len();
                to.resize(first + part.length as usize, 0);
                let _ = area.read(offset + u64::from(part.offset), &mut to[first..]);
            }
            None => {}
        }
    }

    fn release(&mut self, extent: Extent) {
        if let Some(Chunk::Copied(bytes)) = self.chunks.remove(extent.page as u32) {
            self.queued -= bytes.len();
        }
    }
}

impl Link for CardLink {
    fn hardware_address(&self) -> EthernetAddress {
        EthernetAddress(self.card.address())
    }

    fn mtu(&self) -> usize {
        self.card.mtu()
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        self.card.ring.receive(frame)
    }

    fn has_room(&self) -> bool {
        self.card.ring.has_room()
    }

    fn send(&mut self, head: &[u8], parts: &[Part]) -> Result<(), Full> {
        let chunks = &self.chunks;
        let fill = |frame: &mut Frame<'_, Mapping>| {
            let mut known = parts.iter().filter_map(|part| Some((chunks.at(part.page as u32)?, *part)));
            known.try_for_each(|(chunk, part)| append(frame, chunk, part))
        };
        if self.card.send(head, fill) { Ok(()) } else { Err(Full) }
    }
}
