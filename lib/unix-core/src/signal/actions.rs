//! What a program wants done with signals: one table for all threads of a process.

use super::set::{self, Default as DefaultAction, UNSTOPPABLE, bit};
use linux_raw_sys::general as linux;

/// Handler word: the default action.
pub const DEFAULT: u64 = 0;
/// Handler word: nothing.
pub const IGNORE: u64 = 1;

/// What a program wants done with a signal: the kernel's `struct sigaction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// Address of the handler, [`DEFAULT`] or [`IGNORE`].
    pub handler: u64,
    /// `SA_*`.
    pub flags: u64,
    /// Where a handler returns to.
    pub restorer: u64,
    /// Signals that are blocked meanwhile.
    pub mask: u64,
}

impl Action {
    /// Whether a flag is set.
    pub const fn has(&self, flag: u32) -> bool {
        self.flags & flag as u64 != 0
    }

    /// Whether a function of the program is called.
    pub const fn is_handler(&self) -> bool {
        self.handler > IGNORE
    }
}

/// The actions of a process.
#[derive(Clone, Debug)]
pub struct Actions {
    /// Signal 1 comes first.
    all: [Action; set::COUNT as usize],
    /// Signals whose handler is [`IGNORE`].
    ignored: u64,
    /// Those that a function of the program handles.
    caught: u64,
    /// Those of which it has said anything: all others are as at the beginning.
    told: u64,
}

impl Default for Actions {
    fn default() -> Self {
        Self { all: [Action::default(); set::COUNT as usize], ignored: 0, caught: 0, told: 0 }
    }
}

impl Actions {
    /// The action of a signal.
    pub fn get(&self, signal: u32) -> Action {
        self.all[Self::place(signal)]
    }

    /// Sets the action of a signal.
    pub fn set(&mut self, signal: u32, action: Action) {
        let place = Self::place(signal);
        self.all[place] = action;
        self.told |= 1 << place;
        let put = |set: u64, is_in: bool| set & !(1 << place) | u64::from(is_in) << place;
        self.ignored = put(self.ignored, action.handler == IGNORE);
        self.caught = put(self.caught, action.is_handler());
    }

    /// A handler serves once: the default comes back.
    #[cold]
    pub fn reset(&mut self, signal: u32) {
        let action = self.get(signal);
        if action.is_handler() {
            self.set(signal, Action { handler: DEFAULT, ..action });
        }
    }

    const fn place(signal: u32) -> usize {
        (signal as usize).wrapping_sub(1) % set::COUNT as usize
    }

    /// Signals that the program does not notice.
    pub fn ignored(&self) -> u64 {
        (1..=set::COUNT).filter(|signal| self.ignores(*signal)).map(bit).fold(0, |set, one| set | one)
    }

    /// Signals that are to be ignored, and those that a function of the program handles.
    pub const fn sets(&self) -> (u64, u64) {
        (self.ignored, self.caught)
    }

    /// Whether the program does not notice a signal.
    pub fn ignores(&self, signal: u32) -> bool {
        match self.get(signal).handler {
            IGNORE => bit(signal) & UNSTOPPABLE == 0,
            DEFAULT => matches!(set::default(signal), DefaultAction::Ignore | DefaultAction::Continue),
            _ => false,
        }
    }

    /// Whether no thread will ask how children ended: their statuses are not kept.
    pub fn forgets_children(&self) -> bool {
        let action = self.get(linux::SIGCHLD);
        action.handler == IGNORE || action.has(linux::SA_NOCLDWAIT)
    }

    /// What exec leaves: handlers become defaults.
    pub fn forget_handlers(&mut self) {
        let mut left = self.told & !self.ignored;
        while left != 0 {
            self.all[left.trailing_zeros() as usize] = Action::default();
            left &= left - 1;
        }
        (self.caught, self.told) = (0, self.ignored);
    }
}
