//! The Linux peer: Debian's own kernel, fetched without installing it, and a
//! root file system that is the one ExOS gets, with a first process added.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

use chitin::archive::Writer;
use chitin::failure::{Context, Failure, Result};
use chitin::progress::Progress;
use chitin::root::debian::{self, said};
use chitin::root::{self, Contents, Kind, Node, Tree};
use chitin::scratch;
use chitin::workspace::Workspace;

use super::report::Clock;

/// The package that always depends on the current kernel for virtual machines.
const PACKAGE: &str = "linux-image-cloud-amd64";
/// What the kernel needs for devices, in the order in which it is loaded.
const MODULES: [&str; 6] =
    ["virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk"];
/// What it needs for a network card in addition, in this order, and where each lies among its modules.
const NETWORK: [(&str, &str); 3] =
    [("failover", "net/core"), ("net_failover", "drivers/net"), ("virtio_net", "drivers/net")];
/// Where its kernel stands in the cache.
const FOLDER: &str = "linux-peer";
/// Where the programs that are measured have their sources.
const SOURCES: &str = "bench/peer";
/// Where what they link with has its headers.
const LINKED: &str = "lib/exos/link";
/// Where they stand in the root file system of either system.
pub const PLACE: &str = "bench";
/// The first process of the peer.
const INIT: &str = "init";

/// Whether the peer comes up at all in reasonable time: CPUs that take turns by the counting clock keep it from that
/// for minutes.
pub fn comes_up(clock: Clock, cpus: u32) -> bool {
    clock != Clock::Instructions || cpus == 1
}

/// The kernel's image, fetched once.
///
/// # Errors
/// When there is no network or no space.
pub fn kernel(workspace: &Workspace) -> Result<PathBuf> {
    let cache = workspace.cache();
    let folder = cache.join(FOLDER);
    if let Some(kernel) = image_in(&folder) {
        return Ok(kernel);
    }
    if folder.exists() {
        // An older checkout kept no modules.
        fs::remove_dir_all(&folder).context(folder.display())?;
    }
    fs::create_dir_all(&cache).context(cache.display())?;
    let mut progress = Progress::step("fetching Debian's kernel, the peer");
    progress.busy_with(PACKAGE);
    let work = scratch::folder_in(&cache)?;
    let package = dependency()?;
    let advice = "run apt-get update, and see that there is network and 500 MiB of space, to have the Linux peer";
    said(Command::new("apt-get").args(["--quiet", "download", &package]).current_dir(work.path()), advice)?;
    let unpacked = work.path().join("unpacked");
    let entries = fs::read_dir(work.path()).context(work.path().display())?.flatten();
    for archive in entries.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "deb")) {
        said(Command::new("dpkg").arg("-x").arg(archive.path()).arg(&unpacked), advice)?;
    }
    // Nothing but the kernel itself and a few of its modules is kept.
    keep_modules(&unpacked)?;
    match fs::rename(unpacked.join("boot"), &folder) {
        // Another run may have been quicker: its files are the same.
        Err(_) if image_in(&folder).is_some() => {}
        result => result.context(folder.display())?,
    }
    image_in(&folder).ok_or_else(|| Failure::new(format!("{package} holds no kernel")))
}

fn image_in(folder: &Path) -> Option<PathBuf> {
    let mut names = MODULES.into_iter().chain(NETWORK.map(|(name, _)| name));
    if !names.all(|name| folder.join(format!("{name}.ko")).is_file()) {
        return None;
    }
    let mut entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-")))
}

/// Moves the modules of [`MODULES`] and [`NETWORK`] to where the kernel is.
fn keep_modules(unpacked: &Path) -> Result<()> {
    let versions = unpacked.join("lib/modules");
    let version = fs::read_dir(&versions).context(versions.display())?.flatten().next();
    let drivers = version.ok_or_else(|| Failure::new(format!("{PACKAGE} holds no modules")))?.path();
    let place = |name| (name, if name == "virtio_blk" { "drivers/block" } else { "drivers/virtio" });
    for (name, folder) in MODULES.map(place).into_iter().chain(NETWORK) {
        let module = drivers.join(format!("kernel/{folder}/{name}.ko"));
        fs::rename(&module, unpacked.join(format!("boot/{name}.ko"))).context(module.display())?;
    }
    Ok(())
}

/// Adds the modules that the peer needs for its devices.
///
/// # Errors
/// When one cannot be read.
pub fn add_modules(workspace: &Workspace, tree: &mut Tree) -> Result<()> {
    for (number, name) in MODULES.into_iter().chain(NETWORK.map(|(name, _)| name)).enumerate() {
        let module = workspace.cache().join(FOLDER).join(format!("{name}.ko"));
        add_file(tree, &format!("{PLACE}/module{number}.ko"), fs::read(&module).context(module.display())?);
    }
    Ok(())
}

/// Has the peer mount a disk.
pub fn add_mount(tree: &mut Tree) {
    tree.insert(b"disk", Node::of_root(Kind::Directory, 0o755));
}

/// Makes an ext4 file system on a disk, as Debian's tool does by default.
///
/// # Errors
/// Where the tool is missing or refuses.
pub fn format(disk: &Path) -> Result<()> {
    let advice = "install e2fsprogs to have Linux with a disk";
    said(Command::new("mke2fs").args(["-q", "-F", "-t", "ext4"]).arg(disk), advice).map(drop)
}

/// The package of the kernel itself.
fn dependency() -> Result<String> {
    let output = Command::new("apt-cache").args(["depends", PACKAGE]).output().context("cannot start apt-cache")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    line.filter(|name| name.starts_with("linux-image-"))
        .map(str::to_owned)
        .ok_or_else(|| Failure::new(format!("apt knows no {PACKAGE}: run apt-get update to have the Linux peer")))
}

/// Where the programs are linked: not where the server of ExOS lies in its own address space, so that a profile can
/// tell the two apart.
const BASE: &str = "-Wl,-Ttext-segment=0x20000000";

/// Compiles a program of `bench/peer` into `folder`: one file, static, at a fixed address. One in assembly has no C
/// library.
///
/// # Errors
/// When there is no such source, or the compiler refuses it.
pub fn compile(workspace: &Workspace, name: &str, folder: &Path) -> Result<PathBuf> {
    let source = |ending: &str| workspace.root().join(SOURCES).join(format!("{name}.{ending}"));
    let (in_assembly, program) = (source("S"), folder.join(name));
    let bare = in_assembly.exists();
    let source = if bare { in_assembly } else { source("c") };
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-no-pie", "-fno-pie", "-pthread", BASE]);
    compiler.args(bare.then_some("-nostdlib"));
    let output = compiler
        .arg("-I")
        .arg(workspace.root().join(LINKED))
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .output()
        .context("cannot start cc, the C compiler")?;
    if output.status.success() {
        return Ok(program);
    }
    Err(Failure::new(format!("cc refuses {}: {}", source.display(), String::from_utf8_lossy(&output.stderr))))
}

/// Adds programs to a root file system, under [`PLACE`].
///
/// # Errors
/// When one cannot be compiled.
pub fn add_programs(workspace: &Workspace, tree: &mut Tree, names: &[&str], folder: &Path) -> Result<()> {
    tree.insert(PLACE.as_bytes(), Node::of_root(Kind::Directory, 0o755));
    for name in names {
        let program = compile(workspace, name, folder)?;
        add_file(tree, &format!("{PLACE}/{name}"), fs::read(&program).context(program.display())?);
    }
    Ok(())
}

/// Adds files and folders of Debian's packages to a root file system, by place and name there. Missing packages are
/// fetched.
///
/// # Errors
/// When a package cannot be had, or has no such file.
pub fn add_debian(workspace: &Workspace, tree: &mut Tree, files: &BTreeMap<String, String>) -> Result<()> {
    let packages = root::load_folder(&debian::folder(&workspace.cache(), &debian::BENCH)?)?;
    for (place, name) in files {
        let found = packages.follow(name.as_bytes());
        let (name, node) = found.ok_or_else(|| Failure::new(format!("Debian's packages have no file {name}")))?;
        let below = packages.below(&name);
        for (path, node) in below.chain([(name.as_slice(), node)]) {
            let place = [place.as_bytes(), &path[name.len()..]].concat();
            let mut node = node.clone();
            if let Kind::File(file) = &mut node.kind {
                *file = tree.add_contents(Contents::Bytes(packages.read(*file, u64::MAX)?));
            }
            tree.insert(&place, node);
        }
    }
    Ok(())
}

/// The archive that the peer's kernel unpacks: the tree, the first process and the list of programs it runs.
///
/// # Errors
/// When the first process cannot be compiled or the archive not written.
pub fn write_archive(workspace: &Workspace, mut tree: Tree, run: &[&str], archive: &Path, folder: &Path) -> Result<()> {
    let init = compile(workspace, INIT, folder)?;
    add_file(&mut tree, INIT, fs::read(&init).context(init.display())?);
    add_file(&mut tree, &format!("{PLACE}/list"), run.join("\n").into_bytes());
    let file = File::create(archive).context("cannot write the peer's archive")?;
    let mut writer = Writer::new(BufWriter::new(file));
    tree.write(".", &mut writer)?;
    writer.finish().context("cannot write the peer's archive").map(drop)
}

fn add_file(tree: &mut Tree, path: &str, contents: Vec<u8>) {
    let file = tree.add_contents(Contents::Bytes(contents));
    tree.insert(path.as_bytes(), Node::of_root(Kind::File(file), 0o755));
}
