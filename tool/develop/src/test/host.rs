//! The tests of the crates that run on this host. Each test of each harness
//! becomes a process of its own, so that a crash or a hang costs one test only.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use chitin::cargo::{self, Executable};
use chitin::children::GuardedChild;
use chitin::failure::{Context, Failure, Result};
use chitin::metadata::{Metadata, Package};
use chitin::toolchain::Toolchain;
use chitin::workspace::Workspace;

use super::Depth;
use super::case::{Case, Verdict};

/// Set to 1 for tests, so that they run at full length.
const FULL: &str = "CHITIN_FULL";
/// Set for tests that draw numbers: what to start from.
const SEED: &str = "CHITIN_SEED";

/// How the tests are to be run.
#[derive(Clone, Copy)]
struct Manner {
    depth: Depth,
    seed: Option<u64>,
}

/// Builds the harnesses and lists what is in them. Whatever does not build is
/// one failed test, so that the rest is still tested. A filter that begins with
/// a crate's name and `::` builds that crate's harnesses only.
///
/// # Errors
/// When cargo cannot be started or a harness does not answer.
pub fn cases(
    toolchain: Toolchain,
    workspace: &Workspace,
    depth: Depth,
    seed: Option<u64>,
    filter: &str,
) -> Result<Vec<Case>> {
    let manner = Manner { depth, seed };
    let mut command = toolchain.host_cargo(workspace);
    command.args(["build", "--tests", "--keep-going"]);
    if let Some(package) = only_package(toolchain, workspace, filter)? {
        command.args(["--package", &package]);
    }
    let build = cargo::build(&mut command, "building the host tests")?;
    let mut cases = Vec::new();
    for harness in build.executables.iter().filter(|built| built.is_test) {
        for test in list(harness, depth)? {
            cases.push(unit_case(harness, test, manner));
        }
        if harness.is_library && depth >= Depth::Default {
            cases.push(documentation_case(toolchain, workspace, harness, manner));
        }
    }
    cases.retain(|case| case.name().contains(filter));
    // What does not build is told whatever was asked for: its tests are not there to be asked for.
    if build.complaints.is_some() || BUILD.contains(filter) {
        cases.push(build_case(build.complaints));
    }
    Ok(cases)
}

/// The crate that a filter begins with, if it is one of those tested here.
fn only_package(toolchain: Toolchain, workspace: &Workspace, filter: &str) -> Result<Option<String>> {
    let Some((first, _)) = filter.split_once("::") else { return Ok(None) };
    let metadata = Metadata::load(toolchain, workspace, false)?;
    let tested = |package: &Package| metadata.workspace_default_members.contains(&package.id);
    let package = metadata.packages.iter().find(|package| package.name == first && tested(package));
    Ok(package.map(|package| package.name.clone()))
}

/// The test that all of it builds.
const BUILD: &str = "build::host";

fn build_case(complaints: Option<String>) -> Case {
    Case::new(BUILD.to_owned(), Duration::from_secs(1), move |mut transcript| match &complaints {
        None => Ok(()),
        Some(complaints) => {
            transcript.write_all(complaints.as_bytes()).map_err(|error| error.to_string())?;
            Err("some crates do not build".to_owned())
        }
    })
}

/// The tests in a harness. Ignored ones are for full runs only.
fn list(harness: &Executable, depth: Depth) -> Result<Vec<String>> {
    let mut names = ask(harness, &["--list", "--format=terse"])?;
    if depth < Depth::Full {
        let ignored = ask(harness, &["--list", "--format=terse", "--ignored"])?;
        names.retain(|name| !ignored.contains(name));
    }
    Ok(names)
}

fn ask(harness: &Executable, arguments: &[&str]) -> Result<Vec<String>> {
    let output = Command::new(&harness.file)
        .args(arguments)
        .current_dir(&harness.folder)
        .output()
        .context(format!("cannot start {}", harness.file.display()))?;
    if !output.status.success() {
        return Err(Failure::new(format!("{} does not list its tests", harness.file.display())));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

fn unit_case(harness: &Executable, test: String, manner: Manner) -> Case {
    let is_unit_test = harness.target.replace('_', "-") == harness.package;
    let name = if is_unit_test {
        format!("{}::{test}", harness.package)
    } else {
        format!("{}::{}::{test}", harness.package, harness.target)
    };
    let harness = harness.clone();
    Case::new(name, Duration::from_secs(1), move |transcript| {
        let mut command = Command::new(&harness.file);
        command
            .args([&test, "--exact", "--nocapture", "--include-ignored"])
            .current_dir(&harness.folder)
            .env("CARGO_MANIFEST_DIR", &harness.folder);
        run(&mut command, transcript, manner)
    })
}

/// The examples in a crate's documentation.
fn documentation_case(toolchain: Toolchain, workspace: &Workspace, harness: &Executable, manner: Manner) -> Case {
    let package = harness.package.clone();
    let workspace = workspace.clone();
    let name = format!("{package}::documentation");
    Case::new(name, Duration::from_secs(5), move |transcript| {
        let mut command = toolchain.host_cargo(&workspace);
        command.args(["test", "--quiet", "--doc", "--package", &package]);
        run(&mut command, transcript, manner)
    })
}

fn run(command: &mut Command, transcript: File, manner: Manner) -> Verdict {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let copy = transcript.try_clone().map_err(|error| said(&error))?;
    command.stdin(Stdio::null()).stdout(transcript).stderr(copy);
    if let Some(seed) = manner.seed {
        command.env(SEED, seed.to_string());
    }
    if manner.depth == Depth::Full {
        command.env(FULL, "1");
    } else {
        command.env_remove(FULL);
    }
    let mut child = GuardedChild::spawn(command).map_err(|error| said(&error))?;
    let limit = manner.depth.host_limit();
    match child.wait(limit).map_err(|error| said(&error))? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(status.to_string()),
        None => Err(format!("not done after {} seconds", limit.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Whether a patch fits the sources below a folder.
    fn applies(patch: &Path, folder: &Path) -> bool {
        let mut command = Command::new("patch");
        command.args(["--dry-run", "-s", "-f", "-p1", "-d"]).arg(folder).arg("-i").arg(patch);
        command.output().expect("`patch` is installed").status.success()
    }

    /// Most mutants run in full runs alone. Patches are relative to the crate, or to the whole.
    #[test]
    fn every_mutant_still_applies() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let groups = ["kernel", "lib", "mechanism", "test"].map(|group| fs::read_dir(root.join(group)));
        let crates = groups.into_iter().flat_map(|group| group.expect("it is there").flatten());
        let folders = crates.filter_map(|one| Some((one.path(), fs::read_dir(one.path().join("mutants")).ok()?)));
        let mut count = 0;
        for (own, mutants) in folders {
            for patch in mutants.flatten().map(|mutant| mutant.path()) {
                count += 1;
                assert!(applies(&patch, &own) || applies(&patch, &root), "{} no longer applies", patch.display());
            }
        }
        assert!(count > 90, "{count} mutants");
    }
}
