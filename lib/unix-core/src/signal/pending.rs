//! Signals on their way: what is pending, who sent it, and the queue of those that are counted.
//!
//! Pure, over words that others write too: a page that relatives share, or an array in the heap for what is sent to one
//! thread. Nothing found there is trusted: every value of every word has a meaning. Signals below [`FIRST_QUEUED`] are
//! pending or not; those from there on are queued in order, each with what came with it (signal(7)).

use super::frame::Information;
use super::set::{CONTINUE, COUNT, STOPS, bit};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// The first signal that is queued.
pub const FIRST_QUEUED: u32 = 32;
/// Words without a queue.
const FIXED: usize = SINGLE + 3 * (COUNT as usize + 1);
/// Words of an entry of the queue: state, code, detail, value.
const ENTRY: usize = 4;
/// Words for the signals of one thread.
pub const THREAD_WORDS: usize = FIXED + 40 * ENTRY;

/// The word with the set of pending signals.
pub const PENDING: usize = 0;
const SEQUENCE: usize = 4;
/// The set of queued signals for which there was no room: they are pending, and what came with them is lost.
const OVERFLOWN: usize = 5;
/// How often SIGCONT was put in: it continues a stopped process, although another stop has taken it back since.
const CONTINUES: usize = 7;
/// The most entries that may be in use (RLIMIT_SIGPENDING), and one; 0: as many as there are.
const LIMIT: usize = 8;
/// How many signals the receiver holds elsewhere: they count for the limit.
const ELSEWHERE: usize = 9;
/// Code, detail and value of each signal that is not queued.
const SINGLE: usize = 16;
/// State of an entry that is being written or taken; 0 is a free one.
const BUSY: u64 = 1;

/// Where signals are put and taken out.
#[derive(Clone, Copy, Debug)]
pub struct PendingSignals<'a> {
    fixed: &'a [AtomicU64; FIXED],
    queue: &'a [AtomicU64],
}

impl<'a> PendingSignals<'a> {
    /// In these words, at least [`THREAD_WORDS`].
    #[inline]
    pub fn new(words: &'a [AtomicU64]) -> Self {
        let (fixed, queue) = words.split_first_chunk().expect("there are enough words for signals");
        Self { fixed, queue }
    }

    /// The word with the set of pending signals.
    #[inline]
    pub fn pending(self) -> &'a AtomicU64 {
        &self.fixed[PENDING]
    }

    /// The count of SIGCONT.
    pub fn continues(self) -> &'a AtomicU64 {
        &self.fixed[CONTINUES]
    }

    /// Sets how many queued signals there may be.
    pub fn set_limit(self, most: u64) {
        self.fixed[LIMIT].store(most.wrapping_add(1), Relaxed);
    }

    /// Says how many signals the receiver holds elsewhere.
    pub fn set_elsewhere(self, count: u64) {
        self.fixed[ELSEWHERE].store(count, Relaxed);
    }

    /// Whether all entries are in use.
    pub fn is_full(self) -> bool {
        self.entries().all(|entry| entry[0].load(Relaxed) != 0)
    }

    /// Whether a signal finds room: `EAGAIN` by the limit, `ENOBUFS` where all entries are in use.
    pub fn has_room_for(self, information: &Information) -> Result<()> {
        if information.signal < FIRST_QUEUED {
            return Ok(());
        }
        let used = self.entries().filter(|entry| entry[0].load(Relaxed) != 0).count();
        let all = self.fixed[ELSEWHERE].load(Relaxed).saturating_add(used as u64);
        match self.fixed[LIMIT].load(Relaxed) {
            limit if limit != 0 && all >= limit - 1 => Err(Errno::EAGAIN),
            _ if used == self.queue.len() / ENTRY => Err(Errno::ENOBUFS),
            _ => Ok(()),
        }
    }

    /// Puts a signal in. `EAGAIN` where the queue is full: what `sigqueue` and `tgkill` send is not sent then, and any
    /// other is pending all the same, without what came with it.
    #[inline]
    pub fn put(self, information: &Information) -> Result<()> {
        let signal = information.signal;
        if !(1..=COUNT).contains(&signal) {
            return Err(Errno::EINVAL);
        }
        let opposite = match bit(signal) {
            CONTINUE => STOPS,
            one if one & STOPS != 0 => CONTINUE,
            _ => 0,
        };
        if opposite != 0 {
            self.pending().fetch_and(!opposite, SeqCst);
            self.continues().fetch_add(u64::from(opposite == STOPS), SeqCst);
        }
        let outcome = match signal {
            _ if information.code == linux::SI_TIMER && self.count_expiry(information) => Ok(()),
            FIRST_QUEUED.. => self.enqueue(information),
            _ => self.put_single(information),
        };
        if outcome.is_err() {
            if is_refused_without_room(information.code) {
                return outcome;
            }
            self.fixed[OVERFLOWN].fetch_or(bit(signal), SeqCst);
        }
        self.pending().fetch_or(bit(signal), SeqCst);
        outcome
    }

    /// Takes a pending signal out, with what came with it; nothing where it was taken out before. Its entry is seen
    /// sooner than its bit, and with another entry's bit it may be gone before its own is set.
    #[inline]
    pub fn take(self, signal: u32) -> Option<Information> {
        if signal >= FIRST_QUEUED {
            return self.dequeue(signal);
        }
        let [code, detail, value] = self.single(signal).map(|word| word.load(Acquire));
        let was = self.pending().fetch_and(!bit(signal), SeqCst);
        (was & bit(signal) != 0).then_some(Information { signal, code: code as i32, detail, value })
    }

    /// Drops every pending signal of a set.
    pub fn drop_all(self, set: u64) {
        for entry in self.entries() {
            let state = entry[0].load(Acquire);
            // Others write these words: any value has a meaning.
            let signal = (state & 0xff) as u32;
            if state > BUSY && (FIRST_QUEUED..=COUNT).contains(&signal) && set & bit(signal) != 0 {
                let _ = entry[0].compare_exchange(state, 0, SeqCst, Relaxed);
            }
        }
        self.fixed[OVERFLOWN].fetch_and(!set, SeqCst);
        self.pending().fetch_and(!set, SeqCst);
    }

    /// There is nothing in it, nor in the other words before those of signals.
    pub fn clear(self) {
        self.fixed[..SINGLE].iter().for_each(|word| word.store(0, Relaxed));
        self.entries().for_each(|entry| entry[0].store(0, Relaxed));
    }

    fn put_single(self, information: &Information) -> Result<()> {
        if self.pending().load(Acquire) & bit(information.signal) == 0 {
            Self::write(self.single(information.signal), information);
        }
        Ok(())
    }

    /// A timer whose signal is pending still is not told twice: how often it has expired since, that signal says
    /// (timer_getoverrun(2)). The number of a timer stands in the lower half of the detail, the count in the upper one.
    #[inline(never)]
    fn count_expiry(self, information: &Information) -> bool {
        let signal = information.signal;
        let add = |code: &AtomicU64, detail: &AtomicU64| {
            let is_its = code.load(Acquire) == u64::from(information.code as u32)
                && detail.load(Acquire) as u32 == information.detail as u32;
            if is_its {
                detail.fetch_add((1 << 32) + (information.detail & !0xffff_ffff), SeqCst);
            }
            is_its
        };
        if signal < FIRST_QUEUED {
            let [code, detail, _] = self.single(signal);
            return self.pending().load(Acquire) & bit(signal) != 0 && add(code, detail);
        }
        self.entries().any(|entry| {
            let state = entry[0].load(Acquire);
            if !Self::is_of(state, signal) || entry[0].compare_exchange(state, BUSY, SeqCst, Relaxed).is_err() {
                return false;
            }
            let is_its = add(&entry[1], &entry[2]);
            entry[0].store(state, Release);
            is_its
        })
    }

    #[inline(never)]
    fn enqueue(self, information: &Information) -> Result<()> {
        let free = |entry: &&[AtomicU64]| entry[0].compare_exchange(0, BUSY, SeqCst, Relaxed).is_ok();
        self.has_room_for(information).map_err(|_| Errno::EAGAIN)?;
        let entry = self.entries().find(free).ok_or(Errno::EAGAIN)?;
        Self::write([&entry[1], &entry[2], &entry[3]], information);
        let sequence = self.fixed[SEQUENCE].fetch_add(1, SeqCst) & (u64::MAX >> 9);
        entry[0].store((sequence + 1) << 8 | u64::from(information.signal), Release);
        Ok(())
    }

    #[inline(never)]
    fn dequeue(self, signal: u32) -> Option<Information> {
        let unknown = Information { signal, ..Information::default() };
        let taken = match self.oldest(|state, _| Self::is_of(state, signal)) {
            Some((_, entry)) => {
                let [code, detail, value] = [1, 2, 3].map(|index| entry[index].load(Acquire));
                entry[0].store(0, Release);
                Some(Information { code: code as i32, detail, value, ..unknown })
            }
            None => {
                let were = self.fixed[OVERFLOWN].fetch_and(!bit(signal), SeqCst);
                (were & bit(signal) != 0).then_some(unknown)
            }
        };
        self.settle(signal, false);
        taken
    }

    /// Clears the bit of a queued signal that was taken out, unless more of it is left, here or elsewhere.
    pub fn settle(self, signal: u32, is_elsewhere: bool) {
        self.pending().fetch_and(!bit(signal), SeqCst);
        let is_left = is_elsewhere
            || self.fixed[OVERFLOWN].load(SeqCst) & bit(signal) != 0
            || self.entries().any(|entry| Self::is_of(entry[0].load(Acquire), signal));
        if is_left {
            self.pending().fetch_or(bit(signal), SeqCst);
        }
    }

    /// Takes all queued signals out, oldest first, and leaves their bits. Those of timers stay: a timer counts its
    /// expiries in its entry.
    pub fn take_all_queued(self, mut each: impl FnMut(Information)) {
        let movable = |state: u64, entry: &[AtomicU64]| {
            let signal = (state & 0xff) as u32;
            (FIRST_QUEUED..=COUNT).contains(&signal) && state > BUSY && entry[1].load(Acquire) as i32 != linux::SI_TIMER
        };
        // A sender that keeps filling entries does not hold the receiver here.
        for _ in 0..self.queue.len() / ENTRY {
            let Some((state, entry)) = self.oldest(movable) else { return };
            let [code, detail, value] = [1, 2, 3].map(|index| entry[index].load(Acquire));
            each(Information { signal: (state & 0xff) as u32, code: code as i32, detail, value });
            entry[0].store(0, Release);
        }
    }

    /// The wanted entry that came first, made busy, with its state before.
    fn oldest(self, is_wanted: impl Fn(u64, &[AtomicU64]) -> bool) -> Option<(u64, &'a [AtomicU64])> {
        loop {
            let states = self.entries().map(|entry| (entry[0].load(Acquire), entry));
            let (state, entry) =
                states.filter(|(state, entry)| is_wanted(*state, entry)).min_by_key(|(state, _)| *state)?;
            if entry[0].compare_exchange(state, BUSY, SeqCst, Relaxed).is_ok() {
                return Some((state, entry));
            }
        }
    }

    fn entries(self) -> impl Iterator<Item = &'a [AtomicU64]> {
        self.queue.chunks_exact(ENTRY)
    }

    const fn is_of(state: u64, signal: u32) -> bool {
        state > BUSY && state & 0xff == signal as u64
    }

    /// What came with a signal that is not queued.
    #[inline]
    fn single(self, signal: u32) -> [&'a AtomicU64; 3] {
        let all = self.fixed[SINGLE..].as_chunks::<3>().0;
        all[signal as usize % all.len()].each_ref()
    }

    #[inline]
    fn write(words: [&AtomicU64; 3], information: &Information) {
        let values = [u64::from(information.code as u32), information.detail, information.value];
        for (word, value) in words.into_iter().zip(values) {
            word.store(value, Relaxed);
        }
    }
}

/// Whether a signal that finds no room is an error of its sender: Linux sends those of `kill`, of the kernel and of
/// timers all the same.
pub const fn is_refused_without_room(code: i32) -> bool {
    code < 0 && code != linux::SI_TIMER
}

/// What `kill` says of its sender: number (0..32) and user.
pub const fn from_user(signal: u32, sender: u64) -> Information {
    Information { signal, code: linux::SI_USER as i32, detail: sender, value: 0 }
}

/// A signal without a sender: the terminal, an alarm.
pub const fn from_system(signal: u32) -> Information {
    Information { signal, code: linux::SI_KERNEL as i32, detail: 0, value: 0 }
}
