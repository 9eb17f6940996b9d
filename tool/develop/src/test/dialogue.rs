//! Guests in a dialogue: `./chitin run` with a real pseudo-terminal on both sides, and a test that reads what appears
//! and types.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde::Deserialize;

use chitin::children::GuardedChild;
use chitin::failure::{Context, Result};

use super::case::Verdict;
use super::registry::Guest;

/// One turn: what must appear, then what is typed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Waited for, behind what was seen before.
    #[serde(default)]
    pub see: String,
    /// Typed then.
    #[serde(default, rename = "type")]
    pub keys: String,
}

/// Rows and columns of the terminal.
const SIZE: (u16, u16) = (24, 80);

/// Runs the guest's command in a machine of its own and keeps the dialogue.
pub fn hold(guest: &Guest, transcript: File) -> Verdict {
    talk(guest, transcript).map_err(|failure| failure.to_string()).and_then(|verdict| verdict)
}

fn talk(guest: &Guest, mut transcript: File) -> Result<Verdict> {
    let deadline = Instant::now() + Duration::from_secs(guest.seconds);
    let (mut keyboard, mut child) = start(guest)?;
    let mut screen = Screen::watch(keyboard.try_clone().context("pseudo-terminal")?);
    for (index, turn) in guest.dialogue.iter().enumerate() {
        let seen = screen.wait_for(&turn.see, deadline, &mut transcript);
        if !seen {
            return Ok(Err(format!("turn {index}: {:?} did not appear; last: {:?}", turn.see, screen.last())));
        }
        keyboard.write_all(turn.keys.as_bytes()).context("pseudo-terminal")?;
    }
    screen.drain(deadline, &mut transcript);
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
    Ok(match child.wait(left)?.and_then(|status| status.code()) {
        Some(code) if code == i32::from(guest.status) => Ok(()),
        Some(code) => Err(format!("exit status {code}, not {}", guest.status)),
        None => Err("it did not end".into()),
    })
}

/// The keyboard's side of a new terminal, and the command on the other.
fn start(guest: &Guest) -> Result<(File, GuardedChild)> {
    const WHAT: &str = "cannot make a pseudo-terminal";
    // A leader of a session without a terminal would get this one for its own, and go with it.
    let how = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let keyboard = openpt(how).context(WHAT)?;
    grantpt(&keyboard).context(WHAT)?;
    unlockpt(&keyboard).context(WHAT)?;
    let terminal = File::from(ioctl_tiocgptpeer(&keyboard, how).context(WHAT)?);
    let size = Winsize { ws_row: SIZE.0, ws_col: SIZE.1, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).context(WHAT)?;
    let side = || terminal.try_clone().context(WHAT).map(Stdio::from);
    let mut command = Command::new(super::host_command()?);
    command.arg("run").arg("--").args(&guest.command).env("TERM", "vt100");
    command.stdin(side()?).stdout(side()?).stderr(side()?);
    Ok((File::from(keyboard), GuardedChild::spawn(&mut command)?))
}

/// What appears, as far as no test has waited for it yet.
struct Screen {
    shown: Receiver<Vec<u8>>,
    unseen: Vec<u8>,
}

impl Screen {
    fn watch(mut terminal: File) -> Self {
        let (sender, shown) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // A terminal that no process has open any more cannot be read.
            while let Ok(count @ 1..) = terminal.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { shown, unseen: Vec::new() }
    }

    /// Waits until `words` appear, and drops all up to their end; whether they did.
    fn wait_for(&mut self, words: &str, deadline: Instant, transcript: &mut File) -> bool {
        let words = words.as_bytes();
        loop {
            let found = if words.is_empty() { Some(0) } else { find(&self.unseen, words) };
            if let Some(at) = found {
                self.unseen.drain(..at + words.len());
                return true;
            }
            if !self.receive(deadline, transcript) {
                return false;
            }
        }
    }

    /// Shows all that comes until the other side is closed.
    fn drain(&mut self, deadline: Instant, transcript: &mut File) {
        while self.receive(deadline, transcript) {}
    }

    fn receive(&mut self, deadline: Instant, transcript: &mut File) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.shown.recv_timeout(left) {
            Ok(bytes) => {
                // The verdict does not hang on the transcript.
                let _ = transcript.write_all(&bytes);
                self.unseen.extend(bytes);
                true
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => false,
        }
    }

    fn last(&self) -> String {
        let start = self.unseen.len().saturating_sub(200);
        String::from_utf8_lossy(&self.unseen[start..]).into_owned()
    }
}

fn find(bytes: &[u8], words: &[u8]) -> Option<usize> {
    bytes.windows(words.len()).position(|window| window == words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_not_seen_again() {
        let (sender, shown) = mpsc::channel();
        let mut screen = Screen { shown, unseen: Vec::new() };
        let mut transcript = tempfile::tempfile().unwrap();
        let deadline = Instant::now() + Duration::from_millis(200);
        sender.send(b"one t".to_vec()).unwrap();
        sender.send(b"wo one".to_vec()).unwrap();
        drop(sender);
        assert!(screen.wait_for("two", deadline, &mut transcript));
        assert!(screen.wait_for("one", deadline, &mut transcript));
        assert!(!screen.wait_for("one", deadline, &mut transcript));
    }
}
