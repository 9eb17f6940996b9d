//! Blob store of an image: the files of an OCI layout or of `docker save`, in a directory or in a tar.
//!
//! Invariants: a name from an image's own records is only looked up below the directory or among the tar's entries.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use tar::{Archive, EntryType};

use crate::failure::{Context, Failure, Result};

/// Bytes of a record (an index, a manifest, a configuration) at most.
const RECORD: u64 = 8 << 20;
/// Links that are followed at most, one behind the other.
const LINKS: usize = 8;

/// So many bytes of a file of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    pub file: PathBuf,
    pub offset: u64,
    pub size: u64,
}

impl Blob {
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(&self) -> Result<impl Read + use<>> {
        let mut file = File::open(&self.file).context(self.file.display())?;
        file.seek(SeekFrom::Start(self.offset)).context(self.file.display())?;
        Ok(file.take(self.size))
    }
}

#[derive(Debug)]
pub enum Store {
    Folder(PathBuf),
    Tar(BTreeMap<String, TarEntry>),
}

/// What a tar has under a name.
#[derive(Debug)]
pub enum TarEntry {
    File(Blob),
    /// The name that it is a link to.
    Link(String),
}

impl Store {
    /// The files in a tar, by their names. Contents are not read.
    ///
    /// # Errors
    /// When it cannot be opened. A tar that is damaged further on ends there.
    pub fn of_tar(file: &Path) -> Result<Self> {
        let mut entries = BTreeMap::new();
        let mut archive = Archive::new(File::open(file).context(file.display())?);
        for entry in archive.entries_with_seek().context(file.display())? {
            let Ok(entry) = entry else { break };
            let name = normal(&String::from_utf8_lossy(&entry.path_bytes()));
            let target = || entry.link_name_bytes().map(|target| String::from_utf8_lossy(&target).into_owned());
            let found = match entry.header().entry_type() {
                EntryType::Regular | EntryType::Continuous => {
                    let (offset, size) = (entry.raw_file_position(), entry.size());
                    TarEntry::File(Blob { file: file.to_owned(), offset, size })
                }
                EntryType::Link => TarEntry::Link(normal(&target().unwrap_or_default())),
                EntryType::Symlink => {
                    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
                    TarEntry::Link(normal(&format!("{folder}/{}", target().unwrap_or_default())))
                }
                _ => continue,
            };
            entries.insert(name, found);
        }
        Ok(Self::Tar(entries))
    }

    /// The file of this name, if it is there.
    pub fn get(&self, name: &str) -> Option<Blob> {
        match self {
            Self::Folder(folder) => {
                let is_inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
                let file = folder.join(name);
                let metadata = file.metadata().ok().filter(|metadata| is_inside && metadata.is_file())?;
                Some(Blob { file, offset: 0, size: metadata.len() })
            }
            Self::Tar(entries) => {
                let mut name = normal(name);
                for _ in 0..LINKS {
                    match entries.get(&name)? {
                        TarEntry::File(blob) => return Some(blob.clone()),
                        TarEntry::Link(target) => name.clone_from(target),
                    }
                }
                None
            }
        }
    }

    /// The whole of a small file.
    ///
    /// # Errors
    /// When it is missing, too large for a record, or cannot be read.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let blob = self.get(name).ok_or_else(|| Failure::new(format!("{name} is missing")))?;
        if blob.size > RECORD {
            return Err(Failure::new(format!("{name} is {} bytes, more than any image record has", blob.size)));
        }
        let mut bytes = Vec::new();
        blob.open()?.read_to_end(&mut bytes).context(name)?;
        Ok(bytes)
    }
}

/// A path without `.` and empty parts; `..` takes back a part and never leads above the top.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_never_lead_out() {
        assert_eq!(normal("./a//b/../c"), "a/c");
        assert_eq!(normal("../../etc/passwd"), "etc/passwd");
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        std::fs::write(folder.path().join("secret"), "x").unwrap();
        let store = Store::Folder(folder.path().join("in"));
        assert_eq!(store.get("../secret"), None);
        assert_eq!(store.get("/etc/passwd"), None);
    }
}
