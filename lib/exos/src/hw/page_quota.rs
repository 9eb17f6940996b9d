//! What the server may have of the machine's pages. The server draws from the bank as files grow and gives back as they
//! shrink. It keeps a reserve in addition to what files have, which processes cannot take, so that it can always
//! answer.
//!
//! Invariant: files leave the reserve alone. The server's other data (names, windows, locks) may use the reserve, as
//! long as half of it is there. From then on the server refuses to keep more, until there is memory again.

use super::bank::{left_in_bank, spare, spare_of};
use super::key_slots::SESSION_SLOT;
use abi::budget::{Figure, Resource};
use core::sync::atomic::Ordering::Relaxed;
use runtime::{EnvironmentId, area, exposed, syscall};

/// Pages that the server draws at a time.
const STEP: u64 = 256;

/// What the server may have.
#[derive(Clone, Copy, Debug)]
pub struct PageQuota {
    /// The environment that holds the unused budget.
    bank: EnvironmentId,
    /// The server's environment. The keeper of disks asks too, and has a budget of its own.
    server: EnvironmentId,
    /// Pages that all files together may have.
    most: u64,
    reserve: u64,
}

impl PageQuota {
    /// Before there is a bank: whatever the running environment has.
    pub const UNLIMITED: Self =
        Self { bank: EnvironmentId::NONE, server: EnvironmentId::NONE, most: u64::MAX, reserve: 0 };

    /// A half of `all` pages that there are to hand out for files (tmpfs(5)), and a reserve. The pages of the boot
    /// archive are not counted.
    pub const fn new(bank: EnvironmentId, server: EnvironmentId, all: u64, reserve: u64) -> Self {
        Self { bank, server, most: all / 2, reserve }
    }

    /// Pages that all files together may have.
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// Makes sure that so many more pages can go to files, where files may have `beyond` pages more than else.
    #[inline]
    pub fn has_room_for(&self, pages: u64, beyond: u64) -> bool {
        let is_there = spare(Resource::Page) >= self.reserve + pages;
        is_there || self.draw(STEP.max(pages), beyond) || self.draw(pages, beyond)
    }

    /// Pages that could still go to files.
    pub fn room(&self) -> u64 {
        let in_bank = spare_of(self.bank, Resource::Page).saturating_sub(left_in_bank(self.server));
        let own = spare_of(self.server, Resource::Page).saturating_sub(self.reserve);
        own + in_bank.min(self.may_draw(self.server, 0))
    }

    /// Fills the reserve up, as far as there is anything; whether so much of it is there that more may be kept.
    #[inline]
    pub fn refill(&self) -> bool {
        let spare = spare(Resource::Page);
        spare >= self.reserve || self.draw(self.reserve - spare, self.for_tables()) || spare >= self.reserve / 2
    }

    /// Makes sure that the server's tables can grow by so many bytes, and that the reserve is there afterwards.
    pub fn make_room_for(&self, bytes: usize) -> bool {
        const HEAP: u64 = 32;
        let wanted = self.reserve + bytes as u64 / abi::limits::PAGE_SIZE + HEAP;
        let spare = spare(Resource::Page);
        spare >= wanted || self.draw(wanted - spare, self.for_tables())
    }

    /// Pages that the server's own data (sockets, names, windows) may have in addition to those of files.
    const fn for_tables(&self) -> u64 {
        self.most / 2
    }

    /// Gives back what files do not have any more, if that is worth a call.
    pub fn give_back(&self) {
        let kept = self.reserve + STEP;
        let spare = spare(Resource::Page);
        if self.bank != EnvironmentId::NONE && spare > kept + STEP {
            move_pages(area::number(), self.bank, spare - kept);
        }
    }

    #[cold]
    fn draw(&self, pages: u64, beyond: u64) -> bool {
        let in_bank = spare_of(self.bank, Resource::Page);
        let is_there =
            pages <= self.may_draw(area::number(), beyond) && in_bank >= pages + left_in_bank(area::number());
        is_there && move_pages(self.bank, area::number(), pages)
    }

    /// How much more it may have: what it keeps in addition to files counts as theirs.
    fn may_draw(&self, environment: EnvironmentId, beyond: u64) -> u64 {
        let own = exposed::environment(environment);
        let limit = own.map_or(0, |own| own.budget[Resource::Page as usize].limit.load(Relaxed));
        self.most.saturating_add(self.reserve + beyond).saturating_sub(limit)
    }
}

fn move_pages(from: EnvironmentId, to: EnvironmentId, pages: u64) -> bool {
    syscall::budget_move(SESSION_SLOT, from, to, Resource::Page as u64, Figure::Limit as u64, pages).is_ok()
}
