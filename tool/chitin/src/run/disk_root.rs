//! Root on a disk: `--disk FILE --root R` copies the root to a new disk once, and later runs start from the disk.
//!
//! The file [`MARK`] says that a volume holds a root, and whether all of it was copied. ExOS keeps the directory of
//! that file in memory, with those for devices and temporary files (`KEPT_IN_MEMORY` of
//! `lib/vfs/src/mounts/persistent.rs`).
//! Invariant: a disk that holds anything but zeros or the beginning of such a copy is not written.

use std::collections::HashMap;
use std::fs;
use std::io::Read;

use cffs::device::Device;
use cffs::error::Error;
use cffs::file_system::FileSystem;
use cffs::layout::Number;
use cffs::layout::inode::{DIRECTORY, FILE, LINK};
use cffs::name::New;

use crate::failure::{Context, Failure, Result};
use crate::fs::image::{self, Image};
use crate::fs::{make, path};
use crate::progress::Progress;
use crate::root::{Contents, Kind, Node, Tree};

use super::disk::Locked;
use super::disk_content::Content;
use super::options::Options;

/// The directory and the name of the mark, and what it holds while a root is copied and afterwards.
const MARK: [&str; 2] = [".chitin", "root"];
const BEGUN: &[u8] = b"begun\n";
const WHOLE: &[u8] = b"whole\n";
/// Directories that are not copied.
const KEPT_IN_MEMORY: [&[u8]; 5] = [b"dev", b"proc", b"sys", b"tmp", b".chitin"];
/// Files whose contents the host reads from a root on a disk.
const USERS: [&[u8]; 2] = [b"etc/passwd", b"etc/group"];
/// Stands for the contents of every other file: a program is checked when it is executed.
const UNREAD: &[u8] = b"#!";
/// Bytes written at a time.
const CHUNK: u64 = 1 << 20;
const BLOCK: u64 = 4096;

/// Where the root of a run is.
#[derive(Debug)]
pub enum Place {
    /// In the machine's memory.
    Memory,
    /// It is copied to the first disk.
    ToCopy,
    /// It is on the first disk already: its names.
    Disk(Tree),
}

/// Finds out where the root is.
///
/// # Errors
/// When the disk holds a part of a root, and none is named; or when it cannot be read.
pub fn place(options: &Options, disks: &[(Locked, Content)]) -> Result<Place> {
    let names_root = options.root.is_some() || options.image.is_some() || !options.packages.is_empty();
    let Some((locked, content)) = disks.first() else { return Ok(Place::Memory) };
    let place = match content {
        Content::Blank if names_root => Place::ToCopy,
        Content::Volume => on_volume(locked, names_root)?,
        _ => Place::Memory,
    };
    if !matches!(place, Place::Memory) && !options.volume.is_empty() {
        let name = locked.disk.file.display();
        return Err(Failure::new(format!("--volume: not with a root on a disk; copy with ./chitin fs cp to {name}:/")));
    }
    Ok(place)
}

fn on_volume(locked: &Locked, names_root: bool) -> Result<Place> {
    let image = device(locked)?;
    let found = image::read_device(image.clone(), |system| {
        let mark = read_mark(system)?;
        Ok(match mark.as_deref() {
            Some(WHOLE) => Place::Disk(names(system)?),
            Some(_) => Place::ToCopy,
            None => Place::Memory,
        })
    });
    let place = found.and_then(|place| place).map_err(|error| image.failure(error))?;
    if matches!(place, Place::ToCopy) && !names_root {
        let name = locked.disk.file.display();
        return Err(Failure::new(format!("--disk {name}: the copy of a root was interrupted; name the root again")));
    }
    Ok(place)
}

fn device(locked: &Locked) -> Result<Image> {
    let path = &locked.disk.file;
    Image::new(locked.file.try_clone().context(path.display())?, path)
}

fn read_mark<D: Device>(system: &mut FileSystem<'_, D>) -> std::result::Result<Option<Vec<u8>>, Error> {
    match path::find(system, MARK.join("/").as_bytes(), false) {
        Ok(number) => read(system, number).map(Some),
        Err(Error::NotFound | Error::NotDirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read<D: Device>(system: &mut FileSystem<'_, D>, number: Number) -> std::result::Result<Vec<u8>, Error> {
    let mut bytes = vec![0; system.attributes(number)?.size.min(CHUNK) as usize];
    let count = system.read(number, 0, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// The names of a volume as a tree.
fn names<D: Device>(system: &mut FileSystem<'_, D>) -> std::result::Result<Tree, Error> {
    let mut tree = Tree::new();
    let unread = tree.add_contents(Contents::Bytes(UNREAD.to_vec()));
    let mut todo = vec![(Vec::new(), system.root())];
    while let Some((path, directory)) = todo.pop() {
        let mut cookie = 0;
        loop {
            let listed = system.list(directory, cookie, 64)?;
            let Some(last) = listed.last() else { break };
            cookie = last.cookie;
            for entry in listed {
                let name = if path.is_empty() { entry.name } else { [&path[..], b"/", &entry.name].concat() };
                let inode = system.attributes(entry.number)?;
                let kind = match inode.mode & 0o170_000 {
                    DIRECTORY => Kind::Directory,
                    LINK => Kind::SymbolicLink(system.read_link(entry.number)?),
                    FILE if USERS.contains(&&name[..]) => {
                        let bytes = read(system, entry.number)?;
                        Kind::File(tree.add_contents(Contents::Bytes(bytes)))
                    }
                    FILE => Kind::File(unread),
                    other => Kind::Special { type_bits: other.into(), device: (0, 0) },
                };
                if kind == Kind::Directory {
                    todo.push((name.clone(), entry.number));
                }
                let node = Node { user: inode.uid, group: inode.gid, ..Node::of_root(kind, inode.mode.into()) };
                tree.insert(&name, node);
            }
        }
    }
    Ok(tree)
}

/// Copies a root to a disk that holds zeros, or the beginning of such a copy. A disk that this run made is removed
/// where that fails.
///
/// # Errors
/// When the disk is too small or cannot be written, or the root not be read.
pub fn copy(tree: &Tree, locked: &Locked) -> Result<()> {
    let copied = check_size(tree, locked).and_then(|()| write(tree, locked));
    if copied.is_err() && locked.is_new {
        // The failure of the copy is what the user is told of.
        let _ = fs::remove_file(&locked.disk.file);
    }
    copied
}

/// What of a root is copied.
fn copied(tree: &Tree) -> impl Iterator<Item = (&[u8], &Node)> {
    let is_kept =
        |path: &[u8]| path.split(|byte| *byte == b'/').next().is_some_and(|top| KEPT_IN_MEMORY.contains(&top));
    tree.below(b"").filter(move |(path, _)| !is_kept(path))
}

fn check_size(tree: &Tree, locked: &Locked) -> Result<()> {
    let blocks = |node: &Node| if let Kind::File(file) = node.kind { tree.size_of(file).div_ceil(BLOCK) } else { 0 };
    // Names take a block for twelve, and the volume itself a part of it.
    let needed: u64 = copied(tree).map(|(_, node)| blocks(node)).sum::<u64>() + tree.names() as u64 / 12 + 512;
    let needed = needed + needed / 32;
    if needed * BLOCK > locked.bytes { Err(too_small(needed * BLOCK, locked)) } else { Ok(()) }
}

fn too_small(needed: u64, locked: &Locked) -> Failure {
    let (name, needed) = (locked.disk.file.display(), needed.div_ceil(1 << 20));
    let room = needed + needed / 2;
    let has = locked.bytes >> 20;
    Failure::new(format!(
        "--disk {name}: the root needs {needed} MiB and the disk has {has}; name a new one with more, as in {name}:{room}M"
    ))
}

fn write(tree: &Tree, locked: &Locked) -> Result<()> {
    let mut image = device(locked)?;
    make::fill(&mut image)?;
    let mut progress = Progress::items("copying the root to the disk", tree.names() as u64);
    image::write_to(image, |image, system| {
        let told = |error: Error| match error {
            Error::NoSpace => too_small(locked.bytes + 1, locked),
            error => image.failure(error),
        };
        let owner = Node::of_root(Kind::Directory, 0o755);
        let top = system.root();
        let folder = create(system, top, MARK[0].as_bytes(), &owner, &[]).map_err(told)?;
        let mark =
            create(system, folder, MARK[1].as_bytes(), &Node::of_root(Kind::File(0), 0o444), &[]).map_err(told)?;
        system.write(mark, 0, BEGUN).map_err(told)?;
        system.sync().map_err(told)?;
        let mut copy = Copy { tree, directories: HashMap::from([(Vec::new(), top)]), files: HashMap::new() };
        for (path, node) in copied(tree) {
            progress.busy_with(&String::from_utf8_lossy(path));
            let contents = if let Kind::File(file) = node.kind { Some((file, tree.open(file)?)) } else { None };
            let number = copy.entry(system, path, node).map_err(told)?;
            if let Some((file, mut reader)) = contents.filter(|(file, _)| !copy.files.contains_key(file)) {
                copy.files.insert(file, number);
                write_contents(system, number, &mut reader, &told)?;
            }
            progress.advance();
        }
        copy.attributes(system).map_err(told)?;
        system.sync().map_err(told)?;
        system.write(mark, 0, WHOLE).map_err(told)?;
        Ok(())
    })
}

fn write_contents(
    system: &mut FileSystem<'_, Image>,
    number: Number,
    reader: &mut dyn Read,
    told: &impl Fn(Error) -> Failure,
) -> Result<()> {
    let mut at = 0;
    loop {
        let mut bytes = Vec::new();
        reader.take(CHUNK).read_to_end(&mut bytes).context("cannot read the root")?;
        if bytes.is_empty() {
            return Ok(());
        }
        let mut done = 0;
        while done < bytes.len() {
            match system.write(number, at + done as u64, &bytes[done..]).map_err(told)? {
                0 => return Err(told(Error::NoSpace)),
                some => done += some,
            }
        }
        at += done as u64;
    }
}

/// A copy in progress.
struct Copy<'a> {
    tree: &'a Tree,
    directories: HashMap<Vec<u8>, Number>,
    /// Files that have a name already.
    files: HashMap<usize, Number>,
}

impl Copy<'_> {
    /// Gives a node its name on the disk.
    fn entry(
        &mut self,
        system: &mut FileSystem<'_, Image>,
        path: &[u8],
        node: &Node,
    ) -> std::result::Result<Number, Error> {
        let (above, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&b""[..], path),
        };
        let directory = *self.directories.get(above).ok_or(Error::NotFound)?;
        if let Some(number) = self.known(node) {
            system.link(number, directory, name)?;
            return Ok(number);
        }
        let target = if let Kind::SymbolicLink(target) = &node.kind { &target[..] } else { &[] };
        let number = create(system, directory, name, node, target)?;
        if node.kind == Kind::Directory {
            self.directories.insert(path.to_vec(), number);
        }
        Ok(number)
    }

    fn known(&self, node: &Node) -> Option<Number> {
        if let Kind::File(file) = node.kind { self.files.get(&file).copied() } else { None }
    }

    /// Sets what making names and contents changed: times, and the root directory's attributes.
    fn attributes(&self, system: &mut FileSystem<'_, Image>) -> std::result::Result<(), Error> {
        let root = self.tree.get(b"").into_iter().map(|node| (&b""[..], node));
        for (path, node) in root.chain(copied(self.tree)) {
            let number = match &node.kind {
                Kind::Directory => self.directories.get(path).copied(),
                _ => self.known(node),
            };
            let Some(number) = number else { continue };
            let time = Some(i64::from(node.modified) * 1_000_000_000);
            system.set_owner(number, node.user, node.group)?;
            system.set_mode(number, (node.permissions & 0o7777) as u16)?;
            system.set_times(number, time, time)?;
        }
        Ok(())
    }
}

fn create(
    system: &mut FileSystem<'_, Image>,
    directory: Number,
    name: &[u8],
    node: &Node,
    target: &[u8],
) -> std::result::Result<Number, Error> {
    let (kind, device) = match &node.kind {
        Kind::Directory => (DIRECTORY.into(), (0, 0)),
        Kind::File(_) => (FILE.into(), (0, 0)),
        Kind::SymbolicLink(_) => (LINK.into(), (0, 0)),
        Kind::Special { type_bits, device } => (*type_bits, *device),
    };
    let mode = (kind | node.permissions & 0o7777) as u16;
    let device = u64::from(device.0) << 20 | u64::from(device.1);
    system.create(directory, name, &New { mode, uid: node.user, gid: node.group, device, target })
}

/// What of a root stays in memory where a disk has the rest: what this command added.
pub fn in_memory(tree: &Tree) -> Tree {
    let mut own = Tree::new();
    let folder = MARK[0].as_bytes();
    for (path, node) in tree.below(folder).filter(|(path, _)| *path != MARK.join("/").as_bytes()) {
        let Kind::File(file) = node.kind else { continue };
        if let Ok(bytes) = tree.read(file, u64::MAX) {
            let file = own.add_contents(Contents::Bytes(bytes));
            own.insert(path, Node { kind: Kind::File(file), ..node.clone() });
        }
    }
    own
}
