//! The mount table at the server: who may change it, and what changes for whom.

use super::dispatch::{Answer, Client, FileServer, NOTHING, Outcome};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::server::protocol::{MOUNTS, WINDOW_BYTES};
use vfs::file_data::PageStorage;
use vfs::mount::{Request, are_unmount_flags, follows};
use vfs::mount_table::{Kind, Location};
use vfs::namespace::FsCredentials;
use vfs::path_walk::WalkResult;

/// What `mount` takes for one of its other calls, in the order in which it looks.
const CHANGES: u32 = linux::MS_SHARED | linux::MS_PRIVATE | linux::MS_SLAVE | linux::MS_UNBINDABLE;

impl FileServer {
    /// `mount`: `at` is where target and source begin, `lengths` those of target, source, kind and options.
    pub(super) fn mount(
        &mut self,
        caller: u64,
        who: FsCredentials,
        at: [u64; 2],
        lengths: u64,
        flags: u64,
    ) -> Result<Outcome> {
        let [target, source, kind, data] = self.four(caller, lengths)?;
        let flags = flags as u32;
        let on = match self.find(caller, who, at[0], &target, true)? {
            Ok(place) => place,
            Err(outcome) => return Ok(outcome),
        };
        check_privilege(who)?;
        let memory = exos::budget::total_pages() * PAGE_SIZE;
        let request = Request { source: &source, kind: &kind, data: &data, flags, memory };
        if flags & linux::MS_REMOUNT != 0 {
            self.tree.remount(on, request)?;
        } else if flags & linux::MS_BIND != 0 || flags & linux::MS_MOVE != 0 && flags & CHANGES == 0 {
            let from = match self.find(caller, who, at[1], &source, true)? {
                Ok(place) => place,
                Err(outcome) => return Ok(outcome),
            };
            match flags & linux::MS_BIND {
                0 => self.tree.move_mount(from, on)?,
                _ => self.tree.bind(from, on, flags & linux::MS_REC != 0)?,
            }
        } else if flags & CHANGES != 0 {
            self.tree.set_propagation(on, flags)?;
        } else {
            self.tree.mount(on, request, who)?;
        }
        self.publish_mount_change();
        Ok(NOTHING.into())
    }

    /// `umount2`.
    pub(super) fn unmount(
        &mut self,
        caller: u64,
        who: FsCredentials,
        at: u64,
        flags: u32,
        length: u64,
    ) -> Result<Outcome> {
        if !are_unmount_flags(flags) {
            return Err(Errno::EINVAL);
        }
        let path = self.path(caller, 0, length)?;
        match self.find(caller, who, at, &path, follows(flags))? {
            Err(outcome) => Ok(outcome),
            Ok(place) => {
                check_privilege(who)?;
                self.tree.unmount(place, flags)?;
                self.publish_mount_change();
                Ok(NOTHING.into())
            }
        }
    }

    /// `pivot_root`: all whose root was the old one have the new one from now on.
    pub(super) fn pivot_root(
        &mut self,
        caller: u64,
        who: FsCredentials,
        at: [u64; 2],
        lengths: u64,
    ) -> Result<Outcome> {
        let (new, put_old) = self.two_paths(caller, lengths)?;
        check_privilege(who)?;
        let places = [
            self.find(caller, who, at[0], &new, true)?.map_err(|_| Errno::EINVAL)?,
            self.find(caller, who, at[1], &put_old, true)?.map_err(|_| Errno::EINVAL)?,
        ];
        let [old, new] = self.tree.pivot_root(places[0], places[1])?;
        let theirs = |(number, client): (&u64, &Client)| (client.root == old).then_some(*number);
        let moved: Vec<u64> = self.clients.iter().filter_map(theirs).collect();
        for number in moved {
            self.set_root(number, new)?;
        }
        self.publish_mount_change();
        Ok(NOTHING.into())
    }

    /// Wakes the processes that poll a mount table.
    fn publish_mount_change(&self) {
        self.notice.words()[MOUNTS].fetch_add(1, SeqCst);
        exos::wait::kick_idle();
    }

    /// The lines of `/proc/self/mountinfo` from the `skip`-th on, as many as fit into the window, and how many.
    pub(super) fn list_mounts(&mut self, caller: u64, skip: usize) -> Result<Answer> {
        let mut text = Vec::new();
        let mut count = 0;
        for line in self.tree.mount_lines(skip) {
            if (text.len() + line.len()) as u64 > WINDOW_BYTES {
                break;
            }
            text.extend_from_slice(line.as_bytes());
            count += 1;
        }
        Ok([self.put(caller, &text)?, count, 0, 0, 0])
    }

    /// What `statfs` tells: pages in all, free ones, nodes, the kind's number with the mount's flags above it.
    pub(super) fn space(&mut self, at: Location) -> Result<Outcome> {
        let [all, free, nodes] = self.tree.space(at.node, self.tree.store.capacity(), self.tree.store.room())?;
        let kind = if self.is_terminal(at.node) { Kind::Terminals } else { self.tree.mounts.get(at.mount)?.kind };
        let flags = self.tree.all_flags_at(at);
        Ok([all, free, nodes, kind.magic() | u64::from(flags) << 32, 0].into())
    }

    /// The place that a path leads to, `/proc` itself included; what lies below it is the caller's affair.
    fn find(
        &mut self,
        caller: u64,
        who: FsCredentials,
        at: u64,
        path: &[u8],
        follow: bool,
    ) -> Result<core::result::Result<Location, Outcome>> {
        Ok(match self.tree.walk(self.from(caller, at, who, follow)?, path)? {
            WalkResult::LeavesFs { node, rest } if rest.is_empty() => Ok(node),
            WalkResult::LeavesFs { node, rest } => Err(Outcome::LeavesFs(node, rest)),
            WalkResult::Here { node, slash, .. } => match node.ok_or(Errno::ENOENT)? {
                file if slash && !self.tree.node(file.node)?.is_directory() => return Err(Errno::ENOTDIR),
                there => Ok(there),
            },
        })
    }

    /// Four texts that lie in the window one behind the other.
    fn four(&self, caller: u64, lengths: u64) -> Result<[Vec<u8>; 4]> {
        let mut at = 0;
        let mut texts = [const { Vec::new() }; 4];
        for (index, text) in texts.iter_mut().enumerate() {
            let length = lengths >> (16 * index) & 0xffff;
            *text = self.path(caller, at, length)?.to_vec();
            at += length;
        }
        Ok(texts)
    }
}

fn check_privilege(who: FsCredentials) -> Result<()> {
    if who.has(linux::CAP_SYS_ADMIN) { Ok(()) } else { Err(Errno::EPERM) }
}
