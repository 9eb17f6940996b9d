//! Whether Chitin runs under KVM on this host. Some hosts have the device, run small guests under it, and hang at what
//! a kernel does. They carry out a guest's privileged instructions themselves and do not know them all. So Chitin
//! itself is tried, with a program that its root file system does not have, until it has said so and stopped.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::boot_archive;
use crate::build::Images;
use crate::channel::session::{Listener, Session};
use crate::command_record::ProgramCommand;
use crate::failure::{Context, Failure, Result};
use crate::progress::Progress;
use crate::qemu::{Accelerator, AcceleratorChoice, Files, Machine, Running, Stop};
use crate::root::Tree;
use crate::scratch;

/// Far more than it takes: under emulation it is done in half a second.
const LIMIT: Duration = Duration::from_secs(10);

/// What is known of KVM on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Works,
    /// It cannot be used: why.
    Fails(String),
    NotTried,
}

/// The accelerator for a choice.
///
/// # Errors
/// When KVM was asked for and does not work here, or cannot be tried.
pub fn choose(choice: AcceleratorChoice, cache: &Path, images: &Images) -> Result<Accelerator> {
    if choice == AcceleratorChoice::Tcg {
        return Ok(Accelerator::Tcg);
    }
    match answer(cache, images)? {
        Answer::Works => Ok(Accelerator::Kvm),
        Answer::Fails(reason) if choice == AcceleratorChoice::Kvm => {
            Err(Failure::new(format!("--accel kvm: {reason}")))
        }
        _ => Ok(Accelerator::Tcg),
    }
}

/// Whether KVM works, which is tried if no answer is recorded. What cannot be tried does not work, and is tried again
/// the next time.
///
/// # Errors
/// When the answer cannot be kept.
pub fn answer(cache: &Path, images: &Images) -> Result<Answer> {
    let known = known(cache);
    if known != Answer::NotTried {
        return Ok(known);
    }
    let mut progress = Progress::step("trying whether Chitin runs under KVM");
    progress.busy_with("");
    let word = match runs(Accelerator::Kvm, images) {
        Ok(runs) => {
            if runs {
                WORKS
            } else {
                HANGS
            }
        }
        Err(failure) => return Ok(Answer::Fails(failure.to_string())),
    };
    let file = cache.join(FILE);
    fs::create_dir_all(cache).context(cache.display())?;
    fs::write(&file, format!("{}{word}\n", host())).context(file.display())?;
    Ok(meaning(word))
}

/// What is known without a trial. An answer is kept until the host has another kernel or CPU.
pub fn known(cache: &Path) -> Answer {
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        return Answer::Fails(format!("/dev/kvm cannot be used ({error})"));
    }
    let said = fs::read_to_string(cache.join(FILE)).unwrap_or_default();
    said.strip_prefix(&host()).map_or(Answer::NotTried, |word| meaning(word.trim()))
}

/// Where the answer is kept.
const FILE: &str = "chitin-under-kvm";
const WORKS: &str = "works";
const HANGS: &str = "hangs";

fn meaning(word: &str) -> Answer {
    match word {
        WORKS => Answer::Works,
        HANGS => Answer::Fails("/dev/kvm is there, but Chitin does not run under it on this host".into()),
        _ => Answer::NotTried,
    }
}

/// The kernel and the CPU of this host.
fn host() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo");
    let is_told = |line: &&str| ["model name", "stepping", "microcode"].iter().any(|word| line.starts_with(word));
    let told: Vec<&str> = processor.lines().take_while(|line| !line.is_empty()).filter(is_told).collect();
    format!("{}{}\n", read("/proc/version"), told.join("\n"))
}

/// Whether Chitin comes up under an accelerator, looks for its program, and stops.
///
/// # Errors
/// When QEMU cannot be started.
pub fn runs(accelerator: Accelerator, images: &Images) -> Result<bool> {
    let place = scratch::folder()?;
    let archive = place.path().join("archive");
    let file = File::create(&archive).context("cannot write the boot archive")?;
    let command = ProgramCommand {
        arguments: vec!["/no-such-program".into()],
        working_directory: "/".into(),
        ..ProgramCommand::default()
    };
    boot_archive::with_exos(file, images, &Tree::new(), &command)?;
    let machine = Machine { accelerator, cpus: 2, ..Machine::default() };
    let (mut running, stream) = Running::start(&machine, &Files { kernel: images.kernel.clone(), archive })?;
    let session = Session::new(stream).context("host channel")?;
    let end = session.serve(&mut Deaf, Some(Instant::now() + LIMIT));
    Ok(end.record.is_some() && running.stop()? == Stop::InOrder)
}

/// What it says does not matter.
struct Deaf;

impl Listener for Deaf {
    fn output(&mut self, _: &[u8]) {}
    fn error(&mut self, _: &[u8]) {}
    fn log(&mut self, _: &str) {}
    fn test_result(&mut self, _: bool, _: &str, _: &str) {}
    fn measurement(&mut self, _: &str, _: &str, _: &str) {}
}
