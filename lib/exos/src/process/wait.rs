//! `wait4` and `waitid`: children that ended.
//!
//! Sleeps on the count in the own mailbox, which children raise when they end, on the exposed state of the first few
//! children, which tells even of those that were destroyed, and on the clock for the rest.

use super::children::Child;
use super::status::Status;
use crate::block;
use crate::errno::{Errno, Result};
use crate::user_memory::current::process;
use abi::environment::State;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use runtime::exposed;
use runtime::predicate::{Operator, Term, word};

/// Which children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Any.
    Any,
    /// This one.
    Number(u64),
    /// Those of a process group.
    Group(u64),
}

impl Which {
    /// From the first argument of `wait4`.
    pub fn from_argument(argument: i64) -> Self {
        match argument {
            -1 => Self::Any,
            0 => Self::Group(process().group.load(Acquire)),
            number if number < 0 => Self::Group(number.unsigned_abs()),
            number => Self::Number(number as u64),
        }
    }

    fn includes(self, child: &Child) -> bool {
        match self {
            Self::Any => true,
            Self::Number(number) => child.number() == number,
            Self::Group(group) => child.group() == group,
        }
    }
}

/// Waits for a child: its number and how it ended, or nothing where `no_hang` and none has. `keep` leaves it to be
/// waited for again.
pub fn wait(which: Which, no_hang: bool, keep: bool) -> Result<Option<(u64, Status)>> {
    let process = process();
    let mailbox = process.mailbox();
    // Nanoseconds after which children are looked at again, whatever was missed.
    const LOOK_AGAIN: u64 = 100_000_000;
    loop {
        let seen = mailbox.children().load(Acquire);
        if let Some(found) = look(which, keep)? {
            return Ok(Some(found));
        }
        if no_hang {
            return Ok(None);
        }
        let mut terms = alloc::vec![word(mailbox.children(), Operator::NotEqual, seen)];
        terms.extend(states(which));
        block::wait(&terms, Some(runtime::clock::now() + LOOK_AGAIN))?;
    }
}

fn look(which: Which, keep: bool) -> Result<Option<(u64, Status)>> {
    let process = process();
    let mut children = process.children.lock();
    if !children.all.iter().any(|child| which.includes(child)) {
        return Err(Errno::ECHILD);
    }
    let ended = |child: &Child| which.includes(child).then(|| child.status()).flatten();
    let found = children.all.iter().enumerate().find_map(|(index, child)| Some((index, child.number(), ended(child)?)));
    let Some((index, number, status)) = found else { return Ok(None) };
    if !keep {
        let child = children.all.remove(index);
        drop(children);
        child.bury(process.session_key);
    }
    Ok(Some((number, status)))
}

/// Terms that become true when one of the first few children is no longer alive.
fn states(which: Which) -> Vec<Term> {
    const FIRST_FEW: usize = 8;
    let children = process().children.lock();
    let some = children.all.iter().filter(|child| which.includes(child)).take(FIRST_FEW);
    some.filter_map(|child| exposed::environment(child.made.number))
        .map(|info| word(info.state_word(), Operator::NotEqual, State::Alive as u64))
        .collect()
}
