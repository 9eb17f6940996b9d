//! A native program on the wire: it answers questions for its address and pings, under filters of its own.
//!
//! The peer of the card asks and compares the answers; it says goodbye when it has all of them.
#![no_std]
#![no_main]

extern crate alloc;

#[expect(dead_code, reason = "the guest `packets` uses the rest")]
#[path = "packets/wire.rs"]
mod wire;

use abi::packet_filter::{Atom, FilterSpecification, ROOT};
use abi::packet_ring::SendSlot;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use runtime::address_space::Access;
use runtime::page::Allocator;
use runtime::window::Window;
use runtime::{PageNumber, clock, syscall, time_slice};
use test_programs::{Outcome, World, check, granted, guest};
use wire::{KEY, KIND, Ring, equal, filter_in, filter_to, insert};

guest! {
    Here pings_from_the_wire_are_answered;
}

/// The first card.
const CARD: u64 = 1;
/// Its address, as the harness gives it, and the one that is asked for.
const OWN: [u8; 6] = [2, 0, 0, 0, 9, 2];
const OWN_IP: [u8; 4] = [10, 9, 0, 2];
const ARP: u16 = 0x0806;
const IP: u16 = 0x0800;
/// Bytes of a header at most.
const HEADER: usize = abi::limits::SEND_HEADER;
const LIMIT: u64 = 60_000_000_000;

/// What goes out, and what lies beyond its header.
struct Sender {
    filter: u64,
    page: PageNumber,
    rest: Window,
}

impl Sender {
    fn new(filter: u64) -> Result<Self, String> {
        let mut pages = [PageNumber::NONE];
        granted!(Allocator::own().allocate_many(&mut pages));
        Ok(Self { filter, page: pages[0], rest: granted!(Window::open(&pages, KEY, Access::WRITE)) })
    }

    /// Sends a frame, when the one before it is gone.
    fn send(&self, ring: &Ring, frame: &[u8]) -> Outcome {
        while ring.window.words()[ring.send_word(0)].load(Acquire) != 0 {
            time_slice::yield_now();
        }
        let (header, rest) = frame.split_at(frame.len().min(HEADER));
        for (word, bytes) in self.rest.words().iter().zip(rest.chunks(8)) {
            let mut all = [0; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(all), SeqCst);
        }
        let segment = [SendSlot::segment(self.page, 0, rest.len() as u64)];
        let sent = granted!(ring.send(self.filter, header, if rest.is_empty() { &[] } else { &segment }));
        check!(sent == 1, "{sent} frames were taken");
        Ok(())
    }
}

/// The answer to a question for the own address.
fn answer_address(frame: &[u8]) -> Option<Vec<u8>> {
    let is_question = frame.len() >= 42 && frame[20..22] == [0, 1] && frame[38..42] == OWN_IP;
    let (asker, fixed) = (&frame[6..12], [8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    is_question.then(|| [asker, &OWN, &fixed, &OWN, &OWN_IP, &frame[22..32], &[0; 18]].concat())
}

/// The answer to a ping.
fn answer_ping(frame: &[u8]) -> Option<Vec<u8>> {
    if frame.len() < 42 || frame[30..34] != OWN_IP || frame[34] != 8 {
        return None;
    }
    let mut answer = [&frame[6..12], &OWN, &frame[12..26], &frame[30..34], &frame[26..30], &frame[34..]].concat();
    // The kind changes from 8 to 0, and the sum with it (RFC 1624).
    let sum = u32::from(u16::from_be_bytes([frame[36], frame[37]])) + 0x0800;
    answer[34] = 0;
    answer[36..38].copy_from_slice(&((sum + (sum >> 16)) as u16).to_be_bytes());
    Some(answer)
}

fn pings_from_the_wire_are_answered(_: &World) -> Outcome {
    granted!(syscall::network_open(KEY, CARD, 1));
    let mut ring = Ring::new(32, 8)?;
    let card = Atom { size: 2, mask: 0xffff, low: CARD as u32, ..Atom::default() };
    let on_card = |wanted: FilterSpecification| insert(KEY, &FilterSpecification { interface: CARD, ..wanted });
    let root = granted!(on_card(filter_in(ROOT, &[card])));
    for kind in [ARP, IP, KIND] {
        granted!(on_card(filter_to(&ring, root, &[card, equal(2, 12, u32::from(kind))])));
    }
    let (sender, end) = (Sender::new(root)?, clock::now() + LIMIT);
    let mut answered = 0;
    while clock::now() < end {
        let Some(frame) = ring.take() else {
            time_slice::yield_now();
            continue;
        };
        let answer = match frame.bytes.get(12..14) {
            Some([0x08, 0x06]) => answer_address(&frame.bytes),
            Some([0x08, 0x00]) => answer_ping(&frame.bytes),
            Some([0x88, 0xb5]) => break,
            _ => None,
        };
        if let Some(answer) = answer {
            sender.send(&ring, &answer)?;
            answered += 1;
        }
    }
    check!(clock::now() < end && answered > 40, "{answered} answers before the peer said goodbye");
    Ok(())
}
