//! The strong tests catch what the plain ones let pass. Each patch in `mechanism/xn/mutants` makes XN wrong in one way,
//! each in `lib/cffs/mutants` C-FFS. It compiles, the plain tests pass, and the test that its first line names fails.
//! The default run tries the patches of [`QUICK`] without the plain tests; `CHITIN_FULL=1` tries all. Both work in a
//! copy. `CHITIN_MUTANT` restricts them to the patches whose path contains that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tests by their name in a patch: package and test.
const STRONG: [(&str, [&str; 2]); 5] = [
    ("campaign", ["crash", "campaign"]),
    ("faults", ["crash", "faults"]),
    ("files", ["crash", "files"]),
    ("differential", ["cffs", "differential"]),
    ("transfers", ["cffs", "faults"]),
];
/// What the default run tries: caught in seconds.
const QUICK: [&str; 2] = ["11-replaced-inode-forgotten", "23-failed-flush-forgotten"];
/// Crates with mutants, and their plain tests: package and arguments.
const CRATES: [(&str, [[&str; 4]; 2]); 2] = [
    ("mechanism/xn", [["-p", "xn", "--lib", "-q"], ["-p", "crash", "--test", "plain"]]),
    ("lib/cffs", [["-p", "cffs", "--lib", "-q"], ["-p", "cffs", "--test", "plain"]]),
];
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

/// A workspace with XN and C-FFS, what they stand on, and this crate.
fn make_copy(tree: &Path) {
    for folder in ["abi", "mechanism/downloaded-code", "mechanism/xn", "lib/cffs", "test/crash"] {
        let _ = fs::remove_dir_all(tree.join(folder));
        copy(&root().join(folder), &tree.join(folder));
    }
    fs::copy(root().join("Cargo.lock"), tree.join("Cargo.lock")).expect("a file can be copied");
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("it is there");
    let (_, rest) = manifest.split_once("[workspace.package]").expect("a workspace");
    let members =
        "[workspace]\nresolver = \"3\"\nmembers = [\"abi\", \"mechanism/*\", \"lib/cffs\", \"test/crash\"]\n\n";
    fs::write(tree.join("Cargo.toml"), format!("{members}[workspace.package]{rest}")).expect("writable");
}

/// Runs one test; whether it passes in time.
fn passes(tree: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new("timeout");
    command.args([TIME_LIMIT, env!("CARGO"), "test"]).args(arguments).current_dir(tree);
    command.env("CARGO_TARGET_DIR", tree.join("target")).env_remove("CHITIN_FULL");
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("cargo runs").success()
}

/// Makes the sources of a crate what they are, and then wrong.
fn apply(tree: &Path, folder: &str, patch: Option<&Path>) {
    let (own, right) = (tree.join(folder), root().join(folder).join("src"));
    copy(&right, &own.join("src"));
    let Some(patch) = patch else { return };
    let arguments = ["-p1", "--no-backup-if-mismatch", "-s", "-i"];
    let status = Command::new("patch").args(arguments).arg(patch).current_dir(own).status();
    assert!(status.expect("`patch` is installed").success(), "{} no longer applies", patch.display());
}

/// The test that catches a mutant: the name in its first line, package and test.
fn catcher(mutant: &Path) -> (&'static str, [&'static str; 2]) {
    let text = fs::read_to_string(mutant).expect("readable");
    let name = text.lines().next().and_then(|line| line.strip_prefix("Caught by: ")).unwrap_or_default();
    let known = STRONG.into_iter().find(|(own, _)| *own == name);
    known.unwrap_or_else(|| panic!("{}: its first line is no `Caught by: TEST`", mutant.display()))
}

/// What is wrong with a mutant, if anything is.
fn try_mutant(tree: &Path, folder: &str, mutant: &Path, plain: Option<&[[&str; 4]; 2]>) -> Option<String> {
    let (test, [package, target]) = catcher(mutant);
    apply(tree, folder, Some(mutant));
    let name = mutant.display();
    let sound = passes(tree, &["-p", package, "--test", target, "--no-run"])
        && plain.is_none_or(|plain| plain.iter().all(|arguments| passes(tree, arguments)));
    let caught = sound && !passes(tree, &["-p", package, "--test", target]);
    apply(tree, folder, None);
    println!("{name}: caught by {test}: {caught}");
    match (sound, caught) {
        (false, _) => Some(format!("{name}: does not build, or the plain tests do not pass")),
        (true, false) => Some(format!("{name}: {test} does not catch it")),
        _ => None,
    }
}

#[test]
fn every_mutant_is_caught() {
    let full = std::env::var("CHITIN_FULL").is_ok_and(|value| value == "1");
    let only = std::env::var("CHITIN_MUTANT").unwrap_or_default();
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join("storage-mutants");
    make_copy(&tree);
    if full {
        let failing: Vec<&str> = STRONG
            .into_iter()
            .filter(|(_, [package, target])| !passes(&tree, &["-p", package, "--test", target]))
            .map(|(name, _)| name)
            .collect();
        assert!(failing.is_empty(), "without a mutant these tests fail: {failing:?}");
    }
    let (mut problems, mut count) = (Vec::new(), 0);
    for (folder, plain) in &CRATES {
        let entries = fs::read_dir(root().join(folder).join("mutants")).expect("there are mutants");
        let mut mutants: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        mutants.sort();
        assert!(mutants.len() >= 12, "{folder}");
        let quick = |path: &Path| path.file_stem().is_some_and(|name| QUICK.iter().any(|quick| name == *quick));
        let wanted = |path: &Path| path.to_string_lossy().contains(&only) && (full || quick(path));
        mutants.retain(|path| wanted(path));
        count += mutants.len();
        problems.extend(mutants.iter().filter_map(|path| try_mutant(&tree, folder, path, full.then_some(plain))));
    }
    assert!(problems.is_empty() && count > 0, "{count}: {problems:#?}");
}
