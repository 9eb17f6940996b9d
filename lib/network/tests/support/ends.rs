//! Two ends on a wire, and the run until both have ended.

use network::time::{SECOND, Time};

use super::wire::Wire;

pub trait End {
    /// A packet has arrived.
    fn deliver(&mut self, packet: &[u8], now: Time);

    /// Runs timers and the script, and hands over what goes out.
    fn poll(&mut self, now: Time) -> Vec<Vec<u8>>;

    /// When `poll` is next called even if nothing arrives.
    fn deadline(&self, now: Time) -> Time;

    /// Both directions were transferred and closed.
    fn is_done(&self) -> bool;

    /// Asserts that nothing is left: no timer, no page, no record.
    fn assert_clean(&self);

    fn describe(&self) -> String;
}

/// Runs until both ends are done; returns when. Panics after `limit`.
pub fn run(ends: &mut [Box<dyn End>; 2], wire: &mut Wire, start: Time, limit: u64) -> Time {
    let mut now = start;
    loop {
        for (index, end) in ends.iter_mut().enumerate() {
            for packet in end.poll(now) {
                wire.send(1 - index, &packet, now);
            }
        }
        if ends.iter().all(|end| end.is_done()) {
            return now;
        }
        let deadline = ends.iter().map(|end| end.deadline(now)).min().expect("two ends");
        let next = wire.next_arrival().min(deadline);
        assert!(
            next < start.after(limit),
            "no end: {} | {} at {now:?}, next {next:?}",
            ends[0].describe(),
            ends[1].describe()
        );
        now = now.max(next);
        while let Some((to, packet)) = wire.take(now) {
            ends[to].deliver(&packet, now);
        }
    }
}

/// Lets the ends go on until nothing waits any more, and asserts that nothing is left.
pub fn drain(ends: &mut [Box<dyn End>; 2], wire: &mut Wire, from: Time) {
    let mut now = from;
    let limit = from.after(3600 * SECOND);
    loop {
        for (index, end) in ends.iter_mut().enumerate() {
            for packet in end.poll(now) {
                wire.send(1 - index, &packet, now);
            }
        }
        let deadline = ends.iter().map(|end| end.deadline(now)).min().expect("two ends");
        let next = wire.next_arrival().min(deadline);
        if next > limit {
            break;
        }
        now = now.max(next);
        while let Some((to, packet)) = wire.take(now) {
            ends[to].deliver(&packet, now);
        }
    }
    for end in ends.iter() {
        end.assert_clean();
    }
}
