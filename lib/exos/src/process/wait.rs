//! `wait4` and `waitid`: children that ended, stopped or went on.
//!
//! A parent sleeps on three things. Children raise the count in its mailbox when something happens to them. The exposed
//! state of the first few children reports even those that were destroyed. The clock serves for the rest.

use super::children::{Child, Children};
use crate::process::current::process;
use crate::wait;
use abi::environment::State;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use linux_abi::errno::{Errno, Result};
use runtime::exposed;
use runtime::predicate::{Operator, Term, clock, word};
use unix_core::process::exit_status::{Change, Status};
use unix_core::process::rusage::Rusage;

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

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Of which children.
    pub which: Which,
    /// Ends.
    pub ended: bool,
    /// Children that stopped.
    pub stopped: bool,
    /// Children that went on.
    pub continued: bool,
    /// Only what is there already.
    pub no_hang: bool,
    /// It is left to be waited for again.
    pub keep: bool,
}

/// What happened to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It ended.
    Ended(Status),
    /// It stopped or went on.
    Changed(Change),
}

/// A child that something happened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub number: u64,
    /// What happened.
    pub event: Event,
    /// What it used.
    pub usage: Rusage,
}

impl Event {
    /// As `wait4` stores it.
    pub const fn to_wait(self) -> u32 {
        match self {
            Self::Ended(status) => status.to_wait(),
            Self::Changed(change) => change.to_word(),
        }
    }

    /// `si_code` and `si_status`.
    pub const fn information(self) -> (u32, u32) {
        match self {
            Self::Ended(status) => status.information(),
            Self::Changed(change) => change.information(),
        }
    }
}

impl Which {
    /// From the first argument of `wait4`.
    pub fn from_argument(argument: i64) -> Self {
        match argument {
            -1 => Self::Any,
            0 => Self::Group(process().signal.group()),
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

/// Waits for a child; nothing where that must not wait and nothing has happened.
pub fn wait(wanted: Wanted) -> Result<Option<Found>> {
    // Nanoseconds after which children are looked at again, whatever was missed.
    const LOOK_AGAIN: u64 = 100_000_000;
    let process = process();
    let mailbox = process.signal.page;
    loop {
        let seen = mailbox.children().load(Acquire);
        await_deaths();
        let forgets = process.signal.actions.lock().forgets_children();
        if forgets || process.children.lock().all.iter().any(Child::is_unawaited) {
            bury(|child| forgets || child.is_unawaited());
        }
        match scan(wanted)? {
            // It has ended since the search above: nothing is reported.
            Some(Found { event: Event::Ended(_), .. }) if forgets => continue,
            Some(found) => return Ok(Some(found)),
            None => {}
        }
        if wanted.no_hang {
            return Ok(None);
        }
        let terms = changes(wanted.which, word(mailbox.children(), Operator::NotEqual, seen));
        wait::wait(&terms, Some(runtime::clock::now() + LOOK_AGAIN))?;
    }
}

/// Waits for children that said how they end, and are about to be gone: who was told of an end finds it. One that stays
/// has told a lie, and delays its parent.
fn await_deaths() {
    const PATIENCE: u64 = 1_000_000_000;
    let deadline = runtime::clock::now() + PATIENCE;
    let next = || process().children.lock().all.iter().find_map(Child::death);
    while let Some(death) = next().filter(|_| runtime::clock::now() < deadline) {
        wait::wait_stopped(&mut [death, clock(deadline)]);
    }
}

/// Reclaims the parts of children that ended and whose status no thread will ask for.
pub fn bury_ended() {
    bury(|_| true);
}

fn bury(is_gone: impl Fn(&Child) -> bool) {
    let process = process();
    let mut children = process.children.lock();
    let (ended, others): (Vec<Child>, Vec<Child>) =
        core::mem::take(&mut children.all).into_iter().partition(|child| child.status().is_some() && is_gone(child));
    children.all = others;
    drop(children);
    ended.into_iter().for_each(Child::reap);
}

fn scan(wanted: Wanted) -> Result<Option<Found>> {
    let process = process();
    let mut children = process.children.lock();
    let (mut is_any, mut found) = (false, None);
    for index in 0..children.all.len() {
        if wanted.which.includes(&children.all[index]) {
            // Of one that has ended there is nothing to come but its end.
            is_any |= wanted.ended || children.all[index].status().is_none();
            found = event(&mut children, index, wanted).map(|event| (index, event));
        }
        if found.is_some() {
            break;
        }
    }
    if !is_any {
        return Err(Errno::ECHILD);
    }
    let Some((index, event)) = found else { return Ok(None) };
    let child = &children.all[index];
    let found = Found { number: child.number(), event, usage: child.usage() };
    if !wanted.keep && matches!(event, Event::Ended(_)) {
        let child = children.all.remove(index);
        children.usage = children.usage.with(found.usage);
        drop(children);
        child.reap();
    }
    Ok(Some(found))
}

/// The event of a child to report.
fn event(children: &mut Children, index: usize, wanted: Wanted) -> Option<Event> {
    let child = &mut children.all[index];
    if let Some(status) = child.status() {
        return wanted.ended.then_some(Event::Ended(status));
    }
    let (word, change) = child.change()?;
    let asked = match change {
        Change::Stopped(_) => wanted.stopped,
        Change::Continued => wanted.continued,
    };
    if asked && !wanted.keep {
        child.last_reported = word;
    }
    asked.then_some(Event::Changed(change))
}

/// A term, and those that become true when one of the first few children is no longer alive.
fn changes(which: Which, first: Term) -> Vec<Term> {
    const FIRST_FEW: usize = 8;
    let children = process().children.lock();
    let mut terms = Vec::with_capacity(1 + children.all.len().min(FIRST_FEW));
    terms.push(first);
    for child in children.all.iter().filter(|child| which.includes(child)).take(FIRST_FEW) {
        let info = exposed::environment(child.made.number);
        terms.extend(info.map(|info| word(info.state_word(), Operator::NotEqual, State::Alive as u64)));
    }
    terms
}
