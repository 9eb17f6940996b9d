//! Destruction: from any state, in bounded steps, until nothing of the environment is left but the record of its death.
//!
//! At once it never runs again. Then the callers of `environment_destroy` drive the rest, a step a call. First go
//! slices, filters and predicate; then children, which pass to its creator; then the address space, unless another
//! environment runs in it. The pages charged to it follow; and last its own pages, which go back to their owner. Its
//! heir, the creator, gets its budget and the charge for what is still in use. What is left then is a zombie: its slot,
//! by whose number it is still found, its public page and its root. The next call releases them (doc/decision/0044).

use crate::budget;
use crate::cost;
use crate::environment::{Environment, first_page};
use crate::kernel::{Kernel, Outcome, Stop, refuse};
use crate::page::wake_watchers;
use abi::area::PUBLIC_STATUS;
use abi::budget::Resource;
use abi::capability::Rights;
use abi::environment::{DeathReason, State};
use abi::limits::SLICES_PER_CPU;
use abi::page::PageKind;
use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber};
use core::sync::atomic::Ordering;
use machine::context::{Program, Undeliverable};
use machine::page_table::{ROOT_LEVEL, links};
use machine::{clock, exposed, memory, tlb};

/// Children or pages that one step releases.
const PER_STEP: usize = 8;

/// Private pages that one step releases: each is filled with zeros.
const PRIVATE_PER_STEP: usize = 4;

/// Records of slices that one step looks at.
const SLICES_PER_STEP: usize = 256;

/// How far the destruction of an environment has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Filters, predicate and requests are still there.
    Filters,
    /// Slices from this one on are still there, counted through all CPUs.
    Slices(usize),
    /// Children are still there.
    Children,
    /// Some of the address space is still there.
    AddressSpace,
    /// Pages charged to it are still there.
    Pages,
    /// The private pages of its area from this one on are still there.
    Private(usize),
    /// The rest of its own pages is still there.
    Own,
}

/// Makes `creator` the creator of an environment.
pub(crate) fn adopt(creator: Environment, child: Environment) {
    let first = creator.info().first_child.swap(child.slot() as u64 + 1, Ordering::AcqRel);
    child.info().creator.store(creator.number().0, Ordering::Release);
    child.info().siblings.store(first, Ordering::Release);
    if first != 0 {
        set_previous(Environment::in_slot(first as usize - 1), child.slot() as u64 + 1);
    }
}

fn set_previous(child: Environment, previous: u64) {
    let siblings = &child.info().siblings;
    siblings.store(siblings.load(Ordering::Relaxed) & 0xffff_ffff | previous << 32, Ordering::Release);
}

/// Takes a child out of its creator's list.
fn disown(creator: Environment, child: Environment) {
    let word = child.info().siblings.load(Ordering::Relaxed);
    let (next, previous) = (word & 0xffff_ffff, word >> 32);
    match previous {
        0 => creator.info().first_child.store(next, Ordering::Release),
        previous => {
            let siblings = &Environment::in_slot(previous as usize - 1).info().siblings;
            siblings.store(siblings.load(Ordering::Relaxed) & !0xffff_ffff | next, Ordering::Release);
        }
    }
    if next != 0 {
        set_previous(Environment::in_slot(next as usize - 1), previous);
    }
}

impl Kernel {
    /// Destroys an environment, or resumes destroying it (see `abi::syscall`).
    pub(crate) fn destroy(&mut self, key: KeyIndex, number: EnvironmentId) -> Outcome<()> {
        let environment = self.remaining(number)?;
        let caller = self.caller();
        // Its creator is charged for it, whatever name it has.
        let is_creator = environment.info().creator.load(Ordering::Relaxed) == caller.number().0;
        if environment != caller && !is_creator {
            self.require(key, &environment.name(), Rights::OWN)?;
        }
        if environment.is(State::Zombie) {
            self.release_zombie(environment);
            return Ok(());
        }
        if environment.is(State::Alive) {
            // The caller can look now at what it leaves, its children before all.
            self.condemn(environment, DeathReason::Destroyed, [0; 3], caller);
            return refuse(Error::Again, 0);
        }
        // A transfer under way may have claimed it since the entry before.
        if !self.context_of(environment).condemn() {
            self.notify(environment);
            return refuse(Error::Again, 0);
        }
        while self.work_left() >= cost::DESTRUCTION_LEFT {
            self.spend(cost::DESTRUCTION_STEP);
            if self.destruction_step(environment) {
                break;
            }
        }
        refuse(Error::Again, 0)
    }

    /// From now on the environment never runs again. `facts` are upcall kind, address and RIP.
    pub(crate) fn condemn(&mut self, environment: Environment, reason: DeathReason, facts: [u64; 3], by: Environment) {
        self.attention.set(true);
        let now = clock::now();
        let by = by.number().0;
        environment.change(|info| {
            let words = [&info.death_kind, &info.death_address, &info.death_rip];
            words.iter().zip(facts).for_each(|(word, fact)| word.store(fact, Ordering::Relaxed));
            info.death_by.store(by, Ordering::Relaxed);
            info.death_time.store(now, Ordering::Relaxed);
            info.death_reason.store(reason as u64, Ordering::Release);
            info.state.store(State::Dying as u64, Ordering::Release);
        });
        let record = [environment.number().0, reason as u64, facts[0], facts[1], facts[2], by, now];
        const { assert!(7 * 8 <= PUBLIC_STATUS) };
        self.memory.write_public(PageNumber(environment.info().public.load(Ordering::Relaxed)), &record);
        let context = self.context_of(environment);
        if !context.condemn() && environment != self.running_here() {
            self.notify(environment);
        }
        crate::interrupt::wake_all_idle();
        if environment.info().creator.load(Ordering::Relaxed) == 0 {
            crate::boot::first_environment_died(environment);
        }
    }

    /// The environment that runs on this CPU; any other if none does.
    fn running_here(&self) -> Environment {
        machine::entry::current().map_or(Environment::in_slot(0), |context| Environment::numbered(context.number()))
    }

    /// The same, for an upcall that could not be delivered.
    pub(crate) fn condemn_for(
        &mut self,
        environment: Environment,
        failure: Undeliverable,
        kind: u64,
        program: Program,
    ) {
        let (reason, address) = match failure {
            Undeliverable::StackOverflow if kind == abi::upcall::kind::PAGE_FAULT => {
                (DeathReason::UpcallStackOverflow, machine::cpu_control::read_cr2())
            }
            Undeliverable::StackOverflow => (DeathReason::UpcallStackOverflow, program.rsp),
            Undeliverable::BadEntry(entry) => (DeathReason::BadEntry, entry),
        };
        self.condemn(environment, reason, [kind, address, program.rip], environment);
    }

    /// One step; true when it is a zombie. It runs nowhere.
    pub(crate) fn destruction_step(&mut self, environment: Environment) -> bool {
        let progress = self.secrets(environment).destruction;
        let next = match progress {
            Progress::Filters => self.release_waits(environment),
            Progress::Slices(cpu) => self.release_slices(environment, cpu),
            Progress::Children => self.release_children(environment),
            Progress::AddressSpace => self.release_address_space(environment),
            Progress::Pages => self.release_pages(environment),
            Progress::Private(from) => self.release_private(environment, from),
            Progress::Own => {
                self.release_own(environment);
                return true;
            }
        };
        self.secrets_mut(environment).destruction = next;
        false
    }

    pub(crate) fn heir(&self, environment: Environment) -> Environment {
        Environment::numbered(EnvironmentId(environment.info().creator.load(Ordering::Relaxed)))
    }

    /// Releases the next slice, or finds none among the next records.
    fn release_slices(&mut self, environment: Environment, from: usize) -> Progress {
        let (cpu, first) = (from / SLICES_PER_CPU, from % SLICES_PER_CPU);
        let used = environment.budget(Resource::Slice).used.load(Ordering::Relaxed);
        if cpu == exposed::cpu_count() || used == 0 {
            return Progress::Children;
        }
        let number = environment.number().0;
        let records = &exposed::slices(cpu)[first..SLICES_PER_CPU.min(first + SLICES_PER_STEP)];
        let found = records.iter().position(|info| info.owner.load(Ordering::Relaxed) == number);
        let looked_at = found.map_or(records.len(), |index| index + 1);
        self.spend(cost::SLICE_RELEASE + (looked_at / cost::SLICES_PER_UNIT) as u32);
        if let Some(index) = found {
            self.release_slice(environment, cpu, first + index);
        }
        Progress::Slices(from + looked_at)
    }

    fn release_waits(&mut self, environment: Environment) -> Progress {
        if self.release_filters(environment) {
            return Progress::Filters;
        }
        self.drop_predicate(environment);
        self.disown_requests(environment);
        Progress::Slices(0)
    }

    fn release_children(&mut self, environment: Environment) -> Progress {
        let heir = self.heir(environment);
        for _ in 0..PER_STEP {
            let child = environment.info().first_child.load(Ordering::Relaxed);
            if child == 0 {
                return Progress::AddressSpace;
            }
            self.spend(cost::CHILD_ADOPTED);
            let child = Environment::in_slot(child as usize - 1);
            disown(environment, child);
            adopt(heir, child);
            // The child may be gone before its creator is: the charge for it goes with it.
            budget::pass(environment, heir, Resource::Environment);
        }
        Progress::Children
    }

    /// The next piece of an address space that no other environment has.
    fn release_address_space(&mut self, environment: Environment) -> Progress {
        let root = self.context_of(environment).root();
        let is_shared = links(memory::info(root).expect("a root has a record")) > 1;
        if is_shared || !self.release_piece(root, ROOT_LEVEL) { Progress::Pages } else { Progress::AddressSpace }
    }

    /// Gives up the next pages that are charged to it; what cannot be given up goes to the heir.
    fn release_pages(&mut self, environment: Environment) -> Progress {
        let heir = self.heir(environment);
        for _ in 0..PER_STEP {
            let freed = self.free_first(environment, (self.work_left() / cost::PAGE_FREED) as usize);
            self.spend(freed as u32 * cost::PAGE_FREED);
            if self.work_left() < cost::PAGE_RELEASE_LEFT {
                break;
            }
            let Some(page) = first_page(environment) else { return Progress::Private(0) };
            self.spend(cost::PAGE_RELEASE);
            let info = memory::info(page).expect("a charged page has a record");
            let orphan = memory::state(info).flags & abi::page::ORPHAN != 0;
            // By number: a page that is free now has owner 0, and the environment may be the one in slot 0.
            let still_charged = || info.owner.load(Ordering::Relaxed) == environment.number().0;
            let given_up = if orphan { Ok(()) } else { self.give_up(page, info) };
            if let Err(Stop::Refused(Failure { error: Error::Again, .. })) = given_up {
                break;
            }
            if still_charged() {
                self.bequeath_page(page, environment, heir);
            }
        }
        Progress::Pages
    }

    /// Turns private pages of its area, from this one on, back into ordinary ones.
    fn release_private(&mut self, environment: Environment, from: usize) -> Progress {
        if from == 0 {
            // From here on no transfer finds it; one that has found it has failed when every CPU has left the kernel.
            machine::context::publish(environment.slot(), None);
            tlb::quiesce();
        }
        let secrets = self.secrets(environment);
        let (private, count) = (secrets.private, usize::from(secrets.private_count));
        let until = count.min(from + PRIVATE_PER_STEP);
        self.spend((until - from) as u32 * cost::PRIVATE_CLEAR);
        for page in &private[from..until] {
            self.dissolve_private(PageNumber(u64::from(*page)));
        }
        if until == count { Progress::Own } else { Progress::Private(until) }
    }

    /// Turns its control page and its key ring back into what they were, and itself into a zombie.
    fn release_own(&mut self, environment: Environment) {
        let info = environment.info();
        for page in [&info.control, &info.key_ring] {
            let page = PageNumber(page.swap(PageNumber::NONE.0, Ordering::AcqRel));
            self.memory.dissolve(page);
            self.settle(page);
        }
        budget::bequeath(environment, self.heir(environment));
        environment.change(|info| info.state.store(State::Zombie as u64, Ordering::Release));
        crate::interrupt::wake_all_idle();
    }

    /// Turns a zombie into a record, and its public page into an ordinary page. Its root is free for its owner.
    fn release_zombie(&mut self, environment: Environment) {
        let info = environment.info();
        self.memory.count_root(PageNumber(info.root.load(Ordering::Relaxed)), -1);
        self.memory.release_public(PageNumber(info.public.load(Ordering::Relaxed)));
        self.leave_record(environment);
    }

    /// Nothing of an environment is left but its record; its heir gets its budget.
    pub(crate) fn leave_record(&mut self, environment: Environment) {
        let heir = self.heir(environment);
        disown(heir, environment);
        budget::bequeath(environment, heir);
        budget::discharge(heir, Resource::Environment, 1);
        environment.change(|info| info.state.store(State::Dead as u64, Ordering::Release));
        self.give_slot(environment);
        crate::interrupt::wake_all_idle();
    }

    /// A private page becomes ordinary again; what another environment of the same address space still maps it to is
    /// gone.
    pub(crate) fn dissolve_private(&mut self, page: PageNumber) {
        let info = memory::info(page).expect("a private page has a record");
        assert_eq!(memory::state(info).kind, PageKind::EnvironmentPrivate);
        wake_watchers(info);
        self.memory.dissolve(page);
        self.settle(page);
    }
}
