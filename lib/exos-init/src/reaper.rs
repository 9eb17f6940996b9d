//! Orphans: processes whose parent has ended, and threads whose process has. The session takes back what they were made
//! of. What the dead held of the server's it is told to let go.
//!
//! Strangers wrote their public pages. If a process says falsely that it has no parent, the session reaps it instead.
//! The parent still finds the status in the public page that it has mapped. Only what has died already is
//! touched, but for threads: they end with their process, as they would by themselves.

use crate::maimed;
use crate::setuid_spawner::SetuidSpawner;
use abi::budget::{Figure, Resource};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use exos::process::environment::{self, EnvironmentRef, PublicPage};
use exos::process::exit::reclaim::{self, DeadAccessList, still_present};
use exos::server::client::Client;
use runtime::address_space::Access;
use runtime::exposed::{self, Environment};
use runtime::page::Allocator;
use runtime::window::Window;
use runtime::{EnvironmentId, KeyIndex, PageNumber, clock, syscall};
use unix_core::process::public_page as public;

/// An environment that only the session takes care of.
enum Orphan {
    /// A process.
    Process(EnvironmentRef),
    /// What was to be a child of a process that is gone.
    Unborn(EnvironmentRef),
    /// A thread of a process that is gone.
    Thread(EnvironmentId),
}

/// Nanoseconds between two looks for orphans.
const INTERVAL: u64 = 200_000_000;
/// Orphans whose end is seen at once; that of others is seen by the next look.
const WATCHED: usize = 8;

/// What was seen by the last look.
pub(super) struct Orphans {
    /// What orphans might use goes to this environment.
    bank: EnvironmentId,
    server: Client,
    alive: Vec<EnvironmentId>,
    next: u64,
    /// Sums of the numbers of all environments that were ever made and not replaced, and of those that lived. They
    /// differ after each death, whether the dead one had been seen alive or not.
    population: (u64, u64),
}

impl Orphans {
    /// Nothing was seen yet.
    pub(super) fn new(bank: EnvironmentId, server: EnvironmentId) -> Self {
        Self { bank, server: Client::new(server), alive: Vec::new(), next: 0, population: (0, 0) }
    }

    /// Those whose end is worth a look.
    pub(super) fn watched(&self) -> impl Iterator<Item = EnvironmentId> {
        self.alive.iter().copied().take(WATCHED)
    }

    /// When to look next whatever happens, in nanoseconds since boot.
    pub(super) const fn next_look(&self) -> u64 {
        self.next
    }

    /// The next look is due now.
    pub(super) const fn look_at_once(&mut self) {
        self.next = 0;
    }

    /// If it is time: reaps orphans that have ended, and records those that live. The result is the processes that lost
    /// an environment to the kernel, each once or more.
    pub(super) fn poll(&mut self, successors: &mut SetuidSpawner) -> Vec<EnvironmentId> {
        if !successors.note_dead() && self.watched().all(exposed::lives) && clock::now() < self.next {
            return Vec::new();
        }
        let (mut lost, mut threads) = (Vec::new(), Vec::new());
        self.alive.clear();
        let mut graves = Vec::new();
        let mut population = (0u64, 0u64);
        let slots = 0..exposed::kernel().environments.load(Acquire);
        for info in slots.filter_map(exposed::environment_slot) {
            let number = info.number.load(Acquire);
            population.0 = population.0.wrapping_add(number);
            population.1 = population.1.wrapping_add(if info.alive() { number } else { 0 });
            lost.extend(maimed::process_of(info, OWN));
            match orphan(info, successors) {
                Some(Orphan::Process(made)) if info.alive() => self.alive.push(made.number),
                // What was not born does not end by itself.
                Some(Orphan::Process(made) | Orphan::Unborn(made)) => {
                    graves.extend(DeadAccessList::pin(&made, OWN));
                    release(info, &made, self.bank);
                }
                Some(Orphan::Thread(number)) => threads.push(number),
                None => {}
            }
        }
        // The enforcer looks at the threads of a process that lost its first one.
        let is_lost = |thread: &EnvironmentId| lost.iter().any(|process| shares_root(*process, *thread));
        threads.iter().filter(|thread| !is_lost(thread)).for_each(|thread| environment::release(*thread, OWN));
        free(&graves);
        if core::mem::replace(&mut self.population, population) != population {
            self.server.bury_the_dead();
        }
        self.next = clock::now() + INTERVAL;
        lost
    }
}

/// The session's own key opens everything in it.
const OWN: KeyIndex = KeyIndex::FIRST;

fn orphan(info: Environment, successors: &SetuidSpawner) -> Option<Orphan> {
    if !info.remains() {
        return None;
    }
    let number = EnvironmentId(info.number.load(Acquire));
    let page = PageNumber(info.public.load(Acquire));
    let window = Window::open(&[page], OWN, Access::READ).ok()?;
    let word = |index: usize| window.words()[index].load(Acquire);
    let belongs_to = EnvironmentId(word(public::PROCESS));
    if belongs_to != EnvironmentId::NONE {
        return (!exposed::lives(belongs_to)).then_some(Orphan::Thread(number));
    }
    let magic = word(public::MAGIC);
    let (is_process, is_unborn) = (magic == public::MAGIC_VALUE, magic == public::MAGIC_READY);
    // Only the session takes care of a successor environment.
    let has_parent = exposed::lives(EnvironmentId(word(public::PARENT))) && !successors.has(number);
    if word(public::MAGIC) != magic {
        // Its parent is making the next child of it.
        return None;
    }
    // Another session's mailboxes are closed to this one, and its orphans not this one's affair.
    let is_ours = || Window::open(&[PageNumber(word(public::MAILBOX))], OWN, Access::READ).is_ok();
    let list = exposed::page(PageNumber(info.root.load(Acquire)))?.access();
    let made = EnvironmentRef { number, public: page, list };
    // An environment without a slice was introduced, and never ran: its parent was destroyed in between.
    let may_run = info.budget[Resource::Slice as usize].used.load(Acquire) != 0 || successors.has(number);
    match has_parent {
        false if is_process && may_run && is_ours() => Some(Orphan::Process(made)),
        false if is_process && is_ours() => Some(Orphan::Unborn(made)),
        // Its list is open to its own session only, so that another one's stays.
        false if is_unborn => Some(Orphan::Unborn(made)),
        _ => None,
    }
}

/// Whether two environments have one address space.
fn shares_root(one: EnvironmentId, other: EnvironmentId) -> bool {
    let root = |number| exposed::environment(number).map(|info| info.root.load(Acquire));
    root(one).is_some() && root(one) == root(other)
}

/// Destroys it; what it might use has gone to its kernel heir, and from there goes to the bank.
fn release(info: Environment, made: &EnvironmentRef, bank: EnvironmentId) {
    let heir = EnvironmentId(info.creator.load(Relaxed));
    let limits = Resource::ALL.map(|resource| (resource, info.budget[resource as usize].limit.load(Relaxed)));
    // As long as it is mapped here it is no other page, even if the environment that it is charged to ends.
    let held = Window::open(&[made.public], OWN, Access::READ).ok().filter(|_| still_present(made));
    let public = held.as_ref().map(|_| PublicPage::of(made.public));
    environment::release(made.number, OWN);
    public.into_iter().for_each(|public| public.free(OWN));
    for (resource, amount) in limits.into_iter().filter(|(_, amount)| *amount > 0) {
        // An heir that uses what it got keeps it, until its own end.
        let _ = syscall::budget_move(OWN, heir, bank, resource as u64, Figure::Limit as u64, amount);
    }
}

/// Frees all pages under the lists of the dead, and the lists: their makers, who would know them, are gone. Heirs of
/// these may end while all pages are looked through.
fn free(graves: &[DeadAccessList]) {
    if graves.is_empty() {
        return;
    }
    let is_kept = |page: PageNumber| graves.iter().any(|grave| grave.keeps(page));
    // What was given up already is freed with its last use.
    let is_theirs = |info: exposed::Page| !info.is_orphan() && graves.iter().any(|grave| grave.holds(&info));
    let pages = (0..exposed::kernel().pages.load(Relaxed)).map(PageNumber);
    reclaim::close(graves, OWN, |key| {
        let theirs = pages.filter(|page| exposed::page(*page).is_some_and(is_theirs) && !is_kept(*page));
        Allocator { key, list: PageNumber::NONE }.free_each(theirs);
    });
}
