//! Status of an open file, as fstat(2) reports it. The server knows that of files, this folder that of texts below
//! `/proc`. Pipes, sockets and devices have no more than a type and a number.

use crate::descriptor::object::Object;
use crate::descriptor::open_file::OpenFile;
use crate::process::current::process;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use unix_core::server::protocol::FOLLOW;
use vfs::initramfs::device;
use vfs::inode::Status;
use vfs::namespace::ROOT;
use vfs::superblock::UNNAMED_VOLUME;

/// What `fstat` tells of an open description.
pub(crate) fn status_of(description: &OpenFile) -> Result<Status> {
    let special = |mode: u32, node: u64, device: u64| Status {
        node,
        mode_links: u64::from(mode) | 1 << 32,
        device,
        place: u64::from(UNNAMED_VOLUME),
        ..Status::default()
    };
    if let Some(node) = description.object.node() {
        return process().files.lock().status_of(node);
    }
    Ok(match &description.object {
        Object::Pipe(pipe, _) => special(linux::S_IFIFO | 0o600, pipe.pages()[0].0, 0),
        Object::Console(kind) => special(linux::S_IFIFO | 0o600, *kind as u64, 0),
        // A slave has a node, so that this is the machine's own.
        Object::Terminal(_) => {
            let mut files = process().files.lock();
            let node = files.status(ROOT, crate::terminal::PATH, FOLLOW);
            let console = special(linux::S_IFCHR | 0o620, 3, u64::from(device::CONSOLE.0) << 32 | 1);
            node.and_then(|found| found.here(Errno::ENOENT)).unwrap_or(console)
        }
        // What has ended since has no status any more.
        Object::Text(text) => {
            let status = super::status(&text.path, text.followed);
            status.unwrap_or_else(|_| special(linux::S_IFREG | 0o444, 0, 0))
        }
        Object::Listing(folder) => {
            super::status(&folder.path, false).unwrap_or_else(|_| special(linux::S_IFDIR | 0o555, 0, 0))
        }
        Object::Other(other) => {
            let (mode, node) = other.status();
            special(mode, node, 0)
        }
        Object::File { .. } | Object::Directory { .. } | Object::Device(..) | Object::Disk(_) => {
            return Err(Errno::EIO);
        }
    })
}
