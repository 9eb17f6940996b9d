//! What a client asks for of nodes by their names: making, removing, renaming and linking them, and changing whose they
//! are, who may use them and when they were used.

use super::dispatch::{FileServer, NOTHING, Outcome, plain};
use alloc::vec;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::server::protocol::{self, AttributeRequest, DIRECTORY, EMPTY_PATH, FOLLOW, WINDOW_BYTES};
use vfs::extended_attribute::{MOST_BYTES, NAME_BYTES};
use vfs::inode::{Inode, NodeId};
use vfs::mount_table::Location;
use vfs::namespace::{Fresh, FsCredentials, access};
use vfs::path_walk::WalkResult;
use vfs::supplementary_groups::Groups;

impl FileServer {
    pub(super) fn set_mode(&mut self, who: FsCredentials, at: Location, mode: u32) -> Result<Outcome> {
        if self.tree.node(at.node)?.mode & 0o111 != 0 {
            // No other code reports a write to a file that is no program.
            self.tell_of_programs();
        }
        let groups = self.tree.groups.clone();
        self.change(who, at, |node| {
            let mode = kept_bits(mode, node.gid, who, &groups);
            node.mode = node.mode & linux::S_IFMT | mode & 0o7777;
            Ok(())
        })
    }

    /// See [`Operation::Attribute`].
    pub(super) fn attribute(&mut self, caller: u64, who: FsCredentials, words: [u64; 5]) -> Result<Outcome> {
        let [at, flags, lengths, request, bytes] = words;
        let (path_bytes, name_bytes) = (lengths & 0xffff_ffff, lengths >> 32);
        let behind = path_bytes.saturating_add(name_bytes);
        if name_bytes > NAME_BYTES as u64 || bytes > MOST_BYTES as u64 || behind.saturating_add(bytes) > WINDOW_BYTES {
            return Err(Errno::E2BIG);
        }
        let window = self.window(caller)?;
        let (mut name, mut value) = (vec![0; name_bytes as usize], vec![0; bytes as usize]);
        window.read(path_bytes, &mut name)?;
        window.read(behind, &mut value)?;
        let wanted = AttributeRequest::from_half(request as u32).ok_or(Errno::EINVAL)?;
        self.on_path(caller, who, at, flags, path_bytes, |server, at| {
            let id = at.node;
            let told = match wanted {
                AttributeRequest::Get => server.tree.attribute(id, who, &name)?,
                AttributeRequest::List => server.tree.attribute_names(id, who)?,
                AttributeRequest::Set => {
                    server.tree.check_writable(at)?;
                    server.tree.set_attribute(id, who, &name, &value, (request >> 32) as u32).map(|()| Vec::new())?
                }
                AttributeRequest::Remove => {
                    server.tree.check_writable(at)?;
                    server.tree.remove_attribute(id, who, &name).map(|()| Vec::new())?
                }
            };
            Ok([server.put(caller, &told)?, 0, 0, 0, 0].into())
        })
    }

    pub(super) fn set_owner(&mut self, who: FsCredentials, at: Location, owner: u64) -> Result<Outcome> {
        let (uid, gid) = (owner as u32, (owner >> 32) as u32);
        let groups = self.tree.groups.clone();
        self.tree.check_writable(at)?;
        self.tree.set_attributes(at.node, |node| {
            let is_own_group = gid == node.gid || gid == who.gid || groups.has(gid);
            let is_owner = who.uid == node.uid;
            let mode = if node.is_directory() { node.mode } else { plain(node.mode) };
            let may_user = uid == u32::MAX || is_owner && uid == node.uid;
            let may_group = gid == u32::MAX || is_owner && is_own_group;
            let may_mode = mode == node.mode || who.may_own(node.uid);
            if !who.has(linux::CAP_CHOWN) && !(may_user && may_group && may_mode) {
                return Err(Errno::EPERM);
            }
            node.uid = if uid == u32::MAX { node.uid } else { uid };
            node.gid = if gid == u32::MAX { node.gid } else { gid };
            node.mode = mode;
            Ok(())
        })?;
        Ok(NOTHING.into())
    }

    pub(super) fn set_times(
        &mut self,
        who: FsCredentials,
        at: Location,
        accessed: u64,
        modified: u64,
    ) -> Result<Outcome> {
        let now = self.tree.now;
        let time = |wanted, before| match wanted {
            protocol::TIME_NOW => now,
            protocol::TIME_KEEP => before,
            time => time,
        };
        let edit = |node: &mut Inode| {
            node.accessed = time(accessed, node.accessed);
            node.modified = time(modified, node.modified);
            Ok(())
        };
        let touches = [accessed, modified] == [protocol::TIME_NOW; 2];
        if !touches || who.may_own(self.tree.node(at.node)?.uid) {
            return self.change(who, at, edit);
        }
        // Any user with write permission may set the times to now.
        self.tree.check_writable(at)?;
        if !self.tree.node(at.node)?.permits(who, &self.tree.groups, access::WRITE) {
            return Err(Errno::EACCES);
        }
        self.tree.set_attributes(at.node, edit).map(|()| NOTHING.into())
    }

    pub(super) fn change(
        &mut self,
        who: FsCredentials,
        at: Location,
        edit: impl FnOnce(&mut Inode) -> Result<()>,
    ) -> Result<Outcome> {
        self.tree.check_writable(at)?;
        if !who.may_own(self.tree.node(at.node)?.uid) {
            return Err(Errno::EPERM);
        }
        self.tree.set_attributes(at.node, edit).map(|()| NOTHING.into())
    }

    pub(super) fn read_link(&mut self, caller: u64, at: Location) -> Result<Outcome> {
        let target = match &self.tree.node(at.node)?.body {
            vfs::inode::Body::Link(target) => target.to_vec(),
            _ => return Err(Errno::EINVAL),
        };
        Ok([self.put(caller, &target)?, 0, 0, 0, 0].into())
    }

    pub(super) fn make(
        &mut self,
        caller: u64,
        who: FsCredentials,
        at: u64,
        mode: u32,
        device: u64,
        length: u64,
    ) -> Result<Outcome> {
        let path = self.path(caller, 0, length)?;
        let is_directory = mode & linux::S_IFMT == linux::S_IFDIR;
        // Devices take a capability, as on Linux. That of number 0 is none (it covers a name in an overlay).
        let is_device = matches!(mode & linux::S_IFMT, linux::S_IFCHR | linux::S_IFBLK);
        let is_cover = mode & linux::S_IFMT == linux::S_IFCHR && device == 0;
        self.on_new_name(caller, who, at, &path, is_directory, |server, directory, name| {
            if is_device && !is_cover && !who.has(linux::CAP_MKNOD) {
                return Err(Errno::EPERM);
            }
            let device = ((device >> 32) as u32, device as u32);
            server.tree.create(directory.node, name, Fresh { mode, owner: who, device, target: b"" })?;
            Ok(())
        })
    }

    pub(super) fn symbolic_link(&mut self, caller: u64, who: FsCredentials, at: u64, lengths: u64) -> Result<Outcome> {
        let (target, path) = self.two_paths(caller, lengths)?;
        if target.is_empty() {
            return Err(Errno::ENOENT);
        }
        self.on_new_name(caller, who, at, &path, false, |server, directory, name| {
            let mode = linux::S_IFLNK | 0o777;
            server.tree.create(directory.node, name, Fresh { mode, owner: who, device: (0, 0), target: &target })?;
            Ok(())
        })
    }

    pub(super) fn remove(
        &mut self,
        caller: u64,
        who: FsCredentials,
        at: u64,
        flags: u64,
        length: u64,
    ) -> Result<Outcome> {
        let path = self.path(caller, 0, length)?;
        if !path.is_empty() && path.iter().all(|byte| *byte == b'/') {
            return Err(if flags & DIRECTORY != 0 { Errno::EBUSY } else { Errno::EISDIR });
        }
        let wants_directory = flags & DIRECTORY != 0;
        let (named, slash) = without_slashes(&path);
        match self.tree.walk(self.from(caller, at, who, false)?, named)? {
            WalkResult::LeavesFs { node, rest } => Ok(Outcome::LeavesFs(node, rest)),
            WalkResult::Here { directory, .. } if self.tree.check_writable(directory).is_err() => Err(Errno::EROFS),
            WalkResult::Here { node: None, .. } => Err(Errno::ENOENT),
            WalkResult::Here { node: Some(node), .. } if slash && !self.tree.node(node.node)?.is_directory() => {
                Err(Errno::ENOTDIR)
            }
            WalkResult::Here { directory, name, node: Some(node), .. } => {
                self.check_removal(who, directory.node, node.node)?;
                self.tree.remove(directory.node, &name, wants_directory)?;
                Ok(NOTHING.into())
            }
        }
    }

    pub(super) fn check_removal(&self, who: FsCredentials, directory: NodeId, node: NodeId) -> Result<()> {
        self.tree.check(directory, who, access::WRITE | access::EXECUTE)?;
        let sticky = self.tree.node(directory)?;
        let is_owner = who.uid == sticky.uid || who.may_own(self.tree.node(node)?.uid);
        if sticky.mode & linux::S_ISVTX != 0 && !is_owner { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// Users who may give a file one more name (`/proc/sys/fs/protected_hardlinks`): its owner, and users who could
    /// write it as well, unless it is a set-id program.
    fn check_link(&self, who: FsCredentials, node: NodeId) -> Result<()> {
        const GROUPS: u32 = linux::S_ISGID | linux::S_IXGRP;
        let file = self.tree.node(node)?;
        if who.may_own(file.uid) {
            return Ok(());
        }
        let is_harmless = file.is_file() && file.mode & linux::S_ISUID == 0 && file.mode & GROUPS != GROUPS;
        let may = is_harmless && self.tree.check(node, who, access::READ | access::WRITE).is_ok();
        if may { Ok(()) } else { Err(Errno::EPERM) }
    }

    pub(super) fn rename(
        &mut self,
        caller: u64,
        who: FsCredentials,
        at: [u64; 2],
        lengths: u64,
        flags: u32,
    ) -> Result<Outcome> {
        let (from, to) = self.two_paths(caller, lengths)?;
        let [(from, from_slash), (to, to_slash)] = [&from, &to].map(|path| without_slashes(path));
        let walked = |at, path| match self.tree.walk(self.from(caller, at, who, false)?, path)? {
            WalkResult::Here { directory, name, node, .. } => Ok((directory, name, node)),
            WalkResult::LeavesFs { .. } => Err(Errno::EXDEV),
        };
        let (from, from_name, node) = walked(at[0], from)?;
        let (to, to_name, there) = walked(at[1], to)?;
        if from.mount != to.mount {
            return Err(Errno::EXDEV);
        }
        let (keeps, exchanges) = (flags & linux::RENAME_NOREPLACE != 0, flags & linux::RENAME_EXCHANGE != 0);
        let is_dots = |name: &[u8]| matches!(name, b"." | b"..");
        match () {
            () if is_dots(&from_name) => return Err(Errno::EBUSY),
            () if is_dots(&to_name) => return Err(if keeps { Errno::EEXIST } else { Errno::EBUSY }),
            () => self.tree.check_writable(to)?,
        }
        let node = node.ok_or(Errno::ENOENT)?;
        match there {
            Some(_) if keeps => return Err(Errno::EEXIST),
            None if exchanges => return Err(Errno::ENOENT),
            _ => {}
        }
        let exchanged = there.filter(|_| exchanges);
        let is_directory = |at: Location| self.tree.node(at.node).map(Inode::is_directory);
        if from_slash && !is_directory(node)? || to_slash && !is_directory(exchanged.unwrap_or(node))? {
            return Err(Errno::ENOTDIR);
        }
        if there == Some(node) {
            return Ok(NOTHING.into());
        }
        self.check_removal(who, from.node, node.node)?;
        match there {
            Some(there) => self.check_removal(who, to.node, there.node)?,
            None => self.tree.check(to.node, who, access::WRITE | access::EXECUTE)?,
        }
        if from.node != to.node {
            // The `..` of a directory that moves changes.
            for moved in [Some(node), exchanged].into_iter().flatten() {
                if is_directory(moved)? {
                    self.tree.check(moved.node, who, access::WRITE)?;
                }
            }
        }
        let (from, to) = ((from.node, &*from_name), (to.node, &*to_name));
        self.tell_of_programs();
        match flags & !linux::RENAME_NOREPLACE {
            0 => self.tree.rename(from, to)?,
            linux::RENAME_EXCHANGE => self.tree.exchange(from, to)?,
            linux::RENAME_WHITEOUT => {
                self.tree.rename(from, to)?;
                let fresh = Fresh { mode: linux::S_IFCHR, owner: who, device: (0, 0), target: b"" };
                self.tree.create(from.0, from.1, fresh)?;
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(NOTHING.into())
    }

    pub(super) fn link(
        &mut self,
        caller: u64,
        who: FsCredentials,
        at: [u64; 2],
        lengths: u64,
        flags: u64,
    ) -> Result<Outcome> {
        let (from, to) = self.two_paths(caller, lengths)?;
        let node = if from.is_empty() && flags & EMPTY_PATH != 0 {
            self.start(caller, at[0])?
        } else {
            match self.tree.walk(self.from(caller, at[0], who, flags & FOLLOW != 0)?, &from)? {
                WalkResult::Here { node, slash, .. } => match node.ok_or(Errno::ENOENT)? {
                    file if slash && !self.tree.node(file.node)?.is_directory() => return Err(Errno::ENOTDIR),
                    there => there,
                },
                WalkResult::LeavesFs { node, rest } => return Ok(Outcome::LeavesFs(node, rest)),
            }
        };
        self.on_new_name(caller, who, at[1], &to, false, |server, directory, name| {
            if directory.mount != node.mount {
                return Err(Errno::EXDEV);
            }
            server.check_link(who, node.node)?;
            server.tree.link(node.node, directory.node, name)
        })
    }
}

/// A path whose last name is meant itself, and not what a link there leads to, though slashes stand behind it; and
/// whether they do.
pub(super) fn without_slashes(path: &[u8]) -> (&[u8], bool) {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(path.len().min(1), |last| last + 1);
    (&path[..end], end < path.len())
}

/// The bits of a mode that remain when a user gives a node the mode and may not be in the node's group (chmod(2)).
fn kept_bits(mode: u32, group: u32, who: FsCredentials, groups: &Groups) -> u32 {
    let is_member = who.has(linux::CAP_FSETID) || who.gid == group || groups.has(group);
    if is_member { mode } else { mode & !linux::S_ISGID }
}
