//! Walking a path: names, `..`, symbolic links, mounts, and where a walk leaves this file system.
//!
//! Source: path_resolution(7). Limits: 4096 bytes a path with its NUL, 255 a name, 40 symbolic links.

use crate::file_data::PageStorage;
use crate::inode::{Body, Inode, NodeId};
use crate::mount_table::Location;
use crate::namespace::{FileTree, FsCredentials, NAME_BYTES, access};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

/// Bytes of a path, its NUL included.
pub const PATH_BYTES: usize = 4096;
/// Symbolic links followed in one walk.
pub const LINKS: usize = 40;

/// Where a walk of a path ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkResult<'p> {
    /// In this file system: the directory and the last name, and what it leads to. `slash`: the path ended in one.
    Here {
        /// The directory.
        directory: Location,
        /// The last name; `.` where the path names the directory itself.
        name: Cow<'p, [u8]>,
        /// What is there, if anything is: the root of the mount that lies uppermost on it.
        node: Option<Location>,
        /// Whether only a directory will do.
        slash: bool,
    },
    /// Beyond a place that each process makes itself: its node, and the path from there on, without leading slash.
    LeavesFs {
        /// The place.
        node: Location,
        /// The rest of the path.
        rest: Vec<u8>,
    },
}

/// How to walk.
#[derive(Clone, Copy, Debug)]
pub struct PathWalk {
    /// Where a path without leading slash begins.
    pub from: Location,
    /// Whether a symbolic link in the last place is followed.
    pub follow: bool,
    /// Whether a file is made where nothing is: a last name with a slash behind it is a directory's (`EISDIR`).
    pub makes: bool,
    /// Credentials of the caller.
    pub who: FsCredentials,
    /// Where it may not lead: flags `RESOLVE_…` of openat2(2).
    pub resolve: u32,
}

impl PathWalk {
    const fn has(&self, flag: u32) -> bool {
        self.resolve & flag != 0
    }
}

impl<S: PageStorage> FileTree<S> {
    /// Walks a path. Everything but the last name must exist and be searchable.
    pub fn walk<'p>(&self, walk: PathWalk, path: &'p [u8]) -> Result<WalkResult<'p>> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let (mut whole, mut done, mut links) = (Cow::Borrowed(path), 0, 0);
        let mut at = walk.from;
        let mut here = self.node(at.node)?;
        loop {
            let rest = &whole[done..];
            if rest.len() >= PATH_BYTES {
                return Err(Errno::ENAMETOOLONG);
            }
            if rest.first() == Some(&b'/') {
                at = self.root_of(&walk, at)?;
                here = self.node(at.node)?;
            }
            if matches!(here.body, Body::Elsewhere) {
                return Ok(WalkResult::LeavesFs { node: at, rest: trimmed(rest).to_vec() });
            }
            let (name, after) = split(rest);
            let next = trimmed(after);
            self.check_step(here, name, walk.who)?;
            let (last, slash) = (next.is_empty(), !after.is_empty());
            if walk.makes && last && slash && !matches!(name, b"." | b"..") {
                return Err(Errno::EISDIR);
            }
            let found = match self.step_within(&walk, at, here, if name.is_empty() { b"." } else { name }) {
                Err(Errno::ENOENT) if last => None,
                found => Some(found?),
            };
            let body = found.map(|(_, there)| &there.body);
            if let Some(Body::Link(target)) = body.filter(|_| !last || slash || walk.follow) {
                links += 1;
                let is_kept = found.is_some_and(|(there, _)| self.flags_at(there) & linux::MS_NOSYMFOLLOW != 0);
                if links > LINKS || is_kept || walk.has(linux::RESOLVE_NO_SYMLINKS) {
                    return Err(Errno::ELOOP);
                }
                (whole, done) = (Cow::Owned([target, after].concat()), 0);
                continue;
            }
            if last && !matches!(body, Some(Body::Elsewhere)) {
                let (end, length) = (whole.len() - after.len(), name.len());
                let name = part(whole, end - length..end);
                return Ok(WalkResult::Here { directory: at, name, node: found.map(|(there, _)| there), slash });
            }
            (at, here) = found.ok_or(Errno::ENOENT)?;
            done = whole.len() - next.len();
        }
    }

    /// Where a path with a leading slash begins, for a walk that is at a place.
    fn root_of(&self, walk: &PathWalk, at: Location) -> Result<Location> {
        let root = if walk.has(linux::RESOLVE_IN_ROOT) { walk.from } else { self.root };
        let leaves = walk.has(linux::RESOLVE_BENEATH) || walk.has(linux::RESOLVE_NO_XDEV) && root.mount != at.mount;
        if leaves { Err(Errno::EXDEV) } else { Ok(root) }
    }

    /// A step of a walk, as far as that may go.
    fn step_within(&self, walk: &PathWalk, at: Location, here: &Inode, name: &[u8]) -> Result<(Location, &Inode)> {
        if name == b".." && at == walk.from {
            match () {
                () if walk.has(linux::RESOLVE_BENEATH) => return Err(Errno::EXDEV),
                () if walk.has(linux::RESOLVE_IN_ROOT) => return Ok((at, self.node(at.node)?)),
                () => {}
            }
        }
        let next = self.step(at, here, name)?;
        if walk.has(linux::RESOLVE_NO_XDEV) && next.0.mount != at.mount { Err(Errno::EXDEV) } else { Ok(next) }
    }

    /// The place that a path leads to.
    pub fn resolve(&self, walk: PathWalk, path: &[u8]) -> Result<Location> {
        match self.walk(walk, path)? {
            WalkResult::Here { node: Some(there), slash, .. } if slash && !self.node(there.node)?.is_directory() => {
                Err(Errno::ENOTDIR)
            }
            WalkResult::Here { node, .. } => node.ok_or(Errno::ENOENT),
            WalkResult::LeavesFs { node, rest } if rest.is_empty() => Ok(node),
            WalkResult::LeavesFs { .. } => Err(Errno::ENOENT),
        }
    }

    /// What a name leads to from a place, whose node is `here`: through mounts, and no further up than the caller's
    /// root.
    fn step(&self, at: Location, here: &Inode, name: &[u8]) -> Result<(Location, &Inode)> {
        let mut next = if name == b".." { self.above(at)? } else { at.beside(here.look_up(at.node, name)?) };
        let mut there = self.node(next.node)?;
        if there.is_point && !matches!(name, b"." | b"..") {
            next = self.uppermost(next);
            there = self.node(next.node)?;
        }
        Ok((next, there))
    }

    /// The directory above a place.
    pub(crate) fn above(&self, mut at: Location) -> Result<Location> {
        while at != self.root {
            let mount = self.mounts.get(at.mount)?;
            if at.node != mount.root {
                let node = self.node(at.node)?.look_up(at.node, b"..")?;
                return Ok(self.uppermost(at.beside(node)));
            }
            match mount.on {
                Some(place) => at = place,
                None => break,
            }
        }
        Ok(at)
    }

    /// The root of the mount that lies uppermost on a place, or the place.
    pub fn uppermost(&self, mut at: Location) -> Location {
        while self.nodes.get(&at.node).is_some_and(|node| node.is_point)
            && let Some((mount, root)) =
                self.mounts.on(at).and_then(|mount| Some((mount, self.mounts.get(mount).ok()?.root)))
        {
            at = Location { mount, node: root };
        }
        at
    }

    /// The absolute path of a place: of a file with several names the last that it was given, where it still has that
    /// one; `ENOENT` where it has none. What the caller's root does not reach is told as unreachable.
    pub fn path_of(&self, at: Location) -> Result<Vec<u8>> {
        let (mut path, reached) = self.path_from(at, self.root)?;
        if !reached {
            path.splice(..0, *b"(unreachable)");
        }
        Ok(path)
    }

    /// The path of a place or, where it has none, what it is called all the same.
    pub fn shown_path_of(&self, at: Location) -> Result<Vec<u8>> {
        match self.path_of(at) {
            Err(Errno::ENOENT) => self.former_path_of(at),
            path => path,
        }
    }

    /// What a node without a name is called: the path that it had, or something that stands for it, and that it is
    /// gone.
    fn former_path_of(&self, mut at: Location) -> Result<Vec<u8>> {
        let mut names = Vec::new();
        while let Some(name) = self.former_names.get(&at.node) {
            names.push(name);
            at = at.beside(self.directory_of(at.node)?);
        }
        if names.is_empty() {
            return Err(Errno::ENOENT);
        }
        let mut path = self.path_of(at)?;
        for name in names.iter().rev() {
            if path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        path.extend_from_slice(b" (deleted)");
        Ok(path)
    }

    /// Says what a node is called that was made without a name.
    pub fn set_former_name(&mut self, id: NodeId, name: Vec<u8>) {
        self.former_names.insert(id, name);
    }

    /// The directory that a node got its last name in.
    fn directory_of(&self, id: NodeId) -> Result<NodeId> {
        self.node(id).map(Inode::directory_of_name)
    }

    /// The path of a place from another one, and whether that lies above it at all.
    pub(crate) fn path_from(&self, mut at: Location, from: Location) -> Result<(Vec<u8>, bool)> {
        let mut names: Vec<&[u8]> = Vec::new();
        while at != from {
            let mount = self.mounts.get(at.mount)?;
            if at.node == mount.root {
                match mount.on {
                    Some(place) => at = place,
                    None => break,
                }
                continue;
            }
            let (name, parent) = self.name_of(at)?;
            names.push(name);
            at = at.beside(parent);
        }
        let mut path = Vec::with_capacity(names.iter().map(|name| name.len() + 1).sum());
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Ok((path, at == from))
    }

    /// The name of a node, and the directory that it is in. If that name is gone and another one is left, all
    /// directories are searched.
    pub(crate) fn name_of(&self, at: Location) -> Result<(&[u8], NodeId)> {
        let node = self.node(at.node)?;
        let named = |parent| {
            let entry = self.directory(parent).ok()?.1.of_node(at.node, node.named_as.get())?;
            Some((entry, parent))
        };
        let (entry, parent) = match named(node.directory_of_name()) {
            None if node.links != 0 => self.nodes.iter().find_map(|(parent, _)| named(*parent)),
            found => found,
        }
        .ok_or(Errno::ENOENT)?;
        node.named_in.set(parent);
        node.named_as.set(entry.number);
        Ok((&entry.name, parent))
    }

    fn check_step(&self, here: &Inode, name: &[u8], who: FsCredentials) -> Result<()> {
        if !here.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        if name.len() > NAME_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        if here.permits(who, &self.groups, access::EXECUTE) { Ok(()) } else { Err(Errno::EACCES) }
    }
}

/// A part of what is walked, `.` where that is empty: of the path itself nothing is copied.
fn part(whole: Cow<'_, [u8]>, range: core::ops::Range<usize>) -> Cow<'_, [u8]> {
    match whole {
        _ if range.is_empty() => Cow::Borrowed(b"."),
        Cow::Borrowed(path) => Cow::Borrowed(&path[range]),
        Cow::Owned(bytes) => Cow::Owned(bytes[range].to_vec()),
    }
}

/// The first name of a path, and what follows it, slashes included.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let path = trimmed(path);
    let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
    path.split_at(end)
}

/// Without leading slashes.
fn trimmed(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
    &path[start..]
}
