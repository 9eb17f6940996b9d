//! A file system as data: every name, what it is, and where its contents are.
//! Contents stay where they are until the archive is written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use crate::archive::{self, Header, Writer};
use crate::boot_archive::WRITING;
use crate::failure::{Context, Failure, Result};

/// Where the bytes of a file are.
#[derive(Clone, Debug)]
pub enum Contents {
    Bytes(Vec<u8>),
    /// So many bytes of a file of the host, from an offset on.
    Part {
        file: PathBuf,
        offset: u64,
        size: u64,
    },
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Directory,
    /// An index into the tree's files; names with the same one are hard links.
    File(usize),
    SymbolicLink(Vec<u8>),
    /// A device node or a named pipe: its type bits, major and minor number.
    Special {
        type_bits: u32,
        device: (u32, u32),
    },
}

/// One name's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub kind: Kind,
    /// Permission bits, with set-id and sticky bits.
    pub permissions: u32,
    pub user: u32,
    pub group: u32,
    /// Seconds since 1970.
    pub modified: u32,
}

impl Node {
    /// Root's own.
    pub fn of_root(kind: Kind, permissions: u32) -> Self {
        Self { kind, permissions, user: 0, group: 0, modified: 0 }
    }

    fn file(&self) -> Option<usize> {
        if let Kind::File(file) = self.kind { Some(file) } else { None }
    }
}

/// Names are paths from the root, without a slash at either end; the root
/// itself is the empty name.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: BTreeMap<Vec<u8>, Node>,
    files: Vec<Contents>,
}

impl Tree {
    /// Nothing but the root directory.
    pub fn new() -> Self {
        let root = Node::of_root(Kind::Directory, 0o755);
        Self { nodes: BTreeMap::from([(Vec::new(), root)]), files: Vec::new() }
    }

    /// Adds or replaces a name; directories above it are made where missing. What is no directory has nothing below it.
    pub fn insert(&mut self, path: &[u8], node: Node) {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for (end, _) in slashes {
            let parent = Node::of_root(Kind::Directory, 0o755);
            match self.nodes.get_mut(&path[..end]) {
                Some(found) if found.kind == Kind::Directory => {}
                Some(found) => *found = parent,
                None => drop(self.nodes.insert(path[..end].to_vec(), parent)),
            }
        }
        let is_folder = node.kind == Kind::Directory;
        let before = self.nodes.insert(path.to_vec(), node);
        if !is_folder && before.is_some_and(|before| before.kind == Kind::Directory) {
            self.clear(path);
        }
    }

    /// Puts a whole tree at a place, in the stead of what is there.
    pub fn graft(&mut self, place: &[u8], other: &Self) {
        self.clear(place);
        let first = self.files.len();
        self.files.extend(other.files.iter().cloned());
        for (path, node) in &other.nodes {
            let mut node = node.clone();
            if let Kind::File(file) = &mut node.kind {
                *file += first;
            }
            self.insert(&super::resolve::join(place, path), node);
        }
    }

    /// Removes a name and all below it; the root itself stays.
    pub fn remove(&mut self, path: &[u8]) {
        self.clear(path);
        if !path.is_empty() {
            self.nodes.remove(path);
        }
    }

    /// Removes all names below a directory.
    pub fn clear(&mut self, folder: &[u8]) {
        let below: Vec<Vec<u8>> = self.below(folder).map(|(path, _)| path.to_vec()).collect();
        below.iter().for_each(|path| drop(self.nodes.remove(path)));
    }

    /// All names below a directory, in order.
    pub fn below(&self, folder: &[u8]) -> impl Iterator<Item = (&[u8], &Node)> {
        let mut prefix = folder.to_vec();
        if !folder.is_empty() {
            prefix.push(b'/');
        }
        let from = prefix.clone();
        let all = self.nodes.range(from..).map(|(path, node)| (path.as_slice(), node));
        all.skip_while(|(path, _)| path.is_empty()).take_while(move |(path, _)| path.starts_with(&prefix))
    }

    /// Adds contents, for one or more names to refer to.
    pub fn add_contents(&mut self, contents: Contents) -> usize {
        self.files.push(contents);
        self.files.len() - 1
    }

    pub fn get(&self, path: &[u8]) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// The first bytes of a file, at most `limit`.
    ///
    /// # Errors
    /// When the host's file cannot be read.
    pub fn read(&self, file: usize, limit: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let contents = &self.files[file];
        contents.open()?.take(limit).read_to_end(&mut bytes).context(contents.name())?;
        Ok(bytes)
    }

    /// Bytes of all contents together that a name stands for.
    pub fn size(&self) -> u64 {
        let used: BTreeSet<usize> = self.nodes.values().filter_map(Node::file).collect();
        used.into_iter().map(|file| self.files[file].size()).sum()
    }

    /// How many contents there are.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Bytes of one file.
    pub fn size_of(&self, file: usize) -> u64 {
        self.files[file].size()
    }

    /// The bytes of one file.
    ///
    /// # Errors
    /// When the host's file cannot be opened.
    pub fn open(&self, file: usize) -> Result<Box<dyn Read + '_>> {
        self.files[file].open()
    }

    /// How many names there are.
    pub fn names(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes that the boot archive takes with it, or a little more.
    pub fn packed_size(&self) -> u64 {
        /// Bytes that a name takes, at most for all but the longest.
        const NAME: u64 = 256;
        self.size() + self.names() as u64 * NAME
    }

    /// Writes every name under `folder` into the archive.
    ///
    /// # Errors
    /// When a file cannot be read or is too large for the archive.
    pub fn write(&self, folder: &str, archive: &mut Writer<impl Write>) -> Result<()> {
        let mut links = vec![0_u32; self.files.len()];
        for node in self.nodes.values() {
            if let Some(file) = node.file() {
                links[file] += 1;
            }
        }
        let mut written = vec![false; self.files.len()];
        for (index, (path, node)) in self.nodes.iter().enumerate() {
            let inode = u32::try_from(index + 1).context("too many files in the root file system")?;
            let mut header = header(folder, path, node, inode);
            let named = || String::from_utf8_lossy(path).into_owned();
            match &node.kind {
                Kind::File(file) => {
                    // Behind the inode numbers of everything else.
                    let shared = self.nodes.len() + 1 + file;
                    header.inode = u32::try_from(shared).context("too many files in the root file system")?;
                    header.links = links[*file];
                    let first = !std::mem::replace(&mut written[*file], true);
                    self.write_file(*file, first, header, archive).context(named())?;
                }
                Kind::SymbolicLink(target) => archive.add(&header, target.as_slice()).context(named())?,
                Kind::Directory | Kind::Special { .. } => archive.add(&header, io::empty()).context(named())?,
            }
        }
        Ok(())
    }

    fn write_file(
        &self,
        file: usize,
        with_contents: bool,
        mut header: Header,
        archive: &mut Writer<impl Write>,
    ) -> Result<()> {
        if !with_contents {
            return archive.add(&header, io::empty()).context(WRITING);
        }
        let contents = &self.files[file];
        header.size = u32::try_from(contents.size()).map_err(|_| {
            Failure::new(
                "4 GiB or larger, too large for a root file system in memory: leave it out, or give it by --disk",
            )
        })?;
        archive.add(&header, contents.open()?).context(WRITING)
    }
}

fn header(folder: &str, path: &[u8], node: &Node, inode: u32) -> Header {
    let mut name = folder.trim_end_matches('/').as_bytes().to_vec();
    if !path.is_empty() {
        name.push(b'/');
        name.extend_from_slice(path);
    }
    let (type_bits, device, size) = match &node.kind {
        Kind::Directory => (archive::DIRECTORY, (0, 0), 0),
        Kind::File(_) => (archive::REGULAR, (0, 0), 0),
        Kind::SymbolicLink(target) => (archive::SYMBOLIC_LINK, (0, 0), target.len()),
        Kind::Special { type_bits, device } => (*type_bits, *device, 0),
    };
    Header {
        name,
        inode,
        mode: type_bits | node.permissions,
        user: node.user,
        group: node.group,
        links: 1,
        modified: node.modified,
        device,
        size: u32::try_from(size).unwrap_or(u32::MAX),
    }
}

impl Contents {
    fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Part { size, .. } => *size,
        }
    }

    fn open(&self) -> Result<Box<dyn Read + '_>> {
        match self {
            Self::Bytes(bytes) => Ok(Box::new(bytes.as_slice())),
            Self::Part { file, offset, size } => {
                let opened = File::open(file).and_then(|mut opened| {
                    opened.seek(SeekFrom::Start(*offset))?;
                    Ok(opened)
                });
                Ok(Box::new(opened.context(file.display())?.take(*size)))
            }
        }
    }

    /// How error lines name it.
    fn name(&self) -> String {
        match self {
            Self::Bytes(_) => "a file of the root".into(),
            Self::Part { file, .. } => file.display().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_links_share_an_inode_and_the_first_has_the_contents() {
        let mut tree = Tree::new();
        let file = tree.add_contents(Contents::Bytes(b"same".to_vec()));
        tree.insert(b"b/two", Node::of_root(Kind::File(file), 0o644));
        tree.insert(b"a", Node::of_root(Kind::File(file), 0o644));
        let mut archive = Writer::new(Vec::new());
        tree.write("root/", &mut archive).unwrap();
        let bytes = archive.finish().unwrap();

        let mut rest = bytes.as_slice();
        let mut seen = Vec::new();
        loop {
            let reader = cpio::NewcReader::new(rest).unwrap();
            let entry = reader.entry();
            if entry.is_trailer() {
                break;
            }
            seen.push((entry.name().to_owned(), entry.file_size(), entry.nlink(), entry.ino()));
            rest = reader.finish().unwrap();
        }
        let names: Vec<&str> = seen.iter().map(|entry| entry.0.as_str()).collect();
        assert_eq!(names, ["root", "root/a", "root/b", "root/b/two"]);
        assert_eq!((seen[1].1, seen[1].2), (4, 2));
        assert_eq!((seen[3].1, seen[3].2), (0, 2));
        assert_eq!(seen[1].3, seen[3].3);
        assert!(seen[0].3 != seen[2].3 && seen[2].3 != seen[1].3);
    }
}
