//! Sets of semaphores (semop(2)): several changes that happen together or not at all, and are undone when their
//! process dies. What has to wait is carried out by the change that permits it: a set may be removed before its waiter
//! runs.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};

/// The highest value.
pub const HIGHEST: i32 = 32767;
/// Semaphores in a set.
pub const MOST: usize = 32000;
/// Changes in one operation.
pub const MOST_CHANGES: usize = 500;
/// Flag of a change: it is not waited for.
pub const NO_WAIT: u16 = 0o4000;
/// Flag of a change: it is undone when the process ends.
pub const UNDO: u16 = 0x1000;

/// A semaphore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Semaphore {
    /// Its value.
    pub value: i32,
    /// The process that changed it last.
    pub process: u64,
}

/// One change: `struct sembuf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which semaphore.
    pub number: u16,
    /// By how much; 0: it must be 0.
    pub by: i16,
    /// Flags.
    pub flags: u16,
}

impl Change {
    /// Bytes of one.
    pub const BYTES: usize = 6;

    /// From its bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let two = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Self { number: two(0), by: two(2) as i16, flags: two(4) }
    }
}

/// An operation that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Of which process.
    pub process: u64,
    /// All of it.
    pub changes: Vec<Change>,
    /// The semaphore that it waits for, and whether for it to be 0.
    place: (u16, bool),
}

/// A set.
#[derive(Clone, Debug, Default)]
pub struct Set {
    /// The semaphores.
    pub semaphores: Vec<Semaphore>,
    /// What to add for each process when it ends.
    undo: BTreeMap<u64, Vec<i32>>,
    /// In the order in which they came.
    waiting: Vec<Waiter>,
    /// Seconds: last operation, last change of the set.
    pub times: [u64; 2],
}

impl Set {
    /// One of so many semaphores, all 0.
    ///
    /// # Errors
    /// `EINVAL` for none or too many.
    pub fn new(count: u64, now: u64) -> Result<Self> {
        if count == 0 || count > MOST as u64 {
            return Err(Errno::EINVAL);
        }
        Ok(Self { semaphores: vec![Semaphore::default(); count as usize], times: [0, now], ..Self::default() })
    }

    /// Makes all changes for a process; `false`: it has to wait.
    ///
    /// # Errors
    /// Those of `semop`.
    pub fn operate(&mut self, process: u64, changes: &[Change], now: u64) -> Result<bool> {
        let outcome = self.attempt(process, changes, now);
        match outcome {
            Ok(Some(change)) if change.flags & NO_WAIT == 0 => {
                self.wait(process, changes, (change.number, change.by == 0));
                return Ok(false);
            }
            _ => self.waiting.retain(|waiter| (waiter.process, &*waiter.changes) != (process, changes)),
        }
        if outcome?.is_some() { Err(Errno::EAGAIN) } else { Ok(true) }
    }

    /// Carries out what waits and can be done now, in the order in which it came: with the outcome of each. `lives`
    /// tells whether a process does.
    pub fn grant(&mut self, now: u64, lives: impl Fn(u64) -> bool) -> Vec<(Waiter, Result<()>)> {
        self.waiting.retain(|waiter| lives(waiter.process));
        let (mut granted, mut at) = (Vec::new(), 0);
        while let Some(waiter) = self.waiting.get(at).cloned() {
            let outcome = self.attempt(waiter.process, &waiter.changes, now);
            if let Ok(Some(change)) = outcome {
                self.waiting[at].place = (change.number, change.by == 0);
                at += 1;
            } else {
                granted.push((self.waiting.remove(at), outcome.map(drop)));
                // What came before may be possible now.
                at = 0;
            }
        }
        granted
    }

    /// Makes all changes, or says which one has to wait.
    fn attempt(&mut self, process: u64, changes: &[Change], now: u64) -> Result<Option<Change>> {
        let mut after = self.semaphores.clone();
        let mut undo = self.undo.get(&process).cloned().unwrap_or_default();
        undo.resize(after.len(), 0);
        if changes.iter().any(|change| usize::from(change.number) >= after.len()) {
            return Err(Errno::EFBIG);
        }
        for change in changes {
            let place = usize::from(change.number);
            let value = after[place].value + i32::from(change.by);
            if value < 0 || change.by == 0 && value != 0 {
                return Ok(Some(*change));
            }
            if change.flags & UNDO != 0 {
                undo[place] -= i32::from(change.by);
            }
            if value > HIGHEST || undo[place].abs() > HIGHEST {
                return Err(Errno::ERANGE);
            }
            after[place] = Semaphore { value, process };
        }
        self.semaphores = after;
        if undo.iter().any(|by| *by != 0) {
            self.undo.insert(process, undo);
        } else {
            self.undo.remove(&process);
        }
        self.times[0] = now;
        Ok(None)
    }

    fn wait(&mut self, process: u64, changes: &[Change], place: (u16, bool)) {
        let same = |waiter: &&mut Waiter| (waiter.process, &*waiter.changes) == (process, changes);
        match self.waiting.iter_mut().find(same) {
            Some(waiter) => waiter.place = place,
            None => self.waiting.push(Waiter { process, changes: changes.to_vec(), place }),
        }
    }

    /// A process waits no more.
    pub fn stop_waiting(&mut self, process: u64, changes: &[Change]) {
        self.waiting.retain(|waiter| (waiter.process, &*waiter.changes) != (process, changes));
    }

    /// How many processes wait for a semaphore to grow, or to be 0.
    pub fn waiting(&self, number: u16, for_zero: bool) -> u64 {
        self.waiting.iter().filter(|waiter| waiter.place == (number, for_zero)).count() as u64
    }

    /// Sets the value of one; no process undoes what it did before.
    ///
    /// # Errors
    /// `EINVAL` for one that is none, `ERANGE` for a value that cannot be.
    pub fn set(&mut self, number: u64, value: i32, process: u64, now: u64) -> Result<()> {
        let place = usize::try_from(number).map_err(|_| Errno::EINVAL)?;
        let semaphore = self.semaphores.get_mut(place).ok_or(Errno::EINVAL)?;
        if !(0..=HIGHEST).contains(&value) {
            return Err(Errno::ERANGE);
        }
        *semaphore = Semaphore { value, process };
        self.undo.values_mut().for_each(|undo| undo[place] = 0);
        self.times[1] = now;
        Ok(())
    }

    /// Processes that have something to undo.
    pub fn debtors(&self) -> Vec<u64> {
        self.undo.keys().copied().collect()
    }

    /// A process has ended: what it did is undone, as far as values can be. Says whether anything changed.
    pub fn leave(&mut self, process: u64, now: u64) -> bool {
        self.waiting.retain(|waiter| waiter.process != process);
        let Some(undo) = self.undo.remove(&process) else { return false };
        for (semaphore, by) in self.semaphores.iter_mut().zip(undo).filter(|(_, by)| *by != 0) {
            *semaphore = Semaphore { value: (semaphore.value + by).clamp(0, HIGHEST), process };
        }
        self.times[0] = now;
        true
    }
}
