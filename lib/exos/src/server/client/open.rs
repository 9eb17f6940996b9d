//! Opening files, and programs with all that they begin with.

use super::dcache::notice;
use super::handles::Kept;
use super::io::numbered;
use super::{Client, Found, cuts};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use linux_abi::errno::Result;
use unix_core::server::protocol::{self, Request};
use vfs::namespace::ROOT;

/// A node that was opened, and is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its number.
    pub node: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Bytes.
    pub size: u64,
    /// Opening cut it, and others may still map bytes that went.
    pub stale_mappings: bool,
}

/// A program that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedProgram {
    /// Its node, held.
    pub opened: Opened,
    /// What it begins with.
    pub head: Vec<u8>,
    /// Its absolute path; empty where that is not known.
    pub path: Vec<u8>,
    /// The pages that programs touch of it and that are in memory.
    pub touched: PrefaultSet,
    /// The server's count of what makes programs others, before it told all this.
    pub generation: u64,
}

/// The pages that programs touch of a file and that are in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefaultSet {
    /// In ascending order: index and number.
    pub pages: Vec<(u64, u64)>,
    /// The server's count of cuts before it told them: as long as it is the same they are the file's.
    cuts: u64,
}

/// The count of what makes programs others (see `protocol::PROGRAMS`).
pub fn program_generation() -> u64 {
    notice(protocol::PROGRAMS).load(Acquire)
}

impl Client {
    /// Opens a path as `openat` does.
    pub fn open(&mut self, at: u64, path: &[u8], flags: u32, mode: u32) -> Result<Found<Opened>> {
        self.open_within(at, path, flags, mode, 0)
    }

    /// The same, where the path may not lead everywhere: flags `RESOLVE_…` of openat2(2).
    pub fn open_within(&mut self, at: u64, path: &[u8], flags: u32, mode: u32, resolve: u32) -> Result<Found<Opened>> {
        let length = self.put_path(path)?;
        let show = if self.has_own_root { 0 } else { protocol::SHOW };
        let [flags, mode, resolve] = [flags | show, mode, resolve].map(u64::from);
        let answer = self.on_path([Request::Open as u64, at, flags, mode, length, resolve])?;
        Ok(answer.map(|[_, node, mode, device, size, left]| Opened {
            node,
            stale_mappings: left != 0,
            mode: mode as u32,
            device: ((device >> 32) as u32, device as u32),
            size,
        }))
    }

    /// Opens a regular file that may be executed, with what it takes to begin it.
    pub fn open_program(&mut self, at: u64, path: &[u8], runs: bool) -> Result<Found<OpenedProgram>> {
        let length = self.put_path(path)?;
        let (cuts, generation) = (cuts(), program_generation());
        let found = self.on_path([Request::OpenExec as u64, at, length, u64::from(runs), 0, 0])?;
        let window = self.window()?;
        let take = |from: u64, length: u64| {
            let mut bytes = vec![0; length.min(protocol::PROGRAM_PAGES) as usize];
            window.read(from, &mut bytes).map(|()| bytes)
        };
        Ok(match found {
            Found::LeavesFs(node, rest) => Found::LeavesFs(node, rest),
            Found::Here([_, node, mode, size, lengths, pages]) => Found::Here(OpenedProgram {
                opened: Opened { node, mode: mode as u32, device: (0, 0), size, stale_mappings: false },
                head: take(0, lengths & 0xffff_ffff)?,
                path: take(protocol::PROGRAM_PATH, lengths >> 32)?,
                touched: PrefaultSet {
                    pages: numbered(&window.words()[protocol::PROGRAM_PAGES as usize / 8..], pages),
                    cuts,
                },
                generation,
            }),
        })
    }

    /// Takes up a program again, and its interpreter or 0, that everybody finds, if nothing made either another one
    /// since that generation.
    pub fn reopen_programs(&mut self, nodes: [u64; 2], generation: u64) -> bool {
        let are_same = || program_generation() == generation;
        // A watcher is told of each operation on a file.
        if !are_same() || self.has_watchers() {
            return false;
        }
        let held = self.hold_again(nodes);
        // The server counts a change of a program before it empties the handle caches of it.
        let are_open = held == nodes && are_same();
        if !are_open {
            held.into_iter().filter(|node| *node != 0).for_each(|node| self.close_program(node));
        }
        are_open
    }

    /// Holds programs: the server is asked only for what this process does not hold without need. The result: those
    /// that it holds now.
    fn hold_again(&self, nodes: [u64; 2]) -> [u64; 2] {
        let idle = self.idle();
        let kept = nodes.map(|node| if idle.is_some_and(|idle| idle.take(node)) { node } else { 0 });
        let [first, second] = core::array::from_fn(|index| nodes[index] & !kept[index]);
        let are_all = first | second == 0;
        if are_all || self.exchange([Request::ReacquireExec as u64, first, second, 0, 0, 0]).is_ok() {
            nodes
        } else {
            kept
        }
    }

    /// There is no need of a program any more that was opened: it is held without, if that can be.
    pub fn close_program(&mut self, node: u64) {
        let kept = self.keep(node);
        if kept != Kept::Yes {
            let full = u64::from(kept == Kept::NoRoom);
            // A node that is not held any more needs no release.
            let _ = self.exchange([Request::Release as u64, node, 0, 0, full, 0]);
        }
    }

    /// A file without a name in the file system of a directory, held; it may get a name, and it may be sealed.
    pub fn make_unnamed(
        &mut self,
        at: u64,
        path: &[u8],
        mode: u32,
        [nameable, sealable]: [bool; 2],
    ) -> Result<Found<u64>> {
        let length = self.put_path(path)?;
        let manner = u64::from(nameable) | u64::from(sealable) << 1;
        let message = [Request::Unnamed as u64, at, u64::from(mode), manner, length, 0];
        Ok(self.on_path(message)?.map(|answer| answer[1]))
    }

    /// A file that lives in memory, in no directory, held.
    pub fn make_memory(&mut self, name: &[u8], sealable: bool) -> Result<Found<u64>> {
        let length = self.put_path(&[b"memfd:", name].concat())?;
        let message = [Request::Unnamed as u64, ROOT, 0o777, u64::from(sealable) << 1, 0, length];
        Ok(self.on_path(message)?.map(|answer| answer[1]))
    }

    /// All pages of a file that programs touch; none where they cannot be told.
    pub fn touched(&mut self, node: u64) -> PrefaultSet {
        let cuts = cuts();
        PrefaultSet { pages: self.working_set(node, 0, u64::MAX).unwrap_or_default(), cuts }
    }

    /// Whether pages that were told are surely the file's still.
    pub fn are_current(&self, touched: &PrefaultSet) -> bool {
        cuts() == touched.cuts
    }
}
