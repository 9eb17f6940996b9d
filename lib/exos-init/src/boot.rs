//! From the boot archive to the first process.
//!
//! The session's environment holds the root key and gives away only names below it: the session's key to processes, one
//! of its own to the server. It makes, in this order: the table that maps the ExOS image, the server, the bank, the
//! pipe that standard input comes through, and the first process.

use abi::boot::{COMMAND, EXOS};
use abi::budget::Resource;
use abi::capability::{DEVICE, HOST_CHANNEL, Rights};
use abi::device::kind;
use abi::memory_map::LIBRARY_BASE;
use abi::page_table::MapRow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::sync::atomic::AtomicU64;
use exos::hw::env_create::map;
use exos::hw::mapping::{Mapping, Mappings};
use exos::hw::page_tables::{TableEditor, link_fresh};
use exos::hw::{card, disk};
use exos::pipe::Pipe;
use exos::process::environment::{EnvironmentBuilder, EnvironmentRef, SESSION_SLOT, StartInfo};
use exos::process::option;
use exos::process_table::ProcessTable;
use exos::server::client::Client;
use exos::terminal::{Screen, Terminal};
use exos_server::disk::keeper;
use exos_server::main_loop::{self, Server};
use exos_server::principals::{Lists, Principals};
use exos_server::wire::keeper as wire;
use linux_abi::address_map::{PAGE_SIZE, SHOWN};
use runtime::address_space::{Access, AddressSpace};
use runtime::environment::{Builder, Child};
use runtime::image::Image;
use runtime::lock::Lock;
use runtime::page::{self, Allocator};
use runtime::{EnvironmentId, KeyIndex, PageNumber, area, key, syscall};
use unix_core::session::{command, first_process, status_page};
use unix_core::terminal::termios::Modes;
use vfs::cpio;

/// Pages that the keeper of disks may have before it draws more: its cache and its tables.
const KEEPER_PAGES: u64 = 2048;
/// Pages that the keeper of the wire may have: its ring, and what is on the way.
const WIRE_PAGES: u64 = 3072;

/// A line for people: what went wrong.
pub(crate) type Failure = String;
type Outcome<T> = Result<T, Failure>;

/// What the session made, and works with.
#[derive(Debug)]
pub(crate) struct Session {
    /// The first process.
    pub(crate) first: EnvironmentRef,
    /// Where its standard input comes through.
    pub(crate) input: Source,
    /// What processes are told of the host.
    pub(crate) board: Mapping,
    /// The session's key.
    pub(crate) key: KeyIndex,
    /// The environment that holds the unused budget.
    pub(crate) bank: EnvironmentId,
    /// The server of the file system and of keys.
    pub(crate) server: EnvironmentId,
    /// Whether the host asked for the cost of the run.
    pub(crate) reports_cost: bool,
    /// What the server keeps, which lives in the same address space.
    pub(crate) state: &'static Lock<Server>,
    /// The key that the server and the keepers run under.
    pub(super) name: KeyIndex,
    /// The keeper of the wire, where the machine has a card.
    pub(super) wire: RefCell<Option<Child>>,
    /// What all processes share.
    pub(super) common: Common,
    /// What a process is told that begins: see `birth`.
    pub(super) words: [u64; first_process::WORDS],
}

impl Session {
    /// Processes as the session sees them.
    pub(crate) fn sight(&self) -> ProcessTable {
        ProcessTable { key: KeyIndex::FIRST, succession: status_page::succession(self.board.words()) }
    }
}

/// Where standard input comes through.
#[derive(Debug)]
pub(crate) enum Source {
    /// A pipe.
    Pipe(Pipe),
    /// The terminal that the first process controls.
    Terminal(Terminal),
}

/// Parts that all processes share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) session: KeyIndex,
    pub(super) channel: KeyIndex,
    pub(super) image: StartInfo,
    pub(super) image_table: PageNumber,
}

/// The option that others can reach this machine: it answers them before a program asks for the network.
const NETWORK: &[u8] = b"network";

/// Offsets of the words in the header that the ExOS image begins with; see `hw::header`.
mod header {
    pub(super) const MAGIC: usize = 0;
    pub(super) const VERSION: usize = 1;
    pub(super) const ENTRY: usize = 2;
    pub(super) const FIRST: usize = 3;
    pub(super) const STUB_ENTRY: usize = 4;
    pub(super) const END: usize = 5;
    pub(super) const WORDS: usize = 6;
}

/// Makes everything, up to the first process, which does not run yet.
pub(crate) fn start(archive: &'static [u8]) -> Outcome<Session> {
    let file =
        |name: &str| cpio::find(archive, name.as_bytes()).ok_or_else(|| format!("the boot archive has no {name}"));
    runtime::heap::provide_by(|pages| exos::budget::spare(Resource::Page) >= pages);
    runtime::heap::in_parts();
    let text = file(COMMAND)?;
    let parsed = command::parse(text)?;
    let session = refused("a key", key::derive(KeyIndex::FIRST, Rights::ALL, 0))?;
    let lists = refused("the access lists", make_lists(session))?;
    let image = file(EXOS)?;
    let mut windows = Mappings::default();
    let board = refused("the board", make_board(&mut windows, lists[0]))?;
    let reserve = exos::budget::reserve_of(exos::budget::pages_at_hand());
    let Services { server, state, public, name, wire } =
        make_server(archive, session, lists, board.words(), reserve, disks(&parsed))?;
    let common = load_image(session, lists[0], image, &state.lock().shown())?;
    let bank = make_bank(session, public, reserve)?;
    state.lock().open_bank(bank.number, server, reserve);
    if parsed.options.contains(&NETWORK) {
        state.lock().server.want_wire();
    }
    let shared = Allocator { key: KeyIndex::FIRST, list: lists[1] };
    let input = refused("the standard input", make_source(&mut windows, shared, parsed.terminal))?;
    let mut words = [0; first_process::WORDS];
    let [readable, writable, _] = lists.map(|list| list.0);
    let parts = [server.0, bank.number.0, common.image_table.0, options(&parsed)];
    let known = [&parts[..], &[text.len() as u64, board.pages()[0].0, readable, writable, public.0]].concat();
    words[..known.len()].copy_from_slice(&known);
    let (start, pages) = match &input {
        Source::Pipe(pipe) => (first_process::PIPE_WORD, pipe.pages()),
        Source::Terminal(terminal) => (first_process::TERMINAL_WORD, terminal.pages()),
    };
    words[start..].iter_mut().zip(pages).for_each(|(word, page)| *word = page.0);
    let record = first_process::build(&words, text);
    let first = refused("the first process", make_first(&common, public, &record))?;
    refused("the first process's budget", first.endow_from(session, bank.number, &FIRST_BUDGETS))?;
    refused("the server", Client::new(server).adopt(first.number))?;
    let reports_cost = options(&parsed) & u64::from(option::STATS) != 0;
    Ok(Session {
        reports_cost,
        first,
        input,
        board,

        key: session,
        bank: bank.number,
        server: server,
        state,
        common,
        words,
        name,
        wire: RefCell::new(wire),
    })
}

/// The pipe or the terminal that the host's input comes through.
fn make_source(windows: &mut Mappings, from: Allocator, terminal: bool) -> Result<Source, linux_abi::errno::Errno> {
    if !terminal {
        return Pipe::create(windows, from).map(Source::Pipe);
    }
    let mut pages = [PageNumber::NONE; first_process::TERMINAL_PAGES];
    from.allocate_many(&mut pages)?;
    let terminal = Terminal::open(windows, &pages, from.key, Screen::Host)?;
    terminal.reset(&Modes::default());
    Ok(Source::Terminal(terminal))
}

/// A page that processes can read.
fn make_board(windows: &mut Mappings, list: PageNumber) -> Result<Mapping, linux_abi::errno::Errno> {
    let from = Allocator { key: KeyIndex::FIRST, list };
    windows.open(alloc::vec![from.allocate()?], KeyIndex::FIRST, true)
}

pub(super) const FIRST_BUDGETS: [(Resource, u64); 3] =
    [(Resource::Page, 512), (Resource::Slice, 1), (Resource::Predicate, 64)];

fn refused<T, E: core::fmt::Debug>(what: &str, outcome: Result<T, E>) -> Outcome<T> {
    outcome.map_err(|error| format!("the session cannot make {what}: {error:?}"))
}

fn options(command: &command::Command<'_>) -> u64 {
    let known = |name: &[u8]| match name {
        b"syscall-summary" => option::SYSCALL_SUMMARY,
        b"missing-files" => option::MISSING_FILES,
        b"trace=syscalls" => option::TRACE_CALLS,
        b"stats" => option::STATS,
        b"crash" => option::CRASH,
        _ => 0,
    };
    let terminal = if command.terminal { option::TERMINAL } else { 0 };
    u64::from(command.options.iter().map(|name| known(name)).fold(terminal, |all, one| all | one))
}

/// What the host says of each disk; see `keeper::Requests::contents`.
fn disks<'a>(command: &command::Command<'a>) -> &'a [u8] {
    command.options.iter().find_map(|option| option.strip_prefix(b"disks=")).unwrap_or_default()
}

/// A list that the own first key owns, and that gives the session these rights.
fn list_for(session: KeyIndex, rights: Rights) -> Result<PageNumber, runtime::Failure> {
    let list = Allocator::own().allocate()?;
    page::become_list(KeyIndex::FIRST, list, KeyIndex::FIRST)?;
    syscall::access_list_set(KeyIndex::FIRST, list, 1, session, u64::from(rights.0))?;
    Ok(list)
}

/// Access lists of what every process may read, of what every process may read and write, and of what user 0 alone may
/// read.
fn make_lists(session: KeyIndex) -> Result<[PageNumber; 3], runtime::Failure> {
    let [readable, of_zero] = [list_for(session, Rights::READ)?, list_for(session, Rights::READ)?];
    Ok([readable, list_for(session, Rights::READ.either(Rights::WRITE))?, of_zero])
}

/// Loads the ExOS image into pages that processes can read, and makes the table that maps it, and what is `shown` to
/// all of them.
fn load_image(session: KeyIndex, list: PageNumber, file: &'static [u8], shown: &[PageNumber]) -> Outcome<Common> {
    let pages = Allocator { key: KeyIndex::FIRST, list };
    let image = Image::load(file, pages).map_err(|error| format!("the ExOS image cannot be loaded: {error}"))?;
    if image.plan.segments.iter().any(|segment| segment.flags & elf::abi::PF_W != 0) {
        return Err("the ExOS image has data that changes: every process would need its own".to_string());
    }
    let words = read_header(&image)?;
    let image_table = refused("the table of the ExOS image", map_image(&image, pages, shown))?;
    core::mem::forget(image);
    let channel = refused("a key", host_channel())?;
    let beginning = StartInfo {
        entry: words[header::ENTRY],
        gate: (LIBRARY_BASE, words[header::END]),
        function: (words[header::FIRST], 0),
        stub_entry: words[header::STUB_ENTRY],
        ..StartInfo::default()
    };
    Ok(Common { session, channel, image: beginning, image_table })
}

/// A key that names the host channel. Where this is not the first environment its creator has put one into its ring.
fn host_channel() -> Result<KeyIndex, runtime::Failure> {
    if let Some(key) = area::channel_key().filter(|key| *key != KeyIndex::FIRST) {
        return Ok(key);
    }
    let device = key::derive(KeyIndex::FIRST, Rights::ALL, DEVICE)?;
    key::derive(device, Rights::ALL, HOST_CHANNEL)
}

/// The words that the image begins with, if it is ExOS for this interface.
fn read_header(image: &Image<'_>) -> Outcome<[u64; header::WORDS]> {
    let first = image.plan.segments.iter().find(|segment| segment.start == LIBRARY_BASE);
    let bytes = first.and_then(|segment| segment.data.get(..header::WORDS * 8));
    let bytes = bytes.ok_or("the ExOS image does not begin where it should")?;
    let mut words = [0; header::WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(core::array::from_fn(|index| bytes[index]));
    }
    if words[header::MAGIC] != exos::hw::header::IMAGE_MAGIC || words[header::VERSION] != abi::VERSION {
        return Err("the ExOS image was built for another interface".to_string());
    }
    Ok(words)
}

/// Maps the image in an address space in which no program runs: all processes link its level-2 table.
fn map_image(image: &Image<'_>, pages: Allocator, shown: &[PageNumber]) -> Result<PageNumber, linux_abi::errno::Errno> {
    let space = AddressSpace::create(pages)?;
    let editor = TableEditor { root: space.root, key: pages.key, tables: pages };
    let table = link_fresh(&editor, LIBRARY_BASE, 3)?;
    image.map_into(&space, pages)?;
    let row = |(page, address): (&PageNumber, u64)| MapRow {
        address: address | pages.key.0,
        entry: page.address() | Access::READ.0,
    };
    let rows: Vec<MapRow> = shown.iter().zip((SHOWN..).step_by(PAGE_SIZE as usize)).map(row).collect();
    map(&space, &rows)?;
    Ok(table)
}

/// What runs in the session's address space.
struct Services {
    server: EnvironmentId,
    state: &'static Lock<Server>,
    public: PageNumber,
    name: KeyIndex,
    wire: Option<Child>,
}

/// The server of the file system and of keys, its state, and the list of the publicly readable pages of processes of
/// user 0.
fn make_server(
    archive: &'static [u8],
    session: KeyIndex,
    lists: [PageNumber; 3],
    board: &'static [AtomicU64],
    reserve: u64,
    disks: &[u8],
) -> Outcome<Services> {
    let mut builder = refused("the server", Builder::sharing())?;
    let name = builder.key;
    let may_all = |list: PageNumber| syscall::access_list_set(KeyIndex::FIRST, list, 2, name, u64::from(Rights::ALL.0));
    let named = [area::access_list()].into_iter().chain(lists).try_for_each(may_all);
    refused("the server's access lists", named)?;
    let [common, _, files] = lists.map(|list| Allocator { key: main_loop::OWN_KEY, list });
    let zero = refused("the lists of user 0", Lists::make([session, session, name]))?;
    let server = Server::new(archive, files, common, Principals::new(lists, zero), board)
        .map_err(|error| format!("the root file system is damaged: {error}"))?;
    let state: &'static Lock<Server> = Box::leak(Box::new(Lock::new(server)));
    builder.function(main_loop::run, core::ptr::from_ref(state) as u64);
    // It draws any further pages: see `hw::page_quota`.
    builder.budget(Resource::Page, reserve);
    let has_disks = disk::find(0).is_some();
    if has_disks {
        builder.budget(Resource::Pin, abi::limits::DEVICE_PINS);
    }
    let child = refused("the server", builder.create())?;
    refused("the server's key", key::grant(session, Rights::ALL, child.number, SESSION_SLOT))?;
    if has_disks {
        refused("the server's key to disks", grant_disks(child.number))?;
    }
    // A slice of its own, so that a call whose client died is finished.
    refused("the server's slice", child.run(0, runtime::time_slice::ANY_POSITION))?;
    if has_disks {
        state.lock().server.keeper.contents = disks.to_vec();
        make_keeper(name, session, state)?;
    }
    let wire = if card::is_there() { Some(make_wire_keeper(name, session, state)?) } else { None };
    Ok(Services { server: child.number, state, public: zero.public, name, wire })
}

/// The keeper of disks, an environment under the server's name in the same address space.
fn make_keeper(name: KeyIndex, session: KeyIndex, state: &'static Lock<Server>) -> Outcome<()> {
    let what = "the keeper of disks";
    let mut builder = refused(what, Builder::sharing())?;
    let derived = core::mem::replace(&mut builder.key, name);
    refused(what, key::discard(derived))?;
    builder.stack(keeper::STACK_PAGES).function(keeper::run, core::ptr::from_ref(state) as u64);
    builder.budget(Resource::Page, KEEPER_PAGES).budget(Resource::Pin, 64);
    let child = refused(what, builder.create())?;
    state.lock().server.keeper.environment = Some(child.number);
    refused(what, key::grant(session, Rights::ALL, child.number, SESSION_SLOT))?;
    refused(what, grant_disks(child.number))?;
    refused(what, child.run(0, runtime::time_slice::ANY_POSITION)).map(|_| ())
}

/// The keeper of the wire, an environment like the one of disks.
pub(super) fn make_wire_keeper(name: KeyIndex, session: KeyIndex, state: &'static Lock<Server>) -> Outcome<Child> {
    let what = "the keeper of the wire";
    let mut builder = refused(what, Builder::sharing())?;
    let derived = core::mem::replace(&mut builder.key, name);
    refused(what, key::discard(derived))?;
    builder.stack(wire::STACK_PAGES).function(wire::run, core::ptr::from_ref(state) as u64);
    builder.budget(Resource::Page, WIRE_PAGES).budget(Resource::Pin, abi::limits::DEVICE_PINS);
    builder.budget(Resource::Filter, 1);
    let mut child = refused(what, builder.create())?;
    // The name is that of the server too: it outlives this child.
    child.key = None;
    state.lock().server.wire.environment = Some(child.number);
    refused(what, key::grant(session, Rights::ALL, child.number, SESSION_SLOT))?;
    refused(what, grant_devices(child.number, kind::NETWORK, card::CARD_KEY))?;
    refused(what, child.run(0, runtime::time_slice::ANY_POSITION)).map(|_| child)
}

/// A key that opens every disk.
fn grant_disks(to: EnvironmentId) -> Result<(), runtime::Failure> {
    grant_devices(to, kind::DISK, disk::DISK_KEY)
}

/// A key that opens every device of a kind.
fn grant_devices(to: EnvironmentId, kind: u64, slot: KeyIndex) -> Result<(), runtime::Failure> {
    let device = key::derive(KeyIndex::FIRST, Rights::ALL, DEVICE)?;
    let all = key::derive(device, Rights::ALL, kind);
    key::discard(device)?;
    let all = all?;
    key::grant(all, Rights::ALL, to, slot)?;
    key::discard(all)
}

/// The environment that holds the unused budget: it never runs. The session keeps a reserve of its own.
fn make_bank(session: KeyIndex, public: PageNumber, reserve: u64) -> Outcome<EnvironmentRef> {
    let maker = refused("the bank", EnvironmentBuilder::begin(session, KeyIndex::FIRST, public, None))?;
    let bank = refused("the bank", maker.begin_with(&StartInfo::default()))?;
    let share = |resource: Resource, kept: u64| (resource, exos::budget::spare(resource).saturating_sub(kept));
    let budgets = [
        (Resource::Page, exos::budget::pages_at_hand().saturating_sub(reserve)),
        share(Resource::Slice, 8),
        share(Resource::Predicate, 64),
        share(Resource::Environment, 8),
    ];
    refused("the bank's budget", bank.endow_from(KeyIndex::FIRST, area::number(), &budgets))?;
    Ok(bank)
}

fn make_first(common: &Common, public: PageNumber, record: &[u8]) -> Result<EnvironmentRef, linux_abi::errno::Errno> {
    let mut maker = EnvironmentBuilder::begin(common.session, KeyIndex::FIRST, public, Some(common.channel))?;
    maker.link_image(common.image_table)?;
    maker.place(linux_abi::address_map::BIRTH, record, Access::READ)?;
    maker.begin_with(&common.image)
}
