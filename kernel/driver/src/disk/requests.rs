//! The requests of a disk, from the call that made them to the end that is told: which goes to the device next, and
//! which go together.
//!
//! Requests wait while the device has enough to do. They go in sweeps over the disk, from the lowest place to the
//! highest. What comes during a sweep waits for the next one (FSCAN). So no request waits for more than two sweeps.
//! Neighbours on the disk that do the same go as one request of the device, also those of different environments. What
//! fails goes once more, each request alone while the device does nothing else. For devices join neighbours, too, and
//! no environment is told of another one's bad sector. A flush has the lowest place, and flushes that wait go as one.
//!
//! Invariants:
//! - a part of a page has its pin here, or the queue of the device has it;
//! - a request is in one list: it waits, goes once more, belongs to a group that the device has or that has ended, or
//!   is free;
//! - a group has no more parts than a single request may have.

use super::{Finished, Order, REQUESTS};
use abi::device::status;
use abi::{EnvironmentId, PageNumber};
use machine::boot_memory::BootMemory;
use machine::dma::{Part, Pinned};

/// Parts of all requests of a disk together.
pub(super) const PARTS: usize = 256;
/// The end of a list.
const NONE: u16 = u16::MAX;

/// A request, or room for one.
#[derive(Debug)]
struct Request {
    /// None: free.
    order: Option<Order>,
    /// The first of its parts.
    first_part: u16,
    parts: usize,
    /// Where it ends on the disk.
    end: u64,
    /// It has failed, and goes once more.
    is_again: bool,
    /// The next one of its list.
    next: u16,
}

/// A part of a request, or room for one.
#[derive(Debug)]
struct Piece {
    part: Option<Part>,
    /// It is a part of a page, with a pin.
    is_pinned: bool,
    next: u16,
}

/// All requests of a disk. A number of a request stands for the group that begins with it.
#[derive(Debug)]
pub(super) struct Requests {
    requests: &'static mut [Request],
    pieces: &'static mut [Piece],
    free_requests: (u16, usize),
    free_pieces: (u16, usize),
    /// Those that go once more, before all others.
    again: u16,
    /// Those of the present sweep, by place.
    sweep: u16,
    /// Those of the next sweep, by place: the first and the last of them.
    next_sweep: (u16, u16),
    /// A group that has ended, as far as it is not told yet, and how.
    ended: (u16, u64),
}

impl Requests {
    /// None yet.
    pub(super) fn begin(memory: &mut BootMemory<'_>) -> Option<Self> {
        let (mut request, mut piece) = (0, 0);
        let make = || {
            request += 1;
            Request {
                order: None,
                first_part: NONE,
                parts: 0,
                end: 0,
                is_again: false,
                next: next_of(request, REQUESTS),
            }
        };
        let requests = memory.slice(REQUESTS, make)?;
        let make = || {
            piece += 1;
            Piece { part: None, is_pinned: false, next: next_of(piece, PARTS) }
        };
        let pieces = memory.slice(PARTS, make)?;
        Some(Self {
            requests,
            pieces,
            free_requests: (0, REQUESTS),
            free_pieces: (0, PARTS),
            again: NONE,
            sweep: NONE,
            next_sweep: (NONE, NONE),
            ended: (NONE, 0),
        })
    }

    /// Requests and parts that there is room for.
    pub(super) fn room(&self) -> (usize, usize) {
        (self.free_requests.1, self.free_pieces.1)
    }

    /// Adds a request, for which there is room. It waits.
    pub(super) fn add(&mut self, order: Order, parts: impl Iterator<Item = Part>) {
        let (number, count) = self.free_requests;
        let next = self.of(number).next;
        self.free_requests = (next, count.checked_sub(1).expect("there is room for the request"));
        let (mut last, mut sum, mut bytes) = (NONE, 0, 0);
        let mut first = NONE;
        for part in parts {
            bytes += part.bytes();
            let piece = self.take_piece(part);
            match last {
                NONE => first = piece,
                last => self.pieces[usize::from(last)].next = piece,
            }
            (last, sum) = (piece, sum + 1);
        }
        let place = order.place;
        *self.of(number) = Request {
            order: Some(order),
            first_part: first,
            parts: sum,
            end: place + bytes,
            is_again: false,
            next: NONE,
        };
        self.put_by_place(number, place);
    }

    /// Takes the next request out of those that wait, with those that go together with it: the group has `most` parts
    /// at most. A request of more parts stays where it is.
    pub(super) fn next(&mut self, most: usize) -> Option<u16> {
        let leader = *self.turn();
        if leader == NONE || self.of(leader).parts > most {
            return None;
        }
        let last = if leader == self.again { leader } else { self.last_of_group(leader, most) };
        self.take(last);
        Some(leader)
    }

    /// The request that a group begins with.
    pub(super) fn order(&mut self, leader: u16) -> &Order {
        self.of(leader).order.as_ref().expect("a group has orders")
    }

    /// How many parts a group has.
    pub(super) fn parts(&self, leader: u16) -> usize {
        self.group(leader).map(|request| request.parts).sum()
    }

    /// The parts of a group, with their pins.
    pub(super) fn lend(&mut self, leader: u16) -> impl Iterator<Item = Part> {
        let (mut request, mut piece) = (leader, self.of(leader).first_part);
        core::iter::from_fn(move || {
            while piece == NONE {
                request = self.requests.get(usize::from(request))?.next;
                piece = self.requests.get(usize::from(request))?.first_part;
            }
            let Piece { part, next, .. } = &mut self.pieces[usize::from(piece)];
            piece = *next;
            part.as_mut().map(Part::lend)
        })
    }

    /// A group has ended: its requests are told of one by one.
    pub(super) fn end(&mut self, leader: u16, outcome: u64) {
        self.ended = (leader, outcome);
    }

    /// Whether a request goes once more, after it has failed.
    pub(super) fn is_again(&self, request: u16) -> bool {
        self.requests.get(usize::from(request)).is_some_and(|request| request.is_again)
    }

    /// Whether what is next goes once more.
    pub(super) fn is_next_again(&self) -> bool {
        self.again != NONE
    }

    /// A group has failed. Each of its requests goes once more, alone; these are the pins of its parts, in their order.
    pub(super) fn separate(&mut self, leader: u16, mut pins: impl Iterator<Item = Pinned>) {
        let mut request = leader;
        while request != NONE {
            let next = core::mem::replace(&mut self.of(request).next, NONE);
            self.of(request).is_again = true;
            let mut piece = self.of(request).first_part;
            while piece != NONE {
                let Piece { part, is_pinned, next } = &mut self.pieces[usize::from(piece)];
                if let (Some(part), true) = (part, *is_pinned) {
                    part.give_back(pins.next().expect("each part of a page has its pin"));
                }
                piece = *next;
            }
            self.put_again(request);
            request = next;
        }
    }

    /// The next request of the group that has ended.
    pub(super) fn next_ended(&mut self) -> Option<Finished> {
        let (request, outcome) = self.ended;
        if request == NONE {
            return None;
        }
        self.ended.0 = self.of(request).next;
        self.finish(request, outcome, |_| {})
    }

    /// Ends a request that waits; `ended` gets its pins.
    pub(super) fn end_waiting(&mut self, ended: impl FnMut(Pinned)) -> Option<Finished> {
        let request = *self.turn();
        if request == NONE {
            return None;
        }
        self.take(request);
        self.finish(request, status::RESET, ended)
    }

    /// Ends any request that the device has, which keeps its pins.
    pub(super) fn end_lost(&mut self) -> Option<Finished> {
        let request = self.requests.iter().position(|request| request.order.is_some())?;
        self.finish(request as u16, status::RESET, |_| {})
    }

    /// The time of the oldest request.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.orders().map(|order| order.now).min()
    }

    /// The request that waits with a page.
    pub(super) fn waits_with(&self, page: PageNumber) -> Option<&Order> {
        let has_it = |request: &&Request| {
            let mut piece = self.pieces.get(usize::from(request.first_part));
            while let Some(Piece { part, next, .. }) = piece {
                if part.as_ref().and_then(Part::pin).is_some_and(|pin| pin.page() == page) {
                    return true;
                }
                piece = self.pieces.get(usize::from(*next));
            }
            false
        };
        self.requests.iter().filter(|request| request.order.is_some()).find(has_it)?.order.as_ref()
    }

    /// The environment is gone: its requests go on without an owner.
    pub(super) fn disown(&mut self, environment: EnvironmentId) {
        let orders = self.requests.iter_mut().filter_map(|request| request.order.as_mut());
        orders.filter(|order| order.asked_by == environment).for_each(|order| order.asked_by = EnvironmentId::NONE);
    }

    fn orders(&self) -> impl Iterator<Item = &Order> {
        self.requests.iter().filter_map(|request| request.order.as_ref())
    }

    fn of(&mut self, request: u16) -> &mut Request {
        &mut self.requests[usize::from(request)]
    }

    /// A list of requests, from one on.
    fn group(&self, from: u16) -> impl Iterator<Item = &Request> {
        let first = self.requests.get(usize::from(from));
        core::iter::successors(first, |request| self.requests.get(usize::from(request.next)))
    }

    fn take_piece(&mut self, part: Part) -> u16 {
        let (piece, count) = self.free_pieces;
        let room = &mut self.pieces[usize::from(piece)];
        self.free_pieces = (core::mem::replace(&mut room.next, NONE), count - 1);
        room.is_pinned = part.pin().is_some();
        room.part = Some(part);
        piece
    }

    /// Frees a request; the result says how it ended.
    fn finish(&mut self, request: u16, outcome: u64, mut ended: impl FnMut(Pinned)) -> Option<Finished> {
        let free = self.free_requests.0;
        let Request { order, first_part, next, .. } = self.of(request);
        let (order, mut piece) = (order.take(), *first_part);
        *next = free;
        self.free_requests = (request, self.free_requests.1 + 1);
        while piece != NONE {
            let Piece { part, next, .. } = &mut self.pieces[usize::from(piece)];
            if let Some(pin) = part.take().and_then(|mut part| part.take_pin()) {
                ended(pin);
            }
            let behind = core::mem::replace(next, self.free_pieces.0);
            self.free_pieces = (piece, self.free_pieces.1 + 1);
            piece = behind;
        }
        order.map(|order| Finished { order, outcome })
    }

    /// The list whose turn it is: its first request.
    fn turn(&mut self) -> &mut u16 {
        if self.sweep == NONE {
            self.sweep = core::mem::replace(&mut self.next_sweep, (NONE, NONE)).0;
        }
        if self.again == NONE { &mut self.sweep } else { &mut self.again }
    }

    /// Takes the beginning of that list, up to a request.
    fn take(&mut self, last: u16) {
        *self.turn() = core::mem::replace(&mut self.of(last).next, NONE);
    }

    /// Puts a request behind those that go once more.
    fn put_again(&mut self, request: u16) {
        let mut last = self.again;
        if last == NONE {
            self.again = request;
            return;
        }
        while self.of(last).next != NONE {
            last = self.of(last).next;
        }
        self.of(last).next = request;
    }

    /// Puts a request into the next sweep, behind those of this place or one before it.
    fn put_by_place(&mut self, request: u16, place: u64) {
        let (first, last) = self.next_sweep;
        if last == NONE || self.order(last).place <= place {
            match last {
                NONE => self.next_sweep.0 = request,
                last => self.of(last).next = request,
            }
            self.next_sweep.1 = request;
            return;
        }
        let (mut before, mut next) = (NONE, first);
        while self.order(next).place <= place {
            (before, next) = (next, self.of(next).next);
        }
        self.of(request).next = next;
        match before {
            NONE => self.next_sweep.0 = request,
            before => self.of(before).next = request,
        }
    }

    /// The last of those behind a request that go together with it.
    fn last_of_group(&mut self, leader: u16, most: usize) -> u16 {
        let (mut last, mut parts) = (leader, self.of(leader).parts);
        loop {
            let next = self.of(last).next;
            if next == NONE || !self.follows(last, next) {
                return last;
            }
            parts += self.of(next).parts;
            if parts > most {
                return last;
            }
            last = next;
        }
    }

    /// Whether a request begins where another one ends, and does the same.
    fn follows(&mut self, first: u16, second: u16) -> bool {
        let (operation, end) = (self.order(first).operation, self.of(first).end);
        let second = self.order(second);
        second.operation == operation && second.place == end
    }
}

/// The number behind the one before `number`, of so many.
const fn next_of(number: u16, count: usize) -> u16 {
    if (number as usize) < count { number } else { NONE }
}
