//! `/proc/PID/fd/N` of other processes: the owner of the descriptor answers for its attributes, and hands over a copy
//! where it is opened anew.
//!
//! The server passes the questions on for readers that may look into the owner. What has a path is followed by that
//! path. Pipes, sockets, memory files and removed files have none.

use super::reopen;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::sockets::scm_rights;
use crate::signal::remote_call;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use unix_core::process::remote_request;
use vfs::inode::Status;

/// A descriptor of another process, and the text of its link.
pub(super) struct ForeignDescriptor {
    pub(super) owner: u64,
    pub(super) descriptor: u64,
    pub(super) target: Vec<u8>,
}

impl ForeignDescriptor {
    /// Whether the link's text is a path that leads to the same file.
    pub(super) fn has_path(&self) -> bool {
        self.target.starts_with(b"/") && !self.target.ends_with(b" (deleted)")
    }

    /// What `stat` reports through the link.
    pub(super) fn status(&self) -> Result<Status> {
        let answer = self.ask(remote_request::STATUS)?;
        let words: Vec<u64> = answer.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        words.try_into().map(Status::from_words).map_err(|_| Errno::EIO)
    }

    /// Opens once more what the owner has open.
    pub(super) fn reopened(&self, flags: u32) -> Result<OpenFile> {
        let copy = scm_rights::unpack(&self.ask(remote_request::COPY)?).next().ok_or(Errno::EIO)??;
        match reopen(&copy, flags) {
            Ok(opened) if opened.object.has_window() => {
                copy.close_but_windows();
                Ok(opened)
            }
            outcome => {
                copy.close();
                outcome
            }
        }
    }

    fn ask(&self, request: &str) -> Result<Vec<u8>> {
        remote_call::request(self.owner, &remote_request::descriptor_to_path(request, self.descriptor))
    }
}
