//! Deliberately wrong versions of this crate, kept as patches in `mutants/`: each compiles
//! and passes the plain unit tests, and the strong tests catch each. Takes minutes, so
//! that it runs under `CHITIN_FULL=1` only.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Copies the sources of the workspace, without what was built.
fn copy_sources(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("readable") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() && !matches!(name.as_str(), "target" | "cache" | ".git") {
            copy_sources(&path, &to.join(name));
        } else if path.is_file() {
            std::fs::copy(&path, to.join(name)).expect("copied");
        }
    }
}

/// Seconds that building or testing one mutant may take; one that hangs is caught, too.
const TIME_LIMIT: &str = "300";

/// Runs cargo in the copy, with a target folder that all mutants share.
fn cargo(copy: &Path, arguments: &[&str]) -> Output {
    Command::new("timeout")
        .args([TIME_LIMIT, "cargo"])
        .args(arguments)
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants"))
        .env_remove("CHITIN_FULL")
        .current_dir(copy)
        .output()
        .expect("cargo runs")
}

const UNIT: [&str; 4] = ["test", "-p", "wakeup-predicate", "--lib"];
const STRONG: [&[&str]; 2] =
    [&["test", "-p", "wakeup-predicate", "--test", "strong"], &["test", "-p", "native", "--test", "wakeup_predicate"]];

/// Whether a strong test catches what is in the copy; that it compiles is asserted.
fn caught(copy: &Path, name: &str) -> bool {
    STRONG.iter().any(|arguments| {
        let built = cargo(copy, &[arguments, &["--no-run"][..]].concat());
        assert!(built.status.success(), "{name} does not compile: {}", String::from_utf8_lossy(&built.stderr));
        !cargo(copy, arguments).status.success()
    })
}

#[test]
fn every_mutant_passes_the_unit_tests_and_is_caught_by_the_strong_ones() {
    if std::env::var_os("CHITIN_FULL").is_none_or(|value| value != "1") {
        println!("the mutants run under CHITIN_FULL=1 only");
        return;
    }
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = crate_folder.join("../..");
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutated-workspace");
    copy_sources(&workspace, &copy);
    assert!(!caught(&copy, "the crate as it is"), "the strong tests fail without any mutant");
    let mut patches: Vec<PathBuf> = std::fs::read_dir(crate_folder.join("mutants"))
        .expect("patches")
        .map(|entry| entry.expect("a patch").path())
        .collect();
    patches.sort();
    assert!(patches.len() >= 5);
    for patch in patches {
        let name = patch.file_name().expect("a name").to_string_lossy().into_owned();
        copy_sources(&crate_folder.join("src"), &copy.join("mechanism/wakeup-predicate/src"));
        let applied =
            Command::new("patch").args(["-p1", "-i"]).arg(&patch).current_dir(&copy).output().expect("patch runs");
        assert!(applied.status.success(), "{name} does not apply: {}", String::from_utf8_lossy(&applied.stdout));
        assert!(cargo(&copy, &UNIT).status.success(), "{name} is caught by the plain unit tests");
        assert!(caught(&copy, &name), "{name} is not caught");
        println!("{name}: caught");
    }
}
