//! The keeper of disks: an environment in the server's address space that reads and writes the C-FFS of each disk.
//!
//! It alone waits for disks. It takes the server's lock for moments: to install pages that it has read, and to copy
//! what changed. At the start it mounts every disk on `/disk`, `/disk2` and so on. A disk counts as an empty volume
//! where the host has found nothing but zeros on it. The first write-back makes the volume. Anything else on a disk is
//! left alone.
//!
//! Invariants:
//! - changes of names reach C-FFS in the order in which programs made them, but for such that commute.
//! - a round is acknowledged after C-FFS's `sync`, or with its error.

use super::adapter::{Adapter, BLOCK};
use super::load::Loader;
use super::medium::{self, Medium, RECORDS};
use crate::dispatch::FileServer;
use crate::main_loop::Server;
use crate::principals;
use abi::limits::PAGE_SIZE as BLOCK_BYTES;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use cffs::arena::Arena;
use cffs::device::{Device, MANY};
use cffs::error::Error;
use cffs::file_system::FileSystem;
use cffs::layout::inode::Inode;
use cffs::layout::{Number, hash, indirect};
use cffs::make::Options;
use cffs::name::New;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use exos::hw::current::set_service_state;
use exos::hw::{disk, entropy};
use exos::wait;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::Errno;
use runtime::EnvironmentId;
use runtime::lock::Lock;
use runtime::predicate::{Operator, clock, word};
use unix_core::server::protocol::{DISK_DONE, DISK_FAILED, DISK_ROUND, DISK_WORK};
use vfs::disk_number::letter;
use vfs::file_data::PageStorage;
use vfs::inode::NodeId;
use vfs::persistent::{
    Change, Dirty, FIRST_DISK_VOLUME, KEPT_IN_MEMORY, LARGEST_ON_DISK, Made, Restored, order_by_place,
};
use vfs::superblock::VolumeId;

/// Pages of the keeper's stack: C-FFS has blocks on it.
pub const STACK_PAGES: usize = 64;
/// Blocks that the cache of each file system holds.
const CACHE: usize = 512;
/// Nanoseconds between two write-backs of what no program asked for.
const INTERVAL: u64 = 5_000_000_000;
/// Outcomes of rounds that are remembered.
const ROUNDS: usize = 32;
/// Bytes that a mount needs for each name, and a write-back for each change: less than this.
const BYTES_FOR_NAME: usize = 1024;
/// Blocks that are kept from data, for directory nodes and indirect blocks.
const MARGIN: u64 = 64;

/// What a write-back makes durable. Changes of names reach C-FFS in every round, for they have an order.
#[derive(Debug, Default)]
pub struct Scope {
    /// All volumes.
    pub everything: bool,
    /// Volumes, each with all that lies on it.
    pub volumes: BTreeSet<VolumeId>,
    /// Files and directories.
    pub nodes: BTreeSet<NodeId>,
}

impl Scope {
    /// Whether it covers all of a volume.
    fn is_whole(&self, volume: VolumeId) -> bool {
        self.everything || self.volumes.contains(&volume)
    }
}

/// What clients ask of the keeper, in the server.
#[derive(Debug, Default)]
pub struct Requests {
    /// Pages of files that are to be read.
    pub wanted: VecDeque<(NodeId, u64)>,
    /// Number of the last write-back that was asked for.
    pub asked: u64,
    /// What those that are still to be carried out cover.
    pub scope: Scope,
    /// Number of the last one that was carried out.
    pub done: u64,
    /// Those that failed: the first and the last number of the round, and why.
    pub failed: VecDeque<(u64, u64, Errno)>,
    /// A write-back runs: pages that it has taken are in no list of dirty ones.
    pub is_writing: bool,
    /// Reads that failed.
    pub lost: VecDeque<(NodeId, u64)>,
    /// A write waits for room.
    pub wants_room: bool,
    /// Everything is written and no more is taken: the session ends.
    pub ends: bool,
    /// The keeper's environment.
    pub environment: Option<EnvironmentId>,
    /// All disks are looked at.
    pub has_begun: bool,
    /// What the host found on each disk: `b` zeros alone, `v` a volume, `r` the root, `o` other data, which it has told
    /// of.
    pub contents: Vec<u8>,
    /// Why a disk is not mounted, for people.
    pub complaints: Vec<String>,
    /// Why a mounted disk is less protected than others, for people.
    pub warnings: Vec<String>,
}

impl Requests {
    /// Whether the keeper has died: nothing that it is asked for will come.
    pub fn is_dead(&self) -> bool {
        self.environment.is_some_and(|number| !runtime::exposed::lives(number))
    }
}

/// The file system of one disk.
pub(super) struct Volume {
    pub(super) id: VolumeId,
    pub(super) system: Option<FileSystem<'static, Medium>>,
    /// A blank disk, until the first write-back.
    blank: Option<Adapter>,
    pub(super) numbers: BTreeMap<NodeId, Number>,
    /// Nodes without a name that processes have open: their inodes live on.
    orphans: Vec<NodeId>,
    /// C-FFS has changes that no sync has made durable.
    is_unsynced: bool,
}

pub(super) type State = Lock<Server>;

/// The function that the keeper's environment runs. `argument` is the address of the server's state.
pub extern "C" fn run(argument: u64) {
    set_service_state(argument);
    principals::begin();
    let state: &'static State = exos::hw::current::service_state();
    let notice = state.lock().notice_words();
    let mut volumes: Vec<Volume> =
        (0..vfs::disk_number::MOST).map_while(|number| open(state, number)).flatten().collect();
    state.lock().server.keeper.has_begun = true;
    tell(notice, DISK_DONE);
    let Ok(mut loader) = Loader::new(&mut state.lock().server.mappings) else { return };
    let mut next = runtime::clock::now() + INTERVAL;
    loop {
        let seen = notice[DISK_WORK].load(Acquire);
        while loader.load_next(state, &mut volumes) {
            tell(notice, DISK_DONE);
        }
        let is_late = runtime::clock::now() >= next;
        let (asked, done, ends, is_short, mut scope) = {
            let keeper = &mut state.lock().server.keeper;
            let is_short = core::mem::take(&mut keeper.wants_room);
            (keeper.asked, keeper.done, keeper.ends, is_short, core::mem::take(&mut keeper.scope))
        };
        scope.everything |= is_late || ends || is_short;
        if scope.everything || asked > done {
            round(state, &mut volumes, &scope, asked, ends);
            tell(notice, DISK_DONE);
            if scope.everything {
                next = runtime::clock::now() + INTERVAL;
            }
        }
        wait::wait_plainly(&mut [word(&notice[DISK_WORK], Operator::NotEqual, seen), clock(next)]);
    }
}

fn tell(notice: &[AtomicU64], index: usize) {
    notice[index].fetch_add(1, SeqCst);
    wait::kick_idle();
}

fn now() -> i64 {
    runtime::clock::wall_clock().unwrap_or_else(runtime::clock::now) as i64
}

/// Where a disk is mounted.
fn place(disk: u64, is_root: bool) -> String {
    if is_root {
        String::from("/")
    } else if disk == 0 {
        String::from("/disk")
    } else {
        format!("/disk{}", disk + 1)
    }
}

/// Looks at a disk: nothing where there is none; no volume where it holds something else.
fn open(state: &'static State, number: u64) -> Option<Option<Volume>> {
    disk::find(number)?;
    let content = state.lock().server.keeper.contents.get(number as usize).copied();
    if content == Some(b'o') {
        return Some(None);
    }
    Some(match mount(state, number, content.unwrap_or(b'v')) {
        Ok(volume) => Some(volume),
        Err(why) => {
            let name = letter(number);
            let place = place(number, content == Some(b'r'));
            let line = format!("/dev/vd{name} is not mounted at {place}: {why}; it is left as it is");
            state.lock().server.keeper.complaints.push(line);
            None
        }
    })
}

/// Mounts the volume of a disk with this `content`. On zeros alone the first write-back makes the volume.
fn mount(state: &'static State, number: u64, content: u8) -> Result<Volume, String> {
    let (is_blank, is_root) = (content == b'b', content == b'r');
    let adapter = Adapter::new(number, &mut state.lock().server.mappings).map_err(|_| "there is no memory")?;
    let id = FIRST_DISK_VOLUME + number as VolumeId;
    let mut volume =
        Volume { id, system: None, blank: None, numbers: BTreeMap::new(), orphans: Vec::new(), is_unsynced: false };
    if disk::is_read_only(number) {
        return Err(String::from("it cannot be written"));
    }
    let found = if is_blank {
        volume.blank = Some(adapter);
        vec![(0, root())]
    } else {
        let (mut system, why) = medium::mount(adapter, CACHE, now()).map_err(explain)?;
        if let Some(why) = why {
            let line = format!("/dev/vd{}: the kernel does not protect its blocks: {why}", letter(number));
            state.lock().server.keeper.warnings.push(line);
        }
        let room = |names: usize| state.lock().server.tree.store.quota.make_room_for(names * BYTES_FOR_NAME);
        let found = walk(&mut system, if is_root { &KEPT_IN_MEMORY } else { &[] }, room).map_err(explain)?;
        volume.system = Some(system);
        found
    };
    let (numbers, all): (Vec<Number>, Vec<Restored>) = found.into_iter().unzip();
    let source = format!("/dev/vd{}", letter(number));
    let mut server = state.lock();
    let nodes = server.server.tree.restore(id, source.as_bytes(), place(number, is_root).as_bytes(), &all);
    let nodes = nodes.map_err(|error| format!("error {}", error.number()))?;
    drop(server);
    if volume.system.is_some() {
        volume.numbers = nodes.into_iter().zip(numbers).collect();
    } else {
        volume.numbers = [(nodes[0], 0)].into();
        if let Some(backing) = state.lock().server.tree.backings.get_mut(&id) {
            backing.is_blank = true;
        }
    }
    volume.count_space(state);
    Ok(volume)
}

fn explain(error: Error) -> String {
    match error {
        Error::NotChitin => String::from("it holds no file system of Chitin and is not empty"),
        Error::Foreign | Error::NoFileSystem => String::from("it holds a volume of another version"),
        Error::Truncated(blocks) => format!("its volume has {} KiB, more than the disk", blocks * BLOCK_BYTES / 1024),
        Error::Damaged(block) => format!("its block {block} is damaged"),
        Error::NoMemory => String::from("there is too little memory for its names; give the machine more"),
        other => format!("{other:?}"),
    }
}

fn root() -> Restored {
    let time = now() as u64;
    let made = Made { mode: 0o040_755, owner: (0, 0), device: (0, 0), target: Box::default() };
    Restored { directory: 0, name: Vec::new(), same: None, made, size: 0, holes: Vec::new(), times: [time; 3] }
}

/// Every node of a file system, directories before what they hold; without these names of its root directory. `room`
/// says whether there is memory for so many names.
fn walk(
    system: &mut FileSystem<'static, Medium>,
    without: &[&[u8]],
    room: impl Fn(usize) -> bool,
) -> Result<Vec<(Number, Restored)>, Error> {
    let mut seen = BTreeMap::new();
    let top = system.root();
    let mut all = vec![(top, restored(system, top, 0, Vec::new(), None)?)];
    let mut next = 0;
    while next < all.len() {
        let number = all[next].0;
        let is_directory = all[next].1.made.mode & 0o170_000 == 0o040_000;
        let mut cookie = 0;
        while is_directory {
            if !room(all.len() + 64) {
                return Err(Error::NoMemory);
            }
            let listed = system.list(number, cookie, 64)?;
            let Some(last) = listed.last() else { break };
            cookie = last.cookie;
            for entry in listed.into_iter().filter(|entry| next > 0 || !without.contains(&&entry.name[..])) {
                let same = seen.get(&entry.number).copied();
                seen.entry(entry.number).or_insert(all.len());
                all.push((entry.number, restored(system, entry.number, next, entry.name, same)?));
            }
        }
        next += 1;
    }
    Ok(all)
}

fn restored(
    system: &mut FileSystem<'static, Medium>,
    number: Number,
    directory: usize,
    name: Vec<u8>,
    same: Option<usize>,
) -> Result<Restored, Error> {
    const LINK: u16 = 0o120_000;
    let inode = system.attributes(number)?;
    let target = if inode.kind() == LINK { system.read_link(number)?.into() } else { Box::default() };
    let device =
        if inode.is_device() { ((inode.parent >> 20) as u32, (inode.parent & 0xf_ffff) as u32) } else { (0, 0) };
    let made = Made { mode: inode.mode.into(), owner: (inode.uid, inode.gid), device, target };
    let times = [inode.times[0], inode.times[1], inode.times[2]].map(|time| time as u64);
    let holes = if inode.is_file() { holes(system, number, &inode).unwrap_or_default() } else { Vec::new() };
    Ok(Restored { directory, name, same, made, size: inode.size, holes, times })
}

/// The holes of a file, as ranges of its pages. A file with all its blocks has none, and is not walked; what cannot be
/// walked fails when it is read.
fn holes(system: &mut FileSystem<'static, Medium>, number: Number, inode: &Inode) -> Result<Vec<(u64, u64)>, Error> {
    let mut holes = Vec::new();
    if inode.blocks == indirect::blocks_of_whole(inode.size.div_ceil(PAGE_SIZE)) {
        return Ok(holes);
    }
    let mut data = 0;
    while let Some(hole) = system.next_hole(number, data)?.filter(|hole| *hole < inode.size) {
        data = system.next_data(number, hole)?.unwrap_or(inode.size);
        holes.push((hole / PAGE_SIZE, data.div_ceil(PAGE_SIZE)));
        if data == inode.size {
            break;
        }
    }
    Ok(holes)
}

const _: () = assert!(LARGEST_ON_DISK == cffs::file::MAX_SIZE);

/// Evicts clean pages of all volumes where fewer than so many are free.
pub(super) fn make_room(server: &mut FileServer, volumes: &[Volume], few: u64) {
    for volume in volumes {
        if server.tree.store.room() < few {
            let room = (server.tree.store.capacity() / 4).max(few);
            server.tell_of_cut();
            server.tree.evict(volume.id, room);
        }
    }
}

/// One write-back of what a scope covers.
fn round(state: &'static State, volumes: &mut [Volume], scope: &Scope, asked: u64, ends: bool) {
    let mut outcome = Ok(());
    state.lock().server.keeper.is_writing = true;
    for volume in volumes.iter_mut() {
        if let Err(error) = volume.write_back(state, scope) {
            outcome = Err(errno(error));
        }
        if ends
            && outcome.is_ok()
            && let Some(system) = volume.system.take()
        {
            outcome = medium::unmount(system).map_err(errno);
        }
        volume.count_space(state);
    }
    let mut server = state.lock();
    server.server.keeper.is_writing = false;
    let few = server.server.tree.store.capacity() / 8;
    let mut is_short = server.server.tree.store.room() < few;
    if is_short {
        make_room(&mut server.server, volumes, few);
        is_short = server.server.tree.store.room() < few;
    }
    let FileServer { tree, keeper, notice, .. } = &mut server.server;
    tree.is_squeezed = is_short;
    if let Err(error) = outcome {
        if keeper.failed.len() == ROUNDS {
            keeper.failed.pop_front();
        }
        let first = keeper.done + 1;
        keeper.failed.push_back((first, asked, error));
        notice.words()[DISK_FAILED].store(asked, Release);
    }
    keeper.done = asked;
    notice.words()[DISK_ROUND].store(asked, Release);
    if ends {
        keeper.ends = false;
    }
}

fn errno(error: Error) -> Errno {
    match error {
        Error::NoSpace => Errno::ENOSPC,
        Error::FileTooLarge => Errno::EFBIG,
        Error::TooManyLinks => Errno::EMLINK,
        Error::NoMemory => Errno::ENOMEM,
        _ => Errno::EIO,
    }
}

impl Volume {
    /// Makes the file system of a blank disk, once there is something to write.
    fn make(&mut self) -> Result<(), Error> {
        let Some(mut adapter) = self.blank.take() else { return Ok(()) };
        let mut volume = [0; 16];
        if entropy(&mut volume).is_err() {
            volume[..8].copy_from_slice(&now().to_le_bytes());
        }
        let options = Options { volume, now: now(), owner: (0, 0, 0o755) };
        cffs::make::make(&mut adapter, &mut Arena::new(CACHE, RECORDS), &options)?;
        let (system, _) = medium::mount(adapter, CACHE, now())?;
        let root = system.root();
        self.numbers.values_mut().for_each(|number| *number = root);
        self.system = Some(system);
        Ok(())
    }

    /// Takes what changed in memory, as far as a scope covers it; nothing where no write-back is needed.
    fn take_changes(&self, state: &'static State, scope: &Scope) -> Option<(Vec<Change>, Vec<(NodeId, Dirty)>)> {
        let mut server = state.lock();
        let tree = &mut server.server.tree;
        let is_whole = scope.is_whole(self.id);
        let is_here = |id: &NodeId| tree.node(*id).is_ok_and(|node| node.volume == self.id);
        if !is_whole && !scope.nodes.iter().any(is_here) {
            return None;
        }
        tree.mark_shared(self.id, if is_whole { None } else { Some(&scope.nodes) });
        if !tree.is_changed(self.id) && !self.is_unsynced {
            return None;
        }
        let backing = tree.backings.get_mut(&self.id)?;
        // Times of the root alone make no file system.
        if backing.is_blank && backing.log.is_empty() {
            return None;
        }
        backing.is_blank = false;
        backing.has_freed &= !is_whole;
        let dirty = if is_whole {
            core::mem::take(&mut backing.dirty).into_iter().collect()
        } else {
            scope.nodes.iter().filter_map(|id| backing.dirty.remove_entry(id)).collect()
        };
        Some((core::mem::take(&mut backing.log), dirty))
    }

    /// Repeats on the disk what changed in memory, as far as a scope covers it.
    fn write_back(&mut self, state: &'static State, scope: &Scope) -> Result<(), Error> {
        let Some((log, mut dirty)) = self.take_changes(state, scope) else { return Ok(()) };
        self.make()?;
        self.is_unsynced = true;
        let Some(system) = self.system.as_mut() else { return Err(Error::Io) };
        let mut outcome = Ok(());
        let log = order_by_place(log, hash::of_name, |id| self.numbers.contains_key(&id));
        for change in log {
            self.orphans.extend(keep_open(state, system, &self.numbers, &change));
            system.set_time(time_of(state, &change));
            outcome = outcome.and(apply(system, &mut self.numbers, &self.orphans, change));
        }
        // Inodes that lie next to each other on the disk follow one another.
        dirty.sort_by_key(|(id, _)| self.numbers.get(id));
        for (id, dirty) in dirty {
            let mut written = write_node(state, system, &self.numbers, id, &dirty);
            if written == Err(Error::NoSpace) {
                // Blocks that were freed can be used after a flush.
                system.sync()?;
                system.sync()?;
                written = write_node(state, system, &self.numbers, id, &dirty);
            }
            if let Err(error) = written {
                outcome = outcome.and(Err(error));
                // It is tried again in the next round.
                let mut server = state.lock();
                if let Some(backing) = server.server.tree.backings.get_mut(&self.id) {
                    backing.dirty.entry(id).or_default().restore(dirty);
                }
            }
        }
        if !scope.is_whole(self.id) {
            let numbers = scope.nodes.iter().filter_map(|id| self.numbers.get(id).copied());
            return numbers.map(|number| fsync(system, number)).fold(outcome, Result::and);
        }
        self.orphans.retain(|id| state.lock().server.tree.node(*id).is_ok() || !close(system, &mut self.numbers, *id));
        let synced = system.sync();
        self.is_unsynced = synced.is_err();
        outcome.and(synced)
    }

    fn count_space(&mut self, state: &'static State) {
        let (blocks, free) = match (&mut self.system, &mut self.blank) {
            (Some(system), _) => system.space().unwrap_or_default(),
            (None, Some(adapter)) => (adapter.blocks(), adapter.blocks().saturating_sub(300)),
            _ => return,
        };
        let mut server = state.lock();
        let tree = &mut server.server.tree;
        if let Some(backing) = tree.backings.get_mut(&self.id) {
            (backing.blocks, backing.free) = (blocks, free.saturating_sub(MARGIN + blocks / 64));
        }
    }
}

/// Makes one file or directory durable. A file that is gone needs nothing.
fn fsync(system: &mut FileSystem<'static, Medium>, number: Number) -> Result<(), Error> {
    match system.fsync(number, false) {
        Err(Error::Stale) => Ok(()),
        other => other,
    }
}

/// Keeps the inode of a node alive that loses its last name while processes have it open; the node then.
fn keep_open(
    state: &'static State,
    system: &mut FileSystem<'static, Medium>,
    numbers: &BTreeMap<NodeId, Number>,
    change: &Change,
) -> Option<NodeId> {
    let (Change::Remove(_, _, id, false, true) | Change::Rename(_, _, Some(id))) = change else { return None };
    let number = *numbers.get(id)?;
    let is_alive = state.lock().server.tree.node(*id).is_ok_and(|node| node.is_file());
    (is_alive && system.open(number).is_ok()).then_some(*id)
}

/// The time of a change. A new name has that of its inode: then most new files need no other change.
fn time_of(state: &'static State, change: &Change) -> i64 {
    let Change::Name(_, _, id, _) = change else { return state.lock().server.tree.now as i64 };
    state.lock().server.tree.snapshot(*id).map_or_else(now, |snapshot| snapshot.times[2] as i64)
}

/// Ends [`keep_open`] for a node that is gone; whether it could.
fn close(system: &mut FileSystem<'static, Medium>, numbers: &mut BTreeMap<NodeId, Number>, id: NodeId) -> bool {
    let Some(number) = numbers.remove(&id) else { return true };
    let is_closed = system.close(number).is_ok();
    if !is_closed {
        numbers.insert(id, number);
    }
    is_closed
}

fn apply(
    system: &mut FileSystem<'static, Medium>,
    numbers: &mut BTreeMap<NodeId, Number>,
    orphans: &[NodeId],
    change: Change,
) -> Result<(), Error> {
    let of = |numbers: &BTreeMap<NodeId, Number>, id: NodeId| numbers.get(&id).copied().ok_or(Error::Stale);
    match change {
        Change::Name(directory, name, id, made) => {
            let directory = of(numbers, directory)?;
            if let Some(number) = numbers.get(&id) {
                return system.link(*number, directory, &name);
            }
            let new = New {
                mode: made.mode as u16,
                uid: made.owner.0,
                gid: made.owner.1,
                device: u64::from(made.device.0) << 20 | u64::from(made.device.1),
                target: &made.target,
            };
            let number = system.create(directory, &name, &new)?;
            numbers.insert(id, number);
        }
        Change::Remove(directory, name, id, is_directory, is_last) => {
            let directory = of(numbers, directory)?;
            if is_directory {
                system.rmdir(directory, &name)?
            } else {
                system.unlink(directory, &name)?
            }
            if is_last && !orphans.contains(&id) {
                numbers.remove(&id);
            }
        }
        Change::Rename((from, from_name), (to, to_name), gone) => {
            let (from, to) = (of(numbers, from)?, of(numbers, to)?);
            system.rename((from, &from_name), (to, &to_name), false)?;
            if let Some(gone) = gone.filter(|gone| !orphans.contains(gone)) {
                numbers.remove(&gone);
            }
        }
    }
    Ok(())
}

/// Writes dirty pages of a file, neighbours together.
fn write_pages(
    state: &'static State,
    system: &mut FileSystem<'static, Medium>,
    (id, number): (NodeId, Number),
    size: u64,
    pages: &BTreeSet<u64>,
) -> Result<(), Error> {
    let mut run = Vec::with_capacity(MANY * BLOCK);
    let mut pages = pages.iter().copied().peekable();
    while let Some(first) = pages.next() {
        run.clear();
        copy_onto(state, &mut run, (id, first), size);
        while !run.is_empty() && run.len() % BLOCK == 0 && run.len() < MANY * BLOCK {
            let next = first + (run.len() / BLOCK) as u64;
            if pages.next_if_eq(&next).is_none() || !copy_onto(state, &mut run, (id, next), size) {
                break;
            }
        }
        let mut done = 0;
        while done < run.len() {
            match system.write(number, first * PAGE_SIZE + done as u64, &run[done..])? {
                0 => return Err(Error::NoSpace),
                some => done += some,
            }
        }
    }
    Ok(())
}

/// Appends what a file has of a page to a run; whether it has the page.
fn copy_onto(state: &'static State, run: &mut Vec<u8>, (id, index): (NodeId, u64), size: u64) -> bool {
    let length = PAGE_SIZE.min(size.saturating_sub(index * PAGE_SIZE)) as usize;
    let server = state.lock();
    let Some(bytes) = server.server.tree.page_bytes(id, index) else { return false };
    run.extend_from_slice(&bytes[..length]);
    length > 0
}

fn write_node(
    state: &'static State,
    system: &mut FileSystem<'static, Medium>,
    numbers: &BTreeMap<NodeId, Number>,
    id: NodeId,
    dirty: &Dirty,
) -> Result<(), Error> {
    let Some(number) = numbers.get(&id).copied() else { return Ok(()) };
    let Some(snapshot) = state.lock().server.tree.snapshot(id).filter(|snapshot| snapshot.is_named) else {
        return Ok(());
    };
    system.set_time(snapshot.times[2] as i64);
    if let Some(cut) = dirty.cut {
        system.truncate(number, cut)?;
    }
    for (first, end) in &dirty.punched {
        system.punch(number, first * PAGE_SIZE, (end - first) * PAGE_SIZE)?;
    }
    write_pages(state, system, (id, number), snapshot.size, &dirty.pages)?;
    let mut inode = system.attributes(number)?;
    if inode.is_file() {
        if inode.size != snapshot.size {
            system.truncate(number, snapshot.size)?;
            inode = system.attributes(number)?;
        }
        state.lock().server.tree.is_stored(id, snapshot.size, &dirty.pages);
    }
    let mode = snapshot.mode as u16;
    if inode.mode & 0o7777 != mode & 0o7777 {
        system.set_mode(number, mode)?;
        inode = system.attributes(number)?;
    }
    if (inode.uid, inode.gid) != snapshot.owner {
        system.set_owner(number, snapshot.owner.0, snapshot.owner.1)?;
        inode = system.attributes(number)?;
    }
    let [access, data, change, ..] = snapshot.times.map(|time| time as i64);
    // A write has set the others already.
    if inode.times[..3] == [access, data, change] {
        return Ok(());
    }
    system.set_times(number, Some(access), Some(data))
}
