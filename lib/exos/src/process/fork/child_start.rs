//! How a process begins: the first one from what the session wrote, every other as a copy of its parent.

use crate::attributes::ProcessAttributes;
use crate::descriptor::exported_pages::ExportedPages;
use crate::descriptor::fd_pins::{Descriptors, FdPins};
use crate::descriptor::object::Object;
use crate::descriptor::open_file::{OpenFile, OpenFileTable};
use crate::hw::cpu_time::Transferred;
use crate::hw::current::word;
use crate::hw::domain::Domain;
use crate::hw::mapping::Mappings;
use crate::hw::{fpu, library_image};
use crate::process::children::Children;
use crate::process::current::{adopt, process, thread};
use crate::process::fork::fork_state::ForkState;
use crate::process::futex::Futexes;
use crate::process::process_record::{Lists, Memory, Process, Program, option};
use crate::process::spawn_cache::SpawnCache;
use crate::process::thread::Thread;
use crate::terminal;
use unix_core::process::public_page as public;

use crate::loader::cpu_entry;
use crate::pipe::{Pipe, Side};
use crate::process::call::{CallTable, Summary};
use crate::process::environment::SESSION_SLOT;
use crate::process::image;
use crate::server::client::Client;
use crate::signal::{self, ExpiryTimers, Mailbox, SignalState};
use crate::terminal::{Screen, Terminal};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use linux_abi::address_map::PARENT_MAILBOX;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use program::hot_sites::TrapCounts;
use runtime::area::{self, Area};
use runtime::heap;
use runtime::lock::Lock;
use runtime::page::Allocator;
use runtime::upcall::Context;
use runtime::{EnvironmentId, Kind, PageNumber, clock, exposed, syscall};
use unix_core::ipc::attachments::Holdings;
use unix_core::process::credentials::Credentials;
use unix_core::process::exit_status::Status;
use unix_core::process::fs_context::FsContext;
use unix_core::process::rusage::Rusage;
use unix_core::session::{command, first_process};
use unix_core::signal::timer::Timers;
use vfs::namespace::ROOT;
use vm::address_space::AddressSpace;

/// The first function of a child, which finds a [`ForkState`] in its parent's spawn cache.
pub extern "C" fn child_entry(_argument: u64) {
    // Copied while the parent held it.
    heap::begin_copy(runtime::layout::area_index(Area::current().address()));
    process().free_copied_locks();
    let mut nursery = core::mem::take(&mut *process().spawn_cache.lock());
    let Some(mut inherited) = nursery.inherited.take() else {
        crate::process::exit::end(unix_core::process::exit_status::DESTROYED)
    };
    let has_key_of_threads = process().attributes.begin_child();
    let begun = init_child(&mut inherited);
    if let Err(error) = begun.and_then(|()| if has_key_of_threads { process().settle() } else { Ok(()) }) {
        runtime::error_line!("a process could not begin: error {}", error.number());
        crate::process::exit::end(Status::Killed(linux::SIGKILL));
    }
    let request = process().exec.lock().take();
    match request {
        Some(request) if inherited.executes() => {
            fpu::declare_live();
            crate::process::exec::take_over(&request, nursery.template.take());
        }
        // A thread of the parent's was about to leave its process to it.
        request => request.iter().for_each(|request| request.close()),
    }
    drop(nursery.template);
    if inherited.options.set_number != 0 {
        let number = process().number() as u32;
        let _ = crate::hw::usercopy::write_half(inherited.options.set_number, number);
    }
    fpu::load();
    cpu_entry::resume(&inherited.context)
}

fn init_child(inherited: &mut ForkState) -> Result<()> {
    let (process, thread) = (process(), thread());
    take_memory(process, inherited);
    let name = thread.name();
    thread.begin_again();
    process.program.lock().name = name;
    process.number.store(thread.number(), Relaxed);
    process.first_number.store(0, Relaxed);
    // One that found no memory while it made this one ends; this one does not.
    process.ending.store(0, Relaxed);
    process.area.store(Area::current().address(), Relaxed);
    process.signal.exit_signal.store(inherited.options.exit_signal, Relaxed);
    (process.calls.image().install_gate)();
    publish_signals(process);
    process.signal.second.clear();
    process.publish_signal_limit();
    clear_parent_state(process, thread);
    if let Some((place, pages)) = &inherited.window {
        let window = process.mappings.lock().note_own(*place, pages.clone());
        process.files.lock().take_window(window);
    }
    let (key, public) = (process.session_key, process.lists.public(process.session_key));
    syscall::page_claim(key, inherited.mailbox, key, public.list)?;
    let place = process.signal.mailbox.lock().window().address();
    let mailbox = process.mappings.lock().note(place, [inherited.mailbox]);
    *process.signal.mailbox.lock() = Mailbox::new(mailbox);
    let parents = process.mappings.lock().note_own(PARENT_MAILBOX, [inherited.parent_mailbox]);
    *process.signal.parent_mailbox.lock() = Some(Mailbox::new(parents));
    process.signal.parent.store(inherited.parent, Relaxed);
    let base = inherited.options.segment_base.unwrap_or(thread.segment_base.load(Relaxed));
    cpu_entry::set_segment_base(base);
    thread.clear_at_end.store(inherited.options.clear_number, Relaxed);
    if inherited.options.clears_handlers {
        process.signal.actions.lock().forget_handlers();
    }
    crate::process::fork::vfork_sharing::begin(process, &inherited.options.vfork_link);
    if !inherited.borrows_memory() {
        process.with_memory(|space, pages| space.begin_child(pages))?;
    }
    crate::process::sched::priority::begin(process);
    if !inherited.executes() {
        // A child that begins with another program publishes this once that program is loaded.
        publish(process);
    }
    process.public_word(public::BEGUN).store(1, Release);
    Ok(())
}

/// Notes what differs from the parent's memory, before any of it is used.
fn take_memory(process: &Process, inherited: &mut ForkState) {
    let mut memory = process.memory.lock();
    let Some(own) = inherited.memory.take() else { return };
    memory.tables = own.tables;
    if inherited.executes() {
        // Nothing of it is here, and none of its files is held.
        memory.space = AddressSpace::default();
    }
    if !own.has_files {
        memory.space.forget_files();
    }
    for (address, entry) in own.copied {
        memory.space.frames.set(address, entry);
    }
}

fn clear_parent_state(process: &Process, thread: &'static Thread) {
    process.mappings.lock().forget_own();
    *process.children.lock() = Children::default();
    let gone = core::mem::replace(&mut *process.threads.lock(), vec![thread]);
    let mut spare = process.spare_threads.lock();
    spare.extend(gone.into_iter().filter(|other| !core::ptr::eq(*other, thread)));
    spare.extend(process.remains.lock().drain(..).map(|dead| dead.thread));
    spare.iter().for_each(|record| record.forget_parts());
    drop(spare);
    *process.descriptors.pins.lock() = FdPins::default();
    process.descriptors.has_threads.store(false, Relaxed);
    process.has_made_children.store(false, Relaxed);
    *process.futexes.lock() = Futexes::default();
    // These pages are its parent's.
    process.memory.lock().space.cut.clear();
    process.alarms.watches.lock().clear();
    process.alarms.change(|timers| *timers = Timers::default());
    process.set_time_limit();
    *process.ended.lock() = Rusage::default();
    *process.moved_by_ended.lock() = Transferred::default();
    process.attributes.prctl.lock().begin_child();
    process.holdings.lock().undoes = false;
    *process.exported.lock() = ExportedPages::default();
    process.heap_pages.lock().clear();
    process.files.lock().begin_again();
}

/// Tells the parent which of the pages that both had were written, before they go, and which it could have given.
pub fn tell_what_was_written(process: &Process) {
    let memory = process.memory.lock();
    let tell = |first: usize, pages: &[u64]| {
        pages.iter().zip(first..).for_each(|(page, word)| process.public_word(word).store(*page, Release));
    };
    tell(public::WRITTEN, memory.space.written());
    tell(public::TOUCHED, memory.space.touched());
}

/// Writes the public facts into the public page, and what `getpid` reads into the private one.
pub fn publish(process: &Process) {
    Area::current().library().free[word::NUMBER].store(process.number(), Relaxed);
    let mailbox = process.signal.mailbox.lock().window().pages()[0];
    for (index, value) in public_words(process, process.signal.parent.load(Relaxed), mailbox) {
        process.public_word(index).store(value, Release);
    }
    let start = process.public_word(public::START);
    let _ = start.compare_exchange(0, clock::now(), Release, Relaxed);
    terminal::job_control::publish();
    publish_threads(process);
    publish_signals(process);
    process.publish_signal_limit();
    publish_arguments(process);
}

/// Shows how many threads there are.
pub fn publish_threads(process: &Process) {
    process.public_word(public::THREADS).store(process.threads.lock().len() as u64, Release);
}

impl Process {
    /// Gives the process another name, and shows it.
    pub fn set_name(&self, name: Vec<u8>) {
        self.program.lock().name = name;
        publish(self);
    }
}

/// Shows what becomes of signals that are not blocked.
pub fn publish_signals(process: &Process) {
    let actions = process.signal.actions.lock();
    let (ignored, caught) = actions.sets();
    process.signal.page.set_wants(!actions.get(linux::SIGCHLD).has(linux::SA_NOCLDSTOP), !actions.forgets_children());
    drop(actions);
    process.public_word(public::IGNORED).store(ignored, Release);
    process.public_word(public::CAUGHT).store(caught, Release);
}

/// Shows the arguments of the program, as far as they fit.
fn publish_arguments(process: &Process) {
    let mut arguments = process.program.lock().arguments.clone();
    arguments.truncate(public::ARGUMENT_BYTES);
    let length = arguments.len();
    arguments.resize(length.next_multiple_of(8), 0);
    for (index, bytes) in arguments.chunks_exact(8).enumerate() {
        let value = u64::from_le_bytes(core::array::from_fn(|at| bytes[at]));
        process.public_word(public::ARGUMENTS + 1 + index).store(value, Release);
    }
    process.public_word(public::ARGUMENTS).store(length as u64, Release);
}

/// What a process with this parent and mailbox, and else like `process`, says of itself: words of the public page.
pub fn public_words(process: &Process, parent: u64, mailbox: PageNumber) -> [(usize, u64); 9] {
    let name = process.program.lock().name.clone();
    let Credentials { user, group, .. } = process.attributes.credentials.common().lock().clone();
    let mut two = [0u8; 16];
    let length = name.len().min(15);
    two[..length].copy_from_slice(&name[..length]);
    let [low, high] = [0, 8].map(|at| u64::from_le_bytes(core::array::from_fn(|index| two[at + index])));
    [
        (public::PARENT, parent),
        (public::SESSION, process.attributes.session.load(Relaxed)),
        (public::MAILBOX, mailbox.0),
        (public::NAME, low),
        (public::NAME + 1, high),
        (public::USER, u64::from(user.real) | u64::from(user.effective) << 32),
        (public::GROUP, u64::from(group.real) | u64::from(group.effective) << 32),
        (public::PRIORITY, process.attributes.prctl.lock().to_word()),
        (public::MAGIC, public::MAGIC_VALUE),
    ]
}

/// The first function of the first process.
pub extern "C" fn first(_argument: u64) {
    let outcome = begin_first();
    let text = match outcome {
        Ok(mut context) => {
            // A signal that came while the library was at work has waited for the program.
            signal::deliver_pending(&mut context);
            cpu_entry::resume(&context)
        }
        Err(error) => error,
    };
    runtime::channel::send(Kind::Error, text.as_bytes());
    crate::process::exit::end(Status::Exited(127));
}

/// Makes the record of the first process and loads its program; the error is a line for people.
fn begin_first() -> core::result::Result<Context, alloc::string::String> {
    use alloc::format;
    let (words, command) = library_image::birth_record();
    if words[first_process::PREDECESSOR_WORD] != 0 {
        return crate::process::setuid::setuid_resume::begin(words)
            .map_err(|error| format!("a program cannot be executed: error {}\n", error.number()));
    }
    let command = command::parse(command).map_err(|error| format!("chitin: {error}\n"))?;
    let internal = |error: Errno| format!("chitin: the first process cannot begin: error {}\n", error.number());
    let thread: &'static Thread = Box::leak(Box::new(Thread::new().map_err(internal)?));
    let process = make_first(words, thread).map_err(internal)?;
    adopt(process, thread);
    heap::provide_by(crate::process::exit::oom::provide);
    (process.calls.image().install_gate)();
    open_standard(process, words).map_err(internal)?;
    fpu::declare_live();
    let directory = process.files.lock().enter(ROOT, command.directory);
    let directory = directory.and_then(|found| found.here(Errno::ENOENT)).map_err(|error| {
        let why = match error {
            Errno::ENOENT => "there is none".into(),
            Errno::ENOTDIR => "it is none".into(),
            error => format!("error {}", error.number()),
        };
        format!("chitin: the folder {} cannot be entered: {why}\n", text(command.directory))
    })?;
    process.fs.lock().directory = directory;
    let owned = |strings: &[&[u8]]| strings.iter().map(|string| string.to_vec()).collect::<Vec<_>>();
    let mut context = Context::default();
    let path = crate::process::exec::find_program(command.arguments[0], &command.environment);
    let loaded = path.clone().and_then(|path| {
        crate::process::exec::exec(&mut context, (&path, false), owned(&command.arguments), owned(&command.environment))
    });
    let program = text(command.arguments[0]);
    let missing = || path.ok().and_then(|path| crate::process::exec::missing_interpreter(&path));
    loaded.map_err(|error| match error {
        Errno::ENOENT => match missing() {
            Some(name) => {
                format!("chitin: {program} needs {}, which the root file system does not have\n", text(&name))
            }
            None => format!("chitin: the root file system has no {program}\n"),
        },
        Errno::ENOEXEC => format!("chitin: {program} is no program for x86-64 Linux\n"),
        Errno::EACCES => format!("chitin: {program} may not be executed\n"),
        error => format!("chitin: {program} cannot be run: error {}\n", error.number()),
    })?;
    Ok(context)
}

fn text(bytes: &[u8]) -> alloc::borrow::Cow<'_, str> {
    alloc::string::String::from_utf8_lossy(bytes)
}

/// The number that a process had in another environment, or 0, and its parent's environment.
fn descent(words: &[u64], number: u64, board: &[AtomicU64]) -> [u64; 2] {
    match words[first_process::PREDECESSOR_WORD] {
        0 => [0, exposed::environment(area::number()).map_or(0, |own| own.creator.load(Relaxed))],
        _ => [unix_core::session::status_page::succession(board).process(number), words[first_process::PARENT_WORD]],
    }
}

/// The mailbox of a process in a group of its own.
fn first_mailbox(windows: &mut Mappings, pages: Allocator, number: u64) -> Result<Mailbox> {
    let mailbox = Mailbox::new(windows.open(vec![pages.allocate()?], pages.key, true)?);
    mailbox.letters().group().store(number, Relaxed);
    Ok(mailbox)
}

/// The record of a process that is no copy of another: the first one's, or that of a set-id successor.
pub(in crate::process) fn make_first(words: &[u64], thread: &'static Thread) -> Result<&'static Process> {
    let (number, image) = (area::number().0, image::running()?);
    thread.begin_again();
    let (options, mut windows) = (words[first_process::OPTIONS_WORD] as u32, Mappings::default());
    let shared = [first_process::READABLE_WORD, first_process::WRITABLE_WORD].map(|word| PageNumber(words[word]));
    let lists = Lists { shared, public: AtomicU64::new(words[first_process::PUBLIC_WORD]) };
    let mailbox = first_mailbox(&mut windows, lists.public(SESSION_SLOT), number)?;
    let board = windows.open(vec![PageNumber(words[first_process::BOARD_WORD])], SESSION_SLOT, false)?;
    let [first_number, parent] = descent(words, number, board.words());
    Ok(Box::leak(Box::new(Process {
        domain: Domain {
            mappings: Lock::new(windows),
            number: AtomicU64::new(number),
            first_number: AtomicU64::new(first_number),
            area: AtomicU64::new(Area::current().address()),
            session_key: SESSION_SLOT,
            opening_key: AtomicU64::new(SESSION_SLOT.0),
            principal: AtomicU64::new(0),
            server: EnvironmentId(words[first_process::SERVER_WORD]),
            bank: EnvironmentId(words[first_process::BANK_WORD]),
            board,
            spare_vectors: Lock::new(None),
        },
        spawn_cache: Lock::new(SpawnCache::default()),
        children: Lock::new(Children::default()),
        threads: Lock::new(vec![thread]),
        signal: SignalState::new(mailbox, parent),
        program: Lock::new(Program::default()),
        descriptors: Descriptors::new(&image.tables.offsets),
        fs: Lock::new(FsContext { directory: ROOT, below_proc: None, mask: 0o022 }),
        ended: Lock::new(Rusage::default()),
        moved_by_ended: Lock::default(),
        holdings: Lock::new(Holdings::default()),
        attributes: ProcessAttributes::new(number),
        memory: Lock::new(Memory::default()),
        files: Lock::new(Client::new(EnvironmentId(words[first_process::SERVER_WORD]))),
        records: Lock::new(OpenFileTable::default()),
        exported: Lock::new(ExportedPages::default()),
        heap_pages: Lock::new(Vec::new()),
        vfork_link: Lock::new(None),
        deferred_child: Lock::new(None),
        terminal: Lock::new(None),
        ending: AtomicU64::new(0),
        remains: Lock::new(Vec::new()),
        spare_threads: Lock::new(Vec::new()),
        exec: Lock::new(None),
        alarms: ExpiryTimers::default(),
        futexes: Lock::new(Futexes::default()),
        lists,
        image_table: PageNumber(words[first_process::IMAGE_TABLE_WORD]),
        summary: Summary::default(),
        options: AtomicU32::new(options),
        calls: CallTable::of_image(image, options & option::TRACE_CALLS != 0),
        extensions: Lock::new(BTreeMap::new()),
        traps: TrapCounts::default(),
        has_made_children: AtomicBool::new(false),
        gate_only: AtomicBool::new(false),
    })))
}

/// Standard input, output and error.
fn open_standard(process: &Process, words: &[u64]) -> Result<()> {
    let pages = |first: usize, count: usize| -> Vec<PageNumber> {
        words[first..first + count].iter().map(|page| PageNumber(*page)).collect()
    };
    let open: [OpenFile; 3] = if process.has_option(option::TERMINAL) {
        let pages = pages(first_process::TERMINAL_WORD, first_process::TERMINAL_PAGES);
        let terminal = Terminal::open(&mut process.mappings.lock(), &pages, process.session_key, Screen::Host)?;
        terminal.set_session(process.number());
        terminal.set_foreground(process.number());
        *process.terminal.lock() = Some(terminal.clone());
        let terminal = OpenFile::new(Object::Terminal(terminal), linux::O_RDWR)?;
        [terminal.duplicate(), terminal.duplicate(), terminal]
    } else {
        let pages = pages(first_process::PIPE_WORD, first_process::PIPE_PAGES);
        let pipe = Pipe::open(&mut process.mappings.lock(), &pages, process.session_key)?;
        [
            OpenFile::new(Object::Pipe(pipe, Side::Read), linux::O_RDONLY)?,
            OpenFile::new(Object::Console(Kind::Output), linux::O_WRONLY)?,
            OpenFile::new(Object::Console(Kind::Error), linux::O_WRONLY)?,
        ]
    };
    let mut descriptors = process.descriptors.table.lock();
    for description in open {
        descriptors.add(description, 0, false)?;
    }
    Ok(())
}
