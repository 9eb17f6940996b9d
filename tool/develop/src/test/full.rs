//! Full runs, of all tests or of a part: seeded, resumable, and written down.
//! What has passed at this commit is not run again; the result of each test's
//! last full run stands in `doc/testing-full.json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use chitin::failure::{Context, Failure, Result};
use chitin::workspace::Workspace;

use super::pool::Outcome;

/// The published result, from the root of the checkout.
const RESULT: &str = "doc/testing-full.json";

/// The published result: for each test its last full run, which need not be of
/// one commit, as parts can be run alone.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
struct Published {
    passed: usize,
    failed: usize,
    tests: BTreeMap<String, Test>,
}

/// How a test came out in a full run, and of what.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Test {
    passed: bool,
    seconds: u64,
    #[serde(flatten)]
    of: Subject,
}

/// What a full run is of.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Subject {
    /// The commit that was tested.
    commit: String,
    /// Whether files differed from that commit.
    changed: bool,
    /// The day on which the run began, in UTC.
    date: String,
    /// What tests that draw numbers started from (`CHITIN_SEED`).
    seed: u64,
}

/// A full run as far as it got.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Record {
    of: Subject,
    tests: BTreeMap<String, Test>,
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
        // Changed files may have changed again: then nothing counts any more.
        let usable = |record: &Record| record.of.commit == commit && !record.of.changed && !changed;
        let record = match read::<Record>(&state).filter(usable) {
            Some(record) => record,
            None => Record { of: Subject { commit, changed, date: today()?, seed: seed() }, tests: BTreeMap::new() },
        };
        Ok(Self { record, state, result: workspace.root().join(RESULT) })
    }

    pub fn seed(&self) -> u64 {
        self.record.of.seed
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
        let (passed, seconds) = (outcome.verdict.is_ok(), outcome.took.as_secs());
        let test = Test { passed, seconds, of: self.record.of.clone() };
        self.record.tests.insert(outcome.case.name().to_owned(), test);
        write(&self.record, &self.state)
    }

    /// Publishes the results. Of `all` tests nothing older stays; a part takes
    /// the places of its own tests only, and leaves the run open for the rest.
    /// So does a failure: the next run tries those again and publishes anew.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self, all: bool) -> Result<()> {
        let older = if all { None } else { read::<Published>(&self.result) };
        let mut published = older.unwrap_or_default();
        published.tests.extend(self.record.tests);
        let passed = |test: &&Test| test.passed;
        published.passed = published.tests.values().filter(passed).count();
        published.failed = published.tests.len() - published.passed;
        write(&published, &self.result)?;
        if !all || published.failed > 0 {
            return Ok(());
        }
        fs::remove_file(&self.state).context(self.state.display())
    }
}

fn read<T: DeserializeOwned>(file: &Path) -> Option<T> {
    fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok())
}

fn write(what: &impl Serialize, file: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(what).context("the result of a full run")?;
    let partial = file.with_extension("partial");
    fs::write(&partial, text + "\n").and_then(|()| fs::rename(&partial, file)).context(file.display())
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

    fn published(folder: &Path) -> Published {
        read(&folder.join(RESULT)).unwrap()
    }

    #[test]
    fn a_run_is_resumed_at_the_same_commit_and_published() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = checkout(folder.path());
        let mut run = begin(folder.path(), &workspace);
        add(&mut run, "a", true);
        add(&mut run, "b", false);
        assert_eq!(read::<Record>(&run.state).unwrap(), run.record);
        assert!(run.has_passed("a") && !run.has_passed("b") && !run.has_passed("c"));
        add(&mut run, "b", true);
        run.finish(true).unwrap();
        let published = published(folder.path());
        assert_eq!((published.passed, published.failed), (2, 0));
        assert_eq!(published.tests["a"].of.commit, git(&workspace, &["rev-parse", "HEAD"]).unwrap());
        assert!(!published.tests["a"].of.changed);
    }

    #[test]
    fn a_part_takes_the_places_of_its_own_tests_only() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = checkout(folder.path());
        let mut run = begin(folder.path(), &workspace);
        add(&mut run, "a", true);
        add(&mut run, "b", false);
        run.finish(true).unwrap();
        let first = published(folder.path());
        commit(&workspace);
        let mut run = begin(folder.path(), &workspace);
        add(&mut run, "b", true);
        run.finish(false).unwrap();
        let second = published(folder.path());
        assert_eq!((second.passed, second.failed), (2, 0));
        assert_eq!(second.tests["a"], first.tests["a"]);
        assert_ne!(second.tests["b"].of.commit, first.tests["b"].of.commit);
        let mut run = begin(folder.path(), &workspace);
        add(&mut run, "c", true);
        run.finish(true).unwrap();
        assert_eq!(published(folder.path()).tests.keys().collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn changed_files_are_owned_up_to() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = checkout(folder.path());
        fs::write(folder.path().join("new"), "x").unwrap();
        assert!(begin(folder.path(), &workspace).record.of.changed);
        commit(&workspace);
        assert!(!begin(folder.path(), &workspace).record.of.changed);
    }
}
