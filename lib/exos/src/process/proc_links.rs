//! Walking a path out of the server's file system and back into it: links below `/proc` lead to paths and to nodes
//! that only the process itself knows.

use crate::process::current::process;
use crate::server::client::{Client, Found};
use crate::upcalls::upcalls;
use linux_abi::errno::{Errno, Result};
use unix_core::procfs::Last;
use vfs::path_walk::LINKS;

/// Performs an operation of the server's on a path that begins at a node: again for each link that leads back.
pub(crate) fn walk<T>(
    at: u64,
    path: &[u8],
    last: Last,
    mut operation: impl FnMut(&mut Client, u64, &[u8]) -> Result<Found<T>>,
) -> Result<Found<T>> {
    let (mut at, mut path) = (at, path.to_vec());
    for _ in 0..LINKS {
        let found = operation(&mut process().files.lock(), at, &path)?;
        let Found::LeavesFs(_, rest) = &found else { return Ok(found) };
        match (upcalls().lead_on)(rest, last)? {
            None => return Ok(found),
            Some((node, further)) => (at, path) = (node.unwrap_or(at), further),
        }
    }
    Err(Errno::ELOOP)
}
