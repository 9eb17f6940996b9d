//! Guest tests: each boots a machine of its own, listens to it, and compares
//! what it said and how it stopped with what the registry expects.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chitin::boot_archive::{self, FirstProgram};
use chitin::build::{self, Images};
use chitin::channel::input;
use chitin::channel::session::{FinalRecord, Listener, Session, SessionEnd};
use chitin::command_record::ProgramCommand;
use chitin::failure::{Context, Failure, Result};
use chitin::qemu::{Disk, Files, Link, Machine, NetworkCard, Running, Stop};
use chitin::root::{self, Tree};
use chitin::run;
use chitin::scratch;
use chitin::size;
use chitin::toolchain::Toolchain;
use chitin::workspace::Workspace;

use super::Depth;
use super::case::{Case, Verdict};
use super::configuration::Configuration;
use super::dialogue;
use super::interrupts;
use super::kernel_tables;
use super::linux_program::{self, Product};
use super::registry::{self, ExpectedStop, Guest, GuestDisk};
use super::wire::{self, Peer, Wire};

/// What all guests share.
struct Ground {
    images: Images,
    /// The built-in root; only guests under ExOS have one.
    root: Option<Tree>,
    /// What became of the C sources.
    products: BTreeMap<(String, Product), Vec<u8>>,
}

impl Ground {
    /// The built-in root with the programs of one guest. Those of others would take its memory.
    fn root_of(&self, guest: &Guest) -> Option<Tree> {
        let mut root = self.root.clone()?;
        for (source, product) in guest.sources() {
            linux_program::put(&mut root, source, self.products[&(source.to_owned(), product)].clone());
        }
        Some(root)
    }
}

/// All guest tests of this depth whose name, or the name of one of whose
/// results, contains `filter`. Quick runs take the first machine of each only.
///
/// # Errors
/// When the list makes no sense.
pub fn cases(toolchain: Toolchain, workspace: &Workspace, depth: Depth, filter: &str) -> Result<Vec<Case>> {
    let mut chosen = Vec::new();
    for guest in registry::read(toolchain, workspace)?.into_iter().filter(|guest| guest.depth <= depth) {
        let mut machines = guest.on.list();
        match depth {
            Depth::Quick => machines.truncate(1),
            Depth::Default => {}
            Depth::Full => machines.extend(guest.on_in_full.iter().cloned()),
        }
        let guest = Arc::new(guest);
        chosen.extend(machines.into_iter().map(|machine| (name(&guest, &machine), Arc::clone(&guest), machine)));
    }
    chosen.retain(|(name, guest, _)| name.contains(filter) || guest.results.iter().any(|row| row.contains(filter)));
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let sources = chosen.iter().flat_map(|(_, guest, _)| guest.sources()).collect();
    let with_root = chosen.iter().any(|(_, guest, _)| guest.program.is_none() || guest.starts_exos());
    let ground = match prepare(toolchain, workspace, with_root, &sources) {
        Ok(ground) => Arc::new(ground),
        Err(failure) => return Ok(vec![Case::failed("build::guest", failure.to_string())]),
    };
    let case = |(name, guest, configuration): (String, Arc<Guest>, Configuration)| {
        let ground = Arc::clone(&ground);
        let weight = Duration::from_secs(guest.seconds);
        Case::new(name, weight, move |transcript| boot(&ground, &guest, &configuration, transcript))
    };
    Ok(chosen.into_iter().map(case).collect())
}

fn name(guest: &Guest, machine: &Configuration) -> String {
    format!("guest::{}@{machine}", guest.name)
}

/// C sources, and what becomes of each.
type Sources<'a> = BTreeSet<(&'a str, Product)>;

fn prepare(toolchain: Toolchain, workspace: &Workspace, with_root: bool, sources: &Sources) -> Result<Ground> {
    let images = Images::build(toolchain, workspace, build::TESTED)?;
    let root = with_root.then(|| root::built_in(workspace).map(|root| root.tree)).transpose()?;
    let build = |(source, product): &(&str, Product)| {
        Ok(((source.to_string(), *product), linux_program::build(workspace, source, *product)?))
    };
    let products = sources.iter().map(build).collect::<Result<_>>()?;
    Ok(Ground { images, root, products })
}

/// One boot from start to verdict.
fn boot(ground: &Ground, guest: &Guest, configuration: &Configuration, transcript: File) -> Verdict {
    if !guest.dialogue.is_empty() {
        return dialogue::hold(guest, transcript);
    }
    let mut recorder = Recorder {
        transcript,
        output: Vec::new(),
        results: Vec::new(),
        log: String::new(),
        harm: Vec::new(),
        spoken: Arc::default(),
    };
    let (end, stop, serial) =
        listen(ground, guest, configuration, &mut recorder).map_err(|failure| failure.to_string())?;
    recorder.note("serial line", &serial);
    judge(guest, &recorder, &end, &stop, &serial)
}

fn listen(
    ground: &Ground,
    guest: &Guest,
    configuration: &Configuration,
    recorder: &mut Recorder,
) -> Result<(SessionEnd, Stop, String)> {
    let place = scratch::folder()?;
    let archive = place.path().join("archive");
    write_archive(&archive, ground, guest)?;
    let files = Files { kernel: ground.images.kernel.clone(), archive };
    let deadline = Instant::now() + Duration::from_secs(guest.seconds);
    let monitor = (guest.interrupted || guest.walked).then(|| place.path().join("monitor"));
    let disks = guest.disks.iter().enumerate().map(|(number, disk)| make_disk(place.path(), number, disk));
    let disks = disks.collect::<Result<Vec<_>>>()?;
    let (wires, networks) = connect(place.path(), &guest.peers)?;
    let command_line = guest.kernel.clone();
    let machine =
        Machine { monitor: monitor.clone(), disks, networks, command_line, ..configuration.machine(guest.counting) };
    let (mut running, stream) = Running::start(&machine, &files)?;
    let over = Arc::new(AtomicBool::new(false));
    let (spoken, ended) = (Arc::clone(&recorder.spoken), Arc::clone(&over));
    let (interrupts, walks) = match monitor {
        Some(at) if guest.walked => (None, Some(kernel_tables::walk(at, spoken, ended))),
        at => (at.map(|at| interrupts::inject(at, spoken, ended)), None),
    };
    let session = Session::new(stream).context("host channel")?;
    let source = Cursor::new(guest.input.clone().into_bytes());
    input::pump(source, Arc::clone(&session.writer), Arc::clone(&session.credit));
    let end = session.serve(recorder, Some(deadline));
    over.store(true, Ordering::Release);
    let stop = if end.is_over() { running.stop()? } else { Stop::Killed };
    let serial = running.serial();
    drop(running);
    for wire in wires {
        let fared = wire.finish().map_err(Failure::new)?;
        recorder.note("peer", &fared);
    }
    if let Some(interrupts) = interrupts {
        let count = interrupts.join().unwrap_or(0);
        recorder.note("interrupts", &format!("{count} non-maskable ones were accepted"));
        if stop == Stop::InOrder && count < interrupts::FEWEST {
            return Err(Failure::new(format!("only {count} non-maskable interrupts came through")));
        }
    }
    if let Some(walks) = walks {
        let found = walks.join().unwrap_or_else(|_| Err("the walk of the kernel's page tables panicked".into()));
        recorder.note("page tables", &found.map_err(Failure::new)?);
    }
    Ok((end, stop, serial))
}

/// Starts the peers of the machine's network cards, and describes the cards.
fn connect(place: &Path, peers: &[Peer]) -> Result<(Vec<Wire>, Vec<NetworkCard>)> {
    let card = |(number, peer): (usize, &Peer)| {
        let socket = place.join(format!("wire{number}"));
        let wire = wire::start(*peer, &socket)?;
        let address = [2, 0, 0, 0, 9, 2 + number as u8];
        Ok((wire, NetworkCard { link: Link::Wire(socket), address, packets: None, forwards: Vec::new() }))
    };
    let all = peers.iter().enumerate().map(card).collect::<Result<Vec<_>>>()?;
    Ok(all.into_iter().unzip())
}

fn make_disk(place: &Path, number: usize, disk: &GuestDisk) -> Result<Disk> {
    let path = place.join(format!("disk{number}"));
    let mebibytes = size::mebibytes(&disk.size).map_err(Failure::new)?;
    File::create(&path).and_then(|file| file.set_len(mebibytes << 20)).context("cannot make a disk")?;
    let GuestDisk { read_only, pace, bad_sector, .. } = *disk;
    Ok(Disk { file: path, read_only, pace, bad_sector })
}

fn write_archive(file: &Path, ground: &Ground, guest: &Guest) -> Result<()> {
    let archive = File::create(file).context("cannot write the boot archive")?;
    let command = ProgramCommand {
        arguments: guest.command.clone(),
        environment: vec![format!("PATH={}", run::SEARCH), "HOME=/root".into()],
        working_directory: "/".into(),
        // All disks are made for the test, of zeros.
        options: Vec::from_iter((!guest.disks.is_empty()).then(|| format!("disks={}", "b".repeat(guest.disks.len())))),
        ..ProgramCommand::default()
    };
    match (&guest.program, &ground.root_of(guest)) {
        (Some(program), Some(root)) if guest.starts_exos() => {
            let first =
                FirstProgram { program, systems: &guest.systems, libraries: &guest.libraries, command: &command };
            boot_archive::with_systems(archive, &ground.images, root, &first)
        }
        (None, Some(root)) => boot_archive::with_exos(archive, &ground.images, root, &command),
        (program, _) => boot_archive::with_program(archive, &ground.images, program.as_deref().unwrap_or_default()),
    }
}

/// Everything that must hold; the first thing that does not is the reason.
fn judge(guest: &Guest, recorder: &Recorder, end: &SessionEnd, stop: &Stop, serial: &str) -> Verdict {
    let expected = match guest.stop {
        ExpectedStop::InOrder => Stop::InOrder,
        ExpectedStop::KernelPanic => Stop::KernelPanic,
        ExpectedStop::BootFailure => Stop::BootFailure,
    };
    if *stop != expected || (expected == Stop::InOrder && end.record.is_none()) {
        return Err(run::what_failed(end, stop, serial));
    }
    if let Some((_, name, detail)) = recorder.results.iter().find(|(passed, _, _)| !passed) {
        return Err(format!("{name}: {detail}"));
    }
    let has = |name: &String| recorder.results.iter().any(|(_, reported, _)| reported == name);
    if let Some(missing) = guest.results.iter().find(|name| !has(name)) {
        return Err(format!("{missing} was not reported"));
    }
    if let Some((_, extra, _)) = recorder.results.iter().find(|(_, name, _)| !guest.results.contains(name)) {
        return Err(format!("{extra} is reported, but is not in the table of the guest"));
    }
    if let Some(missing) = guest.serial.iter().find(|words| !serial.contains(words.as_str())) {
        return Err(format!("the serial line does not say {missing:?}"));
    }
    if let Some(missing) = guest.log.iter().find(|words| !recorder.log.contains(words.as_str())) {
        return Err(format!("the machine's log does not say {missing:?}"));
    }
    if let Some(harm) = recorder.harm.first().filter(|_| guest.unharmed) {
        return Err(format!("a library did not stand: {harm}"));
    }
    if guest.output.as_ref().is_some_and(|output| output.as_bytes() != recorder.output) {
        return Err("standard output is not what was expected".into());
    }
    match end.record.map(FinalRecord::status) {
        Some(status) if expected == Stop::InOrder && status != guest.status => {
            Err(format!("exit status {status}, not {}", guest.status))
        }
        _ => Ok(()),
    }
}

/// What a panic of a library says. That a process left SIGKILL unanswered is no harm: on a busy host a willing one may
/// be late.
const HARM: &str = ": panicked at ";

/// Writes down what the machine says.
struct Recorder {
    transcript: File,
    output: Vec<u8>,
    /// Passed, name, detail.
    results: Vec<(bool, String, String)>,
    /// The machine's log, in lines.
    log: String,
    /// Lines that say that a library panicked.
    harm: Vec<String>,
    /// Whether the machine has said anything yet.
    spoken: Arc<AtomicBool>,
}

impl Recorder {
    fn note(&mut self, what: &str, text: &str) {
        self.spoken.store(true, Ordering::Release);
        self.harm.extend(text.lines().filter(|line| line.contains(HARM)).map(str::to_owned));
        let lines = text.lines().map(|line| format!("{what}: {line}\n"));
        // The verdict does not hang on the transcript.
        let _ = self.transcript.write_all(lines.collect::<String>().as_bytes());
    }
}

impl Listener for Recorder {
    fn output(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        self.note("output", &String::from_utf8_lossy(bytes));
    }

    fn error(&mut self, bytes: &[u8]) {
        self.note("error", &String::from_utf8_lossy(bytes));
    }

    fn log(&mut self, line: &str) {
        self.note("log", line);
        self.log.extend([line, "\n"]);
    }

    fn test_result(&mut self, passed: bool, name: &str, detail: &str) {
        self.note(if passed { "passed" } else { "FAILED" }, &format!("{name} {detail}"));
        self.results.push((passed, name.to_owned(), detail.to_owned()));
    }

    fn measurement(&mut self, name: &str, value: &str, unit: &str) {
        self.note("measured", &format!("{name} = {value} {unit}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chitin::channel::session::StreamEnd;

    fn guest() -> Guest {
        let text = "name = 'a'\nprogram = 'p'\noutput = 'hi'\nserial = ['boot']\nstatus = 3";
        Guest { results: vec!["one".into()], ..toml::from_str(text).unwrap() }
    }

    fn recorder() -> Recorder {
        let results = vec![(true, "one".to_owned(), String::new())];
        let (log, harm, spoken) = ("one\n".into(), Vec::new(), Arc::default());
        Recorder { transcript: tempfile::tempfile().unwrap(), output: b"hi".to_vec(), results, log, harm, spoken }
    }

    fn end(record: Option<FinalRecord>) -> SessionEnd {
        SessionEnd { record, stream: StreamEnd::Closed }
    }

    const DONE: Option<FinalRecord> = Some(FinalRecord::Exited(3));

    #[test]
    fn a_guest_passes_only_if_everything_holds() {
        let judge = |guest: &Guest, recorder: &Recorder, record, stop| {
            judge(guest, recorder, &end(record), &stop, "booted").map_err(drop)
        };
        assert_eq!(judge(&guest(), &recorder(), DONE, Stop::InOrder), Ok(()));
        assert!(judge(&guest(), &recorder(), None, Stop::InOrder).is_err(), "no final record");
        assert!(judge(&guest(), &recorder(), Some(FinalRecord::Killed(3)), Stop::InOrder).is_err(), "killed");
        for stop in [Stop::Reset, Stop::KernelPanic, Stop::BootFailure, Stop::Killed] {
            assert!(judge(&guest(), &recorder(), DONE, stop).is_err());
        }
        for spoil in [
            |recorder: &mut Recorder| recorder.output.push(b'!'),
            |recorder: &mut Recorder| recorder.results.clear(),
            |recorder: &mut Recorder| recorder.results[0].0 = false,
            |recorder: &mut Recorder| recorder.results.push((true, "two".into(), String::new())),
        ] {
            let mut spoiled = recorder();
            spoil(&mut spoiled);
            assert!(judge(&guest(), &spoiled, DONE, Stop::InOrder).is_err());
        }
        let mut harmed = recorder();
        harmed.note("error", "environment 7: panicked at lib/exos/x.rs");
        assert_eq!(judge(&guest(), &harmed, DONE, Stop::InOrder), Ok(()), "not asked for");
        assert!(judge(&Guest { unharmed: true, ..guest() }, &harmed, DONE, Stop::InOrder).is_err());
        let silent = Guest { serial: vec!["never said".into()], ..guest() };
        assert!(judge(&silent, &recorder(), DONE, Stop::InOrder).is_err());
        for (words, said) in [("one", true), ("two", false)] {
            let logged = Guest { log: vec![words.into()], ..guest() };
            assert_eq!(judge(&logged, &recorder(), DONE, Stop::InOrder).is_ok(), said);
        }
    }

    #[test]
    fn an_expected_panic_passes_without_a_record() {
        let panics = Guest { stop: ExpectedStop::KernelPanic, ..guest() };
        assert_eq!(judge(&panics, &recorder(), &end(None), &Stop::KernelPanic, "booted"), Ok(()));
        assert!(judge(&panics, &recorder(), &end(DONE), &Stop::InOrder, "booted").is_err());
    }
}
