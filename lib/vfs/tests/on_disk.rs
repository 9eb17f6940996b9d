//! Files that a disk keeps, against a model of their bytes: holes, blocks, write-back, eviction and reads in any order.

mod support;

use linux_abi::errno::Errno;
use linux_raw_sys::general::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE};
use std::collections::BTreeMap;
use support::{HostStore, tree};
use vfs::file_data::PageStorage;
use vfs::inode::NodeId;
use vfs::namespace::{FileTree, Fresh, FsCredentials, ROOT};
use vfs::persistent::{Change, Dirty, FIRST_DISK_VOLUME, LARGEST_ON_DISK, Made, Restored, order_by_place};

const PAGE: u64 = 4096;
/// Pages that the file has at most.
const PAGES: u64 = 24;

/// The disk: one byte for each block that the file has there, and its size.
struct Disk {
    blocks: BTreeMap<u64, u8>,
    size: u64,
}

impl Disk {
    fn cut(&mut self, size: u64) {
        self.blocks.split_off(&size.div_ceil(PAGE));
        self.size = size;
    }

    /// What the keeper does with what it took.
    fn write(&mut self, tree: &FileTree<HostStore>, file: NodeId, dirty: &Dirty, size: u64) {
        dirty.cut.iter().for_each(|cut| self.cut(*cut));
        for (first, end) in &dirty.punched {
            self.blocks.retain(|index, _| !(*first..*end).contains(index));
        }
        for index in dirty.pages.range(..size.div_ceil(PAGE)) {
            if let Some(bytes) = tree.page_bytes(file, *index) {
                self.blocks.insert(*index, bytes[0]);
            }
        }
        self.cut(size);
    }

    fn load(&self, tree: &mut FileTree<HostStore>, (file, index): (NodeId, u64)) {
        for index in index..index + tree.count_missing(file, index, 3) {
            let page = tree.store.allocate().expect("there is room");
            let value = self.blocks.get(&index).copied().expect("a hole is not missing");
            tree.store.bytes_mut(page).fill(value);
            tree.put_loaded(file, [(index, page)]);
        }
    }
}

/// A volume with one file: its root and the file.
fn on_disk(tree: &mut FileTree<HostStore>, size: u64, holes: &[(u64, u64)]) -> [NodeId; 2] {
    let entry = |name: &[u8], mode: u32, size: u64, holes: &[(u64, u64)]| {
        let made = Made { mode, owner: (0, 0), device: (0, 0), target: Box::default() };
        Restored { directory: 0, name: name.to_vec(), same: None, made, size, holes: holes.to_vec(), times: [5; 3] }
    };
    let all = [entry(b"", 0o040_755, 0, &[]), entry(b"file", 0o100_644, size, holes)];
    let made = tree.restore(FIRST_DISK_VOLUME, b"/dev/vda", b"/disk", &all).expect("there is room");
    made.try_into().expect("two nodes")
}

/// Repeats an operation, with a read of the disk in between where a page is missing.
fn until_loaded<T>(
    tree: &mut FileTree<HostStore>,
    disk: &Disk,
    mut action: impl FnMut(&mut FileTree<HostStore>) -> Result<T, Errno>,
) -> T {
    loop {
        match action(tree) {
            Ok(done) => return done,
            Err(error) => {
                assert_eq!(error, Errno::NOT_LOADED);
                let missing = tree.missing.take().expect("a page is missing");
                disk.load(tree, missing);
            }
        }
    }
}

/// Takes what changed, as the keeper does.
fn take(tree: &mut FileTree<HostStore>, file: NodeId) -> (Dirty, u64) {
    let size = tree.snapshot(file).expect("it is there").size;
    let backing = tree.backings.get_mut(&FIRST_DISK_VOLUME).expect("it is there");
    (backing.dirty.remove(&file).unwrap_or_default(), size)
}

#[test]
fn files_of_a_disk_agree_with_a_model_of_their_bytes() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tree = tree(4 * PAGES as usize);
        let blocks = (0..10).filter(|index| index % 4 > 1).map(|index| (index, 7)).collect();
        let mut disk = Disk { blocks, size: 10 * PAGE };
        let [_, file] = on_disk(&mut tree, disk.size, &[(0, 2), (4, 6), (8, 10)]);
        tree.backings.get_mut(&FIRST_DISK_VOLUME).expect("it is there").free = 1 << 20;
        // What programs see: a byte for each page, none for a hole.
        let mut model: Vec<Option<u8>> = (0..10).map(|index| disk.blocks.get(&index).copied()).collect();
        let mut taken: Option<(Dirty, u64)> = None;
        for step in 0..120 {
            let (one, other) = (random.u64(..PAGES), random.u64(..PAGES));
            let (first, end) = (one.min(other), one.max(other));
            match random.u8(..9) {
                0..3 => {
                    let value = random.u8(1..);
                    let write = |tree: &mut FileTree<HostStore>| {
                        tree.write(file, one * PAGE, PAGE, |_, bytes| bytes.fill(value))
                    };
                    assert_eq!(until_loaded(&mut tree, &disk, write), PAGE);
                    model.resize(model.len().max(one as usize + 1), None);
                    model[one as usize] = Some(value);
                }
                3 => {
                    until_loaded(&mut tree, &disk, |tree| tree.truncate(file, one * PAGE));
                    model.resize(one as usize, None);
                }
                4 if first < end => {
                    let mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
                    let punch =
                        |tree: &mut FileTree<HostStore>| tree.allocate(file, mode, first * PAGE, (end - first) * PAGE);
                    until_loaded(&mut tree, &disk, punch);
                    model.iter_mut().take(end as usize).skip(first as usize).for_each(|page| *page = None);
                }
                // Programs change the file while the keeper writes what it took.
                5 if taken.is_none() => taken = Some(take(&mut tree, file)),
                5 | 6 => {
                    if let Some((dirty, size)) = taken.take() {
                        if random.u8(..4) == 0 {
                            let backing = tree.backings.get_mut(&FIRST_DISK_VOLUME).expect("it is there");
                            backing.dirty.entry(file).or_default().restore(dirty);
                        } else {
                            disk.write(&tree, file, &dirty, size);
                            tree.is_stored(file, size, &dirty.pages);
                        }
                    }
                }
                7 if taken.is_none() => drop(tree.evict_file(file, random.u64(..PAGES))),
                _ if !model.is_empty() => {
                    let index = one % model.len() as u64;
                    let mut found = 0;
                    let read = |tree: &mut FileTree<HostStore>| {
                        tree.read(file, index * PAGE, PAGE, |_, bytes| found = bytes[100])
                    };
                    until_loaded(&mut tree, &disk, read);
                    assert_eq!(found, model[index as usize].unwrap_or(0), "seed {seed}, step {step}, page {index}");
                }
                _ => {}
            }
            check_holes(&tree, file, &model, &format!("seed {seed}, step {step}"));
        }
    }
}

/// Blocks and holes are those of the model.
fn check_holes(tree: &FileTree<HostStore>, file: NodeId, model: &[Option<u8>], when: &str) {
    let there = model.iter().flatten().count() as u64;
    assert_eq!(tree.node(file).expect("it is there").allocated(), there * PAGE, "{when}");
    for index in 0..model.len() {
        let at = index as u64 * PAGE;
        let next = |is_data: bool| (index..model.len()).find(|page| model[*page].is_some() == is_data);
        let data = next(true).map(|page| page as u64 * PAGE).ok_or(Errno::ENXIO);
        let hole = next(false).unwrap_or(model.len()) as u64 * PAGE;
        assert_eq!(tree.seek(file, at, false), data, "{when}, page {index}");
        assert_eq!(tree.seek(file, at, true), Ok(hole), "{when}, page {index}");
    }
}

/// Operations on terabytes take no more steps than there are pages and holes.
#[test]
fn a_sparse_file_of_hundreds_of_gibibytes_takes_few_steps() {
    let mut tree = tree(128);
    let [_, file] = on_disk(&mut tree, 0, &[]);
    tree.backings.get_mut(&FIRST_DISK_VOLUME).expect("it is there").free = 1 << 20;
    assert_eq!(tree.truncate(file, LARGEST_ON_DISK), Ok(()));
    assert_eq!(tree.truncate(file, LARGEST_ON_DISK + 1), Err(Errno::EFBIG));
    assert_eq!(tree.write(file, LARGEST_ON_DISK - 3, 4, |_, _| {}), Err(Errno::EFBIG));
    assert_eq!(tree.write(file, LARGEST_ON_DISK - 3, 3, |_, bytes| bytes.fill(1)), Ok(3));
    assert_eq!(tree.allocate(file, 0, 0, LARGEST_ON_DISK + 1), Err(Errno::EFBIG));
    assert_eq!(tree.allocate(file, 0, 0, LARGEST_ON_DISK), Err(Errno::ENOSPC));
    let (dirty, size) = take(&mut tree, file);
    tree.is_stored(file, size, &dirty.pages);
    assert_eq!(tree.seek(file, 0, false), Ok((LARGEST_ON_DISK - 1) / PAGE * PAGE));
    assert_eq!(tree.node(file).expect("it is there").allocated(), PAGE);
    let mut bytes = 0;
    assert_eq!(tree.read(file, 0, u64::MAX >> 34, |_, piece| bytes += piece.len()), Ok(u64::MAX >> 34));
    let mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    assert_eq!(tree.allocate(file, mode, 0, LARGEST_ON_DISK), Ok(()));
    assert_eq!((tree.node(file).expect("it is there").allocated(), tree.seek(file, 0, false)), (0, Err(Errno::ENXIO)));
    // Holes far apart wait for a write-back.
    take(&mut tree, file);
    let mut punched = 0;
    while tree.allocate(file, mode, punched * 10 * PAGE, PAGE).is_ok() {
        punched += 1;
    }
    assert!(tree.wants_room && punched < 5000, "{punched} holes wait");
}

#[test]
fn a_page_that_was_read_is_put_where_it_is_missing_or_freed() {
    let mut tree = tree(16);
    let [_, file] = on_disk(&mut tree, 5 * PAGE, &[]);
    let page = |tree: &mut FileTree<HostStore>, value: u8| {
        let page = tree.store.allocate().expect("there is room");
        tree.store.bytes_mut(page).fill(value);
        page
    };
    assert_eq!([0, 4, 5].map(|first| tree.count_missing(file, first, 10)), [5, 1, 0]);
    assert_eq!((tree.count_missing(file, 0, 3), tree.count_missing(ROOT, 0, 3)), (3, 0));
    let second = page(&mut tree, 9);
    tree.put_loaded(file, [(1, second)]);
    assert_eq!([0, 1, 2].map(|first| tree.count_missing(file, first, 10)), [1, 0, 3]);
    assert_eq!(tree.page_bytes(file, 1), Some(&[9; 4096][..]));
    let late = page(&mut tree, 8);
    tree.put_loaded(file, [(1, late)]);
    assert_eq!((tree.page_bytes(file, 1), tree.store.free.last()), (Some(&[9; 4096][..]), Some(&late)));
    tree.truncate(file, 2 * 4096).expect("it may be cut");
    let (cut, nowhere) = (page(&mut tree, 7), page(&mut tree, 7));
    tree.put_loaded(file, [(3, cut)]);
    tree.put_loaded(ROOT, [(0, nowhere)]);
    assert!([cut, nowhere].iter().all(|page| tree.store.free.contains(page)), "pages without a place are free");
    assert_eq!(tree.page_bytes(file, 3), None);
}

#[test]
fn pages_that_programs_write_themselves_are_marked_in_the_files_that_are_asked_for() {
    let mut tree = tree(16);
    let [_, file] = on_disk(&mut tree, 2 * PAGE, &[]);
    let page = tree.store.allocate().expect("there is room");
    tree.put_loaded(file, [(0, page)]);
    tree.store.share(page);
    let dirty = |tree: &FileTree<HostStore>| tree.backings[&FIRST_DISK_VOLUME].dirty.get(&file).cloned();
    tree.mark_shared(FIRST_DISK_VOLUME, Some(&[file + 1].into()));
    tree.mark_shared(FIRST_DISK_VOLUME + 1, Some(&[file].into()));
    tree.mark_shared(FIRST_DISK_VOLUME + 1, None);
    let before = dirty(&tree);
    assert!(before.is_none_or(|dirty| dirty.pages.is_empty()), "not this file, or not this volume");
    tree.hold(file, true).expect("it is there");
    tree.mark_shared(FIRST_DISK_VOLUME, Some(&[file].into()));
    assert_eq!(dirty(&tree).expect("it changed").pages, [0].into());
    assert!(tree.store.is_shared(page), "a process may write it still");
    tree.hold(file, false).expect("it is held");
    tree.mark_shared(FIRST_DISK_VOLUME, None);
    assert!(!tree.store.is_shared(page), "it was marked for the last time");
}

/// The names below a root that a log leads to; none where a change does not fit.
fn outcome(root: NodeId, log: &[Change]) -> Option<BTreeMap<(NodeId, Box<[u8]>), NodeId>> {
    let mut names = BTreeMap::new();
    for change in log {
        let fits = match change {
            Change::Name(directory, name, id, _) => names.insert((*directory, name.clone()), *id).is_none(),
            Change::Remove(directory, name, id, is_directory, _) => {
                let is_full = *is_directory && names.keys().any(|(within, _)| within == id);
                names.remove(&(*directory, name.clone())) == Some(*id) && !is_full
            }
            Change::Rename(from, to, _) => {
                names.remove(from).is_some_and(|id| names.insert(to.clone(), id).is_none_or(|over| over != id))
            }
        };
        let mut directories = names.keys().map(|(directory, _)| *directory);
        if !fits || directories.any(|directory| directory != root && !names.values().any(|id| *id == directory)) {
            return None;
        }
    }
    Some(names)
}

/// The names of files that a tree has below a directory and the directories in it.
fn names_of(tree: &FileTree<HostStore>, directories: &[NodeId]) -> BTreeMap<(NodeId, Box<[u8]>), NodeId> {
    let names = (b'a'..=b'f').map(|letter| Box::from([letter]));
    let all = names.flat_map(|name: Box<[u8]>| directories.iter().map(move |directory| (*directory, name.clone())));
    all.filter_map(|(directory, name)| Some(((directory, name.clone()), tree.look_up(directory, &name).ok()?)))
        .collect()
}

/// What programs do to names, swaps too, leads to the same names when the disk repeats its log.
#[test]
fn the_log_leads_to_the_names_of_the_tree() {
    let mut swaps = 0;
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tree = tree(100);
        let [root, _] = on_disk(&mut tree, 0, &[]);
        let fresh = |mode| Fresh { mode, owner: FsCredentials::default(), device: (0, 0), target: b"" };
        let inner = tree.create(root, b"inner", fresh(0o040_755)).expect("there is room");
        let directories = [root, inner];
        for _ in 0..60 {
            let mut place = || (directories[random.usize(..2)], [b'a' + random.u8(..6)]);
            let ((from, from_name), (to, to_name)) = (place(), place());
            let _ = match random.u8(..5) {
                0 => tree.create(from, &from_name, fresh(0o100_644)).map(|_| ()),
                1 => tree.look_up(from, &from_name).and_then(|id| tree.link(id, to, &to_name)),
                2 => tree.rename((from, &from_name), (to, &to_name)),
                3 => tree.exchange((from, &from_name), (to, &to_name)).map(|()| swaps += 1),
                _ => tree.remove(from, &from_name, false),
            };
        }
        let log = &tree.backings[&FIRST_DISK_VOLUME].log;
        let ordered = order_by_place(log.clone(), |name| u64::from(name[0] % 4), |_| false);
        let mut names = outcome(root, &ordered).expect("each change fits");
        assert_eq!(Some(&names), outcome(root, log).as_ref());
        assert_eq!(names.remove(&(root, Box::from(*b"inner"))), Some(inner));
        assert_eq!(names, names_of(&tree, &directories), "seed {seed}: {log:?}");
    }
    assert!(swaps > 200, "{swaps} swaps");
}

/// A log of random changes below directory 1, as programs that make directories, links and renames leave it.
fn random_log(random: &mut fastrand::Rng, length: usize) -> Vec<Change> {
    let made = || Made { mode: 0o100_644, owner: (0, 0), device: (0, 0), target: Box::default() };
    let (mut names, mut directories, mut log) = (BTreeMap::<(NodeId, Box<[u8]>), NodeId>::new(), vec![1], Vec::new());
    while log.len() < length {
        let directory = directories[random.usize(..directories.len())];
        let name: Box<[u8]> = vec![b'a' + random.u8(..6)].into();
        let place = (directory, name.clone());
        let old = names.get(&place).copied();
        let next = 100 + log.len() as NodeId;
        let other = names.iter().nth(random.usize(..names.len().max(1))).map(|(at, id)| (at.clone(), *id));
        let change = match (old, random.u8(..8), other) {
            (None, 0, _) => {
                directories.push(next);
                Change::Name(directory, name, next, made())
            }
            (None, 1, Some((_, id))) if !directories.contains(&id) => Change::Name(directory, name, id, made()),
            (None, 2, Some((from, id))) if !directories.contains(&id) => Change::Rename(from, place, None),
            (None, ..) => Change::Name(directory, name, next, made()),
            (Some(id), ..) => {
                let is_directory = directories.contains(&id);
                if is_directory && names.keys().any(|(within, _)| *within == id) {
                    continue;
                }
                directories.retain(|other| *other != id);
                let is_last = names.values().filter(|other| **other == id).count() == 1;
                Change::Remove(directory, name, id, is_directory, is_last)
            }
        };
        log.push(change);
        names = outcome(1, &log).expect("each change fits");
    }
    log
}

/// The order of places leads to the same names, also from a disk that has the first part of a log already.
#[test]
fn changes_in_the_order_of_places_have_the_same_outcome() {
    let (mut random, mut left_out) = (fastrand::Rng::with_seed(7), 0);
    for _ in 0..400 {
        let log = random_log(&mut random, 60);
        let (before, rest) = log.split_at(random.usize(..30));
        let known = |id: NodeId| before.iter().any(|change| matches!(change, Change::Name(_, _, own, _) if *own == id));
        let mut ordered = before.to_vec();
        // Places of names collide.
        ordered.extend(order_by_place(rest.to_vec(), |name| u64::from(name[0] % 4), known));
        assert_eq!(outcome(1, &ordered), outcome(1, &log), "{log:?} became {ordered:?}");
        left_out += log.len() - ordered.len();
    }
    assert!(left_out > 400, "{left_out} changes of names that came and went are left out");
}

/// Two programs that change a directory each in turn have their changes one directory after the other.
#[test]
fn changes_of_two_directories_in_turn_are_grouped() {
    let made = || Made { mode: 0o100_644, owner: (0, 0), device: (0, 0), target: Box::default() };
    let text = |index: u64| Box::from(index.to_string().as_bytes());
    let log = (0..100).map(|index| Change::Name(1 + index % 2, text(index * 7 % 100), 100 + index, made())).collect();
    let place = |name: &[u8]| str::from_utf8(name).expect("digits").parse().expect("a number");
    let places: Vec<_> = order_by_place(log, place, |_| false)
        .into_iter()
        .map(|change| match change {
            Change::Name(directory, name, ..) => (directory, place(&name)),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(places.is_sorted(), "{places:?}");
}
