//! Configuration of unpacked packages: their maintainer scripts run inside Chitin, and what they changed comes back.
//!
//! The machine writes a tar of the files that changed to its standard output; names that went are listed in it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::build::{self, Images};
use crate::channel::session::{Listener, Session};
use crate::command_record::ProgramCommand;
use crate::failure::{Context, Failure, Result};
use crate::progress::Progress;
use crate::qemu::{Files, Machine, Running, Stop};
use crate::root::{self, Contents, Kind, Node, Tree};
use crate::run;
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;
use crate::{boot_archive, kvm, scratch};

use super::database::Control;

/// How long the scripts of all packages may take.
const LIMIT: Duration = Duration::from_secs(3600);
/// MiB beyond the root: scripts write what they make, and perl and python compile.
const ROOM: u64 = 512;
/// Where the script and its lists stand in the machine.
const PLACE: &str = ".chitin";
/// Names of all files at the end.
const NAMES: &str = ".chitin/names";
/// Configured before all others, which need users and folders of theirs.
const FIRST: [&str; 2] = ["base-passwd", "base-files"];
/// Services are not started by packages here (policy-rc.d(8)).
const POLICY: &str = "usr/sbin/policy-rc.d";

/// Configures the packages and writes what changed. Their `preinst` scripts run first. A package of the root below may
/// watch paths of theirs and is told of them: dpkg does so where it unpacks, and here it did not.
const SCRIPT: &str = r#"#!/bin/sh
exec 3>&1 >&2 < /dev/null
cd /
touch .chitin/stamp; sleep 1
while read -r name; do
    echo "preinst $name"
    DPKG_MAINTSCRIPT_NAME=preinst DPKG_MAINTSCRIPT_PACKAGE=${name%:*} DPKG_MAINTSCRIPT_PACKAGE_REFCOUNT=1 \
        DPKG_MAINTSCRIPT_ARCH=amd64 DPKG_ADMINDIR=/var/lib/dpkg DPKG_ROOT= "/var/lib/dpkg/info/$name.preinst" install ||
        echo "chitin: the preinst script of $name failed (status $?)"
done < .chitin/preinst
if [ -s .chitin/first ]; then dpkg --force-depends --configure $(cat .chitin/first); fi
cut -d ' ' -f 1 var/lib/dpkg/triggers/File 2> .chitin/none | while read -r path; do
    if grep -qsF "$path/" $(cat .chitin/lists); then dpkg-trigger --no-await --by-package=dpkg "$path"; fi
done
dpkg --configure --pending --abort-after=1
status=$?
rm -f usr/sbin/policy-rc.d
find . -xdev ! -path './proc/*' ! -path './sys/*' ! -path './dev/*' > .chitin/names
find . -xdev -cnewer .chitin/stamp ! -type s ! -path './proc*' ! -path './sys*' ! -path './dev*' ! -path './.chitin/stamp' > .chitin/changed
tar --no-recursion --numeric-owner -b 128 -c -T .chitin/changed .chitin/names >&3
exit $status
"#;

/// Runs the scripts of `packages` on `tree` and changes it as they did.
///
/// # Errors
/// When a script fails, with its name, or the machine does.
pub fn run(workspace: &Workspace, tree: &mut Tree, packages: &[Control], changes: &Path) -> Result<()> {
    let mut progress = Progress::step("configuring the packages");
    progress.busy_with(&format!("({} scripts)", packages.iter().filter(|package| package.has("postinst")).count()));
    let line = |package: &Control| package.name.clone() + "\n";
    let scripts: String = packages.iter().filter(|package| package.has("preinst")).map(line).collect();
    let first: String = packages.iter().filter(|package| FIRST.contains(&package.name.as_str())).map(line).collect();
    let list = |package: &Control| format!("var/lib/dpkg/info/{}.list\n", package.name);
    let lists: String = packages.iter().map(list).collect();
    let mut inside = tree.clone();
    // Scripts ask for the name of the machine, postfix's for a whole one. The root gets these files where it is run.
    root::add_names(&mut inside);
    for (name, text, mode) in [
        (format!("{PLACE}/configure"), SCRIPT, 0o755),
        (format!("{PLACE}/preinst"), scripts.as_str(), 0o644),
        (format!("{PLACE}/first"), first.as_str(), 0o644),
        (format!("{PLACE}/lists"), lists.as_str(), 0o644),
        (POLICY.to_owned(), "#!/bin/sh\nexit 101\n", 0o755),
    ] {
        let file = inside.add_contents(Contents::Bytes(text.into()));
        inside.insert(name.as_bytes(), Node::of_root(Kind::File(file), mode));
    }
    let mut listener =
        Said { tar: File::create(changes).context(changes.display())?, said: String::new(), error: None };
    let status = boot(workspace, &inside, &mut listener)?;
    if let Some(error) = listener.error {
        return Err(Failure::new(format!("{}: {error}", changes.display())));
    }
    if status != 0 || listener.said.contains(PREINST) {
        return Err(Failure::new(what_failed(&listener.said)));
    }
    apply(tree, changes)
}

const PREINST: &str = "chitin: the preinst script of ";

/// The script that failed, and its last word.
fn what_failed(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    if let Some(line) = lines.iter().find(|line| line.starts_with(PREINST)) {
        return line.trim_start_matches("chitin: ").to_owned();
    }
    let at = lines.iter().position(|line| line.starts_with("dpkg: error processing package "));
    let Some(at) = at else {
        let last = lines.iter().rev().find(|line| !line.trim().is_empty()).copied().unwrap_or("it says nothing");
        return format!("the packages cannot be configured: {last}");
    };
    let name = lines[at].split(' ').nth(4).unwrap_or_default();
    let why = lines.get(at + 1).copied().unwrap_or_default().trim();
    let before = lines[..at].iter().rev().find(|line| !line.trim().is_empty()).copied().unwrap_or_default();
    format!("the package {name} cannot be configured: {why} (before that: {before})")
}

fn boot(workspace: &Workspace, tree: &Tree, listener: &mut Said) -> Result<u8> {
    let images = Images::build(Toolchain::detect(), workspace, build::EXOS)?;
    let accelerator = kvm::choose(crate::qemu::AcceleratorChoice::default(), &workspace.cache(), &images)?;
    let environment = [&format!("PATH={}", run::SEARCH), "HOME=/root", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"];
    let command = ProgramCommand {
        arguments: vec![format!("/{PLACE}/configure")],
        environment: environment.map(str::to_owned).to_vec(),
        working_directory: "/".into(),
        ..ProgramCommand::default()
    };
    let place = scratch::folder()?;
    let archive = place.path().join("archive");
    let file = File::create(&archive).context("cannot write the boot archive")?;
    boot_archive::with_exos(file, &images, tree, &command)?;
    let memory = tree.size().div_ceil(1 << 20) * 3 / 2 + ROOM;
    let machine = Machine { memory, accelerator, ..Machine::default() };
    let (mut running, stream) = Running::start(&machine, &Files { kernel: images.kernel, archive })?;
    let session = Session::new(stream).context("host channel")?;
    let end = session.serve(listener, Some(Instant::now() + LIMIT));
    let stop = if end.is_over() { running.stop()? } else { Stop::Killed };
    match (end.record, &stop) {
        (Some(record), Stop::InOrder) => Ok(record.status()),
        _ => Err(Failure::new(run::what_failed(&end, &stop, &running.serial()))),
    }
}

/// Adds what changed, and removes what went.
fn apply(tree: &mut Tree, changes: &Path) -> Result<()> {
    root::add_tar(tree, changes, "the configured root")?;
    let Some(Kind::File(names)) = tree.get(NAMES.as_bytes()).map(|node| node.kind.clone()) else {
        return Err(Failure::new("the machine did not list the files of the configured root"));
    };
    let names = tree.read(names, u64::MAX)?;
    let kept: BTreeSet<&[u8]> =
        names.split(|byte| *byte == b'\n').map(|name| name.strip_prefix(b"./").unwrap_or(name)).collect();
    let gone: Vec<Vec<u8>> =
        tree.below(b"").map(|(path, _)| path.to_vec()).filter(|path| !kept.contains(&path[..])).collect();
    let is_real = |path: &[u8]| !["proc", "sys", "dev"].iter().any(|folder| path.starts_with(folder.as_bytes()));
    gone.iter().filter(|path| is_real(path)).for_each(|path| tree.remove(path));
    tree.remove(PLACE.as_bytes());
    Ok(())
}

/// What the machine says: the tar, and the words of the scripts.
struct Said {
    tar: File,
    said: String,
    error: Option<std::io::Error>,
}

impl Listener for Said {
    fn output(&mut self, bytes: &[u8]) {
        if let Err(error) = self.tar.write_all(bytes) {
            self.error.get_or_insert(error);
        }
    }

    fn error(&mut self, bytes: &[u8]) {
        self.said.push_str(&String::from_utf8_lossy(bytes));
    }

    fn log(&mut self, _line: &str) {}

    fn test_result(&mut self, _passed: bool, _name: &str, _detail: &str) {}

    fn measurement(&mut self, _name: &str, _value: &str, _unit: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_fails_is_named() {
        let said = "Setting up a (1) ...\nno such user\ndpkg: error processing package a (--configure):\n installed a package \
                    post-installation script subprocess returned error exit status 1\nErrors were encountered\n";
        let told = what_failed(said);
        assert!(
            told.starts_with("the package a cannot be configured: installed a package post-installation script"),
            "{told}"
        );
        assert!(told.contains("no such user"), "{told}");
        let said = "preinst b\nchitin: the preinst script of b failed (status 3)\n";
        assert_eq!(what_failed(said), "the preinst script of b failed (status 3)");
        assert!(what_failed("").contains("it says nothing"));
    }
}
