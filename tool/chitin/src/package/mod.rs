//! Roots of Debian packages: `./chitin root PACKAGE…` and `./chitin run --packages`.
//!
//! Packages are resolved and fetched by apt-get, unpacked as layers of one tree, and configured by their own scripts
//! inside Chitin. Nothing is installed on the host, and no rights are needed. A root is cached by the versions in it,
//! and so is the root of the packages that every system has, which the others begin with.

mod apt;
mod configure;
mod database;
mod lock;

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;

use crate::failure::{Context, Failure, Result};
use crate::progress::Progress;
use crate::root::digest::Digest;
use crate::root::{self, Kind, Node, Root, Tree};
use crate::workspace::Workspace;
use crate::{answer, scratch};

use database::Control;

/// Part of a root's name in the cache: changed where roots are made in another way.
const EDITION: &str = "3";
/// Folders that a package leaves to its installer.
const FOLDERS: [(&str, u32); 4] = [("dev", 0o755), ("proc", 0o555), ("sys", 0o555), ("tmp", 0o1777)];

/// Folders that are links into /usr, as Debian's installer makes them.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Packages of Debian; what they depend on comes along
    #[arg(value_name = "PACKAGE", required_unless_present = "lock")]
    packages: Vec<String>,
    /// Where the root goes: a tar where the name ends in .tar, else a new directory
    #[arg(short, long, value_name = "DIR|FILE.tar")]
    output: PathBuf,
    /// File that names the version of each package: followed where it exists, else written
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
}

/// Makes a root and writes it where it was asked for.
///
/// # Errors
/// When a package cannot be had or configured, or the root cannot be written.
pub fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    let output = &options.output;
    let is_tar = output.extension().is_some_and(|ending| ending == "tar");
    check_output(output, is_tar)?;
    check_lock(options)?;
    let tar = made(workspace, &options.packages, options.lock.as_deref())?;
    if is_tar {
        fs::copy(&tar, output).context(output.display())?;
    } else {
        fs::create_dir_all(output).context(output.display())?;
        let mut command = Command::new("tar");
        command.args(["--numeric-owner", "-xpf"]).arg(&tar).arg("-C").arg(output);
        root::debian::said(&mut command, "-o FILE.tar keeps owners and devices without root's rights")?;
    }
    let size = tar.metadata().context(tar.display())?.len() >> 20;
    answer::print(&format!("{}: {size} MiB; ./chitin run --root {0} -- PROGRAM\n", output.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Fails early, before packages are fetched, where the root cannot go to `output`.
fn check_output(output: &Path, is_tar: bool) -> Result<()> {
    let refuse = |why: &str| Err(Failure::new(format!("--output {}: {why}", output.display())));
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match fs::symlink_metadata(output) {
        Ok(there) if is_tar && there.is_dir() => refuse("is a directory; name a file, or a name without .tar"),
        Ok(there) if !is_tar && there.is_file() => refuse("is a file; name a new directory, or a name with .tar"),
        Ok(_) if !is_tar && fs::read_dir(output).is_ok_and(|mut entries| entries.next().is_some()) => {
            refuse("is there already and not empty")
        }
        Err(_) if is_tar && !folder.is_dir() => refuse("its folder is not there; make it first"),
        Err(error) if error.kind() == ErrorKind::NotADirectory => refuse("its folder is a file"),
        _ => Ok(()),
    }
}

/// Fails where neither the command line nor the lock file names packages.
fn check_lock(options: &Options) -> Result<()> {
    match &options.lock {
        Some(lock) if options.packages.is_empty() && !lock.exists() => {
            Err(Failure::new(format!("--lock {}: no such file; name packages to make it", lock.display())))
        }
        _ => Ok(()),
    }
}

/// The root of these packages, for a run. As long as the host's package lists are the same, a root that was made before
/// is found without asking apt-get.
///
/// # Errors
/// As for [`run`].
pub fn load(workspace: &Workspace, packages: &[String]) -> Result<Root> {
    let request = format!("{EDITION} {packages:?} {:?}", apt::age_of_lists());
    let note = workspace.cache().join("root").join(format!("{}.request", Digest::of(request.as_bytes()).digits()));
    let known = fs::read_to_string(&note).map(PathBuf::from).ok().filter(|tar| tar.is_file());
    let tar = match known {
        Some(tar) => tar,
        None => {
            let tar = made(workspace, packages, None)?;
            fs::write(&note, tar.to_string_lossy().as_bytes()).context(note.display())?;
            tar
        }
    };
    root::load(workspace, "--packages", &tar)
}

/// The tar of a root in the cache, made where it is missing.
fn made(workspace: &Workspace, wanted: &[String], lock: Option<&Path>) -> Result<PathBuf> {
    let cache = workspace.cache();
    let folder = cache.join("package");
    let locked = lock.filter(|lock| lock.exists()).map(lock::read).transpose()?;
    let packages = match &locked {
        Some((packages, _)) => packages.clone(),
        None => apt::resolve(wanted)?,
    };
    let files = apt::fetch(&packages, &folder)?;
    let lines = lock::lines(&packages, &files)?;
    let text = lock::text(&lines);
    match (&locked, lock) {
        (Some((_, expected)), Some(lock)) if *expected != text => {
            return Err(Failure::new(format!(
                "{}: a package is not what it was when this was written",
                lock.display()
            )));
        }
        (None, Some(lock)) => fs::write(lock, &text).context(lock.display())?,
        _ => {}
    }
    let controls = files.into_iter().zip(lines).map(|(file, line)| Control::read(file, line));
    root_of(workspace, controls.collect::<Result<_>>()?)
}

/// The tar of the root of these packages: made where it is missing, upon the root of the base. If another run makes the
/// same one, this one waits for it.
fn root_of(workspace: &Workspace, packages: Vec<Control>) -> Result<PathBuf> {
    let folder = workspace.cache().join("root");
    fs::create_dir_all(&folder).context(folder.display())?;
    let lines: String = packages.iter().map(|package| package.line.as_str()).collect();
    let name = Digest::of(format!("{EDITION}\n{lines}").as_bytes());
    let place = folder.join(format!("{}.tar", name.digits()));
    let _turn = take_turn(&place.with_extension("lock"))?;
    if !place.is_file() {
        let (base, more) = database::split(packages);
        if base.is_empty() || more.is_empty() {
            make(workspace, empty(), &[base, more].concat(), &place)?;
        } else {
            let mut tree = Tree::new();
            root::add_tar(&mut tree, &root_of(workspace, base)?, "the root of the base")?;
            make(workspace, tree, &more, &place)?;
        }
    }
    Ok(place)
}

/// Takes the lock under which a root is made. It says so where it has to wait.
fn take_turn(path: &Path) -> Result<File> {
    let lock = File::create(path).context(path.display())?;
    if lock.try_lock().is_err() {
        let mut progress = Progress::step("waiting for another run that makes the same root");
        progress.busy_with("");
        lock.lock().context(path.display())?;
    }
    Ok(lock)
}

/// Makes the root of `packages`, which are unpacked upon `tree`.
fn make(workspace: &Workspace, mut tree: Tree, packages: &[Control], place: &Path) -> Result<()> {
    let work = scratch::folder_in(place.parent().unwrap_or(Path::new("/")))?;
    unpack(&mut tree, packages, work.path())?;
    configure::run(workspace, &mut tree, packages, &work.path().join("changes.tar"))?;
    let partial = work.path().join("root.tar");
    let file = File::create(&partial).context(partial.display())?;
    tree.write_tar(file)?;
    fs::rename(&partial, place).context(place.display())
}

/// What is there before the first package.
fn empty() -> Tree {
    let mut tree = Tree::new();
    for name in MERGED {
        tree.insert(format!("usr/{name}").as_bytes(), Node::of_root(Kind::Directory, 0o755));
        tree.insert(name.as_bytes(), Node::of_root(Kind::SymbolicLink(format!("usr/{name}").into()), 0o777));
    }
    tree
}

/// Adds the packages' files, and their records in dpkg's database.
fn unpack(tree: &mut Tree, packages: &[Control], work: &Path) -> Result<()> {
    let mut progress = Progress::step("unpacking the packages");
    progress.busy_with(&format!("({})", packages.len()));
    let mut lists = Vec::new();
    for (number, package) in packages.iter().enumerate() {
        let tar = work.join(format!("{number}.tar"));
        let file = File::create(&tar).context(tar.display())?;
        let status = Command::new("dpkg-deb").arg("--fsys-tarfile").arg(&package.file).stdout(file).status();
        if !status.context("cannot start dpkg-deb")?.success() {
            return Err(database::damaged(&package.file));
        }
        let what = package.file.display().to_string();
        lists.push(root::names_in_tar(&tar, &what)?);
        root::add_package(tree, &tar, &what)?;
    }
    for (name, permissions) in FOLDERS {
        tree.insert(name.as_bytes(), Node::of_root(Kind::Directory, permissions));
    }
    database::add(tree, packages, &lists);
    Ok(())
}
