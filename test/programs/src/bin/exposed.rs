//! The exposed structures are true. An actor does things and keeps account of them. An observer that holds no key at
//! all counts every exposed structure again and compares it with that account (DESIGN.md §1, test 5; §8).
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::{Figure, Resource};
use abi::environment::{DeathReason, Specification, State};
use abi::page::{NO_PAGE, ORPHAN, PageKind};
use abi::page_table::MapRow;
use abi::upcall::kind;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::address_space::{self, Access, AddressSpace};
use runtime::area::Area;
use runtime::environment::Child;
use runtime::page::{self, Allocator};
use runtime::upcall::{Context, set_handler};
use runtime::window::Window;
use runtime::{EnvironmentId, Error, KeyIndex, PageNumber, UserAddress, area, clock, exposed, syscall, time_slice};
use test_programs::child::{eventually, launch, prepare};
use test_programs::random::Random;
use test_programs::shadow::{ADDRESS, FORCED, PageShadow, Shadow, add, pages_needed};
use test_programs::{Outcome, World, check, granted, guest, refused};

guest! {
    Here an_observer_without_keys_finds_everything_exposed_as_it_was_done;
}

const SEED: u64 = 0xe_4905;
const STEPS: u64 = 300;
/// Pages that the actor holds at most, and places where it maps them.
const HELD: usize = 96;
const PLACES: u64 = 48;
const PLACE: u64 = 0x3800_0000;
/// Environments that it creates, in all and at once.
const CREATED: u64 = 48;
const TOGETHER: usize = 4;
/// Pages that the observer holds, to be taken from it.
const HOARD: usize = FORCED;
/// Words of the observer's public page: step it has compared, and where it found a difference.
const DONE: usize = 1;
const DIFFERENCE: usize = 2;

/// Compares at every step. Holds no key from then on.
extern "C" fn observe(_: u64) {
    let area = Area::current();
    set_handler(kind::REVOCATION, ignore);
    set_handler(kind::REPOSSESSION, ignore);
    for index in 0..HOARD {
        let Ok(page) = Allocator::own().allocate() else { return };
        area.public_library(index).store(page.0, SeqCst);
        area.private().take_first[index].store(page.0, SeqCst);
    }
    area.private().take_first_count.store(HOARD as u64, SeqCst);
    let _ = syscall::key_drop(area::number(), KeyIndex::FIRST, KeyIndex::WELL_KNOWN);
    // SAFETY: the creator mapped the shadow there.
    let shadow = unsafe { Shadow::mapped() };
    for step in 1.. {
        area.status(DONE).store(step, SeqCst);
        while shadow.step.load(SeqCst) < step {
            time_slice::yield_now();
        }
        let outcome = shadow.compare().map_err(|found| [found.line, found.place, found.found, found.wanted]);
        if let Err(difference) = outcome.and_then(|()| compare_own_vector(shadow)) {
            for (index, word) in difference.into_iter().enumerate() {
                area.status(DIFFERENCE + index).store(word, SeqCst);
            }
        }
    }
}

extern "C" fn ignore(_: &mut Context) {}

/// The vector of what was taken from this environment, against the account of who took it.
fn compare_own_vector(shadow: &Shadow) -> Result<(), [u64; 4]> {
    let words = Area::current().private();
    let (found, wanted) = (words.repossessed.load(SeqCst), shadow.forced_count.load(SeqCst));
    if found != wanted {
        return Err([u64::from(line!()), 0, found, wanted]);
    }
    for index in 0..found as usize {
        let (found, wanted) = (words.repossession[index].name.load(SeqCst), shadow.forced[index].load(SeqCst));
        if found != wanted || words.repossession[index].resource.load(SeqCst) != Resource::Page as u64 {
            return Err([u64::from(line!()), index as u64, found, wanted]);
        }
    }
    Ok(())
}

/// An environment that the actor made, and the pages it is made of.
struct Made {
    number: EnvironmentId,
    root: PageNumber,
    pages: [u64; 7],
}

/// Does things at random, and keeps the account.
struct Actor {
    shadow: &'static Shadow,
    random: Random,
    own: EnvironmentId,
    observer: EnvironmentId,
    hoard: Vec<u64>,
    lists: [PageNumber; 2],
    held: Vec<u64>,
    mapped: [u64; PLACES as usize],
    roots: Vec<PageNumber>,
    made: Vec<Made>,
    created: u64,
}

impl Actor {
    fn page(&self, number: u64) -> &'static PageShadow {
        &self.shadow.pages()[number as usize]
    }

    fn charge(&self, whom: EnvironmentId, resource: Resource, amount: i64) {
        add(&self.shadow.environment(whom).budget[resource as usize][2], amount);
    }

    fn pick_held(&mut self) -> Option<u64> {
        let count = self.held.len() as u64;
        (count > 0).then(|| self.held[self.random.below(count) as usize])
    }

    fn holds(&self, number: u64) -> u64 {
        let page = self.page(number);
        (page.access.load(Relaxed) >> 32) + page.holds.load(Relaxed)
    }

    fn act(&mut self) -> Outcome {
        match self.random.below(11) {
            0..=2 => self.allocate(),
            3 => self.free(),
            4 | 5 => self.map(),
            6 => self.claim(),
            7 => self.take_or_give_slice(),
            8 => self.create_or_destroy(),
            9 => self.move_budget(),
            _ => self.take_from_observer(),
        }
    }

    fn allocate(&mut self) -> Outcome {
        if self.held.len() == HELD {
            return self.free();
        }
        let list = self.random.pick(&self.lists);
        let from = self.random.below(self.shadow.pages().len() as u64);
        let any = self.random.below(2) == 0;
        let is_free = |number: &u64| self.page(*number).state.load(Relaxed) & 0xff == PageKind::Free as u64;
        let wanted = match any {
            true => PageNumber::NONE,
            false => (from..self.shadow.pages().len() as u64).find(is_free).map_or(PageNumber::NONE, PageNumber),
        };
        let page = granted!(Allocator { key: KeyIndex::FIRST, list }.allocate_this(wanted));
        check!([page, PageNumber::NONE].contains(&wanted), "{page:?} came for {wanted:?}");
        check!(is_free(&page.0), "{page:?} was not free");
        let shadow = self.page(page.0);
        for (word, value) in [(&shadow.state, PageKind::Ordinary as u64), (&shadow.owner, self.own.0)] {
            word.store(value, Relaxed);
        }
        shadow.access.store(list.0, Relaxed);
        add(&self.page(list.0).holds, 1 << 32);
        self.charge(self.own, Resource::Page, 1);
        self.held.push(page.0);
        Ok(())
    }

    fn free(&mut self) -> Outcome {
        let Some(page) = self.pick_held() else { return Ok(()) };
        let own = Allocator::own();
        refused!(syscall::page_claim(KeyIndex::WELL_KNOWN, PageNumber(page), own.key, own.list), NotPermitted);
        granted!(Allocator::own().free(PageNumber(page)));
        self.held.retain(|held| *held != page);
        add(&self.page(page).state, i64::from(ORPHAN) << 8);
        self.settle(page);
        Ok(())
    }

    /// An orphan that nothing holds any more is free.
    fn settle(&self, page: u64) {
        let shadow = self.page(page);
        if shadow.state.load(Relaxed) & u64::from(ORPHAN) << 8 == 0 || self.holds(page) != 0 {
            return;
        }
        add(&self.page(shadow.access.load(Relaxed)).holds, -(1 << 32));
        self.charge(EnvironmentId(shadow.owner.load(Relaxed)), Resource::Page, -1);
        shadow.state.store(PageKind::Free as u64, Relaxed);
        shadow.owner.store(0, Relaxed);
        shadow.access.store(u64::from(NO_PAGE), Relaxed);
    }

    /// Maps a page where another may be mapped, or nothing.
    fn map(&mut self) -> Outcome {
        let place = self.random.below(PLACES);
        let page = if self.random.below(3) == 0 { None } else { self.pick_held() };
        let entry = page.map_or(0, |page| PageNumber(page).address() | Access::WRITE.0);
        let address = PLACE + place * abi::limits::PAGE_SIZE;
        granted!(address_space::own().apply(&[MapRow { address: address | KeyIndex::FIRST.0, entry }]));
        if let Some(page) = page {
            add(&self.page(page).access, 1 << 32);
        }
        let before = core::mem::replace(&mut self.mapped[place as usize], page.unwrap_or(0));
        if before != 0 {
            add(&self.page(before).access, -(1 << 32));
            self.settle(before);
        }
        Ok(())
    }

    fn claim(&mut self) -> Outcome {
        let (Some(page), list) = (self.pick_held(), self.random.pick(&self.lists)) else { return Ok(()) };
        granted!(syscall::page_claim(KeyIndex::FIRST, PageNumber(page), KeyIndex::FIRST, list));
        let access = &self.page(page).access;
        add(&self.page(access.load(Relaxed) & 0xffff_ffff).holds, -(1 << 32));
        access.store(access.load(Relaxed) & !0xffff_ffff | list.0, Relaxed);
        add(&self.page(list.0).holds, 1 << 32);
        Ok(())
    }

    /// Takes a position, on whichever CPU, or gives it up.
    fn take_or_give_slice(&mut self) -> Outcome {
        let cpu = self.random.below(exposed::kernel().cpus.load(Relaxed));
        let position = 200 + self.random.below(12);
        let shadow = &self.shadow.slices[cpu as usize][position as usize];
        let is_mine = shadow.load(Relaxed) == self.own.0;
        if is_mine {
            refused!(time_slice::allocate(KeyIndex::FIRST, self.own, cpu, position), NotFree);
            granted!(time_slice::free(KeyIndex::FIRST, cpu, position));
        } else {
            granted!(time_slice::allocate(KeyIndex::FIRST, self.own, cpu, position));
        }
        shadow.store(if is_mine { 0 } else { self.own.0 }, Relaxed);
        self.charge(self.own, Resource::Slice, if is_mine { -1 } else { 1 });
        Ok(())
    }

    fn create_or_destroy(&mut self) -> Outcome {
        if self.random.below(3) == 0 || self.made.len() == TOGETHER || self.created == CREATED {
            return if self.made.is_empty() { Ok(()) } else { self.destroy() };
        }
        let usable: Vec<u64> = self.held.iter().copied().filter(|page| self.holds(*page) == 0).take(7).collect();
        let Ok(pages) = <[u64; 7]>::try_from(usable) else { return Ok(()) };
        let root = self.roots.pop().ok_or("no root is left")?;
        let number = granted!(create(&pages, root));
        self.held.retain(|held| !pages.contains(held));
        for (page, kind) in pages.iter().zip(KINDS) {
            self.page(*page).state.store(kind as u64, Relaxed);
        }
        add(&self.page(root.0).holds, 1 << 32);
        self.charge(self.own, Resource::Environment, 1);
        let facts = &self.shadow.environment(number).facts;
        facts[0].store(State::Alive as u64, Relaxed);
        facts[1].store(self.own.0, Relaxed);
        self.made.push(Made { number, root, pages });
        self.created += 1;
        Ok(())
    }

    fn destroy(&mut self) -> Outcome {
        let which = self.random.below(self.made.len() as u64) as usize;
        let gone = self.made.swap_remove(which);
        while let Err(failure) = syscall::environment_destroy(KeyIndex::FIRST, gone.number) {
            check!(failure.error == Error::Again, "destruction gave {failure:?}");
        }
        for page in gone.pages {
            self.page(page).state.store(PageKind::Ordinary as u64, Relaxed);
            self.held.push(page);
        }
        add(&self.page(gone.root.0).holds, -(1 << 32));
        self.roots.push(gone.root);
        self.charge(self.own, Resource::Environment, -1);
        let (dead, own) = (self.shadow.environment(gone.number), self.shadow.environment(self.own));
        let facts = [State::Dead as u64, self.own.0, DeathReason::Destroyed as u64, self.own.0];
        dead.facts.iter().zip(facts).for_each(|(word, fact)| word.store(fact, Relaxed));
        for (from, to) in dead.budget.iter().zip(&own.budget) {
            from.iter().zip(to).for_each(|(from, to)| add(to, from.swap(0, Relaxed) as i64));
        }
        Ok(())
    }

    fn move_budget(&mut self) -> Outcome {
        if self.made.is_empty() {
            return Ok(());
        }
        let child = self.made[self.random.below(self.made.len() as u64) as usize].number;
        let resource = self.random.pick(&Resource::ALL);
        let (giver, receiver) = if self.random.below(3) == 0 { (child, self.own) } else { (self.own, child) };
        let has = self.shadow.environment(giver).budget[resource as usize][0].load(Relaxed);
        let amount = if giver == child { self.random.below(has + 1) } else { self.random.below(4) };
        let figure = Figure::Limit as u64;
        granted!(syscall::budget_move(KeyIndex::FIRST, giver, receiver, resource as u64, figure, amount));
        add(&self.shadow.environment(giver).budget[resource as usize][0], -(amount as i64));
        add(&self.shadow.environment(receiver).budget[resource as usize][0], amount as i64);
        Ok(())
    }

    /// Takes pages from the observer, which gives none by itself.
    fn take_from_observer(&mut self) -> Outcome {
        let (count, taken) = (self.random.below(3) + 1, self.shadow.forced_count.load(Relaxed));
        let end = taken + count;
        if end > self.hoard.len() as u64 {
            return Ok(());
        }
        let page = Resource::Page as u64;
        granted!(syscall::revocation_request(KeyIndex::FIRST, self.observer, page, count, clock::now()));
        while let Err(failure) = syscall::revocation_enforce(KeyIndex::FIRST, self.observer) {
            check!(failure.error == Error::Again, "enforcing gave {failure:?}");
        }
        for index in taken..end {
            let page = self.hoard[index as usize];
            self.shadow.forced[index as usize].store(page, Relaxed);
            add(&self.page(page).state, i64::from(ORPHAN) << 8);
            self.settle(page);
        }
        self.shadow.forced_count.store(end, Relaxed);
        Ok(())
    }
}

/// What the pages of an environment become, in the order of [`create`].
const KINDS: [PageKind; 7] = [
    PageKind::EnvironmentControl,
    PageKind::KeyRing,
    PageKind::EnvironmentPublic,
    PageKind::EnvironmentPrivate,
    PageKind::EnvironmentPrivate,
    PageKind::EnvironmentPrivate,
    PageKind::EnvironmentPrivate,
];

/// An environment that will never run.
fn create(pages: &[u64; 7], root: PageNumber) -> Result<EnvironmentId, runtime::Failure> {
    let mut private = [0; abi::limits::PRIVATE_PAGES];
    private[..4].copy_from_slice(&pages[3..]);
    let [control, key_ring, public, ..] = *pages;
    let fixed =
        Specification { name_key: KeyIndex::FIRST.0, area: 0x1000_0000, private_count: 4, ..Default::default() };
    let specification = Specification { control, key_ring, public, root: root.0, private, ..fixed };
    // SAFETY: the kernel reads the specification.
    unsafe { syscall::environment_create(KeyIndex::FIRST, UserAddress(&raw const specification as u64)) }
}

/// Maps a fresh shadow in both address spaces, and starts the observer.
fn start_observer(world: &World) -> Result<(Child, &'static Shadow), String> {
    let mut pages = alloc::vec![PageNumber::NONE; pages_needed() as usize];
    granted!(Allocator::own().allocate_many(&mut pages));
    // SAFETY: nothing else lies there in this program.
    granted!(unsafe { address_space::own().map(ADDRESS, &pages, Access::WRITE) });
    let mut builder = prepare(world, observe, 0)?;
    granted!(builder.silent().show(ADDRESS, &pages, Access::READ));
    let observer = launch(builder)?;
    // SAFETY: fresh pages were mapped there.
    Ok((observer, unsafe { Shadow::mapped() }))
}

fn start_actor(shadow: &'static Shadow, observer: &Child, public: &Window) -> Result<Actor, String> {
    let second = granted!(Allocator::own().allocate());
    granted!(page::become_list(KeyIndex::FIRST, second, KeyIndex::FIRST));
    let page = granted!(Allocator::own().allocate());
    // So that the page table is there.
    for entry in [page.address() | Access::WRITE.0, 0] {
        granted!(address_space::own().apply(&[MapRow { address: PLACE | KeyIndex::FIRST.0, entry }]));
    }
    granted!(Allocator::own().free(page));
    let root = |_| AddressSpace::create(Allocator::own()).map(|space| space.root);
    let roots: Vec<PageNumber> = granted!((0..TOGETHER).map(root).collect::<Result<_, _>>());
    let listed = &public.words()[abi::area::PUBLIC_LIBRARY as usize / 8..][..HOARD];
    Ok(Actor {
        shadow,
        random: Random(SEED),
        own: area::number(),
        observer: observer.number,
        hoard: listed.iter().map(|word| word.load(SeqCst)).collect(),
        lists: [Allocator::own().list, second],
        held: Vec::with_capacity(2 * HELD),
        mapped: [0; PLACES as usize],
        roots,
        made: Vec::with_capacity(2 * TOGETHER),
        created: 0,
    })
}

fn an_observer_without_keys_finds_everything_exposed_as_it_was_done(world: &World) -> Outcome {
    let (observer, shadow) = start_observer(world)?;
    let public = granted!(observer.public());
    let word = |index: usize| public.words()[abi::area::PUBLIC_STATUS as usize / 8 + index].load(SeqCst);
    check!(eventually(|| word(DONE) == 1), "the observer does not start");
    let mut actor = start_actor(shadow, &observer, &public)?;
    shadow.copy_what_is();
    for step in 1..=STEPS {
        actor.act().map_err(|why| alloc::format!("seed {SEED:#x}, step {step}: {why}"))?;
        shadow.step.store(step, SeqCst);
        check!(eventually(|| word(DONE) > step || !observer.alive()), "the observer does not compare step {step}");
        let difference = [0, 1, 2, 3].map(|index| word(DIFFERENCE + index));
        check!(difference == [0; 4], "seed {SEED:#x}, step {step}: line, place, found and wanted are {difference:x?}");
    }
    let forced = shadow.forced_count.load(SeqCst);
    check!(actor.created >= 8 && forced > 20, "{} were created, {forced} pages forced", actor.created);
    // The check can fail: a word that is wrong is found.
    add(&shadow.pages()[1].owner, 1);
    shadow.step.store(STEPS + 1, SeqCst);
    check!(eventually(|| word(DIFFERENCE) != 0), "the observer does not see what is wrong");
    while !actor.made.is_empty() {
        actor.destroy()?;
    }
    drop(public);
    granted!(observer.destroy());
    Ok(())
}
