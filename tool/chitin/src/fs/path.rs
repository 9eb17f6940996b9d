//! Paths in a file system: walked by name, through symbolic links below its root.

use cffs::device::Device;
use cffs::error::{Error, Result};
use cffs::file_system::FileSystem;
use cffs::layout::Number;
use cffs::layout::inode::LINK;

/// Most symbolic links of one walk, as on Linux.
const MAX_LINKS: usize = 40;

/// The inode of a path. A symbolic link at the end is followed if `follow`.
pub fn find<D: Device>(system: &mut FileSystem<'_, D>, path: &[u8], follow: bool) -> Result<Number> {
    let mut rest: Vec<Vec<u8>> = components(path);
    let (mut at, mut links) = (system.root(), 0);
    while let Some(name) = rest.pop() {
        at = match name.as_slice() {
            b"." => at,
            b".." => system.parent(at)?,
            name => {
                let found = system.lookup(at, name)?;
                let is_link = system.attributes(found)?.kind() == LINK;
                if !is_link || rest.is_empty() && !follow {
                    found
                } else {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Error::Invalid);
                    }
                    let text = system.read_link(found)?;
                    rest.extend(components(&text));
                    if text.starts_with(b"/") { system.root() } else { at }
                }
            }
        };
    }
    Ok(at)
}

/// The names of a path, the last one first.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).rev().map(Vec::from).collect()
}

/// The directory of a path, and its last name; `None` for the root.
pub fn split(path: &str) -> Option<(&str, &str)> {
    let path = path.trim_end_matches('/');
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    (!name.is_empty()).then_some((directory, name))
}
