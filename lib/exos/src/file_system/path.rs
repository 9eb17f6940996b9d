//! Walking a path: names, `..`, symbolic links, and where a walk leaves this file system.
//!
//! Source: path_resolution(7). Limits: 4096 bytes a path with its NUL, 255 a name, 40 symbolic links.

use super::contents::Store;
use super::node::{Body, Node, NodeId};
use super::tree::{Credentials, NAME_BYTES, ROOT, Tree, access};
use crate::errno::{Errno, Result};
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// Bytes of a path, its NUL included.
pub const PATH_BYTES: usize = 4096;
/// Symbolic links followed in one walk.
pub const LINKS: usize = 40;

/// Where a walk ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this file system: the directory and the last name, and what it leads to. `slash`: the path ended in one.
    Here {
        /// The directory.
        directory: NodeId,
        /// The last name; `.` where the path names the directory itself.
        name: Vec<u8>,
        /// What is there, if anything is.
        node: Option<NodeId>,
        /// Whether only a directory will do.
        slash: bool,
    },
    /// Beyond a place that each process makes itself: its node, and the path from there on, without leading slash.
    Elsewhere {
        /// The place.
        node: NodeId,
        /// The rest of the path.
        rest: Vec<u8>,
    },
}

/// How to walk.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// Where a path without leading slash begins.
    pub from: NodeId,
    /// Whether a symbolic link in the last place is followed.
    pub follow: bool,
    /// Who walks.
    pub who: Credentials,
}

impl<S: Store> Tree<S> {
    /// Walks a path. Everything but the last name must exist and be searchable.
    pub fn walk(&self, walk: Walk, path: &[u8]) -> Result<Place> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let (mut whole, mut done) = (Cow::Borrowed(path), 0);
        let mut at = walk.from;
        let mut links = 0;
        loop {
            let rest = &whole[done..];
            if rest.len() >= PATH_BYTES {
                return Err(Errno::ENAMETOOLONG);
            }
            if rest.first() == Some(&b'/') {
                at = self.root;
            }
            let here = self.node(at)?;
            if matches!(here.body, Body::Elsewhere) {
                return Ok(Place::Elsewhere { node: at, rest: trimmed(rest).to_vec() });
            }
            let (name, after) = split(rest);
            self.check_step(here, name, walk.who)?;
            let (last, slash) = (trimmed(after).is_empty(), !after.is_empty());
            let name = if name.is_empty() { b"." } else { name };
            let node = match self.look_up(at, name) {
                Err(Errno::ENOENT) if last => None,
                found => Some(found?),
            };
            let there = node.map(|node| self.node(node)).transpose()?;
            if let Some(Body::Link(target)) = there.map(|there| &there.body).filter(|_| !last || slash || walk.follow) {
                links += 1;
                if links > LINKS {
                    return Err(Errno::ELOOP);
                }
                (whole, done) = (Cow::Owned([target, after].concat()), 0);
                continue;
            }
            if last && !there.is_some_and(|there| matches!(there.body, Body::Elsewhere)) {
                return Ok(Place::Here { directory: at, name: name.to_vec(), node, slash });
            }
            at = node.ok_or(Errno::ENOENT)?;
            done = whole.len() - trimmed(after).len();
        }
    }

    /// The node that a path leads to.
    pub fn resolve(&self, walk: Walk, path: &[u8]) -> Result<NodeId> {
        match self.walk(walk, path)? {
            Place::Here { node: Some(node), slash, .. } if slash && !self.node(node)?.is_directory() => {
                Err(Errno::ENOTDIR)
            }
            Place::Here { node, .. } => node.ok_or(Errno::ENOENT),
            Place::Elsewhere { node, rest } if rest.is_empty() => Ok(node),
            Place::Elsewhere { .. } => Err(Errno::ENOENT),
        }
    }

    /// The absolute path of a node: of a file with several names the last that it was given, where it still has that
    /// one; `ENOENT` where it has none. What the root of who asks does not reach is told as unreachable.
    pub fn path_of(&self, mut id: NodeId) -> Result<Vec<u8>> {
        let mut names = Vec::new();
        while id != self.root && id != ROOT {
            let node = self.node(id)?;
            let parent =
                if matches!(node.body, Body::Directory { .. }) { self.look_up(id, b"..")? } else { node.named_in };
            let mut found = None;
            self.list(parent, 2, |name, node, _| {
                if node == id {
                    found = Some(name.to_vec());
                }
                found.is_none()
            })?;
            names.push(found.ok_or(Errno::ENOENT)?);
            id = parent;
        }
        names.reverse();
        let mut path: Vec<u8> = names.iter().flat_map(|name| [b"/", name.as_slice()].concat()).collect();
        if path.is_empty() {
            path.push(b'/');
        }
        if id != self.root {
            path.splice(..0, *b"(unreachable)");
        }
        Ok(path)
    }

    fn check_step(&self, here: &Node, name: &[u8], who: Credentials) -> Result<()> {
        if !here.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        if name.len() > NAME_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        if here.permits(who, &self.groups, access::EXECUTE) { Ok(()) } else { Err(Errno::EACCES) }
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
