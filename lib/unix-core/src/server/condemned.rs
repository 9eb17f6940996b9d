//! Deadlines of killed processes: each process that was sent SIGKILL, or that lost a thread to the kernel, until the
//! session destroys it.
//!
//! Pure. The library of a process ends it by itself, mostly within a millisecond. A library whose words the program has
//! overwritten may never do so; the session destroys what still lives at its deadline (`session::enforcer`).
//! Invariants: an environment is listed once, with its first deadline; an entry goes at its deadline.

use alloc::vec::Vec;

/// Nanoseconds that a library has to end its process. With the time until the session runs, death comes within 100 ms.
pub const PATIENCE: u64 = 40_000_000;

/// The killed processes, by number of the environment, with their deadlines on the clock since boot.
#[derive(Clone, Debug, Default)]
pub struct Condemned(Vec<(u64, u64)>);

impl Condemned {
    /// Adds an environment. A second SIGKILL does not move the deadline.
    pub fn add(&mut self, environment: u64, deadline: u64) {
        if self.0.iter().all(|(known, _)| *known != environment) {
            self.0.push((environment, deadline));
        }
    }

    /// Removes those whose deadline has passed.
    pub fn take_due(&mut self, now: u64) -> Vec<u64> {
        self.0.extract_if(.., |(_, deadline)| *deadline <= now).map(|(environment, _)| environment).collect()
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<u64> {
        self.0.iter().map(|(_, deadline)| *deadline).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_due_once_and_at_its_first_deadline() {
        let mut condemned = Condemned::default();
        condemned.add(7, 100);
        condemned.add(8, 200);
        condemned.add(7, 300);
        assert_eq!(condemned.next(), Some(100));
        assert!(condemned.take_due(99).is_empty());
        assert_eq!(condemned.take_due(100), [7]);
        assert_eq!((condemned.take_due(200), condemned.next()), (alloc::vec![8], None));
    }
}
