//! Which program the children of a process execute by themselves, one after the other (`process::beside`).
//!
//! Pure.

use alloc::vec::Vec;

/// How often children have to execute the same program for the next one to be thought to do so, too, if nothing else speaks for it, and how
/// much more at most.
const NEEDED: u32 = 3;
const MOST: u32 = 64;
/// How many children may have no use of what stands ready.
const PATIENCE: u32 = 4;

/// What they have executed last.
#[derive(Debug)]
pub struct ExecPredictor {
    /// How often they have to do so.
    needed: u32,
    path: Vec<u8>,
    times: u32,
    /// How many children were made since that had no use of what stood ready.
    unused: u32,
    /// Beyond the least that is needed, because it was in vain before.
    more: u32,
}

impl Default for ExecPredictor {
    fn default() -> Self {
        Self::after(NEEDED)
    }
}

impl ExecPredictor {
    /// One that so many times make.
    pub const fn after(needed: u32) -> Self {
        Self { needed, path: Vec::new(), times: 0, unused: 0, more: 0 }
    }

    /// Notes whether one had use of what stood ready for it; whether it is to go, because none has any more.
    pub fn note_use(&mut self, was_used: bool) -> bool {
        self.unused = if was_used { 0 } else { self.unused + 1 };
        self.unused > PATIENCE
    }

    /// Notes what one has executed, for which something else may have stood ready `in_vain`; whether the next one is likely to do so, too.
    pub fn note(&mut self, path: &[u8], in_vain: bool) -> bool {
        if self.path == path {
            self.times += 1;
        } else {
            self.more = if in_vain { (2 * self.more + 1).min(MOST) } else { self.more };
            self.times = 1;
            self.path.clear();
            self.path.extend_from_slice(path);
        }
        !path.is_empty() && self.times >= self.needed + self.more
    }
}

/// Which generation of all programs there is (`server::protocol::PROGRAMS`), looked at once for each child that is gone. What was known of
/// another one is not found again by who executes it, however often: it is worth a look when nothing has changed meanwhile.
#[derive(Debug, Default)]
pub struct GenerationTracker {
    now: u64,
    is_steady: bool,
}

impl GenerationTracker {
    /// Notes the one there is now.
    pub const fn note(&mut self, now: u64) {
        (self.is_steady, self.now) = (self.now == now, now);
    }

    /// Whether what was known of this generation is to be looked at anew.
    pub const fn is_old(&self, known: u64) -> bool {
        self.is_steady && known != self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_executes_the_same_three_times_does_it_again() {
        let mut habit = ExecPredictor::default();
        let told = [&b"/bin/a"[..], b"/bin/b", b"/bin/b", b"/bin/b", b"", b""].map(|path| habit.note(path, false));
        assert_eq!(told, [false, false, false, true, false, false], "of an empty path nothing is known");
    }

    #[test]
    fn what_was_in_vain_needs_more_the_next_time() {
        let mut habit = ExecPredictor::default();
        let mut needed = |path: &[u8]| (1..).find(|time| habit.note(path, *time == 1)).unwrap_or(0);
        assert_eq!([needed(b"/a"), needed(b"/b"), needed(b"/c")], [4, 6, 10]);
        let most = (0..20).map(|round| needed(if round % 2 == 0 { b"/a" } else { b"/b" })).max();
        assert_eq!(most, Some(NEEDED + MOST));
    }

    #[test]
    fn what_is_known_is_looked_at_anew_once_nothing_changes_any_more() {
        let mut generations = GenerationTracker::default();
        let told = [3, 3, 4, 5, 5, 5].map(|now| {
            generations.note(now);
            generations.is_old(3)
        });
        assert_eq!(told, [false, false, false, false, true, true]);
        assert!(!generations.is_old(5), "what was looked at is known");
    }

    #[test]
    fn what_nobody_uses_goes() {
        let mut habit = ExecPredictor::default();
        let told = [true, false, false, false, false, true, false].map(|was_used| habit.note_use(was_used));
        assert_eq!(told, [false; 7]);
        assert_eq!([false; 4].map(|was_used| habit.note_use(was_used)), [false, false, false, true]);
    }

    #[test]
    fn the_same_program_that_is_another_one_now_is_not_in_vain() {
        let mut habit = ExecPredictor::default();
        let told = [false, false, true, true].map(|in_vain| habit.note(b"/a", in_vain));
        assert_eq!(told, [false, false, true, true]);
    }
}
