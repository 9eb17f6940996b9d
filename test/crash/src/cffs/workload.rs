//! Workloads: operations by path, and their effect on file system and model.
//!
//! The user of each inode is its number in the model, so that the oracle knows it again on the disk. No two operations
//! write the same contents.

use super::device::Recorder;
use super::model::{Content, Id, Model};
use crate::random::Random;
use cffs::file_system::FileSystem;
use cffs::layout::inode::{DIRECTORY, FIFO, FILE, LINK};
use cffs::name::New;
use std::collections::BTreeMap;

/// A path below the root: directory (empty for the root) and name.
pub type Path = (&'static str, &'static str);

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create(Path),
    Mkdir(Path),
    Symlink(Path, usize),
    Fifo(Path),
    Link(Path, Path),
    Rename(Path, Path),
    Unlink(Path),
    Rmdir(Path),
    Truncate(Path, u64),
    Write(Path, u64, usize),
    Allocate(Path, u64, u64),
    Punch(Path, u64, u64),
    Chmod(Path, u16),
}

/// What makes an operation durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persist {
    /// Nothing that the user asked for.
    Nothing,
    /// fsync of what the operation named.
    Fsync,
    /// fdatasync of it.
    Fdatasync,
    /// fsync of the directory.
    Directory,
    /// sync.
    Sync,
}

/// The model after each operation, and what was acknowledged as durable.
#[derive(Clone, Default)]
pub struct History {
    /// Models; the first one is the durable beginning.
    pub models: Vec<Model>,
    /// Number of the last model that a sync made durable.
    pub synced: usize,
    /// Number of the last model that an fsync of an inode made durable.
    pub fsynced: BTreeMap<Id, usize>,
}

impl History {
    pub fn last(&self) -> &Model {
        self.models.last().expect("there is a beginning")
    }
}

/// File system and model.
pub struct Both<'s, 'a> {
    pub system: &'s mut FileSystem<'a, Recorder>,
    pub history: History,
    /// Inode numbers by identity.
    pub numbers: BTreeMap<Id, u64>,
    pub step: u64,
}

const NAMES: [&str; 7] = ["foo", "bar", "new", "tmp", "E", "D", LONG];
/// A name that leaves room for one inode in its sector.
pub const LONG: &str = concat!(
    "a-long-name-a-long-name-a-long-name-a-long-name-a-long-name-a-long-name-a-long-name-a-long-name-",
    "a-long-name-a-long-name-a-long-name-a-long-name-a-long-name-a-long-name-a-long-name-a-long-name-a-long-name-",
    "a-long-name-a-long-name-a-long-name-a-long-name-123"
);
const DIRECTORIES: [&str; 5] = ["", "A", "B", "A/E", "A/D"];

impl Operation {
    /// The path that a persistence call after the operation names.
    fn subject(&self) -> Path {
        match *self {
            Self::Create(path) | Self::Mkdir(path) | Self::Symlink(path, _) | Self::Fifo(path) => path,
            Self::Link(_, path) | Self::Rename(_, path) | Self::Unlink(path) | Self::Rmdir(path) => path,
            Self::Truncate(path, _) | Self::Write(path, ..) | Self::Allocate(path, ..) => path,
            Self::Punch(path, ..) | Self::Chmod(path, _) => path,
        }
    }

    /// A random operation.
    pub fn random(random: &mut Random) -> Self {
        let mut path = || (DIRECTORIES[random.below(DIRECTORIES.len())], NAMES[random.below(NAMES.len())]);
        let (one, two) = (path(), path());
        let offsets = [0, 100, 4_096, 5_000, 12_000, 20_000, 60_000, 2_100_000];
        let at = offsets[random.below(offsets.len())];
        // The longest ones have blocks that C-FFS writes without a page of its cache.
        let length = if random.below(6) == 0 { 40_000 + random.below(9_000) } else { 1 + random.below(9_000) };
        match random.below(24) {
            0..=2 => Self::Create(one),
            3 | 4 => Self::Mkdir(one),
            5 => Self::Symlink(one, 1 + random.below(120)),
            6 => Self::Fifo(one),
            7 | 8 => Self::Link(one, two),
            9..=13 => Self::Rename(one, two),
            14 | 15 => Self::Unlink(one),
            16 => Self::Rmdir(one),
            17 => Self::Truncate(one, at),
            18..=20 => Self::Write(one, at, length),
            21 => Self::Allocate(one, at, length as u64),
            22 => Self::Punch(one, at, length as u64),
            _ => Self::Chmod(one, random.below(0o777) as u16),
        }
    }
}

impl Both<'_, '_> {
    fn directory(&self, path: &str) -> Option<Id> {
        let parts = path.split('/').filter(|part| !part.is_empty());
        parts.into_iter().try_fold(0, |at, part| self.history.last().lookup(at, part.as_bytes()).ok())
    }

    fn find(&self, path: Path) -> Option<Id> {
        let directory = self.directory(path.0)?;
        self.history.last().lookup(directory, path.1.as_bytes()).ok()
    }

    /// Carries out an operation on both sides; false if the model refuses it. Both refuse the same.
    pub fn run(&mut self, operation: Operation) -> bool {
        let mut model = self.history.last().clone();
        let done = self.apply(operation, &mut model);
        if done == Some(true) {
            let living = &model.nodes;
            self.numbers.retain(|id, _| living.contains_key(id));
            self.history.models.push(model);
        }
        done == Some(true)
    }

    fn apply(&mut self, operation: Operation, model: &mut Model) -> Option<bool> {
        self.step += 1;
        match operation {
            Operation::Create(path) => self.make(model, path, FILE, Content::File { bytes: Vec::new() }),
            Operation::Mkdir(path) => self.make(model, path, DIRECTORY, Content::Directory(BTreeMap::new())),
            Operation::Symlink(path, length) => {
                let text = vec![b'a' + (self.step % 26) as u8; length];
                self.make(model, path, LINK, Content::Link(text))
            }
            Operation::Fifo(path) => self.make(model, path, FIFO, Content::Other(FIFO, 0)),
            Operation::Link(from, to) => {
                let (target, directory) = (self.find(from)?, self.directory(to.0)?);
                let theirs = model.link(target, directory, to.1.as_bytes());
                let ours = self.system.link(self.numbers[&target], self.numbers[&directory], to.1.as_bytes());
                Some(agree(ours, theirs))
            }
            Operation::Rename(from, to) => {
                let (old, new) = (self.directory(from.0)?, self.directory(to.0)?);
                let theirs = model.rename((old, from.1.as_bytes()), (new, to.1.as_bytes()), false);
                let numbers = (self.numbers[&old], self.numbers[&new]);
                let ours = self.system.rename((numbers.0, from.1.as_bytes()), (numbers.1, to.1.as_bytes()), false);
                Some(agree(ours, theirs))
            }
            Operation::Unlink(path) => {
                let directory = self.directory(path.0)?;
                let theirs = model.unlink(directory, path.1.as_bytes());
                Some(agree(self.system.unlink(self.numbers[&directory], path.1.as_bytes()), theirs))
            }
            Operation::Rmdir(path) => {
                let directory = self.directory(path.0)?;
                let theirs = model.rmdir(directory, path.1.as_bytes());
                Some(agree(self.system.rmdir(self.numbers[&directory], path.1.as_bytes()), theirs))
            }
            Operation::Chmod(path, mode) => {
                let id = self.find(path)?;
                model.nodes.get_mut(&id)?.mode = mode;
                Some(agree(self.system.set_mode(self.numbers[&id], mode), Ok(())))
            }
            other => self.contents(other, model),
        }
    }

    fn make(&mut self, model: &mut Model, path: Path, kind: u16, content: Content) -> Option<bool> {
        let directory = self.directory(path.0)?;
        let text = if let Content::Link(text) = &content { text.clone() } else { Vec::new() };
        let theirs = model.create(directory, path.1.as_bytes(), content, 0o640, (0, 0));
        let uid = theirs.as_ref().map_or(0, |id| *id as u32);
        let new = New { mode: kind | 0o640, uid, gid: 0, device: 0, target: &text };
        let ours = self.system.create(self.numbers[&directory], path.1.as_bytes(), &new);
        if let (Ok(id), Ok(number)) = (&theirs, &ours) {
            self.numbers.insert(*id, *number);
        }
        Some(agree(ours.map(|_| ()), theirs.map(|_| ())))
    }

    fn contents(&mut self, operation: Operation, model: &mut Model) -> Option<bool> {
        let id = self.find(operation.subject())?;
        let number = self.numbers[&id];
        let bytes = model.bytes(id).ok()?;
        let ours = match operation {
            Operation::Truncate(_, size) => {
                bytes.resize(size as usize, 0);
                self.system.truncate(number, size)
            }
            Operation::Write(_, offset, length) => {
                let data: Vec<u8> = (0..length).map(|at| pattern(id, self.step, offset as usize + at)).collect();
                model.write(id, offset as usize, &data).ok()?;
                self.system.write(number, offset, &data).map(|_| ())
            }
            Operation::Allocate(_, offset, length) => {
                let size = bytes.len().max((offset + length) as usize);
                bytes.resize(size, 0);
                self.system.allocate(number, offset, length, false)
            }
            Operation::Punch(_, offset, length) => {
                model.punch(id, offset as usize, length as usize).ok()?;
                self.system.punch(number, offset, length)
            }
            _ => return None,
        };
        Some(agree(ours, Ok(())))
    }

    /// Makes durable, and records what is acknowledged by that.
    pub fn persist(&mut self, operation: Operation, how: Persist) {
        let path = operation.subject();
        let subject = match how {
            Persist::Directory => self.directory(path.0),
            Persist::Fsync | Persist::Fdatasync => self.find(path),
            _ => None,
        };
        let now = self.history.models.len() - 1;
        match (how, subject) {
            (Persist::Sync, _) => {
                self.system.sync().expect("the disk works");
                self.history.synced = now;
            }
            (Persist::Nothing, _) | (_, None) => (),
            (_, Some(id)) => {
                self.system.fsync(self.numbers[&id], how == Persist::Fdatasync).expect("the disk works");
                self.history.fsynced.insert(id, now);
            }
        }
    }
}

/// No two operations write the same, and no byte is zero.
fn pattern(id: Id, step: u64, at: usize) -> u8 {
    let mixed = (id as u64 * 31 + step * 131 + (at / 512) as u64 * 7).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    1 + (mixed % 255) as u8
}

fn agree(ours: cffs::error::Result<()>, theirs: cffs::error::Result<()>) -> bool {
    assert_eq!(ours, theirs);
    ours.is_ok()
}
