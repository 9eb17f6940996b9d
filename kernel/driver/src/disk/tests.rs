//! The driver of disks against devices that work, that lie, and that do not answer.

use super::*;
use machine::host_machine::{self, Face, Rings};
use std::vec::Vec;

/// 2,048 sectors, 62 segments, blocks of 512 bytes.
const CONFIGURATION: [u8; 24] = [0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 62, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0];
const FEATURES: u64 = SEGMENT_LIMIT | BLOCK_SIZE | FLUSH | 1;

struct Bench {
    disk: &'static mut Disk,
    face: Face,
    rings: Rings,
}

impl Bench {
    fn new() -> Self {
        let (device, face) = host_machine::device(Kind::Block, FEATURES as u32, &CONFIGURATION);
        let mut map = host_machine::memory(16);
        let disk = Disk::begin(device, &mut BootMemory::new(&mut map)).expect("a good disk");
        let rings = Rings::of(&disk.queue);
        Self { disk, face, rings }
    }

    /// Submits a read of `pages`, whose status word lies in page `status`.
    fn read(&mut self, status: u64, pages: &[u64], now: u64) {
        self.ask(operation::READ, 4096, status, pages, now);
        self.disk.go_on();
    }

    /// Submits a request, which waits.
    fn ask(&mut self, operation: u64, place: u64, status: u64, pages: &[u64], now: u64) {
        let pinned = |page: u64| Pinned::of_host(PageNumber(page));
        let order = Order {
            operation,
            place,
            asked_by: EnvironmentId(9),
            status: Some(pinned(status)),
            word: 3,
            pins: pages.len() as u64 + 1,
            now,
        };
        assert!(self.disk.has_room(1, pages.len()));
        let direction = if operation == operation::READ { Direction::FromDevice } else { Direction::ToDevice };
        self.disk.submit(order, pages.iter().map(|page| pinned(*page).part(0, 4096, direction)));
    }

    /// The next request that the device gets: its chain, type, first byte on the disk, and pages.
    fn next(&mut self) -> Option<(u16, u32, u64, Vec<u64>)> {
        let head = self.rings.next_chain()?;
        let parts: Vec<_> = self.rings.parts(head).collect();
        let mut header = [0; 16];
        host_machine::read(parts[0].address, &mut header);
        let kind = u32::from_le_bytes(header[..4].try_into().expect("four bytes"));
        let sector = u64::from_le_bytes(header[8..].try_into().expect("eight bytes"));
        let pages = parts[1..parts.len() - 1].iter().map(|part| part.address / 4096).collect();
        Some((head, kind, sector * SECTOR, pages))
    }

    /// The device has carried out a request.
    fn answer_to(&mut self, head: u16, byte: u8) {
        let status = self.rings.parts(head).last().expect("a request has a status byte");
        host_machine::write(status.address, &[byte]);
        self.rings.answer(u32::from(head), 0);
    }

    /// The device carries out the next request: it writes the status byte and says that it wrote `length` bytes.
    fn answer(&mut self, byte: u8, length: u32) {
        let head = self.rings.next_chain().expect("a request was submitted");
        let status = self.rings.parts(head).last().expect("a request has a status byte");
        host_machine::write(status.address, &[byte]);
        self.rings.answer(u32::from(head), length);
    }

    /// The next end: the page of its status word, its outcome, the pages whose pins came back.
    fn finish(&mut self, now: u64) -> Option<(u64, u64, Vec<u64>)> {
        let mut pins = Vec::new();
        let finished = self.disk.finish(now, |pin| pins.push(pin.page().0))?;
        let status = finished.order.status.expect("the status word has a page").page().0;
        Some((status, finished.outcome, pins))
    }
}

#[test]
fn a_disk_takes_ten_pages() {
    let (device, _face) = host_machine::device(Kind::Block, FEATURES as u32, &CONFIGURATION);
    let mut map = host_machine::memory(10);
    assert!(Disk::begin(device, &mut BootMemory::new(&mut map)).is_ok());
    assert_eq!(BootMemory::new(&mut map).allocate(1), None);
    let (device, _face) = host_machine::device(Kind::Block, FEATURES as u32, &CONFIGURATION);
    assert!(matches!(Disk::begin(device, &mut BootMemory::new(&mut map)), Err(DeviceError::NoMemory)));
}

#[test]
fn a_request_is_what_the_device_gets() {
    let mut bench = Bench::new();
    let facts = bench.disk.facts();
    assert_eq!((facts.capacity, facts.block, facts.features, facts.pieces), (1 << 20, 512, feature::FLUSH, 16));
    bench.read(1, &[2, 3], 0);
    let head = bench.rings.next_chain().expect("a request");
    let parts: Vec<_> = bench.rings.parts(head).map(|part| (part.length, part.is_writable)).collect();
    assert_eq!(parts, [(16, false), (4096, true), (4096, true), (1, true)]);
    let mut header = [0; 16];
    host_machine::read(bench.rings.parts(head).next().expect("a header").address, &mut header);
    assert_eq!(header, [0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn fault_75_any_status_byte_is_an_outcome() {
    let mut bench = Bench::new();
    for byte in 0..=255 {
        bench.read(1, &[2], 0);
        bench.answer(byte, 4097);
        if !matches!(byte, 0 | 2) {
            assert_eq!(bench.finish(0), None, "it goes once more");
            bench.disk.go_on();
            bench.answer(byte, 4097);
        }
        let outcome = match byte {
            0 => status::DONE,
            2 => status::UNSUPPORTED,
            _ => status::FAILED,
        };
        assert_eq!(bench.finish(0), Some((1, outcome, std::vec![2])), "status byte {byte}");
    }
    assert_eq!((bench.disk.resets(), bench.disk.room()), (0, (REQUESTS, PARTS)));
}

#[test]
fn fault_75_a_status_byte_that_was_not_written_is_a_failure() {
    let mut bench = Bench::new();
    bench.read(1, &[2], 0);
    let head = bench.rings.next_chain().expect("a request");
    bench.rings.answer(u32::from(head), 0);
    assert_eq!(bench.finish(0), None, "it goes once more");
    bench.disk.go_on();
    let head = bench.rings.next_chain().expect("the request again");
    bench.rings.answer(u32::from(head), 0);
    assert_eq!(bench.finish(0), Some((1, status::FAILED, std::vec![2])));
}

#[test]
fn fault_75_a_disk_that_lies_about_its_queue_is_reset_and_works_again() {
    let lies: [fn(&mut Bench); 7] = [
        |bench| bench.rings.answer(1, 0),
        |bench| bench.rings.answer(256, 0),
        |bench| bench.rings.answer(u32::MAX, 0),
        |bench| bench.answer(0, 4098),
        |bench| bench.answer(0, u32::MAX),
        |bench| bench.rings.run_away(3),
        |bench| bench.rings.run_away(u16::MAX),
    ];
    for (index, lie) in lies.into_iter().enumerate() {
        let mut bench = Bench::new();
        bench.read(1, &[2], 0);
        bench.read(3, &[4, 5], 0);
        lie(&mut bench);
        assert_eq!(bench.finish(7), None, "lie {index}");
        assert_eq!((bench.disk.state(), bench.disk.room()), (State::Resetting, (0, 0)), "lie {index}");
        let mut ends = [bench.finish(7), bench.finish(7)].map(|end| end.expect("each request ends"));
        ends.sort();
        assert_eq!(ends, [(1, status::RESET, std::vec![2]), (3, status::RESET, std::vec![4, 5])], "lie {index}");
        assert_eq!(bench.finish(7), None);
        assert_eq!((bench.disk.state(), bench.disk.resets()), (State::Working, 1));
        bench.rings = Rings::of(&bench.disk.queue);
        bench.read(1, &[2], 8);
        bench.answer(0, 4097);
        assert_eq!(bench.finish(8), Some((1, status::DONE, std::vec![2])), "after lie {index}");
    }
}

#[test]
fn fault_75_a_request_that_takes_half_a_minute_ends_by_a_reset() {
    let mut bench = Bench::new();
    assert_eq!(bench.disk.check_time(5), u64::MAX);
    bench.read(1, &[2], 1000);
    bench.read(3, &[4], TRANSFER_PATIENCE);
    bench.disk.check_time(TRANSFER_PATIENCE + 999);
    assert_eq!((bench.disk.state(), bench.finish(0)), (State::Working, None));
    bench.disk.check_time(TRANSFER_PATIENCE + 1000);
    assert_eq!(bench.disk.state(), State::Resetting);
    let ends = [bench.finish(0), bench.finish(0)].map(|end| end.expect("each request ends").1);
    assert_eq!(ends, [status::RESET; 2]);
    assert_eq!((bench.finish(0), bench.disk.state()), (None, State::Working));
    assert_eq!(bench.disk.check_time(u64::MAX), u64::MAX);
}

#[test]
fn fault_75_for_an_environment_under_enforcement_a_disk_has_a_second() {
    let mut bench = Bench::new();
    bench.read(1, &[2, 3], 1000);
    bench.disk.give_up_on(PageNumber(4), 3000, 1000);
    bench.disk.give_up_on(PageNumber(3), 1999, 1000);
    assert_eq!(bench.disk.state(), State::Working);
    bench.disk.give_up_on(PageNumber(3), 2000, 1000);
    assert_eq!(bench.disk.state(), State::Resetting);
}

#[test]
fn fault_75_a_disk_that_ignores_its_reset_keeps_its_pins_and_is_left_alone() {
    let mut bench = Bench::new();
    bench.read(1, &[2], 0);
    bench.rings.run_away(9);
    assert_eq!(bench.finish(0), None);
    bench.face.ignore_reset();
    assert_eq!(bench.finish(0), None);
    bench.disk.check_time(RESET_PATIENCE - 1);
    assert_eq!(bench.disk.state(), State::Resetting);
    bench.disk.check_time(RESET_PATIENCE + 1);
    assert_eq!(bench.disk.state(), State::Dead);
    assert_eq!(bench.finish(0), Some((1, status::RESET, std::vec![])));
    assert_eq!((bench.finish(0), bench.disk.room()), (None, (0, 0)));
}

#[test]
fn fault_75_after_so_many_resets_a_disk_is_left_alone() {
    let mut bench = Bench::new();
    for round in 1..=RESETS + 1 {
        assert_eq!(bench.disk.state(), State::Working, "reset {round}");
        bench.read(1, &[2], 0);
        bench.rings.run_away(9);
        assert_eq!(bench.finish(0), None);
        assert_eq!(bench.finish(0), Some((1, status::RESET, std::vec![2])));
        assert_eq!(bench.finish(0), None);
        bench.rings = Rings::of(&bench.disk.queue);
    }
    assert_eq!((bench.disk.state(), bench.disk.resets()), (State::Dead, RESETS + 1));
}

/// Eight requests that keep the device busy; their chains.
fn busy(bench: &mut Bench) -> Vec<u16> {
    for number in 0..AT_ONCE as u64 {
        bench.ask(operation::READ, (100 + 2 * number) * 4096, 200 + number, &[300 + number], 0);
    }
    bench.disk.go_on();
    let heads: Vec<u16> = core::iter::from_fn(|| bench.next()).map(|(head, ..)| head).collect();
    assert_eq!(heads.len(), AT_ONCE);
    heads
}

/// Ends them; they give way to what waits.
fn end_busy(bench: &mut Bench, heads: Vec<u16>) {
    for head in heads {
        bench.answer_to(head, 0);
    }
    while bench.finish(0).is_some() {}
    bench.disk.go_on();
}

#[test]
fn what_waits_goes_by_place() {
    let mut bench = Bench::new();
    let heads = busy(&mut bench);
    for (status, block) in [(1, 7), (2, 130), (3, 3), (4, 200), (5, 120)] {
        bench.ask(operation::READ, block * 4096, status, &[10 + status], 0);
    }
    bench.disk.go_on();
    assert!(bench.next().is_none(), "a ninth request goes to the device");
    end_busy(&mut bench, heads);
    let order: Vec<u64> = core::iter::from_fn(|| bench.next()).map(|(_, _, place, _)| place / 4096).collect();
    assert_eq!(order, [3, 7, 120, 130, 200]);
}

#[test]
fn neighbours_go_as_one_request_and_end_as_many() {
    let mut bench = Bench::new();
    let heads = busy(&mut bench);
    bench.ask(operation::WRITE, 9 * 4096, 3, &[13], 0);
    bench.ask(operation::WRITE, 7 * 4096, 1, &[11], 0);
    bench.ask(operation::READ, 11 * 4096, 4, &[14], 0);
    bench.ask(operation::READ, 5 * 4096, 5, &[15, 16], 0);
    bench.ask(operation::READ, 10 * 4096, 6, &[17], 0);
    bench.ask(operation::WRITE, 12 * 4096, 7, &[18], 0);
    end_busy(&mut bench, heads);
    let requests: Vec<_> = core::iter::from_fn(|| bench.next()).collect();
    let seen: Vec<_> = requests.iter().map(|(_, kind, place, pages)| (*kind, place / 4096, pages.clone())).collect();
    let expected = [
        (TYPE_READ, 5, std::vec![15, 16]),
        (TYPE_WRITE, 7, std::vec![11]),
        (TYPE_WRITE, 9, std::vec![13]),
        (TYPE_READ, 10, std::vec![17, 14]),
        (TYPE_WRITE, 12, std::vec![18]),
    ];
    assert_eq!(seen, expected);
    for (head, ..) in requests {
        bench.answer_to(head, 0);
    }
    let mut ends: Vec<_> = core::iter::from_fn(|| bench.finish(0)).collect();
    let mut pins: Vec<u64> = ends.iter().flat_map(|(_, _, pins)| pins.clone()).collect();
    pins.sort_unstable();
    ends.sort();
    assert_eq!(
        ends.iter().map(|(status, outcome, _)| (*status, *outcome)).collect::<Vec<_>>(),
        [1, 3, 4, 5, 6, 7].map(|status| (status, status::DONE))
    );
    assert_eq!(pins, [11, 13, 14, 15, 16, 17, 18]);
    assert_eq!(bench.disk.room(), (REQUESTS, PARTS));
}

#[test]
fn a_joint_request_has_no_more_parts_than_a_single_one_may_have() {
    let mut bench = Bench::new();
    let heads = busy(&mut bench);
    for block in 0..20 {
        bench.ask(operation::WRITE, block * 4096, 20 + block, &[40 + block], 0);
    }
    end_busy(&mut bench, heads);
    let parts: Vec<usize> = core::iter::from_fn(|| bench.next()).map(|(.., pages)| pages.len()).collect();
    assert_eq!(parts, [TRANSFER_PIECES, 4]);
}

#[test]
fn fault_73_of_joint_requests_only_the_one_with_the_bad_sector_fails() {
    let mut bench = Bench::new();
    let heads = busy(&mut bench);
    for block in 0..3 {
        bench.ask(operation::WRITE, block * 4096, 1 + block, &[11 + block], 0);
    }
    end_busy(&mut bench, heads);
    let (head, _, _, pages) = bench.next().expect("a joint request");
    assert_eq!(pages, [11, 12, 13]);
    bench.answer_to(head, 1);
    assert_eq!(bench.finish(0), None, "nobody is told before each has gone alone");
    bench.ask(operation::READ, 50 * 4096, 7, &[17], 0);
    let done = |status: u64, outcome| (status, outcome, std::vec![10 + status]);
    for (status, outcome) in [(1, status::DONE), (2, status::FAILED), (3, status::DONE)] {
        bench.disk.go_on();
        let (head, _, place, pages) = bench.next().expect("a request of its own");
        assert_eq!((place / 4096 + 1, pages), (status, std::vec![10 + status]));
        assert!(bench.next().is_none(), "another one goes beside it");
        bench.answer_to(head, u8::from(outcome == status::FAILED));
        assert_eq!(bench.finish(0), Some(done(status, outcome)));
    }
    bench.disk.go_on();
    assert_eq!(bench.next().map(|(_, _, place, _)| place), Some(50 * 4096));
}

#[test]
fn what_comes_during_a_sweep_waits_for_the_next_one() {
    let mut bench = Bench::new();
    let heads = busy(&mut bench);
    for (status, block) in (1..).zip([10, 20, 30, 40, 50, 60, 70, 80, 90, 5]) {
        bench.ask(operation::READ, block * 4096, status, &[400 + status], 0);
    }
    end_busy(&mut bench, heads);
    bench.ask(operation::READ, 85 * 4096, 20, &[420], 0);
    let mut order = Vec::new();
    while let Some((head, _, place, _)) = bench.next() {
        order.push(place / 4096);
        bench.answer_to(head, 0);
        while bench.finish(0).is_some() {}
        bench.disk.go_on();
    }
    assert_eq!(order, [5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 85]);
}

#[test]
fn flushes_that_wait_go_as_one_and_keep_nothing_waiting() {
    let mut bench = Bench::new();
    // All places of the device but one stay taken.
    let last = busy(&mut bench).pop().expect("it is busy");
    bench.ask(operation::READ, 50 * 4096, 1, &[11], 0);
    bench.ask(operation::FLUSH, 0, 2, &[], 0);
    bench.ask(operation::FLUSH, 0, 3, &[], 0);
    let (mut head, mut ended) = (last, Vec::new());
    for status in 4..8 {
        bench.answer_to(head, 0);
        ended.extend(core::iter::from_fn(|| bench.finish(0)).map(|(status, ..)| status));
        bench.disk.go_on();
        head = bench.next().expect("one more request").0;
        bench.ask(operation::FLUSH, 0, status, &[], 0);
    }
    assert_eq!(ended[1..], [2, 3, 1, 4, 5]);
}

#[test]
fn fault_75_what_waits_ends_by_a_reset_with_its_pins() {
    let mut bench = Bench::new();
    let _ = busy(&mut bench);
    bench.ask(operation::WRITE, 4096, 1, &[11, 12], 5);
    bench.ask(operation::FLUSH, 0, 2, &[], 5);
    bench.disk.give_up_on(PageNumber(12), 1004, 1000);
    assert_eq!(bench.disk.state(), State::Working);
    bench.disk.give_up_on(PageNumber(12), 1005, 1000);
    assert_eq!(bench.disk.state(), State::Resetting);
    let mut ends: Vec<_> = core::iter::from_fn(|| bench.finish(0)).collect();
    ends.sort();
    assert_eq!(ends.len(), AT_ONCE + 2);
    assert!(ends.iter().all(|(_, outcome, _)| *outcome == status::RESET));
    assert_eq!([ends[0].2.clone(), ends[1].2.clone()], [std::vec![11, 12], std::vec![]]);
    assert_eq!((bench.disk.state(), bench.disk.room()), (State::Working, (REQUESTS, PARTS)));
}

/// Whatever programs ask and the device answers, each request ends once, with all pins, and the device gets each part
/// at its place.
#[test]
fn random_requests_end_once_and_go_where_they_should() {
    let mut random = 1u64;
    let mut below = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let mut bench = Bench::new();
    let (mut open, mut out, mut joint): (Vec<(u64, u64, u64, u64)>, Vec<u16>, _) = (Vec::new(), Vec::new(), 0);
    for step in 0..20_000u64 {
        if below(3) > 0 && bench.disk.has_room(1, 4) {
            let (status, place, count) = (1000 + step * 8, below(60), 1 + below(4));
            let operation = [operation::READ, operation::WRITE, operation::FLUSH][below(3) as usize];
            let count = if operation == operation::FLUSH { 0 } else { count };
            let pages: Vec<u64> = (1..=count).map(|page| status + page).collect();
            bench.ask(operation, place * 4096, status, &pages, step);
            open.push((status, operation, place, count));
        }
        if below(2) == 0 {
            bench.disk.go_on();
        }
        while let Some((head, kind, place, pages)) = bench.next() {
            for (index, page) in pages.iter().enumerate() {
                let (status, operation, first, _) =
                    *open.iter().find(|one| one.0 == page & !7).expect("it is asked for");
                assert_eq!(first + (page - status - 1), place / 4096 + index as u64, "a part is at another place");
                assert_eq!(kind, if operation == operation::READ { TYPE_READ } else { TYPE_WRITE });
            }
            joint += u64::from(pages.first().zip(pages.last()).is_some_and(|(first, last)| first & !7 != last & !7));
            out.push(head);
            assert!(out.len() <= AT_ONCE);
        }
        if !out.is_empty() && below(3) == 0 {
            let head = out.swap_remove(below(out.len() as u64) as usize);
            bench.answer_to(head, [0, 0, 0, 1][below(4) as usize]);
        }
        if below(2_000) == 0 {
            bench.disk.begin_reset(step);
            out.clear();
        }
        let mut pins = Vec::new();
        let mut ended = Vec::new();
        while let Some(finished) = bench.disk.finish(step, |pin| pins.push(pin.page().0)) {
            ended.push(finished.order.status.expect("it has a page").page().0);
        }
        if bench.disk.resets() > 0 {
            bench.disk.resets = 0;
            bench.rings = Rings::of(&bench.disk.queue);
        }
        let mut expected: Vec<u64> = Vec::new();
        for status in &ended {
            let index = open.iter().position(|one| one.0 == *status).expect("it ends once");
            let (status, _, _, count) = open.swap_remove(index);
            expected.extend((1..=count).map(|page| status + page));
        }
        expected.sort_unstable();
        pins.sort_unstable();
        assert_eq!(pins, expected, "step {step}");
    }
    assert!(joint > 100, "only {joint} requests were joint");
    assert!(open.len() <= REQUESTS);
}
