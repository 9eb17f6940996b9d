//! The worked examples of doc/downloaded-code.md: they stand there as they are compiled here, and do what it says.

use std::path::{Path, PathBuf};
use std::process::Command;

use bpf_loader::Object;
use downloaded_code::context::{Access, Argument, Context, Region, RegionSize, Speculation};
use native::downloaded_code::prepared::Prepared;

const REGIONS: [Region<'static>; 2] = [
    Region {
        name: "packet",
        access: Access::ReadOnly,
        size: RegionSize::Passed { minimum: 0, maximum: 1514 },
        alignment: 1,
    },
    Region { name: "state", access: Access::ReadWrite, size: RegionSize::Fixed(64), alignment: 8 },
];
const CONTEXT: Context<'static> = Context {
    name: "worked example",
    regions: &REGIONS,
    arguments: &[Argument::Pointer(0), Argument::Length(0), Argument::Pointer(1)],
    helpers: &[],
    budget: 50_000,
    deterministic: true,
    strict: true,
    speculation: Speculation::Masked,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("worked")
}

/// The source, which must stand in the document word for word.
fn source(name: &str) -> PathBuf {
    let path = folder().join(name);
    let text = std::fs::read_to_string(&path).expect("the source");
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../doc/downloaded-code.md");
    let document = std::fs::read_to_string(document).expect("the document");
    assert!(document.contains(&text), "doc/downloaded-code.md does not show {name} as it is");
    path
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn run(command: &mut Command, advice: &str) {
    let output = command.output().unwrap_or_else(|error| panic!("{advice}: {error}"));
    assert!(output.status.success(), "{advice}: {}", String::from_utf8_lossy(&output.stderr));
}

/// clang, making an object for BPF.
fn clang(arguments: &[&str], object: &Path, source: &Path) {
    let mut clang = Command::new("clang");
    clang.args(["-target", "bpf", "-c"]).args(arguments).arg("-o").arg(object).arg(source);
    run(&mut clang, "needs clang (apt-get install clang)");
}

/// Links, verifies and compiles an object, then runs it on packets; the results, and the first word of the state. So
/// many accesses are left to run-time checks.
fn results(object: &Path, checked: u32, packets: &[Vec<u8>]) -> (Vec<u64>, u64) {
    let context = Context { strict: checked == 0, ..CONTEXT };
    let bytes = std::fs::read(object).expect("the object");
    let linked = Object::parse(&bytes).and_then(|object| object.link(None, &context));
    let program = linked.unwrap_or_else(|refusal| panic!("{refusal}"));
    let mut state = [0u64; 8];
    let mut all = Vec::new();
    for packet in packets {
        let mut bytes: Vec<u8> = state.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut packet = packet.clone();
        {
            let mut regions: [&mut [u8]; 2] = [&mut packet, &mut bytes];
            let mut prepared = Prepared::new(&program.bytes, &context, &mut regions)
                .unwrap_or_else(|refusal| panic!("{}", refusal.describe(&context)));
            assert_eq!((prepared.verdict.checked, prepared.verdict.worst_case.is_some()), (checked, true));
            all.push(prepared.run().expect("it finishes"));
        }
        for (word, bytes) in state.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
    }
    (all, state[0])
}

/// A TCP packet over IPv4 with so many words of header, to a port.
fn tcp(words: u8, port: u16) -> Vec<u8> {
    let mut packet = vec![0; 14 + usize::from(words) * 4 + 20];
    packet[12..15].copy_from_slice(&[8, 0, 0x40 | words]);
    packet[23] = 6;
    let at = 14 + usize::from(words) * 4 + 2;
    packet[at..at + 2].copy_from_slice(&port.to_be_bytes());
    packet
}

#[test]
fn the_example_in_c() {
    let object = scratch("worked-c").join("count_http.o");
    clang(&["-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"], &object, &source("count_http.c"));
    let mut cut = tcp(15, 80);
    cut.truncate(50);
    let packets = [tcp(5, 80), tcp(5, 81), tcp(15, 80), cut, vec![], vec![0; 1514]];
    assert_eq!(results(&object, 0, &packets), (vec![1, 0, 1, 0, 0, 0], 2));
}

#[test]
fn the_example_in_rust() {
    let folder = scratch("worked-rust");
    let assembly = compile_rust(&folder);
    let object = folder.join("longest_run.o");
    clang(&["-x", "assembler"], &object, &assembly);
    let packets = [vec![1, 1, 2, 2, 2, 3], vec![], vec![9; 1514], vec![1, 2, 3]];
    assert_eq!(results(&object, 0, &packets), (vec![3, 0, 1514, 1], 1514));
}

/// rustc's assembly for BPF, whose `core` must be built from its sources.
fn compile_rust(folder: &Path) -> PathBuf {
    let manifest = format!(
        "[package]\nname = \"worked\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[lib]\npath = {:?}\n\
         [profile.release]\npanic = \"abort\"\ndebug = true\ncodegen-units = 1\n",
        source("longest_run.rs")
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).expect("written");
    let mut cargo = Command::new("cargo");
    cargo.args(["rustc", "--release", "-Zbuild-std=core", "--target", "bpfel-unknown-none", "--"]);
    cargo.args(["--emit=asm", "-Ctarget-cpu=v3"]).env("RUSTC_BOOTSTRAP", "1");
    cargo.env("CARGO_TARGET_DIR", folder.join("target")).current_dir(folder);
    run(&mut cargo, "needs rust-src (rustup component add rust-src)");
    let made = std::fs::read_dir(folder.join("target/bpfel-unknown-none/release/deps")).expect("what rustc made");
    let mut files = made.map(|entry| entry.expect("an entry").path());
    let is_ours = |path: &Path| path.extension().is_some_and(|extension| extension == "s");
    files.find(|path| is_ours(path) && path.to_string_lossy().contains("worked")).expect("rustc wrote assembly")
}
