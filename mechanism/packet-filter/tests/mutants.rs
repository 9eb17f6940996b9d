//! The strong tests catch what the plain ones let pass: each patch in `mutants/` makes the crate wrong in one
//! way; it compiles, `plain` passes, and one of the strong tests fails. Runs under `CHITIN_FULL=1`, in copies of the tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a copy needs beside this crate: the emitter, and a native crate reduced to what filters need.
const NATIVE_MANIFEST: &str = "[package]\nname = \"native\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
    packet-filter = { path = \"../../mechanism/packet-filter\" }\nrustix = { version = \"1.1\", features = [\"mm\"] }\n";

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

/// A workspace with this crate, what it stands on, and the native tests of filters.
fn make_copy(tree: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in ["abi", "mechanism/downloaded-code", "mechanism/packet-filter"] {
        copy(&root.join(folder), &tree.join(folder));
    }
    for file in ["src/packet_filter.rs", "tests/packet_filter.rs"] {
        fs::create_dir_all(tree.join("test/native").join(file).parent().expect("a folder"))
            .expect("a folder can be made");
        fs::copy(root.join("test/native").join(file), tree.join("test/native").join(file))
            .expect("a file can be copied");
    }
    fs::write(tree.join("test/native/src/lib.rs"), "pub mod packet_filter;\n").expect("writable");
    fs::write(tree.join("test/native/Cargo.toml"), NATIVE_MANIFEST).expect("writable");
    fs::copy(root.join("Cargo.lock"), tree.join("Cargo.lock")).expect("a file can be copied");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("it is there");
    let (_, rest) = manifest.split_once("[workspace.package]").expect("a workspace");
    let members =
        "[workspace]\nresolver = \"3\"\nmembers = [\"abi\", \"mechanism/*\", \"test/native\"]\n\n[workspace.package]";
    fs::write(tree.join("Cargo.toml"), format!("{members}{rest}")).expect("writable");
}

fn cargo(tree: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(tree).env("CARGO_TARGET_DIR", tree.join("target")).env_remove("CHITIN_FULL");
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("cargo runs").success()
}

fn patch(tree: &Path, patch: &Path) {
    let arguments = ["-p1", "--no-backup-if-mismatch", "-s", "-i"];
    let status =
        Command::new("patch").args(arguments).arg(patch).current_dir(tree.join("mechanism/packet-filter")).status();
    assert!(status.expect("`patch` is installed").success(), "{} no longer applies", patch.display());
}

/// The first of the strong tests that fails.
fn caught_by(tree: &Path) -> Option<&'static str> {
    let own = |name: &'static str| !cargo(tree, &["test", "-q", "-p", "packet-filter", "--test", name]);
    let strong = ["agreement", "overlap", "faults", "emitted"].into_iter().find(|name| own(name));
    strong.or_else(|| (!cargo(tree, &["test", "-q", "-p", "native", "--test", "packet_filter"])).then_some("native"))
}

#[test]
fn every_mutant_is_caught() {
    if std::env::var("CHITIN_FULL").is_err() {
        println!("skipped: set CHITIN_FULL=1");
        return;
    }
    let tree = std::env::temp_dir().join(format!("packet-filter-mutants-{}", std::process::id()));
    let mutants = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants");
    let mut patches: Vec<PathBuf> =
        fs::read_dir(mutants).expect("there are mutants").flatten().map(|entry| entry.path()).collect();
    patches.sort();
    assert!(patches.len() >= 10);
    make_copy(&tree);
    assert_eq!(caught_by(&tree), None, "the tests pass without a mutant");
    for mutant in patches {
        let name = mutant.file_stem().expect("a name").to_string_lossy().into_owned();
        make_copy(&tree);
        patch(&tree, &mutant);
        assert!(
            cargo(&tree, &["test", "-q", "-p", "packet-filter", "--test", "plain"]),
            "{name}: the plain tests do not pass"
        );
        let catcher = caught_by(&tree);
        println!("{name}: caught by {catcher:?}");
        assert!(catcher.is_some(), "{name} was not caught");
    }
    let _ = fs::remove_dir_all(tree);
}
