//! `./chitin run`: boots a machine, runs one program in it with this terminal
//! or these pipes, and ends as the program ended.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use clap::{Args, ValueEnum};
use rustix::io::Errno;
use rustix::process::Signal;
use signal_hook::consts::SIGWINCH;
use signal_hook::iterator::Signals;

use crate::build::{self, Images};
use crate::channel::FrameWriter;
use crate::channel::input;
use crate::channel::session::{Listener, Session, SessionEnd, StreamEnd};
use crate::command_record::ProgramCommand;
use crate::failure::{Context, Failure, Result};
use crate::qemu::{AcceleratorChoice, Files, Machine, Running, Stop};
use crate::root::{self, Tree};
use crate::terminal::{self, RawMode};
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;
use crate::{answer, boot_archive, interrupt, kernel_trace, kvm, scratch, size};

/// Where programs are looked for, inside the machine.
pub const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// MiB that a machine needs beside its archive.
const LEAST_MEMORY: u64 = 32;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Root file system: a directory or a tar (default: a small built-in one)
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,
    /// Set an environment variable of the program
    #[arg(short, long, value_name = "K=V", value_parser = variable)]
    env: Vec<String>,
    /// Directory that the program starts in
    #[arg(short, long, value_name = "DIR", default_value = "/")]
    workdir: String,
    /// Memory of the machine, such as 64M or 2G
    #[arg(short, long, value_name = "SIZE", default_value = "256M", value_parser = size::mebibytes)]
    memory: u64,
    /// CPUs of the machine
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    cpus: u32,
    /// What runs the machine's instructions
    #[arg(long, value_enum, default_value_t)]
    accel: AcceleratorChoice,
    /// Let the machine's clock count instructions, so that runs repeat exactly
    #[arg(long)]
    icount: bool,
    /// Wait for a debugger on port 1234 before the first instruction
    #[arg(long)]
    gdb: bool,
    /// Show on standard error what happens inside
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', num_args = 0..=1, default_missing_value = "log")]
    trace: Vec<Trace>,
    /// Tell at the end which calls programs made that ExOS does not have
    #[arg(long)]
    syscall_summary: bool,
    /// Tell which files programs looked for and did not find
    #[arg(long)]
    missing_files: bool,
    /// The program and its arguments (default: a shell)
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// What `--trace` can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Trace {
    /// The machine's log, with a line for each program that a fault has ended
    Log,
    /// Each call of each program, with its result
    Syscalls,
    /// The last entries of each CPU into the kernel, when the machine has stopped
    Kernel,
}

impl Options {
    /// Options for ExOS, by their names in the boot archive.
    fn of_exos(&self) -> Vec<String> {
        let wanted = [
            (self.syscall_summary, "syscall-summary"),
            (self.missing_files, "missing-files"),
            (self.trace.contains(&Trace::Syscalls), "trace=syscalls"),
        ];
        wanted.into_iter().filter(|(wanted, _)| *wanted).map(|(_, name)| name.to_owned()).collect()
    }

    /// Whether the log is shown: what ExOS was asked to tell comes through it.
    fn shows_log(&self) -> bool {
        self.trace.iter().any(|trace| *trace != Trace::Kernel) || !self.of_exos().is_empty()
    }
}

/// Runs the program; the answer is its exit status.
///
/// # Errors
/// When it could not be started or the machine failed.
pub fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    let root = root::load(workspace, options.root.as_deref())?;
    let command = command(options, &root)?;
    check_memory(options, &root)?;
    let traces = options.trace.contains(&Trace::Kernel);
    let build = if traces { Images::build_tracing } else { Images::build };
    let images = build(Toolchain::detect(), workspace, build::EXOS)?;
    let machine = machine(workspace, options, &images)?;
    let place = scratch::folder()?;
    let archive = place.path().join("archive");
    let file = File::create(&archive).context("cannot write the boot archive")?;
    boot_archive::with_exos(file, &images, &root, &command)?;

    let (mut running, stream) = Running::start(&machine, &Files { kernel: images.kernel, archive })?;
    let session = Session::new(stream).context("host channel")?;
    let raw = command.terminal.then(RawMode::enter).transpose()?;
    let input = connect(&session, command.terminal)?;
    let mut console = Console::new(options.shows_log(), Arc::clone(&session.writer));
    let end = session.serve(&mut console, None);
    drop(raw);
    let stop = if end.is_over() { running.stop()? } else { Stop::Killed };
    let serial = running.serial();
    let (entries, rest) = kernel_trace::split(&serial);
    entries.iter().for_each(|entry| answer::remark(format_args!("{entry}\n")));
    let status = verdict(&end, &stop, &rest)?;
    console.check()?;
    check_input(&input)?;
    Ok(status)
}

/// Fails if the program was given less input than there is. Who has no input, or whose terminal is gone, misses nothing.
fn check_input(failed: &input::Failed) -> Result<()> {
    match failed.get() {
        Some(error) if !matches!(Errno::from_io_error(error), Some(Errno::BADF | Errno::IO)) => {
            Err(Failure::new(format!("cannot read standard input: {error}")))
        }
        _ => Ok(()),
    }
}

/// What ExOS is to run, after a look whether that can be.
fn command(options: &Options, root: &Tree) -> Result<ProgramCommand> {
    let terminal = terminal::on_both_sides();
    let mut arguments = options.program.clone();
    if arguments.is_empty() {
        arguments.push("/bin/sh".into());
    }
    let given = options.env.iter().rev().find_map(|variable| variable.strip_prefix("PATH="));
    let search = given.unwrap_or(SEARCH);
    arguments[0] = root.find_program(&arguments[0], search, &options.workdir)?;
    let mut environment = vec![format!("PATH={SEARCH}"), "HOME=/root".to_owned()];
    if terminal {
        environment.push(format!("TERM={}", std::env::var("TERM").unwrap_or_else(|_| "linux".into())));
    }
    environment.extend(options.env.iter().cloned());
    Ok(ProgramCommand {
        arguments,
        environment: last_of_each(environment),
        working_directory: options.workdir.clone(),
        terminal,
        options: options.of_exos(),
    })
}

/// Of several variables of one name the last.
fn last_of_each(variables: Vec<String>) -> Vec<String> {
    let name = |variable: &str| variable.split_inclusive('=').next().unwrap_or_default().to_owned();
    let mut kept: Vec<String> = Vec::new();
    for variable in variables {
        kept.retain(|other| name(other) != name(&variable));
        kept.push(variable);
    }
    kept
}

fn check_memory(options: &Options, root: &Tree) -> Result<()> {
    let needed = LEAST_MEMORY + root.size().div_ceil(1 << 20);
    if options.memory < needed {
        let asked = options.memory;
        return Err(Failure::new(format!("--memory {asked}M is too little: this root needs {needed}M at least")));
    }
    Ok(())
}

fn machine(workspace: &Workspace, options: &Options, images: &Images) -> Result<Machine> {
    // Only the emulator counts instructions.
    let choice = if options.icount { AcceleratorChoice::Tcg } else { options.accel };
    let accelerator = kvm::choose(choice, &workspace.cache(), images)?;
    Ok(Machine {
        cpus: options.cpus,
        memory: options.memory,
        accelerator,
        instruction_count: options.icount,
        debugger: options.gdb,
        ..Machine::default()
    })
}

/// Joins input, signals and window size of this command to the machine.
fn connect(session: &Session, terminal: bool) -> Result<input::Failed> {
    let writer = Arc::clone(&session.writer);
    let signals = Arc::clone(&writer);
    // A machine that is gone has ended its program anyway.
    interrupt::redirect(Arc::new(move |signal| drop(signals.send_signal(signal.unsigned_abs()))));
    if terminal {
        follow_window(Arc::clone(&writer))?;
    }
    Ok(input::pump(io::stdin(), writer, Arc::clone(&session.credit)))
}

fn follow_window(writer: Arc<FrameWriter>) -> Result<()> {
    let mut changes = Signals::new([SIGWINCH]).context("cannot watch the window")?;
    let send =
        move || terminal::window_size().is_none_or(|(columns, rows)| writer.send_window_size(columns, rows).is_ok());
    send();
    thread::spawn(move || changes.forever().all(|_| send()));
    Ok(())
}

/// The user's side: bytes go out unchanged and at once.
struct Console {
    trace: bool,
    writer: Arc<FrameWriter>,
    /// Why a stream takes no more: standard output, standard error.
    ended: [Option<io::Error>; 2],
}

impl Console {
    fn new(trace: bool, writer: Arc<FrameWriter>) -> Self {
        Self { trace, writer, ended: [None, None] }
    }

    fn write(&mut self, which: usize, mut stream: impl Write, bytes: &[u8]) {
        if self.ended[which].is_some() {
            return;
        }
        if let Err(error) = stream.write_all(bytes).and_then(|()| stream.flush()) {
            // Nobody takes it any more: the program gets what a pipe's writer gets.
            let _ = self.writer.send_signal(Signal::PIPE.as_raw().unsigned_abs());
            self.ended[which] = Some(error);
        }
    }

    /// Fails if what the program wrote is lost. Whose reader left wants no more.
    fn check(&self) -> Result<()> {
        for (error, name) in self.ended.iter().zip(["output", "error"]) {
            if let Some(error) = error.as_ref().filter(|error| error.kind() != ErrorKind::BrokenPipe) {
                return Err(Failure::new(format!("cannot write to standard {name}: {error}")));
            }
        }
        Ok(())
    }
}

impl Listener for Console {
    fn output(&mut self, bytes: &[u8]) {
        self.write(0, io::stdout().lock(), bytes);
    }

    fn error(&mut self, bytes: &[u8]) {
        self.write(1, io::stderr().lock(), bytes);
    }

    fn log(&mut self, line: &str) {
        if self.trace {
            answer::remark(format_args!("[log] {}\r\n", line.trim_end()));
        }
    }

    fn test_result(&mut self, passed: bool, name: &str, detail: &str) {
        self.log(&format!("test {name}: {} {detail}", if passed { "passed" } else { "failed" }));
    }

    fn measurement(&mut self, name: &str, value: &str, unit: &str) {
        self.log(&format!("{name} = {value} {unit}"));
    }
}

/// The exit status of a run: only a final record and an orderly stop together
/// mean that the program ended.
fn verdict(end: &SessionEnd, stop: &Stop, serial: &str) -> Result<ExitCode> {
    if let (Some(record), Stop::InOrder) = (end.record, stop) {
        return Ok(ExitCode::from(record.status()));
    }
    Err(Failure::new(what_failed(end, stop, serial)))
}

/// One line on why a machine did not bring its program to an end.
pub fn what_failed(end: &SessionEnd, stop: &Stop, serial: &str) -> String {
    let last = serial.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("(nothing)").trim();
    match stop {
        Stop::KernelPanic => format!("the kernel panicked: {}", record_of_panic(serial).unwrap_or_else(|| last.into())),
        Stop::BootFailure => format!("the machine could not boot: {last}"),
        Stop::Reset => format!("the machine reset itself (a triple fault); last on its serial line: {last}"),
        Stop::Emulator(said) => format!("QEMU failed: {said}"),
        Stop::Killed if end.record.is_some() => "the program ended, but the machine did not stop".into(),
        Stop::Killed | Stop::InOrder => match &end.stream {
            StreamEnd::Broken(reason) => reason.clone(),
            StreamEnd::TimedOut => format!("the time limit passed; last on its serial line: {last}"),
            StreamEnd::Closed => {
                format!("the machine stopped without saying how the program ended; last on its serial line: {last}")
            }
        },
    }
}

/// What a dying kernel wrote on its serial line: why, where, and the frames that led there.
fn record_of_panic(serial: &str) -> Option<String> {
    let lines = serial.lines().skip_while(|line| !line.contains("kernel panic on CPU"));
    let lines = lines.take_while(|line| !line.contains("end of record")).map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// `NAME=VALUE` with a name.
fn variable(text: &str) -> std::result::Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() => Ok(text.to_owned()),
        _ => Err("an environment variable is given as NAME=VALUE".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::session::FinalRecord;

    fn end(record: Option<FinalRecord>) -> SessionEnd {
        SessionEnd { record, stream: StreamEnd::Closed }
    }

    #[test]
    fn a_status_counts_only_with_an_orderly_stop() {
        let done = end(Some(FinalRecord::Exited(0)));
        assert!(verdict(&done, &Stop::InOrder, "").is_ok());
        for stop in [Stop::Reset, Stop::KernelPanic, Stop::BootFailure, Stop::Killed, Stop::Emulator(String::new())] {
            assert!(verdict(&done, &stop, "").is_err(), "{stop:?}");
        }
        assert!(verdict(&end(None), &Stop::InOrder, "").is_err());
    }

    #[test]
    fn a_failure_says_the_last_words() {
        let said = what_failed(&end(None), &Stop::KernelPanic, "boot\nassertion failed\n\n");
        assert_eq!(said, "the kernel panicked: assertion failed");
        let record = "boot\nchitin: kernel panic on CPU 1: why\nchitin: rip 0x1\n\nchitin: end of record\n";
        let said = what_failed(&end(None), &Stop::KernelPanic, record);
        assert_eq!(said, "the kernel panicked: chitin: kernel panic on CPU 1: why; chitin: rip 0x1");
        assert!(what_failed(&end(None), &Stop::Reset, "").contains("triple fault"));
    }

    #[test]
    fn what_exos_tells_is_shown() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: Options,
        }
        let parse = |line: &str| <Line as clap::Parser>::try_parse_from(line.split(' ')).map(|line| line.options);
        let quiet = parse("run -- /bin/sh").unwrap();
        assert!(quiet.of_exos().is_empty() && !quiet.shows_log());
        let log = parse("run --trace -- /bin/sh").unwrap();
        assert!(log.of_exos().is_empty() && log.shows_log());
        let all = parse("run --trace log,syscalls --syscall-summary --missing-files -- a").unwrap();
        assert_eq!(all.of_exos(), ["syscall-summary", "missing-files", "trace=syscalls"]);
        assert!(parse("run --missing-files -- a").unwrap().shows_log());
        assert!(parse("run --trace weather -- a").is_err());
    }

    #[test]
    fn of_two_variables_the_last_counts() {
        let variables = ["PATH=/bin", "A=1", "AB=2", "A=", "PATH=x=y"].map(str::to_owned).to_vec();
        assert_eq!(last_of_each(variables), ["AB=2", "A=", "PATH=x=y"]);
    }

    #[test]
    fn variables_have_names() {
        assert!(variable("A=").is_ok());
        assert!(variable("=b").is_err());
        assert!(variable("A").is_err());
    }
}
