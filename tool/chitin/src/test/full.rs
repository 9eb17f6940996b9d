//! Full runs: seeded, resumable, and written down. What has passed at this
//! commit is not run again; the result stands in `doc/testing-full.json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::failure::{Context, Failure, Result};
use crate::workspace::Workspace;

use super::pool::Outcome;

/// The published result, from the root of the checkout.
const RESULT: &str = "doc/testing-full.json";

/// A full run as far as it got, and in the end its published result.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Record {
    /// The commit that was tested.
    commit: String,
    /// Whether files differed from that commit.
    changed: bool,
    /// The day on which the run began, in UTC.
    date: String,
    /// What tests that draw numbers started from (`CHITIN_SEED`).
    seed: u64,
    passed: usize,
    failed: usize,
    tests: BTreeMap<String, Test>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Test {
    passed: bool,
    seconds: u64,
}

/// A full run in progress.
pub struct FullRun {
    record: Record,
    state: PathBuf,
    result: PathBuf,
}

impl FullRun {
    /// Takes up the run that was interrupted at this commit, or begins one.
    ///
    /// # Errors
    /// When git does not say which commit this is.
    pub fn begin(workspace: &Workspace) -> Result<Self> {
        let commit = git(workspace, &["rev-parse", "HEAD"])?;
        let changed = !git(workspace, &["status", "--porcelain", "--", ".", &format!(":!{RESULT}")])?.is_empty();
        let state = workspace.test_results().join("full.json");
        let interrupted = fs::read(&state).ok().and_then(|bytes| serde_json::from_slice::<Record>(&bytes).ok());
        // Changed files may have changed again: then nothing counts any more.
        let record = match interrupted {
            Some(record) if record.commit == commit && !record.changed && !changed => record,
            _ => Record { commit, changed, date: today()?, seed: seed(), ..Record::default() },
        };
        Ok(Self { record, state, result: workspace.root().join(RESULT) })
    }

    pub fn seed(&self) -> u64 {
        self.record.seed
    }

    /// Whether a test has passed in this run already.
    pub fn has_passed(&self, name: &str) -> bool {
        self.record.tests.get(name).is_some_and(|test| test.passed)
    }

    /// Notes how a test came out; kept even if this command is interrupted.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn add(&mut self, outcome: &Outcome) -> Result<()> {
        let test = Test { passed: outcome.verdict.is_ok(), seconds: outcome.took.as_secs() };
        self.record.tests.insert(outcome.case.name().to_owned(), test);
        self.write(&self.state)
    }

    /// Publishes the result. After failures the run stays open: the next one
    /// tries those again and publishes anew.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> Result<()> {
        let all = self.record.tests.len();
        self.record.passed = self.record.tests.values().filter(|test| test.passed).count();
        self.record.failed = all - self.record.passed;
        self.write(&self.result)?;
        if self.record.failed > 0 {
            return Ok(());
        }
        fs::remove_file(&self.state).context(self.state.display())
    }

    fn write(&self, file: &std::path::Path) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.record).context("the result of a full run")?;
        let partial = file.with_extension("partial");
        fs::write(&partial, text + "\n").and_then(|()| fs::rename(&partial, file)).context(file.display())
    }
}

fn git(workspace: &Workspace, arguments: &[&str]) -> Result<String> {
    answer(Command::new("git").args(arguments).current_dir(workspace.root()))
}

fn today() -> Result<String> {
    answer(Command::new("date").args(["-u", "+%Y-%m-%d"]))
}

fn answer(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().context(format!("cannot start {name}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
        return Err(Failure::new(format!("a full run is of a commit, but {name} says: {said}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A seed from the clock, unless one is given.
fn seed() -> u64 {
    let given = std::env::var("CHITIN_SEED").ok().and_then(|text| text.parse().ok());
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_secs());
    given.unwrap_or(clock)
}

#[cfg(test)]
mod tests {
    use super::super::case::Case;
    use super::*;
    use std::path::Path;
    use std::time::Duration;

    /// A checkout of one commit.
    fn checkout(folder: &Path) -> Workspace {
        let workspace = Workspace::at(folder);
        fs::create_dir_all(folder.join("doc")).unwrap();
        fs::write(folder.join(".gitignore"), "/target\n").unwrap();
        git(&workspace, &["init", "-q"]).unwrap();
        commit(&workspace);
        workspace
    }

    fn commit(workspace: &Workspace) {
        git(workspace, &["add", "."]).unwrap();
        let identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
        git(workspace, &[&identity[..], &["commit", "-q", "--allow-empty", "-m", "one"]].concat()).unwrap();
    }

    fn add(run: &mut FullRun, name: &str, passed: bool) {
        let case = Case::failed(name, String::new());
        let verdict = if passed { Ok(()) } else { Err("no".to_owned()) };
        run.add(&Outcome { case: &case, verdict, took: Duration::from_secs(2) }).unwrap();
    }

    fn begin(folder: &Path, workspace: &Workspace) -> FullRun {
        let mut run = FullRun::begin(workspace).unwrap();
        // Not where a CARGO_TARGET_DIR of this test itself would lead.
        run.state = folder.join("target-full.json");
        run
    }

    #[test]
    fn a_run_is_resumed_at_the_same_commit_and_published() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = checkout(folder.path());
        fs::create_dir_all(workspace.test_results()).unwrap();
        let mut run = begin(folder.path(), &workspace);
        add(&mut run, "a", true);
        add(&mut run, "b", false);
        let resumed: Record = serde_json::from_slice(&fs::read(&run.state).unwrap()).unwrap();
        assert_eq!(resumed, run.record);
        assert!(run.has_passed("a") && !run.has_passed("b") && !run.has_passed("c"));
        add(&mut run, "b", true);
        run.finish().unwrap();
        let published: Record = serde_json::from_slice(&fs::read(folder.path().join(RESULT)).unwrap()).unwrap();
        assert_eq!((published.passed, published.failed), (2, 0));
        assert_eq!(published.commit, git(&workspace, &["rev-parse", "HEAD"]).unwrap());
        assert!(!published.changed);
    }

    #[test]
    fn changed_files_are_owned_up_to() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = checkout(folder.path());
        fs::write(folder.path().join("new"), "x").unwrap();
        assert!(begin(folder.path(), &workspace).record.changed);
        commit(&workspace);
        assert!(!begin(folder.path(), &workspace).record.changed);
    }
}
