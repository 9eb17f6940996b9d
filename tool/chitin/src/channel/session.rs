//! One run of a machine as seen over the channel: what it says is handed on as
//! it comes, until the stream ends.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use abi::host_channel::Kind;

use super::input::Credit;
use super::{Frame, FrameWriter, read_frame};

/// The last record of a run: how the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalRecord {
    Exited(u32),
    Killed(u32),
}

impl FinalRecord {
    /// The exit status as a shell would tell it.
    pub fn status(self) -> u8 {
        match self {
            Self::Exited(status) => status.to_le_bytes()[0],
            Self::Killed(signal) => 128_u8.wrapping_add(signal.to_le_bytes()[0]),
        }
    }
}

/// How the stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The machine closed it.
    Closed,
    /// What came was no frame, or only a part of one.
    Broken(String),
    /// The time limit passed first.
    TimedOut,
}

/// All that is known after a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEnd {
    pub record: Option<FinalRecord>,
    pub stream: StreamEnd,
}

impl SessionEnd {
    /// Whether the machine is stopping by itself.
    pub fn is_over(&self) -> bool {
        self.stream == StreamEnd::Closed
    }
}

/// What the machine has to say, besides the final record and input credit.
pub trait Listener {
    fn output(&mut self, bytes: &[u8]);
    fn error(&mut self, bytes: &[u8]);
    fn log(&mut self, line: &str);
    /// A result of a test inside the machine.
    fn test_result(&mut self, passed: bool, name: &str, detail: &str);
    fn measurement(&mut self, name: &str, value: &str, unit: &str);
    /// What an environment cost: the payload of a frame of [`Kind::Cost`].
    fn cost(&mut self, _payload: &[u8]) {}
}

/// The host's end of a running machine's channel.
pub struct Session {
    frames: Receiver<std::io::Result<Frame>>,
    pub writer: Arc<FrameWriter>,
    pub credit: Arc<Credit>,
}

impl Session {
    /// # Errors
    /// When the socket cannot be shared between reader and writer.
    pub fn new(stream: UnixStream) -> std::io::Result<Self> {
        let mut reader = std::io::BufReader::new(stream.try_clone()?);
        // Few frames wait here: a slow reader of output slows the machine down.
        let (sender, frames) = mpsc::sync_channel(16);
        thread::spawn(move || {
            while let Some(frame) = read_frame(&mut reader).transpose() {
                let broken = frame.is_err();
                if sender.send(frame).is_err() || broken {
                    return;
                }
            }
        });
        Ok(Self { frames, writer: Arc::new(FrameWriter::new(stream)), credit: Arc::default() })
    }

    /// Hands on everything until the stream ends or `deadline` passes.
    pub fn serve(&self, listener: &mut dyn Listener, deadline: Option<Instant>) -> SessionEnd {
        let mut record = None;
        let stream = loop {
            match self.next(deadline) {
                Ok(Ok(frame)) => record = self.handle(&frame, listener).or(record),
                Ok(Err(error)) => break StreamEnd::Broken(error.to_string()),
                Err(RecvTimeoutError::Disconnected) => break StreamEnd::Closed,
                Err(RecvTimeoutError::Timeout) => break StreamEnd::TimedOut,
            }
        };
        SessionEnd { record, stream }
    }

    fn next(&self, deadline: Option<Instant>) -> Result<std::io::Result<Frame>, RecvTimeoutError> {
        match deadline {
            None => self.frames.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(deadline) => self.frames.recv_timeout(deadline.saturating_duration_since(Instant::now())),
        }
    }

    fn handle(&self, frame: &Frame, listener: &mut dyn Listener) -> Option<FinalRecord> {
        let payload = frame.payload.as_slice();
        match frame.kind {
            Kind::Output => listener.output(payload),
            Kind::Error => listener.error(payload),
            Kind::Exit => return Some(FinalRecord::Exited(number(payload))),
            Kind::Killed => return Some(FinalRecord::Killed(number(payload))),
            Kind::Log => listener.log(&String::from_utf8_lossy(payload)),
            Kind::TestResult => {
                let (passed, rest) = payload.split_first().unwrap_or((&0, &[]));
                let [name, detail, _] = fields(rest);
                listener.test_result(*passed == 1, &name, &detail);
            }
            Kind::InputCredit => self.credit.grant(number(payload)),
            Kind::Measurement => {
                let [name, value, unit] = fields(payload);
                listener.measurement(&name, &value, &unit);
            }
            Kind::Cost => listener.cost(payload),
            // Only the host sends these.
            Kind::Input | Kind::InputEnd | Kind::WindowSize | Kind::Signal => {}
        }
        None
    }
}

fn number(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Text separated by NULs.
fn fields(payload: &[u8]) -> [String; 3] {
    let mut parts = payload.splitn(3, |byte| *byte == 0);
    [(); 3].map(|()| String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Duration;

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Listener for Heard {
        fn output(&mut self, bytes: &[u8]) {
            self.0.push(format!("output {bytes:?}"));
        }
        fn error(&mut self, bytes: &[u8]) {
            self.0.push(format!("error {bytes:?}"));
        }
        fn log(&mut self, line: &str) {
            self.0.push(format!("log {line}"));
        }
        fn test_result(&mut self, passed: bool, name: &str, detail: &str) {
            self.0.push(format!("test {passed} {name} {detail}"));
        }
        fn measurement(&mut self, name: &str, value: &str, unit: &str) {
            self.0.push(format!("measured {name} {value} {unit}"));
        }
    }

    /// Runs a session against a machine that does what `machine` says.
    fn session(machine: impl FnOnce(&FrameWriter, UnixStream) + Send + 'static) -> (Vec<String>, SessionEnd) {
        let (host, guest) = UnixStream::pair().unwrap();
        let session = Session::new(host).unwrap();
        let guest_thread = thread::spawn(move || machine(&FrameWriter::new(guest.try_clone().unwrap()), guest));
        let mut heard = Heard::default();
        let end = session.serve(&mut heard, Some(Instant::now() + Duration::from_millis(300)));
        drop(session);
        guest_thread.join().unwrap();
        (heard.0, end)
    }

    #[test]
    fn everything_is_handed_on_in_order() {
        let (heard, end) = session(|machine, _| {
            machine.send(Kind::Log, b"booted").unwrap();
            machine.send(Kind::Output, &[0, 255]).unwrap();
            machine.send(Kind::Error, b"e").unwrap();
            machine.send(Kind::TestResult, b"\x01fault_1\0").unwrap();
            machine.send(Kind::TestResult, b"\x00fault_2\0wrong right").unwrap();
            machine.send(Kind::Measurement, b"null\x0045\0instructions").unwrap();
            machine.send(Kind::Exit, &7_u32.to_le_bytes()).unwrap();
        });
        assert_eq!(
            heard,
            [
                "log booted",
                "output [0, 255]",
                "error [101]",
                "test true fault_1 ",
                "test false fault_2 wrong right",
                "measured null 45 instructions"
            ]
        );
        assert_eq!(end, SessionEnd { record: Some(FinalRecord::Exited(7)), stream: StreamEnd::Closed });
    }

    #[test]
    fn statuses_are_those_of_a_shell() {
        assert_eq!(FinalRecord::Exited(7).status(), 7);
        assert_eq!(FinalRecord::Exited(0x1ff).status(), 255);
        assert_eq!(FinalRecord::Killed(11).status(), 139);
    }

    #[test]
    fn a_missing_record_a_broken_stream_and_a_silent_machine_are_told_apart() {
        let (_, end) = session(|machine, _| machine.send(Kind::Output, b"hi").unwrap());
        assert_eq!(end, SessionEnd { record: None, stream: StreamEnd::Closed });
        let (_, end) = session(|_, mut stream| stream.write_all(b"panic: no frame").unwrap());
        assert!(matches!(end.stream, StreamEnd::Broken(_)), "{end:?}");
        let (_, end) = session(|_, _stream| thread::sleep(Duration::from_millis(400)));
        assert_eq!(end.stream, StreamEnd::TimedOut);
    }
}
