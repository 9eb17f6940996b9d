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
        let pinned = |page: u64| Pinned::of_host(PageNumber(page));
        let order = Order {
            operation: operation::READ,
            place: 4096,
            asked_by: EnvironmentId(9),
            status: Some(pinned(status)),
            word: 3,
            pins: pages.len() as u64 + 1,
            now,
        };
        assert!(self.disk.has_room(1, pages.len()));
        let parts = pages.iter().map(|page| pinned(*page).part(0, 4096, Direction::FromDevice));
        self.disk.submit(order, parts);
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
fn a_disk_takes_seven_pages() {
    let (device, _face) = host_machine::device(Kind::Block, FEATURES as u32, &CONFIGURATION);
    let mut map = host_machine::memory(7);
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
        let outcome = match byte {
            0 => status::DONE,
            2 => status::UNSUPPORTED,
            _ => status::FAILED,
        };
        assert_eq!(bench.finish(0), Some((1, outcome, std::vec![2])), "status byte {byte}");
    }
    assert_eq!((bench.disk.resets(), bench.disk.room()), (0, (REQUESTS, ENTRIES - FRAME)));
}

#[test]
fn fault_75_a_status_byte_that_was_not_written_is_a_failure() {
    let mut bench = Bench::new();
    bench.read(1, &[2], 0);
    let head = bench.rings.next_chain().expect("a request");
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
