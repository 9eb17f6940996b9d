//! `./chitin run`: boots a machine, runs one program in it with this terminal
//! or these pipes, and ends as the program ended.

mod back_trace;
mod command;
mod console;
mod debugger;
pub mod disk;
pub mod disk_content;
mod disk_root;
mod memory;
pub mod network;
mod options;
mod publish;
mod share;
mod share_back;
mod start_program;
mod stats;
mod unwind;
mod verdict;

use std::fs::File;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use signal_hook::consts::SIGWINCH;
use signal_hook::iterator::Signals;

use crate::build::{self, Images};
use crate::channel::FrameWriter;
use crate::channel::input;
use crate::channel::session::Session;
use crate::command_record::ProgramCommand;
use crate::failure::{Context, Failure, Result};
use crate::qemu::{AcceleratorChoice, Files, Machine, Running, Stop};
use crate::root::{self, Root, Tree};
use crate::terminal::{self, RawMode};
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;
use crate::{answer, boot_archive, interrupt, kernel_trace, kvm, package, scratch};

use back_trace::Crashes;
use console::Console;
use debugger::Debugger;
use disk::Locked;
use disk_content::Content;
use disk_root::Place;
use options::Trace;
use share::Shares;

pub use options::Options;
pub use verdict::what_failed;

/// After so long the user of a program that a signal did not end learns how to stop the machine.
const PATIENCE: Duration = Duration::from_secs(8);

/// Where programs are looked for, inside the machine.
pub const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs the program; the answer is its exit status.
///
/// # Errors
/// When it could not be started or the machine failed.
pub fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    if let Some(program) = &options.native {
        return run_native(workspace, options, program);
    }
    let disks = disk::open_all(&options.disk)?;
    let place = disk_root::place(options, &disks)?;
    let (mut root, shares, mut command) =
        prepare(workspace, options, &place).inspect_err(|_| disk::remove_new(&disks))?;
    let program = command.arguments[0].clone();
    if shares.are_copied_back() {
        shares.wrap(&mut root.tree, &mut command, &root::busybox(&workspace.cache())?)?;
    }
    let has_root = !matches!(place, Place::Memory);
    if has_root {
        root.tree = move_to_disk(&place, &root.tree, &disks)?;
    }
    let memory = memory::choose(options.memory, &root.tree)?;
    let traces = options.trace.contains(&Trace::Kernel);
    let build = if traces { Images::build_tracing } else { Images::build };
    let images = build(Toolchain::detect(), workspace, build::EXOS)?;
    let debugger = options.gdb.then(|| Debugger::prepare(&images, &root, &program)).transpose()?;
    if !disks.is_empty() {
        command.options.push(disk::option(&disks, has_root));
    }
    let machine = Machine {
        disks: disks.iter().map(|(locked, _)| locked.disk.clone()).collect(),
        debugger: debugger.as_ref().map(Debugger::socket),
        ..machine(workspace, options, memory, &images)?
    };
    let place = scratch::folder()?;
    let archive = place.path().join("archive");
    let file = File::create(&archive).context("cannot write the boot archive")?;
    boot_archive::with_exos(file, &images, &root.tree, &command)?;
    hold(options, &machine, &Files { kernel: images.kernel, archive }, command.terminal, shares, root.tree)
}

/// Runs a program of `app/` as the first environment of the machine.
fn run_native(workspace: &Workspace, options: &Options, program: &str) -> Result<ExitCode> {
    let images = Images::build(Toolchain::detect(), workspace, build::NATIVE)?;
    let machine = machine(workspace, options, memory::choose(options.memory, &Tree::new())?, &images)?;
    let place = scratch::folder()?;
    let archive = place.path().join("archive");
    let file = File::create(&archive).context("cannot write the boot archive")?;
    boot_archive::with_program(file, &images, program)?;
    hold(options, &machine, &Files { kernel: images.kernel, archive }, false, Shares::default(), Tree::new())
}

/// Runs the machine with this root until its program ends; the answer is the program's status.
fn hold(
    options: &Options,
    machine: &Machine,
    files: &Files,
    terminal: bool,
    shares: Shares,
    root: Tree,
) -> Result<ExitCode> {
    let started = Instant::now();
    let (mut running, stream) = Running::start(machine, files)?;
    let session = Session::new(stream).context("host channel")?;
    let raw = terminal.then(RawMode::enter).transpose()?;
    let input = connect(&session, terminal)?;
    let mut console = Console::new(options.shows_log(), Arc::clone(&session.writer), shares, Crashes::of(root));
    let end = session.serve(&mut console, None);
    console.finish();
    drop(raw);
    let stop = if end.is_over() { running.stop()? } else { Stop::Killed };
    let serial = running.serial();
    let (entries, rest) = kernel_trace::split(&serial);
    entries.iter().for_each(|entry| answer::remark(format_args!("{entry}\n")));
    let status = verdict::verdict(&end, &stop, &rest)?;
    if let Some(file) = &options.stats {
        console.stats.report(file.as_deref(), started.elapsed(), options.icount)?;
    }
    console.check()?;
    console.shares.copy_back()?;
    check_input(&input)?;
    Ok(status)
}

/// The root with the shared folders in it, and what it is to run, which may lie in one of them.
fn prepare(workspace: &Workspace, options: &Options, place: &Place) -> Result<(Root, Shares, ProgramCommand)> {
    let mut root = load_at(workspace, options, place)?;
    let shares = Shares::load(&options.volume, &mut root.tree)?;
    let command = command::prepare(options, &mut root)?;
    Ok((root, shares, command))
}

/// The root as it is before the run. With a root on a disk an image says how it is run, and nothing more.
fn load_at(workspace: &Workspace, options: &Options, place: &Place) -> Result<Root> {
    match place {
        Place::Disk(tree) if options.image.is_some() => Ok(Root { tree: tree.clone(), ..load(workspace, options)? }),
        Place::Disk(tree) => Ok(Root::from(tree.clone())),
        _ => load(workspace, options),
    }
}

/// What of the root lies in memory when the rest is on the disk. Copies that rest, unless it is there.
fn move_to_disk(place: &Place, tree: &Tree, disks: &[(Locked, Content)]) -> Result<Tree> {
    if let (Place::ToCopy, Some((locked, _))) = (place, disks.first()) {
        disk_root::copy(tree, locked)?;
    }
    Ok(disk_root::in_memory(tree))
}

fn load(workspace: &Workspace, options: &Options) -> Result<Root> {
    match (&options.root, &options.image) {
        (None, None) if !options.packages.is_empty() => package::load(workspace, &options.packages),
        (None, None) => root::built_in(workspace),
        (_, Some(path)) => root::load(workspace, "--image", path),
        (Some(path), None) => {
            // Only --image runs what an image names.
            let tree = root::load(workspace, "--root", path)?.tree;
            Ok(Root::from(tree))
        }
    }
}

/// Fails if the program was given less input than there is. A program without input, or whose terminal is gone, misses
/// nothing.
fn check_input(failed: &input::Failed) -> Result<()> {
    match failed.get() {
        Some(error) if !matches!(Errno::from_io_error(error), Some(Errno::BADF | Errno::IO)) => {
            Err(Failure::new(format!("cannot read standard input: {error}")))
        }
        _ => Ok(()),
    }
}

fn machine(workspace: &Workspace, options: &Options, memory: u64, images: &Images) -> Result<Machine> {
    // Only the emulator counts instructions.
    let choice = if options.icount { AcceleratorChoice::Tcg } else { options.accel };
    let accelerator = kvm::choose(choice, &workspace.cache(), images)?;
    // Runs that count instructions repeat exactly: their cards have the same addresses in each.
    let seed = if options.icount { 0 } else { std::process::id() };
    Ok(Machine {
        networks: network::cards(&options.network, &options.publish, options.packets.as_deref(), seed)?,
        cpus: options.cpus,
        memory,
        accelerator,
        instruction_count: options.icount,
        ..Machine::default()
    })
}

/// Joins input, signals and window size of this command to the machine.
fn connect(session: &Session, terminal: bool) -> Result<input::Failed> {
    let writer = Arc::clone(&session.writer);
    let signals = Arc::clone(&writer);
    // A machine that is gone has ended its program anyway.
    interrupt::redirect(Arc::new(move |signal| {
        drop(signals.send_signal(signal.unsigned_abs()));
        thread::sleep(PATIENCE);
        answer::remark(
            "chitin: the signal was passed on and the program still runs: the same again stops the machine\n",
        );
    }));
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
