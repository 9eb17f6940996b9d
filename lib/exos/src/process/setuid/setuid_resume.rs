//! The beginning of a successor environment with a set-id program (`setuid_handover` is the other side).
//!
//! Only the session starts it. It distrusts what it was left, and opens it with the key of the process that left it, so
//! that it opens nothing that this process could not. Only then it takes up who the program makes it.

use crate::descriptor::open_file::OpenFile;
use crate::descriptor::sockets::scm_rights;
use crate::hw::fpu;
use crate::process::Process;
use crate::process::current::adopt;
use crate::process::environment::BORROWED_SLOT;
use crate::process::exec;
use crate::process::exec_request::ExecRequest;
use crate::process::fork::child_start;
use crate::process::sched::priority;
use crate::process::setuid::change_user;
use crate::process::thread::Thread;
use crate::signal::{Action, IGNORE};
use abi::environment::State;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::address_space::Access;
use runtime::predicate::{Operator, word};
use runtime::upcall::Context;
use runtime::window::Window;
use runtime::{EnvironmentId, PageNumber, area, exposed, heap};
use unix_core::process::credentials::TOLD;
use unix_core::process::exec_state::ExecState;
use unix_core::process::public_page as public;
use unix_core::server::protocol::Request;
use unix_core::session::first_process;
use unix_core::signal::set::{COUNT as SIGNALS, UNSTOPPABLE, bit};
use unix_core::signal::timer::Timer;
use vfs::supplementary_groups::Groups;

/// Makes the record of the process, takes over what it was left, and loads the program.
pub(in crate::process) fn begin(words: &[u64]) -> Result<Context> {
    let thread: &'static Thread = Box::leak(Box::new(Thread::new()?));
    let process = child_start::make_first(words, thread)?;
    process.opening_key.store(BORROWED_SLOT.0, Relaxed);
    adopt(process, thread);
    heap::provide_by(crate::process::exit::oom::provide);
    (process.calls.image().install_gate)();
    fpu::declare_live();
    let bytes = words[first_process::BUNDLE_BYTES_WORD];
    let bundle = process.files.lock().read(words[first_process::BUNDLE_WORD], 0, bytes as usize)?;
    process.files.lock().hold(words[first_process::BUNDLE_WORD], false);
    let bundle = ExecState::from_bytes(&bundle)?;
    take_over(process, thread, &bundle);
    let ExecState { path, arguments, environment, .. } = bundle;
    let request = ExecRequest::for_node(words[first_process::PROGRAM_WORD], &path, arguments, environment)?;
    raise(process)?;
    priority::go_on(process, EnvironmentId(words[first_process::PREDECESSOR_WORD]));
    let mut context = Context::default();
    child_start::publish(process);
    process.public_word(public::BEGUN).store(1, Release);
    wait_for_stand_in(process, EnvironmentId(words[first_process::PREDECESSOR_WORD]));
    exec::replace(&mut context, &request, None)?;
    // The server held it for this environment from the beginning.
    process.files.lock().hold(words[first_process::PROGRAM_WORD], false);
    Ok(context)
}

/// Waits until the stand-in of this environment maps its public page, where its status will stand, or is gone. A quick
/// program would otherwise end and be reaped before the stand-in had its turn.
fn wait_for_stand_in(process: &Process, predecessor: EnvironmentId) {
    crate::wait::kick_idle();
    let Some(info) = exposed::environment(predecessor) else { return };
    let page = PageNumber(info.public.load(Acquire));
    let Ok(window) = Window::open(&[page], process.session_key, Access::READ) else { return };
    let stands_in = &window.words()[public::STANDS_IN];
    let own = area::number().0;
    while info.alive() && info.number.load(Acquire) == predecessor.0 && stands_in.load(Acquire) != own {
        let gone = word(info.state_word(), Operator::NotEqual, State::Alive as u64);
        crate::wait::wait_stopped(&mut [gone, word(stands_in, Operator::Equal, own)]);
    }
}

/// Everything that a program keeps. What cannot be had is not there.
fn take_over(process: &Process, thread: &Thread, bundle: &ExecState) {
    {
        let mut place = process.fs.lock();
        place.directory = bundle.place[0];
        place.mask = bundle.place[1] as u32 & 0o777;
        place.below_proc = (!bundle.below_proc.is_empty()).then(|| bundle.below_proc.as_slice().into());
    }
    process.signal.page.group().store(bundle.group[0], Relaxed);
    process.attributes.session.store(bundle.group[1], Relaxed);
    for signal in (1..=SIGNALS).filter(|signal| bundle.signals[0] & bit(*signal) & !UNSTOPPABLE != 0) {
        process.signal.actions.lock().set(signal, Action { handler: IGNORE, ..Action::default() });
    }
    thread.signals.set_blocked(bundle.signals[1]);
    process.attributes.prctl.lock().keep(bundle.attributes);
    let [deadline, interval] = bundle.alarm;
    process.alarms.change(|timers| timers.interval[0] = Timer { deadline, interval });
    for (resource, limit) in (0..).zip(&bundle.limits) {
        // What is no limit stays what it was.
        let _ = process.attributes.limits.lock().set(resource, *limit, true);
    }
    process.descriptors.table.lock().set_limit(process.attributes.limits.lock().soft(linux::RLIMIT_NOFILE) as usize);
    process.set_time_limit();
    open(process, bundle);
}

fn open(process: &Process, bundle: &ExecState) {
    let terminal = bundle.terminal.and_then(|words| scm_rights::open_terminal(words).ok());
    *process.terminal.lock() = terminal;
    for (number, words) in &bundle.descriptors {
        let Ok(description) = scm_rights::open_held(*words) else { continue };
        let before = process.descriptors.table.lock().put_at(*number, description);
        before.into_iter().for_each(OpenFile::close);
    }
}

/// Becomes who the program makes it, by the server's word.
fn raise(process: &Process) -> Result<()> {
    let mut files = process.files.lock();
    let [shared, public, principal, count, apart] = files.on_object(Request::AssumeIdentity, [0; 5])?;
    let told = files.left(TOLD as u64 * 8)?;
    let mut groups = Vec::new();
    while (groups.len() as u64) < count {
        let [some, ..] = files.on_object(Request::Groups, [groups.len() as u64, 0, 0, 0, 0])?;
        groups.extend(halves(&files.left(some * 4)?));
        if some == 0 {
            return Err(Errno::EIO);
        }
    }
    drop(files);
    let words: Vec<u64> = told.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    {
        let mut identity = process.attributes.credentials.lock();
        identity.take_words(words.try_into().map_err(|_| Errno::EIO)?);
        (identity.groups, identity.apart) = (Groups::new(groups)?, apart);
    }
    if principal != 0 {
        let lists = change_user::Lists { shared: PageNumber(shared), public: PageNumber(public), principal: None };
        change_user::reown_everything(process, lists, principal)?;
    }
    process.files.lock().on_object(Request::AssumeIdentity, [1, 0, 0, 0, 0])?;
    change_user::switch_principal(process, principal);
    process.files.lock().learn_root();
    Ok(())
}

fn halves(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|half| u32::from_le_bytes(*half)).collect()
}
