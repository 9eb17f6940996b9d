//! Destruction at any moment, after any call, of many at once: whatever an environment had comes back to whom it came
//! from, to the last page, position, key and pin.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::{Figure, Resource};
use abi::capability::Rights;
use abi::environment::Specification;
use abi::limits::PRIVATE_PAGES_LEAST;
use abi::page_table::MapRow;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use runtime::address_space::{self, Access, AddressSpace};
use runtime::area::Area;
use runtime::environment::{Builder, Child};
use runtime::page::{self, Allocator};
use runtime::predicate::{Operator, Predicate, word};
use runtime::{
    EnvironmentId, Error, Failure, KeyIndex, PageNumber, UserAddress, area, context, exposed, key, syscall, time_slice,
};
use test_programs::child::{death, eventually, eventually_by, prepare, sleeps, spawn, status};
use test_programs::random::Random;
use test_programs::{Outcome, World, check, granted, guest, refused};

guest! {
    Here fault_47_killed_at_any_moment;
    Here fault_47_killed_after_each_call;
    Child fault_48_as_many_environments_as_the_budget_allows;
    Here fault_48_fork_bomb;
    Here fault_48_bombs_that_make_bombs;
    Here fault_48_full_table;
}

const KEY: KeyIndex = KeyIndex::FIRST;
/// Free places in the address space of a child.
const PLACE: u64 = 0x2000_0000;
const FAR: u64 = PLACE + (5 << 39);

/// What is there, however it is spread: it is the same again when all that were made are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Audit {
    /// Free pages and this environment's, whose heap takes and gives some; orphans; reserved pages.
    pages: [u64; 3],
    /// Limits, reservations and uses of this environment, but for the use of pages.
    budget: Vec<[u64; 3]>,
    /// Environments that are not gone.
    environments: usize,
    /// Positions that have an owner, and those in which another environment runs.
    positions: [usize; 2],
    /// Pins of all pages.
    pins: u64,
    /// Slots of the own key ring that are in use.
    keys: u64,
}

impl Audit {
    fn take() -> Result<Self, String> {
        let kernel = exposed::kernel();
        let own = exposed::environment(area::number()).ok_or("no record")?;
        let figures = |budget: &abi::environment::Budget| {
            [&budget.limit, &budget.reserved, &budget.used].map(|figure| figure.load(SeqCst))
        };
        let mut budget: Vec<[u64; 3]> = own.budget.iter().map(figures).collect();
        let own_pages = core::mem::take(&mut budget[Resource::Page as usize][2]);
        let slices = (0..kernel.cpus.load(SeqCst)).flat_map(exposed::slices);
        let slices = slices.map(|slice| (slice.owner.load(SeqCst), slice.runner.load(SeqCst)));
        let owned: Vec<(u64, u64)> = slices.filter(|(owner, _)| *owner != 0).collect();
        let lent = owned.iter().filter(|(owner, runner)| owner != runner).count();
        let numbers = (0..kernel.pages.load(SeqCst)).map(PageNumber);
        Ok(Self {
            pages: [
                kernel.free_pages.load(SeqCst) + own_pages,
                kernel.orphan_pages.load(SeqCst),
                kernel.reserved_pages.load(SeqCst),
            ],
            budget,
            environments: living(),
            positions: [owned.len(), lent],
            pins: numbers.filter_map(exposed::page).map(exposed::Page::device_pins).sum(),
            keys: Area::current().library().keys.load(SeqCst),
        })
    }

    fn is_the_same(&self, after: &str) -> Outcome {
        let now = Self::take()?;
        check!(now == *self, "{after} {self:?} became {now:?}");
        Ok(())
    }
}

/// How many environments are not gone.
fn living() -> usize {
    (0..exposed::kernel().environments.load(SeqCst))
        .filter_map(exposed::environment_slot)
        .filter(|info| info.remains())
        .count()
}

/// Makes calls of every kind, without end.
extern "C" fn call_without_end(seed: u64) {
    let mut random = Random(seed);
    Area::current().status(1).store(1, SeqCst);
    let own = Allocator::own();
    let mut pages = Vec::new();
    loop {
        match random.below(8) {
            0..=2 => pages.extend(own.allocate()),
            3 => {
                let _ = pages.pop().map(|page| own.free(page));
            }
            4 => {
                let _ = pages.last().map(|page| {
                    let address = 0x2000_0000 + random.below(512) * 0x1000;
                    address_space::own().apply(&[abi::page_table::MapRow {
                        address: address | 1,
                        entry: page.address() | Access::WRITE.0,
                    }])
                });
            }
            5 => {
                let _ = Builder::new()
                    .map(|builder| builder.create().map(|child| (random.below(2) == 0).then(|| child.destroy())));
            }
            6 => {
                let _ = runtime::key::derive(KeyIndex::FIRST, abi::capability::Rights::ALL, 0);
            }
            _ => time_slice::yield_now(),
        }
    }
}

fn fault_47_killed_at_any_moment(world: &World) -> Outcome {
    let seed = 0x47;
    let mut random = Random(seed);
    let before = Audit::take()?;
    for round in 0..60 {
        let child = spawn(world, call_without_end, random.number())?;
        let end = runtime::clock::now() + random.below(20_000_000);
        while runtime::clock::now() < end {
            time_slice::yield_now();
        }
        granted!(child.destroy());
        before.is_the_same(&alloc::format!("seed {seed:#x}, round {round}:"))?;
    }
    Ok(())
}

/// What [`call_by_call`] has by now.
struct Script {
    pages: Vec<PageNumber>,
    child: Option<Child>,
}

impl Script {
    fn page(&mut self) -> Result<PageNumber, Failure> {
        let page = Allocator::own().allocate()?;
        self.pages.push(page);
        Ok(page)
    }

    /// One more call; the first call of each kind that gives an environment something, or takes it.
    fn step(&mut self, step: u64) -> Result<(), Failure> {
        let (own, first) = (Allocator::own(), self.pages.first().copied().unwrap_or(PageNumber::NONE));
        let number = area::number();
        match step {
            0 => self.page().map(drop),
            1 => map(PLACE, first.address() | Access::WRITE.0),
            2 => own.free(first),
            3 => self.page().and_then(|list| page::become_list(KEY, list, KEY)),
            4 => Allocator { key: KEY, list: self.pages[1] }.allocate().map(drop),
            5 => syscall::page_free(KEY, self.pages[1]),
            6 => self.page().and_then(|region| page::become_regions(KEY, region)),
            7 => key::derive(KEY, Rights::ALL, 0).map(drop),
            8 => AddressSpace::create(own).map(drop),
            9 => address_space::own().link_tables(FAR, false),
            10 => own.copy(KEY, self.pages[0]).map(drop),
            11 => syscall::event_raise(KEY, number, 1),
            12 => time_slice::allocate(KEY, number, exposed::kernel().cpus.load(SeqCst) - 1, time_slice::ANY_POSITION)
                .map(drop),
            13 => Builder::new().and_then(Builder::create).map(|child| self.child = Some(child)),
            14 => self.with_child(|child| child.give(Resource::Slice, 1)),
            15 => self
                .with_child(|child| syscall::revocation_request(KEY, child.number, Resource::Page as u64, 1, u64::MAX)),
            // It dies at its first instruction, perhaps before the next step.
            16 => self.with_child(|child| child.run(0, time_slice::ANY_POSITION).map(drop)),
            17 => self.with_child(|child| match syscall::environment_destroy(KEY, child.number) {
                Err(Failure { error: Error::Again, .. }) => Ok(()),
                done => done,
            }),
            18 => context::set_vector(true),
            _ => Predicate::new().or(&[word(Area::current().status(9), Operator::Equal, 1)])?.wait().map(drop),
        }
    }

    fn with_child(&self, call: impl FnOnce(&Child) -> Result<(), Failure>) -> Result<(), Failure> {
        self.child.as_ref().map_or(Err(Error::NoSuchEnvironment.about(0)), call)
    }
}

fn map(address: u64, entry: u64) -> Result<(), Failure> {
    address_space::own().apply(&[MapRow { address: address | KEY.0, entry }])
}

/// Steps of the script; the last one sleeps.
const STEPS: u64 = 20;
/// Status words: steps done, and the error of a step that was refused, plus one.
const DONE: usize = 1;
const REFUSED: usize = 2;

extern "C" fn call_by_call(steps: u64) {
    let mut script = Script { pages: Vec::with_capacity(16), child: None };
    for step in 0..steps {
        if let Err(failure) = script.step(step) {
            Area::current().status(REFUSED).store(failure.error as u64 + 1, SeqCst);
        }
        Area::current().status(DONE).store(step + 1, SeqCst);
    }
    loop {
        time_slice::yield_now();
    }
}

/// Destroyed after one call, after two, and so on: nothing of it is left.
fn fault_47_killed_after_each_call(world: &World) -> Outcome {
    let before = Audit::take()?;
    for steps in 0..=STEPS {
        let child = spawn(world, call_by_call, steps)?;
        // The last step never ends.
        let has_come =
            || status(&child, DONE) == steps || steps == STEPS && status(&child, DONE) == steps - 1 && sleeps(&child);
        check!(eventually(has_come), "it comes to step {} of {steps}: {}", status(&child, DONE), death(&child));
        check!(status(&child, REFUSED) == 0, "a step before {steps} was refused: {}", status(&child, REFUSED));
        granted!(child.destroy());
        before.is_the_same(&alloc::format!("after {steps} steps"))?;
    }
    Ok(())
}

fn fault_48_as_many_environments_as_the_budget_allows() -> Outcome {
    let mut children = Vec::new();
    let refusal = loop {
        let builder = match Builder::new() {
            Ok(builder) => builder,
            Err(failure) => break failure,
        };
        match builder.create() {
            Ok(child) => children.push(child),
            Err(failure) => break failure,
        }
        check!(children.len() < 100, "a budget of 8 environments made 100");
    };
    check!(refusal.error == abi::Error::OverBudget, "the last one was refused with {refusal:?}");
    check!(!children.is_empty(), "not even one was made");
    for child in children {
        granted!(child.destroy());
    }
    Ok(())
}

/// Environments that a bomb may have at most, without itself.
const BOMBS: u64 = 8;

extern "C" fn live_on(_: u64) {
    loop {
        time_slice::yield_now();
    }
}

/// Makes others in its address space, as many as it may, and then keeps trying.
extern "C" fn bomb(_: u64) {
    let area = Area::current();
    loop {
        let made = Builder::sharing().and_then(|mut builder| {
            builder.function(live_on, 0).budget(Resource::Slice, 1).budget(Resource::Predicate, 0);
            builder.create()
        });
        match made.map(|next| next.run(exposed::kernel().cpus.load(SeqCst) - 1, time_slice::ANY_POSITION)) {
            Ok(_) => area.status(DONE).fetch_add(1, SeqCst),
            Err(failure) => area.status(REFUSED).swap(failure.error as u64 + 1, SeqCst),
        };
        area.status(TRIED).fetch_add(1, SeqCst);
        time_slice::yield_now();
    }
}

/// Status word: how often it was tried.
const TRIED: usize = 3;

/// However often it tries, they are as many as its budget allows, and what is refused costs nothing; the others go on,
/// and make what they want.
fn fault_48_fork_bomb(world: &World) -> Outcome {
    let before = Audit::take()?;
    let mut builder = prepare(world, bomb, 0)?;
    builder.budget(Resource::Slice, 16).budget(Resource::Environment, BOMBS);
    let child = granted!(builder.create());
    granted!(child.run(0, time_slice::ANY_POSITION));
    check!(eventually(|| status(&child, REFUSED) != 0), "it is never refused, after {}", status(&child, DONE));
    let used = || child.info().map_or(0, |info| info.budget[Resource::Page as usize].used.load(SeqCst));
    let pages = used();
    for round in 0..40 {
        let come = status(&child, TRIED);
        let other = spawn(world, call_by_call, 4)?;
        check!(
            eventually(|| status(&other, DONE) == 4),
            "round {round}: another one comes to {}",
            status(&other, DONE)
        );
        granted!(other.destroy());
        check!(eventually(|| status(&child, TRIED) > come), "round {round}: the bomb does not try: {}", death(&child));
        let more = living() - before.environments - 1;
        check!(more as u64 == BOMBS && status(&child, DONE) == BOMBS, "round {round}: there are {more} of {BOMBS}");
    }
    let told = status(&child, REFUSED);
    check!(told == Error::OverBudget as u64 + 1, "after {} tries it was told {told}", status(&child, TRIED));
    check!(used() < pages + 32, "{pages} pages of it became {} by what was refused", used());
    granted!(child.destroy());
    before.is_the_same("after the bomb")
}

/// How many environments stand behind each other, each made by the one before it, where there is enough memory.
const DEPTH: u64 = 600;
/// Pages that one of them and its tables take, at most.
const PAGES_OF_ONE: u64 = 26;

/// Pages with which who destroys keeps its lists.
const PAGES_TO_DESTROY: u64 = 64;
/// Where the area of the first one lies.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// The first of them.
extern "C" fn begin_to_burrow(_: u64) {
    FIRST.store(Area::current().address(), SeqCst);
    burrow(0);
}

/// The first of them, too; when the line is complete it destroys the others, on a stack of eight pages, and has its
/// budget again.
extern "C" fn burrow_and_fill(_: u64) {
    FIRST.store(Area::current().address(), SeqCst);
    let all = || [Resource::Environment, Resource::Slice].map(left);
    let before = all();
    let filled = dig(1, PAGES_TO_DESTROY).and_then(|next| {
        eventually_by(
            || Area::current().status(DONE).load(SeqCst),
            || Area::current().status(REFUSED).load(SeqCst) != 0,
        );
        next.destroy()
    });
    runtime::entry::exit(u32::from(filled.is_err() || all() != before));
}

/// Makes one of its own kind in its address space, and leaves it all that it has: its key, and the rest of its budget.
/// At the end of the budget it keeps trying.
extern "C" fn burrow(depth: u64) {
    // SAFETY: the first one's area, in this address space, is there until all are destroyed.
    let first = unsafe { Area::at(FIRST.load(SeqCst)) };
    first.status(DONE).store(depth, SeqCst);
    loop {
        let Err(failure) = dig(depth + 1, 0) else { break };
        first.status(REFUSED).store(failure.error as u64 + 1, SeqCst);
        first.status(TRIED).fetch_add(1, SeqCst);
        time_slice::yield_now();
    }
    live_on(0);
}

/// Makes the next one, which gets the rest of the budget, but for `kept` pages.
fn dig(depth: u64, kept: u64) -> Result<Child, Failure> {
    let mut builder = Builder::sharing()?;
    builder.function(burrow, depth).budget(Resource::Slice, 0).budget(Resource::Predicate, 0);
    let next = builder.create()?;
    syscall::key_drop(next.number, KEY, KEY)?;
    next.grant(KEY, Rights::ALL, KEY)?;
    for (resource, kept) in [(Resource::Environment, 0), (Resource::Slice, 0), (Resource::Page, kept)] {
        next.give(resource, left(resource).saturating_sub(kept))?;
    }
    next.run(exposed::kernel().cpus.load(SeqCst) - 1, time_slice::ANY_POSITION)?;
    Ok(next)
}

/// What this environment may still use.
fn left(resource: Resource) -> u64 {
    let figures = |info: exposed::Environment| {
        let budget = &info.budget[resource as usize];
        budget.limit.load(SeqCst) - budget.used.load(SeqCst)
    };
    exposed::environment(area::number()).map_or(0, figures)
}

fn first_of_a_line(world: &World, function: extern "C" fn(u64), depth: u64) -> Result<Child, String> {
    let mut builder = prepare(world, function, 0)?;
    builder.budget(Resource::Slice, depth + 1).budget(Resource::Environment, depth);
    builder.budget(Resource::Page, depth * PAGES_OF_ONE);
    let child = granted!(builder.create());
    granted!(child.run(0, time_slice::ANY_POSITION));
    Ok(child)
}

/// Bombs that make bombs are no more than the first one's budget allows either. To destroy the first is to destroy all
/// of them, even with a long line and a small stack.
fn fault_48_bombs_that_make_bombs(world: &World) -> Outcome {
    let before = Audit::take()?;
    let depth = DEPTH.min(exposed::kernel().free_pages.load(SeqCst) / 2 / PAGES_OF_ONE);
    let child = first_of_a_line(world, begin_to_burrow, depth)?;
    let (come, told) = (|| status(&child, DONE), || status(&child, REFUSED));
    check!(eventually_by(come, || told() != 0), "it is never refused, after {}", come());
    check!(come() == depth, "{} of {depth} were made, then told {}", come(), told());
    check!(living() as u64 == before.environments as u64 + 1 + depth, "there are {}", living());
    let other = spawn(world, call_by_call, 4)?;
    check!(eventually_by(|| status(&child, TRIED), || status(&other, DONE) == 4), "another one does not come on");
    granted!(other.destroy());
    check!(told() == Error::OverBudget as u64 + 1, "after {} tries it was told {}", status(&child, TRIED), told());
    granted!(child.destroy());
    before.is_the_same("after bombs that make bombs")?;
    let child = first_of_a_line(world, burrow_and_fill, depth)?;
    let ended = eventually_by(|| living() as u64 ^ status(&child, DONE), || !child.alive());
    check!(ended && child.status() == Some(0), "{:?}, at {}: {}", child.status(), status(&child, DONE), death(&child));
    granted!(child.destroy());
    before.is_the_same("after a line was destroyed by its first")
}

/// The pages of the smallest environment.
type Pages = [PageNumber; 3 + PRIVATE_PAGES_LEAST];

/// An environment of as few pages as can be; it never runs.
fn make_smallest(root: PageNumber) -> Result<(EnvironmentId, Pages), Failure> {
    let own = Allocator::own();
    let mut pages: Pages = [PageNumber::NONE; 3 + PRIVATE_PAGES_LEAST];
    own.allocate_many(&mut pages)?;
    let mut private = [0; abi::limits::PRIVATE_PAGES];
    private.iter_mut().zip(&pages[3..]).for_each(|(place, page)| *place = page.0);
    let specification = Specification {
        name_key: KEY.0,
        control: pages[0].0,
        key_ring: pages[1].0,
        public: pages[2].0,
        root: root.0,
        area: 0x1000_0000,
        private_count: PRIVATE_PAGES_LEAST as u64,
        private,
        ..Specification::default()
    };
    // SAFETY: the kernel reads the specification; nothing maps the pages.
    let made = unsafe { syscall::environment_create(KEY, UserAddress(&raw const specification as u64)) };
    if made.is_err() {
        own.free_many(&pages);
    }
    Ok((made?, pages))
}

/// Makes environments until that is refused.
extern "C" fn fill_the_table(_: u64) {
    let Ok(space) = AddressSpace::create(Allocator::own()) else { return };
    let refusal = loop {
        match make_smallest(space.root) {
            Ok(_) => Area::current().status(DONE).fetch_add(1, SeqCst),
            Err(failure) => break failure,
        };
    };
    Area::current().status(REFUSED).store(refusal.error as u64 + 1, SeqCst);
    loop {
        time_slice::yield_now();
    }
}

/// A hog takes every environment that it may have. Its creator gave it all but one and takes that one; the next
/// creation finds the table full.
fn fault_48_full_table(world: &World) -> Outcome {
    let before = Audit::take()?;
    let slots = exposed::kernel().environments.load(SeqCst);
    let hog = {
        let mut builder = prepare(world, fill_the_table, 0)?;
        builder.budget(Resource::Environment, 0).budget(Resource::Page, slots * 8 + 512);
        granted!(builder.create())
    };
    let rest = slots - living() as u64 - 1;
    let give = Figure::Limit as u64;
    granted!(syscall::budget_move(KEY, area::number(), hog.number, Resource::Environment as u64, give, rest));
    granted!(hog.run(0, time_slice::ANY_POSITION));
    check!(eventually(|| status(&hog, REFUSED) != 0), "the hog is not refused, after {}", status(&hog, DONE));
    check!(status(&hog, DONE) == rest, "the hog made {} of {rest}", status(&hog, DONE));
    check!(status(&hog, REFUSED) == Error::OverBudget as u64 + 1, "it was told {}", status(&hog, REFUSED));
    let space = granted!(AddressSpace::create(Allocator::own()));
    let (last, pages) = granted!(make_smallest(space.root));
    check!(living() as u64 == slots, "{} of {slots} slots are taken", living());
    refused!(make_smallest(space.root), Exhausted);
    world.still_whole()?;
    while syscall::environment_destroy(KEY, last).is_err_and(|failure| failure.error == Error::Again) {}
    check!(Allocator::own().free_many(&pages) == pages.len(), "not all its pages came back");
    granted!(Allocator::own().free(space.root));
    granted!(hog.destroy());
    before.is_the_same("after a full table")
}
