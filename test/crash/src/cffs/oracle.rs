//! Oracle for files: what a recovered file system may show, by the model's history.
//!
//! For each directory and name: one of the inodes that the name had since the last call that made it durable. For each
//! file: each sector is of one of its versions since then, or zeros where it had none. An inode that always had
//! a name has one; an inode with one name at all times has exactly one.

use super::device::Recorder;
use super::image::unchanged;
use super::model::{Content, Id, Model, Node};
use super::workload::History;
use cffs::file_system::FileSystem;
use cffs::layout::inode::{DIRECTORY, FILE, Inode, LINK};
use std::collections::{BTreeMap, BTreeSet};

const SECTOR: usize = 512;

/// An inode that was found.
pub struct Found {
    number: u64,
    inode: Inode,
    bytes: Vec<u8>,
    entries: BTreeMap<Vec<u8>, Id>,
    names: u16,
}

/// The recovered tree by identity. The root is 0.
pub fn tree(system: &mut FileSystem<'_, Recorder>) -> Result<BTreeMap<Id, Found>, String> {
    let mut found: BTreeMap<Id, Found> = BTreeMap::new();
    let mut pending = vec![(0, system.root())];
    while let Some((id, number)) = pending.pop() {
        let inode = system.attributes(number).map_err(|error| format!("inode {id}: {error:?}"))?;
        if let Some(one) = found.get_mut(&id) {
            one.names += 1;
            if one.number != number || inode.is_directory() {
                return Err(format!("inode {id} is at {} and at {number}", one.number));
            }
            continue;
        }
        let mut one = Found { number, inode, bytes: Vec::new(), entries: BTreeMap::new(), names: 1 };
        match inode.kind() {
            DIRECTORY => {
                for entry in system.list(number, 0, usize::MAX).map_err(|error| format!("{id}: {error:?}"))? {
                    let target = system.attributes(entry.number).map_err(|error| format!("{id}: {error:?}"))?;
                    if one.entries.insert(entry.name, target.uid as Id).is_some() {
                        return Err(format!("directory {id} has a name twice"));
                    }
                    pending.push((target.uid as Id, entry.number));
                }
            }
            FILE => {
                one.bytes = vec![0; inode.size as usize];
                system.read(number, 0, &mut one.bytes).map_err(|error| format!("file {id}: {error:?}"))?;
            }
            LINK => one.bytes = system.read_link(number).map_err(|error| format!("link {id}: {error:?}"))?,
            _ => (),
        }
        found.insert(id, one);
    }
    Ok(found)
}

/// Makes each file longer: what comes to it must be zeros.
pub fn grow(system: &mut FileSystem<'_, Recorder>, found: &BTreeMap<Id, Found>) -> Result<(), String> {
    for (id, one) in found.iter().filter(|(_, one)| one.inode.is_file()) {
        let (size, mut bytes) = (one.inode.size, vec![1; 5_000]);
        let grown = system.truncate(one.number, size + bytes.len() as u64);
        grown
            .and_then(|()| system.read(one.number, size, &mut bytes))
            .map_err(|error| format!("file {id}: {error:?}"))?;
        if let Some(at) = bytes.iter().position(|byte| *byte != 0) {
            return Err(format!("file {id} has a byte of before at {at} behind its end at {size}"));
        }
    }
    Ok(())
}

/// What is known at a moment: the history, and the number of the last model that may have begun.
pub struct Known<'h> {
    pub history: &'h History,
    pub synced: usize,
    pub fsynced: &'h BTreeMap<Id, usize>,
    pub last: usize,
}

impl Known<'_> {
    fn since(&self, id: Id) -> usize {
        self.fsynced.get(&id).copied().unwrap_or(0).max(self.synced)
    }

    fn models(&self, from: usize) -> &[Model] {
        &self.history.models[from.min(self.last)..=self.last]
    }

    fn versions(&self, id: Id) -> Vec<&Node> {
        self.models(self.since(id)).iter().filter_map(|model| model.nodes.get(&id)).collect()
    }

    /// Path and contents of each file that is durable in its last version.
    pub fn unchanged(&self) -> Vec<(String, Vec<u8>)> {
        let ids = self.history.models[self.last].nodes.keys();
        let named = self.models(self.synced);
        ids.filter_map(|id| unchanged(self.models(self.since(*id)), named, *id)).collect()
    }

    /// Compares a recovered tree.
    pub fn judge(&self, found: &BTreeMap<Id, Found>) -> Result<(), String> {
        let all = self.history.models[..=self.last].iter().flat_map(|model| model.nodes.keys().copied());
        let all: BTreeSet<Id> = all.collect();
        for id in &all {
            let always = self.models(self.since(*id)).iter().all(|model| model.nodes.contains_key(id));
            if always && !found.contains_key(id) {
                return Err(format!("inode {id} has no name, and had one in each state"));
            }
        }
        for (id, one) in found {
            if !all.contains(id) {
                return Err(format!("inode {id} never was"));
            }
            self.judge_inode(*id, one)?;
            if one.inode.is_directory() {
                self.judge_names(*id, one)?;
            }
        }
        Ok(())
    }

    fn judge_inode(&self, id: Id, one: &Found) -> Result<(), String> {
        let versions = self.versions(id);
        let Some(first) = versions.first() else { return Err(format!("inode {id} is there, and was removed durably")) };
        if one.inode.nlink != one.names {
            return Err(format!("inode {id} has nlink {} and {} names", one.inode.nlink, one.names));
        }
        if versions.iter().all(|node| node.links <= 1) && one.names > 1 {
            return Err(format!("inode {id} has {} names, and never had two", one.names));
        }
        let modes = self.models(self.synced).iter().filter_map(|model| model.nodes.get(&id)).map(|node| node.mode);
        if id != 0 && !modes.into_iter().any(|mode| mode == one.inode.mode & 0o7777) {
            return Err(format!("inode {id} has mode {:o}", one.inode.mode));
        }
        match &first.content {
            Content::File { .. } => judge_bytes(id, one, &versions),
            Content::Link(text) if *text != one.bytes => Err(format!("link {id} has another text")),
            Content::Directory(_) if !one.inode.is_directory() => Err(format!("{id} is no directory")),
            _ => Ok(()),
        }
    }

    fn judge_names(&self, id: Id, one: &Found) -> Result<(), String> {
        let own = |model: &Model, name: &[u8]| model.entries(id).ok().map(|entries| entries.get(name).copied());
        let models = &self.history.models[..=self.last];
        let listed = models.iter().filter_map(|model| model.entries(id).ok()).flat_map(|entries| entries.keys());
        let names: BTreeSet<&Vec<u8>> = listed.chain(one.entries.keys()).collect();
        for name in names {
            let durable = |(inode, moment): (&Id, &usize)| {
                (own(&models[(*moment).min(self.last)], name) == Some(Some(*inode))).then_some(*moment)
            };
            let since = self.fsynced.iter().filter_map(durable).max().unwrap_or(0).max(self.since(id));
            let value = one.entries.get(name).copied();
            let from = value.map_or(since, |inode| since.max(self.since(inode)));
            let mut values = self.models(from).iter().filter_map(|model| own(model, name));
            if !values.any(|allowed| allowed == value) {
                let name = String::from_utf8_lossy(name);
                return Err(format!("{id}/{name} is {value:?}, not so in models {from} to {}", self.last));
            }
        }
        Ok(())
    }
}

fn bytes_of(node: &Node) -> &[u8] {
    if let Content::File { bytes } = &node.content { bytes } else { &[] }
}

fn judge_bytes(id: Id, one: &Found, versions: &[&Node]) -> Result<(), String> {
    if !versions.iter().any(|node| bytes_of(node).len() == one.bytes.len()) {
        return Err(format!("file {id} has {} bytes", one.bytes.len()));
    }
    for (index, sector) in one.bytes.chunks(SECTOR).enumerate() {
        let at = index * SECTOR;
        let same = |node: &Node| {
            let own = bytes_of(node);
            let (end, end_own) = (at + sector.len(), own.len());
            let kept = &own[at.min(end_own)..end.min(end_own)];
            sector.starts_with(kept) && sector[kept.len()..].iter().all(|byte| *byte == 0)
        };
        let absent = versions.first().is_none_or(|node| {
            let own = bytes_of(node);
            own[at.min(own.len())..].iter().take(sector.len()).all(|byte| *byte == 0)
        });
        let zero = sector.iter().all(|byte| *byte == 0);
        if !(zero && absent || versions.iter().any(|node| same(node))) {
            return Err(format!(
                "file {id}, byte {at}: no version has this sector: {:?}",
                &sector[..8.min(sector.len())]
            ));
        }
    }
    Ok(())
}
