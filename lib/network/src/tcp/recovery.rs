//! Loss recovery: which bytes to send again (RFC 6675 with SACK, RFC 6582 without, RFC 6298 after a time-out).
//!
//! `next` never moves back: after a time-out everything that was sent and not reported counts as lost, and
//! `retransmitted` runs over it once more. So a time-out resends the gaps, not the whole window.

use super::scoreboard::Scoreboard;
use super::segment::SackBlock;
use super::sequence::Sequence;

const DUPLICATE_THRESHOLD: u8 = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    Open,
    /// Fast recovery until `point` is acknowledged.
    Fast,
    /// After a time-out until `point` is acknowledged.
    Loss,
}

/// What recovery needs to know about the sender.
#[derive(Clone, Copy, Debug)]
pub struct Outstanding {
    pub una: Sequence,
    pub next: Sequence,
    /// Bytes of a full segment.
    pub segment: u32,
    /// The congestion window.
    pub window: u32,
}

#[derive(Debug, Default)]
pub struct Recovery {
    pub board: Scoreboard,
    pub phase: Phase,
    /// What was sent when the phase began.
    pub point: Sequence,
    /// Bytes below were sent again in this phase (`HighRxt`).
    pub retransmitted: Sequence,
    /// Without SACK: bytes that duplicate acknowledgements say have left the network.
    pub inflation: u32,
    pub duplicates: u8,
    /// The first unacknowledged segment is sent at once, whatever the window says.
    pub head_is_due: bool,
    /// The rescue retransmission of RFC 6675 was used in this phase.
    pub rescued: bool,
}

impl Recovery {
    pub fn new(start: Sequence) -> Self {
        Self { point: start, retransmitted: start, ..Self::default() }
    }

    fn begin(&mut self, phase: Phase, sender: &Outstanding) {
        self.phase = phase;
        self.point = sender.next;
        self.retransmitted = sender.una;
        self.rescued = false;
        self.head_is_due = true;
    }

    pub fn time_out(&mut self, sender: &Outstanding) {
        self.begin(Phase::Loss, sender);
        self.inflation = 0;
        self.duplicates = 0;
    }

    /// A path became narrower: everything goes out again in smaller segments.
    pub fn resend_all(&mut self, sender: &Outstanding) {
        if sender.una != sender.next {
            self.time_out(sender);
        }
    }

    /// A duplicate acknowledgement came. Returns whether fast recovery begins with it.
    pub fn duplicate(&mut self, sender: &Outstanding, with_sack: bool) -> bool {
        self.duplicates = self.duplicates.saturating_add(1);
        if !with_sack && self.phase != Phase::Loss {
            let flight = sender.next.distance(sender.una);
            self.inflation = (self.inflation + sender.segment).min(flight);
        }
        let is_lost = self.duplicates >= DUPLICATE_THRESHOLD
            || self.board.lost_edge(sender.segment).is_some_and(|edge| edge > sender.una);
        // RFC 6582: duplicates that the last phase caused begin no new one.
        let is_fresh = with_sack || sender.una >= self.point;
        if self.phase != Phase::Open || !is_lost || !is_fresh {
            return false;
        }
        self.begin(Phase::Fast, sender);
        true
    }

    /// `advance` new bytes up to `sender.una` were acknowledged. Returns whether a phase ended.
    pub fn acknowledged(&mut self, advance: u32, sender: &Outstanding, with_sack: bool) -> bool {
        self.board.advance(sender.una);
        self.duplicates = 0;
        if self.board.is_reneged(sender.una) {
            self.board.clear();
        }
        self.retransmitted = self.retransmitted.max(sender.una);
        if self.phase == Phase::Open {
            self.inflation = 0;
            return false;
        }
        if sender.una >= self.point {
            (self.phase, self.inflation, self.head_is_due) = (Phase::Open, 0, false);
            return true;
        }
        if self.phase == Phase::Fast && !with_sack {
            self.head_is_due = true;
            self.inflation = self.inflation.saturating_sub(advance);
            if advance >= sender.segment {
                self.inflation += sender.segment;
            }
        }
        false
    }

    fn lost_edge(&self, sender: &Outstanding) -> Sequence {
        match self.phase {
            Phase::Loss => self.point,
            _ => self.board.lost_edge(sender.segment).unwrap_or(sender.una).max(sender.una),
        }
    }

    /// Bytes that are estimated to be on their way.
    pub fn pipe(&self, sender: &Outstanding) -> u32 {
        let fresh = self.board.unreported(self.lost_edge(sender), sender.next);
        let again = match self.phase {
            Phase::Open => 0,
            _ => self.board.unreported(sender.una, self.retransmitted),
        };
        (fresh + again).saturating_sub(self.inflation)
    }

    fn has_room(&self, sender: &Outstanding) -> bool {
        let pipe = self.pipe(sender);
        pipe == 0 || pipe + sender.segment <= sender.window
    }

    /// What to send again before anything new: rule 1 of `NextSeg`.
    pub fn first_choice(&self, sender: &Outstanding) -> Option<SackBlock> {
        if sender.una == sender.next {
            return None;
        }
        if self.head_is_due {
            return self.board.hole(sender.una, sender.next);
        }
        if self.phase == Phase::Open || !self.has_room(sender) {
            return None;
        }
        self.board.hole(self.retransmitted.max(sender.una), self.lost_edge(sender))
    }

    /// What to send again when nothing new may be sent: rules 3 and 4.
    pub fn last_choice(&self, sender: &Outstanding) -> Option<SackBlock> {
        if self.phase != Phase::Fast || !self.has_room(sender) {
            return None;
        }
        let highest = self.board.highest()?;
        let hole = self.board.hole(self.retransmitted.max(sender.una), highest);
        hole.or_else(|| {
            let first = sender.next.minus(sender.segment.min(sender.next.distance(sender.una))).max(highest);
            (!self.rescued && first < sender.next).then_some((first, sender.next))
        })
    }

    /// `first..end` was sent again.
    pub fn sent(&mut self, first: Sequence, end: Sequence, with_sack: bool) {
        if self.board.highest().is_some_and(|highest| first >= highest) && self.phase == Phase::Fast {
            self.rescued = true;
        } else if with_sack || self.phase == Phase::Loss {
            self.retransmitted = self.retransmitted.max(end);
        }
        self.head_is_due = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(una: u32, next: u32) -> Outstanding {
        Outstanding { una: Sequence(una), next: Sequence(next), segment: 100, window: 500 }
    }

    fn report(recovery: &mut Recovery, first: u32, end: u32) {
        recovery.board.record((Sequence(first), Sequence(end)), Sequence(0), Sequence(1000));
    }

    #[test]
    fn gaps_are_sent_before_new_data_and_only_once() {
        let mut recovery = Recovery::new(Sequence(0));
        let sender = sender(0, 1000);
        report(&mut recovery, 100, 300);
        assert!(!recovery.duplicate(&sender, true));
        report(&mut recovery, 400, 600);
        assert!(recovery.duplicate(&sender, true));
        assert_eq!(recovery.pipe(&sender), 500);
        for (first, end) in [(0, 100), (300, 400)] {
            recovery.retransmitted = recovery.retransmitted.max(Sequence(first));
            let hole = recovery.board.hole(Sequence(first), Sequence(1000));
            assert_eq!(hole, Some((Sequence(first), Sequence(end))));
        }
        assert_eq!(recovery.first_choice(&sender), Some((Sequence(0), Sequence(100))));
        recovery.retransmitted = Sequence(0);
        recovery.sent(Sequence(0), Sequence(100), true);
        assert_eq!(recovery.first_choice(&sender), None);
    }

    #[test]
    fn a_time_out_resends_gaps_alone() {
        let mut recovery = Recovery::new(Sequence(0));
        let mut sender = sender(0, 1000);
        report(&mut recovery, 200, 900);
        recovery.time_out(&sender);
        sender.window = 100;
        assert_eq!(recovery.pipe(&sender), 0);
        let mut sent = alloc::vec::Vec::new();
        sender.window = 1000;
        while let Some((first, end)) = recovery.first_choice(&sender) {
            let end = end.min(first.plus(100));
            recovery.sent(first, end, true);
            sent.push((first.0, end.0));
        }
        assert_eq!(sent, [(0, 100), (100, 200), (900, 1000)]);
    }

    #[test]
    fn partial_acknowledgements_without_sack_send_the_next_segment() {
        let mut recovery = Recovery::new(Sequence(0));
        let mut now = sender(0, 1000);
        assert_eq!([1, 2, 3].map(|_| recovery.duplicate(&now, false)), [false, false, true]);
        assert_eq!(recovery.pipe(&now), 700);
        assert!(recovery.first_choice(&now).is_some());
        recovery.sent(Sequence(0), Sequence(100), false);
        assert_eq!(recovery.first_choice(&now), None);
        now.una = Sequence(300);
        assert!(!recovery.acknowledged(300, &now, false));
        assert_eq!(recovery.first_choice(&now).map(|hole| hole.0), Some(Sequence(300)));
        now.una = Sequence(1000);
        assert!(recovery.acknowledged(700, &now, false));
    }

    #[test]
    fn reneging_clears_the_board() {
        let mut recovery = Recovery::new(Sequence(0));
        report(&mut recovery, 200, 900);
        recovery.acknowledged(200, &sender(200, 1000), true);
        assert!(recovery.board.is_empty());
    }
}
