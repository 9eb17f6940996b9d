//! TIME_WAIT as compact records: 48 bytes instead of a block, and 12 for the deadline and the place in the list.
//!
//! All records live equally long, so they end in the order in which they began; one that starts anew moves to the end.
//!
//! Invariants:
//! - The list of entries is sorted by deadline.
//! - At most [`LIMIT`] records: the oldest yields its place (FAULTS row 79).

use super::segment::{ACK, FIN, Outgoing, RST, SYN, Segment, Timestamps};
use super::sequence::Sequence;
use super::timer;
use crate::address::Pair;
use crate::slab::Slab;
use crate::time::{SECOND, Time};

pub const LIMIT: usize = 32_768;

/// What is left of a connection that ended here.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub pair: Pair,
    pub next: Sequence,
    pub receive_next: Sequence,
    /// Latest timestamp of the peer; 0 without timestamps.
    pub recent: u32,
}

const _: () = assert!(core::mem::size_of::<Record>() == 48);

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Entry {
    record: Record,
    /// Seconds since boot.
    deadline: u32,
    previous: u32,
    next: u32,
}

#[derive(Debug)]
pub struct TimeWaits {
    entries: Slab<Entry>,
    oldest: u32,
    newest: u32,
}

impl Default for TimeWaits {
    fn default() -> Self {
        Self { entries: Slab::default(), oldest: NONE, newest: NONE }
    }
}

/// What a segment does to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Nothing,
    Acknowledge(Outgoing),
    /// The peer opens the same pair anew (RFC 9293, 3.6.1; RFC 6191). The new connection numbers beyond the old.
    Reopen(Sequence),
}

fn deadline_from(now: Time) -> u32 {
    (now.after(timer::TIME_WAIT).micros().div_ceil(SECOND)) as u32
}

impl TimeWaits {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn get(&self, index: u32) -> Option<&Record> {
        self.entries.at(index).map(|entry| &entry.record)
    }

    /// Whether the oldest record has to go before another one is added.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= LIMIT
    }

    pub fn add(&mut self, record: Record, now: Time) -> u32 {
        let entry = Entry { record, deadline: deadline_from(now), previous: NONE, next: NONE };
        let index = self.entries.insert(entry).index;
        self.append(index);
        index
    }

    pub fn remove(&mut self, index: u32) -> Option<Record> {
        self.unlink(index);
        self.entries.remove(index).map(|entry| entry.record)
    }

    fn append(&mut self, index: u32) {
        let newest = core::mem::replace(&mut self.newest, index);
        match self.entries.at_mut(newest) {
            Some(entry) => entry.next = index,
            None => self.oldest = index,
        }
        if let Some(entry) = self.entries.at_mut(index) {
            (entry.previous, entry.next) = (newest, NONE);
        }
    }

    fn unlink(&mut self, index: u32) {
        let Some(&Entry { previous, next, .. }) = self.entries.at(index) else { return };
        match self.entries.at_mut(previous) {
            Some(entry) => entry.next = next,
            None => self.oldest = next,
        }
        match self.entries.at_mut(next) {
            Some(entry) => entry.previous = previous,
            None => self.newest = previous,
        }
    }

    /// Removes the oldest record if its time is over, or in any case when `force` is set.
    pub fn take_expired(&mut self, now: Time, force: bool) -> Option<(u32, Record)> {
        let index = self.oldest;
        let is_due = |entry: &Entry| now.micros() / SECOND >= u64::from(entry.deadline);
        self.entries.at(index).filter(|entry| force || is_due(entry))?;
        self.remove(index).map(|record| (index, record))
    }

    pub fn deadline(&self) -> Time {
        let oldest = self.entries.at(self.oldest);
        oldest.map_or(Time::NEVER, |entry| Time::from_micros(u64::from(entry.deadline) * SECOND))
    }

    /// Answers a segment; `stamp` is our clock for timestamps.
    pub fn input(&mut self, index: u32, segment: &Segment, payload: usize, stamp: u32, now: Time) -> Answer {
        let Some(entry) = self.entries.at_mut(index) else { return Answer::Nothing };
        let record = entry.record;
        let mut restart = false;
        // RFC 1337: a reset does not end TIME_WAIT.
        if segment.has(RST) {
            return Answer::Nothing;
        }
        if segment.has(SYN) && !segment.has(ACK) && is_newer(&record, segment) {
            return Answer::Reopen(record.next);
        }
        if segment.has(FIN) && segment.sequence.plus(segment.length(payload)) == record.receive_next {
            entry.deadline = deadline_from(now);
            restart = true;
        } else if segment.length(payload) == 0 && segment.sequence == record.receive_next {
            return Answer::Nothing;
        }
        if restart {
            self.unlink(index);
            self.append(index);
        }
        let echo = record.recent;
        Answer::Acknowledge(Outgoing {
            sequence: record.next,
            acknowledgement: Some(record.receive_next),
            timestamps: (echo != 0).then_some(Timestamps { value: stamp, echo }),
            ..Outgoing::default()
        })
    }
}

fn is_newer(record: &Record, segment: &Segment) -> bool {
    let by_stamp = record.recent != 0
        && segment.timestamps.is_some_and(|stamps| stamps.value.wrapping_sub(record.recent).cast_signed() > 0);
    by_stamp || segment.sequence > record.receive_next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Endpoint;

    fn record(port: u16) -> Record {
        let pair = Pair { local: Endpoint::new([10, 0, 0, 1], 80), remote: Endpoint::new([10, 0, 0, 2], port) };
        Record { pair, next: Sequence(100), receive_next: Sequence(200), recent: 0 }
    }

    fn at(seconds: u64) -> Time {
        Time::from_micros(seconds * SECOND)
    }

    fn segment(flags: u8, sequence: u32) -> Segment {
        Segment { flags, sequence: Sequence(sequence), acknowledgement: Sequence(100), ..Segment::default() }
    }

    #[test]
    fn records_end_in_order_and_a_repeated_fin_starts_one_anew() {
        let mut waits = TimeWaits::default();
        let indices: alloc::vec::Vec<u32> = (0..3).map(|port| waits.add(record(port), at(u64::from(port)))).collect();
        assert!(matches!(waits.input(indices[0], &segment(FIN | ACK, 199), 0, 0, at(30)), Answer::Acknowledge(_)));
        assert_eq!(waits.take_expired(at(60), false).map(|(index, _)| index), None);
        assert_eq!(waits.take_expired(at(61), false).map(|(index, _)| index), Some(indices[1]));
        assert_eq!((waits.take_expired(at(61), false).is_none(), waits.deadline()), (true, at(62)));
        assert_eq!(waits.take_expired(at(99), false).map(|(index, _)| index), Some(indices[2]));
        assert_eq!(waits.take_expired(at(90), false).map(|(index, _)| index), Some(indices[0]));
        assert_eq!((waits.len(), waits.deadline()), (0, Time::NEVER));
    }

    #[test]
    fn resets_change_nothing_and_a_newer_syn_opens_anew() {
        let mut waits = TimeWaits::default();
        let index = waits.add(record(1), at(0));
        assert_eq!(waits.input(index, &segment(RST, 200), 0, 0, at(1)), Answer::Nothing);
        assert_eq!(waits.input(index, &segment(ACK, 200), 0, 0, at(1)), Answer::Nothing);
        assert!(matches!(waits.input(index, &segment(SYN, 150), 0, 0, at(1)), Answer::Acknowledge(_)));
        assert_eq!(waits.input(index, &segment(SYN, 201), 0, 0, at(1)), Answer::Reopen(Sequence(100)));
        assert_eq!(waits.remove(index).map(|record| record.next), Some(Sequence(100)));
    }
}
