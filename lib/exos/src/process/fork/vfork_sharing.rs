//! `vfork`: the parent waits until its child runs another program or has ended, and finds in its memory what the child
//! wrote there (vfork(2), `clone` with CLONE_VFORK and CLONE_VM).
//!
//! The child is a process like any other, with ExOS's data and page tables of its own. The child of a process with one
//! thread finds in its tables the very pages of its parent, to write them where its parent could. Pages that the parent
//! could not write either, or does not have yet, become the child's own when it writes them. So do all pages of a
//! process with more threads. Only the two of them could see that such pages are not shared, and a journal of the
//! child's writes makes up for it. The thread that made the child does not run meanwhile, and before it resumes the
//! bytes that the child changed are copied into its memory. They come through a window that both have open: the child
//! fills it, the parent empties it, as often as it takes.

use crate::descriptor::exported_pages;
use crate::hw::mapping::Mapping;
use crate::hw::usercopy;
use crate::process::current::process;
use crate::process::process_record::Process;
use crate::wait;
use abi::environment::State;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::Result;
use linux_raw_sys::general as linux;
use runtime::predicate::{Operator, Term, word, word_masked};
use runtime::{EnvironmentId, PageNumber, exposed};
use unix_core::process::run_state as state;
use unix_core::signal::set::bit;
use vm::write_log::Change;

/// Pages of the window: changes are few where the pages themselves are lent.
const PAGES: usize = 1;
/// Words of its head: whose turn it is, and how many bytes of changes there are.
const TURN: usize = 0;
const BYTES: usize = 1;
/// Where changes begin, each as address, number of bytes, bytes.
const BODY: u64 = 16;
const ROOM: usize = PAGES * PAGE_SIZE as usize - BODY as usize;
const HEAD: usize = 16;

/// Values of the word [`TURN`].
mod turn {
    /// The child's.
    pub(in crate::process) const CHILD: u64 = 0;
    /// The parent's: there are changes.
    pub(in crate::process) const PARENT: u64 = 1;
    /// The child has no need of its parent's memory any more, and the window has no user.
    pub(in crate::process) const OVER: u64 = 2;
}

/// The memory that a child borrows.
#[derive(Clone, Debug)]
pub struct SharedMemoryLink {
    window: Mapping,
    /// Whether what the child writes goes back.
    shares: bool,
}

impl SharedMemoryLink {
    /// Where the window lies that what was changed comes through.
    pub const fn window_address(&self) -> u64 {
        self.window.address()
    }

    /// One for a child that is about to be made; `shares`: what it writes goes back.
    pub fn new(shares: bool) -> Result<Self> {
        let process = process();
        exported_pages::reclaim_unused();
        let pages: Vec<PageNumber> =
            (0..PAGES).map(|_| crate::budget::allocate()).collect::<core::result::Result<_, _>>()?;
        Ok(Self { window: process.mappings.lock().open(pages, process.session_key, true)?, shares })
    }

    /// Whether what the child writes goes back.
    pub fn shares(&self) -> bool {
        self.shares
    }

    /// Waits until the child gives the memory back, ends, or this process is to end.
    pub fn wait(&self, child: EnvironmentId) {
        let process = process();
        let mailbox = process.signal.page;
        let killed = bit(linux::SIGKILL);
        loop {
            match self.turn().load(Acquire) {
                turn::CHILD => {}
                turn::PARENT => {
                    self.apply_writes();
                    self.turn().store(turn::CHILD, Release);
                    wait::kick_idle();
                }
                _ => return,
            }
            let ends =
                process.signal.stopped.load(Acquire) >= state::ENDS || mailbox.signals().load(Acquire) & killed != 0;
            let Some(over) = end_of(child).filter(|_| !ends) else { return };
            wait::wait_stopped(&mut [
                over,
                word(self.turn(), Operator::NotEqual, turn::CHILD),
                word(&process.signal.stopped, Operator::GreaterOrEqual, state::ENDS),
                word_masked(mailbox.signals(), killed, Operator::NotEqual, 0),
            ]);
        }
    }

    /// The parent has done with it.
    pub fn close(&self) {
        exported_pages::unmap_and_export(&self.window);
    }

    fn turn(&self) -> &'static AtomicU64 {
        &self.window.words()[TURN]
    }

    /// Brings what the child changed into the own memory. Where the child tells nonsense its changes end.
    fn apply_writes(&self) {
        let end = BODY + self.window.words()[BYTES].load(Acquire).min(ROOM as u64);
        let mut at = BODY;
        while at + HEAD as u64 <= end {
            let mut head = [0; HEAD];
            if self.window.read(at, &mut head).is_err() {
                return;
            }
            let [address, length] =
                [0, 8].map(|from| u64::from_le_bytes(core::array::from_fn(|byte| head[from + byte])));
            at += HEAD as u64;
            if length > end - at {
                return;
            }
            let mut bytes = vec![0; length as usize];
            // The parent does not miss what it has unmapped meanwhile.
            let _ = self.window.read(at, &mut bytes).and_then(|()| usercopy::write(address, &bytes));
            at += length;
        }
    }

    /// The child tells of its changes, as many at a time as there is room for.
    fn send_writes(&self, changes: &[Change]) {
        let parent = EnvironmentId(process().signal.parent.load(Acquire));
        let mut body = Vec::new();
        for change in changes {
            for (bytes, address) in change.bytes.chunks(ROOM - HEAD).zip((change.address..).step_by(ROOM - HEAD)) {
                if body.len() + HEAD + bytes.len() > ROOM {
                    self.give(&body, parent);
                    body.clear();
                }
                body.extend_from_slice(&address.to_le_bytes());
                body.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                body.extend_from_slice(bytes);
            }
        }
        if !body.is_empty() {
            self.give(&body, parent);
        }
    }

    fn give(&self, body: &[u8], parent: EnvironmentId) {
        let _ = self.window.write(BODY, body);
        self.window.words()[BYTES].store(body.len() as u64, Release);
        self.turn().store(turn::PARENT, SeqCst);
        wait::kick_idle();
        while self.turn().load(Acquire) == turn::PARENT {
            let Some(over) = end_of(parent) else { return };
            wait::wait_stopped(&mut [over, word(self.turn(), Operator::NotEqual, turn::PARENT)]);
        }
    }
}

/// What becomes true when an environment ends; nothing where it has.
fn end_of(environment: EnvironmentId) -> Option<Term> {
    let info = exposed::environment(environment).filter(|info| info.alive())?;
    Some(word(info.state_word(), Operator::NotEqual, State::Alive as u64))
}

/// A child begins, on its parent's memory or on its own.
pub fn begin(process: &Process, loan: &Option<SharedMemoryLink>) {
    process.memory.lock().space.keep_journal(loan.as_ref().is_some_and(|loan| loan.shares));
    process.vfork_link.lock().clone_from(loan);
}

/// The child has no need of its parent's memory any more: the parent resumes.
pub fn end(process: &Process) {
    let loan = process.vfork_link.lock().take();
    let Some(loan) = loan else { return };
    let changes = process.with_memory(|space, pages| space.end_journal(pages));
    loan.send_writes(&changes);
    loan.turn().store(turn::OVER, SeqCst);
    wait::kick_idle();
    process.mappings.lock().close(&loan.window);
}
