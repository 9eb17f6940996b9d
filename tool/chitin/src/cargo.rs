//! Runs cargo with readable progress and gives back what it built.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use crate::answer;
use crate::children::GuardedChild;
use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// How long cargo may take to end after its last word.
const PATIENCE: Duration = Duration::from_secs(60);

/// An executable that cargo built (or found fresh).
#[derive(Clone, Debug)]
pub struct Executable {
    /// The package's name.
    pub package: String,
    /// The name of the binary, test or library it was built from.
    pub target: String,
    pub file: PathBuf,
    /// The package's folder: where cargo runs its tests.
    pub folder: PathBuf,
    /// Whether it is a test harness rather than the program itself.
    pub is_test: bool,
    /// Whether the package's library was built into it.
    pub is_library: bool,
    /// Whether it was there already.
    pub fresh: bool,
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    package_id: String,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
    #[serde(default)]
    fresh: bool,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// What a build gave: what it could build, and its complaints if that is not all.
#[derive(Debug)]
pub struct Build {
    pub executables: Vec<Executable>,
    /// Cargo's diagnostics, when something did not build.
    pub complaints: Option<String>,
}

/// Runs a cargo command that builds.
///
/// # Errors
/// When cargo cannot be started.
pub fn build(command: &mut Command, step: &str) -> Result<Build> {
    let mut progress = Progress::step(step);
    command.arg("--message-format=json-render-diagnostics");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = GuardedChild::spawn(command)?;
    let (stdout, stderr) = child.pipes();
    let messages = stdout.map(|stdout| thread::spawn(|| executables(stdout)));
    let said = stderr.map(|stderr| follow(stderr, &mut progress)).unwrap_or_default();
    let executables = messages.and_then(|reader| reader.join().ok()).unwrap_or_default();
    let has_built = child.wait(PATIENCE)?.is_some_and(|status| status.success());
    Ok(Build { executables, complaints: (!has_built).then_some(said) })
}

/// Runs a cargo command of which everything has to build.
///
/// # Errors
/// When something does not: the diagnostics are printed first.
pub fn build_all(command: &mut Command, step: &str) -> Result<Vec<Executable>> {
    let build = build(command, step)?;
    match build.complaints {
        None => Ok(build.executables),
        Some(complaints) => {
            answer::remark(format_args!("{complaints}"));
            Err(Failure::new(format!("failed while {step} (see above)")))
        }
    }
}

/// The executables among cargo's messages.
fn executables(messages: impl Read) -> Vec<Executable> {
    let parse = |line: String| -> Option<Executable> {
        let message: Message = serde_json::from_str(&line).ok()?;
        if message.reason != "compiler-artifact" {
            return None;
        }
        let target = message.target?;
        Some(Executable {
            package: package_name(&message.package_id),
            is_library: target.kind.iter().any(|kind| kind == "lib"),
            target: target.name,
            file: message.executable?,
            folder: message.manifest_path.parent()?.to_owned(),
            is_test: message.profile?.test,
            fresh: message.fresh,
        })
    };
    BufReader::new(messages).lines().map_while(std::result::Result::ok).filter_map(parse).collect()
}

/// The name in a package identifier: `path+file:///a/b#name@1.0` or, where the
/// folder bears the name, `path+file:///a/name#1.0`.
fn package_name(identifier: &str) -> String {
    let (location, fragment) = identifier.split_once('#').unwrap_or((identifier, ""));
    match fragment.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => location.rsplit('/').next().unwrap_or_default().to_owned(),
    }
}

/// Shows what cargo is busy with; keeps what it has to say.
fn follow(stderr: impl Read, progress: &mut Progress) -> String {
    let mut kept = String::new();
    for line in BufReader::new(stderr).lines().map_while(std::result::Result::ok) {
        match line.trim_start().split_once(' ') {
            Some(("Compiling" | "Downloading" | "Downloaded" | "Updating", what)) => {
                progress.busy_with(what);
            }
            Some(("Finished" | "Locking" | "Adding", _)) => {}
            _ => {
                kept.push_str(&line);
                kept.push('\n');
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::package_name;

    #[test]
    fn names_come_out_of_both_forms_of_identifier() {
        assert_eq!(package_name("path+file:///srv/test/programs#test-programs@0.1.0"), "test-programs");
        assert_eq!(package_name("path+file:///srv/abi#0.1.0"), "abi");
    }
}
