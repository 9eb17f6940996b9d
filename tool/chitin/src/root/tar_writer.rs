//! Tar writer: a root file system as a tar, with owners, modes, links, devices and times.

use std::io::{self, BufWriter, Write};

use tar::{Builder, EntryType, Header};

use crate::archive;
use crate::failure::{Context, Failure, Result};

use super::tree::{Kind, Node, Tree};

impl Tree {
    /// Writes every name. The second and later names of a file are hard links to its first.
    ///
    /// # Errors
    /// When a file cannot be read or the tar cannot be written.
    pub fn write_tar(&self, file: impl Write) -> Result<()> {
        let mut builder = Builder::new(BufWriter::new(file));
        let mut first_names: Vec<Option<&[u8]>> = vec![None; self.files()];
        for (path, node) in self.below(b"") {
            let named = String::from_utf8_lossy(path).into_owned();
            let first = match node.kind {
                Kind::File(file) => {
                    let first = first_names[file];
                    first_names[file] = first.or(Some(path));
                    first
                }
                _ => None,
            };
            self.write_entry(&mut builder, path, node, first).context(named)?;
        }
        builder.into_inner().and_then(|mut inner| inner.flush()).context("cannot write the tar")
    }

    fn write_entry(
        &self,
        builder: &mut Builder<impl Write>,
        path: &[u8],
        node: &Node,
        first: Option<&[u8]>,
    ) -> Result<()> {
        let mut header = header(node)?;
        let writing = "cannot write the tar";
        if let Some(first) = first {
            header.set_entry_type(EntryType::Link);
            return append_link(builder, &mut header, path, first).context(writing);
        }
        match &node.kind {
            Kind::File(file) => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(self.size_of(*file));
                let contents = self.open(*file)?;
                builder.append_data(&mut header, name(path)?, contents).context(writing)
            }
            Kind::SymbolicLink(target) => {
                header.set_entry_type(EntryType::Symlink);
                append_link(builder, &mut header, path, target).context(writing)
            }
            Kind::Directory => {
                header.set_entry_type(EntryType::Directory);
                builder.append_data(&mut header, name(path)?, io::empty()).context(writing)
            }
            Kind::Special { type_bits, device: (major, minor) } => {
                header.set_entry_type(match *type_bits {
                    archive::CHARACTER => EntryType::Char,
                    archive::BLOCK => EntryType::Block,
                    _ => EntryType::Fifo,
                });
                header.set_device_major(*major).and_then(|()| header.set_device_minor(*minor)).context(writing)?;
                builder.append_data(&mut header, name(path)?, io::empty()).context(writing)
            }
        }
    }
}

fn name(path: &[u8]) -> Result<&std::path::Path> {
    use std::os::unix::ffi::OsStrExt;
    match path {
        [] => Err(Failure::new("a file without a name")),
        path => Ok(std::path::Path::new(std::ffi::OsStr::from_bytes(path))),
    }
}

/// Also where the name or the target is longer than a header holds.
fn append_link(builder: &mut Builder<impl Write>, header: &mut Header, path: &[u8], target: &[u8]) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let as_path = |bytes| std::path::Path::new(std::ffi::OsStr::from_bytes(bytes));
    builder.append_link(header, as_path(path), as_path(target))
}

fn header(node: &Node) -> Result<Header> {
    let mut header = Header::new_gnu();
    header.set_mode(node.permissions);
    header.set_uid(u64::from(node.user));
    header.set_gid(u64::from(node.group));
    header.set_mtime(u64::from(node.modified));
    header.set_size(0);
    header.set_device_major(0).and_then(|()| header.set_device_minor(0)).context("header")?;
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::super::tar_file;
    use super::super::tree::Contents;
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut tree = Tree::new();
        let file = tree.add_contents(Contents::Bytes(b"text".to_vec()));
        let long = "n".repeat(180);
        let node = |kind| Node { kind, permissions: 0o4751, user: 5, group: 70_000, modified: 9 };
        for (name, kind) in [
            ("a", Kind::Directory),
            ("a/one", Kind::File(file)),
            (&format!("a/{long}"), Kind::File(file)),
            ("a/link", Kind::SymbolicLink(format!("/{long}").into())),
            ("a/device", Kind::Special { type_bits: archive::CHARACTER, device: (1, 3) }),
            ("a/fifo", Kind::Special { type_bits: 0o010_000, device: (0, 0) }),
        ] {
            tree.insert(name.as_bytes(), node(kind));
        }
        let place = tempfile::tempdir().unwrap();
        let tar = place.path().join("tar");
        tree.write_tar(std::fs::File::create(&tar).unwrap()).unwrap();
        let mut read = Tree::new();
        tar_file::add_to(&mut read, &tar, "it").unwrap();
        let names = |tree: &Tree| tree.below(b"").map(|(path, node)| (path.to_vec(), node.clone())).collect::<Vec<_>>();
        assert_eq!(names(&read), names(&tree));
        let Kind::File(file) = read.get(b"a/one").unwrap().kind else { panic!("no file") };
        assert_eq!(read.read(file, 99).unwrap(), b"text");
    }
}
