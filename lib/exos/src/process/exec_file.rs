//! Files that a process executes: found, opened and read; and found again without an RPC.
//!
//! A process whose children execute the same program one after the other keeps its files in the handle cache in
//! between. From the last time it knows their contents, their paths and which of their pages programs touch
//! (`exec_template`). A process that executes another program with the interpreter of its own knows that interpreter.
//! Both only ask the server to hold them. Invariant: all that is found again is so still. The server counts the changes
//! that could break it (`protocol::PROGRAMS`), and empties the handle cache of a file before any process writes the
//! file. The dcache tells where a path leads and who may execute it.

use crate::process::current::process;
use crate::process::proc_links::walk;
use crate::server::client::{Client, Opened, OpenedProgram, PrefaultSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use program::elf::{HEAD, Image};
use unix_core::procfs::Last;
use vfs::handle::{Handle, place_of, right};
use vfs::namespace::access;

/// A file that was opened to be run.
#[derive(Debug)]
pub(super) struct ExecFile {
    pub(super) opened: Opened,
    pub(super) path: Vec<u8>,
    /// Its absolute path; empty where that is not known.
    pub(super) absolute: Vec<u8>,
    /// The pages that programs touch of it.
    pub(super) touched: PrefaultSet,
    /// The server's count of what makes programs others, before it told all this.
    generation: u64,
}

/// One that can be loaded, and what it says of itself.
#[derive(Debug)]
pub(super) struct ElfFile {
    pub(super) file: ExecFile,
    pub(super) image: Image,
}

impl ExecFile {
    /// One that is held, and what it begins with.
    fn of(program: OpenedProgram, path: &[u8]) -> (Self, Vec<u8>) {
        let OpenedProgram { opened, head, path: absolute, touched, generation } = program;
        (Self { opened, path: path.to_vec(), absolute, touched, generation }, head)
    }

    /// One that the server has opened already.
    pub(super) fn of_node(files: &mut Client, opened: Opened, path: &[u8]) -> Result<(Self, Vec<u8>)> {
        let head = files.read(opened.node, 0, HEAD)?;
        let absolute = files.path_of(opened.node).unwrap_or_default();
        let touched = files.touched(opened.node);
        Ok(Self::of(OpenedProgram { opened, head, path: absolute, touched, generation: 0 }, path))
    }

    /// Whether this process may look into it.
    pub(super) const fn is_readable(&self) -> bool {
        Handle::from_word(self.opened.node).check(right::READ).is_ok()
    }

    /// Whether a path leads to it, it is as it was, and this process may open it, as far as everybody sees that.
    fn is_found(&self, path: &[u8]) -> bool {
        let process = process();
        let (directory, from_there) = process.fs.lock().start(path);
        let found = process.files.lock().find_owned(directory, &from_there, true);
        let Some(Ok(shown)) = found else { return false };
        let identity = process.attributes.credentials.lock();
        let may = shown.permits(identity.acting_on_files(), &identity.groups, access::READ | access::EXECUTE);
        may && shown.place == place_of(self.opened.node) && shown.mode_links as u32 == self.opened.mode
    }

    /// Lets it go.
    pub(super) fn close(&self) {
        process().files.lock().close_program(self.opened.node);
    }
}

/// Opens a regular file that may be executed and read, and reads its beginning. What is to run (`runs`) need not be
/// readable.
pub(super) fn open(path: &[u8], runs: bool) -> Result<(ExecFile, Vec<u8>)> {
    let (directory, from_there) = process().fs.lock().start(path);
    let found = walk(directory, &from_there, Last::Node, |files, at, path| files.open_program(at, path, runs))?;
    Ok(ExecFile::of(found.here(Errno::EACCES)?, path))
}

/// The files of the program that a child executed last, opened again, if a path leads to it and it is as it was.
pub(super) fn revalidate(path: &[u8]) -> Option<Vec<Arc<ElfFile>>> {
    let executed = process().spawn_cache.lock().program();
    executed.filter(|known| reopen_all(known, path))
}

/// The interpreter that this process's own program has, opened once more, if a path leads to it and it is as it was.
pub(super) fn reopen_interpreter(path: &[u8]) -> Option<Arc<ElfFile>> {
    let known = process().program.lock().interpreter.clone();
    known.filter(|known| reopen_all(core::slice::from_ref(known), path))
}

fn reopen_all(known: &[Arc<ElfFile>], path: &[u8]) -> bool {
    let [first, second] = [known.first(), known.get(1)].map(|known| known.map(|known| &known.file));
    let Some(program) = first.filter(|program| program.is_found(path)) else { return false };
    let is_whole = second.is_none_or(|interpreter| {
        interpreter.generation == program.generation && interpreter.is_found(&interpreter.path)
    });
    let nodes = [program.opened.node, second.map_or(0, |interpreter| interpreter.opened.node)];
    is_whole && process().files.lock().reopen_programs(nodes, program.generation)
}

/// Reads more of a file than its beginning.
pub(super) fn read_from(file: &ExecFile) -> impl FnOnce(u64, usize) -> Result<Vec<u8>> {
    let node = file.opened.node;
    move |offset, bytes| process().files.lock().read(node, offset, bytes)
}
