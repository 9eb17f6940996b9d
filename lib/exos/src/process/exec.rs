//! `execve`: another program in the same process.
//!
//! Everything that can be refused is checked before the old program is gone; from then on an error ends the process.

use super::exec_file::{self, ElfFile, ExecFile, read_from};
use super::exec_request::{ExecPlan, ExecRequest, PreloadedObject};
use super::futex;
use super::interpose;
use super::load_layout::{LoadedLayout, lay_out, place_movable};
use super::setuid::setuid_handover;
use super::spawn_cache::exec_template::{ExecTemplate, ZEROS};
use crate::hw::{entropy, fpu, usercopy};
use crate::loader::{cpu_entry, vdso};
use crate::process::current::{process, thread};
use crate::process::pager::OwnPages;
use crate::server::client::{Opened, PrefaultSet};
use abi::upcall::{USER_CODE, USER_DATA};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, Release};
use linux_abi::address_map::{PROGRAM_END, STACK_TOP};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use program::elf::{self, Image};
use program::initial_stack::{self, Auxiliary};
use program::{load_segments, shebang};
use runtime::upcall::Context;
use runtime::{EnvironmentId, PageNumber, exposed};
use unix_core::process::exit_status::Status;
use unix_core::process::public_page as public;
use unix_core::server::protocol::FOLLOW;
use vfs::namespace::access;
use vm::address_space::{AddressSpace, PageOps};
use vm::page_record::{FROM_FILE, page_of};

/// Interpreters of scripts that may stand behind each other.
const SCRIPTS: usize = 5;
/// Pages that the library takes to find out whether it can run a program, mostly.
const FOR_A_PROGRAM: u64 = 16;
/// Exit status of a program whose preloaded objects cannot be loaded, as the C library's linker has it.
const NOT_LOADED: u8 = 127;
/// Flags of a program that begins: interrupts on.
const FLAGS: u64 = 0x202;

/// Replaces the program of the running process. On success `context` is where it begins. `goes`: the path leads through
/// a descriptor that is closed now, so that the interpreter of a script would not find it.
pub fn exec(
    context: &mut Context,
    (path, goes): (&[u8], bool),
    arguments: Vec<Vec<u8>>,
    environment: Vec<Vec<u8>>,
) -> Result<()> {
    let request = ExecRequest::new((path, goes), arguments, environment)?;
    let process = process();
    if process.attributes.credentials.differ() {
        process.settle().inspect_err(|_| request.close())?;
    }
    if !process.is_first(thread()) {
        *process.exec.lock() = Some(Box::new(request));
        super::exit::leave_for_exec();
    }
    if request.is_for_another {
        return setuid_handover::exec_via_successor(&request).inspect_err(|_| request.close());
    }
    super::exit::be_alone_for_exec();
    replace(context, &request, None)
}

/// Bytes that arguments and environment may take of the running process.
pub fn room_for_arguments() -> usize {
    initial_stack::room(process().attributes.limits.lock().soft(linux::RLIMIT_STACK))
}

/// Whether a program can be run, once it is clear who the process becomes: true where that takes another environment.
fn check(plan: &mut ExecPlan, path: &[u8], environment: &[Vec<u8>]) -> Result<bool> {
    // Here too long a list is an error, and not an end.
    initial_stack::check(path, &plan.arguments, environment, room_for_arguments())?;
    if setuid_handover::becomes_another(&plan.program.file)? {
        return Ok(true);
    }
    if !process().attributes.credentials.lock().is_secure() {
        plan.preloaded = interpose::find(environment)?;
    }
    Ok(false)
}

impl ExecRequest {
    /// Finds and checks a program.
    ///
    /// # Errors
    /// Whatever `execve` refuses.
    pub fn new((path, goes): (&[u8], bool), arguments: Vec<Vec<u8>>, environment: Vec<Vec<u8>>) -> Result<Self> {
        crate::budget::reserve_or_fail(FOR_A_PROGRAM)?;
        let mut plan = plan(path, goes, arguments)?;
        let outcome = check(&mut plan, path, &environment);
        let is_for_another = outcome.inspect_err(|_| plan.close())?;
        Ok(Self { plan, path: path.to_vec(), environment, is_for_another })
    }

    /// The program of a successor environment, which holds its node already.
    pub(super) fn for_node(node: u64, path: &[u8], arguments: Vec<Vec<u8>>, environment: Vec<Vec<u8>>) -> Result<Self> {
        let mut files = process().files.lock();
        let status = files.status_of(node)?;
        let opened =
            Opened { node, mode: status.mode_links as u32, device: (0, 0), size: status.size, stale_mappings: false };
        let (file, head) = ExecFile::of_node(&mut files, opened, path)?;
        // A second handle: the maker of the environment held the first.
        files.hold(node, true);
        drop(files);
        let plan = plan_image(path, (file, head), arguments)?;
        Ok(Self { plan, path: path.to_vec(), environment, is_for_another: false })
    }
}

/// The first thread enters the program that another thread asked for, or that the parent prepared.
pub fn take_over(request: &ExecRequest, prepared: Option<Box<ExecTemplate>>) -> ! {
    let mut context = Context::default();
    let outcome = if request.is_for_another {
        setuid_handover::exec_via_successor(request)
    } else {
        replace(&mut context, request, prepared)
    };
    if outcome.is_err() {
        super::exit::end(Status::Killed(linux::SIGKILL));
    }
    cpu_entry::resume(&context)
}

/// The point of no return. `prepared`: the program is mapped, and this is what is known of it.
pub(super) fn replace(context: &mut Context, request: &ExecRequest, prepared: Option<Box<ExecTemplate>>) -> Result<()> {
    let ExecRequest { plan, path, environment, .. } = request;
    super::fork::vfork_sharing::end(process());
    let stack = prepared.as_ref().map_or_else(|| request.stack(), |prepared| prepared.stack());
    let by_itself = prepared.is_none();
    forget_old_program()?;
    let layout = match prepared {
        Some(prepared) => Ok(adopt_template(prepared)),
        None => load(plan, stack),
    };
    let started = layout.and_then(|layout| start(context, plan, &layout, path, environment));
    let held = core::mem::take(&mut process().memory.lock().space.held);
    if by_itself {
        process().with_memory(|_, pages| pages.give_up_at_hand());
    }
    process().public_word(public::EXECUTED).store(1, Release);
    note_program(plan, path, environment);
    close_descriptors();
    if started.is_err() {
        super::exit::end(Status::Killed(linux::SIGSEGV));
    }
    if plan.preloaded.iter().try_for_each(PreloadedObject::load).is_err() {
        super::exit::end(Status::Exited(NOT_LOADED));
    }
    held.into_iter().for_each(|node| process().files.lock().hold(node, false));
    plan.preloaded.iter().for_each(PreloadedObject::close);
    Ok(())
}

/// The memory of a program that is mapped becomes this process's.
fn adopt_template(prepared: Box<ExecTemplate>) -> LoadedLayout {
    let ExecTemplate { space, layout, .. } = *prepared;
    let mut memory = process().memory.lock();
    let room = memory.space.room;
    memory.space = *space;
    memory.space.room = room;
    layout
}

/// Maps a program and its stack.
fn load(plan: &ExecPlan, stack: u64) -> Result<LoadedLayout> {
    let touched: Vec<Cow<'_, PrefaultSet>> = plan.files().map(|one| touched_now(&one.file)).collect();
    process().with_memory(|space, pages| {
        // What is mapped of them is held by the areas, in the place of the plan.
        space.held = plan.nodes();
        let layout = lay_out((&mut *space, &mut *pages), plan, &touched, stack)?;
        forget_what_was_cut(space, pages, plan, &layout, touched.iter().map(Cow::as_ref))?;
        Ok(layout)
    })
}

/// Where pages may have left the files of a program meanwhile that were mapped.
fn forget_what_was_cut<'a>(
    space: &mut AddressSpace,
    pages: &mut OwnPages<'_>,
    plan: &ExecPlan,
    layout: &LoadedLayout,
    touched: impl Iterator<Item = &'a PrefaultSet>,
) -> Result<()> {
    let biases = [layout.bias, layout.interpreter_base];
    for ((one, touched), bias) in plan.files().zip(touched).zip(biases) {
        forget_if_cut(space, pages, touched, load_segments::pages_of_all(&one.image, bias))?;
    }
    Ok(())
}

/// Where pages may have left a file meanwhile that were mapped, all of it comes again when it is touched.
fn forget_if_cut(
    space: &mut AddressSpace,
    pages: &mut OwnPages<'_>,
    touched: &PrefaultSet,
    place: Range<u64>,
) -> Result<()> {
    let is_current = process().files.lock().are_current(touched);
    if is_current { Ok(()) } else { space.drop_pages(pages, place.start, place.end) }
}

/// The path of a program as a shell would find it.
pub fn find_program(name: &[u8], environment: &[&[u8]]) -> Result<Vec<u8>> {
    if name.contains(&b'/') {
        return Ok(name.to_vec());
    }
    let default: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let path = environment.iter().find_map(|entry| entry.strip_prefix(b"PATH=")).unwrap_or(default);
    let process = process();
    for folder in path.split(|byte| *byte == b':') {
        let candidate = [folder, b"/", name].concat();
        let (directory, path) = process.fs.lock().start(&candidate);
        let found = process.files.lock().access(directory, &path, u64::from(access::EXECUTE), FOLLOW);
        if found.is_ok() {
            return Ok(candidate);
        }
    }
    Err(Errno::ENOENT)
}

/// Opens the program, follows scripts, and opens the interpreter of a dynamic program.
fn plan(program: &[u8], goes: bool, mut arguments: Vec<Vec<u8>>) -> Result<ExecPlan> {
    let mut path = program.to_vec();
    for step in 0..=SCRIPTS {
        if let Some(known) = exec_file::revalidate(&path) {
            return ExecPlan::of(known, arguments);
        }
        let opened = exec_file::open(&path, true);
        let (file, head) =
            opened.inspect_err(|error| report_interpreter((step > 0).then_some(program), &path, *error))?;
        let Some(script) = shebang::parse(&head) else {
            return plan_image(program, (file, head), arguments);
        };
        let script = if goes { Err(Errno::ENOENT) } else { script };
        let script = script.inspect_err(|_| file.close())?;
        let mut longer = vec![script.interpreter.to_vec()];
        longer.extend(script.argument.map(<[u8]>::to_vec));
        longer.push(path);
        longer.extend(arguments.into_iter().skip(1));
        arguments = longer;
        path = script.interpreter.to_vec();
        file.close();
    }
    Err(Errno::ELOOP)
}

/// A line of the log where a program or a script is there, and its interpreter is not.
fn report_interpreter(program: Option<&[u8]>, path: &[u8], error: Errno) {
    if let Some(program) = program.filter(|_| error == Errno::ENOENT) {
        let [program, path] = [program, path].map(alloc::string::String::from_utf8_lossy);
        runtime::log_line!("the interpreter {path} of {program} is missing");
    }
}

/// The interpreter that a program asks for and that is missing: of a script, or of a dynamic program.
pub(super) fn missing_interpreter(path: &[u8]) -> Option<Vec<u8>> {
    let (file, head) = exec_file::open(path, true).ok()?;
    let name = match shebang::parse(&head) {
        Some(script) => script.ok()?.interpreter.to_vec(),
        None => {
            let part = Image::read(&head, read_from(&file)).ok()?.interpreter?;
            elf::part(&head, part, read_from(&file)).ok()?.split(|byte| *byte == 0).next()?.to_vec()
        }
    };
    file.close();
    let found = exec_file::open(&name, false);
    found.map(|(file, _)| file.close()).is_err().then_some(name)
}

fn plan_image(program: &[u8], (file, head): (ExecFile, Vec<u8>), arguments: Vec<Vec<u8>>) -> Result<ExecPlan> {
    let image = match file.is_readable() {
        true => Image::read(&head, read_from(&file)).inspect_err(|_| file.close())?,
        // Another environment looks into it.
        false => Image::default(),
    };
    let interpreter = match image.interpreter {
        None => None,
        Some(name) => Some(open_interpreter(program, (&file, &head), name).inspect_err(|_| file.close())?),
    };
    ExecPlan::of(core::iter::once(Arc::new(ElfFile { file, image })).chain(interpreter), arguments)
}

/// Opens the interpreter of a program that begins with `head`.
fn open_interpreter(program: &[u8], (file, head): (&ExecFile, &[u8]), name: (u64, u64)) -> Result<Arc<ElfFile>> {
    let name = elf::part(head, name, read_from(file))?;
    let name = name.strip_suffix(b"\0").ok_or(Errno::ENOEXEC)?;
    let path = name.split(|byte| *byte == 0).next().unwrap_or_default();
    if let Some(known) = exec_file::reopen_interpreter(path) {
        return Ok(known);
    }
    let (file, head) =
        exec_file::open(path, false).inspect_err(|error| report_interpreter(Some(program), path, *error))?;
    let image = Image::read_interpreter(&head, read_from(&file)).inspect_err(|_| file.close())?;
    Ok(Arc::new(ElfFile { file, image }))
}

/// Everything of the old program goes that the new one does not begin with.
pub(super) fn forget_old_program() -> Result<()> {
    let process = process();
    futex::release_robust_list(thread());
    super::fork::child_start::tell_what_was_written(process);
    process.with_memory(|space, pages| {
        let next = space.successor();
        let gone = core::mem::replace(space, next);
        let there = gone.frames.all();
        pages.clear(&there)?;
        // Those of files are not this process's, and those that its parent gave it are for the next child.
        let parent = EnvironmentId(process.signal.parent.load(Relaxed));
        let is_parents = |page: &u64| exposed::page(PageNumber(*page)).is_some_and(|info| info.owner() == parent);
        let own = there.iter().filter(|(_, entry)| entry & FROM_FILE == 0);
        let numbers: Vec<u64> = own.map(|(_, entry)| page_of(*entry)).filter(|page| !is_parents(page)).collect();
        pages.keep_at_hand(&numbers);
        for node in gone.files() {
            pages.hold_file(node, false);
        }
        Result::Ok(())
    })?;
    // What they cost less the next program may not need.
    process.empty_nursery();
    let copies = core::mem::take(&mut *process.heap_pages.lock());
    runtime::page::Allocator::own().free_many(&copies);
    super::sysv_holdings::detach_all(process);
    process.set_memory_limits();
    let identity = process.attributes.credentials.lock().clone();
    process.attributes.prctl.lock().begin_program(&identity);
    process.set_capabilities(process.attributes.capabilities())?;
    super::interpose::forget(process);
    process.traps.forget();
    process.signal.actions.lock().forget_handlers();
    process.alarms.change(|timers| timers.created.clear());
    let thread = thread();
    thread.signals.set_alternate([0; 3]);
    thread.clear_at_end.store(0, Relaxed);
    // A confined thread cannot execute a program: another thread did, and this one continues for it.
    thread.is_confined.store(false, Relaxed);
    Ok(())
}

/// Closes the descriptors that no new program keeps. A parent that waits for the end of such a pipe finds another
/// program behind it: its group cannot be changed any more, and `/proc` names what it runs.
fn close_descriptors() {
    let process = process();
    let mut least = 0;
    loop {
        let closed = process.descriptors.table.lock().take_closed_by_exec(least);
        let Some((number, description)) = closed else { break };
        description.close();
        least = number + 1;
    }
}

/// Fills what of the program's memory is not filled yet, its stack before all, and sets the registers.
fn start(
    context: &mut Context,
    plan: &ExecPlan,
    layout: &LoadedLayout,
    path: &[u8],
    environment: &[Vec<u8>],
) -> Result<()> {
    let LoadedLayout { bias, interpreter_base, entry, zeros } = layout;
    zeros.iter().try_for_each(clear)?;
    let image = &plan.program.image;
    let identity = process().attributes.credentials.lock().clone();
    let auxiliary = Auxiliary {
        headers_address: image.headers_address + bias,
        headers: image.headers,
        entry: image.entry.wrapping_add(*bias),
        interpreter_base: *interpreter_base,
        random: start_random(),
        hardware: cpu_entry::hardware_capabilities(),
        vdso: vdso::range().start,
        identity: [identity.user.real, identity.user.effective, identity.group.real, identity.group.effective],
        secure: identity.is_secure(),
        ..Auxiliary::default()
    };
    if *entry >= PROGRAM_END {
        // Nothing can be there, nor return there.
        return Err(Errno::EFAULT);
    }
    let stack = initial_stack::build(STACK_TOP, path, &plan.arguments, environment, &auxiliary);
    usercopy::write(stack.pointer, &stack.bytes)?;
    {
        let mut program = process().program.lock();
        program.arguments_at = stack.first_argument;
        program.auxiliary = stack.bytes[stack.auxiliary].to_vec();
    }
    *context = Context::default();
    let frame = &mut context.frame;
    (frame.rip, frame.rsp, frame.rflags, frame.cs, frame.ss) = (*entry, stack.pointer, FLAGS, USER_CODE, USER_DATA);
    cpu_entry::set_segment_base(0);
    fpu::clear();
    Ok(())
}

/// Fills with zeros what lies in one page.
fn clear(place: &Range<u64>) -> Result<()> {
    usercopy::write(place.start, &ZEROS[..(place.end - place.start) as usize])
}

/// Bytes for AT_RANDOM, from which libc makes guards against overruns: from the CPU's own source, else from the
/// kernel's. The clock is mixed in: on a machine without a source it is the only input. That makes guesses harder, and
/// no secret is made of it (`getrandom` refuses there).
fn start_random() -> [u8; 16] {
    let spread = |word: u64| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let first = spread(runtime::clock::ticks() ^ spread(process().number()));
    let mut words = [first, spread(first)];
    match [cpu_entry::random(), cpu_entry::random()] {
        [Some(one), Some(other)] => words = [words[0] ^ one, words[1] ^ other],
        _ => {
            let mut bytes = [0; 16];
            if entropy(&mut bytes).is_ok() {
                return bytes;
            }
        }
    }
    (u128::from(words[1]) << 64 | u128::from(words[0])).to_le_bytes()
}

/// Maps an object in addition to the program; the result is its distance from where its file would have it.
pub(super) fn map_object(file: &ExecFile, image: &Image) -> Result<u64> {
    let touched = touched_now(file);
    let mut zeros = Vec::new();
    let bias = process().with_memory(|space, pages| {
        let bias = place_movable(space, image)?;
        let source = (file.opened.node, &*touched.pages);
        load_segments::map((&mut *space, &mut *pages), source, image, bias, &mut zeros)?;
        forget_if_cut(space, pages, &touched, load_segments::pages_of_all(image, bias)).map(|()| bias)
    })?;
    zeros.iter().try_for_each(clear)?;
    Ok(bias)
}

/// The pages that programs touch of a file, as it is now.
fn touched_now(file: &ExecFile) -> Cow<'_, PrefaultSet> {
    let mut files = process().files.lock();
    let are_current = files.are_current(&file.touched);
    if are_current { Cow::Borrowed(&file.touched) } else { Cow::Owned(files.touched(file.opened.node)) }
}

/// What `/proc` and others tell of the program; a script has its own name, and its interpreter's file.
fn note_program(plan: &ExecPlan, path: &[u8], environment: &[Vec<u8>]) {
    let process = process();
    let file = &plan.program.file;
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let path = if file.absolute.is_empty() { absolute(&file.path) } else { file.absolute.clone() };
    let joined = |strings: &[Vec<u8>]| {
        let mut all = Vec::with_capacity(strings.iter().map(|string| string.len() + 1).sum());
        strings.iter().for_each(|string| {
            all.extend_from_slice(string);
            all.push(0);
        });
        all
    };
    {
        let mut program = process.program.lock();
        program.path = path;
        program.node = file.opened.node;
        program.interpreter.clone_from(&plan.interpreter);
        program.name = name[..name.len().min(15)].to_vec();
        program.arguments = joined(&plan.arguments);
        program.environment = joined(environment);
    }
    super::fork::child_start::publish(process);
}

fn absolute(path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") {
        return path.to_vec();
    }
    let process = process();
    let mut whole = process.working_directory().unwrap_or_default();
    if whole != b"/" {
        whole.push(b'/');
    }
    whole.extend_from_slice(path.strip_prefix(b"./").unwrap_or(path));
    whole
}
