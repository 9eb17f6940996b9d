//! `execve`: another program in the same process.
//!
//! Everything that can be refused is checked before the old program is gone; from then on an error ends the process.

use super::children::public;
use super::preload::{self, Object};
use super::set_id;
use super::status::Status;
use crate::call::walk::{Last, walk};
use crate::descriptor::object::random;
use crate::errno::{Errno, Result};
use crate::file_system::tree::access;
use crate::guardian::client::{Found, Opened};
use crate::guardian::protocol::{EMPTY_PATH, FOLLOW};
use crate::layout::{MOVABLE_BASE, PAGE_MASK, PAGE_SIZE, PROGRAM_END, STACK_TOP, page_up};
use crate::loader::image::{HEAD, Image, Segment};
use crate::loader::stack::{self, Auxiliary};
use crate::loader::{enter, script, vdso};
use crate::memory::area::{Area, Backing, Protection};
use crate::memory::frames::{FROM_FILE, page_of};
use crate::memory::space::{Pages, Space};
use crate::user_memory::current::{process, thread};
use crate::user_memory::own_pages::OwnPages;
use crate::user_memory::{copy, vectors};
use abi::upcall::{USER_CODE, USER_DATA};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as linux;
use runtime::upcall::Context;

/// Interpreters of scripts that may stand behind each other.
const SCRIPTS: usize = 5;
/// Pages that the stack begins with; it grows as it is touched.
const FIRST_STACK: u64 = 33 * PAGE_SIZE;
/// Exit status of a program whose preloaded objects cannot be loaded, as the C library's linker has it.
const NOT_LOADED: u8 = 127;
/// Flags of a program that begins: interrupts on.
const FLAGS: u64 = 0x202;

/// A file that was opened to be run.
pub(super) struct File {
    pub(super) opened: Opened,
    pub(super) path: Vec<u8>,
    pub(super) head: Vec<u8>,
}

/// A program that can be loaded: itself, and its interpreter.
struct Plan {
    program: (File, Image),
    interpreter: Option<(File, Image)>,
    arguments: Vec<Vec<u8>>,
    preloaded: Vec<Object>,
}

/// Replaces the program of the running process. On success `context` is where it begins. `goes`: the path leads through a
/// descriptor that is closed now, so that the interpreter of a script would not find it.
pub fn exec(
    context: &mut Context,
    (path, goes): (&[u8], bool),
    arguments: Vec<Vec<u8>>,
    environment: Vec<Vec<u8>>,
) -> Result<()> {
    let request = Request::new((path, goes), arguments, environment)?;
    let process = process();
    if thread().number() != process.environment() {
        *process.exec.lock() = Some(Box::new(request));
        super::exit::leave_for_exec();
    }
    if request.is_for_another {
        return set_id::hand_over(&request).inspect_err(|_| request.close());
    }
    super::exit::be_alone_for_exec();
    replace(context, &request)
}

/// Whether a program can be run, once it is clear who the process becomes: true where that takes another environment.
fn check(plan: &mut Plan, path: &[u8], environment: &[Vec<u8>]) -> Result<bool> {
    // Tried once here, at the real addresses of the strings, so that too long a list is an error and not an end.
    stack::build(STACK_TOP, path, &plan.arguments, environment, &Auxiliary::default())?;
    if set_id::becomes_another(&plan.program.0)? {
        return Ok(true);
    }
    if !process().identity.lock().is_secure() {
        plan.preloaded = preload::find(environment)?;
    }
    Ok(false)
}

/// A program that can be loaded, with all that it is to find: what a thread that is not the first leaves to the first.
pub struct Request {
    plan: Plan,
    pub(super) path: Vec<u8>,
    pub(super) environment: Vec<Vec<u8>>,
    /// Whether another environment is to run it.
    is_for_another: bool,
}

impl Request {
    /// Finds and checks a program.
    ///
    /// # Errors
    /// Whatever `execve` refuses.
    pub fn new((path, goes): (&[u8], bool), arguments: Vec<Vec<u8>>, environment: Vec<Vec<u8>>) -> Result<Self> {
        let mut plan = plan(path, goes, arguments)?;
        let outcome = check(&mut plan, path, &environment);
        let is_for_another = outcome.inspect_err(|_| plan.close())?;
        Ok(Self { plan, path: path.to_vec(), environment, is_for_another })
    }

    /// Whether another environment is to run it than that of who asks.
    pub const fn is_for_another(&self) -> bool {
        self.is_for_another
    }

    /// Lets its files go.
    pub fn close(&self) {
        self.plan.close();
    }

    /// A program that was opened by its node, for an environment that goes on for another one.
    pub(super) fn for_node(node: u64, path: &[u8], arguments: Vec<Vec<u8>>, environment: Vec<Vec<u8>>) -> Result<Self> {
        let opened = process().files.lock().open(node, b"", linux::O_RDONLY, 0)?.here(Errno::EACCES)?;
        let plan = plan_image(read_head(opened, path)?, arguments)?;
        Ok(Self { plan, path: path.to_vec(), environment, is_for_another: false })
    }

    /// Node of the program.
    pub(super) const fn node(&self) -> u64 {
        self.plan.program.0.opened.node
    }

    /// Its arguments.
    pub(super) fn arguments(&self) -> &[Vec<u8>] {
        &self.plan.arguments
    }
}

impl core::fmt::Debug for Request {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Request").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The first thread goes on in the program that another one asked for.
pub fn take_over(request: &Request) -> ! {
    let mut context = Context::default();
    let outcome = if request.is_for_another { set_id::hand_over(request) } else { replace(&mut context, request) };
    if outcome.is_err() {
        super::exit::end(Status::Killed(linux::SIGKILL));
    }
    enter::resume(&context)
}

/// The point of no return.
pub(super) fn replace(context: &mut Context, request: &Request) -> Result<()> {
    let Request { plan, path, environment, .. } = request;
    super::vfork::end(process());
    forget_old_program()?;
    let started = start(context, plan, path, environment);
    tell_what_it_began_with();
    note_program(plan, path, environment);
    if started.is_err() {
        super::exit::end(Status::Killed(linux::SIGSEGV));
    }
    if plan.preloaded.iter().try_for_each(Object::load).is_err() {
        super::exit::end(Status::Exited(NOT_LOADED));
    }
    plan.close();
    Ok(())
}

/// Tells the parent how many pages a program begins with, so that the next child has them at once, and gives up what it had at
/// hand beyond them.
fn tell_what_it_began_with() {
    let process = process();
    let own = process.with_memory(|space, pages| {
        pages.give_up_at_hand();
        (space.frames.len() - space.frames.of_files()) as u64
    });
    process.public_word(public::BEGAN_WITH).store(own, Relaxed);
}

impl Plan {
    /// Lets the files go; what is mapped of them is held by the areas.
    fn close(&self) {
        close(&self.program.0);
        self.interpreter.iter().for_each(|(file, _)| close(file));
        self.preloaded.iter().for_each(Object::close);
    }
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
        let (directory, path) = process.place.lock().start(&candidate);
        let found = process.files.lock().access(directory, &path, u64::from(access::EXECUTE), FOLLOW);
        if found.is_ok() {
            return Ok(candidate);
        }
    }
    Err(Errno::ENOENT)
}

/// Opens the program, follows scripts, and opens the interpreter of a dynamic program.
fn plan(path: &[u8], goes: bool, mut arguments: Vec<Vec<u8>>) -> Result<Plan> {
    let mut path = path.to_vec();
    for _ in 0..=SCRIPTS {
        let file = open(&path)?;
        let Some(script) = script::parse(&file.head) else {
            return plan_image(file, arguments);
        };
        let script = if goes { Err(Errno::ENOENT) } else { script };
        let script = script.inspect_err(|_| close(&file))?;
        let mut longer = vec![script.interpreter.to_vec()];
        longer.extend(script.argument.map(<[u8]>::to_vec));
        longer.push(path);
        longer.extend(arguments.into_iter().skip(1));
        arguments = longer;
        path = script.interpreter.to_vec();
        close(&file);
    }
    Err(Errno::ELOOP)
}

fn plan_image(file: File, arguments: Vec<Vec<u8>>) -> Result<Plan> {
    let image = Image::read(&file.head, read_from(&file)).inspect_err(|_| close(&file))?;
    let interpreter = match image.interpreter {
        None => None,
        Some((offset, bytes)) => Some(open_interpreter(&file, offset, bytes).inspect_err(|_| close(&file))?),
    };
    Ok(Plan { program: (file, image), interpreter, arguments, preloaded: Vec::new() })
}

fn open_interpreter(file: &File, offset: u64, bytes: u64) -> Result<(File, Image)> {
    if offset > i64::MAX as u64 {
        return Err(Errno::EINVAL);
    }
    let name = read_from(file)(offset, bytes as usize)?;
    if (name.len() as u64) < bytes {
        return Err(Errno::EIO);
    }
    let name = name.strip_suffix(b"\0").ok_or(Errno::ENOEXEC)?;
    let file = open(name.split(|byte| *byte == 0).next().unwrap_or_default())?;
    let image = Image::read_interpreter(&file.head, read_from(&file)).inspect_err(|_| close(&file))?;
    Ok((file, image))
}

/// Reads more of a file than its beginning.
pub(super) fn read_from(file: &File) -> impl FnOnce(u64, usize) -> Result<Vec<u8>> {
    let node = file.opened.node;
    move |offset, bytes| process().files.lock().read(node, offset, bytes)
}

/// Opens a regular file that may be executed, and reads its beginning.
pub(super) fn open(path: &[u8]) -> Result<File> {
    let process = process();
    let (directory, from_there) = process.place.lock().start(path);
    let found = walk(directory, &from_there, Last::Node, |files, at, path| {
        let empty = if path.is_empty() { EMPTY_PATH } else { 0 };
        match files.access(at, path, u64::from(access::EXECUTE), FOLLOW | empty)? {
            Found::Here(()) => files.open(at, path, linux::O_RDONLY, 0),
            Found::Elsewhere(node, rest) => Ok(Found::Elsewhere(node, rest)),
        }
    })?;
    read_head(found.here(Errno::EACCES)?, path)
}

/// The beginning of a regular file that was opened.
fn read_head(opened: Opened, path: &[u8]) -> Result<File> {
    let mut files = process().files.lock();
    if opened.mode & linux::S_IFMT != linux::S_IFREG {
        files.hold(opened.node, false);
        return Err(Errno::EACCES);
    }
    match files.read(opened.node, 0, HEAD) {
        Ok(head) => Ok(File { opened, path: path.to_vec(), head }),
        Err(error) => {
            files.hold(opened.node, false);
            Err(error)
        }
    }
}

pub(super) fn close(file: &File) {
    process().files.lock().hold(file.opened.node, false);
}

pub(super) fn forget_old_program() -> Result<()> {
    let process = process();
    super::begin::tell_what_was_written(process);
    process.with_memory(|space, pages| {
        let gone = core::mem::take(space);
        let there = gone.frames.all();
        pages.clear(&there)?;
        // Those of files are nobody's here.
        let own = there.iter().filter(|(_, entry)| entry & FROM_FILE == 0);
        let numbers: Vec<u64> = own.map(|(_, entry)| page_of(*entry)).collect();
        pages.keep_at_hand(&numbers);
        for node in gone.files() {
            pages.hold_file(node, false);
        }
        Result::Ok(())
    })?;
    loop {
        let closed = process.descriptors.lock().take_closed_by_exec();
        let Some(description) = closed else { break };
        description.close();
    }
    // What they cost less the next program may not need.
    process.empty_nursery();
    let copies = core::mem::take(&mut *process.copies.lock());
    runtime::page::Allocator::own().free_many(&copies);
    crate::call::detach_all(process);
    process.set_memory_limits();
    let identity = process.identity.lock().clone();
    process.attributes.lock().begin_program(&identity);
    crate::call::preloaded::forget(process);
    process.traps.forget();
    process.signals.lock().forget_handlers();
    process.alarms.change(|timers| timers.created.clear());
    let thread = thread();
    thread.set_alternate([0; 3]);
    thread.robust_list.store(0, Relaxed);
    thread.clear_at_end.store(0, Relaxed);
    Ok(())
}

/// Maps the program and its stack, and sets the registers.
fn start(context: &mut Context, plan: &Plan, path: &[u8], environment: &[Vec<u8>]) -> Result<()> {
    let (file, image) = &plan.program;
    let (first, last) = image.span();
    let bias = if image.movable { MOVABLE_BASE - first } else { 0 };
    map_image(file, image, bias)?;
    let end = page_up(last + bias).ok_or(Errno::ENOMEM)?;
    process().memory.lock().space.brk = (end, end);
    map_stack(image.executable_stack)?;
    let (entry, interpreter_base) = match &plan.interpreter {
        None => (image.entry.wrapping_add(bias), 0),
        Some((file, interpreter)) => {
            let base = place_movable(interpreter)?;
            map_image(file, interpreter, base)?;
            (interpreter.entry.wrapping_add(base), base)
        }
    };
    let identity = process().identity.lock().clone();
    let auxiliary = Auxiliary {
        headers_address: image.headers_address + bias,
        headers: image.headers,
        entry: image.entry.wrapping_add(bias),
        interpreter_base,
        random: start_random(),
        hardware: enter::hardware_capabilities(),
        vdso: vdso::range().start,
        identity: [identity.user.real, identity.user.effective, identity.group.real, identity.group.effective],
        secure: identity.is_secure(),
        ..Auxiliary::default()
    };
    if entry >= PROGRAM_END {
        // Nothing can be there, nor return there.
        return Err(Errno::EFAULT);
    }
    let stack = stack::build(STACK_TOP, path, &plan.arguments, environment, &auxiliary)?;
    // Below what the program finds there it goes on writing at once.
    let written = (stack.pointer & PAGE_MASK) - PAGE_SIZE..STACK_TOP;
    process().with_memory(|space, pages| space.fill_with_few_zeros(pages, written));
    copy::write(stack.pointer, &stack.bytes)?;
    process().program.lock().auxiliary = stack.bytes[stack.auxiliary].to_vec();
    *context = Context::default();
    let frame = &mut context.frame;
    (frame.rip, frame.rsp, frame.rflags, frame.cs, frame.ss) = (entry, stack.pointer, FLAGS, USER_CODE, USER_DATA);
    enter::set_segment_base(0);
    vectors::clear();
    Ok(())
}

/// Bytes for AT_RANDOM, from which libc makes guards against overruns. A machine without a source of entropy gives what
/// its clock gives: guesses are harder, and nothing that must be secret is made of it (`getrandom` refuses there).
fn start_random() -> [u8; 16] {
    let from_clock = || {
        let spread = |word: u64| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let first = spread(runtime::clock::ticks() ^ spread(process().number()));
        u128::from(first) << 64 | u128::from(spread(first))
    };
    random(16).ok().and_then(|bytes| bytes.try_into().ok()).unwrap_or_else(|| from_clock().to_le_bytes())
}

/// Where an interpreter or an object goes, as a distance from where its file would have it.
pub(super) fn place_movable(image: &Image) -> Result<u64> {
    let (first, last) = image.span();
    if !image.movable {
        return Ok(0);
    }
    let bytes = page_up(last - first).ok_or(Errno::ENOMEM)?;
    Ok(process().memory.lock().space.areas.find_place(bytes)? - first)
}

fn map_stack(executable: bool) -> Result<()> {
    let protection = if executable { Protection(7) } else { Protection::READ_WRITE };
    let area = Area { grows: true, ..Area::anonymous(STACK_TOP - FIRST_STACK, STACK_TOP, protection) };
    process().with_memory(|space, pages| space.map(pages, area))
}

/// Maps what a file has of its segments, and zeros behind each.
pub(super) fn map_image(file: &File, image: &Image, bias: u64) -> Result<()> {
    if !image.is_sound {
        return Err(Errno::ENOEXEC);
    }
    if !image.is_in_order() {
        return image.segments.iter().try_for_each(|segment| map_all(file, core::slice::from_ref(segment), bias));
    }
    map_all(file, &image.segments, bias)
}

/// Maps segments that have no page in common.
fn map_all(file: &File, segments: &[Segment], bias: u64) -> Result<()> {
    process().with_memory(|space, pages| {
        segments.iter().try_for_each(|segment| map_segment(space, pages, file.opened.node, segment, bias))?;
        if let (Some(first), Some(last)) = (segments.first(), segments.last()) {
            let place = pages_of(first, bias)?[0]..pages_of(last, bias)?[2];
            space.fill_for_start(pages, file.opened.node, place);
        }
        Result::Ok(())
    })?;
    segments.iter().try_for_each(|segment| clear_behind(segment, bias))
}

/// Where the pages of a segment begin, where those that its file has end, and where all end.
fn pages_of(segment: &Segment, bias: u64) -> Result<[u64; 3]> {
    let address = segment.address + bias;
    let start = address & PAGE_MASK;
    let file_end = if segment.file_bytes == 0 { Some(start) } else { page_up(address + segment.file_bytes) };
    let end = page_up(address + segment.memory_bytes);
    Ok([start, file_end.ok_or(Errno::ENOMEM)?, end.ok_or(Errno::ENOMEM)?])
}

fn map_segment(space: &mut Space, pages: &mut OwnPages<'_>, node: u64, segment: &Segment, bias: u64) -> Result<()> {
    let mut protection = Protection::READ;
    if segment.write {
        protection = Protection(protection.0 | Protection::WRITE.0);
    }
    if segment.execute {
        protection = Protection(protection.0 | Protection::EXECUTE.0);
    }
    let [start, mapped_end, end] = pages_of(segment, bias)?;
    if mapped_end > start {
        let backing = Backing::File { node, offset: segment.file_offset & PAGE_MASK, writable: false };
        space.map(pages, Area { backing, ..Area::anonymous(start, mapped_end, protection) })?;
    }
    if end > mapped_end {
        space.map(pages, Area::anonymous(mapped_end, end, protection))?;
    }
    Ok(())
}

/// What lies behind the file's part of a segment, in its last page, is zeros.
fn clear_behind(segment: &Segment, bias: u64) -> Result<()> {
    let [_, mapped_end, end] = pages_of(segment, bias)?;
    let file_end = segment.address + bias + segment.file_bytes;
    if segment.memory_bytes > segment.file_bytes && segment.write && mapped_end > file_end {
        copy::write(file_end, &vec![0; (mapped_end.min(end) - file_end) as usize])?;
    }
    Ok(())
}

/// What `/proc` and others tell of the program; a script has its own name, and its interpreter's file.
fn note_program(plan: &Plan, path: &[u8], environment: &[Vec<u8>]) {
    let process = process();
    let file = &plan.program.0;
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let path = process.files.lock().path_of(file.opened.node).unwrap_or_else(|_| absolute(&file.path));
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
        program.name = name[..name.len().min(15)].to_vec();
        program.arguments = joined(&plan.arguments);
        program.environment = joined(environment);
    }
    super::begin::publish(process);
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
