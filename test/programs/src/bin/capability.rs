//! Capabilities: keys are the kernel's, names dominate by prefix, rights only shrink, and what is dropped is gone.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::Resource;
use abi::capability::{FIRST_FRESH, Rights};
use abi::environment::Specification;
use abi::limits::{ACCESS_LIST_ENTRIES, KEYS, NAME_COMPONENTS, PRIVATE_PAGES_LEAST};
use abi::syscall::TABLE;
use core::mem::offset_of;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use runtime::address_space::{self, Access, MapRow};
use runtime::area::Area;
use runtime::environment::Builder;
use runtime::page::{self, Allocator, PageKind};
use runtime::{EnvironmentId, Error, KeyIndex, PageNumber, area, exposed, key, syscall};
use test_programs::child::{eventually, launch, prepare, status};
use test_programs::random::Random;
use test_programs::snapshot::Snapshot;
use test_programs::{Outcome, World, check, granted, guest, refused};

guest! {
    Child names_dominate_by_prefix;
    Child fresh_components_never_repeat;
    Child fault_01_forged_key;
    Child fault_02_key_after_it_was_dropped;
    Child fault_02_name_after_it_was_removed;
    Child fault_02_rights_that_were_used_before;
    Child fault_03_derive_more_than_one_has;
    Child a_name_has_a_longest_length;
    Here a_key_arrives_only_where_it_is_expected;
    Child an_access_list_holds_its_entries;
}

const ALL: u64 = Rights::ALL.0 as u64;
/// A free place in the address space of a child.
const FREE_PLACE: u64 = 0x2000_0000;

fn names_dominate_by_prefix() -> Outcome {
    let parent = granted!(key::derive(KeyIndex::FIRST, Rights::ALL, 0));
    let (left, right) = (granted!(key::derive(parent, Rights::ALL, 7)), granted!(key::derive(parent, Rights::ALL, 8)));
    let list = granted!(Allocator::own().allocate());
    granted!(page::become_list(KeyIndex::FIRST, list, left));
    for (key, allowed) in
        [(left, true), (parent, true), (KeyIndex::FIRST, true), (right, false), (KeyIndex::WELL_KNOWN, false)]
    {
        let page = Allocator { key, list }.allocate();
        check!(page.is_ok() == allowed, "{key:?} gave {page:?}");
        if let Ok(page) = page {
            granted!(Allocator { key: left, list }.free(page));
        }
    }
    granted!(syscall::page_free(left, list));
    for key in [left, right, parent] {
        granted!(key::discard(key));
    }
    Ok(())
}

fn fresh_components_never_repeat() -> Outcome {
    let mut last = 0;
    for _ in 0..200 {
        let slot = granted!(key::reserve_slot());
        let component = granted!(syscall::key_derive(KeyIndex::FIRST, slot, ALL, 0));
        check!(component > last && component >= FIRST_FRESH, "component {component:#x} came after {last:#x}");
        last = component;
        granted!(key::discard(slot));
    }
    let slot = granted!(key::reserve_slot());
    refused!(syscall::key_derive(KeyIndex::FIRST, slot, ALL, FIRST_FRESH), BadArgument);
    refused!(syscall::key_derive(KeyIndex::FIRST, slot, ALL, u64::MAX), BadArgument);
    key::release_slot(slot);
    Ok(())
}

/// What calls with a forged key read, or would write.
static BUFFER: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// Fills it with the specification of an environment, all of whose pages are there.
fn fill_buffer(page: PageNumber) {
    BUFFER.iter().for_each(|word| word.store(page.0, SeqCst));
    let words = [
        (offset_of!(Specification, name_key), KeyIndex::FIRST.0),
        (offset_of!(Specification, root), area::root().0),
        (offset_of!(Specification, area), 0x1000_0000),
        (offset_of!(Specification, private_count), PRIVATE_PAGES_LEAST as u64),
        (offset_of!(Specification, space), 0),
    ];
    words.iter().for_each(|(offset, word)| BUFFER[offset / 8].store(*word, SeqCst));
}

/// What calls with a forged key are about: a page of this environment's own, its creator, and one that is being
/// destroyed.
struct About {
    page: PageNumber,
    creator: EnvironmentId,
    dying: EnvironmentId,
}

impl About {
    /// What would do for an argument of a call, but for its key.
    fn argument(&self, name: &str, kind: &str) -> u64 {
        match (name, kind) {
            ("root", _) => area::root().0,
            ("list", _) => Allocator::own().list.0,
            ("slot", _) => KEYS as u64 - 1,
            ("rights", _) => ALL,
            // The position is the first environment's.
            ("cpu" | "position" | "place", _) => 0,
            (_, "PageNumber") => self.page.0,
            (_, "KeyIndex") => KeyIndex::FIRST.0,
            (_, "EnvironmentId") => self.creator.0,
            (_, "UserAddress") => BUFFER.as_ptr() as u64,
            _ => 1,
        }
    }

    /// Every call that takes keys, once for each of them with this one in its place.
    fn call_with_forged(&self, key: u64) -> Outcome {
        for row in TABLE {
            let is_key = |(name, kind): &(&str, &str)| *kind == "KeyIndex" && *name != "slot";
            for forged in (0..row.arguments.len()).filter(|index| is_key(&row.arguments[*index])) {
                let mut words = [0; 6];
                for (word, (name, kind)) in words.iter_mut().zip(row.arguments) {
                    *word = self.argument(name, kind);
                }
                words[forged] = key;
                // SAFETY: the call is refused; if it is not it has the buffer, and a page that nothing lies in.
                let outcome = unsafe { syscall::invoke(row.number, words) };
                let (call, argument) = (row.name, row.arguments[forged].0);
                // A table that is not shared is not copied, and no entry of it asks for the key.
                let is_needless = argument == "page_key" && outcome == Ok(0);
                check!(outcome.is_err() || is_needless, "{call} took {key:#x} as its {argument}");
                // The first key is looked at before all else.
                let told = outcome.err().map(|failure| failure.error);
                check!(forged > 0 || told == Some(Error::NoSuchKey), "{call} was refused {key:#x} with {told:?}");
            }
        }
        Ok(())
    }
}

/// Keys are slots of a ring that only the kernel writes: to forge one is to guess a number. Every slot that is empty,
/// each valid number with one bit changed, and random ones, in every call that takes a key: nothing changes.
fn fault_01_forged_key() -> Outcome {
    let creator = exposed::environment(area::number()).map_or(0, |info| info.creator.load(SeqCst));
    let creator = EnvironmentId(creator);
    let child = granted!(Builder::new().and_then(Builder::create));
    refused!(syscall::environment_destroy(KeyIndex::FIRST, child.number), Again);
    let about = About { page: granted!(Allocator::own().allocate()), creator, dying: child.number };
    fill_buffer(about.page);
    let used = Area::current().library().keys.load(SeqCst);
    let mut random = Random(0x01);
    let flipped = |key: KeyIndex| (0..64).map(move |bit| key.0 ^ 1 << bit);
    let flips = flipped(KeyIndex::WELL_KNOWN).chain(flipped(KeyIndex::FIRST));
    let guesses = (0..KEYS as u64).chain(flips).chain((0..200).map(|_| random.number()));
    let before = Snapshot::settled()?;
    for (round, guess) in guesses.filter(|guess| *guess >= 64 || used & 1 << guess == 0).enumerate() {
        // Both forms of `environment_create`.
        let parts_of = if round % 2 == 0 { 0 } else { about.dying.0 };
        BUFFER[offset_of!(Specification, parts_of) / 8].store(parts_of, SeqCst);
        about.call_with_forged(guess)?;
    }
    before.is_unchanged("with forged keys")?;
    for key in [KeyIndex::WELL_KNOWN, KeyIndex::FIRST] {
        for setting in 0..8 {
            refused!(syscall::machine_set(key, setting, 0), NotPermitted);
        }
        refused!(syscall::environment_destroy(key, creator), NotPermitted);
        refused!(syscall::event_raise(key, creator, 1), NotPermitted);
        refused!(syscall::budget_move(key, creator, area::number(), Resource::Page as u64, 0, 1), NotPermitted);
    }
    let ring = exposed::environment(area::number()).map_or(0, |info| info.key_ring.load(SeqCst));
    for access in [Access::READ, Access::WRITE] {
        let row = [MapRow { address: FREE_PLACE | 1, entry: ring << 12 | access.0 }];
        refused!(address_space::own().apply(&row), NotPermitted);
    }
    granted!(Allocator::own().free(about.page));
    granted!(child.destroy());
    Ok(())
}

fn fault_02_key_after_it_was_dropped() -> Outcome {
    let key = granted!(key::derive(KeyIndex::FIRST, Rights::ALL, 0));
    let list = granted!(Allocator::own().allocate());
    granted!(page::become_list(KeyIndex::FIRST, list, key));
    granted!(syscall::key_drop(area::number(), key, KeyIndex::FIRST));
    refused!(Allocator { key, list }.allocate(), NoSuchKey);
    refused!(syscall::key_drop(area::number(), key, KeyIndex::FIRST), NoSuchKey);
    granted!(syscall::key_derive(KeyIndex::FIRST, key, ALL, 0));
    refused!(Allocator { key, list }.allocate(), NotPermitted);
    granted!(syscall::page_free(KeyIndex::FIRST, list));
    granted!(key::discard(key));
    Ok(())
}

fn fault_02_name_after_it_was_removed() -> Outcome {
    let key = granted!(key::derive(KeyIndex::FIRST, Rights::ALL, 0));
    let list = granted!(Allocator::own().allocate());
    granted!(page::become_list(KeyIndex::FIRST, list, KeyIndex::FIRST));
    granted!(syscall::access_list_set(KeyIndex::FIRST, list, 1, key, ALL));
    let page = granted!(Allocator { key, list }.allocate());
    granted!(syscall::access_list_set(KeyIndex::FIRST, list, 1, key, 0));
    refused!(Allocator { key, list }.allocate(), NotPermitted);
    refused!(syscall::page_claim(key, page, KeyIndex::FIRST, Allocator::own().list), NotPermitted);
    let row = [MapRow { address: 0x2000_0000 | key.0, entry: page.address() | Access::READ.0 }];
    check!(address_space::own().apply(&row).is_err(), "the removed name still maps the page");
    granted!(syscall::page_free(KeyIndex::FIRST, page));
    granted!(syscall::page_free(KeyIndex::FIRST, list));
    granted!(key::discard(key));
    Ok(())
}

/// What a key gives is remembered where it was used: it is lost with the name, or with the key, and nothing else with
/// it.
fn fault_02_rights_that_were_used_before() -> Outcome {
    const LISTS: usize = 12;
    let key = granted!(key::derive(KeyIndex::FIRST, Rights::ALL, 0));
    let mut lists = [PageNumber::NONE; LISTS];
    granted!(Allocator::own().allocate_many(&mut lists));
    let name = |list, rights| syscall::access_list_set(KeyIndex::FIRST, list, 1, key, rights);
    for list in lists {
        granted!(page::become_list(KeyIndex::FIRST, list, KeyIndex::FIRST));
        granted!(name(list, ALL));
    }
    let may_use = |list: &PageNumber| {
        let under = Allocator { key, list: *list };
        under.allocate().and_then(|page| under.free(page)).is_ok()
    };
    check!(lists.iter().all(may_use), "the key does not open its lists");
    for index in 0..LISTS {
        granted!(name(lists[index], 0));
        let (gone, left) = lists.split_at(index + 1);
        check!(!gone.iter().any(may_use), "a removed name opens one of the first {index} lists");
        check!(left.iter().all(may_use), "with a name of list {index} went another one");
    }
    for list in lists {
        granted!(name(list, ALL));
    }
    check!(lists.iter().all(may_use), "the key does not open its lists again");
    granted!(syscall::key_drop(area::number(), key, KeyIndex::FIRST));
    granted!(syscall::key_derive(KeyIndex::FIRST, key, ALL, 0));
    check!(!lists.iter().any(may_use), "a key that took the place of another opens what that did");
    for list in lists {
        granted!(syscall::page_free(KeyIndex::FIRST, list));
    }
    granted!(key::discard(key));
    Ok(())
}

fn fault_03_derive_more_than_one_has() -> Outcome {
    let read = granted!(key::derive(KeyIndex::FIRST, Rights::READ, 5));
    let slot = granted!(key::reserve_slot());
    granted!(syscall::key_derive(read, slot, ALL, 6));
    let list = granted!(Allocator::own().allocate());
    granted!(page::become_list(KeyIndex::FIRST, list, slot));
    refused!(Allocator { key: slot, list }.allocate(), NotPermitted);
    refused!(Allocator { key: read, list }.allocate(), NotPermitted);
    let copy = granted!(key::reserve_slot());
    granted!(syscall::key_copy(read, ALL, area::number(), copy, KeyIndex::FIRST));
    refused!(Allocator { key: copy, list }.allocate(), NotPermitted);
    refused!(syscall::key_derive(read, copy, ALL, 6), NotFree);
    check!(syscall::key_derive(read, KeyIndex(KEYS as u64), ALL, 6).is_err(), "a key went behind the ring");
    granted!(syscall::page_free(KeyIndex::FIRST, list));
    for key in [read, slot, copy] {
        granted!(key::discard(key));
    }
    Ok(())
}

fn a_name_has_a_longest_length() -> Outcome {
    let length =
        exposed::environment(area::number()).map_or(0, |info| info.name[0].load(SeqCst) & 0xffff_ffff) as usize;
    let mut keys = [KeyIndex::FIRST; NAME_COMPONENTS];
    for index in length..NAME_COMPONENTS {
        keys[index] =
            granted!(key::derive(if index == length { KeyIndex::FIRST } else { keys[index - 1] }, Rights::ALL, 3));
    }
    refused!(key::derive(keys[NAME_COMPONENTS - 1], Rights::ALL, 3), TooMany);
    for key in &keys[length..] {
        granted!(key::discard(*key));
    }
    Ok(())
}

/// Declares an inbox for the environment whose number it was given, and waits for the key.
extern "C" fn expect_a_key(sender: u64) {
    let private = Area::current().private();
    let slot = 9;
    private.key_sender.store(sender, SeqCst);
    private.key_inbox.store(slot + 1, SeqCst);
    Area::current().status(1).store(2, SeqCst);
    let arrived = eventually(|| private.key_inbox.load(SeqCst) == 0);
    Area::current().status(1).store(if arrived { 3 } else { 4 }, SeqCst);
    let derived = syscall::key_derive(KeyIndex(slot), KeyIndex(slot + 1), ALL, 1).is_ok();
    Area::current().status(2).store(u64::from(derived), SeqCst);
    eventually(|| false);
}

fn a_key_arrives_only_where_it_is_expected(world: &World) -> Outcome {
    let child = launch(prepare(world, expect_a_key, area::number().0)?)?;
    check!(eventually(|| status(&child, 1) == 2), "the child does not declare its inbox");
    let key = granted!(key::derive(KeyIndex::FIRST, Rights::READ, 0));
    let stranger = KeyIndex::WELL_KNOWN;
    check!(
        syscall::key_copy(key, ALL, child.number, KeyIndex(12), stranger).is_err(),
        "a key came into a slot not named"
    );
    granted!(syscall::key_copy(key, ALL, child.number, KeyIndex(9), stranger));
    check!(eventually(|| status(&child, 1) == 3 && status(&child, 2) == 1), "the child did not see its key");
    check!(syscall::key_copy(key, ALL, child.number, KeyIndex(9), stranger).is_err(), "a key came without an inbox");
    granted!(key::discard(key));
    granted!(child.destroy());
    Ok(())
}

fn an_access_list_holds_its_entries() -> Outcome {
    let list = granted!(Allocator::own().allocate());
    granted!(page::become_list(KeyIndex::FIRST, list, KeyIndex::FIRST));
    let edits = || exposed::page(list).map(|info| info.edits());
    let (generation, fresh) = edits().ok_or("no record")?;
    check!(fresh == 0, "a fresh list was edited {fresh} times");
    for index in 0..ACCESS_LIST_ENTRIES as u64 {
        granted!(syscall::access_list_set(KeyIndex::FIRST, list, index.max(1), KeyIndex::WELL_KNOWN, 1));
    }
    let counted = Some((generation, ACCESS_LIST_ENTRIES as u64));
    check!(edits() == counted, "the list was edited {counted:?} times and tells {:?}", edits());
    refused!(
        syscall::access_list_set(KeyIndex::FIRST, list, ACCESS_LIST_ENTRIES as u64, KeyIndex::FIRST, ALL),
        BadArgument
    );
    refused!(syscall::access_list_set(KeyIndex::FIRST, list, u64::MAX, KeyIndex::FIRST, ALL), BadArgument);
    refused!(syscall::access_list_set(KeyIndex::WELL_KNOWN, list, 2, KeyIndex::WELL_KNOWN, ALL), NotPermitted);
    check!(edits() == counted, "what was refused is counted: {:?}", edits());
    refused!(Allocator { key: KeyIndex::WELL_KNOWN, list }.allocate(), NotPermitted);
    let page = granted!(Allocator { key: KeyIndex::FIRST, list }.allocate());
    let row = |entry| [MapRow { address: 0x2000_0000 | KeyIndex::WELL_KNOWN.0, entry }];
    check!(
        address_space::own().apply(&row(page.address() | Access::WRITE.0)).is_err(),
        "the right to read let it write"
    );
    granted!(address_space::own().apply(&row(page.address() | Access::READ.0)));
    granted!(address_space::own().apply(&row(0)));
    granted!(syscall::page_free(KeyIndex::FIRST, list));
    let info = exposed::page(list).ok_or("no record")?;
    check!(info.is_orphan() && info.kind() == PageKind::AccessList, "a list in use is {:?}", info.kind());
    granted!(syscall::page_free(KeyIndex::FIRST, page));
    check!(info.kind() == PageKind::Free, "with its last page the list is {:?}", info.kind());
    Ok(())
}
