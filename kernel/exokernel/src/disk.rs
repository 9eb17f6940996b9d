//! Raw disk requests: gather lists of the caller's own pages, each pinned for the device until its request ends.
//!
//! A call checks all its rows and then submits all of them. The driver sorts what waits for the device. A request that
//! ends ends its pins, writes its status word and raises what is bound to the device; a page that was given up
//! meanwhile is freed then. Requests outlive the environment that made them.
//!
//! Invariants:
//! - an environment has at most `DEVICE_PINS` device pins, each charged to its budget of pins until its request ends
//!   or it dies;
//! - a page of an environment under enforcement gets no new device pin.

use crate::budget;
use crate::device;
use crate::environment::Environment;
use crate::kernel::{Kernel, Outcome, copied, refuse};
use crate::key::permit;
use crate::{cost, interrupt};
use abi::budget::Resource;
use abi::capability::Rights;
use abi::device::operation::{FLUSH, KEY_SHIFT, MORE, READ, WRITE};
use abi::device::{DeviceInfo, SECTOR, TransferRow, feature, kind, status};
use abi::limits::{DEVICES, PAGE_SIZE, TRANSFER_ROWS};
use abi::page::PageInfo;
use abi::{Error, KeyIndex, PageNumber, UserAddress};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;
use driver::disk::{self, Facts, Finished, Order, PARTS, REQUESTS};
use driver::network;
use machine::dma::{Direction, Pinned};
use machine::exposed::{self, add};
use machine::{clock, user};

// No page can have more device pins than its record counts.
const _: () = assert!(DEVICES * (PARTS + REQUESTS) < 1 << 16);

/// What the rows of a call come to.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    requests: usize,
    pieces: usize,
}

/// One row, unpacked.
#[derive(Clone, Copy, Debug)]
struct Piece {
    page: PageNumber,
    offset: u64,
    bytes: u64,
}

impl Piece {
    const fn of(memory: u64) -> Self {
        Self { page: PageNumber(memory & 0xffff_ffff), offset: memory >> 32 & 0xffff, bytes: memory >> 48 }
    }

    fn makes_sense(self) -> bool {
        let whole = (self.offset | self.bytes).is_multiple_of(SECTOR);
        whole && self.bytes > 0 && self.offset + self.bytes <= PAGE_SIZE
    }
}

/// The operation of a row, without its bits.
const fn operation_of(row: &TransferRow) -> u64 {
    row.operation & 0xff
}

/// The key by which the caller owns the pages of a row.
const fn key_of(row: &TransferRow) -> KeyIndex {
    KeyIndex(row.operation >> KEY_SHIFT & 0xffff)
}

/// Whether a row has no bits that mean nothing.
const fn is_known(row: &TransferRow) -> bool {
    const KNOWN: u64 = 0xff | MORE | 0xffff << KEY_SHIFT;
    row.operation & !KNOWN == 0 && operation_of(row) <= FLUSH && row.status >> 48 == 0
}

/// The page and the index of a status word.
const fn status_of(row: &TransferRow) -> (PageNumber, u64) {
    (PageNumber(row.status & 0xffff_ffff), row.status >> 32)
}

/// The rows of each request.
fn requests(rows: &[TransferRow]) -> impl Iterator<Item = &[TransferRow]> {
    rows.split_inclusive(|row| row.operation & MORE == 0)
}

/// Writes what the driver knows of every disk into its record.
pub(crate) fn expose() {
    for number in 0..DEVICES {
        let Some(facts) = disk::with(number, |disk| disk.facts()) else { break };
        let info = &exposed::devices()[facts.device];
        let words = [
            (&info.features, facts.features),
            (&info.capacity, facts.capacity),
            (&info.block, facts.block),
            (&info.queues, 1),
            (&info.depth, REQUESTS as u64),
        ];
        words.iter().for_each(|(word, value)| word.store(*value, Ordering::Release));
        go_on(number, info);
    }
}

/// Gives the disk what waits, and writes what has changed.
pub(crate) fn go_on(number: usize, info: &DeviceInfo) {
    let read = |disk: &mut disk::Disk| {
        disk.go_on();
        (disk.state(), disk.resets(), disk.room())
    };
    if let Some((state, resets, (requests, pieces))) = disk::with(number, read) {
        info.state.store(state as u64, Ordering::Release);
        info.resets.store(resets, Ordering::Release);
        info.room.store(requests as u64 | (pieces as u64) << 32, Ordering::SeqCst);
    }
}

impl Kernel {
    /// Submits requests (see `abi::syscall`).
    pub(crate) fn submit_requests(
        &mut self,
        key: KeyIndex,
        device: u64,
        queue: u64,
        rows: UserAddress,
        count: u64,
    ) -> Outcome<u64> {
        let held = self.key(key)?;
        let info = device::record(device);
        let Some(info) = info.filter(|info| info.kind.load(Ordering::Relaxed) == kind::DISK) else {
            return refuse(Error::Absent, 0);
        };
        let rights = capability::rights_under(held, &device::name(info));
        permit(rights, Rights::READ)?;
        let number = disk::number_of(device as usize);
        let state = number.and_then(|number| disk::with(number, |disk| (number, disk.facts(), disk.state())));
        let Some((number, facts, abi::device::State::Working | abi::device::State::Resetting)) = state else {
            return refuse(Error::Absent, 0);
        };
        if queue != 0 || count == 0 {
            return refuse(Error::BadArgument, if queue != 0 { 2 } else { 4 });
        }
        if count > TRANSFER_ROWS as u64 {
            return refuse(Error::TooMany, TRANSFER_ROWS as u64);
        }
        let mut copy = [const { MaybeUninit::uninit() }; TRANSFER_ROWS];
        let rows: &[TransferRow] = copied(user::copy_rows_in(&mut copy[..count as usize], rows), rows)?;
        let sum = self.check_rows(rights, &facts, rows)?;
        self.check_room(number, sum)?;
        // A program that may read the disk may read it while a volume is open, too. XN alone writes it.
        if self.has_volume(device) && rows.iter().any(|row| operation_of(row) == WRITE) {
            return refuse(Error::InUse, 0);
        }
        requests(rows).for_each(|request| self.submit(number, request));
        go_on(number, info);
        Ok(sum.requests as u64)
    }

    /// Fails unless each row is one that the caller may make.
    fn check_rows(&self, rights: Rights, facts: &Facts, rows: &[TransferRow]) -> Outcome<Sum> {
        let caller = self.caller();
        if self.is_under_enforcement(caller) {
            return refuse(Error::OverBudget, Resource::Page as u64);
        }
        let mut sum = Sum::default();
        for request in requests(rows) {
            let pieces = self.check_request(rights, facts, request)?;
            for row in &request[..pieces] {
                self.check_transfer_page(caller, key_of(row), Piece::of(row.memory).page)?;
            }
            let (page, _) = status_of(&request[0]);
            self.check_transfer_page(caller, key_of(&request[0]), page)?;
            sum = Sum { requests: sum.requests + 1, pieces: sum.pieces + pieces };
        }
        Ok(sum)
    }

    /// Fails unless the rows are one request that the disk can carry out; how many of them name a piece.
    fn check_request(&self, rights: Rights, facts: &Facts, request: &[TransferRow]) -> Outcome<usize> {
        let (first, rest) = request.split_first().expect("a request has a row");
        let known = request.iter().all(|row| is_known(row) && operation_of(row) == operation_of(first));
        let joined = request.last().is_some_and(|row| row.operation & MORE == 0);
        let alone = rest.iter().all(|row| row.place == 0 && row.status == 0);
        if !known || !joined || !alone || status_of(first).1 >= PAGE_SIZE / 8 {
            return refuse(Error::BadArgument, 3);
        }
        if operation_of(first) != READ {
            permit(rights, Rights::WRITE)?;
        }
        if operation_of(first) == FLUSH {
            return check_flush(facts, request);
        }
        if operation_of(first) == WRITE && facts.features & feature::READ_ONLY != 0 {
            return refuse(Error::Absent, 0);
        }
        if request.len() > facts.pieces {
            return refuse(Error::TooMany, facts.pieces as u64);
        }
        let bytes = request.iter().try_fold(0, |sum, row| {
            let piece = Piece::of(row.memory);
            piece.makes_sense().then_some(sum + piece.bytes)
        });
        let end = bytes.and_then(|bytes| first.place.checked_add(bytes));
        if !first.place.is_multiple_of(SECTOR) || end.is_none_or(|end| end > facts.capacity) {
            return refuse(Error::BadArgument, 3);
        }
        Ok(request.len())
    }

    /// Fails unless the caller owns a page that may be pinned for a device.
    pub(crate) fn check_transfer_page(
        &self,
        caller: Environment,
        key: KeyIndex,
        page: PageNumber,
    ) -> Outcome<&'static PageInfo> {
        let info = self.owned_page(key, page)?;
        self.check_pinnable(caller, info)?;
        Ok(info)
    }

    /// Fails for a page of another environment that must give pages back.
    pub(crate) fn check_pinnable(&self, caller: Environment, info: &PageInfo) -> Outcome<()> {
        let owner = self.owner(info);
        let must_give = owner != caller && self.is_under_enforcement(owner);
        if must_give { refuse(Error::OverBudget, Resource::Page as u64) } else { Ok(()) }
    }

    /// Fails unless the disk and the caller's budget have room.
    fn check_room(&self, number: usize, sum: Sum) -> Outcome<()> {
        let (caller, pins) = (self.caller(), (sum.pieces + sum.requests) as u64);
        budget::check_pins(caller, pins)?;
        let room = disk::with(number, |disk| (disk.has_room(sum.requests, sum.pieces), disk.room().0));
        match room {
            Some((true, _)) => Ok(()),
            other => refuse(Error::Exhausted, other.map_or(0, |(_, room)| room as u64)),
        }
    }

    /// Pins the pages of a request and gives it to the disk; every check is behind us.
    fn submit(&mut self, number: usize, request: &[TransferRow]) {
        let first = &request[0];
        let pieces = if operation_of(first) == FLUSH { &request[..0] } else { request };
        let (caller, pins) = (self.caller(), pieces.len() as u64 + 1);
        let (page, word) = status_of(first);
        let order = Order {
            operation: operation_of(first),
            place: first.place,
            asked_by: caller.number(),
            status: Some(self.pin(page)),
            word: word as usize,
            pins,
            now: clock::now(),
        };
        budget::charge_pins(caller, pins);
        let direction = if order.operation == READ { Direction::FromDevice } else { Direction::ToDevice };
        let parts = pieces.iter().map(|row| {
            let piece = Piece::of(row.memory);
            self.pin(piece.page).part(piece.offset as usize, piece.bytes as usize, direction)
        });
        disk::with(number, |disk| disk.submit(order, parts));
    }

    pub(crate) fn pin(&self, page: PageNumber) -> Pinned {
        self.memory.pin(page).expect("the page was checked")
    }

    /// Ends a device pin. The last use of an orphan frees it.
    pub(crate) fn unpin(&mut self, pin: Pinned) {
        let page = self.memory.unpin(pin);
        self.spend(cost::UNPIN);
        self.settle(page);
    }

    /// Ends the requests that a device has carried out, as many as this entry can.
    pub(crate) fn finish_requests(&mut self, device: usize) {
        let (Some(number), info) = (disk::number_of(device), &exposed::devices()[device]) else { return };
        self.spend(cost::DEVICE_LOOK);
        let look = |disk: &mut disk::Disk| {
            disk.acknowledge_interrupt();
            disk.state()
        };
        let is_reset = disk::with(number, look) == Some(abi::device::State::Resetting);
        let step = match is_reset {
            true => cost::DISK_ANEW,
            false if self.has_volume(device as u64) => cost::block_arrives().max(cost::REQUEST_ENDS),
            false => cost::REQUEST_ENDS,
        };
        let mut ended = 0;
        let is_done = loop {
            if !self.has_room_for(step) {
                break false;
            }
            let finish = |disk: &mut disk::Disk| disk.finish(clock::now(), |pin| self.unpin(pin));
            let Some(finished) = disk::with(number, finish).flatten() else { break true };
            self.spend(cost::REQUEST_END);
            self.end_request(finished, info);
            ended += 1;
        };
        if !is_done {
            device::put_off(device);
        } else if is_reset {
            self.spend(cost::DISK_ANEW);
        }
        go_on(number, info);
        if ended > 0 {
            self.raise_bound(info);
            interrupt::wake_all_idle();
        }
    }

    /// The same for every disk.
    pub(crate) fn finish_all_requests(&mut self) {
        for number in 0..DEVICES {
            let Some(facts) = disk::with(number, |disk| disk.facts()) else { break };
            self.finish_requests(facts.device);
        }
    }

    /// Says how a request ended to the environment that made it, if that is still there.
    fn end_request(&mut self, Finished { order, outcome }: Finished, info: &DeviceInfo) {
        let error = u64::from(outcome != status::DONE);
        add(&info.completed, 1);
        add(&info.errors, error);
        if order.operation == FLUSH {
            add(&info.flushes, 1 - error);
        }
        let Some(page) = order.status else {
            return self.end_storage_transfer(order.operation, order.word, outcome == status::DONE);
        };
        self.memory.write_pinned(&page, order.word, outcome);
        self.unpin(page);
        if let Some(environment) = self.known(order.asked_by) {
            budget::discharge_pins(environment, order.pins);
        }
    }

    /// The environment dies: its requests go on without a charge.
    pub(crate) fn disown_requests(&mut self, environment: Environment) {
        let pins = environment.info().device_pins.swap(0, Ordering::AcqRel);
        if pins != 0 {
            self.spend(cost::DISK_REQUESTS * disk::count() as u32);
            disk::disown(environment.number());
            network::disown(environment.number());
            budget::discharge(environment, Resource::Pin, pins);
        }
    }
}

/// Fails unless the row of a flush is one.
fn check_flush(facts: &Facts, request: &[TransferRow]) -> Outcome<usize> {
    let first = &request[0];
    if facts.features & feature::FLUSH == 0 {
        return refuse(Error::Absent, 0);
    }
    if request.len() > 1 || first.place != 0 || first.memory != 0 {
        return refuse(Error::BadArgument, 3);
    }
    Ok(0)
}
