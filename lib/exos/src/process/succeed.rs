//! The beginning of an environment that goes on for another one, with a set-id program (`set_id` is the other side).
//!
//! It is the session's work and nobody else's; what it is left it reads as a stranger's words, and opens with the key of whom it
//! comes from, so that it opens nothing that the other one could not. Only then it takes up who the program makes it.

use super::begin;
use super::bundle::Bundle;
use super::children::public;
use super::exec::{self, Request};
use super::groups::Groups;
use super::identity::Three;
use super::precedence;
use super::thread::Thread;
use super::user;
use crate::descriptor::description::Description;
use crate::descriptor::passing;
use crate::errno::{Errno, Result};
use crate::guardian::protocol::Operation;
use crate::process::Process;
use crate::process::create::BORROWED_SLOT;
use crate::rewriter::gate;
use crate::session::birth;
use crate::signal::set::{COUNT as SIGNALS, UNSTOPPABLE, bit};
use crate::signal::timer::Timer;
use crate::signal::{Action, IGNORE};
use crate::user_memory::current::adopt;
use crate::user_memory::vectors;
use abi::environment::State;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use linux_raw_sys::general as linux;
use runtime::address_space::Access;
use runtime::predicate::{Operator, word};
use runtime::upcall::Context;
use runtime::window::Window;
use runtime::{EnvironmentId, PageNumber, area, exposed, heap};

/// Makes the record of the process, takes over what it was left, and loads the program.
pub(super) fn begin(words: &[u64]) -> Result<Context> {
    let thread: &'static Thread = Box::leak(Box::new(Thread::new()?));
    let process = begin::make_first(words, thread)?;
    process.opening_key.store(BORROWED_SLOT.0, Relaxed);
    adopt(process, thread);
    heap::provide_by(super::out_of_memory::provide);
    gate::install();
    vectors::declare_live();
    let bytes = words[birth::BUNDLE_BYTES_WORD];
    let bundle = process.files.lock().read(words[birth::BUNDLE_WORD], 0, bytes as usize)?;
    process.files.lock().hold(words[birth::BUNDLE_WORD], false);
    let bundle = Bundle::from_bytes(&bundle)?;
    take_over(process, thread, &bundle);
    let Bundle { path, arguments, environment, .. } = bundle;
    let request = Request::for_node(words[birth::PROGRAM_WORD], &path, arguments, environment)?;
    raise(process)?;
    precedence::go_on(process, EnvironmentId(words[birth::PREDECESSOR_WORD]));
    let mut context = Context::default();
    begin::publish(process);
    process.public_word(public::BEGUN).store(1, Release);
    wait_for_stand_in(process, EnvironmentId(words[birth::PREDECESSOR_WORD]));
    exec::replace(&mut context, &request, None)?;
    // The guardian held it for this environment from the beginning.
    process.files.lock().hold(words[birth::PROGRAM_WORD], false);
    Ok(context)
}

/// Waits until whoever stands in for this environment sees its public page, where its status will stand, or is gone: a program
/// that is quick would have ended and been buried before the other one had its turn.
fn wait_for_stand_in(process: &Process, predecessor: EnvironmentId) {
    crate::block::kick_idle();
    let Some(info) = exposed::environment(predecessor) else { return };
    let page = PageNumber(info.public.load(Acquire));
    let Ok(window) = Window::open(&[page], process.session_key, Access::READ) else { return };
    let stands_in = &window.words()[public::STANDS_IN];
    let own = area::number().0;
    while info.alive() && info.number.load(Acquire) == predecessor.0 && stands_in.load(Acquire) != own {
        let gone = word(info.state_word(), Operator::NotEqual, State::Alive as u64);
        crate::block::wait_stopped(&[gone, word(stands_in, Operator::Equal, own)]);
    }
}

/// Everything that a program keeps. What cannot be had is not there.
fn take_over(process: &Process, thread: &Thread, bundle: &Bundle) {
    {
        let mut place = process.place.lock();
        place.directory = bundle.place[0];
        place.mask = bundle.place[1] as u32 & 0o777;
        place.below_proc = (!bundle.below_proc.is_empty()).then(|| bundle.below_proc.as_slice().into());
    }
    process.letters.group().store(bundle.group[0], Relaxed);
    process.session.store(bundle.group[1], Relaxed);
    for signal in (1..=SIGNALS).filter(|signal| bundle.signals[0] & bit(*signal) & !UNSTOPPABLE != 0) {
        process.signals.lock().set(signal, Action { handler: IGNORE, ..Action::default() });
    }
    thread.set_blocked(bundle.signals[1]);
    process.attributes.lock().keep(bundle.attributes);
    let [deadline, interval] = bundle.alarm;
    process.alarms.change(|timers| timers.interval[0] = Timer { deadline, interval });
    for (resource, limit) in (0..).zip(&bundle.limits) {
        // What is no limit stays what it was.
        let _ = process.limits.lock().set(resource, *limit, true);
    }
    process.descriptors.lock().set_limit(process.limits.lock().soft(linux::RLIMIT_NOFILE) as usize);
    process.set_time_limit();
    open(process, bundle);
}

fn open(process: &Process, bundle: &Bundle) {
    let terminal = bundle.terminal.and_then(|words| passing::open_terminal(words).ok());
    *process.terminal.lock() = terminal;
    for (number, words) in &bundle.descriptors {
        let Ok(description) = passing::open_held(*words) else { continue };
        let before = process.descriptors.lock().put_at(*number, description);
        before.into_iter().for_each(Description::close);
    }
}

/// Becomes who the program makes it, by the guardian's word.
fn raise(process: &Process) -> Result<()> {
    let mut files = process.files.lock();
    let [shared, public, principal, count, apart] = files.on_object(Operation::Raise, [0; 5])?;
    let numbers = halves(&files.left(6 * 4)?);
    let mut groups = Vec::new();
    while (groups.len() as u64) < count {
        let [some, ..] = files.on_object(Operation::Groups, [groups.len() as u64, 0, 0, 0, 0])?;
        groups.extend(halves(&files.left(some * 4)?));
        if some == 0 {
            return Err(Errno::EIO);
        }
    }
    drop(files);
    let three = |at: usize| Three { real: numbers[at], effective: numbers[at + 1], saved: numbers[at + 2] };
    if numbers.len() < 6 {
        return Err(Errno::EIO);
    }
    {
        let mut identity = process.identity.lock();
        (identity.user, identity.group, identity.apart) = (three(0), three(3), apart);
        identity.groups = Groups::new(groups)?;
    }
    if principal != 0 {
        let lists = user::Lists { shared: PageNumber(shared), public: PageNumber(public), principal: None };
        user::take_over_all(process, lists, principal)?;
    }
    process.files.lock().on_object(Operation::Raise, [1, 0, 0, 0, 0])?;
    user::become_principal(process, principal);
    process.files.lock().learn_root();
    Ok(())
}

fn halves(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|half| u32::from_le_bytes(*half)).collect()
}
