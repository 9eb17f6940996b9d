//! Boots the kernel `machine-test` (kernel/image/src/bin) in QEMU. Each boot has a time limit; only the expected exit
//! status counts, because a triple fault looks like an orderly end.

#![forbid(unsafe_code)]

use abi::host_channel::stop;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Exit status of a machine that stopped in order.
pub const IN_ORDER: i32 = status(stop::IN_ORDER);
/// Exit status after a kernel panic.
pub const PANIC: i32 = status(stop::PANIC);
/// Exit status of a machine that could not boot.
pub const BOOT_FAILURE: i32 = status(stop::BOOT_FAILURE);
const FLAGS: &str = "-Crelocation-model=static -Ccode-model=kernel -Cforce-frame-pointers=yes";
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// QEMU's exit status for a value written to the debug-exit port.
const fn status(value: u32) -> i32 {
    (value << 1 | 1) as i32
}

/// Builds the test kernel once, in a target folder of its own; the file of the kernel.
fn kernel() -> &'static Path {
    static KERNEL: OnceLock<PathBuf> = OnceLock::new();
    KERNEL.get_or_init(|| {
        let program = std::env::current_exe().expect("this program has a file");
        // This program lies in the folder of dependencies of a profile of the target folder.
        let target = program.ancestors().nth(3).expect("a target folder").join("machine-test");
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["build", "--quiet", "--profile", "kernel", "--target", "x86_64-unknown-none", "--package", "image"])
            .args(["--bin", "machine-test", "--features", "trace", "--target-dir"])
            .arg(&target)
            .env("RUSTFLAGS", FLAGS)
            .env_remove("CARGO_ENCODED_RUSTFLAGS");
        if !has_rustup() {
            build_as_debian_does(&mut cargo);
        }
        let status = cargo.status().expect("cargo runs");
        assert!(status.success(), "the test kernel does not build");
        target.join("x86_64-unknown-none/kernel/machine-test")
    })
}

/// The front door's rule: rustup's toolchain wherever there is one, else Debian's.
fn has_rustup() -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("rustup").is_file()))
}

/// Debian's Rust has the sources of the library instead of one that was built for the bare machine, and no linker
/// of its own.
fn build_as_debian_does(cargo: &mut Command) {
    cargo
        .args(["-Zbuild-std=core,alloc", "-Zbuild-std-features=compiler-builtins-mem"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", format!("{FLAGS} -Clinker-flavor=ld -Clinker=/usr/bin/ld"));
}

/// A machine to boot.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// QEMU's board, with its options.
    pub board: &'a str,
    /// QEMU's CPU model.
    pub model: &'a str,
    /// CPUs.
    pub cpus: u32,
    /// Memory, as QEMU reads it.
    pub memory: &'a str,
    /// The kernel's command line.
    pub command_line: &'a str,
    /// Further arguments of QEMU.
    pub extra: &'a [&'a str],
    /// Where the serial line goes, as QEMU reads it.
    pub serial: &'a str,
}

impl Machine<'_> {
    /// A small machine with this command line.
    pub fn new(command_line: &str) -> Machine<'_> {
        Machine {
            board: "microvm",
            model: "max",
            cpus: 1,
            memory: "256M",
            command_line,
            extra: &[],
            serial: "file:/dev/stderr",
        }
    }

    /// Starts it with a console that loses nothing.
    pub fn start(&self) -> Child {
        self.start_with(&["-device", "virtserialport,chardev=channel,nr=1"])
    }

    /// Starts it with this port on its console.
    pub fn start_with(&self, port: &[&str]) -> Child {
        let console: &[&str] = if self.board.starts_with("microvm") {
            &["-global", "virtio-mmio.force-legacy=false", "-device", "virtio-serial-device"]
        } else {
            &["-device", "virtio-serial-pci,disable-legacy=on"]
        };
        Command::new("qemu-system-x86_64")
            .args(["-accel", "tcg", "-nodefaults", "-display", "none", "-no-reboot"])
            .args(["-M", self.board, "-cpu", self.model, "-smp", &self.cpus.to_string(), "-m", self.memory])
            .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-serial", self.serial])
            .args(console)
            .args(["-chardev", "stdio,id=channel,signal=off"])
            .args(port)
            .args(["-append", self.command_line])
            .args(self.extra)
            .arg("-kernel")
            .arg(kernel())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("qemu-system-x86_64 runs")
    }

    /// Boots it and expects this exit status; what the serial line carried.
    pub fn ends_with(&self, expected: i32) -> String {
        let (status, serial) = finish(self.start());
        assert_eq!(status, Some(expected), "on {} {} x{}:\n{serial}", self.board, self.model, self.cpus);
        serial
    }
}

/// Waits for the end, within the time limit; exit status and serial line.
pub fn finish(mut machine: Child) -> (Option<i32>, String) {
    let mut errors = machine.stderr.take().expect("piped");
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read until an error is what there is.
        let _ = errors.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let end = Instant::now() + TIME_LIMIT;
    let status = loop {
        match machine.try_wait().expect("the machine can be waited for") {
            Some(status) => break status.code(),
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            None => {
                machine.kill().expect("the machine can be killed");
                machine.wait().expect("it was killed");
                break None;
            }
        }
    };
    (status, reader.join().expect("the reader does not panic"))
}

/// A serial line that takes nothing: two pipes in a folder without a reader, the one for output full. What QEMU calls
/// it, and what keeps it full.
pub fn full_serial_line(folder: &Path) -> (String, File) {
    let line = folder.join("line");
    let pipes = ["in", "out"].map(|end| line.with_extension(end));
    let made = Command::new("mkfifo").args(&pipes).status().expect("mkfifo runs");
    assert!(made.success(), "no pipe in {}", folder.display());
    let mut full = OpenOptions::new().read(true).write(true).custom_flags(NO_WAIT).open(&pipes[1]).expect("a pipe");
    while full.write(&[b'.'; 4096]).is_ok() {}
    while full.write(b".").is_ok() {}
    (format!("pipe:{}", line.display()), full)
}

/// O_NONBLOCK.
const NO_WAIT: i32 = 0o4000;

/// Injects non-maskable interrupts until the machine is gone; how many were accepted.
pub fn inject(socket: &Path) -> usize {
    let end = Instant::now() + TIME_LIMIT;
    let stream = loop {
        match UnixStream::connect(socket) {
            Ok(stream) => break stream,
            Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("no connection to the machine's monitor: {error}"),
        }
    };
    let mut lines = BufReader::new(stream.try_clone().expect("a second handle")).lines().map_while(Result::ok);
    let ask = |command: &str| (&stream).write_all(format!("{{\"execute\":\"{command}\"}}\n").as_bytes()).is_ok();
    if lines.next().is_none() || !ask("qmp_capabilities") {
        return 0;
    }
    let mut accepted = 0;
    for line in lines {
        if line.contains("\"return\"") {
            accepted += 1;
            std::thread::sleep(Duration::from_millis(1));
            if !ask("inject-nmi") {
                break;
            }
        }
    }
    accepted
}
