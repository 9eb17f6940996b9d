//! Programs as people write them, in C and Rust: they link, and the verifier
//! proves nearly all that they do.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use bpf_loader::{Object, Program, contexts};
use downloaded_code::context::Context;
use downloaded_code::program;
use downloaded_code::verifier::{self, Verdict, Verifier};

use crate::compiler;

/// A program of the corpus, with the context it is written for.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) context: &'static Context<'static>,
    pub(crate) program: Program,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    found.retain(|path| path.extension().is_some_and(|found| found == extension));
    found.sort();
    found
}

fn stem(path: &Path) -> String {
    path.file_stem().expect("a file").to_string_lossy().into_owned()
}

/// The programs in C, compiled and linked once for all tests.
pub(crate) fn programs_in_c() -> &'static [Entry] {
    static PROGRAMS: OnceLock<Vec<Entry>> = OnceLock::new();
    PROGRAMS.get_or_init(link_c)
}

fn link_c() -> Vec<Entry> {
    let scratch = tempfile::tempdir().expect("a folder for objects");
    let mut entries = Vec::new();
    for context in contexts::ALL {
        for file in files(&folder().join(context.name), "c") {
            let bytes = compiler::compile_file(&file, scratch.path());
            let linked = Object::parse(&bytes).and_then(|object| object.link(None, context));
            let program = linked.unwrap_or_else(|refusal| panic!("{}: {refusal}", file.display()));
            entries.push(Entry { name: format!("{}/{}.c", context.name, stem(&file)), context, program });
        }
    }
    entries
}

/// The programs in Rust. Stable rustc makes them with the sources of `core` at hand (the
/// component `rust-src`) and the switch that its own bootstrap uses.
pub(crate) fn programs_in_rust() -> &'static [Entry] {
    static PROGRAMS: OnceLock<Vec<Entry>> = OnceLock::new();
    PROGRAMS.get_or_init(link_rust)
}

fn link_rust() -> Vec<Entry> {
    let bytes = compile_rust();
    let object = Object::parse(&bytes).unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut entries = Vec::new();
    for file in files(&folder().join("rust"), "rs").into_iter().filter(|file| stem(file) != "lib") {
        let text = std::fs::read_to_string(&file).expect("readable");
        let named = |context: &&&Context<'_>| text.starts_with(&format!("//! {}: ", context.name));
        let context = contexts::ALL.iter().find(named).unwrap_or_else(|| panic!("{}: which context?", file.display()));
        let linked = object.link(Some(&stem(&file)), context);
        let program = linked.unwrap_or_else(|refusal| panic!("{}: {refusal}", file.display()));
        entries.push(Entry { name: format!("rust/{}.rs", stem(&file)), context, program });
    }
    entries
}

fn compile_rust() -> Vec<u8> {
    let crate_folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rust-corpus");
    std::fs::create_dir_all(&crate_folder).expect("a folder for the crate");
    let library = folder().join("rust/lib.rs");
    let manifest = format!(
        "[package]\nname = \"corpus\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[lib]\npath = {library:?}\n\
         [profile.release]\npanic = \"abort\"\ndebug = true\ncodegen-units = 1\n"
    );
    std::fs::write(crate_folder.join("Cargo.toml"), manifest).expect("written");
    let output = Command::new("cargo")
        .args(["rustc", "--release", "-Zbuild-std=core", "--target", "bpfel-unknown-none", "--"])
        .args(["--emit=asm", "-Ctarget-cpu=v3"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", crate_folder.join("target"))
        .current_dir(&crate_folder)
        .output()
        .expect("cargo runs");
    let advice = "is rust-src installed (rustup component add rust-src)?";
    assert!(output.status.success(), "{advice} {}", String::from_utf8_lossy(&output.stderr));
    let assembly = files(&crate_folder.join("target/bpfel-unknown-none/release/deps"), "s");
    // Other tests, which are processes of their own, assemble at the same time.
    let scratch = tempfile::tempdir().expect("a folder for the object");
    let object = scratch.path().join("corpus.o");
    let assembled = Command::new("clang")
        .args(["-target", "bpf", "-c", "-x", "assembler", "-o"])
        .arg(&object)
        .arg(assembly.iter().find(|path| stem(path).starts_with("corpus-")).expect("rustc wrote assembly"))
        .output()
        .expect("clang is installed (apt-get install clang)");
    assert!(assembled.status.success(), "{}", String::from_utf8_lossy(&assembled.stderr));
    std::fs::read(object).expect("the object was written")
}

#[test]
fn the_corpus_has_at_least_40_programs_and_all_link() {
    let entries: Vec<&Entry> = programs_in_c().iter().chain(programs_in_rust()).collect();
    assert!(entries.len() >= 40, "only {} programs", entries.len());
    for entry in &entries {
        assert!(entry.program.lines.known(), "{} has no lines", entry.name);
        program::Program::new(&entry.program.bytes).expect("a legal length");
    }
}

/// Verifies a program in its context, with the constants it brings.
fn verify(entry: &Entry) -> Result<Verdict, String> {
    let regions = bpf_loader::regions_with_constants(entry.context.regions, entry.program.constants.len());
    let context = Context { regions: &regions, ..*entry.context };
    let code = program::Program::new(&entry.program.bytes).expect("a legal length");
    let mut words = vec![0; verifier::storage_bound(code.slots())];
    Verifier::run(code, &context, &mut words).map_err(|refusal| {
        let line = entry.program.lines.line(refusal.instruction as usize);
        format!("{}: {} ({:?})", entry.name, refusal.describe(&context), line)
    })
}

/// The verifier is of use: of what people write it proves nearly all, and all of packet
/// code without loops.
#[test]
fn the_verifier_proves_at_least_90_of_100_accesses_and_all_of_straight_packet_code() {
    let entries: Vec<&Entry> = programs_in_c().iter().chain(programs_in_rust()).collect();
    let (mut accepted, mut accesses, mut straight, mut checked) = (0, 0, 0, 0);
    let mut imperfect = Vec::new();
    for entry in &entries {
        let verdict = verify(entry).unwrap_or_else(|refusal| panic!("{refusal}"));
        println!(
            "{:36} {:4} accesses, {:3} masked, {:3} checked, worst case {:?}",
            entry.name, verdict.accesses, verdict.masked, verdict.checked, verdict.worst_case
        );
        accepted += 1;
        accesses += verdict.accesses;
        checked += verdict.checked;
        let remains = verdict.checked + verdict.checked_arguments > 0 || verdict.worst_case.is_none();
        if entry.name.contains("straight") {
            straight += verdict.accesses;
            imperfect.extend(remains.then_some(&entry.name));
        }
    }
    println!("{accepted} programs accepted, {accesses} accesses, {checked} checked at run time");
    println!("without straight packet code: {} accesses, {checked} checked", accesses - straight);
    assert!(accepted >= 40, "only {accepted} programs are accepted");
    assert!(checked * 10 <= accesses, "{checked} of {accesses} accesses are checked at run time");
    assert!(imperfect.is_empty(), "straight packet code needs run-time checks: {imperfect:?}");
}
