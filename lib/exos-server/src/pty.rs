//! Pseudo-terminals as the server keeps them: their numbers and names, and the pages that both sides share.
//!
//! Each side is a node. When the last process that holds the master ends or closes it, the slave's name goes and
//! holders of the slave are told. When no process holds the slave, the master is told. The pages live as long as a side
//! does.

use super::dispatch::{Answer, FileServer};
use super::main_loop::OWN_KEY;
use super::principals::ANY_WINDOW;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use exos::hw::mapping::Mapping;
use exos::pipe;
use exos::terminal;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::PageNumber;
use vfs::handle::Handle;
use vfs::initramfs::{TERMINALS, device};
use vfs::inode::NodeId;
use vfs::mount_table::Location;
use vfs::namespace::{Fresh, FsCredentials, ROOT};
use vfs::path_walk::PathWalk;

/// Pseudo-terminals at a time.
const MOST: u32 = 256;
/// Group of the slaves: Debian's `tty`.
const GROUP: u32 = 5;

/// One of them.
#[derive(Debug)]
pub(super) struct PseudoTerminal {
    number: u32,
    master: NodeId,
    slave: NodeId,
    has_master: bool,
    pages: Vec<PageNumber>,
    /// The first page, seen by the server.
    first: Mapping,
}

impl FileServer {
    /// Whether a node is the folder of the slaves, or one of them: it is told to be of a file system of its own.
    pub(super) fn is_terminal(&self, node: NodeId) -> bool {
        let is_slave = || self.terminals.iter().any(|terminal| terminal.slave == node);
        self.slaves().is_ok_and(|folder| folder == node) || is_slave()
    }

    /// The folder of the slaves.
    fn slaves(&self) -> Result<NodeId> {
        let everything = PathWalk {
            from: Location::first(ROOT),
            follow: true,
            makes: false,
            who: FsCredentials::default(),
            resolve: 0,
        };
        Ok(self.tree.resolve(everything, TERMINALS.as_bytes())?.node)
    }

    /// A fresh one, whose master the caller holds.
    pub(super) fn make_terminal(&mut self, caller: u64, who: FsCredentials) -> Result<Answer> {
        let folder = self.slaves()?;
        let is_free = |number: &u32| self.tree.look_up(folder, &name(*number)) == Err(Errno::ENOENT);
        let number = (0..MOST).find(is_free).ok_or(Errno::ENOSPC)?;
        let mut pages = vec![PageNumber::NONE; terminal::PAGES + pipe::PAGES];
        self.pages_for(caller)?.allocate_many(&mut pages)?;
        let made = self.name_terminal(folder, number, who, &pages);
        let fresh = made.inspect_err(|_| {
            ANY_WINDOW.free_many(&pages);
        })?;
        let (master, slave) = (fresh.master, fresh.slave);
        self.terminals.push(fresh);
        self.hold(caller, Handle::plain(Location::first(master)))?;
        Ok([master, slave, u64::from(number), 0, 0])
    }

    fn name_terminal(
        &mut self,
        folder: NodeId,
        number: u32,
        who: FsCredentials,
        pages: &[PageNumber],
    ) -> Result<PseudoTerminal> {
        let owner = FsCredentials { gid: GROUP, ..who };
        let (mode, device) = (linux::S_IFCHR | 0o620, (device::SLAVE_MAJOR, number));
        let first = self.mappings.open(vec![pages[0]], OWN_KEY, true)?;
        let slave = self.tree.create(folder, &name(number), Fresh { mode, owner, device, target: b"" })?;
        let fresh = Fresh { mode: linux::S_IFCHR | 0o666, owner: who, device: device::PTMX, target: b"" };
        let master = self.tree.create_unnamed(folder, fresh, false)?;
        Ok(PseudoTerminal { number, master, slave, has_master: true, pages: pages.to_vec(), first })
    }

    /// The pages, for who holds a side.
    pub(super) fn terminal(&mut self, caller: u64, node: NodeId) -> Result<Answer> {
        let pages = self.pages_of_terminal(node).ok_or(Errno::ENXIO)?.to_vec();
        self.tell_of_stream(caller, &pages)?;
        let numbers: Vec<u8> = pages.iter().flat_map(|page| page.0.to_le_bytes()).collect();
        Ok([self.put(caller, &numbers)? / 8, 0, 0, 0, 0])
    }

    /// The pages of the one that a node is a side of.
    pub(super) fn pages_of_terminal(&self, node: NodeId) -> Option<&[PageNumber]> {
        let found = self.terminals.iter().find(|one| one.master == node || one.slave == node);
        found.map(|one| &*one.pages)
    }

    /// A node, which may be a side of a terminal, has lost its last holder.
    pub(super) fn terminal_is_left(&mut self, node: NodeId) {
        let Some(at) = self.terminals.iter().position(|one| one.master == node || one.slave == node) else { return };
        let one = &mut self.terminals[at];
        let (slave, words) = (one.slave, one.first.words());
        if one.master == node {
            one.has_master = false;
            terminal::tell_hung_up(words);
            self.remove_name(at);
        } else {
            terminal::tell_closed(words);
        }
        let is_held = slave != node && self.tree.node(slave).is_ok_and(|slave| slave.holds > 0);
        if !self.terminals[at].has_master && !is_held {
            let gone = self.terminals.swap_remove(at);
            self.mappings.close(&gone.first);
            ANY_WINDOW.free_many(&gone.pages);
        }
    }

    /// Takes the slave's name away, if it has it still.
    fn remove_name(&mut self, at: usize) {
        let (number, slave) = (self.terminals[at].number, self.terminals[at].slave);
        let Some(folder) = self.tree.node(slave).ok().map(|node| node.named_in.get()) else { return };
        if self.tree.look_up(folder, &name(number)) == Ok(slave) {
            // It is there, and no directory.
            let _ = self.tree.remove(folder, &name(number), false);
        }
    }
}

fn name(number: u32) -> Vec<u8> {
    format!("{number}").into_bytes()
}
