//! Model: a file system as maps, with the results that POSIX gives.

use cffs::error::Error;
use std::collections::BTreeMap;

pub type Id = usize;
type Result<T> = std::result::Result<T, Error>;

/// What an inode holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Directory(BTreeMap<Vec<u8>, Id>),
    File { bytes: Vec<u8> },
    Link(Vec<u8>),
    Other(u16, u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub content: Content,
    pub links: u16,
    pub mode: u16,
    pub owner: (u32, u32),
    pub opens: u32,
    pub parent: Id,
}

/// The model; inode 0 is the root.
#[derive(Clone, Debug)]
pub struct Model {
    pub nodes: BTreeMap<Id, Node>,
    next: Id,
}

impl Default for Model {
    fn default() -> Self {
        let root = Node {
            content: Content::Directory(BTreeMap::new()),
            links: 1,
            mode: 0o755,
            owner: (0, 0),
            opens: 0,
            parent: 0,
        };
        Self { nodes: BTreeMap::from([(0, root)]), next: 1 }
    }
}

impl Model {
    fn node(&self, id: Id) -> Result<&Node> {
        self.nodes.get(&id).ok_or(Error::Stale)
    }

    pub fn is_directory(&self, id: Id) -> bool {
        matches!(self.nodes.get(&id), Some(Node { content: Content::Directory(_), .. }))
    }

    pub fn entries(&self, id: Id) -> Result<&BTreeMap<Vec<u8>, Id>> {
        match self.node(id)? {
            Node { links: 0, content: Content::Directory(_), .. } => Err(Error::NotFound),
            Node { content: Content::Directory(entries), .. } => Ok(entries),
            _ => Err(Error::NotDirectory),
        }
    }

    fn entries_mut(&mut self, id: Id) -> &mut BTreeMap<Vec<u8>, Id> {
        match self.nodes.get_mut(&id).map(|node| &mut node.content) {
            Some(Content::Directory(entries)) => entries,
            _ => panic!("{id} is no directory"),
        }
    }

    pub fn lookup(&self, directory: Id, name: &[u8]) -> Result<Id> {
        self.entries(directory)?.get(name).copied().ok_or(Error::NotFound)
    }

    pub fn create(&mut self, directory: Id, name: &[u8], content: Content, mode: u16, owner: (u32, u32)) -> Result<Id> {
        if self.entries(directory)?.contains_key(name) {
            return Err(Error::Exists);
        }
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, Node { content, links: 1, mode, owner, opens: 0, parent: directory });
        self.entries_mut(directory).insert(name.to_vec(), id);
        Ok(id)
    }

    pub fn link(&mut self, target: Id, directory: Id, name: &[u8]) -> Result<()> {
        if self.is_directory(target) {
            return Err(Error::NotPermitted);
        }
        if self.node(target)?.links == 0 {
            return Err(Error::NotFound);
        }
        if self.entries(directory)?.contains_key(name) {
            return Err(Error::Exists);
        }
        self.entries_mut(directory).insert(name.to_vec(), target);
        self.nodes.get_mut(&target).expect("it is there").links += 1;
        Ok(())
    }

    fn drop_link(&mut self, id: Id) {
        let node = self.nodes.get_mut(&id).expect("it is there");
        node.links -= 1;
        if node.links == 0 && node.opens == 0 {
            self.nodes.remove(&id);
        }
    }

    pub fn unlink(&mut self, directory: Id, name: &[u8]) -> Result<()> {
        let id = self.lookup(directory, name)?;
        if self.is_directory(id) {
            return Err(Error::IsDirectory);
        }
        self.entries_mut(directory).remove(name);
        self.drop_link(id);
        Ok(())
    }

    pub fn rmdir(&mut self, directory: Id, name: &[u8]) -> Result<()> {
        let id = self.lookup(directory, name)?;
        if !self.is_directory(id) {
            return Err(Error::NotDirectory);
        }
        if !self.entries(id)?.is_empty() {
            return Err(Error::NotEmpty);
        }
        self.entries_mut(directory).remove(name);
        self.drop_link(id);
        Ok(())
    }

    fn is_below(&self, id: Id, above: Id) -> bool {
        let mut at = id;
        while at != above && at != 0 {
            at = self.nodes[&at].parent;
        }
        at == above
    }

    pub fn rename(&mut self, from: (Id, &[u8]), to: (Id, &[u8]), no_replace: bool) -> Result<()> {
        let id = self.lookup(from.0, from.1)?;
        let replaced = self.entries(to.0)?.get(to.1).copied();
        if replaced.is_some() && no_replace {
            return Err(Error::Exists);
        }
        if replaced == Some(id) {
            return Ok(());
        }
        if self.is_directory(id) && from.0 != to.0 && self.is_below(to.0, id) {
            return Err(Error::Invalid);
        }
        if let Some(other) = replaced {
            match (self.is_directory(id), self.is_directory(other)) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                (true, true) if !self.entries(other)?.is_empty() => return Err(Error::NotEmpty),
                _ => (),
            }
        }
        self.entries_mut(from.0).remove(from.1);
        self.entries_mut(to.0).insert(to.1.to_vec(), id);
        self.nodes.get_mut(&id).expect("it is there").parent = to.0;
        if let Some(other) = replaced {
            self.drop_link(other);
        }
        Ok(())
    }

    pub fn bytes(&mut self, id: Id) -> Result<&mut Vec<u8>> {
        match self.nodes.get_mut(&id).map(|node| &mut node.content) {
            Some(Content::File { bytes }) => Ok(bytes),
            Some(Content::Directory(_)) => Err(Error::IsDirectory),
            Some(_) => Err(Error::Invalid),
            None => Err(Error::Stale),
        }
    }

    pub fn write(&mut self, id: Id, offset: usize, data: &[u8]) -> Result<()> {
        let bytes = self.bytes(id)?;
        if !data.is_empty() {
            let end = bytes.len().max(offset + data.len());
            bytes.resize(end, 0);
            bytes[offset..offset + data.len()].copy_from_slice(data);
        }
        Ok(())
    }

    pub fn punch(&mut self, id: Id, offset: usize, length: usize) -> Result<()> {
        let bytes = self.bytes(id)?;
        let end = (offset + length).min(bytes.len());
        if offset < end {
            bytes[offset..end].fill(0);
        }
        Ok(())
    }

    pub fn close(&mut self, id: Id) {
        let node = self.nodes.get_mut(&id).expect("it is open");
        node.opens -= 1;
        if node.links == 0 && node.opens == 0 {
            self.nodes.remove(&id);
        }
    }
}
