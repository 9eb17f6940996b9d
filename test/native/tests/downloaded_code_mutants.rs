//! Deliberately wrong verifiers and compilers (`mutants/*.patch`): each compiles and passes the plain tests of its
//! crate, and the tests under guard pages, or those with mispredicted jumps, catch it. Runs only with
//! `CHITIN_FULL=1`: it builds the crates once for each. `CHITIN_MUTANT` restricts it to the patches whose name
//! contains that.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders up").to_path_buf()
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a readable folder") {
        let entry = entry.expect("an entry");
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let name = entry.file_name();
        if name == "target" || name == ".git" {
            continue;
        }
        if entry.file_type().expect("its type").is_dir() {
            copy_tree(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("a copy");
        }
    }
}

fn succeeds(tree: &Path, program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(tree).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("CARGO_TARGET_DIR", tree.join("target")).env_remove("CHITIN_FULL");
    command.env("CHITIN_SEED", "1").env("CHITIN_CASES", "100000");
    command.status().expect("the command starts").success()
}

#[test]
fn fault_58_wrong_verifiers_and_compilers_are_caught() {
    if std::env::var("CHITIN_FULL").is_ok_and(|value| value == "1") {
        check_all();
    } else {
        println!("skipped: set CHITIN_FULL=1");
    }
}

fn check_all() {
    let tree = std::env::temp_dir().join(format!("chitin-downloaded-code-mutants-{}", std::process::id()));
    copy_tree(&root(), &tree);
    let plain = ["test", "-p", "downloaded-code"];
    let strong = ["downloaded_code", "downloaded_code_conformance", "downloaded_code_misprediction"];
    let strong: Vec<&str> =
        ["test", "-p", "native"].into_iter().chain(strong.into_iter().flat_map(|test| ["--test", test])).collect();
    assert!(succeeds(&tree, "cargo", &plain) && succeeds(&tree, "cargo", &strong), "the tree itself must pass");
    let only = std::env::var("CHITIN_MUTANT").unwrap_or_default();
    let patches = std::fs::read_dir(root().join("test/native/mutants")).expect("the folder of patches");
    let mut patches: Vec<PathBuf> = patches.map(|entry| entry.expect("an entry").path()).collect();
    patches.sort();
    let mut problems = Vec::new();
    for patch in patches.iter().filter(|patch| patch.to_string_lossy().contains(&only)) {
        let path = patch.to_str().expect("a plain path");
        assert!(succeeds(&tree, "git", &["apply", path]), "{path} does not apply");
        let builds = succeeds(&tree, "cargo", &["check", "-p", "downloaded-code"]);
        let passes_plain = builds && succeeds(&tree, "cargo", &plain);
        let caught = builds && !succeeds(&tree, "cargo", &strong);
        println!("{path}: builds {builds}, passes plain tests {passes_plain}, caught {caught}");
        if !(passes_plain && caught) {
            problems.push(path.to_string());
        }
        assert!(succeeds(&tree, "git", &["apply", "-R", path]), "{path} does not come off");
    }
    let _ = std::fs::remove_dir_all(&tree);
    assert!(patches.len() >= 10 && problems.is_empty(), "{problems:?}");
}
