//! All locks of a process at once: fork copies what they guard.

use super::attributes::Attributes;
use super::children::Children;
use super::identity::Identity;
use super::lent::Lent;
use super::limits::Limits;
use super::place::Place;
use super::record::{Extensions, Memory, Process, Program};
use super::thread::Thread;
use super::usage::Usage;
use crate::descriptor::description::{Description, Records};
use crate::descriptor::in_use::Uses;
use crate::descriptor::object::Object;
use crate::descriptor::table::Table;
use crate::guardian::client::Client;
use crate::ipc::holdings::Holdings;
use crate::memory::space::Space;
use crate::signal::{Actions, Mailbox};
use crate::user_memory::own_pages::OwnPages;
use crate::user_memory::shared::Windows;
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use runtime::area;
use runtime::lock::{self, Guard, OwnerLock};

/// What fork does not look at, but copies.
type Running<'a> = (Guard<'a, Children>, Guard<'a, Threads>, Guard<'a, Actions>, Guard<'a, Program>);
type Files<'a> =
    (Guard<'a, Table<Description>>, Guard<'a, Uses>, Guard<'a, Place>, Guard<'a, Client>, Guard<'a, Records>);
type Pages<'a> = (Guard<'a, Lent>, Guard<'a, Mailbox>, Guard<'a, Option<Mailbox>>, Guard<'a, Extensions>);
type Own<'a> = (Guard<'a, Usage>, Guard<'a, Holdings>, Guard<'a, Identity>, Guard<'a, Limits>, Guard<'a, Attributes>);
type Threads = Vec<&'static Thread>;

/// A process of which every lock is held.
#[derive(Debug)]
pub struct Held<'a> {
    /// The program's memory.
    pub memory: Guard<'a, Memory>,
    /// Open windows.
    pub windows: Guard<'a, Windows>,
    /// Whether it has one thread.
    pub is_alone: bool,
}

/// The other locks that are held with those.
#[derive(Debug)]
struct Others<'a> {
    files: Files<'a>,
    _program: Running<'a>,
    _own: Own<'a>,
    _pages: Pages<'a>,
}

impl Held<'_> {
    /// As [`Process::with_memory`], with the windows beside it.
    pub fn with_memory<T>(
        &mut self,
        process: &Process,
        action: impl FnOnce(&mut Space, &mut OwnPages<'_>, &mut Windows) -> T,
    ) -> T {
        let Memory { space, tables, at_hand } = &mut *self.memory;
        action(
            space,
            &mut OwnPages { tables, at_hand, key: process.session_key, files: &process.files, list: Cell::default() },
            &mut self.windows,
        )
    }
}

impl Process {
    /// Does something while every lock is held, those of open descriptions, too. Who holds one of those may wait for others: then all
    /// are let go and taken anew.
    pub fn with_all_held<T>(&self, action: impl FnOnce(&mut Held<'_>) -> T) -> T {
        loop {
            let (mut held, others) = self.hold_all();
            if held.is_alone {
                return action(&mut held);
            }
            if let Some(_descriptions) = hold_descriptions(&others.files.0) {
                return action(&mut held);
            }
            drop((held, others));
            crate::block::yield_now();
        }
    }

    /// Takes every lock of its own, in their order.
    fn hold_all(&self) -> (Held<'_>, Others<'_>) {
        let running = (self.children.lock(), self.threads.lock(), self.signals.lock(), self.program.lock());
        let (descriptors, uses, place) = (self.descriptors.lock(), self.uses.lock(), self.place.lock());
        let own =
            (self.ended.lock(), self.holdings.lock(), self.identity.lock(), self.limits.lock(), self.attributes.lock());
        let memory = self.memory.lock();
        let files = (descriptors, uses, place, self.files.lock(), self.records.lock());
        let windows = self.windows.lock();
        let pages = (self.lent.lock(), self.mailbox.lock(), self.parent_mailbox.lock(), self.extensions.lock());
        let is_alone = running.1.len() == 1;
        (Held { memory, windows, is_alone }, Others { files, _program: running, _own: own, _pages: pages })
    }

    /// In a copy that was made while all was held: nobody holds anything.
    pub fn free_copied_locks(&self) {
        self.nursery.free_copy();
        self.children.free_copy();
        self.threads.free_copy();
        self.signals.free_copy();
        self.program.free_copy();
        self.descriptors.free_copy();
        self.uses.free_copy();
        self.place.free_copy();
        self.ended.free_copy();
        self.holdings.free_copy();
        self.identity.free_copy();
        self.limits.free_copy();
        self.attributes.free_copy();
        self.memory.free_copy();
        self.files.free_copy();
        self.records.free_copy();
        self.windows.free_copy();
        self.lent.free_copy();
        self.copies.free_copy();
        self.mailbox.free_copy();
        self.parent_mailbox.free_copy();
        self.loan.free_copy();
        self.unborn.free_copy();
        self.terminal.free_copy();
        self.remains.free_copy();
        self.spare_threads.free_copy();
        self.spare_vectors.free_copy();
        self.exec.free_copy();
        self.futexes.free_copy();
        self.alarms.timers.free_copy();
        self.summary.free_copy();
        self.extensions.free_copy();
        if self.has_threads.load(Relaxed) {
            locks_of(&self.descriptors.lock()).for_each(OwnerLock::free_copy);
        }
    }
}

/// The locks of open descriptions, once for each descriptor.
fn locks_of(descriptors: &Table<Description>) -> impl Iterator<Item = &OwnerLock> {
    descriptors.iter().flat_map(|(_, description)| locks(description)).flatten()
}

fn locks(description: &Description) -> [Option<&OwnerLock>; 2] {
    match &description.object {
        Object::Other(other) => other.locks(),
        _ => [None; 2],
    }
}

/// Takes these locks, if nobody holds one.
fn hold_descriptions(descriptors: &Table<Description>) -> Option<Vec<lock::Held<'_>>> {
    let mut held = Vec::new();
    for lock in locks_of(descriptors) {
        // Several descriptors stand for one description.
        if lock.owner() != area::number() {
            held.push(lock.try_acquire()?);
        }
    }
    Some(held)
}
