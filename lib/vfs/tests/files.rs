//! The memory file system: paths, names and bytes, against what Linux does and a naive model.

mod support;

use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use std::collections::BTreeMap;
use support::{HostStore, tree};
use vfs::file_data::PageStorage;
use vfs::inode::Status;
use vfs::mount::Request;
use vfs::mount_table::{FIRST, Location};
use vfs::namespace::{FileTree, Fresh, FsCredentials, ROOT, access};
use vfs::path_walk::{PathWalk, WalkResult};

const FILE: u32 = 0o100_644;
const FOLDER: u32 = 0o040_755;
const LINK: u32 = 0o120_777;

const ROOT_USER: FsCredentials = FsCredentials::new(0, 0);

fn fresh(mode: u32, target: &[u8]) -> Fresh<'_> {
    Fresh { mode, owner: ROOT_USER, device: (0, 0), target }
}

/// Writes as the server does: the short way where that is all there is to do.
fn write(tree: &mut FileTree<HostStore>, file: u64, offset: u64, count: u64, value: u8) -> Result<u64> {
    let shortly = tree.write_within_page(file, Some(offset), count, |bytes| {
        bytes.fill(value);
        true
    });
    match shortly {
        Some((node, end)) => {
            assert!(end == offset + count && node.size >= end && node.modified == node.changed);
            Ok(count)
        }
        None => tree.write(file, offset, count, |_, bytes| bytes.fill(value)),
    }
}

fn walk(follow: bool) -> PathWalk {
    PathWalk { from: Location::first(ROOT), follow, makes: false, who: ROOT_USER, resolve: 0 }
}

#[test]
fn paths_resolve_as_path_resolution_says() {
    let mut tree = tree(8);
    let a = tree.create(ROOT, b"a", fresh(FOLDER, b"")).expect("a");
    let f = tree.create(a, b"f", fresh(FILE, b"")).expect("f");
    let link = tree.create(a, b"l", fresh(LINK, b"../a/f")).expect("l");
    tree.create(a, b"up", fresh(LINK, b"/")).expect("up");
    for path in ["/a/f", "a/f", "//a//f", "/a/./f", "/a/../a/f", "/../a/f", "/a/l", "/a/up/a/up/a/f"] {
        assert_eq!(tree.resolve(walk(true), path.as_bytes()), Ok(Location::first(f)), "{path}");
    }
    assert_eq!(tree.resolve(walk(false), b"/a/l"), Ok(Location::first(link)));
    assert_eq!(tree.resolve(walk(true), b"/a/"), Ok(Location::first(a)));
    let errors = [
        ("", Errno::ENOENT),
        ("/b", Errno::ENOENT),
        ("/a/f/", Errno::ENOTDIR),
        ("/a/f/x", Errno::ENOTDIR),
        ("/b/c", Errno::ENOENT),
    ];
    for (path, error) in errors {
        assert_eq!(tree.resolve(walk(true), path.as_bytes()), Err(error), "{path}");
    }
    assert_eq!(tree.path_of(Location::first(a)), Ok(b"/a".to_vec()));
}

#[test]
fn fault_83_long_names_and_link_loops_are_refused() {
    let mut tree = tree(8);
    tree.create(ROOT, b"x", fresh(LINK, b"y")).expect("x");
    tree.create(ROOT, b"y", fresh(LINK, b"x")).expect("y");
    assert_eq!(tree.resolve(walk(true), b"/x"), Err(Errno::ELOOP));
    let mut target = b"/".to_vec();
    for index in 0..41u8 {
        tree.create(ROOT, &[b'c', index + 1], fresh(LINK, &target)).expect("a link");
        target = vec![b'/', b'c', index + 1];
    }
    assert_eq!(tree.resolve(walk(true), b"/c\x28"), Ok(Location::first(ROOT)));
    assert_eq!(tree.resolve(walk(true), b"/c\x29"), Err(Errno::ELOOP));
    assert_eq!(tree.resolve(walk(true), &[b'a'; 256]), Err(Errno::ENAMETOOLONG));
    assert_eq!(tree.resolve(walk(true), &b"./".repeat(2048)), Err(Errno::ENAMETOOLONG));
    assert_eq!(tree.resolve(walk(true), &b"./".repeat(2047)), Ok(Location::first(ROOT)));
}

#[test]
fn a_walk_tells_where_it_leaves() {
    let mut tree = tree(8);
    tree.create(ROOT, b"proc", fresh(FOLDER, b"")).expect("a folder");
    tree.mount_proc().expect("mounted");
    let proc = tree.resolve(walk(true), b"/proc").expect("proc");
    tree.create(ROOT, b"fd", fresh(LINK, b"/proc/self/fd")).expect("fd");
    let elsewhere = |rest: &[u8]| Ok(WalkResult::LeavesFs { node: proc, rest: rest.to_vec() });
    assert_eq!(tree.walk(walk(true), b"/proc/self/exe"), elsewhere(b"self/exe"));
    assert_eq!(tree.walk(walk(true), b"/fd/3"), elsewhere(b"self/fd/3"));
    assert_eq!(tree.walk(walk(true), b"/fd"), elsewhere(b"self/fd"));
    assert_eq!(tree.walk(walk(true), b"/proc"), elsewhere(b""));
}

#[test]
fn names_change_as_linux_changes_them() {
    let mut tree = tree(8);
    let (a, b) = (
        tree.create(ROOT, b"a", fresh(FOLDER, b"")).expect("a"),
        tree.create(ROOT, b"b", fresh(FOLDER, b"")).expect("b"),
    );
    let f = tree.create(a, b"f", fresh(FILE, b"")).expect("f");
    assert_eq!(tree.create(a, b"f", fresh(FILE, b"")), Err(Errno::EEXIST));
    assert_eq!(tree.link(a, b, b"x"), Err(Errno::EPERM));
    tree.link(f, b, b"g").expect("a second name");
    assert_eq!(tree.node(f).map(|node| node.links), Ok(2));
    assert_eq!(tree.remove(ROOT, b"a", true), Err(Errno::ENOTEMPTY));
    assert_eq!(tree.remove(ROOT, b"a", false), Err(Errno::EISDIR));
    assert_eq!(tree.remove(a, b"f", true), Err(Errno::ENOTDIR));
    assert_eq!(tree.rename((ROOT, b"a"), (a, b"inside")), Err(Errno::EINVAL));
    assert_eq!(tree.rename((b, b"g"), (a, b"f")), Ok(()), "two names of one file: nothing happens");
    tree.rename((ROOT, b"a"), (b, b"a")).expect("a folder moves");
    assert_eq!(tree.look_up(a, b".."), Ok(b));
    assert_eq!((tree.node(ROOT).map(|node| node.links), tree.node(b).map(|node| node.links)), (Ok(3), Ok(3)));
    let other = tree.create(ROOT, b"h", fresh(FILE, b"")).expect("h");
    tree.exchange((ROOT, b"h"), (a, b"f")).expect("they swap");
    assert_eq!((tree.look_up(ROOT, b"h"), tree.look_up(a, b"f")), (Ok(f), Ok(other)));
}

#[test]
fn a_removed_file_lives_as_long_as_it_is_held() {
    let mut tree = tree(2);
    let f = tree.create(ROOT, b"f", fresh(FILE, b"")).expect("f");
    tree.hold(f, true).expect("held");
    tree.write(f, 0, 5000, |_, bytes| bytes.fill(1)).expect("written");
    tree.remove(ROOT, b"f", false).expect("removed");
    assert!(tree.read(f, 4999, 1, |_, bytes| assert_eq!(bytes, [1])).is_ok());
    tree.hold(f, false).expect("let go");
    assert!(tree.node(f).is_err());
    assert_eq!(tree.store.free.len(), 2);
}

#[test]
fn files_agree_with_a_vector() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tree = tree(64);
        let f = tree.create(ROOT, b"f", fresh(FILE, b"")).expect("f");
        let mut model: Vec<u8> = Vec::new();
        for step in 0..80 {
            let (offset, count) = (random.usize(..30_000), random.usize(..9000));
            match random.u8(..4) {
                0 => {
                    tree.truncate(f, offset as u64).expect("it may");
                    model.resize(offset, 0);
                }
                1 => {
                    let value = random.u8(1..);
                    let count = if value % 2 == 0 { count % 100 } else { count };
                    assert_eq!(write(&mut tree, f, offset as u64, count as u64, value), Ok(count as u64));
                    if count > 0 {
                        model.resize(model.len().max(offset + count), 0);
                        model[offset..offset + count].fill(value);
                    }
                }
                _ => {
                    let mut got = vec![0xee; count];
                    let read = tree.read(f, offset as u64, count as u64, |place, bytes| {
                        got[place..place + bytes.len()].copy_from_slice(bytes);
                    });
                    let expected = &model[offset.min(model.len())..(offset + count).min(model.len())];
                    assert_eq!(read, Ok(expected.len() as u64), "seed {seed}, step {step}");
                    assert_eq!(&got[..expected.len()], expected, "seed {seed}, step {step}");
                    let mut numbers = Vec::new();
                    let range = [offset as u64, count as u64];
                    let told =
                        tree.read_by_pages(f, range, 2, true, |number| numbers.push(number)).expect("it is read");
                    let pages = numbers.iter().flat_map(|number| tree.store.bytes(*number as u32));
                    let bytes: Vec<u8> = pages.copied().skip(offset % 4096).take(expected.len()).collect();
                    let pages = (offset + expected.len()).div_ceil(4096).saturating_sub(offset / 4096);
                    match told {
                        Some(count) => {
                            assert_eq!((count, &bytes[..]), (expected.len() as u64, expected), "seed {seed}")
                        }
                        None => assert!(pages < 2 || expected.contains(&0), "seed {seed}, step {step}: no hole"),
                    }
                    assert!(told.is_none() || pages >= 2, "seed {seed}, step {step}: too few pages");
                }
            }
            assert_eq!(tree.status(f).map(|status| status.size), Ok(model.len() as u64), "seed {seed}, step {step}");
        }
    }
}

#[test]
fn a_short_write_is_refused_where_it_would_change_more_than_contents() {
    let mut tree = tree(8);
    let f = tree.create(ROOT, b"f", fresh(FILE, b"")).expect("f");
    let shortly = |tree: &mut FileTree<HostStore>, place: Option<u64>, count: u64| {
        tree.write_within_page(f, place, count, |bytes| {
            bytes.fill(1);
            true
        })
        .map(|(_, end)| end)
    };
    assert_eq!(shortly(&mut tree, Some(0), 1), None, "there is no page yet");
    assert_eq!(tree.write(f, 0, 100, |_, bytes| bytes.fill(2)), Ok(100));
    assert_eq!(shortly(&mut tree, None, 10), Some(110), "at the end");
    for (offset, count) in [(0, 0), (4000, 97), (4096, 1), (u64::MAX, 2), (i64::MAX as u64, 1), (0, u64::MAX)] {
        assert_eq!(shortly(&mut tree, Some(offset), count), None, "{count} bytes at {offset}");
    }
    tree.set_attributes(f, |node| {
        node.mode |= 0o4000;
        Ok(())
    })
    .expect("it may");
    assert_eq!(shortly(&mut tree, Some(0), 1), None, "it acts for its owner");
    let folder = tree.create(ROOT, b"d", fresh(FOLDER, b"")).expect("d");
    assert!(tree.write_within_page(folder, Some(0), 1, |_| true).is_none(), "a directory");
    let sealable = tree.create(ROOT, b"s", fresh(FILE, b"")).expect("s");
    tree.node_mut(sealable).expect("s").seals = 0;
    assert_eq!(tree.write(sealable, 0, 100, |_, bytes| bytes.fill(2)), Ok(100));
    assert!(tree.write_within_page(sealable, Some(0), 1, |_| true).is_some());
    tree.seal(sealable, 8, false).expect("F_SEAL_WRITE");
    assert!(tree.write_within_page(sealable, Some(0), 1, |_| true).is_none(), "it is sealed");
}

#[test]
fn fault_49_a_full_store_is_enospc_and_deleting_still_works() {
    let mut tree = tree(3);
    let f = tree.create(ROOT, b"f", fresh(FILE, b"")).expect("f");
    assert_eq!(tree.write(f, 0, 5 * 4096, |_, bytes| bytes.fill(1)), Ok(3 * 4096));
    assert_eq!(tree.write(f, 3 * 4096, 1, |_, _| ()), Err(Errno::ENOSPC));
    assert_eq!(tree.status(f).map(|status| status.size), Ok(3 * 4096));
    tree.remove(ROOT, b"f", false).expect("removed");
    let g = tree.create(ROOT, b"g", fresh(FILE, b"")).expect("g");
    assert_eq!(tree.write(g, 0, 4096, |_, bytes| bytes.fill(2)), Ok(4096));
}

#[test]
fn permissions_are_those_of_owner_group_and_others() {
    let mut tree = tree(1);
    let owner = FsCredentials::new(5, 6);
    let f = tree.create(ROOT, b"f", Fresh { mode: 0o100_640, owner, device: (0, 0), target: b"" }).expect("f");
    let may = |uid, gid, wanted| tree.check(f, FsCredentials::new(uid, gid), wanted).is_ok();
    assert!(may(5, 0, access::READ | access::WRITE) && may(9, 6, access::READ) && may(0, 0, access::WRITE));
    assert!(!may(9, 6, access::WRITE) && !may(9, 9, access::READ) && !may(0, 0, access::EXECUTE));
}

#[test]
fn permissions_of_owners_give_way_to_capabilities() {
    let mut tree = tree(1);
    let owner = FsCredentials::new(5, 6);
    let fresh = |mode| Fresh { mode, owner, device: (0, 0), target: b"" };
    let file = tree.create(ROOT, b"f", fresh(0o100_000)).expect("f");
    let folder = tree.create(ROOT, b"d", fresh(0o040_000)).expect("d");
    let program = tree.create(ROOT, b"p", fresh(0o100_001)).expect("p");
    let may = |capability: Option<u32>, node| {
        let who = FsCredentials { capabilities: capability.map_or(0, |one| 1 << one), ..FsCredentials::new(0, 0) };
        (0..8).filter(|wanted| tree.check(node, who, *wanted).is_ok()).collect::<Vec<u32>>()
    };
    assert_eq!([file, folder, program].map(|node| may(None, node)), [vec![0], vec![0], vec![0, 1]]);
    let all = [file, folder, program].map(|node| may(Some(linux::CAP_DAC_OVERRIDE), node));
    assert_eq!(all, [vec![0, 2, 4, 6], (0..8).collect(), (0..8).collect()]);
    let readers = [file, folder, program].map(|node| may(Some(linux::CAP_DAC_READ_SEARCH), node));
    assert_eq!(readers, [vec![0, 4], vec![0, 1, 4, 5], vec![0, 1, 4]]);
    assert_eq!(may(Some(linux::CAP_FOWNER), file), [0]);
}

#[test]
fn random_trees_keep_their_link_counts() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut tree = tree(4);
        let mut folders = vec![ROOT];
        for _ in 0..200 {
            let (a, b) = (folders[random.usize(..folders.len())], folders[random.usize(..folders.len())]);
            let name = |random: &mut fastrand::Rng| vec![b'a' + random.u8(..6)];
            let (first, second) = (name(&mut random), name(&mut random));
            match random.u8(..6) {
                0 => folders.extend(tree.create(a, &first, fresh(FOLDER, b""))),
                1 => drop(tree.create(a, &first, fresh(FILE, b""))),
                2 => drop(tree.remove(a, &first, random.bool())),
                3 => drop(tree.rename((a, &first), (b, &second))),
                4 => drop(tree.exchange((a, &first), (b, &second))),
                _ => drop(tree.look_up(a, &first).and_then(|node| tree.link(node, b, &second))),
            }
            folders.retain(|folder| tree.node(*folder).is_ok());
        }
        let mut names: BTreeMap<u64, u32> = BTreeMap::new();
        for folder in &folders {
            *names.entry(*folder).or_default() += 1 + u32::from(*folder == ROOT);
            let list = tree.list(*folder, 2, |_, node, kind, _| {
                *names.entry(node).or_default() += 1;
                *names.entry(*folder).or_default() += u32::from(kind == 4);
                true
            });
            list.expect("a folder lists");
        }
        for (node, expected) in names {
            assert_eq!(tree.node(node).map(|node| node.links), Ok(expected), "seed {seed}, node {node}");
        }
    }
}

#[test]
fn holes_are_found_made_and_filled() {
    let mut tree = tree(8);
    let f = tree.create(ROOT, b"f", fresh(FILE, b"")).unwrap();
    tree.truncate(f, 5 * 4096).unwrap();
    tree.write(f, 2 * 4096, 4096, |_, bytes| bytes.fill(7)).unwrap();
    assert_eq!((tree.seek(f, 0, false), tree.seek(f, 0, true)), (Ok(2 * 4096), Ok(0)));
    assert_eq!((tree.seek(f, 8200, true), tree.seek(f, 8200, false)), (Ok(3 * 4096), Ok(8200)));
    assert_eq!((tree.seek(f, 3 * 4096, false), tree.seek(f, 5 * 4096, true)), (Err(Errno::ENXIO), Err(Errno::ENXIO)));
    tree.allocate(f, 0, 0, 6 * 4096).unwrap();
    let status = tree.status(f).unwrap();
    assert_eq!((status.size, status.allocated), (6 * 4096, 6 * 4096));
    assert_eq!((tree.seek(f, 0, true), tree.allocate(f, 0, 0, 9 * 4096)), (Ok(6 * 4096), Err(Errno::ENOSPC)));
    const PUNCH: u32 = 3;
    tree.allocate(f, PUNCH, 2 * 4096 + 1, 2 * 4096).unwrap();
    assert_eq!((tree.seek(f, 0, true), tree.status(f).unwrap().allocated), (Ok(3 * 4096), 5 * 4096));
    let mut head = Vec::new();
    tree.read(f, 2 * 4096, 3, |_, bytes| head.extend_from_slice(bytes)).unwrap();
    assert_eq!(head, [7, 0, 0], "what was cut in a page is zero");
}

#[test]
fn a_sparse_file_of_exabytes_is_as_good_as_a_small_one() {
    let mut tree = tree(8);
    let f = tree.create(ROOT, b"f", fresh(FILE, b"")).unwrap();
    let far = 1 << 62;
    assert_eq!(tree.write(f, far, 2, |_, bytes| bytes.fill(7)), Ok(2));
    assert_eq!((tree.seek(f, 0, false), tree.seek(f, 0, true), tree.seek(f, far, true)), (Ok(far), Ok(0), Ok(far + 2)));
    assert_eq!(tree.allocate(f, 0, 0, far), Err(Errno::ENOSPC));
    assert_eq!(tree.allocate(f, 3, 1, far), Ok(()), "all but the last byte becomes a hole");
    let mut end = Vec::new();
    tree.read(f, far, 2, |_, bytes| end.extend_from_slice(bytes)).unwrap();
    assert_eq!(end, [0, 7]);
    tree.truncate(f, i64::MAX as u64).unwrap();
    tree.truncate(f, 5).unwrap();
    assert_eq!(
        (tree.status(f).unwrap().allocated, tree.write(f, i64::MAX as u64, 1, |_, _| ())),
        (0, Err(Errno::EFBIG))
    );
}

#[test]
fn pages_agree_with_a_map() {
    use vfs::page_index::Pages;
    let seed = std::env::var("CHITIN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x7061_6765);
    println!("CHITIN_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut pages, mut model) = (Pages::default(), BTreeMap::new());
    for step in 0..4000 {
        let mut draw = || {
            let bits = random.u32(1..52);
            random.u64(..1 << bits)
        };
        let (index, length) = (draw(), draw());
        match random.u8(..8) {
            0 => {
                let end = index + length;
                let mut taken = pages.take(index, end);
                let mut expected: Vec<u32> = model.range(index..end).map(|(_, page)| *page).collect();
                model.retain(|index_of, _| !(index..end).contains(index_of));
                (taken.sort_unstable(), expected.sort_unstable());
                assert_eq!(taken, expected, "step {step}");
            }
            1..6 if !model.contains_key(&index) => {
                assert!(pages.put(index, step), "step {step}");
                model.insert(index, step);
            }
            _ => {
                assert!(!model.contains_key(&index) || !pages.put(index, step), "step {step}");
                assert_eq!(pages.get(index), model.get(&index).copied(), "step {step}");
            }
        }
        assert_eq!(pages.count(), model.len() as u64);
        if step % 50 == 0 {
            let told: Vec<(u64, u32)> = pages.from(index).collect();
            let expected: Vec<(u64, u32)> = model.range(index..).map(|(index, page)| (*index, *page)).collect();
            assert_eq!(told, expected, "step {step}");
            let hole = (index..).find(|index| !model.contains_key(index));
            assert_eq!(Some(pages.hole_from(index)), hole, "step {step}");
            let end = index + length % 2000;
            assert_eq!(pages.hole_within(index, end), hole.filter(|hole| *hole < end), "step {step}");
        }
    }
}

#[test]
fn a_file_without_a_name_may_get_one_if_it_was_made_for_it() {
    let mut tree = tree(4);
    for (nameable, name, outcome) in [(true, "named", Ok(())), (false, "never", Err(Errno::ENOENT))] {
        let f = tree.create_unnamed(ROOT, fresh(FILE, b""), nameable).unwrap();
        tree.hold(f, true).unwrap();
        assert_eq!(tree.link(f, ROOT, name.as_bytes()), outcome);
        tree.hold(f, false).unwrap();
        assert_eq!(tree.node(f).is_ok(), nameable, "it lives by its name or not at all");
    }
    let named = tree.look_up(ROOT, b"named").unwrap();
    assert_eq!(tree.path_of(Location::first(named)), Ok(b"/named".to_vec()));
}

#[test]
fn a_working_set_holds_the_pages_that_were_asked_for_last() {
    use vfs::prefault_set::{PrefaultSets, WORKING_SET};
    let mut random = fastrand::Rng::with_seed(5);
    let (mut sets, mut model) = (PrefaultSets::default(), Vec::new());
    // Every page lies somewhere else after each change; what is one more than a multiple of seven is not there.
    let mut changes = 0;
    let number = |changes: u64| move |page: u64| (page % 7 != 1).then_some(page * 3 + changes);
    for _ in 0..2000 {
        let page = random.u64(..WORKING_SET as u64 * 2);
        sets.note(7, page);
        sets.note(8, page + 1);
        model.retain(|other| *other != page);
        model.push(page);
        let last = &model[model.len().saturating_sub(WORKING_SET)..];
        let (first, end) = (random.u64(..300), random.u64(100..500));
        changes += u64::from(random.u8(..8) == 0);
        let within = last.iter().copied().filter(|page| (first..end).contains(page));
        let mut expected: Vec<u64> = within.filter_map(|page| Some(page | number(changes)(page)? << 32)).collect();
        expected.sort_unstable_by_key(|word| *word as u32);
        assert_eq!(sets.within(7, (first, end), changes, number(changes)), expected);
    }
    sets.forget(7);
    assert_eq!(sets.within(7, (0, u64::MAX), 0, Some).len(), 0);
    assert_eq!(sets.within(8, (0, u64::MAX), 0, Some).len(), WORKING_SET);
}

/// What one step of the catalogue's test does to the files.
fn change_something(tree: &mut FileTree<HostStore>, mut draw: impl FnMut(u64) -> u64) {
    let folders: Vec<u64> = (2..60).filter(|id| tree.node(*id).is_ok_and(|node| node.is_directory())).collect();
    let mut folder = || folders[draw(folders.len() as u64) as usize];
    let (from, to) = (folder(), folder());
    let mut name = || {
        [b"a".as_slice(), b"bb", b"a longer name, but shown", b"one that is too long to be shown to all"]
            [draw(4) as usize]
    };
    let (first, second) = (name(), name());
    let there = tree.look_up(from, first);
    let is_file = there.is_ok_and(|id| tree.node(id).is_ok_and(|node| !node.is_directory()));
    // What moves directories hides everything: it comes seldom, so that the rest is tried.
    let _ = match draw(100) {
        0..20 => tree.create(from, first, fresh(FILE, b"")).map(|_| ()),
        20..23 => tree.create(from, first, fresh(FOLDER, b"")).map(|_| ()),
        23..30 => tree.create(from, first, fresh(LINK, b"bb")).map(|_| ()),
        30..42 => tree.remove(from, first, false),
        42 => tree.remove(from, first, true),
        43 => tree.rename((from, first), (to, second)),
        44..60 if is_file => tree.rename((from, first), (to, second)),
        60 => tree.exchange((from, first), (to, second)),
        61..70 => there.and_then(|id| tree.link(id, to, second)),
        70 => {
            let mode = [0o755, 0o700, 0o711, 0o777][draw(4) as usize];
            there.and_then(|id| {
                tree.set_attributes(id, |node| {
                    node.mode = node.mode & 0o170_000 | mode;
                    Ok(())
                })
            })
        }
        71..75 => there.and_then(|id| tree.read(id, draw(9000), 10, |_, _| ()).map(|_| ())),
        75..87 => there.and_then(|id| tree.write(id, draw(9000), 10, |_, piece| piece.fill(1)).map(|_| ())),
        87 => tree.bind(Location::first(from), Location::first(to), false),
        88..90 => change_mount(tree, draw(4), draw(2) == 0),
        _ => there.and_then(|id| tree.truncate(id, draw(9000))),
    };
}

/// Takes a mount away, or forbids to follow links in it, or permits that.
fn change_mount(tree: &mut FileTree<HostStore>, which: u64, is_taken: bool) -> Result<()> {
    let others =
        tree.mounts.iter().filter(|(id, _)| *id != FIRST).map(|(mount, found)| (mount, found.root, found.flags));
    let found = { others }.nth(which as usize);
    let Some((mount, node, flags)) = found else { return Ok(()) };
    let at = Location { mount, node };
    if is_taken {
        return tree.unmount(at, 0);
    }
    let flags = (flags ^ linux::MS_NOSYMFOLLOW) | linux::MS_BIND;
    tree.remount(at, Request { kind: b"", source: b"", data: b"", flags, memory: 0 })
}

/// Where everybody may look, told without the catalogue.
fn is_open(tree: &FileTree<HostStore>, mut id: u64) -> bool {
    while tree.node(id).is_ok_and(|node| node.mode & 0o555 == 0o555) {
        match tree.look_up(id, b"..") {
            Ok(above) if above == id => return true,
            Ok(above) => id = above,
            Err(_) => return false,
        }
    }
    false
}

/// Links of links of links: ten times ten times ten of them, ten levels deep, are shown and found, or not, in no time.
#[test]
fn links_that_multiply_are_given_up() {
    use vfs::dcache::{Dcache, WORDS};
    let words: Vec<std::sync::atomic::AtomicU64> = (0..WORDS).map(|_| 0.into()).collect();
    let catalogue = Dcache::new(&words);
    let mut tree = tree(50);
    let mut link = |name: String, target: String| {
        let fresh =
            Fresh { mode: 0o120777, owner: FsCredentials::default(), device: (0, 0), target: target.as_bytes() };
        tree.create(ROOT, name.as_bytes(), fresh).expect("it is made");
    };
    link("0".into(), ".".into());
    (1..=10).for_each(|level: u32| link(level.to_string(), vec![(level - 1).to_string(); 10].join("/")));
    for level in 0..=10 {
        let path = format!("/{level}");
        tree.publish(catalogue, Location::first(ROOT), path.as_bytes()).expect("what can be shown is");
        let found = catalogue.find(ROOT, path.as_bytes(), true);
        assert_eq!(found.is_some(), level == 0, "level {level}");
        assert!(catalogue.find(ROOT, path.as_bytes(), false).is_some(), "level {level}");
    }
}

#[test]
fn the_catalogue_tells_what_the_tree_tells_and_nothing_of_what_is_private() {
    use vfs::dcache::{Dcache, WORDS};
    let seed = std::env::var("CHITIN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x6361_7461);
    println!("CHITIN_SEED={seed}");
    let mut state: u64 = seed;
    let mut draw = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let words: Vec<std::sync::atomic::AtomicU64> = (0..WORDS).map(|_| 0.into()).collect();
    let catalogue = Dcache::new(&words);
    let mut tree = tree(50);
    let names: [&[u8]; 4] = [b"a", b"bb", b"a longer name, but shown", b"one that is too long to be shown to all"];
    let (mut shown, mut asked) = (0, 0);
    for step in 0..10_000 {
        tree.now = step;
        change_something(&mut tree, &mut draw);
        tree.carry_out(catalogue);
        for _ in 0..4 {
            let mut path = if draw(2) == 0 { b"/".to_vec() } else { Vec::new() };
            for _ in 0..=draw(3) {
                path.extend_from_slice(names[draw(4) as usize]);
                path.push(b'/');
            }
            path.pop();
            let follow = draw(2) == 0;
            let told = tree
                .resolve(
                    PathWalk { from: Location::first(ROOT), follow, makes: false, who: ROOT_USER, resolve: 0 },
                    &path,
                )
                .and_then(|at| tree.status(at.node).map(|status| status.through(at.mount)));
            match catalogue.find(ROOT, &path, follow) {
                Some(found) => {
                    assert_eq!(found, told, "step {step}: {:?}", String::from_utf8_lossy(&path));
                    shown += 1;
                }
                None => {
                    tree.publish(catalogue, Location::first(ROOT), &path).expect("what was found can be shown");
                    asked += 1;
                }
            }
        }
        for id in (2..60).filter(|id| tree.node(*id).is_ok() && !is_open(&tree, *id)) {
            assert!(names.iter().all(|name| catalogue.name(id, name).is_none()), "step {step}: {id} is private");
        }
    }
    assert!(shown > 3000 && asked > 1000, "{shown} of {asked} were found");
}

#[test]
fn a_name_of_any_length_is_found_wherever_it_stands_in_a_path() {
    use vfs::dcache::{Dcache, NAME_BYTES, Named, WORDS};
    let words: Vec<std::sync::atomic::AtomicU64> = (0..WORDS).map(|_| 0.into()).collect();
    let catalogue = Dcache::new(&words);
    let status = |node, mode| Status { node, mode_links: mode, ..Status::default() };
    catalogue.show_node(&status(7, 0o040_755));
    catalogue.show_node(&status(8, 0o100_644));
    for length in 1..=NAME_BYTES + 1 {
        let name = "n".repeat(length);
        catalogue.show_name(ROOT, name.as_bytes(), Named { place: 7, kind: 4 });
        catalogue.show_name(7, name.as_bytes(), Named { place: 8, kind: 8 });
        let find =
            |path: String| catalogue.find(ROOT, path.as_bytes(), true).map(|found| found.map(|status| status.node));
        let is_shown = length <= NAME_BYTES;
        for (path, node) in [(format!("/{name}"), 7), (format!("{name}/{name}"), 8), (format!("/{name}/{name}"), 8)] {
            assert_eq!(find(path), is_shown.then_some(Ok(node)), "a name of {length} bytes");
        }
        assert_eq!([find(format!("/{name}n")), find(format!("/{name}/m{}", &name[1..]))], [None, None]);
    }
}

#[test]
fn an_entry_that_is_being_written_is_not_there() {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use vfs::dcache::{Dcache, Named, WORDS};
    let words: Vec<AtomicU64> = (0..WORDS).map(|_| 0.into()).collect();
    let catalogue = Dcache::new(&words);
    let found = Named { place: 7, kind: 8 };
    catalogue.show_name(ROOT, b"name", found);
    assert_eq!(catalogue.name(ROOT, b"name"), Some(found));
    assert_eq!((catalogue.name(ROOT, b"other"), catalogue.node(0)), (None, None));
    words.iter().filter(|word| word.load(SeqCst) != 0).take(1).for_each(|sequence| {
        sequence.fetch_or(1, SeqCst);
    });
    assert_eq!(catalogue.name(ROOT, b"name"), None, "its sequence number is odd");
}

#[test]
fn two_that_share_a_set_are_shown_and_a_stamp_changes_with_each_change() {
    use vfs::dcache::{Dcache, Named, WORDS};
    const SETS: u64 = 128;
    let words: Vec<std::sync::atomic::AtomicU64> = (0..WORDS).map(|_| 0.into()).collect();
    let catalogue = Dcache::new(&words);
    let status = |node, size| Status { node, size, mode_links: 0o100_644, ..Status::default() };
    let shown = |count: u64| (1..=count).filter(|way| catalogue.node(way * SETS).is_some()).count();
    for way in 1..=3 {
        catalogue.show_node(&status(way * SETS, way));
        assert_eq!(catalogue.node(way * SETS), Some(status(way * SETS, way)));
    }
    assert_eq!(shown(3), 2, "a set has two entries");
    // Entries of a node come and go in both ways: no two states of it bear the same stamp.
    let mut stamps = BTreeMap::new();
    for step in 0..1000 {
        let node = (step * step / 3 % 3 + 1) * SETS;
        catalogue.show_node(&status(node, step));
        if step % 7 == 0 {
            catalogue.hide_node(node);
            catalogue.show_node(&status(node, step));
        }
        let (stamp, found) = catalogue.stamped(node).expect("it is shown");
        assert_eq!(stamps.insert((node, stamp), found.size), None, "step {step}");
        catalogue.show_node(&status(node, step));
        assert_eq!(catalogue.stamped(node), Some((stamp, found)), "nothing has changed");
    }
    let named = |index: u64| Named { place: index + 2, kind: 8 };
    (0..200).for_each(|index| catalogue.show_name(ROOT, index.to_string().as_bytes(), named(index)));
    let found = (0..200).filter(|index| catalogue.name(ROOT, index.to_string().as_bytes()) == Some(named(*index)));
    assert!(found.count() >= 180, "of 200 names few share a set with two others");
}

#[test]
fn extended_attributes_are_counted_as_contents_are_and_go_with_their_file() {
    let mut tree = tree(6);
    let file = tree.create(ROOT, b"f", fresh(FILE, b"")).expect("f");
    let set = |tree: &mut FileTree<HostStore>, file, name: &str, bytes| {
        tree.set_attribute(file, ROOT_USER, name.as_bytes(), &vec![b'v'; bytes], 0)
    };
    assert_eq!(set(&mut tree, file, "user.a", 5000), Ok(()));
    assert_eq!((tree.store.room(), tree.volumes[&1].pages), (4, 2));
    assert_eq!(set(&mut tree, file, "user.b", 12000), Err(Errno::ENOSPC), "more than a node may have");
    assert_eq!(set(&mut tree, file, "user.b", 11360), Ok(()), "all that a node may have");
    assert_eq!((tree.store.room(), tree.volumes[&1].pages), (2, 4));
    assert_eq!(set(&mut tree, file, "user.c", 0), Err(Errno::ENOSPC));
    let other = tree.create(ROOT, b"g", fresh(FILE, b"")).expect("g");
    assert_eq!(set(&mut tree, other, "user.a", 10000), Err(Errno::ENOSPC), "more than the store has");
    assert_eq!(tree.attribute_names(other, ROOT_USER), Ok(Vec::new()));
    assert_eq!((tree.store.room(), tree.volumes[&1].pages), (2, 4), "what was not set takes no pages");
    assert_eq!(set(&mut tree, file, "user.a", 1), Ok(()));
    assert_eq!((tree.store.room(), tree.volumes[&1].pages), (3, 3));
    assert_eq!(tree.attribute(file, ROOT_USER, b"user.b"), Ok(vec![b'v'; 11360]));
    assert_eq!(tree.attribute_names(file, ROOT_USER), Ok(b"user.b\0user.a\0".to_vec()));
    tree.remove(ROOT, b"f", false).expect("f is removed");
    assert_eq!((tree.store.room(), tree.volumes[&1].pages), (6, 0));
}

#[test]
fn extended_attributes_are_changed_by_who_may_write_and_trusted_ones_by_user_0() {
    let mut tree = tree(8);
    let file = tree.create(ROOT, b"f", fresh(FILE, b"")).expect("f");
    let folder = tree.create(ROOT, b"d", fresh(0o041_777, b"")).expect("d");
    let link = tree.create(ROOT, b"l", fresh(LINK, b"f")).expect("l");
    let other = FsCredentials::new(1000, 1000);
    let set =
        |tree: &mut FileTree<HostStore>, node, who, name: &str| tree.set_attribute(node, who, name.as_bytes(), b"v", 0);
    for name in ["user.a", "trusted.a"] {
        assert_eq!(set(&mut tree, file, ROOT_USER, name), Ok(()), "{name}");
    }
    assert_eq!(tree.attribute(file, other, b"user.a"), Ok(b"v".to_vec()));
    assert_eq!(tree.attribute(file, other, b"trusted.a"), Err(Errno::ENODATA));
    assert_eq!(tree.attribute_names(file, other), Ok(b"user.a\0".to_vec()));
    assert_eq!(set(&mut tree, file, other, "user.b"), Err(Errno::EACCES));
    assert_eq!(set(&mut tree, file, other, "trusted.b"), Err(Errno::EPERM));
    assert_eq!(tree.remove_attribute(file, other, b"user.a"), Err(Errno::EACCES));
    assert_eq!(set(&mut tree, folder, other, "user.b"), Err(Errno::EPERM), "a folder in which all have files");
    assert_eq!(set(&mut tree, folder, ROOT_USER, "user.b"), Ok(()));
    assert_eq!(set(&mut tree, link, ROOT_USER, "user.b"), Err(Errno::EPERM));
    assert_eq!(set(&mut tree, link, ROOT_USER, "trusted.b"), Ok(()));
    assert_eq!(set(&mut tree, file, ROOT_USER, "security.capability"), Err(Errno::EOPNOTSUPP));
    tree.set_attributes(file, |node| {
        node.mode = 0o100_600;
        Ok(())
    })
    .expect("mode");
    assert_eq!(tree.attribute(file, other, b"user.a"), Err(Errno::EACCES));
}

/// `statfs` says how many nodes a volume has, without a look at each.
#[test]
fn nodes_are_counted_by_volume() {
    let mut tree = tree(64);
    let nodes = |tree: &FileTree<HostStore>, at| tree.space(at, 64, 64).map(|[_, _, nodes]| nodes);
    let before = nodes(&tree, ROOT).expect("the root has a volume");
    let folder = tree.create(ROOT, b"m", fresh(FOLDER, b"")).expect("m");
    let held = tree.create(ROOT, b"held", fresh(FILE, b"")).expect("held");
    tree.link(held, ROOT, b"twice").expect("twice");
    assert_eq!(nodes(&tree, ROOT), Ok(before + 2));
    tree.hold(held, true).expect("it is there");
    tree.remove(ROOT, b"held", false).expect("held");
    tree.remove(ROOT, b"twice", false).expect("twice");
    assert_eq!(nodes(&tree, ROOT), Ok(before + 2), "a file without a name is a node");
    tree.hold(held, false).expect("it is held");
    assert_eq!(nodes(&tree, ROOT), Ok(before + 1));
    let request = Request { kind: b"tmpfs", source: b"none", data: b"", flags: 0, memory: 1 << 20 };
    tree.mount(Location::first(folder), request, ROOT_USER).expect("a mount");
    let at = tree.resolve(walk(true), b"/m").expect("the mount");
    assert_eq!(nodes(&tree, at.node), Ok(1));
    tree.create(at.node, b"f", fresh(FILE, b"")).expect("f");
    assert_eq!((nodes(&tree, at.node), nodes(&tree, ROOT)), (Ok(2), Ok(before + 1)));
    tree.unmount(at, 0).expect("nothing holds it");
    tree.remove(ROOT, b"m", true).expect("m");
    assert_eq!(nodes(&tree, ROOT), Ok(before));
}
