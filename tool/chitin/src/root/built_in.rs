//! The small root file system that is there when none is given. It is Debian's own busybox, taken from its package
//! without installing it, with a name for each of its applets and the few files that programs expect.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Context, Failure, Result};
use crate::progress::Progress;
use crate::scratch;

use super::debian::RETRIES;
use super::tree::{Contents, Kind, Node, Tree};

const PACKAGE: &str = "busybox-static";
/// Where the package has its program.
const PACKAGED: &str = "bin/busybox";
/// Where the program stands here: /bin and /sbin are links into /usr, as in Debian.
const PROGRAM: &str = "usr/bin/busybox";
const MERGED: [(&str, &str); 2] = [("bin", "usr/bin"), ("sbin", "usr/sbin")];
/// Folders other than those of the applets.
const FOLDERS: [(&str, u32); 11] = [
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("mnt", 0o755),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("var", 0o755),
    ("var/tmp", 0o1777),
];
const FILES: [(&str, &str); 3] = [
    ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"),
    ("etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"),
    ("etc/profile", "PS1='\\w \\$ '\nexport PS1\n"),
];

/// The tree, from the package in `cache`, which is fetched when it is missing.
///
/// # Errors
/// When the package cannot be fetched or is not what it should be.
pub fn load(cache: &Path) -> Result<Tree> {
    let busybox = fetched(cache)?;
    let mut tree = Tree::new();
    for (name, permissions) in FOLDERS {
        tree.insert(name.as_bytes(), Node::of_root(Kind::Directory, permissions));
    }
    for (name, contents) in FILES {
        let file = tree.add_contents(Contents::Bytes(contents.into()));
        tree.insert(name.as_bytes(), Node::of_root(Kind::File(file), 0o644));
    }
    let size = busybox.metadata().context(busybox.display())?.len();
    let file = tree.add_contents(Contents::Part { file: busybox.clone(), offset: 0, size });
    for (folder, place) in MERGED {
        tree.insert(folder.as_bytes(), Node::of_root(Kind::SymbolicLink(place.into()), 0o777));
    }
    for applet in applets(&busybox)? {
        let link = Kind::SymbolicLink(format!("/{PROGRAM}").into());
        tree.insert(merged(&applet).as_bytes(), Node::of_root(link, 0o777));
    }
    tree.insert(PROGRAM.as_bytes(), Node::of_root(Kind::File(file), 0o755));
    Ok(tree)
}

/// Where a file of /bin or /sbin really stands.
fn merged(path: &str) -> String {
    let folder = path.split('/').next().unwrap_or_default();
    if MERGED.iter().any(|(merged, _)| *merged == folder) { format!("usr/{path}") } else { path.to_owned() }
}

/// Where busybox installs its applets, as it says itself.
fn applets(busybox: &Path) -> Result<Vec<String>> {
    let said = Command::new(busybox).arg("--list-full").output().map(|output| output.stdout).unwrap_or_default();
    let names: Vec<String> = String::from_utf8_lossy(&said).lines().map(str::to_owned).collect();
    if names.iter().any(|name| name == "bin/sh") {
        Ok(names)
    } else {
        Err(Failure::new(format!("{} is damaged: delete it and try again", busybox.display())))
    }
}

/// The program of the package, fetched once.
///
/// # Errors
/// When it cannot be fetched.
pub fn fetched(cache: &Path) -> Result<PathBuf> {
    let folder = cache.join(PACKAGE);
    let busybox = folder.join(PACKAGED);
    if busybox.is_file() {
        return Ok(busybox);
    }
    fs::create_dir_all(cache).context(cache.display())?;
    let mut progress = Progress::step("fetching Debian's busybox for the built-in root file system");
    progress.busy_with(PACKAGE);
    let work = scratch::folder_in(cache)?;
    download(work.path())?;
    let unpacked = work.path().join("unpacked");
    unpack(work.path(), &unpacked)?;
    match fs::rename(&unpacked, &folder) {
        // Another run may have been quicker: its files are the same.
        Err(_) if busybox.is_file() => Ok(busybox),
        result => result.context(folder.display()).map(|()| busybox),
    }
}

fn download(folder: &Path) -> Result<()> {
    let mut apt = Command::new("apt-get");
    apt.args(["--quiet", "-o", RETRIES, "download", PACKAGE]).current_dir(folder);
    let output = apt.output().context("cannot start apt-get, which fetches busybox for the built-in root")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = said.lines().find(|line| line.starts_with("E:")).unwrap_or("apt-get download failed");
    Err(Failure::new(format!(
        "cannot fetch {PACKAGE} ({reason}): is the network up? (apt-get update renews old lists, --root names another root)"
    )))
}

fn unpack(folder: &Path, into: &Path) -> Result<()> {
    let mut entries = fs::read_dir(folder).context(folder.display())?.flatten();
    let package = entries
        .find(|entry| entry.path().extension().is_some_and(|ending| ending == "deb"))
        .ok_or_else(|| Failure::new(format!("apt-get brought no {PACKAGE}")))?;
    let output = Command::new("dpkg").arg("-x").arg(package.path()).arg(into).output().context("cannot start dpkg")?;
    if output.status.success() && into.join(PACKAGED).is_file() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
    Err(Failure::new(format!("cannot unpack {PACKAGE}: {said}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applets_of_the_root_stand_in_usr() {
        assert_eq!(merged("bin/sh"), "usr/bin/sh");
        assert_eq!(merged("sbin/init"), "usr/sbin/init");
        assert_eq!(merged("usr/bin/sort"), "usr/bin/sort");
        assert_eq!(merged("linuxrc"), "linuxrc");
    }
}
