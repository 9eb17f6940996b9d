//! Standard input on its way into the machine: never more than the machine
//! said it has room for, and nothing is read from the host before that.

use std::io::{self, ErrorKind, Read};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;

use abi::host_channel::{Kind, PAYLOAD};

use super::FrameWriter;

/// Bytes that the machine has room for.
#[derive(Debug, Default)]
pub struct Credit {
    bytes: Mutex<u64>,
    grown: Condvar,
}

impl Credit {
    pub fn grant(&self, bytes: u32) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) += u64::from(bytes);
        self.grown.notify_all();
    }

    /// Waits until there is room, and says how much one frame may carry.
    fn wait(&self) -> usize {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = self.grown.wait_while(bytes, |bytes| *bytes == 0).unwrap_or_else(PoisonError::into_inner);
        usize::try_from(*bytes).unwrap_or(PAYLOAD).min(PAYLOAD)
    }

    fn spend(&self, bytes: usize) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) -= bytes as u64;
    }
}

/// Why a source could not be read to its end, once that is so.
pub type Failed = Arc<OnceLock<io::Error>>;

/// Starts to send `source` by credit. The thread ends with the source or with
/// the machine, or else with this process: it may be waiting for a key.
pub fn pump(mut source: impl Read + Send + 'static, writer: Arc<FrameWriter>, credit: Arc<Credit>) -> Failed {
    let failed = Failed::default();
    let why = Arc::clone(&failed);
    thread::spawn(move || {
        let mut buffer = [0; PAYLOAD];
        loop {
            let room = credit.wait();
            match source.read(&mut buffer[..room]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // For the program it has ended.
                Err(error) => {
                    let _ = why.set(error);
                    return writer.send(Kind::InputEnd, &[]);
                }
                Ok(0) => return writer.send(Kind::InputEnd, &[]),
                Ok(count) => {
                    credit.spend(count);
                    writer.send(Kind::Input, &buffer[..count])?;
                }
            }
        }
    });
    failed
}

#[cfg(test)]
mod tests {
    use super::super::read_frame;
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn a_source_that_cannot_be_read_has_ended_and_says_why() {
        let (host, mut machine) = UnixStream::pair().unwrap();
        let credit = Arc::new(Credit::default());
        let folder = std::fs::File::open("/").unwrap();
        let failed = pump(folder, Arc::new(FrameWriter::new(host)), Arc::clone(&credit));
        credit.grant(1);
        assert_eq!(read_frame(&mut machine).unwrap().unwrap().kind, Kind::InputEnd);
        assert!(failed.get().unwrap().to_string().contains("Is a directory"));
    }

    #[test]
    fn nothing_is_sent_beyond_the_credit() {
        let (host, mut machine) = UnixStream::pair().unwrap();
        let credit = Arc::new(Credit::default());
        let source: Vec<u8> = (0..10_000_u32).map(|index| index as u8).collect();
        pump(std::io::Cursor::new(source.clone()), Arc::new(FrameWriter::new(host)), Arc::clone(&credit));

        let mut received = Vec::new();
        let mut granted = 0;
        for grant in [1, 10, 5000, 100_000] {
            credit.grant(grant);
            granted = (granted + grant as usize).min(source.len());
            while received.len() < granted {
                let frame = read_frame(&mut machine).unwrap().unwrap();
                assert_eq!(frame.kind, Kind::Input);
                received.extend_from_slice(&frame.payload);
            }
            assert_eq!(received.len(), granted);
            if granted < source.len() {
                machine.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                assert!(read_frame(&mut machine).is_err(), "sent beyond the credit of {granted}");
                machine.set_read_timeout(None).unwrap();
            }
        }
        assert_eq!(read_frame(&mut machine).unwrap().unwrap().kind, Kind::InputEnd);
        assert_eq!(received, source);
    }
}
