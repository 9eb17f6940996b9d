//! Truncated files, and holes in files, while processes map them. The pages go from the memory of every process, so
//! that an access past the end gives SIGBUS (mmap(2)).
//!
//! The server knows who holds a file, and each of those is asked to look. The process that is asked trusts only the
//! server for the present length of the file. The caller does not wait for a stopped process, which keeps the pages.

use crate::process::Process;
use crate::process_table;
use crate::signal::remote_call;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use unix_core::process::exit_status::Change;
use unix_core::process::remote_request;
use vfs::handle::node_of;
use vm::vma::Backing;

/// Bytes of a file are gone: from the memory of this process, with its copies of them or without. They go from all
/// other processes, too, where the server says that others still have them.
pub(crate) fn cut_mappings(
    process: &Process,
    node: u64,
    range: (u64, u64),
    copies: bool,
    others_too: bool,
) -> Result<()> {
    process.with_memory(|space, pages| space.cut_file(pages, node, range, copies))?;
    if others_too { tell_others(process, node, range) } else { Ok(()) }
}

fn tell_others(process: &Process, node: u64, (first, end): (u64, u64)) -> Result<()> {
    let holders = process.files.lock().holders(node)?;
    if holders.is_empty() {
        return Ok(());
    }
    let path = remote_request::cut_to_path([node_of(node), first, end]);
    for other in process_table::all().into_iter().filter(|other| holders.contains(&other.environment)) {
        let is_stopped = matches!(Change::from_word(other.change), Some(Change::Stopped(_)));
        if !is_stopped {
            // A process that ends meanwhile maps nothing any more.
            let _ = remote_call::request(other.number, &path);
        }
    }
    Ok(())
}

/// What another process asks: the pages of a file beyond its end go, with copies; those in the range are looked up
/// again.
pub(super) fn answer(process: &Process, path: &str) -> Result<Vec<u8>> {
    let [node, first, end] = remote_request::cut_from_path(path).ok_or(Errno::EINVAL)?;
    let handle = {
        let memory = process.memory.lock();
        let is_it = |handle: &u64| node_of(*handle) == node;
        memory.space.areas.iter().find_map(|area| match area.backing {
            Backing::File { node, .. } => Some(node).filter(is_it),
            _ => None,
        })
    };
    let Some(handle) = handle else { return Ok(Vec::new()) };
    let size = process.files.lock().status_of(handle)?.size;
    process.with_memory(|space, pages| {
        space.cut_file(pages, node, (size, u64::MAX), true)?;
        space.cut_file(pages, node, (first, end), false)
    })?;
    Ok(Vec::new())
}
