//! Reservations against each state of a hog (FAULTS 152): an honest environment gets its pages whatever the hog does
//! with its own. A request of a creator stands whatever the hog, its sibling and its child ask.
//!
//! The test itself holds nearly all of the machine, so that a hog takes what is left in a short time.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::Resource;
use abi::capability::Rights;
use abi::environment::Specification;
use abi::limits::{PAGE_SIZE, PRIVATE_PAGES_LEAST};
use abi::upcall::kind;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use runtime::address_space::{self, Access, AddressSpace};
use runtime::area::Area;
use runtime::environment::{Builder, Child};
use runtime::page::{self, Allocator};
use runtime::upcall::{Context, set_handler};
use runtime::{
    EnvironmentId, Failure, KeyIndex, PageNumber, UserAddress, area, clock, entry, exposed, predicate, syscall,
    time_slice,
};
use test_programs::child::{eventually, launch, prepare, status};
use test_programs::{Outcome, World, check, granted, guest};

guest! {
    Here fault_152_a_reservation_is_met_in_each_state;
    Here fault_152_no_relative_overwrites_a_request;
}

/// Status words of the children: done, pages held, requests seen, and what succeeded besides.
const DONE: usize = 0;
const HELD: usize = 1;
const REQUESTS: usize = 2;
const MADE: usize = 3;
/// Pages that a hog finds, and that the honest environment wants.
const LEFT: u64 = 1_200;
const WANTED: u64 = 200;
/// Its reservation: its program takes pages, too.
const RESERVED: u64 = 900;
/// Slots of a relative for the key with its own name, and of the hog's child for the key with the hog's.
const OWN: KeyIndex = KeyIndex(31);
const OF_HOG: KeyIndex = KeyIndex(32);
/// Pages of a child that count as one thing made.
const PART: u64 = 100;
/// An address that is used in no program.
const ELSEWHERE: u64 = 0x200_0000_0000;
/// How long an environment counts as short of pages, in nanoseconds (`kernel/exokernel/src/revocation.rs`).
const SHORT: u64 = 10_000_000;

/// What a hog does with its pages, and whether its state must have shown.
type State = (&'static str, extern "C" fn(u64), bool);
const STATES: [State; 9] = [
    ("keeps them, and ignores every request", keep, false),
    ("maps them", map_here, true),
    ("binds them in another address space", map_elsewhere, true),
    ("gives them up while another address space has them", share, true),
    ("makes objects of them", make_objects, true),
    ("has a child that holds them", hide_in_child, true),
    ("creates environments while it is asked", fork_while_asked, true),
    ("dies while it is asked", die_while_asked, false),
    ("asks itself for nothing", overwrite, true),
];

extern "C" fn ignore(context: &mut Context) {
    if context.frame.kind == kind::REVOCATION {
        Area::current().status(REQUESTS).fetch_add(1, SeqCst);
    }
}

fn made(what: bool) {
    Area::current().status(MADE).fetch_add(u64::from(what), SeqCst);
}

/// Takes pages until it is refused, does something with each, and lives on.
fn take(handler: extern "C" fn(&mut Context), mut action: impl FnMut(PageNumber, u64)) -> ! {
    for upcall in [kind::REVOCATION, kind::REPOSSESSION, kind::EMERGENCY] {
        set_handler(upcall, handler);
    }
    for held in 1.. {
        let Ok(page) = Allocator::own().allocate() else { break };
        action(page, held);
        Area::current().status(HELD).store(held, SeqCst);
    }
    Area::current().status(DONE).store(1, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

extern "C" fn keep(_: u64) {
    take(ignore, |_, _| {});
}

/// Maps one page in an address space; whether that was granted.
fn map(space: &AddressSpace, page: PageNumber, index: u64) -> bool {
    // SAFETY: no object of the program lies there.
    unsafe { space.map(ELSEWHERE + index * PAGE_SIZE, &[page], Access::WRITE) }.is_ok()
}

extern "C" fn map_here(_: u64) {
    let space = address_space::own();
    take(ignore, |page, index| made(map(&space, page, index)));
}

extern "C" fn map_elsewhere(_: u64) {
    let Ok(space) = AddressSpace::create(Allocator::own()) else { return };
    take(ignore, |page, index| made(map(&space, page, index)));
}

extern "C" fn share(_: u64) {
    let Ok(space) = AddressSpace::create(Allocator::own()) else { return };
    take(ignore, |page, index| made(map(&space, page, index) && Allocator::own().free(page).is_ok()));
}

extern "C" fn make_objects(_: u64) {
    let own = Allocator::own();
    take(ignore, |page, index| {
        let outcome = match index % 3 {
            0 => page::become_regions(own.key, page),
            1 => page::become_list(own.key, page, KeyIndex::FIRST),
            _ => page::become_root(own.key, page),
        };
        made(outcome.is_ok());
    });
}

/// A child in the same address space, with so much of the own budget; with many pages it may have children.
fn child_here(function: extern "C" fn(u64), pages: u64) -> Result<Child, Failure> {
    let of_its_own = (pages / 128).min(2);
    let mut builder = Builder::sharing()?;
    builder.function(function, 0).budget(Resource::Page, pages).budget(Resource::Predicate, 0);
    builder.budget(Resource::Environment, of_its_own).budget(Resource::Slice, 1 + of_its_own);
    builder.create()
}

fn run(child: &Child) -> Result<u64, Failure> {
    child.run(0, time_slice::ANY_POSITION)
}

/// The same; it holds the own key in the place of its own, which it has in [`OWN`]. So it allocates pages under the own
/// list, as the processes of a session do.
fn relative(function: extern "C" fn(u64), pages: u64) -> Result<Child, Failure> {
    let child = child_here(function, pages)?;
    syscall::key_drop(child.number, KeyIndex::FIRST, KeyIndex::FIRST)?;
    child.grant(KeyIndex::FIRST, Rights::ALL, KeyIndex::FIRST)?;
    child.grant(child.key.unwrap_or(KeyIndex::WELL_KNOWN), Rights::ALL, OWN)?;
    Ok(child)
}

extern "C" fn hide_in_child(_: u64) {
    let Ok(child) = relative(keep, 2 * LEFT) else { return };
    if run(&child).is_err() {
        return;
    }
    while status(&child, DONE) == 0 {
        time_slice::yield_now();
    }
    Area::current().status(MADE).store(used(&child) / PART, SeqCst);
    take(ignore, |_, _| {});
}

/// Environments that a hog creates while it is asked: what they are made of lies ready.
const FORKS: usize = 8;
static PARTS: [[AtomicU64; 4 + PRIVATE_PAGES_LEAST]; FORKS] =
    [const { [const { AtomicU64::new(0) }; 4 + PRIVATE_PAGES_LEAST] }; FORKS];

extern "C" fn fork(context: &mut Context) {
    if context.frame.kind != kind::REVOCATION {
        return;
    }
    let asked = Area::current().status(REQUESTS).fetch_add(1, SeqCst) as usize;
    let Some(parts) = PARTS.get(asked) else { return };
    let [control, key_ring, public, root, ref private_pages @ ..] =
        core::array::from_fn::<u64, { 4 + PRIVATE_PAGES_LEAST }, _>(|index| parts[index].load(SeqCst));
    let mut private = [0; abi::limits::PRIVATE_PAGES];
    private[..PRIVATE_PAGES_LEAST].copy_from_slice(private_pages);
    let wanted = Specification {
        name_key: KeyIndex::FIRST.0,
        control,
        key_ring,
        public,
        root,
        area: 0x1000_0000,
        private_count: PRIVATE_PAGES_LEAST as u64,
        private,
        ..Specification::default()
    };
    // SAFETY: the kernel reads the specification; nothing of this program lies in the pages.
    let outcome =
        unsafe { syscall::environment_create(KeyIndex::FIRST, UserAddress(core::ptr::from_ref(&wanted) as u64)) };
    made(outcome.is_ok());
}

extern "C" fn fork_while_asked(_: u64) {
    let own = Allocator::own();
    for parts in &PARTS {
        let Ok(space) = AddressSpace::create(own) else { return };
        let mut pages = vec![PageNumber::NONE; parts.len()];
        if own.allocate_many(&mut pages).is_err() {
            return;
        }
        pages[3] = space.root;
        parts.iter().zip(&pages).for_each(|(word, page)| word.store(page.0, SeqCst));
    }
    take(fork, |_, _| {});
}

extern "C" fn die(context: &mut Context) {
    if context.frame.kind == kind::REVOCATION {
        entry::exit(0);
    }
}

extern "C" fn die_while_asked(_: u64) {
    take(die, |_, _| {});
}

/// Requests that would clear, postpone or replace an open one, with every key; how many were granted.
fn ask_otherwise(number: EnvironmentId) -> u64 {
    let (page, slice) = (Resource::Page as u64, Resource::Slice as u64);
    let asked = [(page, 0, 0), (page, 1, u64::MAX), (slice, 1, u64::MAX), (slice, 0, 0)];
    let keys = (0..44).map(KeyIndex);
    let outcomes = keys.flat_map(|key| {
        asked.map(|(resource, count, end)| syscall::revocation_request(key, number, resource, count, end))
    });
    outcomes.filter(Result::is_ok).count() as u64
}

extern "C" fn overwrite_request(context: &mut Context) {
    ignore(context);
    made(ask_otherwise(area::number()) == 0);
}

extern "C" fn overwrite(_: u64) {
    take(overwrite_request, |_, _| {});
}

/// Holds so many pages.
extern "C" fn hold(count: u64) {
    let mut held = 0;
    while held < count {
        held += u64::from(Allocator::own().allocate().is_ok());
        Area::current().status(HELD).store(held, SeqCst);
    }
    loop {
        time_slice::yield_now();
    }
}

/// All pages but so many, held by this environment.
fn ballast(left: u64) -> Result<Vec<PageNumber>, alloc::string::String> {
    let count = exposed::kernel().free_pages.load(SeqCst).saturating_sub(left);
    let mut pages = vec![PageNumber::NONE; count as usize];
    granted!(Allocator::own().allocate_many(&mut pages));
    Ok(pages)
}

fn fault_152_a_reservation_is_met_in_each_state(world: &World) -> Outcome {
    let pages = ballast(LEFT + 3 * WANTED)?;
    for (name, function, shows) in STATES {
        gets_its_pages(world, function, shows).map_err(|why| format!("a hog that {name}: {why}"))?;
        world.pages_add_up().map_err(|why| format!("after a hog that {name}: {why}"))?;
    }
    check!(Allocator::own().free_many(&pages) == pages.len(), "pages of the test are gone");
    Ok(())
}

fn used(child: &Child) -> u64 {
    child.info().map_or(0, |info| info.budget[Resource::Page as usize].used.load(SeqCst))
}

fn gets_its_pages(world: &World, function: extern "C" fn(u64), shows: bool) -> Outcome {
    // While an environment may be short of pages none above its reservation gets any.
    predicate::sleep_until(clock::now() + 2 * SHORT);
    let mut builder = prepare(world, hold, WANTED)?;
    builder.budget(Resource::Page, RESERVED);
    let honest = granted!(builder.create());
    granted!(honest.reserve(Resource::Page, RESERVED));
    let mut builder = prepare(world, function, 0)?;
    builder.budget(Resource::Page, 4 * LEFT);
    let mut hog = Some(launch(builder)?);
    let of_hog = |hog: &Option<Child>, word| hog.as_ref().map_or(0, |hog| status(hog, word));
    check!(eventually(|| of_hog(&hog, DONE) == 1), "it holds {} pages and wants more", of_hog(&hog, HELD));
    granted!(honest.run(0, time_slice::ANY_POSITION));
    let mut buried = Ok(());
    let came = eventually(|| {
        // The pages of the dead are their creator's to give back, also where no page is free.
        if let Some(dead) = hog.take_if(|hog| !hog.alive()) {
            buried = dead.destroy();
        }
        buried.is_err() || status(&honest, HELD) == WANTED
    });
    granted!(buried);
    check!(came, "{} pages of {WANTED} came, and it uses {}", status(&honest, HELD), used(&honest));
    check!(!shows || eventually(|| of_hog(&hog, MADE) > 0), "it was not in that state");
    hog.map_or(Ok(()), Child::destroy).map_err(|failure| format!("destroying the hog: {failure:?}"))?;
    granted!(honest.destroy());
    Ok(())
}

/// The hog of a session, which its relatives attack: its number. How many have done so, and what was granted.
static HOG: AtomicU64 = AtomicU64::new(0);
static ATTACKS: AtomicU64 = AtomicU64::new(0);
static GRANTS: AtomicU64 = AtomicU64::new(0);
/// Waits until the hog is asked, and asks otherwise.
extern "C" fn attack(_: u64) {
    let hog = || exposed::environment(EnvironmentId(HOG.load(SeqCst)));
    while !hog().is_some_and(|info| info.revocation_resource.load(SeqCst) != 0) {
        time_slice::yield_now();
    }
    GRANTS.fetch_add(ask_otherwise(EnvironmentId(HOG.load(SeqCst))), SeqCst);
    ATTACKS.fetch_add(1, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

/// The hog: it has a child with a key to it, and attacks itself.
extern "C" fn attack_with_a_child(_: u64) {
    HOG.store(area::number().0, SeqCst);
    if let Ok(child) = relative(attack, 32) {
        made(child.grant(OWN, Rights::ALL, OF_HOG).is_ok() && run(&child).is_ok());
        attack(0);
    }
}

/// A session of two: the hog and its sibling, each with the session's key.
extern "C" fn be_a_session(_: u64) {
    let children = [relative(attack_with_a_child, 256), relative(attack, 32)];
    children.iter().flatten().for_each(|child| made(run(child).is_ok()));
    loop {
        let area = Area::current();
        area.status(HELD).store(HOG.load(SeqCst), SeqCst);
        area.status(REQUESTS).store(GRANTS.load(SeqCst), SeqCst);
        area.status(DONE).store(ATTACKS.load(SeqCst), SeqCst);
        time_slice::yield_now();
    }
}

/// The hog, its sibling in the session and its child ask the hog otherwise than its creator's creator did, with every
/// key that they have. What stands open stays.
fn fault_152_no_relative_overwrites_a_request(world: &World) -> Outcome {
    let mut builder = prepare(world, be_a_session, 0)?;
    builder.budget(Resource::Page, 1_000).budget(Resource::Environment, 16).budget(Resource::Slice, 16);
    let session = launch(builder)?;
    check!(eventually(|| status(&session, MADE) == 2 && status(&session, HELD) != 0), "the session does not begin");
    let (hog, page) = (EnvironmentId(status(&session, HELD)), Resource::Page as u64);
    let (count, deadline) = (10, 1 << 62);
    granted!(syscall::revocation_request(KeyIndex::FIRST, hog, page, count, deadline));
    check!(eventually(|| status(&session, DONE) == 3), "{} of 3 attacked", status(&session, DONE));
    let info = exposed::environment(hog).ok_or("the hog is gone")?;
    let asked = [&info.revocation_resource, &info.revocation_count, &info.revocation_deadline];
    let asked = asked.map(|word| word.load(SeqCst));
    check!(asked == [page + 1, count, deadline], "{asked:?} is asked after {} grants", status(&session, REQUESTS));
    check!(status(&session, REQUESTS) > 0, "no key of theirs reached the hog: the attack shows nothing");
    granted!(session.destroy());
    Ok(())
}
