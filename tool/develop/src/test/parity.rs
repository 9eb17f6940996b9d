//! Parity tests: scripts of `test/parity/script` run with the same binaries on
//! this Linux host and in the machine; output and status must be the same,
//! byte for byte.
//!
//! A program in C among them is compiled by the host's compiler, for both sides.
//!
//! One boot runs several scripts, so that the whole set stays quick. On the
//! host they run in a name space of their own, with the root as its root.
//! Those of large programs, in `test/parity/large`, belong to full runs. So do
//! the tests `on-disk::…`: the same scripts, whose files lie on a disk.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use chitin::boot_archive;
use chitin::build::{self, Images};
use chitin::channel::session::{Listener, Session};
use chitin::command_record::ProgramCommand;
use chitin::failure::{Context, Failure, Result};
use chitin::qemu::{Disk, Files, Machine, Running};
use chitin::root::debian::Packages;
use chitin::root::{self, Tree, debian};
use chitin::scratch;
use chitin::toolchain::Toolchain;
use chitin::workspace::Workspace;

use super::Depth;
use super::case::{Case, Verdict};
use super::linux_program::{self, Product};
use super::name_space;

/// Scripts that have a folder in the checkout, a root, and machines in common.
#[derive(Debug)]
pub(super) struct Collection {
    /// Where the scripts are in the checkout.
    folder: &'static str,
    packages: &'static Packages,
    /// Scripts of one boot, and its time limit.
    at_once: usize,
    limit: Duration,
    /// Megabytes of a machine: the root lies in its memory.
    memory: u64,
    /// How the names of its tests begin.
    kind: &'static str,
    /// Bytes of a disk on which the scripts' files lie in the machine; 0: they lie in memory.
    disk: u64,
}

/// Those of every run.
pub(super) static SCRIPTS: Collection = Collection {
    folder: "test/parity/script",
    packages: &debian::TOOLS,
    at_once: 12,
    limit: Duration::from_secs(300),
    memory: 640,
    kind: "parity",
    disk: 0,
};
/// The same, with their files on a disk.
static ON_DISK: Collection =
    Collection { limit: Duration::from_secs(900), memory: 768, kind: "on-disk", disk: 512 << 20, ..SCRIPTS };
/// Those of large programs.
pub(super) static LARGE: Collection = Collection {
    folder: "test/parity/large",
    packages: &debian::LARGE,
    at_once: 1,
    limit: Duration::from_secs(3600),
    memory: 1536,
    kind: "parity",
    disk: 0,
};
/// The same, with their files on a disk.
static LARGE_ON_DISK: Collection = Collection { kind: "on-disk", disk: 2 << 30, ..LARGE };
/// Those that do not pass yet, a line each: the name of the script, or of one of its tests, and why.
const NOT_YET: &str = "test/parity/not-yet";
/// How the names of programs in C end, which the host's compiler makes into scripts like the others.
const SOURCE: &str = ".c";
/// Where they are in the root, and what runs them.
const PLACE: &str = "parity";
const RUNNER: &str = "parity/run";
/// How a shell says that a program cannot be run, and that there is none.
const NOT_RUN: [i32; 2] = [126, 127];

/// Runs each script in an empty folder, and frames what it says: a line with
/// name, status and length, then the output.
const RUN: &str = r#"#!/bin/busybox sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
[ ! -d /disk ] || busybox mount --bind /disk /tmp || exit
for name in "$@"; do
    rm -rf /tmp/work; mkdir /tmp/work; cd /tmp/work
    /parity/$name > /tmp/said 2>&1 < /dev/null
    echo "==== $name $? $(wc -c < /tmp/said)"
    cat /tmp/said
done
"#;

/// What scripts said, by name: status and output.
pub(super) type Said = BTreeMap<String, (i32, Vec<u8>)>;

/// One boot, and the same scripts on the host, run when the first of its tests
/// asks.
struct Batch {
    names: Vec<String>,
    ground: Arc<Ground>,
    said: OnceLock<std::result::Result<[Said; 2], String>>,
}

pub(super) struct Ground {
    images: Images,
    root: PathBuf,
    collection: &'static Collection,
}

/// A test for each script whose name contains `filter`, in full runs for those of large programs too.
///
/// # Errors
/// When the scripts cannot be listed.
pub fn cases(toolchain: Toolchain, workspace: &Workspace, depth: Depth, filter: &str) -> Result<Vec<Case>> {
    let mut cases = cases_of(&SCRIPTS, toolchain, workspace, filter)?;
    if depth == Depth::Full {
        for collection in [&LARGE, &ON_DISK, &LARGE_ON_DISK] {
            cases.extend(cases_of(collection, toolchain, workspace, filter)?);
        }
    }
    Ok(cases)
}

fn cases_of(
    collection: &'static Collection,
    toolchain: Toolchain,
    workspace: &Workspace,
    filter: &str,
) -> Result<Vec<Case>> {
    let names: Vec<String> =
        scripts(collection, workspace)?.into_iter().filter(|name| title(collection, name).contains(filter)).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let ground = match prepare(collection, toolchain, workspace) {
        Ok(ground) => Arc::new(ground),
        Err(failure) => return Ok(vec![Case::failed("build::parity", failure.to_string())]),
    };
    if let Err(failure) = ground.check_host() {
        let skipped = |name: &String| Case::skipped(title(collection, name), failure.to_string());
        return Ok(names.iter().map(skipped).collect());
    }
    // Neighbours are in different batches: each of the first tests starts a boot of its own.
    let boots = names.len().div_ceil(collection.at_once);
    let batch = |first| {
        let names = names.iter().skip(first).step_by(boots).cloned().collect();
        Arc::new(Batch { names, ground: Arc::clone(&ground), said: OnceLock::new() })
    };
    let batches: Vec<_> = (0..boots).map(batch).collect();
    let case = |(name, batch): (&String, &Arc<Batch>)| {
        let (batch, name, title) = (Arc::clone(batch), name.clone(), title(collection, name));
        Case::new(title, collection.limit, move |transcript| batch.judge(&name, transcript))
    };
    Ok(names.iter().zip(batches.iter().cycle()).map(case).collect())
}

fn title(collection: &Collection, script: &str) -> String {
    format!("{}::{script}", collection.kind)
}

/// What a file of a folder of scripts is called.
fn name_of(file: &str) -> &str {
    file.strip_suffix(SOURCE).unwrap_or(file)
}

/// Names of the scripts that are to pass.
pub(super) fn scripts(collection: &Collection, workspace: &Workspace) -> Result<Vec<String>> {
    let folder = workspace.root().join(collection.folder);
    let not_yet = fs::read_to_string(workspace.root().join(NOT_YET)).unwrap_or_default();
    let is_named = |name: &str| not_yet.lines().any(|line| line.split_whitespace().next() == Some(name));
    let waits = |name: &String| is_named(name) || is_named(&title(collection, name));
    let entries = fs::read_dir(&folder).context(folder.display())?.flatten();
    let names = entries.map(|entry| name_of(&entry.file_name().to_string_lossy()).to_owned());
    let mut names: Vec<String> = names.filter(|name| !waits(name)).collect();
    names.sort();
    Ok(names)
}

/// The programs, and the root with the scripts in it.
pub(super) fn prepare(collection: &'static Collection, toolchain: Toolchain, workspace: &Workspace) -> Result<Ground> {
    let images = Images::build(toolchain, workspace, build::EXOS)?;
    let root = debian::folder(&workspace.cache(), collection.packages)?;
    let scripts = workspace.root().join(collection.folder);
    for entry in fs::read_dir(&scripts).context(scripts.display())?.flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let place = root.join(PLACE).join(name_of(&file));
        match file.ends_with(SOURCE) {
            true => linux_program::compile(workspace, &entry.path(), Product::Program, &place)?,
            false => fs::copy(entry.path(), &place).context(entry.path().display()).map(drop)?,
        }
        make_executable(&place)?;
    }
    let runner = root.join(RUNNER);
    fs::write(&runner, RUN).context(runner.display())?;
    make_executable(&runner)?;
    Ok(Ground { images, root, collection })
}

fn make_executable(file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).context(file.display())
}

impl Batch {
    fn judge(&self, name: &str, mut transcript: File) -> Verdict {
        let run = || {
            thread::scope(|scope| {
                let host = scope.spawn(|| self.ground.on_host(&self.names));
                let machine = self.in_machine();
                Ok([host.join().map_err(|_| Failure::new("the thread of the host's side failed"))??, machine?])
            })
        };
        let said = self.said.get_or_init(|| run().map_err(|failure: Failure| failure.to_string()));
        let [host, machine] = said.as_ref().map_err(Clone::clone)?;
        let expected = host.get(name).ok_or("it did not run on the host")?;
        let found = machine.get(name).ok_or("it did not run to its end in the machine")?;
        for (side, (status, output)) in [("Linux", expected), ("Chitin", found)] {
            // The verdict does not hang on the transcript.
            let _ = writeln!(transcript, "{side}: status {status}\n{}", String::from_utf8_lossy(output));
        }
        // What does not run anywhere says the same everywhere.
        if NOT_RUN.contains(&expected.0) {
            return Err("it cannot be run on the host".into());
        }
        compare(expected, found)
    }

    fn in_machine(&self) -> Result<Said> {
        let arguments = [format!("/{RUNNER}")].into_iter().chain(self.names.iter().cloned()).collect();
        self.ground.in_machine(&self.ground.tree()?, arguments, self.ground.collection.limit)
    }
}

impl Ground {
    /// Fails where no script can run on this host.
    pub(super) fn check_host(&self) -> Result<()> {
        name_space::find(&self.root).map(drop)
    }

    /// What scripts say on this host.
    pub(super) fn on_host(&self, names: &[String]) -> Result<Said> {
        let limit = self.collection.limit;
        let mut command = name_space::find(&self.root)?.command(&self.root, limit);
        let output = command.arg(format!("/{RUNNER}")).args(names).output().context("cannot start unshare")?;
        if output.status.code() == Some(name_space::LATE) {
            return Err(Failure::new(format!("scripts did not end on this host in {} s", limit.as_secs())));
        }
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::new(format!("scripts do not run on this host: {}", said.trim())));
        }
        Ok(split(&output.stdout))
    }

    /// The root as it goes into a machine.
    pub(super) fn tree(&self) -> Result<Tree> {
        root::load_folder(&self.root)
    }

    /// What a runner says in a machine that has this root.
    pub(super) fn in_machine(&self, tree: &Tree, arguments: Vec<String>, limit: Duration) -> Result<Said> {
        let Collection { memory, disk, .. } = *self.collection;
        let place = scratch::folder()?;
        let disks = if disk > 0 { vec![blank_disk(place.path(), disk)?] } else { Vec::new() };
        let options = disks.iter().map(|_| "disks=b".to_owned()).collect();
        let command = ProgramCommand { arguments, working_directory: "/".into(), options, ..ProgramCommand::default() };
        let archive = place.path().join("archive");
        let file = File::create(&archive).context("cannot write the boot archive")?;
        boot_archive::with_exos(file, &self.images, tree, &command)?;
        let files = Files { kernel: self.images.kernel.clone(), archive };
        let (mut running, stream) = Running::start(&Machine { memory, disks, ..Machine::default() }, &files)?;
        let session = Session::new(stream).context("host channel")?;
        let mut output = Output(Vec::new());
        let end = session.serve(&mut output, Some(Instant::now() + limit));
        if end.is_over() {
            running.stop()?;
        }
        Ok(split(&output.0))
    }
}

/// A disk of zeros.
fn blank_disk(place: &Path, bytes: u64) -> Result<Disk> {
    let file = place.join("disk");
    File::create(&file).and_then(|made| made.set_len(bytes)).context("cannot make a disk")?;
    Ok(Disk { file, ..Disk::default() })
}

/// What the runner framed.
fn split(mut bytes: &[u8]) -> Said {
    let mut said = Said::new();
    while let Some(start) = find(bytes, b"==== ") {
        let Some(end) = find(&bytes[start..], b"\n").map(|length| start + length) else { break };
        let line = String::from_utf8_lossy(&bytes[start..end]).into_owned();
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, name, status, length] = fields[..] else { break };
        let (Ok(status), Ok(length)) = (status.parse(), length.parse::<usize>()) else { break };
        let Some(output) = bytes.get(end + 1..).and_then(|rest| rest.get(..length)) else { break };
        said.insert(name.to_owned(), (status, output.to_vec()));
        bytes = &bytes[end + 1 + length..];
    }
    said
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn compare(expected: &(i32, Vec<u8>), found: &(i32, Vec<u8>)) -> Verdict {
    if expected.0 != found.0 {
        return Err(format!("status {} on Linux, {} here", expected.0, found.0));
    }
    if expected.1 == found.1 {
        return Ok(());
    }
    let lines = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect::<Vec<_>>();
    let (expected, found) = (lines(&expected.1), lines(&found.1));
    let at = expected.iter().zip(&found).take_while(|(left, right)| left == right).count();
    let line = |lines: &[String]| lines.get(at).map_or("nothing".into(), |line| format!("{line:?}"));
    Err(format!("line {} is {} on Linux, {} here", at + 1, line(&expected), line(&found)))
}

/// Standard output of the runner.
struct Output(Vec<u8>);

impl Listener for Output {
    fn output(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn error(&mut self, _bytes: &[u8]) {}

    fn log(&mut self, _line: &str) {}

    fn test_result(&mut self, _passed: bool, _name: &str, _detail: &str) {}

    fn measurement(&mut self, _name: &str, _value: &str, _unit: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_split_whatever_they_hold() {
        let said = split(b"noise\n==== a 0 8\n==== b \n==== b 3 0\n==== c 1 99\ncut off");
        assert_eq!(said.get("a"), Some(&(0, b"==== b \n".to_vec())));
        assert_eq!(said.get("b"), Some(&(3, Vec::new())));
        assert_eq!(said.get("c"), None);
    }

    #[test]
    fn a_difference_is_told_by_its_line() {
        let right = (0, b"one\ntwo\n".to_vec());
        assert_eq!(compare(&right, &right), Ok(()));
        assert!(compare(&right, &(1, right.1.clone())).unwrap_err().contains("status 0 on Linux, 1 here"));
        assert!(compare(&right, &(0, b"one\n2\n".to_vec())).unwrap_err().contains("line 2 is \"two\" on Linux"));
        assert!(compare(&right, &(0, b"one\n".to_vec())).unwrap_err().contains("nothing here"));
        assert!(compare(&right, &(0, b"one\ntwo".to_vec())).is_err());
    }
}
