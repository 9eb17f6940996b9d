//! Objects from clang, made when a test runs.

use std::path::Path;
use std::process::Command;

/// Says visibly that there is no compiler; nothing that needs one is tested then.
pub(crate) fn skipped() -> bool {
    let there = Command::new("clang").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("SKIPPED: clang is not installed (apt-get install clang), so that no object was made");
    }
    !there
}

/// Compiles C for BPF.
pub(crate) fn compile(source: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder for one object");
    let file = folder.path().join("program.c");
    std::fs::write(&file, source).expect("the source is written");
    compile_file(&file, folder.path())
}

/// Compiles a file of C for BPF, with line information.
pub(crate) fn compile_file(file: &Path, folder: &Path) -> Vec<u8> {
    let object = folder.join("program.o");
    let output = Command::new("clang")
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-fno-builtin", "-Wall", "-Werror", "-c", "-o"])
        .args([&object, file])
        .output()
        .expect("clang runs");
    assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    std::fs::read(&object).expect("the object was written")
}
