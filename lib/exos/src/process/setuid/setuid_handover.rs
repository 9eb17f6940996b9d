//! Executing a program that changes the process's credentials (execve(2); DESIGN.md §5).
//!
//! A process that may take those credentials by itself does so, and continues in its own environment. For all others
//! the server and the session make a successor environment. This one hands over what a program keeps across `execve`,
//! as words that the other library distrusts. From then on it is a stand-in: to its parent it stops, continues and ends
//! when the successor does.
//!
//! Invariant: no code here decides credentials. A process that lies here lies about itself.

use crate::descriptor::fd_pins::Used;
use crate::descriptor::sockets::scm_rights;
use crate::hw::mapping::Mapping;
use crate::process::Process;
use crate::process::current::{process, thread};
use crate::process::environment::was_killed_by_session;
use crate::process::exec::forget_old_program;
use crate::process::exec_file::ExecFile;
use crate::process::exec_request::ExecRequest;
use crate::process::exit;
use crate::process::fork::vfork_sharing;
use crate::server::client;
use crate::wait;
use abi::area::PUBLIC_STATUS;
use abi::environment::State;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::predicate::{Operator, Term, word};
use runtime::{EnvironmentId, PageNumber, exposed};
use unix_core::process::credentials::Program;
use unix_core::process::exec_state::ExecState;
use unix_core::process::exit_status::{Change, DESTROYED, Status};
use unix_core::process::public_page::{self as public, STATUS_WORD};
use unix_core::process::rlimits::COUNT as LIMITS;
use unix_core::process::rusage::Rusage;
use unix_core::server::protocol::{Request, WINDOW_BYTES};
use unix_core::signal::set::{COUNT as SIGNALS, bit};
use vfs::namespace::ROOT;

/// Whether a program gives the process credentials that it cannot take by itself, or is one that it may not read. What
/// it can, it has become.
pub(in crate::process) fn becomes_another(program: &ExecFile) -> Result<bool> {
    if !program.is_readable() {
        return Ok(true);
    }
    let process = process();
    let before = process.attributes.credentials.lock().clone();
    let mode = program.opened.mode;
    let owner = if mode & (linux::S_ISUID | linux::S_ISGID) == 0 { 0 } else { owner_of(program.opened.node)? };
    let after = before.executing(Program { mode, user: owner as u32, group: (owner >> 32) as u32 });
    if before.gains(&after) {
        // Whether the bits count on its mount the server knows.
        return match process.files.lock().on_object(Request::Execute, [program.opened.node, 0, 0, 0, 0]) {
            Err(Errno::EPERM) => Ok(true),
            outcome => outcome.map(|_| false),
        };
    }
    if before == after {
        return Ok(false);
    }
    let ask = || process.files.lock().on_object(Request::Execute, [program.opened.node, 0, 0, 0, 0]);
    process
        .change_credentials(after, process.attributes.capabilities(), || ask().map(|[held, ..]| held))
        .map(|()| false)
}

fn owner_of(node: u64) -> Result<u64> {
    Ok(process().files.lock().status_of(node)?.owner)
}

/// Has another environment go on with a program; comes back with an error only.
pub(in crate::process) fn exec_via_successor(request: &ExecRequest) -> Result<()> {
    let process = process();
    let (bundle, sent) = bundle(process, request);
    let outcome = ask(process, request.node(), &bundle);
    let successor = outcome.inspect_err(|_| sent.iter().for_each(|description| description.reclaim()))?;
    exit::be_alone_for_exec();
    proxy_exit(process, EnvironmentId(successor))
}

/// What the program keeps. The descriptions in it are on their way.
fn bundle(process: &Process, request: &ExecRequest) -> (ExecState, Vec<Used>) {
    let (mut descriptors, mut sent) = (Vec::new(), Vec::new());
    for (number, description) in process.descriptors.used_over_exec() {
        // What lies in this process alone (epoll, signalfd, a file of /proc) ends with it.
        if let Ok(words) = scm_rights::words_of(&description) {
            descriptors.push((number, words));
            sent.push(description);
        }
    }
    sent.iter().for_each(|description| scm_rights::send(description));
    let place = process.fs.lock().clone();
    let limits = process.attributes.limits.lock().clone();
    let limit = |resource: usize| limits.get(resource as u64).unwrap_or_default();
    let attributes = process.attributes.prctl.lock().clone();
    let (ignored, _) = process.signal.actions.lock().sets();
    let alarm = process.alarms.timers.lock().interval[0];
    let terminal = process.terminal.lock().clone();
    let bundle = ExecState {
        path: request.path.clone(),
        arguments: request.arguments().to_vec(),
        environment: request.environment.clone(),
        place: [place.directory, u64::from(place.mask)],
        below_proc: place.below_proc.map(|path| path.to_vec()).unwrap_or_default(),
        group: [process.signal.group(), process.attributes.session.load(Relaxed)],
        signals: [ignored, thread().signals.blocked()],
        attributes: attributes.kept(),
        alarm: [alarm.deadline, alarm.interval],
        limits: (0..LIMITS).map(limit).collect(),
        terminal: terminal.and_then(|terminal| scm_rights::words_of_terminal(&terminal).ok()),
        descriptors,
    };
    (bundle, sent)
}

/// Asks for a successor environment that begins with a program; the result is its number.
fn ask(process: &Process, program: u64, bundle: &ExecState) -> Result<u64> {
    let bytes = bundle.to_bytes();
    let nodes: Vec<u8> = bundle.nodes().iter().flat_map(|node| node.to_le_bytes()).collect();
    if nodes.len() as u64 > WINDOW_BYTES {
        return Err(Errno::EMFILE);
    }
    let mut files = process.files.lock();
    let node = files.make_unnamed(ROOT, b"", 0o600, [false, false])?.here(Errno::EIO)?;
    let written = files.write(node, 0, &bytes);
    let outcome = written.and_then(|(done, _)| {
        let count = nodes.len() as u64 / 8;
        let words = [program, node, done, count, 0];
        if done < bytes.len() as u64 {
            Err(Errno::ENOMEM)
        } else {
            files.on_object_with(Request::ExecAs, words, &nodes)
        }
    });
    files.hold(node, false);
    drop(files);
    outcome?;
    await_successor(process)
}

fn await_successor(process: &Process) -> Result<u64> {
    loop {
        let changes = client::changes();
        let seen = changes.load(Acquire);
        let [number, ..] = process.files.lock().on_object(Request::SuccessorOf, [0; 5])?;
        if number != 0 {
            return Ok(number);
        }
        wait::wait_stopped(&mut [word(changes, Operator::NotEqual, seen)]);
    }
}

/// Is there for this process's parent as long as another environment runs its program.
fn proxy_exit(process: &'static Process, successor: EnvironmentId) -> ! {
    vfork_sharing::end(process);
    let info = exposed::environment(successor);
    let page = PageNumber(info.map_or(0, |info| info.public.load(Acquire)));
    let window = process.mappings.lock().open_own(vec![page], process.session_key, false);
    let Ok(window) = window else { exit::abandon(DESTROYED) };
    process.public_word(public::STANDS_IN).store(successor.0, Release);
    process.public_word(public::EXECUTED).store(1, Release);
    wait::kick_idle();
    wait_until_begun(&window, successor);
    loop {
        let open = process.descriptors.table.lock().take_last();
        let Some(description) = open else { break };
        description.close();
    }
    // What cannot be given back goes with the environment.
    let _ = forget_old_program();
    process.with_memory(|_, pages| pages.give_up_at_hand());
    crate::budget::give_back();
    pass_on_until_end(process, &window, successor);
    note_usage(process, &window, successor);
    crate::process::sysv_holdings::undo_all(process);
    process.publish_usage();
    exit::release_children();
    exit::abandon(status(&window, successor))
}

/// What becomes true when an environment is gone.
fn end_of(environment: EnvironmentId) -> Option<Term> {
    let info = exposed::environment(environment).filter(|info| info.alive())?;
    Some(word(info.state_word(), Operator::NotEqual, State::Alive as u64))
}

/// Until it has taken over what this process has open.
fn wait_until_begun(window: &Mapping, successor: EnvironmentId) {
    let begun = &window.words()[public::BEGUN];
    while let Some(gone) = end_of(successor).filter(|_| begun.load(Acquire) == 0) {
        wait::wait_stopped(&mut [gone, word(begun, Operator::NotEqual, 0)]);
    }
}

/// Tells the parent what happens to the successor, and that one what comes here.
fn pass_on_until_end(process: &Process, window: &Mapping, successor: EnvironmentId) {
    let (change, letters) = (&window.words()[public::CHANGE], process.signal.page);
    let mut told = 0;
    while let Some(gone) = end_of(successor) {
        let now = change.load(Acquire);
        if now != told {
            told = now;
            Change::from_word(now as u32).into_iter().for_each(crate::signal::announce);
        }
        pass_signals_on(process, successor);
        let children = letters.children().load(Acquire);
        crate::process::wait::bury_ended();
        wait::wait_stopped(&mut [
            gone,
            word(change, Operator::NotEqual, told),
            word(letters.signals(), Operator::NotEqual, 0),
            word(letters.children(), Operator::NotEqual, children),
        ]);
    }
}

/// A process that looked this one up before it had a successor sends its signals here.
fn pass_signals_on(process: &Process, successor: EnvironmentId) {
    let pending = process.signal.page.signals().load(Acquire);
    for signal in (1..=SIGNALS).filter(|signal| pending & bit(*signal) != 0) {
        if signal != linux::SIGCHLD
            && let Some(information) = process.signal.inbox().take(signal)
        {
            let _ = client::signal(process.server, successor.0, &information);
        }
    }
    // What means nothing as a signal is dropped.
    process.signal.inbox().drop_all(pending);
}

fn note_usage(process: &Process, window: &Mapping, successor: EnvironmentId) {
    let time = exposed::environment(successor).map_or(0, |info| info.time.load(Acquire));
    let said = Rusage::from_words(core::array::from_fn(|index| window.words()[public::USAGE + index].load(Acquire)));
    let mut ended = process.ended.lock();
    *ended = ended.with(said).with(Rusage { time, ..Rusage::default() });
}

/// How the successor ended, as its public page says.
fn status(window: &Mapping, successor: EnvironmentId) -> Status {
    if was_killed_by_session(successor) {
        return DESTROYED;
    }
    let by_runtime = window.words()[PUBLIC_STATUS as usize / 8].load(Acquire);
    match Status::from_word(window.words()[STATUS_WORD].load(Acquire)) {
        Some(status) => status,
        None if by_runtime != 0 => Status::Exited((by_runtime - 1) as u8),
        None => DESTROYED,
    }
}
