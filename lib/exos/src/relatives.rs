//! Other processes, as anybody may see them: the exposed table of environments and their public pages.
//!
//! Everything read there was written by a stranger: every value has a meaning, and none is trusted.

use crate::errno::{Errno, Result};
use crate::process::children::public;
use crate::signal::Mailbox;
use crate::signal::set::COUNT;
use crate::user_memory::current::process;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use runtime::address_space::Access;
use runtime::window::Window;
use runtime::{EnvironmentId, PageNumber, exposed};

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Its number.
    pub number: u64,
    /// Its parent.
    pub parent: u64,
    /// Its process group.
    pub group: u64,
    /// Its session.
    pub session: u64,
    /// Page of its mailbox.
    pub mailbox: PageNumber,
    /// Short name of its program.
    pub name: Vec<u8>,
}

/// The living process with this number.
pub fn find(number: u64) -> Option<Other> {
    let environment = EnvironmentId(number);
    let info = exposed::environment(environment).filter(|_| exposed::lives(environment))?;
    let page = PageNumber(info.public.load(Acquire));
    let window = Window::open(&[page], process().session_key, Access::READ).ok()?;
    let word = |index: usize| window.words()[index].load(Acquire);
    if word(public::MAGIC) != public::MAGIC_VALUE {
        return None;
    }
    let name = [word(public::NAME), word(public::NAME + 1)];
    let name = name.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
    Some(Other {
        number,
        parent: word(public::PARENT),
        group: word(public::GROUP),
        session: word(public::SESSION),
        mailbox: PageNumber(word(public::MAILBOX)),
        name,
    })
}

/// Every living process.
pub fn all() -> Vec<Other> {
    let slots = 0..exposed::kernel().environments.load(Acquire);
    slots.filter_map(exposed::environment_slot).filter_map(|info| find(info.number.load(Acquire))).collect()
}

/// Sends a signal to one process; 0 only asks whether it is there.
pub fn send(number: u64, signal: u32) -> Result<u64> {
    check(signal)?;
    let other = find(number).ok_or(Errno::ESRCH)?;
    deliver(&other, signal)?;
    Ok(0)
}

/// Sends a signal to every process of a group.
pub fn send_to_group(group: u64, signal: u32) -> Result<u64> {
    check(signal)?;
    send_to_some(signal, |other| other.group == group)
}

/// Sends a signal to every other process.
pub fn send_to_all(signal: u32) -> Result<u64> {
    check(signal)?;
    let own = process().number();
    send_to_some(signal, |other| other.number != own)
}

fn check(signal: u32) -> Result<()> {
    if signal > COUNT { Err(Errno::EINVAL) } else { Ok(()) }
}

fn send_to_some(signal: u32, wanted: impl Fn(&Other) -> bool) -> Result<u64> {
    let outcomes: Vec<Result<()>> =
        all().iter().filter(|other| wanted(other)).map(|other| deliver(other, signal)).collect();
    match outcomes.iter().any(Result::is_ok) {
        true => Ok(0),
        false => Err(outcomes.into_iter().find_map(Result::err).unwrap_or(Errno::ESRCH)),
    }
}

fn deliver(other: &Other, signal: u32) -> Result<()> {
    if signal == 0 {
        return Ok(());
    }
    if other.number == process().number() {
        crate::signal::raise_own(signal);
        return Ok(());
    }
    let mailbox = Mailbox::open(other.mailbox, process().session_key).map_err(|_| Errno::EPERM)?;
    let sent = crate::signal::send(EnvironmentId(other.number), &mailbox, signal);
    mailbox.close();
    sent
}
