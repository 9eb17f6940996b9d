//! Copies a shared folder back to the host: what changed in the machine, unless the host's own file changed meanwhile.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use crate::failure::{Context, Failure, Result};
use crate::root::{Kind, Node, Tree};

use super::share::Share;

/// A piece of zeros of this length becomes a hole.
const PIECE: usize = 4096;
/// What is put behind the name of a file of the machine, where the host's own is kept.
const BESIDE: &str = ".from-chitin";

/// Brings the host's folder to what `after` has. The answer is a line for each name.
///
/// # Errors
/// When a file cannot be written.
pub fn apply(share: &Share, before: &Tree, after: &Tree) -> Result<Vec<String>> {
    let guest = share.guest.trim_start_matches('/').as_bytes();
    let host = crate::root::load_folder(&share.host)?;
    let mut report = Vec::new();
    if after.get(guest).is_none() {
        return Err(Failure::new(format!(
            "{} is gone in the machine: {} is as before",
            share.guest,
            share.host.display()
        )));
    }
    for (path, node) in after.below(guest) {
        let name = &path[guest.len() + 1..];
        if is_same(before, before.get(name), after, Some(node)) {
            continue;
        }
        let place = inside(&share.host, name)?;
        let is_kept = !is_same(before, before.get(name), &host, host.get(name)) && node.kind != Kind::Directory;
        let target = if is_kept { beside(&place) } else { place.clone() };
        write(after, node, &target).context(target.display())?;
        report.push(match is_kept {
            true => format!("{} changed on both sides: kept, the machine's is {}", place.display(), target.display()),
            false => format!("changed {}", place.display()),
        });
    }
    let gone: Vec<&[u8]> = before.below(b"").map(|(path, _)| path).collect();
    for name in gone.into_iter().rev().filter(|name| after.get(&[guest, b"/", name].concat()).is_none()) {
        let place = inside(&share.host, name)?;
        let is_own = is_same(before, before.get(name), &host, host.get(name));
        let removed = match before.get(name).map(|node| &node.kind) {
            Some(Kind::Directory) => fs::remove_dir(&place),
            _ if is_own => fs::remove_file(&place),
            _ => continue,
        };
        report.push(match removed {
            Ok(()) => format!("removed {}", place.display()),
            Err(error) => format!("{} is kept: {error}", place.display()),
        });
    }
    Ok(report)
}

/// Whether two trees have the same under a name: kind, mode, time and contents.
fn is_same(left: &Tree, one: Option<&Node>, right: &Tree, other: Option<&Node>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => match (&one.kind, &other.kind) {
            (Kind::File(first), Kind::File(second)) => {
                one.permissions == other.permissions
                    && left.size_of(*first) == right.size_of(*second)
                    && left.read(*first, u64::MAX).ok() == right.read(*second, u64::MAX).ok()
            }
            (Kind::Directory, Kind::Directory) => one.permissions == other.permissions,
            (first, second) => first == second,
        },
        _ => false,
    }
}

/// The path of a name on the host: none of the folders above it is a link that would lead elsewhere.
fn inside(host: &Path, name: &[u8]) -> Result<PathBuf> {
    let place = host.join(Path::new(std::ffi::OsStr::from_bytes(name)));
    let mut folder = place.parent();
    while let Some(above) = folder.filter(|above| *above != host) {
        if fs::symlink_metadata(above).is_ok_and(|metadata| !metadata.is_dir()) {
            return Err(Failure::new(format!(
                "{}: is no directory any more, nothing below it is written",
                above.display()
            )));
        }
        folder = above.parent();
    }
    Ok(place)
}

fn beside(place: &Path) -> PathBuf {
    let mut name = place.file_name().unwrap_or_default().to_owned();
    name.push(BESIDE);
    place.with_file_name(name)
}

fn write(tree: &Tree, node: &Node, place: &Path) -> Result<()> {
    let mode = fs::Permissions::from_mode(node.permissions);
    match &node.kind {
        Kind::Directory => {
            if !place.is_dir() {
                fs::create_dir_all(place).context("cannot be made")?;
            }
            fs::set_permissions(place, mode).context("mode")
        }
        Kind::SymbolicLink(target) => {
            let _ = fs::remove_file(place);
            symlink(std::ffi::OsStr::from_bytes(target), place).context("cannot be linked")
        }
        Kind::File(file) => {
            let folder = place.parent().unwrap_or(Path::new("."));
            let mut fresh = tempfile::NamedTempFile::new_in(folder).context("cannot be written")?;
            write_with_holes(fresh.as_file_mut(), &tree.read(*file, u64::MAX)?).context("cannot be written")?;
            fresh.as_file().set_permissions(mode).context("mode")?;
            let time = UNIX_EPOCH + Duration::from_secs(u64::from(node.modified));
            fresh.as_file().set_modified(time).context("time")?;
            fresh.persist(place).map(drop).context("cannot be written")
        }
        Kind::Special { .. } => Ok(()),
    }
}

fn write_with_holes(file: &mut File, bytes: &[u8]) -> std::io::Result<()> {
    for piece in bytes.chunks(PIECE) {
        if piece.len() == PIECE && piece.iter().all(|byte| *byte == 0) {
            file.seek(SeekFrom::Current(i64::try_from(PIECE).unwrap_or(0)))?;
        } else {
            file.write_all(piece)?;
        }
    }
    file.set_len(bytes.len() as u64)
}

/// Decodes base64 (RFC 4648); line ends are passed over.
///
/// # Errors
/// When it is cut off or holds anything else.
pub fn from_base64(text: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.iter().filter(|byte| !byte.is_ascii_whitespace()) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            _ => {
                return Err(Failure::new(
                    "another program wrote into the copy of the shared folders: they are as before",
                ));
            }
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count).to_le_bytes()[0]);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Contents;
    use std::os::unix::fs::MetadataExt;

    fn tree(folder: &str, files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::new();
        if !folder.is_empty() {
            tree.insert(folder.as_bytes(), Node::of_root(Kind::Directory, 0o755));
        }
        for (name, text) in files {
            let file = tree.add_contents(Contents::Bytes((*text).into()));
            let name = if folder.is_empty() { (*name).to_owned() } else { format!("{folder}/{name}") };
            tree.insert(name.as_bytes(), Node::of_root(Kind::File(file), 0o644));
        }
        tree
    }

    #[test]
    fn what_changed_comes_back_and_what_the_host_changed_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, text) in [("same", "1"), ("changed", "2"), ("both", "mine"), ("removed", "4")] {
            fs::write(at(name), text).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o644)).unwrap();
        }
        let before = tree("", &[("same", "1"), ("changed", "2"), ("both", "3"), ("removed", "4")]);
        let after = tree("b", &[("same", "1"), ("changed", "22"), ("both", "33"), ("new", "5")]);
        let share = Share { host: folder.path().into(), guest: "/b".into(), is_read_only: false };
        let report = apply(&share, &before, &after).unwrap().join("\n");
        let text = |name: &str| fs::read_to_string(at(name)).ok();
        let found = ["same", "changed", "both", "both.from-chitin", "new", "removed"].map(text);
        let expected = [Some("1"), Some("22"), Some("mine"), Some("33"), Some("5"), None];
        assert_eq!(found, expected.map(|text| text.map(str::to_owned)));
        assert!(report.contains("both changed on both sides") && report.contains("removed"), "{report}");
        assert_eq!(report.lines().count(), 4, "{report}");
    }

    #[test]
    fn nothing_is_written_through_a_link_of_the_host() {
        let folder = tempfile::tempdir().unwrap();
        symlink("/tmp", folder.path().join("a")).unwrap();
        assert!(inside(folder.path(), b"a/b").is_err());
        assert!(inside(folder.path(), b"b/c").is_ok());
    }

    #[test]
    fn holes_stay_holes_and_base64_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = File::create(folder.path().join("file")).unwrap();
        let bytes = [vec![0; 1 << 20], vec![7; 10]].concat();
        write_with_holes(&mut file, &bytes).unwrap();
        assert_eq!(fs::read(folder.path().join("file")).unwrap(), bytes);
        assert!(file.metadata().unwrap().blocks() * 512 < 1 << 19);
        assert_eq!(from_base64(b"YWJj\r\nZGU=\n").unwrap(), b"abcde");
        assert!(from_base64(b"YW!j").is_err());
    }
}
