//! Seals of files: which changes of their contents are forbidden, also to processes that have them open
//! (memfd_create(2), fcntl(2)). Pure.

use crate::file_data::PageStorage;
use crate::inode::NodeId;
use crate::namespace::FileTree;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;

const KNOWN: u32 =
    linux::F_SEAL_SEAL | linux::F_SEAL_SHRINK | linux::F_SEAL_GROW | linux::F_SEAL_WRITE | linux::F_SEAL_FUTURE_WRITE;
/// Seals that keep bytes from being changed by calls, and from being mapped to be changed.
const NO_WRITES: u32 = linux::F_SEAL_WRITE | linux::F_SEAL_FUTURE_WRITE;

impl<S: PageStorage> FileTree<S> {
    /// Adds seals to a file; `is_mapped`: a process may change it in memory at this time.
    pub fn seal(&mut self, id: NodeId, seals: u32, is_mapped: bool) -> Result<()> {
        if seals & !KNOWN != 0 {
            return Err(Errno::EINVAL);
        }
        let node = self.node_mut(id)?;
        if node.seals & linux::F_SEAL_SEAL != 0 {
            return Err(Errno::EPERM);
        }
        if seals & linux::F_SEAL_WRITE & !node.seals != 0 && is_mapped {
            return Err(Errno::EBUSY);
        }
        node.seals |= seals;
        Ok(())
    }

    /// `EPERM` where `count` bytes from `offset` on must not be written.
    pub fn check_write(&self, id: NodeId, offset: u64, count: u64) -> Result<()> {
        let node = self.node(id)?;
        let grows = offset.saturating_add(count) > node.size && count > 0;
        let is_sealed = node.seals & NO_WRITES != 0 || grows && node.seals & linux::F_SEAL_GROW != 0;
        if is_sealed { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// `EPERM` where a file must not be mapped to be written; who did so before may go on, unless it is sealed wholly.
    pub fn check_mapping(&self, id: NodeId, was_mapped: bool) -> Result<()> {
        let forbidden = if was_mapped { linux::F_SEAL_WRITE } else { NO_WRITES };
        if self.node(id)?.seals & forbidden != 0 { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// `EPERM` where a file must not get this size.
    pub fn check_size(&self, id: NodeId, size: u64) -> Result<()> {
        let node = self.node(id)?;
        let is_sealed = size < node.size && node.seals & linux::F_SEAL_SHRINK != 0
            || size > node.size && node.seals & linux::F_SEAL_GROW != 0;
        if is_sealed { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// `EPERM` where `fallocate` must not do this.
    pub fn check_allocation(&self, id: NodeId, mode: u32, end: u64) -> Result<()> {
        let changes = mode & (linux::FALLOC_FL_PUNCH_HOLE | linux::FALLOC_FL_ZERO_RANGE) != 0;
        if changes && self.node(id)?.seals & NO_WRITES != 0 {
            return Err(Errno::EPERM);
        }
        let keeps_size = mode & linux::FALLOC_FL_KEEP_SIZE != 0;
        if keeps_size { Ok(()) } else { self.check_size(id, end.max(self.node(id)?.size)) }
    }
}
