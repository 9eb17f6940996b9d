//! The strong tests catch what the plain ones let pass. Each patch in `mutants/` makes the crate wrong in one way: it
//! compiles, `plain` passes, and the strong test that its first line names fails. Runs under `CHITIN_FULL=1`, in a
//! copy of what is needed; `CHITIN_MUTANT` restricts it to the patches whose name contains that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a copy needs besides this crate: the emitter, and a native crate reduced to what filters need.
const NATIVE_MANIFEST: &str = "[package]\nname = \"native\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
    packet-filter = { path = \"../../mechanism/packet-filter\" }\nrustix = { version = \"1.1\", features = [\"mm\"] }\n";
/// The tests of this crate that a patch may name; `native` is the one that runs the machine code.
const STRONG: [&str; 5] = ["agreement", "overlap", "faults", "emitted", NATIVE];
const NATIVE: &str = "native";
/// Seconds for building and running one test; a mutant that hangs is caught, too.
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

/// A workspace with this crate, what it stands on, and the native tests of filters.
fn make_copy(tree: &Path) {
    for folder in ["abi", "mechanism/downloaded-code", "mechanism/packet-filter"] {
        copy(&root().join(folder), &tree.join(folder));
    }
    for file in ["src/packet_filter.rs", "tests/packet_filter.rs"] {
        let target = tree.join("test/native").join(file);
        fs::create_dir_all(target.parent().expect("a folder")).expect("a folder can be made");
        fs::copy(root().join("test/native").join(file), target).expect("a file can be copied");
    }
    fs::write(tree.join("test/native/src/lib.rs"), "pub mod packet_filter;\n").expect("writable");
    fs::write(tree.join("test/native/Cargo.toml"), NATIVE_MANIFEST).expect("writable");
    fs::copy(root().join("Cargo.lock"), tree.join("Cargo.lock")).expect("a file can be copied");
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("it is there");
    let (_, rest) = manifest.split_once("[workspace.package]").expect("a workspace");
    let members =
        "[workspace]\nresolver = \"3\"\nmembers = [\"abi\", \"mechanism/*\", \"test/native\"]\n\n[workspace.package]";
    fs::write(tree.join("Cargo.toml"), format!("{members}{rest}")).expect("writable");
}

/// Runs one test; whether it passes in time.
fn passes(tree: &Path, test: &str) -> bool {
    let arguments = match test {
        NATIVE => ["test", "-q", "-p", "native", "--test", "packet_filter"],
        own => ["test", "-q", "-p", "packet-filter", "--test", own],
    };
    let mut command = Command::new("timeout");
    command.args([TIME_LIMIT, env!("CARGO")]).args(arguments).current_dir(tree);
    command.env("CARGO_TARGET_DIR", tree.join("target")).env_remove("CHITIN_FULL").env_remove("CHITIN_SEED");
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("cargo runs").success()
}

/// Makes the sources what they are, and then wrong.
fn apply(tree: &Path, patch: &Path) {
    let folder = tree.join("mechanism/packet-filter");
    copy(&root().join("mechanism/packet-filter/src"), &folder.join("src"));
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
    if !passes(tree, "plain") {
        return Some(format!("{name}: does not build, or the plain tests do not pass"));
    }
    let caught = !passes(tree, catcher);
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
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packet-filter-mutants");
    let entries = fs::read_dir(root().join("mechanism/packet-filter/mutants")).expect("there are mutants");
    let mut mutants: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    mutants.sort();
    assert!(mutants.len() >= 10);
    mutants.retain(|mutant| mutant.to_string_lossy().contains(&only));
    // What a run that was stopped left there, but for what it built.
    let _ = fs::remove_dir_all(tree.join("mechanism"));
    make_copy(&tree);
    let failing: Vec<&str> = STRONG.into_iter().filter(|test| !passes(&tree, test)).collect();
    assert!(failing.is_empty(), "without a mutant these tests fail: {failing:?}");
    let problems: Vec<String> = mutants.iter().filter_map(|mutant| try_mutant(&tree, mutant)).collect();
    assert!(problems.is_empty(), "{problems:#?}");
    let _ = fs::remove_dir_all(tree);
}
