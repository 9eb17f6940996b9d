//! `./chitin code`: what the kernel would make of a program of downloaded code
//! (a BPF object of clang or rustc): whether it is accepted, which checks
//! remain, and the machine code.

mod check;
mod disassembly;
mod notation;
mod subject;

use std::process::ExitCode;

use chitin::developer::Code;

use chitin::failure::Result;

use subject::Subject;

/// The exit status for a program that the kernel would refuse.
const REFUSED: u8 = 1;

/// Runs the subcommand.
///
/// # Errors
/// The file cannot be read, or holds no program that could be linked.
pub fn run(code: &Code) -> Result<ExitCode> {
    match code {
        Code::Check(options) => check::run(&Subject::load(options)?),
        Code::Disasm(options) => disassembly::run(&Subject::load(options)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chitin::developer::CodeOptions;
    use std::path::PathBuf;
    use std::process::Command;

    const PROGRAM: &str = "typedef unsigned char u8; typedef unsigned long long u64;
u64 good(const u8 *packet, const u8 *end, u64 length) { return length < 14 ? 0 : packet[12]; }
u64 loop(const u8 *packet, const u8 *end, u64 length) {
    u64 sum = 0;
    for (u64 at = 0; at < 100; at += packet[at]) sum++;
    return sum;
}
u64 bad(const u8 *packet, const u8 *end, u64 length) {
    *(u8 *)packet = 1;
    return 0;
}";

    /// Compiles PROGRAM.
    fn object(folder: &std::path::Path) -> PathBuf {
        let (source, object) = (folder.join("program.c"), folder.join("program.o"));
        std::fs::write(&source, PROGRAM).expect("written");
        let status =
            Command::new("clang").args(["-target", "bpf", "-O2", "-g", "-c", "-o"]).args([&object, &source]).status();
        assert!(status.expect("clang is installed (apt-get install clang)").success());
        object
    }

    fn subject(file: &std::path::Path, entry: Option<&str>, context: &str) -> Result<Subject> {
        Subject::load(&CodeOptions { file: file.into(), context: context.into(), entry: entry.map(String::from) })
    }

    #[test]
    fn reports_say_what_the_kernel_would_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let object = object(folder.path());
        let report = |entry, disassemble: bool| {
            let subject = subject(&object, Some(entry), "packet").expect("linked");
            let code = subject.code().expect("a legal length");
            match subject.verify(code) {
                Ok(verification) if disassemble => {
                    disassembly::listing(&subject, code, &verification).expect("compiled")
                }
                Ok(verification) => check::accepted(&subject, code, &verification).expect("a report"),
                Err(refusal) => check::refused(&subject, &refusal),
            }
        };
        let good = report("good", false);
        assert!(good.contains("`good` is accepted") && good.contains("no run-time check remains"), "{good}");
        let looping = report("loop", false);
        assert!(looping.contains("checked at run time") && looping.contains("program.c:5"), "{looping}");
        let bad = report("bad", false);
        assert!(bad.contains("`bad` is refused") && bad.contains("program.c:9") && bad.contains("read-only"), "{bad}");
        assert!(bad.contains("bad+1: *(u8 *)(r1 + 0) = r2\n"), "the instruction itself: {bad}");
        let listing = report("good", true);
        assert!(listing.contains("r0 = *(u8 *)(r1 + 12)") && listing.contains("; program.c:2"), "{listing}");
        assert!(listing.contains("movzx eax, byte ptr"), "{listing}");
    }

    #[test]
    fn names_in_an_object_do_not_command_the_terminal() {
        let folder = tempfile::tempdir().expect("a folder");
        let object = object(folder.path());
        let mut bytes = std::fs::read(&object).expect("readable");
        let places: Vec<usize> = (0..bytes.len() - 4).filter(|at| bytes[*at..].starts_with(b"good\0")).collect();
        assert!(!places.is_empty());
        places.into_iter().for_each(|at| bytes[at..at + 4].copy_from_slice(b"\x1b[2J"));
        std::fs::write(&object, bytes).expect("writable");
        let said = subject(&object, None, "packet").expect_err("several entries").to_string();
        assert!(said.contains("`\\u{1b}[2J`") && !said.contains('\x1b'), "{said}");
        assert_eq!(subject::printable("a\x1bb\nc"), "a\\u{1b}b\nc");
    }

    #[test]
    fn what_cannot_be_loaded_is_said_in_one_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = folder.path().join("text");
        std::fs::write(&text, "no object").expect("written");
        let said = |file: &std::path::Path, context| subject(file, None, context).expect_err("refused").to_string();
        assert!(said(&text, "packet").contains("compile with `clang -target bpf -c`"));
        assert!(said(&folder.path().join("missing"), "packet").contains("No such file"));
        assert!(said(std::path::Path::new("/dev/zero"), "packet").contains("more than 4194304 bytes"));
        assert!(said(&text, "kitchen").contains("choose one of packet, owns, memory"));
        assert!(said(&object(folder.path()), "packet").contains("choose one of `good`, `loop`, `bad`"));
    }
}
