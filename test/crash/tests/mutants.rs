//! The strong tests catch what the plain ones let pass. Each patch in `mechanism/xn/mutants` makes XN wrong in one
//! way. It compiles, XN's unit tests and `plain` pass, and the test that its first line names fails. Runs under
//! `CHITIN_FULL=1`, in a copy; `CHITIN_MUTANT` restricts it to the patches whose name contains that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const STRONG: [&str; 2] = ["campaign", "faults"];
/// Seconds for building and running one test.
const TIME_LIMIT: &str = "600";

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("it is there").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a file can be copied");
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A workspace with XN, what it stands on, and this crate.
fn make_copy(tree: &Path) {
    for folder in ["abi", "mechanism/downloaded-code", "mechanism/xn", "test/crash"] {
        copy(&root().join(folder), &tree.join(folder));
    }
    fs::copy(root().join("Cargo.lock"), tree.join("Cargo.lock")).expect("a file can be copied");
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("it is there");
    let (_, rest) = manifest.split_once("[workspace.package]").expect("a workspace");
    let members =
        "[workspace]\nresolver = \"3\"\nmembers = [\"abi\", \"mechanism/*\", \"test/crash\"]\n\n[workspace.package]";
    fs::write(tree.join("Cargo.toml"), format!("{members}{rest}")).expect("writable");
}

/// Runs one test; whether it passes in time.
fn passes(tree: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new("timeout");
    command.args([TIME_LIMIT, env!("CARGO"), "test", "-q"]).args(arguments).current_dir(tree);
    command.env("CARGO_TARGET_DIR", tree.join("target")).env_remove("CHITIN_FULL");
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("cargo runs").success()
}

fn plain_pass(tree: &Path) -> bool {
    passes(tree, &["-p", "xn", "--lib"]) && passes(tree, &["-p", "crash", "--test", "plain"])
}

/// Makes the sources what they are, and then wrong.
fn apply(tree: &Path, patch: &Path) {
    let folder = tree.join("mechanism/xn");
    copy(&root().join("mechanism/xn/src"), &folder.join("src"));
    let arguments = ["-p1", "--no-backup-if-mismatch", "-s", "-i"];
    let status = Command::new("patch").args(arguments).arg(patch).current_dir(folder).status();
    assert!(status.expect("`patch` is installed").success(), "{} no longer applies", patch.display());
}

/// What is wrong with a mutant, if anything is.
fn try_mutant(tree: &Path, mutant: &Path) -> Option<String> {
    let (name, text) = (mutant.display(), fs::read_to_string(mutant).expect("readable"));
    let catcher = text.lines().next().and_then(|line| line.strip_prefix("Caught by: ")).unwrap_or_default();
    assert!(STRONG.contains(&catcher), "{name}: its first line is no `Caught by: TEST`");
    apply(tree, mutant);
    if !plain_pass(tree) {
        return Some(format!("{name}: does not build, or the plain tests do not pass"));
    }
    let caught = !passes(tree, &["-p", "crash", "--test", catcher]);
    println!("{name}: caught by {catcher}: {caught}");
    (!caught).then(|| format!("{name}: {catcher} does not catch it"))
}

#[test]
fn every_mutant_is_caught() {
    if std::env::var_os("CHITIN_FULL").is_none_or(|value| value != "1") {
        println!("skipped: set CHITIN_FULL=1");
        return;
    }
    let only = std::env::var("CHITIN_MUTANT").unwrap_or_default();
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xn-mutants");
    let entries = fs::read_dir(root().join("mechanism/xn/mutants")).expect("there are mutants");
    let mut mutants: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    mutants.sort();
    assert!(mutants.len() >= 13);
    mutants.retain(|mutant| mutant.to_string_lossy().contains(&only));
    let _ = fs::remove_dir_all(tree.join("mechanism"));
    make_copy(&tree);
    let failing: Vec<&str> =
        STRONG.into_iter().filter(|test| !passes(&tree, &["-p", "crash", "--test", test])).collect();
    assert!(failing.is_empty(), "without a mutant these tests fail: {failing:?}");
    let problems: Vec<String> = mutants.iter().filter_map(|mutant| try_mutant(&tree, mutant)).collect();
    assert!(problems.is_empty(), "{problems:#?}");
    let _ = fs::remove_dir_all(tree);
}
