//! Boots either system on the same machine, runs programs that measure, and
//! hands back what they said. Every boot has a time limit; what was said
//! before it passed, or before anything else went wrong, is kept.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use chitin::boot_archive;
use chitin::build::Images;
use chitin::channel::session::{Listener, Session};
use chitin::children::GuardedChild;
use chitin::command_record::ProgramCommand;
use chitin::failure::{Context, Failure, Result};
use chitin::interrupt::Interruption;
use chitin::qemu::{Accelerator, Board, Cpu, Disk, Files, Machine, PROGRAM, Plugin, Running, Stop};
use chitin::root::Tree;
use chitin::run;
use chitin::scratch;
use chitin::workspace::Workspace;

use super::catalogue::{Kind, Program};
use super::profile::Symbols;
use super::report::{Clock, Report};
use super::{events, peer, served};

/// MiB of memory of either system.
const MEMORY: u64 = 512;
/// How long the peer may take to come up, by either clock.
const PEER_BOOT: Duration = Duration::from_secs(90);
/// How long a QEMU that refuses a plugin may take to say so.
const PLUGIN_TRIAL: Duration = Duration::from_millis(700);
/// What every command line of the peer has: where it speaks, and that it does not wait when it dies.
const PEER_BASE: &str = "console=ttyS0 quiet panic=-1";
/// What gives it its best: no mitigations, no clearing of pages, no security modules, a clock that it trusts.
const PEER_TUNED: &str = "mitigations=off init_on_alloc=0 audit=0 apparmor=0 selinux=0 lsm= \
                          randomize_kstack_offset=off nokaslr tsc=reliable disk_noatime=1 disk_options=data=writeback";

/// Why a server cannot be measured.
const UNCOUNTED: &str = "no plugin counts what the machine executes";

/// A system that programs are measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Linux, configured to be as fast as it can.
    LinuxTuned,
    /// Linux as Debian configures it.
    LinuxStock,
    Chitin,
}

impl System {
    /// The kernel's command line.
    pub fn command_line(self) -> String {
        match self {
            Self::LinuxTuned => format!("{PEER_BASE} {PEER_TUNED}"),
            Self::LinuxStock => PEER_BASE.to_owned(),
            Self::Chitin => String::new(),
        }
    }
}

/// What all boots share.
pub struct Ground<'a> {
    pub workspace: &'a Workspace,
    /// Chitin's kernel and guest programs.
    pub images: Images,
    /// The peer's kernel.
    pub peer: Result<PathBuf>,
    /// Where compiled programs are put.
    pub folder: &'a Path,
    /// The plugin that counts events, where this QEMU takes it.
    pub plugin: Option<PathBuf>,
    /// The longest that any boot may take, where the user says so.
    pub limit: Option<Duration>,
    /// Whether the measuring has to end.
    pub interruption: Interruption,
    /// The root file system of both, without the programs; made (and, the first time ever, fetched) when first needed.
    pub root: OnceCell<std::result::Result<Tree, String>>,
}

/// The machine that everything is measured on; only the clock and the kernel differ.
pub fn machine(system: System, clock: Clock, cpus: u32) -> Machine {
    Machine {
        board: Board::Q35,
        cpu: if clock == Clock::PlainNanoseconds { Cpu::MeasuredPlain } else { Cpu::Measured },
        cpus,
        memory: MEMORY,
        accelerator: Accelerator::Tcg,
        instruction_count: clock == Clock::Instructions,
        command_line: system.command_line(),
        ..Machine::default()
    }
}

impl Ground<'_> {
    /// The root file system of both systems, with these programs in it.
    fn root(&self, programs: &[&Program]) -> Result<Tree> {
        let load = || {
            let root = chitin::root::built_in(self.workspace);
            root.map(|root| root.tree).map_err(|failure| failure.to_string())
        };
        let mut tree = self.root.get_or_init(load).clone().map_err(Failure::new)?;
        let needed = programs.iter().flat_map(|program| &program.needs).map(String::as_str);
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).chain(needed).collect();
        peer::add_programs(self.workspace, &mut tree, &names, self.folder)?;
        for program in programs.iter().filter(|program| !program.debian.is_empty()) {
            peer::add_debian(self.workspace, &mut tree, &program.debian)?;
        }
        Ok(tree)
    }

    /// The symbols of a program on Chitin, of the kernel, and of ExOS and its server, which lie under a program for
    /// Linux.
    pub fn symbols(&self, program: &str) -> Symbols {
        let mut symbols = Symbols::default();
        symbols.add(&self.images.kernel);
        match self.images.file(program) {
            Some(native) => symbols.add(native),
            None => {
                symbols.add(&self.folder.join(program));
                ["exos", "init"].iter().filter_map(|name| self.images.file(name)).for_each(|file| symbols.add(file));
            }
        }
        symbols
    }

    /// How long a boot may take that should be done after `usual`.
    fn limit(&self, usual: Duration) -> Duration {
        self.limit.map_or(usual, |most| most.min(usual))
    }

    /// The plugin, where it is wanted: it looks at counting runs only, and at one CPU.
    fn plugin(&self, clock: Clock, cpus: u32, place: &Path) -> Option<Plugin> {
        let file = self.plugin.clone().filter(|_| clock == Clock::Instructions && cpus == 1)?;
        Some(Plugin { file, out: place.join("events") })
    }

    /// Boots the peer, with as many CPUs as all of `programs` want, and runs them, one after the other. Whatever goes
    /// wrong is told by their reports.
    pub fn linux(&self, system: System, clock: Clock, programs: &[&Program]) -> Vec<Report> {
        self.unless_interrupted(programs, || self.try_linux(system, clock, programs))
    }

    /// After an interruption nothing begins any more, and what was running says so.
    fn unless_interrupted(&self, programs: &[&Program], run: impl FnOnce() -> Result<Vec<Report>>) -> Vec<Report> {
        const INTERRUPTED: &str = "interrupted";
        let all = |why: &str| -> Vec<Report> { programs.iter().map(|program| broken(program, why)).collect() };
        if self.interruption.signal().is_some() {
            return all(INTERRUPTED);
        }
        let mut reports: Vec<Report> = run().unwrap_or_else(|failure| all(&failure.to_string()));
        if self.interruption.signal().is_some() {
            let broken = reports.iter_mut().filter_map(|report| report.broken.as_mut());
            broken.for_each(|why| INTERRUPTED.clone_into(why));
        }
        reports
    }

    fn try_linux(&self, system: System, clock: Clock, programs: &[&Program]) -> Result<Vec<Report>> {
        let kernel = match &self.peer {
            Ok(kernel) => kernel.clone(),
            Err(failure) => return Ok(programs.iter().map(|program| broken(program, &failure.to_string())).collect()),
        };
        let place = scratch::folder()?;
        let archive = place.path().join("archive");
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        let mut tree = self.root(programs)?;
        let disks = disks(programs, place.path())?;
        for disk in &disks {
            peer::format(&disk.file)?;
            peer::add_mount(&mut tree);
        }
        if !programs[0].serves.is_empty() || !disks.is_empty() {
            peer::add_modules(self.workspace, &mut tree)?;
        }
        peer::write_archive(self.workspace, tree, &names, &archive, self.folder)?;
        let cpus = programs.iter().map(|program| program.cpus).max().unwrap_or(1);
        let machine = Machine { plugin: self.plugin(clock, cpus, place.path()), disks, ..machine(system, clock, cpus) };
        let seconds = programs.iter().map(|program| program.seconds).sum();
        let limit = self.limit(PEER_BOOT + Duration::from_secs(seconds));
        if !programs[0].serves.is_empty() {
            return Ok(vec![self.serve(programs[0], machine, &Files { kernel, archive }, limit)?]);
        }
        let (mut running, _channel) = Running::start(&machine, &Files { kernel, archive })?;
        let stop = running.stop_within(limit)?;
        let serial = running.serial();
        drop(running);
        let mut reports = split(&serial, programs, &reason(&stop, limit));
        self.join(&mut reports, &place.path().join("events"));
        count_busy(&mut reports, programs, clock);
        Ok(reports)
    }

    /// Boots Chitin and runs one program: under ExOS, or, a native one, on its own. Whatever goes wrong is told by its
    /// report.
    pub fn chitin(&self, clock: Clock, program: &Program) -> Vec<Report> {
        self.unless_interrupted(&[program], || self.try_chitin(clock, program).map(|report| vec![report]))
    }

    fn try_chitin(&self, clock: Clock, program: &Program) -> Result<Report> {
        let place = scratch::folder()?;
        let archive = place.path().join("archive");
        self.write_archive(&archive, program)?;
        let plugin = self.plugin(clock, program.cpus, place.path());
        let disks = disks(&[program], place.path())?;
        let command_line = program.kernel.clone();
        let machine = Machine { plugin, disks, command_line, ..machine(System::Chitin, clock, program.cpus) };
        let limit = self.limit(Duration::from_secs(program.seconds));
        if !program.serves.is_empty() {
            return self.serve(program, machine, &Files { kernel: self.images.kernel.clone(), archive }, limit);
        }
        let deadline = Instant::now() + limit;
        let (mut running, stream) = Running::start(&machine, &Files { kernel: self.images.kernel.clone(), archive })?;
        let session = Session::new(stream).context("host channel")?;
        let mut hearer = Hearer::of(&program.name);
        let end = session.serve(&mut hearer, Some(deadline));
        let stop = if end.is_over() { running.stop()? } else { Stop::Killed };
        let status = end.record.map(|record| record.status());
        let failure = match (status, &stop) {
            (Some(0), Stop::InOrder) => None,
            (Some(status), Stop::InOrder) => Some(format!("it ended with status {status}; it said {:?}", hearer.other)),
            _ => Some(run::what_failed(&end, &stop, &running.serial())),
        };
        drop(running);
        let mut report = hearer.report;
        report.broken = report.broken.or(failure);
        self.join(std::slice::from_mut(&mut report), &place.path().join("events"));
        count_busy(std::slice::from_mut(&mut report), &[program], clock);
        Ok(report)
    }

    /// Boots a machine with a network card, and measures the server that it runs from outside.
    fn serve(&self, program: &Program, machine: Machine, files: &Files, limit: Duration) -> Result<Report> {
        let deadline = Instant::now() + limit;
        let Some(plugin) = &machine.plugin else {
            return Ok(Report { broken: Some(UNCOUNTED.into()), ..Report::of(&program.name) });
        };
        let out = plugin.out.clone();
        let (port, card) = served::card()?;
        let machine = Machine { networks: vec![card], instruction_count: false, ..machine };
        let (running, stream) = Running::start(&machine, files)?;
        let session = Session::new(stream).context("host channel")?;
        let hearer = Hearer::of(&program.name);
        // What it says is taken meanwhile.
        let hearing = thread::spawn(move || {
            let mut hearer = hearer;
            session.serve(&mut hearer, Some(deadline));
            hearer
        });
        let measured = served::measure(port, &program.serves, &out, deadline);
        drop(running);
        let said = hearing.join().map(|hearer| hearer.other).unwrap_or_default();
        let mut report = Report::of(&program.name);
        match measured {
            Ok(figures) => {
                report.figures = figures;
                self.join(std::slice::from_mut(&mut report), &out);
                report.count_busy();
            }
            Err(failure) => report.broken = Some(format!("{failure}; it said {said:?}")),
        }
        Ok(report)
    }

    fn write_archive(&self, file: &Path, program: &Program) -> Result<()> {
        let archive = File::create(file).context("cannot write the boot archive")?;
        if program.kind == Kind::Native {
            return boot_archive::with_program(archive, &self.images, &program.name);
        }
        let command = ProgramCommand {
            arguments: vec![format!("/{}/{}", peer::PLACE, program.name)],
            environment: vec![format!("PATH={}", run::SEARCH), "HOME=/root".into()],
            working_directory: "/".into(),
            options: if program.disk == 0 { Vec::new() } else { vec!["disks=b".into()] },
            ..ProgramCommand::default()
        };
        boot_archive::with_exos(archive, &self.images, &self.root(&[program])?, &command)
    }

    /// Joins what the plugin saw to the reports; what does not fit is left out, and the estimate with it.
    fn join(&self, reports: &mut [Report], file: &Path) {
        let Ok(text) = fs::read_to_string(file) else { return };
        let Ok(seen) = events::parse(&text) else { return };
        // Every figure that was made was also reported: otherwise which windows are whose is not known.
        if seen.len() == reports.iter().map(|report| report.figures.len()).sum::<usize>() {
            let mut seen = seen.into_iter();
            reports.iter_mut().for_each(|report| report.join(&mut seen));
        }
    }
}

/// The disk of a boot, filled with zeros, where one of the programs wants it.
fn disks(programs: &[&Program], place: &Path) -> Result<Vec<Disk>> {
    let mebibytes = programs.iter().map(|program| program.disk).max().unwrap_or(0);
    if mebibytes == 0 {
        return Ok(Vec::new());
    }
    let path = place.join("disk");
    let file = File::create(&path).context(path.display())?;
    file.set_len(mebibytes << 20).context(path.display())?;
    Ok(vec![Disk { file: path, ..Disk::default() }])
}

/// Replaces ticks by the instructions that the plugin saw, where a program waits for a disk: the counting clock also
/// runs while the machine is idle.
fn count_busy(reports: &mut [Report], programs: &[&Program], clock: Clock) {
    if clock == Clock::Instructions {
        let with_disk = reports.iter_mut().zip(programs).filter(|(_, program)| program.disk > 0);
        with_disk.for_each(|(report, _)| report.count_busy());
    }
}

fn broken(program: &Program, why: &str) -> Report {
    Report { broken: Some(why.to_owned()), ..Report::of(&program.name) }
}

fn reason(stop: &Stop, limit: Duration) -> String {
    match stop {
        Stop::Killed => format!("the time limit of {} seconds passed", limit.as_secs()),
        Stop::Emulator(said) => format!("QEMU failed: {said}"),
        Stop::Reset => "the machine reset itself".into(),
        _ => "the machine stopped before it".into(),
    }
}

/// The reports of `programs` in what the peer's first process wrote to the serial line.
fn split(serial: &str, programs: &[&Program], missing: &str) -> Vec<Report> {
    let mut reports: Vec<Report> = programs.iter().map(|program| broken(program, missing)).collect();
    let mut current = None;
    for line in serial.lines() {
        let line = line.trim_end();
        if let Some(version) = line.strip_prefix("bench: system ") {
            reports.iter_mut().for_each(|report| report.version = Some(version.to_owned()));
        } else if let Some(name) = line.strip_prefix("bench: program ") {
            current = reports.iter().position(|report| report.program == name);
        } else if let Some(ended) = line.strip_prefix("bench: status ") {
            let status = ended.rsplit(' ').next().unwrap_or_default();
            let said = |report: &Report| report.broken.clone().filter(|said| said != missing);
            if let Some(report) = current.take().map(|index| &mut reports[index]) {
                report.broken = said(report).or((status != "0").then(|| format!("it ended with status {status}")));
            }
        } else if let Some(index) = current {
            reports[index].hear(line);
        }
    }
    reports
}

/// Collects a program's lines as they come, in pieces.
struct Hearer {
    report: Report,
    rest: String,
    /// The last that was said and is no figure.
    other: String,
}

impl Hearer {
    fn of(program: &str) -> Self {
        Self { report: Report::of(program), rest: String::new(), other: String::new() }
    }
}

impl Listener for Hearer {
    fn output(&mut self, bytes: &[u8]) {
        self.rest.push_str(&String::from_utf8_lossy(bytes));
        while let Some(end) = self.rest.find('\n') {
            let line: String = self.rest.drain(..=end).collect();
            self.report.hear(&line);
            if !line.starts_with("bench: ") {
                self.log(&line);
            }
        }
    }

    fn error(&mut self, bytes: &[u8]) {
        self.log(&String::from_utf8_lossy(bytes));
    }

    fn log(&mut self, line: &str) {
        line.trim().clone_into(&mut self.other);
    }

    fn test_result(&mut self, _passed: bool, _name: &str, _detail: &str) {}

    fn measurement(&mut self, _name: &str, _value: &str, _unit: &str) {}
}

/// Whether this QEMU takes the plugin, or why not: tried on a machine that is never started.
///
/// # Errors
/// When QEMU cannot be started.
pub fn try_plugin(plugin: &Path, folder: &Path) -> Result<std::result::Result<(), String>> {
    let complaints = folder.join("complaints");
    let mut value = plugin.as_os_str().to_owned();
    value.push(",out=");
    value.push(folder.join("tried"));
    let mut command = Command::new(PROGRAM);
    command.args(["-no-user-config", "-nodefaults", "-display", "none", "-machine", "q35", "-accel", "tcg", "-S"]);
    command.arg("-plugin").arg(value).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(File::create(&complaints).context("cannot write")?);
    let mut child = GuardedChild::spawn(&mut command)?;
    if child.wait(PLUGIN_TRIAL)?.is_none() {
        return Ok(Ok(()));
    }
    let said = fs::read_to_string(&complaints).unwrap_or_default();
    Ok(Err(said.lines().last().unwrap_or("it does not say why").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn program(name: &str) -> Program {
        Program {
            name: name.into(),
            kind: Kind::Linux,
            seconds: 1,
            cpus: 1,
            disk: 0,
            serves: Vec::new(),
            kernel: String::new(),
            needs: Vec::new(),
            debian: BTreeMap::new(),
        }
    }

    #[test]
    fn reports_are_split_by_program_and_a_hanging_one_is_partial() {
        let serial = "bench: system Linux 6.1\r\nbench: program a\r\nbench: figure x 1 5\r\nbench: status a 0\r\n\
                      bench: program b\r\nbench: figure y 1 6\r\nbench: status b 139\r\n\
                      bench: program c\r\nbench: figure z 1 7\r\n";
        let all = ["a", "b", "c", "d"].map(program);
        let reports = split(serial, &all.iter().collect::<Vec<_>>(), "too late");
        let told: Vec<(usize, Option<&str>)> =
            reports.iter().map(|report| (report.figures.len(), report.broken.as_deref())).collect();
        assert!(reports.iter().all(|report| report.version.as_deref() == Some("Linux 6.1")));
        let died = Some("it ended with status 139");
        assert_eq!(told, [(1, None), (1, died), (1, Some("too late")), (0, Some("too late"))]);
    }

    #[test]
    fn output_in_pieces_is_heard_by_lines() {
        let mut hearer = Hearer::of("p");
        hearer.output(b"bench: fig");
        hearer.output(b"ure x 1 5\nbench: figure y");
        assert_eq!(hearer.report.figures.len(), 1);
    }

    #[test]
    fn both_systems_get_the_same_machine() {
        let of = |system| Machine { command_line: String::new(), ..machine(system, Clock::Instructions, 1) };
        assert_eq!(of(System::LinuxTuned), of(System::Chitin));
        assert_eq!(of(System::LinuxStock), of(System::Chitin));
    }
}
