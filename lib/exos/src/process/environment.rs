//! Making the environment of a process: by the session for the first one, by fork for all others.
//!
//! Keys of a process: slot 0 the well-known name, slot 1 its own name (all rights), slot 2 the host channel (to write
//! only). Slot 3 is the session's name, with all rights: processes of one session can do to each other what processes
//! of one user can do on Unix. Slot 4 is that of its origin where a program set it apart from its user. The process's
//! access list begins with the session's name, then its own.

use super::current;
use super::exit::reclaim::{self, DeadAccessList, still_present};
use crate::hw::current::word;
use crate::hw::page_tables::{TableEditor, link_common};
use crate::hw::{env_create, header};
use crate::wait::cpu_placement;
use abi::area::PrivateWords;
use abi::budget::{Figure, Resource};
use abi::capability::Rights;
use abi::environment::DeathReason;
use abi::memory_map::LIBRARY_BASE;
use abi::page_table::MapRow;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use linux_abi::address_map::{AREA_PRIVATE_PAGES, PAGE_SIZE};
use linux_abi::errno::Result;
use runtime::address_space::{Access, AddressSpace};
use runtime::area::{self, LIBRARY, LibraryWords};
use runtime::environment::CHANNEL_SLOT;
use runtime::layout::UPCALL_GUARD;
use runtime::page::{self, Allocator};
use runtime::window::Window;
use runtime::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, exposed, image, key, layout, syscall, time_slice};

pub use crate::hw::key_slots::{BORROWED_SLOT, SESSION_SLOT};

/// Where a new environment's stack begins below the end of its upcall stack: above it lies what it will resume.
pub const ROOM_ABOVE: u64 = 1024;

/// What a new environment begins with, beyond its address space.
#[derive(Clone, Copy, Debug, Default)]
pub struct StartInfo {
    /// Entry of the ExOS image.
    pub entry: u64,
    /// Code that may make kernel calls.
    pub gate: (u64, u64),
    /// Function of the image to begin with, and its argument.
    pub function: (u64, u64),
    /// Address of the heap; 0 where it has none yet.
    pub heap: u64,
    /// Words that lead to the records of its process and thread; zeros where it has none yet.
    pub records: current::Words,
    /// Address that stubs of rewritten calls jump to.
    pub stub_entry: u64,
    /// Whether it has a key in [`BORROWED_SLOT`].
    pub borrows: bool,
}

impl StartInfo {
    /// That of an environment that runs this image; function, heap and process are the caller's to fill in.
    pub fn of_image() -> Self {
        Self {
            entry: runtime::entry::_start as *const () as u64,
            gate: image::own_range(),
            stub_entry: header::stub_entry(),
            ..Self::default()
        }
    }
}

/// An environment in the making.
#[derive(Debug)]
pub struct EnvironmentBuilder {
    /// Key of the session, in the own ring.
    pub session: KeyIndex,
    /// Key that opens the own address space and all that is made here: in a process the session's, in the session the
    /// root's.
    pub power: KeyIndex,
    /// Key of the new environment, in the own ring.
    pub key: KeyIndex,
    /// Its access list and the key to it.
    pub pages: Allocator,
    /// Its address space.
    pub space: AddressSpace,
    /// Key of the host channel, in the own ring; none: the environment stays silent.
    pub channel: Option<KeyIndex>,
    fixed: [PageNumber; 3],
    private: Vec<PageNumber>,
    /// What its address space gets in addition to the program.
    rows: Vec<MapRow>,
}

/// An environment that was made, for its maker to keep.
#[derive(Clone, Debug)]
pub struct EnvironmentRef {
    /// Its number.
    pub number: EnvironmentId,
    /// Its public page.
    pub public: PageNumber,
    /// Its access list.
    pub list: PageNumber,
}

impl EnvironmentBuilder {
    /// An empty address space and the pages of an environment, all charged to the running one.
    /// Its public page is under the list that `public` says.
    pub fn begin(session: KeyIndex, power: KeyIndex, public: PageNumber, channel: Option<KeyIndex>) -> Result<Self> {
        crate::budget::reserve(FOR_A_PROCESS);
        let key = key::derive(session, Rights::ALL, 0)?;
        Self::with_key([session, power, key], public, channel).inspect_err(|_| {
            let _ = key::discard(key);
        })
    }

    fn with_key([session, power, key]: [KeyIndex; 3], public: PageNumber, channel: Option<KeyIndex>) -> Result<Self> {
        let own = Allocator::own();
        let list = own.allocate()?;
        page::become_list(KeyIndex::FIRST, list, session).inspect_err(|_| {
            let _ = own.free(list);
        })?;
        let pages = Allocator { key: power, list };
        let made = Self::of_pages([session, power, key], pages, public, channel);
        made.inspect_err(|_| free_all(pages))
    }

    fn of_pages(
        [session, power, key]: [KeyIndex; 3],
        pages: Allocator,
        public: PageNumber,
        channel: Option<KeyIndex>,
    ) -> Result<Self> {
        syscall::access_list_set(power, pages.list, 1, key, u64::from(Rights::ALL.0))?;
        let space = AddressSpace::create(pages)?;
        let mut fixed = [PageNumber::NONE; 3];
        let mut private = vec![PageNumber::NONE; AREA_PRIVATE_PAGES];
        pages.allocate_many(&mut fixed[..2])?;
        pages.allocate_many(&mut private)?;
        fixed[2] = Allocator { key: power, list: public }.allocate()?;
        let rows = Vec::with_capacity(ROWS);
        Ok(Self { session, power, key, pages, space, channel, fixed, private, rows })
    }

    /// How its tables are edited.
    pub fn editor(&self) -> TableEditor {
        TableEditor { root: self.space.root, key: self.power, tables: self.pages }
    }

    /// Links the table that maps the library's top-level slot: the ExOS image, and nothing else.
    pub fn link_image(&self, table: PageNumber) -> Result<()> {
        link_common(&self.editor(), LIBRARY_BASE, 3, table)
    }

    /// Maps pages into its address space, when it is created.
    fn map(&mut self, address: u64, pages: &[PageNumber], access: Access) {
        self.rows.extend(rows(self.power, address, pages, access));
    }

    /// Puts bytes at an address of its address space, in fresh pages.
    pub fn place(&mut self, address: u64, bytes: &[u8], access: Access) -> Result<()> {
        let mut pages = vec![PageNumber::NONE; bytes.len().div_ceil(PAGE_SIZE as usize)];
        self.pages.allocate_many(&mut pages)?;
        for (pages, bytes) in pages.chunks(WINDOW).zip(bytes.chunks(WINDOW * PAGE_SIZE as usize)) {
            Window::open(pages, self.power, Access::WRITE)?.write(0, bytes);
        }
        self.map(address, &pages, access);
        Ok(())
    }

    /// The private pages of its area: the words that it begins with go into the first.
    pub fn private(&self) -> &[PageNumber] {
        &self.private
    }

    /// Writes what it begins with, and creates the environment.
    pub fn begin_with(self, beginning: &StartInfo) -> Result<EnvironmentRef> {
        let (key, power, pages, public) = (self.key, self.power, self.pages, self.fixed[2]);
        let outcome = self.write_and_create(beginning);
        let _ = key::discard(key);
        outcome.inspect_err(|_| {
            PublicPage::of(public).free(power);
            free_all(pages);
        })
    }

    fn write_and_create(mut self, beginning: &StartInfo) -> Result<EnvironmentRef> {
        write_words(self.private[0], self.power, &area_words(beginning, layout::AREA, self.channel.is_some()))?;
        let area_pages: Vec<PageNumber> = [&self.fixed[2..], &self.private].concat();
        for (address, pages) in parts_of_area(layout::AREA, &area_pages) {
            self.map(address, pages, Access::WRITE);
        }
        self.rows.sort_unstable_by_key(|row| row.address);
        env_create::map(&AddressSpace { key: self.power, ..self.space }, &self.rows)?;
        let private: Vec<u64> = self.private.iter().map(|page| page.0).collect();
        let [control, key_ring, public] = self.fixed;
        let root = self.space.root;
        let number =
            env_create::create(self.power, self.key, [control, key_ring, public, root], layout::AREA, &private)?;
        let made = EnvironmentRef { number, public, list: self.pages.list };
        let given = give_keys(number, self.session, self.power, self.channel);
        given.inspect_err(|_| release(number, self.power))?;
        Ok(made)
    }
}

/// Which private page is the guard, which is not mapped.
pub const GUARD: usize = ((UPCALL_GUARD - abi::area::PRIVATE) / PAGE_SIZE) as usize;

/// Where the pages of an area at `place` are mapped: all but the lowest one of the upcall stack ([`UPCALL_GUARD`]).
pub fn parts_of_area(place: u64, pages: &[PageNumber]) -> [(u64, &[PageNumber]); 2] {
    [(place, &pages[..=GUARD]), (place + UPCALL_GUARD + PAGE_SIZE, &pages[GUARD + 2..])]
}

/// Rows that map pages one after the other.
pub fn rows(key: KeyIndex, address: u64, pages: &[PageNumber], access: Access) -> impl Iterator<Item = MapRow> {
    let row = move |(index, page): (usize, &PageNumber)| MapRow {
        address: address + index as u64 * PAGE_SIZE | key.0,
        entry: page.address() | access.0,
    };
    pages.iter().enumerate().map(row)
}

/// Gives a new environment its keys beyond its own: those of the session and of the host channel. `power` opens it.
pub fn give_keys(number: EnvironmentId, session: KeyIndex, power: KeyIndex, channel: Option<KeyIndex>) -> Result<()> {
    syscall::key_copy(session, u64::from(Rights::ALL.0), number, SESSION_SLOT, power)?;
    if let Some(channel) = channel {
        syscall::key_copy(channel, u64::from(Rights::WRITE.0), number, CHANNEL_SLOT, power)?;
    }
    Ok(())
}

/// Words of a new area that do not lead to records.
const FIRST_WORDS: usize = 12;
/// Words of a new area.
const AREA_WORDS: usize = FIRST_WORDS + current::WORDS;

/// Words of the first private page of a new environment whose area lies at `place`: their offsets and values.
pub fn area_words(beginning: &StartInfo, place: u64, channel: bool) -> [(usize, u64); AREA_WORDS] {
    let upcall_stack_end = place + (1 + AREA_PRIVATE_PAGES as u64) * PAGE_SIZE;
    let keys = 0b1011 | u64::from(channel) << CHANNEL_SLOT.0 | u64::from(beginning.borrows) << BORROWED_SLOT.0;
    let library = |offset: usize| LIBRARY as usize + offset;
    let free = |index: usize| LIBRARY as usize + offset_of!(LibraryWords, free) + index * 8;
    let first = [
        (offset_of!(PrivateWords, slice_start_entry), beginning.entry),
        (offset_of!(PrivateWords, critical_section), 1),
        (offset_of!(PrivateWords, gate_start), beginning.gate.0),
        (offset_of!(PrivateWords, gate_end), beginning.gate.1),
        (offset_of!(PrivateWords, events_accepted), crate::signal::EVENT_SIGNAL),
        (library(offset_of!(LibraryWords, keys)), keys),
        (library(offset_of!(LibraryWords, channel_key)), if channel { CHANNEL_SLOT.0 + 1 } else { 0 }),
        (library(offset_of!(LibraryWords, heap)), beginning.heap),
        (library(offset_of!(LibraryWords, start_stack)), upcall_stack_end - ROOM_ABOVE),
        (library(offset_of!(LibraryWords, start_function)), beginning.function.0),
        (library(offset_of!(LibraryWords, start_argument)), beginning.function.1),
        (free(word::STUB_ENTRY), beginning.stub_entry),
    ];
    let mut all = [(0, 0); AREA_WORDS];
    let (to, records) = all.split_at_mut(FIRST_WORDS);
    to.copy_from_slice(&first);
    records.copy_from_slice(&beginning.records.map(|(index, value)| (free(index), value)));
    all
}

/// Writes words of a page.
pub fn write_words(page: PageNumber, key: KeyIndex, words: &[(usize, u64)]) -> Result<()> {
    let window = Window::open(&[page], key, Access::WRITE)?;
    for (offset, value) in words {
        window.words()[offset / 8].store(*value, Relaxed);
    }
    Ok(())
}

/// Pages of an environment area: the public one and the private ones.
pub const AREA_PAGES: usize = 1 + AREA_PRIVATE_PAGES;
/// Pages of a small process besides those of its program.
const ROWS: usize = 64;
const WINDOW: usize = runtime::window::WINDOW_PAGES;
/// Pages that making a process takes at most, program memory not counted.
const FOR_A_PROCESS: u64 = 96;

/// Whether the session destroyed an environment that is over, by the kernel's record. Its own words may say otherwise:
/// others see its end before the session has written the status.
pub fn was_killed_by_session(number: EnvironmentId) -> bool {
    let is_by_session = |info: exposed::Environment| {
        let (reason, by) = (info.death_reason.load(Acquire), info.death_by.load(Acquire));
        !info.alive() && reason == DeathReason::Destroyed as u64 && by == runtime::entry::FIRST.0
    };
    exposed::environment(number).is_some_and(is_by_session)
}

impl EnvironmentRef {
    /// Moves a part of the bank's budget to it.
    pub fn endow(&self, budgets: &[(Resource, u64)]) -> Result<()> {
        for (resource, amount) in budgets {
            crate::budget::grant(self.number, *resource, *amount)?;
        }
        Ok(())
    }

    /// Moves a part of a giver's budget to it.
    pub fn endow_from(&self, key: KeyIndex, giver: EnvironmentId, budgets: &[(Resource, u64)]) -> Result<()> {
        for (resource, amount) in budgets {
            syscall::budget_move(key, giver, self.number, *resource as u64, Figure::Limit as u64, *amount)?;
        }
        Ok(())
    }

    /// Gives it a slice on the CPU that has the least to do, of those that its maker may run on; it runs from then on.
    /// Where all slices of that CPU are allocated, the next CPU serves.
    pub fn run(&self, session: KeyIndex) -> Result<()> {
        let is_only = exposed::kernel().cpus.load(Relaxed) == 1;
        let mut cpus = if is_only { 1 } else { cpu_placement::own() & cpu_placement::machine() };
        loop {
            let cpu = if is_only { 0 } else { cpu_placement::least_busy(cpus) };
            cpus &= !(1 << cpu);
            match time_slice::allocate(session, self.number, cpu, time_slice::ANY_POSITION) {
                Err(_) if cpus != 0 => {}
                outcome => break outcome.map(|_| ())?,
            }
        }
        crate::wait::kick_idle();
        Ok(())
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        !exposed::lives(self.number)
    }

    /// Releases all that it held, and takes back the pages that it was made of: those under its access list, which are
    /// charged to the thread that made it.
    pub fn bury(&self, session: KeyIndex) {
        if !still_present(self) {
            // It said that it had no parent, and the session has buried it.
            return;
        }
        let maker = exposed::environment(self.number).map_or(area::number().0, |info| info.creator.load(Relaxed));
        let is_own = maker == area::number().0;
        // A thread may end, and with it go the pages that are charged to it, while they are listed.
        let grave = if is_own { None } else { dig(self, session) };
        let public = PublicPage::of(self.public);
        release_threads(self.number, session);
        release(self.number, session);
        public.free(session);
        let pages = |key: KeyIndex| Allocator { key, list: self.list };
        if is_own {
            free_all(pages(session));
        } else if let Some(grave) = grave {
            reclaim::close(&[grave], session, |key| free_pages(EnvironmentId(maker), pages(key)));
        }
    }
}

fn dig(made: &EnvironmentRef, session: KeyIndex) -> Option<DeadAccessList> {
    crate::budget::reserve(1);
    DeadAccessList::pin(made, session)
}

/// Frees all pages under a list that are charged to the running environment, which made them, and the list.
pub(super) fn free_all(pages: Allocator) {
    // One that was given up already, with the thread that made it, goes with what is under it.
    let keeps_list = exposed::page(pages.list).is_some_and(|info| !info.is_orphan());
    free_pages(area::number(), pages);
    if keeps_list {
        let _ = pages.free(pages.list);
    }
}

/// Frees all pages under a list that are charged to who made them, but for the list.
fn free_pages(maker: EnvironmentId, pages: Allocator) {
    pages.free_many(&under_list(maker, pages.list));
}

/// The pages under a list, but for the list, that are charged to who made them.
pub(super) fn under_list(maker: EnvironmentId, list: PageNumber) -> Vec<PageNumber> {
    // What was given up already is freed with its last use.
    let is_one = |page, info: exposed::Page| page != list && info.access() == list && !info.is_orphan();
    // What was charged last comes first: the walk ends long before the maker's own pages do.
    let count = exposed::page(list).map_or(0, |info| info.links()) as usize;
    exposed::environment(maker).map_or(Vec::new(), |maker| maker.charged(count, is_one))
}

/// The public page of an environment that is about to be destroyed: under a list that it shares with others.
#[derive(Clone, Copy, Debug)]
pub struct PublicPage(Option<PageNumber>);

impl PublicPage {
    /// Ask before the environment is gone: a page that was freed may belong to another process the moment after.
    pub fn of(page: PageNumber) -> Self {
        Self(exposed::page(page).filter(|info| !info.is_orphan()).map(|_| page))
    }

    /// Gives it up, once the environment is gone.
    pub fn free(self, key: KeyIndex) {
        if let Some(page) = self.0 {
            let _ = Allocator { key, list: PageNumber::NONE }.free(page);
        }
    }
}

/// Releases the threads of a process that others have ended. As long as one is there, what it was made of is in use,
/// and would pass to the heir of the process.
fn release_threads(first: EnvironmentId, key: KeyIndex) {
    let Some(info) = exposed::environment(first).filter(|info| !info.alive()) else { return };
    let (by, root) = (info.death_by.load(Acquire), info.root.load(Acquire));
    if info.death_reason.load(Acquire) == DeathReason::Destroyed as u64 && by == first.0 {
        return;
    }
    let slots = 0..exposed::kernel().environments.load(Acquire);
    let is_thread = |info: &exposed::Environment| info.remains() && info.root.load(Acquire) == root;
    let numbers = slots.filter_map(exposed::environment_slot).filter(is_thread).map(|info| info.number.load(Acquire));
    numbers.filter(|number| *number != first.0).for_each(|number| release(EnvironmentId(number), key));
}

/// Destroys an environment, in as many steps as it takes.
pub fn release(number: EnvironmentId, key: KeyIndex) {
    // What is not there needs no end.
    let _ = release_until(number, key, || false);
}

/// Releases all that an environment held but its slot, its public page and its root. It is still found by its number.
pub(super) fn make_zombie(number: EnvironmentId, key: KeyIndex) -> Result<()> {
    release_until(number, key, || exposed::environment(number).is_some_and(|info| info.is_zombie()))
}

fn release_until(number: EnvironmentId, key: KeyIndex, is_enough: impl Fn() -> bool) -> Result<()> {
    while !is_enough() {
        match syscall::environment_destroy(key, number) {
            Err(Failure { error: Error::Again, .. }) => {}
            outcome => return Ok(outcome?),
        }
    }
    Ok(())
}
