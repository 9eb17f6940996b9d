//! Random operations on C-FFS and on a model: equal results, equal trees, also after mounts. A failure prints its seed;
//! `CHITIN_SEED` runs one.

mod support;

use cffs::arena::Arena;
use cffs::error::Error;
use cffs::layout::inode::{DIRECTORY, FIFO, FILE, LINK};
use cffs::name::New;
use std::collections::BTreeMap;
use support::model::{Content, Id, Model};
use support::{Memory, Random, System, check, volume};

/// Both sides and the map between their inodes.
struct Pair<'s, 'a> {
    system: &'s mut System<'a>,
    model: Model,
    numbers: BTreeMap<Id, u64>,
    random: Random,
    opened: Vec<Id>,
    refused: u32,
}

const LARGEST: u64 = 3_000_000;

impl Pair<'_, '_> {
    fn name(&mut self) -> Vec<u8> {
        let index = self.random.below(12);
        match self.random.below(8) {
            0 => vec![b'a' + index as u8; 255],
            1 => vec![b'k' + index as u8 % 10; 1 + self.random.below(60) as usize],
            _ => format!("n{index}").into_bytes(),
        }
    }

    fn pick(&mut self, wanted: fn(&Content) -> bool) -> Id {
        let list: Vec<Id> =
            self.model.nodes.iter().filter(|(_, node)| wanted(&node.content)).map(|(id, _)| *id).collect();
        if list.is_empty() { 0 } else { list[self.random.below(list.len() as u64) as usize] }
    }

    fn directory(&mut self) -> Id {
        self.pick(|content| matches!(content, Content::Directory(_)))
    }

    fn file(&mut self) -> Id {
        self.pick(|content| matches!(content, Content::File { .. }))
    }

    /// An existing name most of the time.
    fn existing(&mut self, directory: Id) -> Vec<u8> {
        let names: Vec<Vec<u8>> =
            self.model.entries(directory).map(|entries| entries.keys().cloned().collect()).unwrap_or_default();
        if names.is_empty() || self.random.below(10) == 0 {
            return self.name();
        }
        names[self.random.below(names.len() as u64) as usize].clone()
    }

    fn same(&mut self, what: &str, ours: Result<(), Error>, theirs: Result<(), Error>) {
        assert_eq!(ours, theirs, "{what}");
        self.refused += u32::from(ours.is_err());
    }

    fn create(&mut self) {
        let (directory, name) = (self.directory(), self.name());
        let link = vec![b'l'; 1 + self.random.below(120) as usize];
        let (kind, content, target) = match self.random.below(10) {
            0..=2 => (DIRECTORY, Content::Directory(BTreeMap::new()), &[][..]),
            3 => (LINK, Content::Link(link.clone()), &link[..]),
            4 => (FIFO, Content::Other(FIFO, 0), &[][..]),
            _ => (FILE, Content::File { bytes: Vec::new() }, &[][..]),
        };
        let (uid, gid) = (self.random.below(99) as u32, 5);
        let new = New { mode: kind | 0o751, uid, gid, device: 0, target };
        let ours = self.system.create(self.numbers[&directory], &name, &new);
        let theirs = self.model.create(directory, &name, content, 0o751, (uid, gid));
        if let (Ok(number), Ok(id)) = (ours, theirs) {
            assert!(!self.numbers.values().any(|other| *other == number), "{number} twice");
            self.numbers.insert(id, number);
        }
        self.same("create", ours.map(|_| ()), theirs.map(|_| ()));
    }

    fn names(&mut self) {
        let directory = self.directory();
        let name = self.existing(directory);
        let number = self.numbers[&directory];
        match self.random.below(5) {
            0 | 1 => {
                let theirs = self.model.unlink(directory, &name);
                let ours = self.system.unlink(number, &name);
                self.same("unlink", ours, theirs);
            }
            2 => {
                let theirs = self.model.rmdir(directory, &name);
                let ours = self.system.rmdir(number, &name);
                self.same("rmdir", ours, theirs);
            }
            3 => {
                let target = self.pick(|content| !matches!(content, Content::Directory(_)));
                let name = self.name();
                let theirs = self.model.link(target, directory, &name);
                let ours = self.system.link(self.numbers[&target], number, &name);
                self.same("link", ours, theirs);
            }
            _ => {
                let other = self.directory();
                let new = if self.random.below(2) == 0 { self.existing(other) } else { self.name() };
                let no_replace = self.random.below(8) == 0;
                let theirs = self.model.rename((directory, &name), (other, &new), no_replace);
                let ours = self.system.rename((number, &name), (self.numbers[&other], &new), no_replace);
                self.same("rename", ours, theirs);
            }
        }
        let living = &self.model.nodes;
        self.numbers.retain(|id, _| living.contains_key(id));
    }

    fn contents(&mut self) {
        let file = self.file();
        if file == 0 {
            return;
        }
        let number = self.numbers[&file];
        let bits = self.random.below(22);
        let offset = self.random.below(1 << bits).min(LARGEST);
        let length = self.random.below(20_000);
        let length = if self.random.below(3) == 0 { 4_096 } else { length };
        // Many whole blocks go straight to the device.
        let (offset, length) =
            if self.random.below(5) == 0 { (offset & !0xfff, 10 * length) } else { (offset, length) };
        match self.random.below(6) {
            0..=2 => {
                let byte = 1 + self.random.below(255) as u8;
                let data = vec![byte; length as usize];
                assert_eq!(self.system.write(number, offset, &data), Ok(data.len()));
                self.model.write(file, offset as usize, &data).expect("a file");
            }
            3 => {
                assert_eq!(self.system.truncate(number, offset), Ok(()));
                self.model.bytes(file).expect("a file").resize(offset as usize, 0);
            }
            4 => {
                assert_eq!(self.system.punch(number, offset, length.max(1)), Ok(()));
                self.model.punch(file, offset as usize, length.max(1) as usize).expect("a file");
            }
            _ => {
                let keep = self.random.below(2) == 0;
                assert_eq!(self.system.allocate(number, offset, length.max(1), keep), Ok(()));
                let bytes = self.model.bytes(file).expect("a file");
                let end = (offset + length.max(1)) as usize;
                if end > bytes.len() && !keep {
                    bytes.resize(end, 0);
                }
            }
        }
    }

    fn open_and_close(&mut self) {
        if self.random.below(2) == 0 || self.opened.is_empty() {
            let file = self.file();
            if file != 0 {
                self.system.open(self.numbers[&file]).expect("it is there");
                self.model.nodes.get_mut(&file).expect("it is there").opens += 1;
                self.opened.push(file);
            }
        } else {
            let index = self.random.below(self.opened.len() as u64) as usize;
            self.close(index);
        }
    }

    fn close(&mut self, index: usize) {
        let file = self.opened.swap_remove(index);
        self.system.close(self.numbers[&file]).expect("it is open");
        self.model.close(file);
        let living = &self.model.nodes;
        self.numbers.retain(|id, _| living.contains_key(id));
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..=5 => self.create(),
            6..=11 => self.names(),
            12..=16 => self.contents(),
            17 => self.open_and_close(),
            18 => {
                let id = self.pick(|_| true);
                assert_eq!(self.system.fsync(self.numbers[&id], self.random.0.is_multiple_of(2)), Ok(()));
            }
            _ => assert_eq!(self.system.sync(), Ok(())),
        }
    }
}

/// Both trees are equal; the numbers of all inodes with names.
fn compare(system: &mut System<'_>, model: &Model) -> BTreeMap<Id, u64> {
    let mut numbers = BTreeMap::from([(0, system.root())]);
    let mut pending = vec![0];
    while let Some(id) = pending.pop() {
        let (node, number) = (&model.nodes[&id], numbers[&id]);
        let inode = system.attributes(number).expect("it is there");
        let directory = matches!(node.content, Content::Directory(_));
        assert_eq!(inode.nlink, if directory { 1 } else { node.links });
        if id != 0 {
            assert_eq!((inode.mode & 0o7777, inode.uid, inode.gid), (node.mode, node.owner.0, node.owner.1));
        }
        match &node.content {
            Content::Directory(entries) => {
                let mut cookie = 0;
                let mut listed = BTreeMap::new();
                while let Some(last) = {
                    let part = system.list(number, cookie, 5).expect("a directory");
                    let last = part.last().map(|entry| entry.cookie);
                    listed.extend(part.into_iter().map(|entry| (entry.name, entry.number)));
                    last
                } {
                    cookie = last;
                }
                assert!(listed.keys().eq(entries.keys()), "{listed:?} {entries:?}");
                for (name, child) in entries {
                    let known = numbers.insert(*child, listed[name]);
                    assert!(known.is_none_or(|known| known == listed[name]));
                    if known.is_none() {
                        pending.push(*child);
                    }
                }
            }
            Content::File { bytes } => {
                assert_eq!(inode.size, bytes.len() as u64);
                let mut read = vec![0; bytes.len()];
                assert_eq!(system.read(number, 0, &mut read), Ok(bytes.len()));
                assert!(read == *bytes, "contents of {id}");
            }
            Content::Link(target) => assert_eq!(system.read_link(number).as_ref(), Ok(target)),
            Content::Other(kind, _) => assert_eq!(inode.kind(), *kind),
        }
    }
    numbers
}

/// Where the volume is: on the raw device, in a kernel's XN, or there with another environment that disturbs it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Raw,
    Kernel,
    Disturbed,
}

/// How many operations were refused, and how often the volume was disturbed.
fn run(seed: u64, steps: u32, arena: &mut Arena, place: Place) -> (u32, u64) {
    println!("seed {seed}, {place:?}");
    let raw: Memory = volume(12_000);
    let mut disturbed = 0;
    let (mut model, mut random, mut refused) = (Model::default(), Random(seed), 0);
    for _ in 0..3 {
        let device = match place {
            Place::Raw => raw.clone(),
            Place::Kernel => raw.guarded(arena.pages(), None),
            Place::Disturbed => raw.guarded(arena.pages(), Some(Random(seed))),
        };
        let (mut system, repairs) = arena.mount(device.clone(), support::HOW).expect("it mounts");
        assert!(repairs.is_none());
        let numbers = compare(&mut system, &model);
        let mut pair = Pair { system: &mut system, model, numbers, random, opened: Vec::new(), refused: 0 };
        for step in 0..steps {
            pair.system.set_time(2_000_000_000_000 + i64::from(step));
            pair.step();
        }
        while !pair.opened.is_empty() {
            pair.close(0);
        }
        refused += pair.refused;
        (model, random) = (pair.model, pair.random);
        compare(&mut system, &model);
        system.unmount().expect("it can be closed");
        disturbed += device.stop();
        check(&raw, arena);
    }
    (refused, disturbed)
}

#[test]
fn random_operations_agree_with_the_model() {
    if let Some(seed) = std::env::var("CHITIN_SEED").ok().and_then(|seed| seed.parse().ok()) {
        for place in [Place::Raw, Place::Kernel, Place::Disturbed] {
            run(seed, 400, &mut Arena::new(96, 256), place);
        }
        return;
    }
    let mut refused = 0;
    for seed in 0..30 {
        // Small caches write back and replace in the middle of operations.
        let pages = [64, 96, 1_000][seed as usize % 3];
        refused += run(seed, 300, &mut Arena::new(pages, 256), Place::Raw).0;
    }
    assert!(refused > 500, "{refused}");
}

/// The kernel's XN and the library's accept the same, and what another environment may do to frames changes nothing.
#[test]
fn fault_67_emptied_frames_come_back() {
    let (mut refused, mut disturbed) = (0, 0);
    for seed in 100..116 {
        let pages = [64, 96, 512][seed as usize % 3];
        let place = if seed % 4 == 0 { Place::Kernel } else { Place::Disturbed };
        let (more, often) = run(seed, 200, &mut Arena::new(pages, 256), place);
        (refused, disturbed) = (refused + more, disturbed + often);
    }
    assert!(refused > 150 && disturbed > 2000, "{refused} {disturbed}");
}
