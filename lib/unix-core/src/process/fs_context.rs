//! Where a process is in the file system: the folder in which relative paths begin, and the bits that new files lack.
//!
//! The server has a node for `/proc` and none for what lies below it. So the place keeps the path of a working
//! directory there, and a relative path becomes an absolute one.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Where `/proc` is.
const PROC: &[u8] = b"/proc";

/// Where the process is in the file system.
#[derive(Clone, Debug)]
pub struct FsContext {
    /// The working directory, which the process holds; that of `/proc` for every folder of `/proc`.
    pub directory: u64,
    /// The path below `/proc` of a working directory there.
    pub below_proc: Option<Arc<[u8]>>,
    /// Bits that new files lack.
    pub mask: u32,
}

impl FsContext {
    /// The node where a path begins, and the path from there.
    pub fn start<'p>(&self, path: &'p [u8]) -> (u64, Cow<'p, [u8]>) {
        match &self.below_proc {
            Some(folder) if !path.is_empty() && path[0] != b'/' => (self.directory, in_proc(folder, path).into()),
            _ => (self.directory, path.into()),
        }
    }
}

/// The absolute path of what a relative one leads to from a folder below `/proc`.
pub fn in_proc(folder: &[u8], path: &[u8]) -> Vec<u8> {
    let parts = [PROC, folder, path];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_begin_in_the_folder_of_proc() {
        let mut place = FsContext { directory: 7, below_proc: None, mask: 0 };
        assert_eq!(place.start(b"fd/0"), (7, b"fd/0".into()));
        place.below_proc = Some(Arc::from(&b"12/fd"[..]));
        assert_eq!(place.start(b"../stat"), (7, b"/proc/12/fd/../stat".into()));
        assert_eq!(*place.start(b"/etc").1, *b"/etc");
        assert_eq!(*place.start(b"").1, *b"", "an empty path leads nowhere");
        assert_eq!(in_proc(b"", b""), b"/proc");
        assert_eq!(in_proc(b"12", b""), b"/proc/12");
    }
}
