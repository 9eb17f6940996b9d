//! Every process that this command starts and must not outlive it. Each is the leader of a process group of its own,
//! which is killed when its guard is dropped or when the command is interrupted.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::failure::{Context, Result};

/// Groups that are alive. A leader is reaped only while this is locked, so
/// that no number in it can belong to a stranger.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A started process; dropping it kills its whole group.
#[derive(Debug)]
pub struct GuardedChild {
    child: Child,
}

impl GuardedChild {
    /// # Errors
    /// When the program cannot be started.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut alive = running();
        let child = command.process_group(0).spawn().context(format!("cannot start {name}"))?;
        alive.insert(child.id());
        Ok(Self { child })
    }

    /// What it writes to the pipes that were asked for.
    pub fn pipes(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// How the process ended, if it has.
    ///
    /// # Errors
    /// When the system will not say.
    pub fn poll(&mut self) -> Result<Option<ExitStatus>> {
        let mut alive = running();
        let status = self.child.try_wait().context("cannot wait for a process")?;
        if status.is_some() {
            kill_group(self.child.id());
            alive.remove(&self.child.id());
        }
        Ok(status)
    }

    /// Waits for the end; `None` when `limit` passes first.
    ///
    /// # Errors
    /// When the system will not say.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        let mut pause = Duration::from_millis(1);
        loop {
            let status = self.poll()?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

impl Drop for GuardedChild {
    fn drop(&mut self) {
        let mut alive = running();
        if alive.remove(&self.child.id()) {
            kill_group(self.child.id());
            // Killed for certain, so this ends at once.
            let _ = self.child.wait();
        }
    }
}

/// Kills what runs now.
pub fn kill_running() {
    running().iter().for_each(|group| kill_group(*group));
}

/// Kills whatever still runs: the command is about to end, and starts nothing more.
pub fn kill_all() {
    let alive = running();
    alive.iter().for_each(|group| kill_group(*group));
    std::mem::forget(alive);
}

fn kill_group(leader: u32) {
    let pid = i32::try_from(leader).ok().and_then(Pid::from_raw);
    // A group that is gone already is what is wanted.
    let _ = pid.map(|pid| kill_process_group(pid, Signal::KILL));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_passes_and_the_whole_group_dies() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & echo $! ; wait"]).stdout(std::process::Stdio::piped());
        let mut child = GuardedChild::spawn(&mut shell).unwrap();
        let mut line = String::new();
        let stdout = child.pipes().0.unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        assert!(child.wait(Duration::from_millis(30)).unwrap().is_none());
        drop(child);
        assert!(is_dead_within(line.trim(), Duration::from_secs(5)));
    }

    /// A process without a parent that reaps it stays a zombie: that counts.
    fn is_dead_within(pid: &str, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            if stat.is_empty() || stat.contains(") Z ") {
                return true;
            }
            thread::sleep(Duration::from_millis(10));
        }
        false
    }

    #[test]
    fn the_exit_status_comes_back() {
        let mut child = GuardedChild::spawn(Command::new("sh").args(["-c", "exit 7"])).unwrap();
        assert_eq!(child.wait(Duration::from_secs(10)).unwrap().unwrap().code(), Some(7));
    }
}
