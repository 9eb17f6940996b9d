//! The state that only the kernel sees, under the one lock, and what every noun needs of it.

use crate::channel::Channel;
use crate::cost;
use crate::packet_filter::Network;
use crate::processor::Processor;
use crate::storage::Storage;
use abi::capability::{FIRST_FRESH, Rights};
use abi::limits::CPUS;
use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber};
use core::cell::Cell;
use machine::lock::{Guard, TurnLock};
use machine::memory::Memory;
use machine::user::{CopyError, UserFault};

/// All of it.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Typed access to pages.
    pub(crate) memory: Memory,
    /// The next component of a name that no environment has.
    pub(crate) fresh: u64,
    /// Slice vectors and what each CPU does.
    pub(crate) processors: [Processor; CPUS],
    /// CPUs that passed over an environment running on another CPU, or found one asleep that was roused on another, as
    /// bits. They look again when an environment stops running.
    pub(crate) passed_over: u64,
    /// First and last slot of the environment table that wait to be used, each plus one; 0: none.
    pub(crate) free_slots: (u64, u64),
    /// The search for the environment furthest above its reservation.
    pub(crate) search: crate::revocation::Search,
    /// Until then free pages are only for environments below their reservation: another one was asked for them. 0: no
    /// shortage.
    pub(crate) short_until: u64,
    /// First page of the free list, and how many it has, when a walk through its beginning found all pages zeroed.
    pub(crate) zeroed_list: [u64; 2],
    /// Work done in this entry, in units of some 40 instructions: see [`Kernel::spend`].
    pub(crate) work: Cell<u32>,
    /// An event for which the caller must be stopped before it resumes.
    pub(crate) attention: Cell<bool>,
    /// Changes whenever a right may have been lost.
    pub(crate) authority: Cell<u64>,
    /// The last answers of [`Kernel::rights_on_list`] and [`Kernel::root`].
    pub(crate) last_rights: [Cell<Answer>; LISTS_REMEMBERED],
    pub(crate) last_root: Cell<Answer>,
    /// The host channel.
    pub(crate) channel: Channel,
    /// Filters and what classifies frames, where the machine has a network.
    pub(crate) network: Option<&'static mut Network>,
    /// Frames and the open volume, where the machine has a disk.
    pub(crate) storage: Option<&'static mut Storage>,
}

/// Answers about access lists that are remembered, each in the place that key and list say: a library uses two keys on
/// its own list in turn.
pub(crate) const LISTS_REMEMBERED: usize = 64;

/// The asking environment, its key, the list or root, and when ([`Kernel::authority`]).
type Question = (EnvironmentId, KeyIndex, PageNumber, u64);

/// What a key of an environment gave, for as long as no right was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    question: Question,
    rights: Rights,
}

impl Answer {
    /// The rights, if the caller asked and no right was lost since: while `authority` is what it was.
    #[inline(always)]
    pub(crate) fn holds(&self, authority: u64) -> Option<Rights> {
        let (caller, _, _, asked) = self.question;
        (caller == caller_number() && asked == authority).then_some(self.rights)
    }

    /// The key and the page that it is about.
    #[inline(always)]
    pub(crate) fn about(&self) -> (KeyIndex, PageNumber) {
        let (_, key, page, _) = self.question;
        (key, page)
    }
}

impl Kernel {
    /// The remembered answer, if it is one to this question and still holds.
    #[inline(always)]
    pub(crate) fn remembered(&self, answer: &Cell<Answer>, key: KeyIndex, page: PageNumber) -> Option<Rights> {
        answer.get().holds(self.authority.get()).filter(|_| answer.get().about() == (key, page))
    }

    /// Where the last answer about a key and an access list is remembered.
    #[inline]
    pub(crate) fn last_rights_of(&self, key: KeyIndex, list: PageNumber) -> &Cell<Answer> {
        // Lists lie near one another, and keys are few: those of one list lie far apart.
        &self.last_rights[(list.0 ^ key.0 << 3) as usize % LISTS_REMEMBERED]
    }

    /// Remembers an answer.
    pub(crate) fn remember(&self, answer: &Cell<Answer>, key: KeyIndex, page: PageNumber, rights: Rights) {
        answer.set(Answer { question: (caller_number(), key, page, self.authority.get()), rights });
    }

    /// A right to what a list names may have been lost.
    pub(crate) fn forget_list(&self, list: PageNumber) {
        self.forget_answers(|(_, _, about, _)| *about == list);
    }

    /// An environment has lost a key.
    pub(crate) fn forget_key(&self, owner: EnvironmentId, key: KeyIndex) {
        self.forget_answers(|(asker, by, _, _)| *by == key && *asker == owner);
    }

    /// Forgets answers about lists that may hold no more, and all that was remembered of roots and entries because of
    /// them.
    #[inline(always)]
    fn forget_answers(&self, is_lost: impl Fn(&Question) -> bool) {
        let lost = self.last_rights.iter().filter(|answer| is_lost(&answer.get().question));
        lost.for_each(|answer| answer.set(Answer::default()));
        self.last_root.set(Answer::default());
        machine::map_few::forget();
    }

    /// A right may have been lost: what was remembered holds no more.
    pub(crate) fn forget(&self) {
        self.authority.set(self.authority.get() + 1);
        machine::map_few::forget();
    }
}

#[inline(always)]
fn caller_number() -> EnvironmentId {
    machine::entry::current().map_or(EnvironmentId::NONE, machine::context::Context::number)
}

static KERNEL: TurnLock<Option<Kernel>> = TurnLock::new(None);

/// Holding the lock.
pub(crate) struct Locked(Guard<'static, Kernel>);

impl core::ops::Deref for Locked {
    type Target = Kernel;
    #[inline(always)]
    fn deref(&self) -> &Kernel {
        &self.0
    }
}

impl core::ops::DerefMut for Locked {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Kernel {
        &mut self.0
    }
}

/// Takes the lock, at the beginning of an entry.
#[inline]
pub(crate) fn lock() -> Locked {
    let locked = Locked(KERNEL.lock().expect_some());
    locked.work.set(0);
    locked.attention.set(false);
    locked
}

/// Makes the state, at boot, where it stays: it is too large to be handed on from stack to stack.
#[inline(never)]
pub(crate) fn make(memory: Memory, network: Option<&'static mut Network>, storage: Option<&'static mut Storage>) {
    *KERNEL.lock() = Some(Kernel {
        memory,
        fresh: FIRST_FRESH,
        processors: core::array::from_fn(|_| Processor::new()),
        free_slots: (0, 0),
        passed_over: 0,
        search: Default::default(),
        short_until: 0,
        zeroed_list: [0; 2],
        work: Cell::new(0),
        attention: Cell::new(false),
        authority: Cell::new(1),
        last_rights: core::array::from_fn(|_| Cell::default()),
        last_root: Cell::default(),
        channel: Channel::new(),
        network,
        storage,
    });
}

impl Kernel {
    /// Counts work that a caller's input can multiply.
    pub(crate) fn spend(&self, units: u32) {
        self.work.set(self.work.get() + units);
    }

    /// Units of work that this entry may still do.
    pub(crate) fn work_left(&self) -> u32 {
        cost::ENTRY.saturating_sub(self.work.get())
    }

    /// Whether this entry can do so much more and still stay within its bound.
    pub(crate) fn has_room_for(&self, units: u32) -> bool {
        // Most callers name a constant: the compiler subtracts it.
        cost::ENTRY_MOST.checked_sub(units).is_some_and(|most| self.work.get() <= most)
    }

    /// Whether this entry has done enough: what is left is for the next call.
    pub(crate) fn is_spent(&self) -> bool {
        self.work.get() >= cost::ENTRY
    }
}

/// Why a call ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A refusal: a code for the caller.
    Refused(Failure),
    /// A fault in the caller's own memory: an upcall, and the call can be made again.
    Fault(UserFault),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}

/// What a call body returns.
pub(crate) type Outcome<T> = Result<T, Stop>;

/// Turns a failed copy into what the caller gets.
pub(crate) fn copied<T>(copy: Result<T, CopyError>, address: abi::UserAddress) -> Outcome<T> {
    copy.map_err(|error| match error {
        CopyError::OutOfRange => Error::BadAddress.about(address.0).into(),
        CopyError::Fault(fault) => Stop::Fault(fault),
    })
}

/// A refusal, ready to be returned.
pub(crate) fn refuse<T>(error: Error, detail: u64) -> Outcome<T> {
    Err(error.about(detail).into())
}
