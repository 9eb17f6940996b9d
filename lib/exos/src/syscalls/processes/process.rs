//! Calls on processes.

use super::limit::check_processes;
use super::pidfd;
use crate::descriptor::object::Object;
use crate::hw::usercopy;
use crate::process::call::Call;
use crate::process::children::Child;
use crate::process::current::thread;
use crate::process::exec_request::ExecRequest;
use crate::process::fork;
use crate::process::fork::child_start;
use crate::process::fork::fork_state::Options;
use crate::process::fork::vfork_deferred;
use crate::process::fork::vfork_sharing::SharedMemoryLink;
use crate::process::thread::thread_create;
use crate::process::wait::{self, Wanted, Which};
use crate::process::{exec, exit as end};
use crate::syscalls::files::path;
use crate::terminal::job_control;
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use program::initial_stack::STRING_BYTES;
use runtime::EnvironmentId;
use runtime::upcall::Context;
use unix_core::process::exit_status::Status;
use unix_core::process::public_page as public;
use unix_core::process::rusage::Rusage;
use unix_core::uapi;

pub(crate) fn getpid(call: &mut Call<'_>) -> Result<u64> {
    Ok(call.process.number())
}

pub(crate) fn getppid(call: &mut Call<'_>) -> Result<u64> {
    let made_by = call.process.signal.parent.load(Relaxed);
    let adopted = call.process.public_word(public::ADOPTED).load(Acquire);
    Ok(crate::process_table::sight().parent(made_by, adopted))
}

pub(crate) fn set_tid_address(call: &mut Call<'_>) -> Result<u64> {
    let [address, ..] = call.arguments();
    thread().clear_at_end.store(address, Relaxed);
    Ok(thread().shown_number())
}

pub(crate) fn gettid(_: &mut Call<'_>) -> Result<u64> {
    Ok(thread().shown_number())
}

pub(crate) fn sched_yield(_: &mut Call<'_>) -> Result<u64> {
    crate::wait::yield_now();
    Ok(0)
}

pub(crate) fn fork(call: &mut Call<'_>) -> Result<u64> {
    check_processes(call.process)?;
    fork::fork(&in_child(call, 0), Options::PLAIN)
}

/// Where a child resumes, with another stack if there is one.
fn in_child(call: &Call<'_>, stack: u64) -> Context {
    let mut context = *call.context;
    context.registers.rax = 0;
    if stack != 0 {
        context.frame.rsp = stack;
    }
    context
}

/// `clone`: a thread, or a process.
pub(crate) fn clone(call: &mut Call<'_>) -> Result<u64> {
    let [flags, stack, parent_number, child_number, base, _] = call.arguments();
    // The end of a child with an invalid exit signal is not reported.
    let signal = Some(flags as u32 & 0xff).filter(|signal| *signal <= 64).unwrap_or(0);
    let how = How { flags: flags & 0xffff_ff00, stack, parent_number, child_number, base, descriptor: parent_number };
    if how.has(linux::CLONE_PIDFD) && how.has(linux::CLONE_PARENT_SETTID | linux::CLONE_DETACHED) {
        return Err(Errno::EINVAL);
    }
    begin_clone(call, signal, how)
}

/// `clone3`: the same, from a structure.
pub(crate) fn clone3(call: &mut Call<'_>) -> Result<u64> {
    const WORDS: u64 = 11;
    let [from, bytes, ..] = call.arguments();
    if bytes < u64::from(linux::CLONE_ARGS_SIZE_VER0) {
        return Err(Errno::EINVAL);
    }
    if bytes > linux_abi::address_map::PAGE_SIZE {
        return Err(Errno::E2BIG);
    }
    let words = (0..WORDS.min(bytes / 8))
        .map(|index| usercopy::read_word(from.saturating_add(index * 8)))
        .collect::<Result<Vec<_>>>()?;
    let unknown = usercopy::read_vec(from.saturating_add(WORDS * 8), bytes.saturating_sub(WORDS * 8) as usize)?;
    if unknown.iter().any(|byte| *byte != 0) {
        return Err(Errno::E2BIG);
    }
    let word = |index: usize| words.get(index).copied().unwrap_or(0);
    const REFUSED: u64 = linux::CLONE_DETACHED as u64 | 0xff;
    const SIGNALLESS: u64 = (linux::CLONE_THREAD | linux::CLONE_PARENT) as u64;
    if (8..WORDS as usize).any(|index| word(index) != 0) || word(0) & REFUSED != 0 || word(4) > 64 {
        return Err(Errno::EINVAL);
    }
    if word(0) & SIGNALLESS != 0 && word(4) != 0 || (word(5) == 0) != (word(6) == 0) {
        return Err(Errno::EINVAL);
    }
    if word(5) != 0 {
        usercopy::check(word(5), word(6)).map_err(|_| Errno::EINVAL)?;
    }
    let stack = if word(5) == 0 { 0 } else { word(5).wrapping_add(word(6)) };
    let [flags, descriptor, child_number, parent_number] = [0, 1, 2, 3].map(word);
    let how = How { flags, stack, parent_number, child_number, base: word(7), descriptor };
    begin_clone(call, word(4) as u32, how)
}

/// What `clone` and `clone3` were asked for.
struct How {
    flags: u64,
    stack: u64,
    parent_number: u64,
    child_number: u64,
    base: u64,
    descriptor: u64,
}

impl How {
    const fn has(&self, flag: u32) -> bool {
        self.flags & flag as u64 != 0
    }

    const fn clears_handlers(&self) -> bool {
        self.flags & CLEAR_HANDLERS != 0
    }

    /// An address, if a flag says that it is meant; else 0.
    const fn address(&self, flag: u32, address: u64) -> u64 {
        if self.has(flag) { address } else { 0 }
    }

    fn segment_base(&self) -> Option<u64> {
        self.has(linux::CLONE_SETTLS).then_some(self.base)
    }
}

/// `CLONE_CLEAR_SIGHAND`, which only `clone3` has room for.
const CLEAR_HANDLERS: u64 = 1 << 32;
/// Flags that a process and a thread can have alike.
const NUMBERS: u32 = linux::CLONE_CHILD_SETTID
    | linux::CLONE_CHILD_CLEARTID
    | linux::CLONE_PARENT_SETTID
    | linux::CLONE_SETTLS
    | linux::CLONE_DETACHED;
/// Flags without effect here: there is no tracer, and priorities of input and output are a process's own.
const IGNORED: u32 = linux::CLONE_PTRACE | linux::CLONE_UNTRACED | linux::CLONE_IO | linux::CLONE_SYSVSEM;

/// Flags that ask for name spaces of one's own.
pub(in crate::syscalls) const NAME_SPACES: u32 = linux::CLONE_NEWCGROUP
    | linux::CLONE_NEWIPC
    | linux::CLONE_NEWNET
    | linux::CLONE_NEWNS
    | linux::CLONE_NEWPID
    | linux::CLONE_NEWUSER
    | linux::CLONE_NEWUTS;

fn begin_clone(call: &mut Call<'_>, exit_signal: u32, how: How) -> Result<u64> {
    const THREAD: u32 =
        linux::CLONE_VM | linux::CLONE_FS | linux::CLONE_FILES | linux::CLONE_SIGHAND | linux::CLONE_THREAD;
    let clears_twice = how.clears_handlers() && how.has(linux::CLONE_SIGHAND);
    if (how.flags & !CLEAR_HANDLERS) >> 32 != 0 || clears_twice {
        return Err(Errno::EINVAL);
    }
    if how.has(NAME_SPACES) {
        // There are none, as on a Linux that was built without; who could not have one anyway is told that.
        return Err(if call.process.may(linux::CAP_SYS_ADMIN) { Errno::EINVAL } else { Errno::EPERM });
    }
    let flags = how.flags as u32 & !(NUMBERS | IGNORED | linux::CLONE_PIDFD);
    let has_descriptor = how.has(linux::CLONE_PIDFD);
    if has_descriptor && how.has(linux::CLONE_THREAD) {
        return Err(Errno::EINVAL);
    }
    if has_descriptor && call.process.descriptors.table.lock().room() == 0 {
        return Err(Errno::EMFILE);
    }
    let vfork = linux::CLONE_VM | linux::CLONE_VFORK;
    match flags {
        THREAD => spawn_thread(call, &how),
        0 => fork_process(call, exit_signal, &how, None),
        process if process == linux::CLONE_VFORK || process == vfork => lend_to_process(call, exit_signal, &how),
        _ if how.has(linux::CLONE_THREAD) && !how.has(linux::CLONE_SIGHAND) => Err(Errno::EINVAL),
        _ if how.has(linux::CLONE_SIGHAND) && !how.has(linux::CLONE_VM) => Err(Errno::EINVAL),
        // Sharing some of these and not others is not there.
        _ => Err(Errno::ENOSYS),
    }
}

fn spawn_thread(call: &mut Call<'_>, how: &How) -> Result<u64> {
    check_processes(call.process)?;
    let options = thread_create::Options {
        stack: how.stack,
        segment_base: how.segment_base(),
        set_number: [
            how.address(linux::CLONE_PARENT_SETTID, how.parent_number),
            how.address(linux::CLONE_CHILD_SETTID, how.child_number),
        ],
        clear_number: how.address(linux::CLONE_CHILD_CLEARTID, how.child_number),
    };
    thread_create::spawn(call.context, options)
}

/// `vfork`: the parent resumes when the child has another program, or has ended.
pub(crate) fn vfork(call: &mut Call<'_>) -> Result<u64> {
    let flags = u64::from(linux::CLONE_VFORK | linux::CLONE_VM);
    let how = How { flags, stack: 0, parent_number: 0, child_number: 0, base: 0, descriptor: 0 };
    lend_to_process(call, linux::SIGCHLD, &how)
}

fn lend_to_process(call: &mut Call<'_>, exit_signal: u32, how: &How) -> Result<u64> {
    let more = u64::from(NUMBERS | linux::CLONE_PIDFD) | CLEAR_HANDLERS;
    let is_plain = how.flags & more == 0 && how.has(linux::CLONE_VM);
    if is_plain && vfork_deferred::can_be(call.process) {
        check_processes(call.process)?;
        let there = in_child(call, how.stack);
        vfork_deferred::defer(call.context, exit_signal)?;
        *call.context = there;
        call.keep_registers();
        return Ok(0);
    }
    let loan = SharedMemoryLink::new(how.has(linux::CLONE_VM))?;
    let child = fork_process(call, exit_signal, how, Some(loan.clone()));
    if let Ok(child) = child {
        loan.wait(EnvironmentId(child));
    }
    loan.close();
    child
}

fn fork_process(call: &mut Call<'_>, exit_signal: u32, how: &How, loan: Option<SharedMemoryLink>) -> Result<u64> {
    check_processes(call.process)?;
    let options = Options {
        exit_signal,
        segment_base: how.segment_base(),
        set_number: how.address(linux::CLONE_CHILD_SETTID, how.child_number),
        clear_number: how.address(linux::CLONE_CHILD_CLEARTID, how.child_number),
        clears_handlers: how.clears_handlers(),
        vfork_link: loan,
        executes: false,
    };
    let number = fork::fork(&in_child(call, how.stack), options)?;
    if how.has(linux::CLONE_PIDFD) {
        let descriptor = pidfd::open(call, number, 0)?;
        usercopy::write_half(how.descriptor, descriptor as u32)?;
    }
    if how.has(linux::CLONE_PARENT_SETTID) {
        usercopy::write_half(how.parent_number, number as u32)?;
    }
    Ok(number)
}

pub(crate) fn execve(call: &mut Call<'_>) -> Result<u64> {
    let [path, arguments, environment, ..] = call.arguments();
    let path = usercopy::read_path(path)?;
    execute(call, (&path, false), arguments, environment)
}

/// The same of a child that has not begun.
pub(crate) fn execve_unborn(call: &mut Call<'_>) -> Result<u64> {
    let [path, arguments, environment, ..] = call.arguments();
    let path = usercopy::read_path(path)?;
    let (arguments, environment) = lists(&path, arguments, environment)?;
    let request = ExecRequest::new((&path, false), arguments, environment)?;
    if request.is_for_another() {
        request.close();
        return crate::syscalls::deferred_vfork::begin(call);
    }
    vfork_deferred::execute(call.context, request)?;
    call.keep_registers();
    Ok(0)
}

/// The program is called by a path below `/dev/fd`, also for who runs it as a script.
pub(crate) fn execveat(call: &mut Call<'_>) -> Result<u64> {
    let [at, address, arguments, environment, flags, ..] = call.arguments();
    let flags = flags as u32;
    if flags & !(linux::AT_EMPTY_PATH | linux::AT_SYMLINK_NOFOLLOW) != 0 {
        return Err(Errno::EINVAL);
    }
    let path = usercopy::read_path(address)?;
    if path.is_empty() && flags & linux::AT_EMPTY_PATH == 0 {
        return Err(Errno::ENOENT);
    }
    let keeps_links = flags & linux::AT_SYMLINK_NOFOLLOW != 0 && !path.is_empty();
    if keeps_links && path::status_at(call, at, address, 0)?.kind() == linux::S_IFLNK {
        return Err(Errno::ELOOP);
    }
    if path.first() == Some(&b'/') || at as u32 == path::HERE as u32 {
        let path = if path.is_empty() { b".".as_slice() } else { &path };
        return execute(call, (path, false), arguments, environment);
    }
    let description = call.process.descriptors.description(u64::from(at as u32))?;
    let closes = call.process.descriptors.table.lock().close_on_exec(u64::from(at as u32))?;
    let name = format!("/dev/fd/{}", at as u32);
    if path.is_empty() {
        return execute(call, (name.as_bytes(), closes), arguments, environment);
    }
    if !matches!(description.object, Object::Directory { .. } | Object::Listing(_)) {
        return Err(Errno::ENOTDIR);
    }
    drop(description);
    execute(call, (&[name.as_bytes(), b"/", &path].concat(), closes), arguments, environment)
}

/// Executes a program with the lists of a call. A path may lead through a descriptor that this closes.
fn execute(call: &mut Call<'_>, path: (&[u8], bool), arguments: u64, environment: u64) -> Result<u64> {
    let (arguments, environment) = lists(path.0, arguments, environment)?;
    exec::exec(call.context, path, arguments, environment)?;
    call.keep_registers();
    Ok(0)
}

/// The two lists of a program that is called by a path.
fn lists(path: &[u8], arguments: u64, environment: u64) -> Result<(Vec<Vec<u8>>, Vec<Vec<u8>>)> {
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let room = exec::room_for_arguments();
    let mut arguments = strings(arguments, room)?;
    let environment = strings(environment, room)?;
    if arguments.is_empty() {
        arguments.push(Vec::new());
    }
    Ok((arguments, environment))
}

/// A list of strings that ends with a null pointer, within a room for all.
fn strings(mut list: u64, room: usize) -> Result<Vec<Vec<u8>>> {
    let mut strings = Vec::new();
    let mut bytes = 0;
    while list != 0 {
        let pointer = usercopy::read_word(list)?;
        if pointer == 0 {
            break;
        }
        let string = usercopy::read_string(pointer, STRING_BYTES, Errno::E2BIG)?;
        bytes += string.len() + 9;
        if bytes > room {
            return Err(Errno::E2BIG);
        }
        strings.push(string);
        list += 8;
    }
    Ok(strings)
}

pub(crate) fn exit(call: &mut Call<'_>) -> Result<u64> {
    let [code, ..] = call.arguments();
    end::end_thread(code as u8)
}

pub(crate) fn exit_group(call: &mut Call<'_>) -> Result<u64> {
    let [code, ..] = call.arguments();
    end::end(Status::Exited(code as u8))
}

pub(crate) fn wait4(call: &mut Call<'_>) -> Result<u64> {
    let [which, status_at, options, usage, ..] = call.arguments();
    let known =
        linux::WNOHANG | linux::WUNTRACED | linux::WCONTINUED | linux::__WALL | linux::__WNOTHREAD | linux::__WCLONE;
    if options as u32 & !known != 0 {
        return Err(Errno::EINVAL);
    }
    if which as i32 == i32::MIN {
        return Err(Errno::ESRCH);
    }
    let has = |flag: u32| options as u32 & flag != 0;
    let wanted = Wanted {
        which: Which::from_argument(i64::from(which as i32)),
        ended: true,
        stopped: has(linux::WUNTRACED),
        continued: has(linux::WCONTINUED),
        no_hang: has(linux::WNOHANG),
        keep: false,
    };
    let Some(found) = wait::wait(wanted)? else { return Ok(0) };
    if status_at != 0 {
        usercopy::write_half(status_at, found.event.to_wait())?;
    }
    if usage != 0 {
        usercopy::write(usage, &found.usage.to_bytes())?;
    }
    Ok(found.number)
}

pub(crate) fn waitid(call: &mut Call<'_>) -> Result<u64> {
    let [kind, id, information, options, usage, _] = call.arguments();
    let mut must_not_wait = false;
    let which = match kind as u32 {
        linux::P_ALL => Which::Any,
        linux::P_PID if id as i32 <= 0 => return Err(Errno::EINVAL),
        linux::P_PGID | linux::P_PIDFD if (id as i32) < 0 => return Err(Errno::EINVAL),
        linux::P_PID => Which::Number(id),
        linux::P_PGID if id == 0 => Which::from_argument(0),
        linux::P_PGID => Which::Group(id),
        linux::P_PIDFD => {
            let (number, is_nonblocking) = pidfd::process_of(call.process, id)?;
            must_not_wait = is_nonblocking;
            Which::Number(number)
        }
        _ => return Err(Errno::EINVAL),
    };
    let has = |flag: u32| options as u32 & flag != 0;
    let known = linux::WEXITED | linux::WSTOPPED | linux::WCONTINUED;
    let extra = linux::WNOHANG | linux::WNOWAIT | linux::__WALL | linux::__WNOTHREAD | linux::__WCLONE;
    if !has(known) || has(!(known | extra)) {
        return Err(Errno::EINVAL);
    }
    let wanted = Wanted {
        which,
        ended: has(linux::WEXITED),
        stopped: has(linux::WSTOPPED),
        continued: has(linux::WCONTINUED),
        no_hang: has(linux::WNOHANG) || must_not_wait,
        keep: has(linux::WNOWAIT),
    };
    let found = wait::wait(wanted)?;
    if found.is_none() && must_not_wait && !has(linux::WNOHANG) {
        return Err(Errno::EAGAIN);
    }
    let mut words = [0; 16];
    if let Some(found) = found {
        let (code, value) = found.event.information();
        words[..4].copy_from_slice(&[u64::from(linux::SIGCHLD), u64::from(code), found.number, u64::from(value)]);
    }
    if information != 0 {
        usercopy::write(information, &uapi::bytes(&words))?;
    }
    if usage != 0 {
        usercopy::write(usage, &found.map_or_else(Rusage::default, |found| found.usage).to_bytes())?;
    }
    Ok(0)
}

pub(crate) fn getpgrp(call: &mut Call<'_>) -> Result<u64> {
    Ok(call.process.signal.group())
}

pub(crate) fn getpgid(call: &mut Call<'_>) -> Result<u64> {
    let [number, ..] = call.arguments();
    of_process(call, number, |process| process.group)
}

pub(crate) fn getsid(call: &mut Call<'_>) -> Result<u64> {
    let [number, ..] = call.arguments();
    of_process(call, number, |process| process.session)
}

fn of_process(call: &Call<'_>, number: u64, field: fn(&crate::process_table::ProcessInfo) -> u64) -> Result<u64> {
    let number = if number == 0 { call.process.number() } else { number };
    match crate::process_table::find_any(number) {
        Some(other) => Ok(field(&other)),
        // The session itself leads a group and a session, and runs no program.
        None if number == runtime::entry::FIRST.0 => Ok(number),
        None => Err(Errno::ESRCH),
    }
}

/// A process sets its own group and those of its children, to one of its session.
pub(crate) fn setpgid(call: &mut Call<'_>) -> Result<u64> {
    let [number, group, ..] = call.arguments();
    let own = call.process.number();
    let number = if number == 0 { own } else { number };
    let group = if group == 0 { number } else { group };
    if (group as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    let session = call.process.attributes.session.load(Relaxed);
    let children = call.process.children.lock();
    let child = children.all.iter().find(|child| child.number() == number);
    if child.is_none() && number != own {
        return Err(Errno::ESRCH);
    }
    if child.is_some_and(|child| child.session() != session) {
        return Err(Errno::EPERM);
    }
    if child.is_some_and(Child::has_executed) {
        return Err(Errno::EACCES);
    }
    let is_of_session = || crate::process_table::member(group).is_some_and(|member| member.session == session);
    if session == number || group != number && !is_of_session() {
        return Err(Errno::EPERM);
    }
    match child {
        Some(child) => child.set_group(group),
        None => call.process.signal.page.group().store(group, Relaxed),
    }
    Ok(0)
}

pub(crate) fn setsid(call: &mut Call<'_>) -> Result<u64> {
    let own = call.process.number();
    if call.process.signal.group() == own {
        return Err(Errno::EPERM);
    }
    call.process.signal.page.group().store(own, Relaxed);
    call.process.attributes.session.store(own, Relaxed);
    job_control::set_controlling(None);
    child_start::publish(call.process);
    Ok(own)
}
