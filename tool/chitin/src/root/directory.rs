//! A root file system from a directory of the host, taken as it is.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{major, minor};
use walkdir::WalkDir;

use crate::archive;
use crate::failure::{Context, Result};

use super::tree::{Contents, Kind, Node, Tree};

/// Reads the directory; contents are read later. Sockets are left out: they
/// mean nothing without their listener.
///
/// # Errors
/// When something in it cannot be looked at.
pub fn load(root: &Path) -> Result<Tree> {
    let mut tree = Tree::new();
    // Which file of the tree an inode with several names has become.
    let mut linked: HashMap<(u64, u64), usize> = HashMap::new();
    for entry in WalkDir::new(root).sort_by_file_name() {
        let entry = entry.context("cannot read the root file system")?;
        let metadata = entry.path().symlink_metadata().context(entry.path().display())?;
        let path = entry.path().strip_prefix(root).unwrap_or(entry.path());
        let Some(kind) = kind(entry.path(), &metadata, &mut tree, &mut linked)? else { continue };
        tree.insert(path.as_os_str().as_bytes(), node(kind, &metadata));
    }
    Ok(tree)
}

fn node(kind: Kind, metadata: &Metadata) -> Node {
    Node {
        kind,
        permissions: metadata.mode() & 0o7777,
        user: metadata.uid(),
        group: metadata.gid(),
        modified: u32::try_from(metadata.mtime()).unwrap_or(0),
    }
}

fn kind(
    path: &Path,
    metadata: &Metadata,
    tree: &mut Tree,
    linked: &mut HashMap<(u64, u64), usize>,
) -> Result<Option<Kind>> {
    let file_type = metadata.file_type();
    if file_type.is_dir() {
        return Ok(Some(Kind::Directory));
    }
    if file_type.is_symlink() {
        let target = path.read_link().context(path.display())?;
        return Ok(Some(Kind::SymbolicLink(target.as_os_str().as_bytes().to_vec())));
    }
    if file_type.is_file() {
        let contents = || Contents::Part { file: path.to_owned(), offset: 0, size: metadata.len() };
        let inode = (metadata.dev(), metadata.ino());
        let file = *linked.entry(inode).or_insert_with(|| tree.add_contents(contents()));
        return Ok(Some(Kind::File(file)));
    }
    if file_type.is_socket() {
        return Ok(None);
    }
    let type_bits = metadata.mode() & !0o7777;
    debug_assert_ne!(type_bits, archive::REGULAR, "plain files have been dealt with");
    let device = (major(metadata.rdev()), minor(metadata.rdev()));
    Ok(Some(Kind::Special { type_bits, device }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_directory_is_taken_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("etc")).unwrap();
        std::fs::write(at("etc/motd"), "hello").unwrap();
        std::fs::hard_link(at("etc/motd"), at("etc/issue")).unwrap();
        symlink("etc/motd", at("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();

        let tree = load(folder.path()).unwrap();
        assert_eq!(tree.get(b"etc").unwrap().kind, Kind::Directory);
        assert_eq!(tree.get(b"link").unwrap().kind, Kind::SymbolicLink(b"etc/motd".to_vec()));
        assert_eq!(tree.get(b"socket"), None);
        let Kind::File(file) = tree.get(b"etc/motd").unwrap().kind else { panic!("no file") };
        assert_eq!(tree.get(b"etc/issue").unwrap().kind, Kind::File(file));
        assert_eq!(tree.read(file, u64::MAX).unwrap(), b"hello");
        assert_eq!(tree.size(), 5);
    }

    #[test]
    fn a_directory_that_cannot_be_read_is_an_error() {
        assert!(load(Path::new("/nonexistent")).is_err());
    }
}
