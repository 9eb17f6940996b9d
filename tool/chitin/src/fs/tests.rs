//! Tests of the subcommands: random trees copied in and out, spoiled images, files that are none.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use cffs::device::{Device, Failed};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use xn::format::{BLOCK_SIZE, Block};

use super::{Command, disk};
use super::{check, image, listing, run};

/// Seeded random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % limit
    }
}

/// A name of 1 to 200 bytes, most of them short, any byte but `/` and zero.
fn name(random: &mut Random, index: u64) -> std::ffi::OsString {
    let length = if random.below(8) == 0 { 200 } else { random.below(12) };
    let mut bytes: Vec<u8> = (0..length).map(|_| 1 + random.below(255) as u8).filter(|byte| *byte != b'/').collect();
    bytes.extend(index.to_string().bytes());
    std::ffi::OsString::from_vec(bytes)
}

fn write_file(path: &Path, random: &mut Random) {
    let file = File::create(path).expect("a new name");
    let parts = random.below(4);
    for _ in 0..parts {
        let at = [0, 100, 4_096, 70_000, 3 << 20, 6 << 30][random.below(6) as usize];
        let bytes: Vec<u8> = (0..random.below(40_000)).map(|at| (at * 7 + at / 251) as u8).collect();
        file.write_all_at(&bytes, at).expect("room");
    }
    if random.below(3) == 0 {
        let length = file.metadata().expect("open").len();
        file.set_len(length + random.below(100_000)).expect("room");
    }
}

/// A random tree of directories, files with holes, links of both kinds, and FIFOs.
fn grow(root: &Path, random: &mut Random) {
    let (mut directories, mut files): (Vec<PathBuf>, Vec<PathBuf>) = (vec![root.into()], Vec::new());
    for index in 0..10 + random.below(50) {
        let above = directories[random.below(directories.len() as u64) as usize].clone();
        let path = above.join(name(random, index));
        match random.below(10) {
            0 | 1 => {
                fs::create_dir(&path).expect("a new name");
                directories.push(path);
                continue;
            }
            2 if !files.is_empty() => {
                let first = &files[random.below(files.len() as u64) as usize];
                fs::hard_link(first, &path).expect("a new name");
                continue;
            }
            3 => symlink("x".repeat(1 + random.below(300) as usize), &path).expect("a new name"),
            4 => mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o640), 0).expect("a new name"),
            _ => {
                write_file(&path, random);
                files.push(path.clone());
                let mode = [0o644, 0o4755, 0o400, 0o2775, 0o000][random.below(5) as usize];
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("own");
                let time = UNIX_EPOCH + Duration::new(random.below(2_000_000_000), random.below(1_000_000_000) as u32);
                let _ = File::open(&path).and_then(|file| file.set_modified(time));
            }
        }
    }
}

/// What a copy keeps of each path. Names of one file share the number of its first.
fn picture(root: &Path) -> BTreeMap<PathBuf, String> {
    let (mut pending, mut found, mut first) = (vec![root.to_owned()], BTreeMap::new(), BTreeMap::new());
    while let Some(path) = pending.pop() {
        let metadata = fs::symlink_metadata(&path).expect("there");
        let own = path.strip_prefix(root).expect("below").to_owned();
        let mut content = String::new();
        if metadata.is_dir() {
            pending.extend(fs::read_dir(&path).expect("readable").map(|entry| entry.expect("readable").path()));
        } else if metadata.is_symlink() {
            content = format!("{:?}", fs::read_link(&path));
        } else if metadata.is_file() && metadata.len() < 1 << 25 {
            content = format!("{:?}", crc32fast::hash(&fs::read(&path).unwrap_or_default()));
        } else if metadata.is_file() {
            let (file, mut bytes) = (File::open(&path).expect("readable"), vec![0; 200_000]);
            let _ = file.read_at(&mut bytes, 6 << 30);
            content = format!("{:?}", crc32fast::hash(&bytes));
        }
        let time = if metadata.is_dir() && own.as_os_str().is_empty() { 0 } else { metadata.mtime_nsec() };
        let size = if metadata.is_dir() { 0 } else { metadata.len() };
        let names = if metadata.is_dir() { 0 } else { metadata.nlink() };
        let line = format!("{:o} {names} {size} {time} {content}", metadata.mode());
        first.entry(metadata.ino()).or_insert_with(|| own.clone());
        found.insert(own, line);
    }
    found
}

fn made(folder: &Path, size: &str) -> PathBuf {
    let file = folder.join("image");
    let wanted = disk::parse(&format!("{}:{size}", file.display())).expect("a size");
    run(&Command::Make { file: wanted, force: false }).expect("room");
    file
}

fn copy(from: &str, to: &str) -> Result<(), String> {
    let places = vec![from.to_owned(), to.to_owned()];
    run(&Command::Cp { places }).map(|_| ()).map_err(|failure| failure.to_string())
}

fn verdict(file: &Path) -> (String, u8) {
    let mut device = image::Image::open(file, false).expect("there");
    check::report(&mut device, "it").expect("a volume")
}

#[test]
fn random_trees_come_back_as_they_went_in() {
    for seed in 0..24 {
        let folder = tempfile::tempdir().expect("room");
        let (tree, back) = (folder.path().join("tree"), folder.path().join("back"));
        fs::create_dir(&tree).expect("room");
        grow(&tree, &mut Random(seed));
        let file = made(folder.path(), "16M");
        let there = format!("{}:/inside", file.display());
        copy(tree.to_str().expect("plain"), &there).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let (text, status) = verdict(&file);
        assert_eq!(status, 0, "seed {seed}: {text}");
        copy(&there, back.to_str().expect("plain")).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(picture(&tree), picture(&back), "seed {seed}");
        // A second copy replaces what the first one made.
        copy(&format!("{}/.", tree.display()), &there).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(verdict(&file).1, 0, "seed {seed}");
        for hole in [&tree, &back] {
            let large = fs::read_dir(hole).expect("there").flatten();
            let blocks: u64 = large.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.blocks()).sum();
            assert!(blocks < 4_000, "holes take no blocks: {blocks}");
        }
    }
}

/// Blocks in memory.
#[derive(Clone)]
struct Memory(Rc<RefCell<Vec<Block>>>);

impl Device for Memory {
    fn blocks(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    fn read(&mut self, block: u64, bytes: &mut Block) -> Result<(), Failed> {
        self.0.borrow().get(block as usize).map(|own| *bytes = *own).ok_or(Failed)
    }

    fn write(&mut self, _: u64, _: &Block) -> Result<(), Failed> {
        panic!("reading writes nothing")
    }

    fn flush(&mut self) -> Result<(), Failed> {
        Ok(())
    }
}

/// Ends after 1 MiB, as a reader that has seen enough.
struct Sink(usize);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The listing of the two directories and the content of the two files, as far as they can be read.
fn read_all(memory: &Memory) -> Vec<Option<String>> {
    let list = |path: &str| image::read_device(memory.clone(), |system| listing::lines(system, path.as_bytes()).ok());
    let cat = |path: &str| {
        image::read_device(memory.clone(), |system| {
            let copied = listing::copy(system, path.as_bytes(), &mut Sink(1 << 20));
            copied.ok().map(|done| format!("{:?}", done.is_ok()))
        })
    };
    ["/", "/d"].map(list).into_iter().chain(["/d/small", "/large"].map(cat)).map(|found| found.ok().flatten()).collect()
}

fn spoiled_image() -> Memory {
    let folder = tempfile::tempdir().expect("room");
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("d")).expect("room");
    for index in 0..60 {
        fs::write(tree.join(format!("d/file-{index}")), vec![1; index]).expect("room");
    }
    fs::write(tree.join("d/small"), "small").expect("room");
    fs::write(tree.join("large"), vec![9; 200_000]).expect("room");
    let file = made(folder.path(), "2M");
    copy(&format!("{}/.", tree.display()), &format!("{}:/", file.display())).expect("room");
    let bytes = fs::read(&file).expect("there");
    let blocks = bytes.chunks_exact(BLOCK_SIZE).filter_map(|block| block.first_chunk().copied()).collect();
    Memory(Rc::new(RefCell::new(blocks)))
}

#[test]
fn flipped_bits_are_reported_and_never_end_a_command_by_a_panic() {
    let memory = spoiled_image();
    let (text, status) = check::report(&mut memory.clone(), "it").expect("a volume");
    assert_eq!(status, 0, "{text}");
    let whole = read_all(&memory);
    // Most of the fixed blocks are empty template slots, which nothing reads.
    let known = (0..memory.0.borrow().len()).filter(|block| !(30..256).contains(block));
    let used: Vec<usize> = known.filter(|block| memory.0.borrow()[*block].iter().any(|byte| *byte != 0)).collect();
    let mut reported = 0;
    for seed in 0..10_000_u64 {
        let mut random = Random(seed);
        let block = used[random.below(used.len() as u64) as usize];
        let bit = random.below(8 * BLOCK_SIZE as u64) as usize;
        memory.0.borrow_mut()[block][bit / 8] ^= 1 << (bit % 8);
        let seen = check::report(&mut memory.clone(), "it");
        let damaged = seen.as_ref().map_or(true, |(_, status)| *status == super::check::DAMAGED);
        reported += u64::from(damaged);
        if let Ok((text, status)) = seen {
            let named = status == 0 || text.contains("block") || text.contains("damaged");
            assert!(named, "seed {seed}: {text}");
        }
        // What is not reported is data, or what no command reads: every name is as it was.
        if !damaged && seed % 8 == 0 || seed % 16 == 1 {
            let found = read_all(&memory);
            assert!(damaged || found == whole, "seed {seed}: block {block}, bit {bit}: {found:?}");
        }
        memory.0.borrow_mut()[block][bit / 8] ^= 1 << (bit % 8);
    }
    assert!(reported > 1_500, "{reported}");
}

#[test]
fn files_that_cannot_be_used_have_one_clear_line() {
    let folder = tempfile::tempdir().expect("room");
    let path = |name: &str| folder.path().join(name);
    let said = |file: &Path| {
        let failure = run(&Command::Ls { file: file.into(), path: "/".into() }).expect_err("no file system");
        let text = failure.to_string();
        assert!(text.starts_with(&file.display().to_string()) && !text.contains('\n'), "{text}");
        text
    };
    assert!(said(&path("none")).contains("no such file"));
    assert!(said(folder.path()).contains("a directory"));
    fs::write(path("text"), "text").expect("room");
    assert!(said(&path("text")).contains("holds no file system"));
    fs::write(path("zeros"), vec![0; 1 << 20]).expect("room");
    assert!(said(&path("zeros")).contains("holds no file system"));
    let file = made(folder.path(), "2M");
    assert_eq!(fs::metadata(&file).expect("made").len(), 2 << 20);
    let cut = path("cut");
    fs::write(&cut, &fs::read(&file).expect("made")[..1_500_000]).expect("room");
    assert!(said(&cut).contains("shorter than its file system of 512 blocks"));
    let make = |name: &str, force| {
        let wanted = disk::parse(name).expect("a name");
        run(&Command::Make { file: wanted, force }).map(|_| ()).map_err(|failure| failure.to_string())
    };
    let again = make(&file.display().to_string(), false).expect_err("there is one");
    assert!(again.contains("--force overwrites it"), "{again}");
    assert_eq!(make(&file.display().to_string(), true), Ok(()));
    let small = make(&format!("{}:1M", path("small").display()), false).expect_err("too small");
    assert!(small.contains("at least 1064 KiB"), "{small}");
    assert!(!path("small").exists());
    let large = path("large");
    fs::write(&large, vec![5; 3 << 20]).expect("room");
    let full = copy(&large.display().to_string(), &format!("{}:/", file.display())).expect_err("too large");
    assert!(full.contains("the file system is full"), "{full}");
    assert_eq!(verdict(&file).1, 0, "a full file system is clean");
    let locked = image::Image::open(&file, true).expect("there");
    assert!(said(&file).contains("another run uses it"));
    drop(locked);
    assert!(copy("a", "b").expect_err("no image").contains("one side"));
    let none = copy(&format!("{}:/none", file.display()), &path("x").display().to_string()).expect_err("not there");
    assert!(none.contains("no such file or directory"), "{none}");
}
