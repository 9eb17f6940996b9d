//! Files that are programs (execve(2)): what it takes to begin one, in one answer.
//!
//! Invariant: a file that is open for writing does not begin to run, and one that runs is not opened for writing
//! (`ETXTBSY`). Of a program that may be executed and not read, a client is shown only the line that names its
//! interpreter: a fresh environment runs it (`setuid_exec`).

use crate::dispatch::{FileServer, NOTHING, Outcome};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use program::elf::HEAD;
use runtime::{EnvironmentId, exposed};
use unix_core::server::protocol;
use vfs::handle::{Handle, node_of, right};
use vfs::inode::NodeId;
use vfs::mount_table::Location;
use vfs::namespace::{FsCredentials, ROOT, access};
use vfs::path_walk::{PATH_BYTES, WalkResult};

/// What a program begins with, and a script.
const ELF: &[u8] = b"\x7fELF";
const SCRIPT: &[u8] = b"#!";

impl FileServer {
    /// See [`protocol::Request::OpenExec`].
    pub(crate) fn open_program(
        &mut self,
        caller: u64,
        who: FsCredentials,
        (at, length): (u64, u64),
        runs: bool,
    ) -> Result<Outcome> {
        let at = match length {
            0 => self.start(caller, at)?,
            _ => {
                let path = self.path(caller, 0, length)?;
                let found = self.tree.walk(self.from(caller, at, who, true)?, &path)?;
                self.show_once(at, &path);
                match found {
                    WalkResult::LeavesFs { node, rest } => return Ok(Outcome::LeavesFs(node, rest)),
                    WalkResult::Here { node, slash, .. } => match node.ok_or(Errno::ENOENT)? {
                        file if slash && !self.tree.node(file.node)?.is_directory() => return Err(Errno::ENOTDIR),
                        there => there,
                    },
                }
            }
        };
        self.check_program(who, at)?;
        match self.check_open(at, who, linux::O_RDONLY, false) {
            Err(Errno::EACCES) if runs => self.begin_unread(caller, at),
            outcome => outcome.and_then(|()| self.begin(caller, at, runs)),
        }
    }

    fn check_program(&mut self, who: FsCredentials, at: Location) -> Result<()> {
        self.access(who, at, access::EXECUTE)?;
        if self.tree.node(at.node)?.is_file() { self.check_unwritten(at.node) } else { Err(Errno::EACCES) }
    }

    /// See [`protocol::Request::ReacquireExec`].
    pub(crate) fn hold_programs(&mut self, caller: u64, who: FsCredentials, words: [u64; 2]) -> Result<Outcome> {
        let programs = words.into_iter().filter(|word| *word != 0).map(Handle::from_word);
        for program in programs.clone() {
            self.check_found(who, program)?;
            if self.is_other_than_zero(caller) {
                // It knows their pages, and may open them from now on.
                self.put_working_set(caller, program.at.node, (0, u64::MAX), &[])?;
            }
        }
        programs.into_iter().try_for_each(|program| self.hold(caller, program))?;
        Ok(NOTHING.into())
    }

    /// Whether a user finds a program and may open it, by this handle.
    fn check_found(&mut self, who: FsCredentials, program: Handle) -> Result<()> {
        let Handle { at, .. } = program;
        if self.tree.root != Location::first(ROOT) || !self.tree.is_found_by_all(at)? {
            return Err(Errno::EBADF);
        }
        self.check_program(who, at)?;
        self.check_open(at, who, linux::O_RDONLY, false)?;
        let opened = self.readable_program(at)?;
        if program == opened || program == opened.without_exec() { Ok(()) } else { Err(Errno::EBADF) }
    }

    fn begin(&mut self, caller: u64, at: Location, runs: bool) -> Result<Outcome> {
        let window = self.window(caller)?;
        let path = self.put_program_path(caller, at)?;
        let words = &window.words()[protocol::PROGRAM_PAGES as usize / 8..];
        let pages = self.put_working_set(caller, at.node, (0, u64::MAX), words)?;
        let node = self.tree.node(at.node)?;
        let (mode, size) = (u64::from(node.mode), node.size);
        self.tree.note_event(at.node, linux::IN_OPEN);
        let handle = self.readable_program(at)?;
        let handle = if runs { handle } else { handle.without_exec() };
        self.hold(caller, handle)?;
        let [head, ..] = match self.read(caller, handle, 0, protocol::PROGRAM_PATH) {
            Ok(answer) => answer,
            Err(error) => return self.release(caller, handle).and(Err(error)),
        };
        Ok([handle.to_word(), mode, size, protocol::pair(head as usize, path), pages].into())
    }

    /// What who may not read a program gets of it: a handle that opens nothing, and of a script the first line.
    fn begin_unread(&mut self, caller: u64, at: Location) -> Result<Outcome> {
        let mut head = Vec::new();
        self.tree.read_noted(at.node, [0, HEAD as u64], false, |_, bytes| head.extend_from_slice(bytes))?;
        let shown = match &head[..] {
            script if script.starts_with(SCRIPT) => {
                script.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default()
            }
            program if program.starts_with(ELF) => &[],
            _ => return Err(Errno::ENOEXEC),
        };
        let path = self.put_program_path(caller, at)?;
        self.window(caller)?.write(0, shown)?;
        let node = self.tree.node(at.node)?;
        let (mode, size) = (u64::from(node.mode), node.size);
        let handle = Handle { at, rights: right::RUNS };
        self.hold(caller, handle)?;
        Ok([handle.to_word(), mode, size, protocol::pair(shown.len(), path), 0].into())
    }

    fn put_program_path(&self, caller: u64, at: Location) -> Result<usize> {
        let path = self.tree.path_of(at).unwrap_or_default();
        let path = if path.len() < PATH_BYTES { &path[..] } else { &[] };
        self.window(caller)?.write(protocol::PROGRAM_PATH, path)?;
        Ok(path.len())
    }

    /// By what a program is held that runs.
    pub(crate) fn readable_program(&self, at: Location) -> Result<Handle> {
        let mode = self.tree.node(at.node)?.mode;
        let handle = Handle::opened(at, mode, linux::O_RDONLY, self.tree.flags_at(at));
        Ok(Handle { rights: handle.rights | right::RUNS, ..handle })
    }

    /// `ETXTBSY` where a file is open for writing. A file that no name leads to is its maker's (`memfd_create`).
    fn check_unwritten(&mut self, node: NodeId) -> Result<()> {
        let found = self.tree.node(node)?;
        if found.writers == 0 || found.links == 0 {
            return Ok(());
        }
        self.reclaim_idle_handles_of(node);
        if self.is_held_so(node, Handle::writes) { Err(Errno::ETXTBSY) } else { Ok(()) }
    }

    /// `ETXTBSY` where a program runs.
    pub(crate) fn check_at_rest(&mut self, node: NodeId) -> Result<()> {
        // Most files that are written to are none.
        if self.tree.node(node)?.mode & 0o111 == 0 {
            return Ok(());
        }
        self.tell_of_programs();
        self.reclaim_idle_handles_of(node);
        if self.is_held_so(node, Handle::runs) { Err(Errno::ETXTBSY) } else { Ok(()) }
    }

    /// Some programs may be others from now on: who knows what they were asks again.
    pub(crate) fn tell_of_programs(&self) {
        self.notice.words()[protocol::PROGRAMS].fetch_add(1, SeqCst);
    }

    /// Whether a process that lives holds a node in some manner.
    fn is_held_so(&self, node: NodeId, manner: impl Fn(Handle) -> bool) -> bool {
        let alive = self.clients.iter().filter(|(number, _)| exposed::lives(EnvironmentId(**number)));
        let mut held = alive.flat_map(|(_, client)| client.holds.keys()).filter(|word| node_of(**word) == node);
        held.any(|word| manner(Handle::from_word(*word)))
    }

    /// A handle that may write is held once more, or once less.
    pub(crate) fn note_writer(&mut self, handle: Handle, hold: bool) {
        if !handle.writes() {
            return;
        }
        if let Ok(node) = self.tree.node_mut(handle.at.node) {
            node.writers = if hold { node.writers.saturating_add(1) } else { node.writers.saturating_sub(1) };
        }
    }
}
