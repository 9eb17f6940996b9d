//! Pages in every state offered to the calls that take a page (FAULTS 151): each pair has its documented answer, and
//! what was given up is made nothing of.
#![no_std]
#![no_main]

extern crate alloc;

use abi::environment::Specification;
use abi::limits::{PAGE_SIZE, PRIVATE_PAGES};
use abi::page_table::MapRow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use runtime::address_space::{self, Access, AddressSpace};
use runtime::page::{self, Allocator, PageKind};
use runtime::region::{self, Place};
use runtime::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, UserAddress, area, exposed, syscall};
use test_programs::child;
use test_programs::{Outcome, World, check, granted, guest, refused};

guest! {
    Here fault_151_orphans_become_no_area;
    Here fault_151_each_state_has_its_answer_from_each_call;
}

const KEY: KeyIndex = KeyIndex::FIRST;
/// Where the area of an environment that never runs lies.
const AREA: u64 = 0x1000_0000;
/// Rounds of a whole area: more pages than the first environment has, so that a count that loses them goes below
/// zero.
const ROUNDS: usize = 64;
/// The public page and the private ones.
const AREA_PAGES: usize = 1 + PRIVATE_PAGES;

fn create(
    control: PageNumber,
    key_ring: PageNumber,
    area: &[PageNumber],
    space: AddressSpace,
) -> Result<EnvironmentId, Failure> {
    let mut private = [0; PRIVATE_PAGES];
    for (place, page) in private.iter_mut().zip(&area[1..]) {
        *place = page.0;
    }
    let specification = Specification {
        name_key: KEY.0,
        control: control.0,
        key_ring: key_ring.0,
        public: area[0].0,
        root: space.root.0,
        area: AREA,
        private_count: area.len() as u64 - 1,
        private,
        ..Specification::default()
    };
    // SAFETY: the kernel reads the specification; nothing of this program lies in its pages.
    unsafe { syscall::environment_create(KEY, UserAddress(&raw const specification as u64)) }
}

fn orphans() -> u64 {
    exposed::kernel().orphan_pages.load(SeqCst)
}

/// Pages mapped at their place and given up are no part of an environment, one by one or all together. Unmapped, they
/// are free.
fn fault_151_orphans_become_no_area(world: &World) -> Outcome {
    let own = Allocator::own();
    let (control, key_ring) = (granted!(own.allocate()), granted!(own.allocate()));
    let space = granted!(AddressSpace::create(own));
    let before = orphans();
    for round in 0..ROUNDS {
        let mut area = [PageNumber::NONE; AREA_PAGES];
        granted!(own.allocate_many(&mut area));
        // SAFETY: it is not the own address space.
        granted!(unsafe { space.map(AREA, &area, Access::WRITE) });
        // One page of the area, or all of them.
        let given_up: Vec<PageNumber> = match round {
            0 => area.to_vec(),
            _ => area[round % AREA_PAGES..=round % AREA_PAGES].to_vec(),
        };
        for page in &given_up {
            granted!(syscall::page_free(KEY, *page));
        }
        check!(orphans() == before + given_up.len() as u64, "{} orphans, {before} before", orphans());
        refused!(create(control, key_ring, &area, space), WrongKind);
        let rows: Vec<MapRow> =
            (0..AREA_PAGES as u64).map(|page| MapRow { address: AREA + page * PAGE_SIZE, entry: 0 }).collect();
        granted!(space.apply(&rows));
        check!(orphans() == before, "{} orphans when nothing is mapped, {before} before", orphans());
        for page in area {
            let kind = exposed::page(page).map(|info| info.kind());
            let expected = if given_up.contains(&page) { PageKind::Free } else { PageKind::Ordinary };
            check!(kind == Some(expected), "page {} of round {round} is {kind:?}", page.0);
            if expected == PageKind::Ordinary {
                granted!(syscall::page_free(KEY, page));
            }
        }
        world.pages_add_up()?;
    }
    granted!(own.free(control));
    granted!(own.free(key_ring));
    granted!(own.free(space.root));
    Ok(())
}

/// Where pages are mapped.
const PLACE: u64 = 0x340_0000_0000;
/// Where a table is linked: the table above it is there.
const TABLE_PLACE: u64 = PLACE + (2 << 20);

/// A state of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Kernel,
    Free,
    Ordinary,
    Mapped,
    Orphan,
    List,
    Root,
    Table,
    Regions,
    Control,
    KeyRing,
    Public,
    Private,
}

/// Each state with the answers of [`CALLS`], in their order: `.` granted, else the letter of [`letter`].
///
/// Tables are read through a mapping, never written. A public page is written by the holders of keys to its list. A
/// private page is mapped by its own environment only. A linked table that is given up stays until its last link ends.
const ANSWERS: [(State, &str); 14] = [
    (State::Absent, "NNNNNNNNANNNNNNNN"),
    (State::Kernel, "PPPPPPPPAKFPPKPKP"),
    (State::Free, "PPPPPPPPAK.PPKPKP"),
    (State::Ordinary, "........AKFK.KKK."),
    (State::Mapped, ".....UUUAKFKUKKK."),
    (State::Orphan, "K....KKKAKFKKKKK."),
    (State::List, ".K.KKKKKA.FKK.KKK"),
    (State::Root, "....KKKKAKF.KKKKK"),
    (State::Table, "....KKKKAKFKFKKKK"),
    (State::Regions, ".K.KKKKKAKFKKK..K"),
    (State::Control, "KK.KKKKKAKFKKKKKK"),
    (State::KeyRing, "KK.KKKKKAKFKKKKKK"),
    (State::Public, "KK...KKKAKFKKKKKK"),
    (State::Private, "KK.PPKKKAKFKKKKKK"),
];

fn letter(told: Result<(), Failure>) -> char {
    match told.map_err(|failure| failure.error) {
        Ok(()) => '.',
        Err(Error::NotPermitted) => 'P',
        Err(Error::WrongKind) => 'K',
        Err(Error::InUse) => 'U',
        Err(Error::NoSuchPage) => 'N',
        Err(Error::NotFree) => 'F',
        Err(Error::Absent) => 'A',
        Err(Error::Again) => 'G',
        Err(_) => '?',
    }
}

/// Calls that take a page, each with the page in its place.
const CALLS: [fn(PageNumber) -> Result<(), Failure>; 17] = [
    |page| syscall::page_free(KEY, page),
    |page| syscall::page_claim(KEY, page, KEY, area::access_list()),
    // SAFETY: nothing of the program lies in a page that these calls name, nor at the places of this test.
    |page| unsafe { syscall::page_unbind(KEY, page, area::root(), UserAddress(LAST)) },
    |page| map(page.address() | Access::READ.0),
    |page| map(page.address() | Access::WRITE.0),
    |page| page::become_list(KEY, page, KEY),
    |page| page::become_root(KEY, page),
    |page| page::become_regions(KEY, page),
    // SAFETY: the machine has no network.
    |page| unsafe { syscall::page_become(KEY, page, PageKind::PacketRing as u64, PLACE) },
    |page| page::allocate_one(KEY, page, PageNumber::NONE).and_then(|fresh| syscall::page_free(KEY, fresh)),
    |page| page::allocate_one(KEY, area::access_list(), page).map(drop),
    // SAFETY: an edit without rows changes nothing.
    |page| unsafe { syscall::page_map(KEY, page, UserAddress(PLACE), 0) }.map(drop),
    |page| link(page),
    |page| syscall::access_list_set(KEY, page, 5, KEY, 0),
    |page| syscall::region_name(KEY, page, 0, KEY, 7),
    |page| region::read(KEY, Place { page, region: 0, offset: 0 }, &mut []),
    create_of_parts,
];

/// A dead environment that was made before the page came into its state, so that it has no part in that.
static PARTS: AtomicU64 = AtomicU64::new(0);

/// Makes an environment of those parts, whose first private page begins with the contents of a page.
fn create_of_parts(first: PageNumber) -> Result<(), Failure> {
    let next = child::renew(EnvironmentId(PARTS.load(SeqCst)), first, true)?;
    PARTS.store(next.0, SeqCst);
    Ok(())
}

/// The last 2 MiB that a program may map: nothing lies there.
const LAST: u64 = abi::memory_map::USER_END & !0x1f_ffff;

fn map(entry: u64) -> Result<(), Failure> {
    let row = MapRow { address: (PLACE + PAGE_SIZE) | KEY.0, entry };
    // SAFETY: nothing of the program lies at this place.
    unsafe { syscall::page_map(KEY, area::root(), UserAddress(&raw const row as u64), 1) }.map(drop)
}

fn link(table: PageNumber) -> Result<(), Failure> {
    // SAFETY: nothing of the program lies at this place.
    unsafe { syscall::page_table_link(KEY, area::root(), UserAddress(TABLE_PLACE), 1, table, KEY) }
}

fn unlink(address: u64) {
    // SAFETY: nothing of the program lies at this place.
    let told = || unsafe { syscall::page_table_unlink(KEY, area::root(), UserAddress(address), 1) };
    while told().is_err_and(|failure| failure.error == Error::Again) {}
}

/// A page in a state, and what else was made for it.
struct Made {
    page: PageNumber,
    environment: Option<EnvironmentId>,
    others: Vec<PageNumber>,
}

impl Made {
    fn new(state: State) -> Result<Self, Failure> {
        let own = Allocator::own();
        let alone = |page| Self { page, environment: None, others: Vec::new() };
        let pages = exposed::kernel().pages.load(SeqCst);
        match state {
            State::Absent => return Ok(alone(PageNumber(pages))),
            State::Kernel => {
                let is_kernels =
                    |page: &PageNumber| exposed::page(*page).is_some_and(|it| it.kind() == PageKind::Kernel);
                return Ok(alone((0..pages).map(PageNumber).find(is_kernels).unwrap_or(PageNumber::NONE)));
            }
            State::Control | State::KeyRing | State::Public | State::Private => return Self::area(state),
            _ => {}
        }
        let page = own.allocate()?;
        match state {
            State::Free => syscall::page_free(KEY, page)?,
            State::Mapped => address_space::own().apply(&[at_place(page)])?,
            State::Orphan => {
                address_space::own().apply(&[at_place(page)])?;
                syscall::page_free(KEY, page)?;
            }
            State::List => page::become_list(KEY, page, KEY)?,
            State::Root => page::become_root(KEY, page)?,
            State::Table => link(page)?,
            State::Regions => {
                page::become_regions(KEY, page)?;
                syscall::region_name(KEY, page, 0, KEY, 7)?;
            }
            _ => {}
        }
        Ok(alone(page))
    }

    /// A page of an environment that never runs.
    fn area(state: State) -> Result<Self, Failure> {
        let own = Allocator::own();
        let mut pages = [PageNumber::NONE; 2 + AREA_PAGES];
        own.allocate_many(&mut pages)?;
        let space = AddressSpace::create(own)?;
        let environment = Some(create(pages[0], pages[1], &pages[2..], space)?);
        let index = [State::Control, State::KeyRing, State::Public, State::Private].iter().position(|it| *it == state);
        let others = pages.into_iter().chain([space.root]).collect();
        Ok(Self { page: pages[index.unwrap_or(0)], environment, others })
    }

    /// Ends everything that the state and a call have made.
    fn end(self) {
        let _ = map(0);
        let _ = address_space::own().apply(&[MapRow { address: PLACE | KEY.0, entry: 0 }]);
        unlink(TABLE_PLACE);
        if let Some(environment) = self.environment {
            while syscall::environment_destroy(KEY, environment).is_err_and(|failure| failure.error == Error::Again) {}
        }
        for page in self.others.into_iter().chain([self.page]) {
            while syscall::page_free(KEY, page).is_err_and(|failure| failure.error == Error::Again) {}
        }
    }
}

fn at_place(page: PageNumber) -> MapRow {
    MapRow { address: PLACE | KEY.0, entry: page.address() | Access::READ.0 }
}

/// What a refused call must not change: the words of the record of a page.
fn record_of(page: PageNumber) -> Option<[u64; 4]> {
    let info = exposed::page(page)?;
    Some([&info.state, &info.owner, &info.access, &info.holds].map(|word| word.load(SeqCst)))
}

/// The whole table: every pair gives its documented answer. A refusal leaves the record of the page as it was, and no
/// count is wrong afterwards.
fn fault_151_each_state_has_its_answer_from_each_call(world: &World) -> Outcome {
    granted!(address_space::own().link_tables(PLACE, false));
    let mut wrong = Vec::new();
    for (state, answers) in ANSWERS {
        let mut given = String::new();
        for (index, call) in CALLS.iter().enumerate() {
            let mut parts = granted!(Made::area(State::Control));
            let old = parts.environment.unwrap_or(EnvironmentId::NONE);
            PARTS.store(old.0, SeqCst);
            refused!(syscall::environment_destroy(KEY, old), Again);
            if index + 1 == CALLS.len() {
                let root = parts.others.last().copied().unwrap_or(PageNumber::NONE);
                let space = AddressSpace { root, key: KEY, tables: Allocator::own() };
                granted!(space.link_tables(AREA, false));
            }
            let made = granted!(Made::new(state));
            let before = record_of(made.page);
            let told = call(made.page);
            given.push(letter(told));
            let is_same = record_of(made.page) == before;
            check!(told.is_ok() || is_same, "call {index} was refused for {state:?} and changed its record: {told:?}");
            made.end();
            parts.environment = Some(EnvironmentId(PARTS.load(SeqCst)));
            parts.end();
        }
        world.pages_add_up()?;
        if given != answers {
            wrong.push(format!("{state:?}: {given} in place of {answers}"));
        }
    }
    check!(wrong.is_empty(), "{wrong:?}");
    Ok(())
}
