//! Objects from clang, made when a test runs.

use std::path::Path;
use std::process::Command;

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
        .expect("clang is installed (apt-get install clang)");
    assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    std::fs::read(&object).expect("the object was written")
}
