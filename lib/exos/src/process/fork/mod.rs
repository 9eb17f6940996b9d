//! `fork`: a copy of the process (xok-exos-sosp97 §5.2: copy-on-write is the library's affair).
//!
//! Private pages that may be written become copy-on-write in the parent. The child of a large program then links the
//! parent's uppermost page tables, so that no page or table of the program is copied before a write. The child of a
//! small one gets tables of its own at once, which is cheaper than copying shared tables fault by fault. It also gets
//! copies of the few pages that are written after every fork. ExOS's own data (its heap) is copied at once, and shared
//! windows are mapped at the same places.

pub mod child_start;
pub mod fork_locks;
pub mod fork_state;
pub mod vfork_deferred;
pub mod vfork_sharing;

use super::children::Child;
use super::environment::{EnvironmentRef, rows};
use super::spawn_cache::SpawnCache;
use super::spawn_cache::spare_environment::SpareEnvironment;
use crate::hw::library_image;
use crate::hw::mapping::{Mappings, PAGE_WORDS};
use crate::process::current::{process, thread};
use crate::process::pager::OwnPages;
use crate::process::process_record::Process;
use crate::signal::{self, Mailbox};
use crate::{budget, wait};
use abi::budget::Resource;
use abi::page_table::{MapRow, PAGE, PRESENT, WRITE};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::fence;
use fork_locks::AllLocks;
use fork_state::{ChildMemory, ForkState, Options};
use linux_abi::address_map::{PAGE_SIZE, PARENT_MAILBOX};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::address_space::Access;
use runtime::page::Allocator;
use runtime::upcall::Context;
use runtime::vector;
use runtime::window::WINDOW_PAGES;
use runtime::{PageNumber, critical_section, heap};
use unix_core::signal::set::bit;
use vm::address_space::AddressSpace;
use vm::page_record::{COPY_ON_WRITE, page_of};
use vm::spawn_cache::SharedMappings;

/// What a child may use at first; it draws more from the bank.
const BUDGETS: [(Resource, u64); 2] = [(Resource::Slice, 1), (Resource::Predicate, 32)];
/// Pages that its parent gives it of its own.
const PAGES: u64 = 128;

/// The parts of a child are recorded for the next one, for at most so many children at once and so many pages of ExOS's
/// data. The records are in that data, and each further child gets a copy of them.
const NOTED_CHILDREN: usize = 8;
const NOTED_DATA: usize = 256;
/// Pages that making a child takes after its heap, at most.
pub(super) const FOR_THE_REST: u64 = 64;
/// Pages of a program up to which a child gets tables of its own at once. A larger one links its parent's.
const MAPPED_AT_ONCE: usize = 256;
/// Pages of files up to which such a child has all of them at once. Of more it gets those that children before it
/// touched.
const FILES_AT_ONCE: usize = 64;
/// Pages of a small process besides those of its program.
const ROWS: usize = 64;

/// Copies the running process; the result is the child's number. Its program resumes at `context`, or begins with the
/// exec request.
pub fn fork(context: &Context, options: Options) -> Result<u64> {
    let process = process();
    budget::reserve_or_fail(FOR_THE_REST)?;
    // The child finds them in its copy of this memory; another program begins without.
    let _vectors = (!options.executes).then(vector::keep);
    if process.signal.actions.lock().forgets_children() {
        super::wait::bury_ended();
    }
    process.reclaim_first();
    if process.children.lock().all.len() >= NOTED_CHILDREN {
        process.trim_zombies();
    }
    let _turn = process.descriptors.has_threads.load(Relaxed).then(|| process.credentials_turn());
    let mut nursery = process.spawn_cache.lock();
    let mut ready = nursery.prepare()?;
    let filled = fill(&mut ready, &mut nursery, context, options);
    nursery.is_busy = false;
    nursery.inherited = None;
    match filled {
        Ok(copied) => adopt(ready, &nursery, copied),
        Err(error) => {
            ready.bury();
            Err(error)
        }
    }
}

/// Gives the child everything but a slice. The result is the pages of this process that hold ExOS's data for it.
fn fill(ready: &mut SpareEnvironment, nursery: &mut SpawnCache, context: &Context, options: Options) -> Result<Copied> {
    ready.link_image(process().image_table)?;
    // A program that begins asks the server; any other child may not. The parent has one thread then: it opens nothing
    // meanwhile.
    let begins = options.executes;
    let parent_mailbox = process().signal.mailbox.lock().window().pages()[0];
    let parent = (process().environment(), parent_mailbox);
    let mut inherited = ForkState::new(context, ready.mailbox(), options, parent);
    if begins {
        // It maps none of the files that are mapped here.
        let mapped = process().memory.lock().space.files();
        let mut files = process().files.lock();
        let place = files.window_place()?;
        inherited.window = Some((place, files.adopt_with_window(ready.made.number, ready.shown_at(place), &mapped)?));
        drop(files);
        inherited.set_memory(program_of_child(ready, nursery));
    }
    let only_kill = begins || inherited.options.vfork_link.is_some();
    let copied = copy(ready, nursery, inherited)?;
    let is_known = begins || copied.holds_open_files;
    let given = endow(&ready.made, is_known).and_then(|()| {
        // The server, which sends SIGKILL, knows it before others find it.
        introduce(ready);
        act_first(only_kill)
    });
    given.inspect_err(|_| process().keep_copies_beside(nursery, &copied.pages))?;
    Ok(copied)
}

/// What [`copy`] has made.
struct Copied {
    /// Pages of this process that hold ExOS's data for the child.
    pages: Vec<PageNumber>,
    /// Whether the child already counts as a holder of what is open: so in a process with threads.
    holds_open_files: bool,
}

/// The program that the child executes; its tables are empty where it is left to the child.
fn program_of_child(ready: &mut SpareEnvironment, nursery: &mut SpawnCache) -> ChildMemory {
    let request = process().exec.lock();
    let tables = request.as_ref().and_then(|request| nursery.prepare_program(ready, request));
    ChildMemory { tables: tables.unwrap_or_default(), ..ChildMemory::default() }
}

/// Whether no signal has come that must be acted on first. The sender of a signal to a group looks at its members again
/// after the last one: it finds the child, which is known by now. Or what it sent to the parent is seen here. So no
/// process escapes by forking.
fn act_first(only_kill: bool) -> Result<()> {
    /// Signals that a parent often gets for itself alone: a timer of it could be due in each attempt.
    const ITS_OWN: u64 = bit(linux::SIGCHLD)
        | bit(linux::SIGALRM)
        | bit(linux::SIGCONT)
        | bit(linux::SIGURG)
        | bit(linux::SIGWINCH)
        | bit(linux::SIGPROF)
        | bit(linux::SIGVTALRM);
    fence(SeqCst);
    let others = if only_kill { 0 } else { signal::pending() & !ITS_OWN };
    let is_killed = signal::waiting() & bit(linux::SIGKILL) != 0;
    if is_killed || others != 0 { Err(Errno::MADE_AGAIN) } else { Ok(()) }
}

/// Makes it known before it runs: others can send to it, and it begins in its parent's process group.
pub(super) fn introduce(ready: &SpareEnvironment) {
    let process = process();
    let words = ready.public.words();
    words[PAGE_WORDS + crate::signal::GROUP].store(process.signal.group(), Relaxed);
    for (index, value) in child_start::public_words(process, process.environment(), ready.mailbox()) {
        words[index].store(value, Release);
    }
}

/// Gives the child everything that it has from its parent, while no other thread of the parent changes any of it. Makes
/// the program's memory copy-on-write in the parent and links it in the child. Maps windows in the child, and copies
/// ExOS's own data.
fn copy(ready: &mut SpareEnvironment, nursery: &mut SpawnCache, inherited: ForkState) -> Result<Copied> {
    let process = process();
    let own_mailbox = process.signal.mailbox.lock().clone();
    nursery.inherited = Some(Box::new(inherited));
    let is_noted = is_noted();
    let (outcome, descriptors) = process.with_all_locks(|held| {
        copy_held(ready, nursery, held, (&own_mailbox, is_noted)).map(|pages| (pages, !held.is_alone))
    });
    let (pages, holds_open_files) = outcome?;
    if holds_open_files {
        // Another thread closes what the child has only once that counts as its holder.
        let known = process.files.lock().adopt(ready.made.number);
        known.inspect_err(|_| process.keep_copies_beside(nursery, &pages))?;
        descriptors.iter().for_each(|(_, description)| description.refer_for(ready.made.number.0));
    }
    Ok(Copied { pages, holds_open_files })
}

/// The same with all locks held: this process's mailbox, and whether it will have another child.
fn copy_held(
    ready: &mut SpareEnvironment,
    nursery: &mut SpawnCache,
    held: &mut AllLocks<'_>,
    (own_mailbox, is_noted): (&Mailbox, bool),
) -> Result<Vec<PageNumber>> {
    let process = process();
    let is_alone = held.is_alone;
    held.with_memory(process, |space, pages, windows| copy_memory(ready, (space, pages, windows), nursery, is_alone))?;
    let windows = windows_to_show(ready, &held.windows, own_mailbox);
    let window = nursery.inherited.iter().filter_map(|inherited| inherited.window.as_ref());
    let window = window.flat_map(|(place, pages)| rows(process.session_key, *place, pages, Access::WRITE));
    let window: Vec<MapRow> = window.collect();
    let Data { start, pages, stays } = copy_heap(ready, nursery, is_noted)?;
    let data = rows(process.session_key, start, &pages, Access::WRITE);
    if !stays {
        ready.map_memory(windows, window, core::iter::empty())?;
        ready.give(data)?;
        ready.parts.discard();
        return Ok(Vec::new());
    }
    ready.map_memory(windows, window, data).inspect_err(|_| process.keep_copies_beside(nursery, &pages))?;
    Ok(pages)
}

/// Gives the child the program's memory.
fn copy_memory(
    ready: &mut SpareEnvironment,
    (space, pages, windows): (&mut AddressSpace, &mut OwnPages<'_>, &mut Mappings),
    nursery: &mut SpawnCache,
    is_alone: bool,
) -> Result<()> {
    let borrows = nursery.inherited.as_ref().is_some_and(|inherited| inherited.borrows_memory());
    let own = space.frames.len() - space.frames.of_files();
    let has_files = space.frames.of_files() <= FILES_AT_ONCE;
    let is_borrowed = process().vfork_link.lock().is_some();
    if nursery.inherited.as_ref().is_some_and(|inherited| inherited.executes()) {
        // It never runs the program that is here.
        return Ok(());
    }
    if own > MAPPED_AT_ONCE && !is_borrowed {
        // The rows for all of them, on the heap.
        budget::reserve_or_fail((own * size_of::<MapRow>()) as u64 / PAGE_SIZE)?;
        space.share_for_fork(pages, &[], |_, _| {})?;
        return ready.link_program(pages.tables, windows);
    }
    let is_plain = !borrows && !is_borrowed;
    let same = if is_plain { ready.copy_of(space.generation()) } else { None };
    let memory = match same {
        // The child before it had the same.
        Some(memory) => {
            let (kept, copies): (Vec<u64>, Vec<PageNumber>) =
                memory.copied.iter().map(|(address, entry)| (*address, PageNumber(page_of(*entry)))).unzip();
            copy_kept(nursery, &kept, &copies)?;
            memory
        }
        None => {
            let memory = map_memory(ready, (space, pages), nursery, (borrows, is_borrowed, is_alone))?;
            if is_plain {
                ready.note_copy(space.generation(), &memory);
            }
            memory
        }
    };
    if let Some(inherited) = &mut nursery.inherited {
        inherited.set_memory(ChildMemory { has_files, ..memory });
    }
    Ok(())
}

/// Gives the child tables of its own for the program's memory.
fn map_memory(
    ready: &mut SpareEnvironment,
    (space, pages): (&mut AddressSpace, &mut OwnPages<'_>),
    nursery: &SpawnCache,
    (borrows, is_borrowed, is_alone): (bool, bool, bool),
) -> Result<ChildMemory> {
    let own = space.frames.len() - space.frames.of_files();
    let has_files = space.frames.of_files() <= FILES_AT_ONCE;
    // No more than there are: it stays for the next child, and all of ExOS's data is copied for each.
    let mut rows = Vec::with_capacity(own + space.frames.of_files().min(FILES_AT_ONCE));
    let mut give = |address: u64, entry: u64| {
        if entry & PRESENT != 0 {
            rows.push(MapRow { address, entry });
        }
    };
    let mut kept = Vec::new();
    if borrows && is_alone {
        space.frames.for_each_own(|address, entry| give(address, *entry));
    } else {
        if !borrows {
            // What lies in another process's memory as well, to be written there, cannot be made copy-on-write here.
            kept = if is_borrowed { space.writable() } else { space.written_after_fork() };
        }
        space.share_for_fork(pages, &kept, give)?;
    }
    rows.extend(space.files_for_child(has_files));
    map_pages(ready, nursery, rows, &kept)
}

/// Gives the child tables of its own that map what the parent's do, with copies of the pages in `kept`.
fn map_pages(
    ready: &mut SpareEnvironment,
    nursery: &SpawnCache,
    mut rows: Vec<MapRow>,
    kept: &[u64],
) -> Result<ChildMemory> {
    let copies = ready.pages_for_copies(kept.len())?;
    copy_kept(nursery, kept, &copies)?;
    let mut copied = Vec::with_capacity(kept.len());
    for (address, copy) in kept.iter().zip(copies) {
        let place = rows.iter().position(|row| row.address == *address).ok_or(Errno::EFAULT)?;
        // Behind all others: what is under one list together is quicker.
        let MapRow { address, entry } = rows.remove(place);
        let entry = entry & !(PAGE | COPY_ON_WRITE) | WRITE | copy.address();
        copied.push((address, entry));
        rows.push(MapRow { address, entry });
    }
    Ok(ChildMemory { tables: ready.map(rows)?, copied, has_files: false })
}

/// Copies pages of the program.
fn copy_kept(nursery: &SpawnCache, kept: &[u64], copies: &[PageNumber]) -> Result<()> {
    for (kept, copies) in kept.chunks(WINDOW_PAGES).zip(copies.chunks(WINDOW_PAGES)) {
        let place = nursery.place_of(0, copies);
        library_image::copy_pages(kept.iter().copied(), copies, place, process().session_key)?;
    }
    Ok(())
}

/// The windows that the child gets, if those that it has are others.
pub(super) fn windows_to_show(
    ready: &SpareEnvironment,
    windows: &Mappings,
    own_mailbox: &Mailbox,
) -> Option<SharedMappings> {
    let generation = windows.generation();
    let rows = || windows_of_child(windows, own_mailbox, ready.mailbox());
    (!ready.shows(generation)).then(|| SharedMappings { generation, rows: rows() })
}

/// The rows that map the windows of the child, in the order of their addresses. The child's own mailbox takes the place
/// of this process's own, and this process's mailbox is mapped too.
fn windows_of_child(windows: &Mappings, own_mailbox: &Mailbox, mailbox: PageNumber) -> Vec<MapRow> {
    let key = process().session_key;
    let mut all = Vec::with_capacity(ROWS);
    for window in windows.common() {
        let pages = if window == own_mailbox.window() { &[mailbox] } else { window.pages() };
        all.extend(rows(key, window.address(), pages, window.access()));
    }
    let place = all.partition_point(|row| row.address < PARENT_MAILBOX);
    let parents = rows(key, PARENT_MAILBOX, own_mailbox.window().pages(), Access::WRITE);
    parents.for_each(|row| all.insert(place, row));
    all
}

/// A copy of ExOS's own data.
struct Data {
    /// Where it begins.
    start: u64,
    /// The pages for it.
    pages: Vec<PageNumber>,
    /// Whether they are used again for the next child.
    stays: bool,
}

/// Copies ExOS's own data. Its pages stay this process's where they are few and the child `is_noted`, to be used again
/// for the next. Else they go with the child, as what another thread than the first is charged for must.
fn copy_heap(ready: &mut SpareEnvironment, nursery: &SpawnCache, is_noted: bool) -> Result<Data> {
    const AT_ONCE: usize = WINDOW_PAGES;
    // The list of pages is itself on the heap, which may grow for it: by fewer pages than there is room for more.
    let count_of = |(start, end): (u64, u64)| ((end - start) / PAGE_SIZE) as usize;
    let with_room = |count: usize| count + count / 256 + 8;
    let process = process();
    let mut pages = vec![PageNumber::NONE; with_room(heap::make_shorter())];
    let stays = is_noted && count_of(heap::range()) <= NOTED_DATA;
    let source = if stays { Allocator::own() } else { ready.pages() };
    let mut there = 0;
    // Other threads may ask for memory until the heap is held: it is copied once there is a page for all of it.
    let (held, (start, end)) = loop {
        let count = count_of(heap::range());
        if pages.len() < count {
            pages.resize(with_room(count), PageNumber::NONE);
            continue;
        }
        if there < count {
            let missing = &mut pages[there..count];
            let copies = if stays { take_copies(process, missing) } else { 0 };
            let allocated = budget::reserve_or_fail((missing.len() - copies) as u64 + FOR_THE_REST)
                .and_then(|()| Ok(source.allocate_many(&mut missing[copies..])?));
            let in_hand = if stays { there + copies } else { 0 };
            allocated.inspect_err(|_| process.keep_copies_beside(nursery, &pages[..in_hand]))?;
            there = count;
        }
        let held = heap::hold();
        let range = heap::range_of_held(&held);
        if count_of(range) <= there {
            break (held, range);
        }
    };
    pages.truncate(there);
    for (address, some) in (start..end).step_by(AT_ONCE * PAGE_SIZE as usize).zip(pages.chunks(AT_ONCE)) {
        let place = nursery.place_of(ready.filled(), some);
        library_image::copy_pages((address..).step_by(PAGE_SIZE as usize), some, place, process.session_key)?;
        critical_section::give_way();
    }
    drop(held);
    Ok(Data { start, pages, stays })
}

/// Whether a further child of the running thread is one to make another of.
fn is_noted() -> bool {
    let process = process();
    process.is_first(thread()) && process.children.lock().all.len() < NOTED_CHILDREN
}

/// Puts pages that a child before had into the first places; how many.
fn take_copies(process: &Process, places: &mut [PageNumber]) -> usize {
    let mut copies = process.heap_pages.lock();
    let left = copies.len().saturating_sub(places.len());
    let taken = copies.drain(left..);
    places.iter_mut().zip(taken).map(|(place, page)| *place = page).count()
}

/// Budgets, and the server, unless that knows it.
fn endow(made: &EnvironmentRef, is_known: bool) -> Result<()> {
    budget::reserve(PAGES);
    let given = budget::give(made.number, Resource::Page, PAGES).map_err(Errno::from);
    given.and_then(|()| made.endow(&BUDGETS)).map_err(|_| Errno::EAGAIN)?;
    if !is_known {
        process().files.lock().adopt(made.number)?;
    }
    budget::give_back();
    Ok(())
}

/// From here on it is a child, with descriptors and a slice.
fn adopt(mut ready: SpareEnvironment, nursery: &SpawnCache, copied: Copied) -> Result<u64> {
    let process = process();
    let number = ready.made.number.0;
    ready.begin();
    let Copied { pages: copies, holds_open_files } = copied;
    if !holds_open_files {
        process.descriptors.table.lock().iter().for_each(|(_, description)| description.refer_for(number));
    }
    let mut children = process.children.lock();
    if let Err(error) = ready.made.run(process.session_key) {
        process.keep_copies_beside(nursery, &copies);
        ready.bury();
        return Err(error);
    }
    process.has_made_children.store(true, Relaxed);
    let SpareEnvironment { made, public, parts: room } = ready;
    children.all.push(Child {
        made,
        public,
        parts: room.to_note(),
        heap_pages: copies,
        last_reported: 0,
        is_adopted: false,
        is_remnant: false,
    });
    // A parent that waits next gives it the CPU.
    wait::set_yield_target(number);
    Ok(number)
}
