//! Tar reader: a root file system from a tar, or a layer of an image on top of the layers below. Only the headers are
//! read here; the contents are found again by their offsets.
//!
//! Invariants: a name never leads out of the root; a whiteout removes names of the layers below, never of its own.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use tar::{Archive, Entry, EntryType};

use crate::failure::{Context, Failure, Result};

use super::tree::{Contents, Kind, Node, Tree};

/// How the names of whiteouts begin (OCI image specification, layer).
const WHITEOUT: &[u8] = b".wh.";
/// A whiteout of all that the layers below have in its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Bytes of one file at most: what the boot archive can hold.
const LARGEST: u64 = u32::MAX as u64;

/// Adds the tar at `path` to `tree`; `what` names it in error lines. The answer is how many entries it has.
///
/// # Errors
/// When it is no tar, is damaged, or has names that lead out of the root.
pub fn add_to(tree: &mut Tree, path: &Path, what: &str) -> Result<usize> {
    let mut found = 0;
    for_each(path, what, |entry| {
        found += 1;
        add(tree, entry, path)
    })?;
    Ok(found)
}

/// Adds the files of a Debian package, as dpkg unpacks them: a folder is no reason to replace a link to a folder.
///
/// # Errors
/// As for [`add_to`].
pub fn add_package(tree: &mut Tree, path: &Path, what: &str) -> Result<()> {
    for_each(path, what, |entry| {
        let name = inside(&entry.path_bytes())?;
        let is_folder = entry.header().entry_type() == EntryType::Directory;
        match tree.follow(&name) {
            Some((place, node)) if is_folder && node.kind == Kind::Directory && place != name => Ok(()),
            _ => add(tree, entry, path),
        }
    })
}

/// Adds a layer to the tree of the layers below it.
///
/// # Errors
/// As for [`add_to`].
pub fn add_layer(tree: &mut Tree, path: &Path, what: &str) -> Result<()> {
    for_each(path, what, |entry| white_out(tree, &inside(&entry.path_bytes())?))?;
    for_each(path, what, |entry| match whiteout(&entry.path_bytes()) {
        Some(_) => Ok(()),
        None => add(tree, entry, path),
    })
}

/// The names in a tar as dpkg lists them: a line each, `/.` for the root.
///
/// # Errors
/// When it is no tar or is damaged.
pub fn names(path: &Path, what: &str) -> Result<String> {
    let mut names = String::new();
    for_each(path, what, |entry| {
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = name.trim_start_matches('.').trim_end_matches('/');
        names.push_str(if name.is_empty() { "/." } else { name });
        names.push('\n');
        Ok(())
    })?;
    Ok(names)
}

fn for_each(path: &Path, what: &str, mut body: impl FnMut(&mut Entry<'_, File>) -> Result<()>) -> Result<()> {
    let file = File::open(path).context(what)?;
    let length = file.metadata().context(what)?.len();
    let mut archive = Archive::new(file);
    let mut found = 0;
    for entry in archive.entries_with_seek().context(what)? {
        let mut entry = entry.map_err(|error| unreadable(what, found, &error))?;
        let stored = if entry.header().entry_type().is_gnu_sparse() { 0 } else { entry.size() };
        found += 1;
        if entry.raw_file_position().checked_add(stored).is_none_or(|end| end > length) {
            return Err(unreadable(what, found, &std::io::ErrorKind::UnexpectedEof.into()));
        }
        let named = format!("{what}: {}", shown(&entry.path_bytes()));
        body(&mut entry).context(named)?;
    }
    Ok(())
}

/// What the last part of a name is a whiteout of.
fn whiteout(path: &[u8]) -> Option<&[u8]> {
    let name = path.rsplit(|byte| *byte == b'/').find(|part| !part.is_empty())?;
    name.strip_prefix(WHITEOUT)
}

fn white_out(tree: &mut Tree, path: &[u8]) -> Result<()> {
    let Some(hidden) = whiteout(path) else { return Ok(()) };
    let name = path.len() - WHITEOUT.len() - hidden.len();
    let folder = tree.follow(path[..name].trim_ascii_end()).map(|(place, _)| place);
    let Some(folder) = folder else { return Ok(()) };
    if path[name..] == *OPAQUE {
        tree.clear(&folder);
    } else if hidden.is_empty() || hidden == b"." || hidden == b".." {
        return Err(Failure::new("a whiteout of no name"));
    } else if !hidden.starts_with(WHITEOUT) {
        tree.remove(&super::resolve::join(&folder, hidden));
    }
    Ok(())
}

/// What is wrong with a tar after so many entries. The reason may quote what stands there, which can be anything.
fn unreadable(what: &str, found: usize, error: &std::io::Error) -> Failure {
    match found {
        0 => Failure::new(format!("{what}: not a directory, nor a tar that can be read")),
        _ => {
            let reason = shown(error.to_string().as_bytes());
            Failure::new(format!("{what}: the tar is damaged or cut off behind its entry {found}: {reason}"))
        }
    }
}

/// A name or a reason as an error line can hold it.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|shown| !shown.is_control()).take(80).collect()
}

fn add(tree: &mut Tree, entry: &mut Entry<'_, impl Read>, tar: &Path) -> Result<()> {
    refuse_pax_sparse(entry)?;
    let path = tree.place_of(&inside(&entry.path_bytes())?);
    if path.is_empty() && entry.header().entry_type() != EntryType::Directory {
        return Ok(());
    }
    let Some(kind) = kind(tree, entry, tar)? else { return Ok(()) };
    let header = entry.header();
    let node = Node {
        kind,
        permissions: header.mode().context("mode")? & 0o7777,
        user: u32::try_from(header.uid().context("owner")?).context("owner")?,
        group: u32::try_from(header.gid().context("group")?).context("group")?,
        modified: u32::try_from(header.mtime().context("time")?).unwrap_or(u32::MAX),
    };
    tree.insert(&path, node);
    Ok(())
}

/// What an entry is; `None` for what is only of interest to tar.
fn kind(tree: &mut Tree, entry: &mut Entry<'_, impl Read>, tar: &Path) -> Result<Option<Kind>> {
    let kind = match entry.header().entry_type() {
        EntryType::Directory => Kind::Directory,
        EntryType::Symlink => Kind::SymbolicLink(target(entry)?),
        EntryType::Link => {
            let target = tree.place_of(&inside(&target(entry)?)?);
            match tree.get(&target) {
                Some(node) => node.kind.clone(),
                None => return Err(Failure::new(format!("a hard link to {}, which is not there", shown(&target)))),
            }
        }
        EntryType::Regular | EntryType::Continuous if entry.size() > LARGEST => {
            return Err(Failure::new(format!("{} MiB of one file: at most 4095 fit", entry.size() >> 20)));
        }
        EntryType::Regular | EntryType::Continuous => {
            let (offset, size) = (entry.raw_file_position(), entry.size());
            Kind::File(tree.add_contents(Contents::Part { file: tar.to_owned(), offset, size }))
        }
        EntryType::GNUSparse => {
            if entry.size() > LARGEST {
                return Err(Failure::new(format!("{} MiB of one file: at most 4095 fit", entry.size() >> 20)));
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).context("a sparse file")?;
            Kind::File(tree.add_contents(Contents::Bytes(bytes)))
        }
        EntryType::Char => special(entry, 0o020_000)?,
        EntryType::Block => special(entry, 0o060_000)?,
        EntryType::Fifo => special(entry, 0o010_000)?,
        _ => return Ok(None),
    };
    Ok(Some(kind))
}

/// The tar crate reads GNU's sparse files, not those of pax.
fn refuse_pax_sparse(entry: &mut Entry<'_, impl Read>) -> Result<()> {
    let records = entry.pax_extensions().context("its pax records")?;
    let is_sparse = |key: &[u8]| key.starts_with(b"GNU.sparse.");
    if records.into_iter().flatten().flatten().any(|record| is_sparse(record.key_bytes())) {
        return Err(Failure::new("a sparse file in pax form: make the tar with --format=gnu"));
    }
    Ok(())
}

fn target(entry: &Entry<'_, impl Read>) -> Result<Vec<u8>> {
    let target = entry.link_name_bytes().ok_or_else(|| Failure::new("a link without a target"))?;
    Ok(target.into_owned())
}

fn special(entry: &Entry<'_, impl Read>, type_bits: u32) -> Result<Kind> {
    let number = |number: std::io::Result<Option<u32>>| number.ok().flatten().unwrap_or(0);
    let header = entry.header();
    let device = (number(header.device_major()), number(header.device_minor()));
    Ok(Kind::Special { type_bits, device })
}

/// A name without its leading `/` or `./`, refused where it climbs.
fn inside(name: &[u8]) -> Result<Vec<u8>> {
    let parts: Vec<&[u8]> = name.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
    if parts.contains(&&b".."[..]) {
        let shown = String::from_utf8_lossy(name).into_owned();
        return Err(Failure::new(format!("the name {shown} leads out of the root")));
    }
    Ok(parts.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn load(path: &Path) -> Result<Tree> {
        let mut tree = Tree::new();
        match add_to(&mut tree, path, "it")? {
            0 => Err(Failure::new("the tar is empty")),
            _ => Ok(tree),
        }
    }

    /// A tar of everything in `folder`, made by the host's own tar.
    fn tar_of(folder: &Path, arguments: &[&str]) -> std::path::PathBuf {
        let tar = folder.with_extension("tar");
        let mut command = Command::new("tar");
        command.arg("-cf").arg(&tar).args(arguments).arg("-C").arg(folder).arg(".");
        assert!(command.status().unwrap().success());
        tar
    }

    #[test]
    fn a_tar_gives_the_same_tree_as_its_directory() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("root");
        let long = "n".repeat(150);
        std::fs::create_dir_all(folder.join("a").join(&long)).unwrap();
        std::fs::write(folder.join("a/file"), "contents").unwrap();
        std::fs::hard_link(folder.join("a/file"), folder.join("a/z")).unwrap();
        std::os::unix::fs::symlink("file", folder.join("a/link")).unwrap();
        for format in ["--format=gnu", "--format=pax"] {
            let tree = load(&tar_of(&folder, &[format, "--sort=name"])).unwrap();
            let expected = super::super::directory::load(&folder).unwrap();
            for name in ["a", &format!("a/{long}"), "a/file", "a/link", "a/z"] {
                assert_eq!(tree.get(name.as_bytes()), expected.get(name.as_bytes()), "{name}");
            }
            let Kind::File(file) = tree.get(b"a/z").unwrap().kind else { panic!("no file") };
            assert_eq!(tree.read(file, u64::MAX).unwrap(), b"contents");
        }
    }

    #[test]
    fn what_is_no_tar_is_refused_with_the_reason() {
        let place = tempfile::tempdir().unwrap();
        let complaint = |contents: &[u8]| {
            let file = place.path().join("file.tar");
            std::fs::write(&file, contents).unwrap();
            load(&file).unwrap_err().to_string()
        };
        assert!(complaint(&[b'x'; 2048]).contains("nor a tar that can be read"));
        assert!(complaint(&[0; 10240]).contains("empty"));
        let binary: Vec<u8> = (0..4096_u32).map(|index| ((index * 7919) >> 3) as u8).collect();
        assert!(!complaint(&binary).contains(char::is_control), "{}", complaint(&binary));
        let folder = place.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("file"), [7; 4000]).unwrap();
        let tar = std::fs::read(tar_of(&folder, &[])).unwrap();
        // A header of the folder, one of the file, and its contents.
        for length in (1..2 * 512 + 4000).step_by(97).filter(|length| length % 512 != 0) {
            assert!(complaint(&tar[..length]).contains("tar"), "cut off after {length}");
        }
    }

    #[test]
    fn names_stay_inside_the_root() {
        assert_eq!(inside(b"./a//b/").unwrap(), b"a/b");
        assert_eq!(inside(b"/etc/passwd").unwrap(), b"etc/passwd");
        assert!(inside(b"a/../../etc").is_err());
    }
}
