//! A machine that runs: started with its channel connected, and certain to be
//! gone when this is dropped, whatever happened.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use abi::host_channel::stop;

use crate::children::GuardedChild;
use crate::failure::{Context, Failure, Result};
use crate::scratch::{self, Folder};
use crate::toolchain::find_program;

use super::arguments::{self, PROGRAM, Places};
use super::machine::Machine;

/// How long QEMU may take to connect to its socket.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);
/// How long a machine may take to stop after its last word.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// What a machine starts from.
#[derive(Clone, Debug)]
pub struct Files {
    pub kernel: PathBuf,
    pub archive: PathBuf,
}

/// How a machine stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    InOrder,
    KernelPanic,
    BootFailure,
    /// Without a word: a triple fault looks like this.
    Reset,
    /// It did not stop by itself and was killed.
    Killed,
    /// QEMU itself gave up; what it said.
    Emulator(String),
}

pub struct Running {
    child: GuardedChild,
    place: Folder,
}

impl Running {
    /// Starts a machine and waits for its end of the channel.
    ///
    /// # Errors
    /// When QEMU is missing, refuses the machine, or does not connect.
    pub fn start(machine: &Machine, files: &Files) -> Result<(Self, UnixStream)> {
        let place = scratch::folder()?;
        let channel = place.path().join("channel");
        let listener = UnixListener::bind(&channel)
            .context(format!("cannot listen at {} (TMPDIR can name another folder)", channel.display()))?;
        let places = Places {
            kernel: &files.kernel,
            archive: &files.archive,
            serial: &place.path().join("serial"),
            channel: &channel,
        };
        let complaints = place.path().join("complaints");
        let complaints = File::create(&complaints).context(complaints.display())?;
        let mut command = emulator()?;
        command.args(arguments::arguments(machine, &places));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(complaints);
        let mut running = Self { child: GuardedChild::spawn(&mut command)?, place };
        let stream = running.accept(&listener)?;
        Ok((running, stream))
    }

    fn accept(&mut self, listener: &UnixListener) -> Result<UnixStream> {
        listener.set_nonblocking(true).context("the machine's socket")?;
        let deadline = Instant::now() + CONNECT_LIMIT;
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).context("the machine's socket")?;
                    return Ok(stream);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(Failure::new(format!("the machine's socket: {error}"))),
            }
            if self.child.poll()?.is_some() {
                return Err(Failure::new(format!("QEMU did not start: {}", self.complaint())));
            }
            if Instant::now() > deadline {
                return Err(Failure::new(format!(
                    "QEMU did not connect to its socket within {} s: is this host too busy?",
                    CONNECT_LIMIT.as_secs()
                )));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for the machine to stop, after its last word.
    ///
    /// # Errors
    /// When the system will not say how it ended.
    pub fn stop(&mut self) -> Result<Stop> {
        self.stop_within(STOP_LIMIT)
    }

    /// Waits so long at most for the machine to stop.
    ///
    /// # Errors
    /// When the system will not say how it ended.
    pub fn stop_within(&mut self, limit: Duration) -> Result<Stop> {
        let status = self.child.wait(limit)?;
        Ok(status.map_or(Stop::Killed, |status| self.meaning(status)))
    }

    fn meaning(&self, status: ExitStatus) -> Stop {
        // What the debug-exit device makes of a value.
        let code = |value: u32| Some(i32::try_from(value << 1 | 1).unwrap_or(-1));
        match status.code() {
            Some(0) => Stop::Reset,
            number if number == code(stop::IN_ORDER) => Stop::InOrder,
            number if number == code(stop::PANIC) => Stop::KernelPanic,
            number if number == code(stop::BOOT_FAILURE) => Stop::BootFailure,
            _ => Stop::Emulator(format!("{status}: {}", self.complaint())),
        }
    }

    /// What the kernel wrote to the serial line.
    pub fn serial(&self) -> String {
        read(&self.place.path().join("serial"))
    }

    /// The first line of what QEMU complained about.
    fn complaint(&self) -> String {
        let said = read(&self.place.path().join("complaints"));
        let line = said.lines().find(|line| !line.contains("warning:")).unwrap_or("it does not say why");
        line.trim_start_matches(PROGRAM).trim_start_matches(": ").to_owned()
    }
}

fn read(file: &Path) -> String {
    fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// QEMU, killed by the system should this command be killed without warning.
fn emulator() -> Result<Command> {
    let emulator = find_program(PROGRAM)
        .ok_or_else(|| Failure::new(format!("{PROGRAM} is missing: install the package qemu-system-x86")))?;
    let Some(setpriv) = find_program("setpriv") else { return Ok(Command::new(emulator)) };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(emulator);
    Ok(command)
}
