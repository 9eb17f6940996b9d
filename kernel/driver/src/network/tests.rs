//! The driver of network cards against devices that work, that lie, and that do not answer.

use super::*;
use machine::host_machine::{self, Face, Rings};
use machine::memory::Generation;
use std::vec::Vec;

/// Words 0 and 1 of the configuration: the address 2:0:0:0:0:7, link up; then an MTU of 1,500.
const CONFIGURATION: [u8; 12] = [2, 0, 0, 0, 0, 7, 1, 0, 1, 0, 0xdc, 5];
const PLAIN: u64 = MAC | STATUS | MTU | MERGE | 1;
const ALL: u64 = PLAIN | SEND_CHECKSUM | RECEIVE_CHECKSUM | RECEIVE_SEGMENTED | SEND_SEGMENTED;

fn origin(slot: u64, sender: EnvironmentId) -> Origin {
    Origin { sender, ring: (PageNumber(0), Generation::FIRST), slot: slot as usize, pins: 0 }
}

/// What the end of a frame by environment 1 says.
fn sent(slot: u64, done: bool) -> Option<Sent> {
    Some(Sent { origin: origin(slot, EnvironmentId(1)), done })
}

struct Bench {
    card: &'static mut Network,
    /// What headers are sent from.
    frame: DeviceBuffer,
    face: Face,
    receive: Rings,
    send: Rings,
}

impl Bench {
    fn new(features: u64) -> Self {
        let (device, face) = host_machine::device(Kind::Network, features as u32, &CONFIGURATION);
        let mut map = host_machine::memory(200);
        let card = Network::begin(device, 1, BUFFERS, &mut BootMemory::new(&mut map)).expect("a good card");
        let frame = DeviceBuffer::allocate(&mut BootMemory::new(&mut map), 1).expect("there is room");
        frame.write(8, &[9; 60]);
        let (receive, send) = (Rings::of(&card.receive), Rings::of(&card.send));
        assert_eq!(face.notified(), Some(u32::from(RECEIVE)));
        Self { card, frame, face, receive, send }
    }

    /// The device has been reset: its queues begin anew.
    fn renew(&mut self) {
        (self.receive, self.send) = (Rings::of(&self.card.receive), Rings::of(&self.card.send));
    }

    /// Writes a part of a frame into the next buffer; its head and address.
    fn fill(&mut self, bytes: &[u8]) -> (u32, u64) {
        let head = self.receive.next_chain().expect("the card has buffers");
        let parts: Vec<_> = self.receive.parts(head).collect();
        assert!(parts.len() == 1 && parts[0].is_writable && parts[0].length == 4096);
        host_machine::write(parts[0].address, bytes);
        (u32::from(head), parts[0].address)
    }

    /// A frame of one buffer arrives; where.
    fn arrive(&mut self, header: [u8; HEADER], length: usize) -> u64 {
        let bytes: Vec<u8> = header.into_iter().chain(core::iter::repeat_n(0x55, length)).collect();
        let (head, address) = self.fill(&bytes);
        self.receive.answer(head, bytes.len() as u32);
        address
    }

    /// The lengths of the pieces of the next frame, and its claims.
    fn next(&mut self, now: u64) -> Option<(Vec<usize>, Offload)> {
        let mut found = None;
        self.card.receive(now, |frame| {
            frame.pieces[0].write_prefix(*b"filtered");
            found = Some((frame.pieces.iter().map(Piece::length).collect(), frame.offload));
        });
        found
    }

    fn give(&mut self, slot: u64, pages: &[u64]) {
        let parts = pages.iter().map(|page| Pinned::of_host(PageNumber(*page)).part(0, 100, Direction::ToDevice));
        assert!(self.card.room(pages.len()) > 0);
        let origin = origin(slot, EnvironmentId(1));
        self.card.send(Outgoing { header: self.frame.piece(8, 60), parts, offload: Offload::default(), origin });
    }

    /// The card begins anew after its reset.
    fn begin_anew(&mut self, now: u64) {
        while self.card.state() == State::Resetting {
            assert_eq!(self.finish(now), (std::vec![], None));
        }
        self.renew();
    }

    fn finish(&mut self, now: u64) -> (Vec<u64>, Option<Sent>) {
        let mut pins = Vec::new();
        let sent = self.card.finish(now, |pin| pins.push(pin.page().0));
        (pins, sent)
    }
}

fn header(count: u16) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[10..].copy_from_slice(&count.to_le_bytes());
    header
}

#[test]
fn a_card_takes_pages_for_what_it_has() {
    for (buffers, pages) in
        [(BUFFERS, 4 + 4 + SEND_PAGES + BUFFERS + 3), (FEW_BUFFERS, 4 + 4 + SEND_PAGES + FEW_BUFFERS + 3)]
    {
        let (device, _face) = host_machine::device(Kind::Network, PLAIN as u32, &CONFIGURATION);
        let mut map = host_machine::memory(pages as u64);
        assert!(Network::begin(device, 1, buffers, &mut BootMemory::new(&mut map)).is_ok());
        assert_eq!(BootMemory::new(&mut map).allocate(1), None);
    }
}

#[test]
fn a_card_says_what_it_is() {
    let facts = Bench::new(ALL).card.facts();
    assert_eq!((facts.address, facts.frame), ([2, 0, 0, 0, 0, 7], 1514));
    assert!(facts.sends_checksums && facts.segments == [true, true]);
    let facts = Bench::new(1).card.facts();
    assert_eq!((facts.address, facts.frame, facts.segments), ([0; 6], 1514, [false, false]));
}

#[test]
fn segments_are_asked_for_only_with_checksums_and_merged_buffers() {
    let all = SEND_SEGMENTED | RECEIVE_SEGMENTED;
    assert_eq!(wanted(MERGE) & all, 0);
    assert_eq!(wanted(MERGE | SEND_CHECKSUM) & all, SEND_SEGMENTED);
    assert_eq!(wanted(RECEIVE_CHECKSUM) & all, 0);
    assert_eq!(wanted(RECEIVE_CHECKSUM | MERGE) & all, RECEIVE_SEGMENTED);
}

#[test]
fn frames_arrive_and_their_buffers_go_back() {
    let mut bench = Bench::new(PLAIN);
    for round in 0..1000 {
        let address = bench.arrive(header(1), 60 + round);
        assert_eq!(bench.next(0), Some((std::vec![60 + round], Offload::default())));
        let mut prefix = [0; 8];
        host_machine::read(address + HEADER as u64 - 8, &mut prefix);
        assert_eq!(&prefix, b"filtered");
        assert_eq!(bench.next(0), None);
    }
    assert_eq!((bench.card.receive.room(), bench.card.resets()), (ENTRIES - BUFFERS, 0));
}

#[test]
fn a_long_frame_lies_in_several_buffers() {
    let mut bench = Bench::new(ALL);
    let bytes: Vec<u8> = header(3).into_iter().chain([1; 4084]).collect();
    let parts = [bytes, std::vec![2; 4096], std::vec![3; 10]].map(|bytes| (bench.fill(&bytes).0, bytes.len() as u32));
    parts.into_iter().for_each(|(head, length)| bench.receive.answer(head, length));
    assert_eq!(bench.next(0), Some((std::vec![4084, 4096, 10], Offload::default())));
    assert_eq!(bench.card.receive.room(), ENTRIES - BUFFERS);
}

#[test]
fn a_frame_that_is_too_long_is_dropped_and_no_fault_of_the_device() {
    let mut bench = Bench::new(PLAIN);
    bench.arrive(header(1), 1519);
    assert_eq!(bench.card.receive(0, |_| panic!("handed on")), Some(false));
    bench.arrive(header(1), 1518);
    assert_eq!(bench.next(0).map(|(lengths, _)| lengths), Some(std::vec![1518]));
    assert_eq!((bench.card.receive.room(), bench.card.resets()), (ENTRIES - BUFFERS, 0));
}

#[test]
fn the_device_is_told_of_buffers_unless_it_wants_to_know_nothing() {
    let bench = Bench::new(PLAIN);
    bench.receive.want_no_notification(true);
    bench.card.notify_buffers();
    assert_eq!(bench.face.notified(), None);
    bench.receive.want_no_notification(false);
    bench.card.notify_buffers();
    assert_eq!(bench.face.notified(), Some(u32::from(RECEIVE)));
    assert!(bench.send.is_silenced() && !bench.receive.is_silenced());
    bench.card.suppress_interrupts(true);
    assert!(bench.receive.is_silenced());
}

#[test]
fn what_a_dead_environment_sent_is_no_ones() {
    let mut bench = Bench::new(PLAIN);
    bench.give(5, &[7]);
    bench.card.disown(EnvironmentId(2));
    assert!(bench.card.sends.iter().flatten().all(|sending| sending.origin.sender == EnvironmentId(1)));
    bench.card.disown(EnvironmentId(1));
    let head = bench.send.next_chain().expect("it was given");
    bench.send.answer(u32::from(head), 0);
    let sent = Sent { origin: origin(5, EnvironmentId::NONE), done: true };
    assert_eq!(bench.finish(0), (std::vec![7], Some(sent)));
}

#[test]
fn frames_go_out_with_their_pages_and_the_pins_come_back() {
    let mut bench = Bench::new(PLAIN);
    for (slot, pages) in [(70, &[1, 2][..]), (71, &[]), (72, &[3])] {
        bench.give(slot, pages);
    }
    bench.send.want_no_notification(true);
    bench.card.notify();
    assert_eq!(bench.face.notified(), None);
    bench.send.want_no_notification(false);
    bench.card.notify();
    assert_eq!(bench.face.notified(), Some(u32::from(SEND)));
    let heads: Vec<u16> = core::iter::from_fn(|| bench.send.next_chain()).collect();
    let parts: Vec<_> = bench.send.parts(heads[0]).collect();
    assert_eq!(parts.iter().map(|part| part.length).collect::<Vec<_>>(), [72, 100, 100]);
    assert!(parts.iter().all(|part| !part.is_writable));
    let mut bytes = [0; 72];
    host_machine::read(parts[0].address, &mut bytes);
    assert_eq!(bytes, *[[0; 12].as_slice(), &[9; 60]].concat());
    assert_eq!((parts[1].address, parts[2].address), (0x1000, 0x2000));
    for head in [heads[2], heads[0], heads[1]] {
        bench.send.answer(u32::from(head), 0);
    }
    assert_eq!(bench.finish(0), (std::vec![3], sent(72, true)));
    assert_eq!(bench.finish(0), (std::vec![1, 2], sent(70, true)));
    assert_eq!(bench.finish(0), (std::vec![], sent(71, true)));
    assert_eq!(bench.finish(0), (std::vec![], None));
    assert_eq!((bench.card.room(0), bench.card.room(43)), (SENDS, ENTRIES / 44));
}

#[test]
fn the_header_says_what_the_device_is_to_do() {
    let offload = Offload { partial: true, start: 34, offset: 16, segmentation: 1, segment: 1448, verified: false };
    assert_eq!(header_of(&offload, 54), [1, 1, 54, 0, 0xa8, 5, 34, 0, 16, 0, 0, 0]);
    assert_eq!(header_of(&Offload::default(), 54), [0; HEADER]);
}

#[test]
fn claims_that_make_no_sense_are_none() {
    let mut bench = Bench::new(ALL);
    let good = Offload { partial: true, start: 34, offset: 16, segmentation: 1, segment: 1448, verified: false };
    let none = Offload::default();
    let verified = Offload { verified: true, ..none };
    for (flags, kind, segment, start, expected) in [
        (1, 1, 1448, 34, good),
        (1, 0, 1448, 34, Offload { segmentation: 0, segment: 0, ..good }),
        (2, 0, 0, 60_000, verified),
        (1, 1, 1448, 60_000, none),
        (1, 1, 1448, 43, none),
        (1, 1, 0, 34, none),
        (0, 1, 1448, 34, none),
        (1, 3, 1448, 34, none),
        (1, 0x81, 1448, 34, none),
        (2, 255, 1448, 34, none),
    ] {
        let mut header = header(1);
        (header[0], header[1]) = (flags, kind);
        for (place, value) in [(4, segment), (6, start), (8, 16u16)] {
            header[place..place + 2].copy_from_slice(&u16::to_le_bytes(value));
        }
        bench.arrive(header, 60);
        assert_eq!(bench.next(0), Some((std::vec![60], expected)), "flags {flags} kind {kind} start {start}");
    }
    // The same from a device with which nothing was agreed.
    let mut bench = Bench::new(PLAIN);
    bench.card.features &= !RECEIVE_CHECKSUM;
    bench.arrive([2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0], 60);
    assert_eq!(bench.next(0), Some((std::vec![60], none)));
}

/// What a device can do wrong with a frame.
fn lies() -> [fn(&mut Bench); 12] {
    [
        |bench| bench.receive.answer(200, 72),
        |bench| bench.receive.answer(256, 72),
        |bench| bench.receive.answer(u32::MAX, 72),
        |bench| bench.receive.answer(0, 4097),
        |bench| bench.receive.answer(0, u32::MAX),
        |bench| bench.receive.answer(0, HEADER as u32),
        |bench| bench.receive.answer(0, 0),
        |bench| {
            bench.arrive(header(0), 60);
        },
        |bench| {
            bench.arrive(header(2), 60);
        },
        |bench| {
            bench.arrive(header(18), 60);
        },
        |bench| {
            bench.arrive(header(u16::MAX), 60);
        },
        |bench| bench.receive.run_away(129),
    ]
}

#[test]
fn fault_75_a_card_that_lies_about_frames_is_reset_and_works_again() {
    for (index, lie) in lies().into_iter().enumerate() {
        let mut bench = Bench::new(PLAIN);
        bench.give(5, &[7, 8]);
        lie(&mut bench);
        assert_eq!(bench.next(0), None, "lie {index}");
        assert_eq!((bench.card.state(), bench.card.room(0)), (State::Resetting, 0), "lie {index}");
        assert_eq!(bench.finish(0), (std::vec![7, 8], sent(5, false)));
        bench.begin_anew(0);
        assert_eq!((bench.card.state(), bench.card.room(0), bench.card.resets()), (State::Working, SENDS, 1));
        bench.arrive(header(1), 60);
        assert!(bench.next(0).is_some() && bench.send.is_silenced(), "after lie {index}");
    }
}

#[test]
fn fault_75_a_card_that_lies_about_transmissions_is_reset() {
    let lies: [fn(&mut Bench); 5] = [
        |bench| bench.send.answer(1, 0),
        |bench| bench.send.answer(255, 0),
        |bench| bench.send.answer(1 << 16, 0),
        |bench| bench.send.answer(0, 1),
        |bench| bench.send.run_away(2),
    ];
    for (index, lie) in lies.into_iter().enumerate() {
        let mut bench = Bench::new(PLAIN);
        bench.give(5, &[7]);
        lie(&mut bench);
        assert_eq!(bench.finish(0), (std::vec![], None), "lie {index}");
        assert_eq!(bench.card.state(), State::Resetting, "lie {index}");
        assert_eq!(bench.finish(0), (std::vec![7], sent(5, false)));
    }
}

#[test]
fn fault_75_three_resets_in_a_second_take_a_card_away() {
    for (gap, state) in [(SECOND / 4, State::Dead), (SECOND, State::Working)] {
        let mut bench = Bench::new(PLAIN);
        for round in 0..RESETS as u64 {
            bench.give(round, &[round]);
            bench.receive.run_away(200);
            let now = round * gap;
            assert_eq!(bench.next(now), None);
            assert_eq!(bench.finish(now), (std::vec![round], sent(round, false)));
            bench.begin_anew(now);
        }
        assert_eq!(bench.card.state(), state, "resets every {gap} ns");
    }
}

#[test]
fn fault_75_a_card_that_keeps_a_transmission_is_reset() {
    let mut bench = Bench::new(PLAIN);
    bench.finish(1000);
    bench.give(5, &[7]);
    assert_eq!(bench.card.check_time(TRANSFER_PATIENCE), TRANSFER_PATIENCE + LOOK);
    assert_eq!(bench.card.state(), State::Working);
    bench.card.check_time(TRANSFER_PATIENCE + 1000);
    assert_eq!(bench.card.state(), State::Resetting);
    assert_eq!(bench.finish(TRANSFER_PATIENCE), (std::vec![7], sent(5, false)));
    bench.begin_anew(TRANSFER_PATIENCE);
    assert_eq!((bench.card.state(), bench.card.check_time(0)), (State::Working, u64::MAX));
    // For an environment under enforcement it is less.
    bench.give(6, &[8]);
    bench.card.give_up_on(PageNumber(9), TRANSFER_PATIENCE, 1);
    assert_eq!(bench.card.state(), State::Working);
    bench.card.give_up_on(PageNumber(8), TRANSFER_PATIENCE, 1);
    assert_eq!(bench.card.state(), State::Resetting);
}

#[test]
fn fault_75_a_card_that_ignores_its_reset_keeps_its_pins() {
    let mut bench = Bench::new(PLAIN);
    bench.give(5, &[7]);
    bench.receive.run_away(200);
    assert_eq!(bench.next(0), None);
    bench.face.ignore_reset();
    assert_eq!(bench.finish(0), (std::vec![], None));
    bench.card.check_time(RESET_PATIENCE - 1);
    assert_eq!(bench.card.state(), State::Resetting);
    bench.card.check_time(RESET_PATIENCE);
    assert_eq!(bench.card.state(), State::Dead);
    assert_eq!(bench.finish(0), (std::vec![], sent(5, false)));
    assert_eq!((bench.finish(0), bench.card.room(0)), ((std::vec![], None), 0));
}

#[test]
fn fault_75_a_card_that_changes_between_two_lives_is_left_alone() {
    let mut bench = Bench::new(PLAIN);
    bench.receive.run_away(200);
    assert_eq!(bench.next(0), None);
    bench.face.limit_queues(128);
    bench.begin_anew(0);
    assert_eq!(bench.card.state(), State::Dead);
}

#[test]
fn fault_75_a_card_that_scribbles_breaks_nothing() {
    for seed in 1..60u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = move |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        };
        let mut bench = Bench::new(if seed % 2 == 0 { ALL } else { PLAIN });
        let (mut out, mut resets, mut dropped): (Vec<(u64, Vec<u64>)>, u64, u64) = (Vec::new(), 0, 0);
        for round in 0..400u64 {
            let now = round * SECOND;
            for _ in 0..random(4) {
                if let Some(head) = bench.receive.next_chain() {
                    let address = bench.receive.parts(head).next().map_or(0, |part| part.address);
                    let head = if random(20) == 0 { random(300) } else { u64::from(head) };
                    let count = if random(10) == 0 { random(1 << 16) } else { 1 };
                    if random(8) != 0 {
                        let claims = random(u64::MAX).to_le_bytes();
                        host_machine::write(address, &[&claims, &[0, 0][..], &(count as u16).to_le_bytes()].concat());
                    }
                    let length = if random(20) == 0 { random(5000) } else { 72 };
                    bench.receive.answer(head as u32, length as u32);
                }
            }
            let pages: Vec<u64> = (0..random(4)).map(|index| round * 4 + index).collect();
            if bench.card.room(pages.len()) > 0 {
                bench.give(round, &pages);
                out.push((round, pages));
            }
            if let Some(head) = bench.send.next_chain().filter(|_| random(3) != 0) {
                bench.send.answer(if random(30) == 0 { random(400) as u32 } else { u32::from(head) }, 0);
            }
            for _ in 0..17 {
                let Some(handed) = bench.card.receive(now, |frame| {
                    let lengths = frame.pieces.iter().map(Piece::length);
                    assert!((1..=PIECES).contains(&frame.pieces.len()) && lengths.max() <= Some(4096));
                }) else {
                    break;
                };
                dropped += u64::from(!handed);
            }
            loop {
                let (pins, sent) = bench.finish(now);
                let Some(sent) = sent else {
                    if bench.card.state() == State::Resetting {
                        continue;
                    }
                    break;
                };
                let place =
                    out.iter().position(|(slot, _)| *slot == sent.origin.slot as u64).expect("each frame ends once");
                assert_eq!(pins, out.swap_remove(place).1, "seed {seed}");
            }
            assert_eq!(bench.card.state(), State::Working, "seed {seed}");
            if bench.card.resets() != resets {
                resets = bench.card.resets();
                assert!(out.is_empty() && bench.card.room(0) == SENDS, "seed {seed}");
                bench.renew();
            }
        }
        assert!(resets > 3 && (dropped > 0 || seed % 2 == 0), "seed {seed} found nothing");
    }
}
