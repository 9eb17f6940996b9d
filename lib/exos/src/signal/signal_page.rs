//! The mailbox of a process, and how it is written from elsewhere.

use crate::hw::current::is_adopted;
use crate::hw::mapping::{Mapping, PAGE_WORDS};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::address_space::Access;
use runtime::window::Window;
use runtime::{EnvironmentId, KeyIndex, PageNumber, clock, exposed, syscall};
use unix_core::signal::frame::Information;
use unix_core::signal::pending::{PENDING, PendingSignals, is_refused_without_room};

/// Event bit that says: look into the mailbox.
pub const EVENT_SIGNAL: u64 = 1;

const MILLISECOND: u64 = 1_000_000;

const CHILDREN: usize = 1;
const FLAGS: usize = 2;
/// Word of the process group: written by the process and by its parent, as `setpgid` allows.
pub const GROUP: usize = 3;
/// Word that is not 0 where the server has questions of others for the owner.
const QUESTIONS: usize = 6;
/// Flag: the owner does not want to hear of children that stop or go on.
const NO_STOPS: u64 = 1;
/// Flag: the owner does not wait for children that end.
const FORGETS: u64 = 2;

/// A mailbox, one's own or another's.
#[derive(Clone, Debug)]
pub struct Mailbox {
    page: Mapping,
}

/// What lies in a mailbox. The window of one's own stays where it is for as long as the process lives, so that its
/// words are found without a lock.
#[derive(Clone, Copy, Debug)]
pub struct SignalPage(&'static [AtomicU64; PAGE_WORDS]);

impl Mailbox {
    /// The one that lies in a window.
    pub const fn new(page: Mapping) -> Self {
        Self { page }
    }

    /// The window it lies in.
    pub const fn window(&self) -> &Mapping {
        &self.page
    }

    /// What lies in it.
    pub fn letters(&self) -> SignalPage {
        SignalPage(self.page.first_page())
    }
}

impl SignalPage {
    /// The signals in it.
    #[inline]
    pub fn post(self) -> PendingSignals<'static> {
        PendingSignals::new(self.0)
    }

    /// Signals that came and were not taken out, as a set.
    #[inline]
    pub fn signals(self) -> &'static AtomicU64 {
        &self.0[PENDING]
    }

    /// A count that grows whenever something happened to a child.
    pub fn children(self) -> &'static AtomicU64 {
        &self.0[CHILDREN]
    }

    /// The process group.
    pub fn group(self) -> &'static AtomicU64 {
        &self.0[GROUP]
    }

    /// Not 0: others ask something, as the server knows.
    #[inline]
    pub fn questions(self) -> &'static AtomicU64 {
        &self.0[QUESTIONS]
    }

    /// Says whether the owner wants to hear of children that stop or go on, and whether it waits for those that end.
    pub fn set_wants(self, stops: bool, ends: bool) {
        let [stops, ends] = [if stops { 0 } else { NO_STOPS }, if ends { 0 } else { FORGETS }];
        self.0[FLAGS].store(stops | ends, SeqCst);
    }

    /// Whether the owner does not wait for children that end now.
    pub fn forgets_children(self) -> bool {
        self.0[FLAGS].load(Acquire) & FORGETS != 0
    }

    /// Tells a parent that something happened to a child; `code` as in `siginfo`.
    pub fn tell_of_child(self, information: &Information) {
        tell_of_child(self.0, information);
    }
}

/// Tells the parent whose mailbox this is that something happened to a child.
fn tell_of_child(mailbox: &[AtomicU64], information: &Information) {
    let stops = matches!(information.code as u32, linux::CLD_STOPPED | linux::CLD_CONTINUED);
    mailbox[CHILDREN].fetch_add(1, SeqCst);
    if information.signal != 0 && !(stops && mailbox[FLAGS].load(Acquire) & NO_STOPS != 0) {
        let _ = PendingSignals::new(mailbox).put(information);
    }
}

/// Whether the process whose mailbox is `page` does not wait for children that end now.
pub fn forgets_children(key: KeyIndex, page: PageNumber) -> bool {
    Window::open(&[page], key, Access::READ).is_ok_and(|window| window.words()[FLAGS].load(Acquire) & FORGETS != 0)
}

/// Tells the process `target`, whose mailbox is `page`, that something happened to a child of it.
pub fn send_of_child(key: KeyIndex, target: EnvironmentId, page: PageNumber, information: &Information) -> Result<()> {
    tell_of_child(Window::open(&[page], key, Access::WRITE)?.words(), information);
    ring(key, target)
}

/// Sends a signal to the process `target` whose mailbox is `page`: into it, then an event so that it looks.
pub fn send(key: KeyIndex, target: EnvironmentId, page: PageNumber, information: &Information) -> Result<()> {
    let window = Window::open(&[page], key, Access::WRITE).map_err(|_| Errno::EPERM)?;
    let words = PendingSignals::new(window.words());
    if words.has_room_for(information) == Err(Errno::ENOBUFS) {
        wait_for_room(key, target, window.words(), information);
    }
    let outcome = words.put(information);
    drop(window);
    match ring(key, target) {
        // It found the signal before the event came, and it was its end.
        Err(Errno::ESRCH) => {}
        outcome => outcome?,
    }
    // A full queue is the sender's affair only where it asked for queueing.
    if is_refused_without_room(information.code) { outcome } else { Ok(()) }
}

/// Asks a receiver to move its queued signals into its second queue, and waits until there is room. The server only
/// asks: its caller sends again.
fn wait_for_room(key: KeyIndex, target: EnvironmentId, mailbox: &[AtomicU64], information: &Information) {
    const LONGEST: u64 = 100 * MILLISECOND;
    let until = clock::now() + LONGEST;
    mailbox[QUESTIONS].store(1, SeqCst);
    while ring(key, target).is_ok() && is_adopted() && clock::now() < until {
        if PendingSignals::new(mailbox).has_room_for(information) != Err(Errno::ENOBUFS) {
            return;
        }
        // The receiver may wait for room here.
        super::answer_questions();
        if crate::wait::wait(&[], Some(clock::now() + MILLISECOND)).is_err() {
            crate::wait::yield_now();
        }
    }
}

/// Tells the process `target`, whose mailbox is `page`, that the server has a question for it.
pub fn send_of_question(key: KeyIndex, target: EnvironmentId, page: PageNumber) -> Result<()> {
    Window::open(&[page], key, Access::WRITE)?.words()[QUESTIONS].store(1, SeqCst);
    ring(key, target)
}

/// Makes a process look into its mailbox.
pub fn ring(key: KeyIndex, target: EnvironmentId) -> Result<()> {
    crate::wait::kick_idle();
    match syscall::event_raise(key, target, EVENT_SIGNAL) {
        Ok(()) => Ok(()),
        Err(_) if !exposed::lives(target) => Err(Errno::ESRCH),
        Err(failure) => Err(failure.into()),
    }
}
