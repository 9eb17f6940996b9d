//! The host's end of the host channel: frames of `abi::host_channel` over the
//! socket that stands behind the machine's console port.

pub mod input;
pub mod session;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use abi::host_channel::{HEADER, Header, Kind, PAYLOAD};

/// A frame as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: Kind,
    pub payload: Vec<u8>,
}

/// Reads the next frame; `None` at the end of the stream.
///
/// # Errors
/// When the stream breaks off inside a frame, is out of step, or carries a
/// kind of frame that this command does not know.
pub fn read_frame(reader: &mut impl Read) -> io::Result<Option<Frame>> {
    let mut header = [0; HEADER];
    if !fill(reader, &mut header)? {
        return Ok(None);
    }
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let header = Header::from_bytes(header)
        .ok_or_else(|| invalid(format!("the host channel is out of step: {header:02x?} is no frame")))?;
    let kind = Kind::from_number(header.kind)
        .ok_or_else(|| invalid(format!("the machine sent a frame of unknown kind {}", header.kind)))?;
    let mut payload = vec![0; usize::try_from(header.length).unwrap_or(PAYLOAD)];
    reader.read_exact(&mut payload)?;
    Ok(Some(Frame { kind, payload }))
}

/// Fills `buffer`; false where the stream ends before its first byte.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A killed machine leaves no orderly end.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && filled == 0 => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Sends whole frames to the machine, from any thread.
#[derive(Debug)]
pub struct FrameWriter {
    stream: Mutex<UnixStream>,
}

impl FrameWriter {
    pub fn new(stream: UnixStream) -> Self {
        Self { stream: Mutex::new(stream) }
    }

    /// Sends one frame with at most [`PAYLOAD`] bytes.
    ///
    /// # Errors
    /// When the machine is gone.
    pub fn send(&self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let mut bytes = Header { kind: kind as u8, length }.to_bytes().to_vec();
        bytes.extend_from_slice(payload);
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(&bytes)
    }

    /// Tells the machine of a signal that was sent to this command.
    ///
    /// # Errors
    /// When the machine is gone.
    pub fn send_signal(&self, signal: u32) -> io::Result<()> {
        self.send(Kind::Signal, &signal.to_le_bytes())
    }

    /// Tells the machine how large the user's window is.
    ///
    /// # Errors
    /// When the machine is gone.
    pub fn send_window_size(&self, columns: u16, rows: u16) -> io::Result<()> {
        let [a, b] = columns.to_le_bytes();
        let [c, d] = rows.to_le_bytes();
        self.send(Kind::WindowSize, &[a, b, c, d])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in() {
        let (host, mut machine) = UnixStream::pair().unwrap();
        let writer = FrameWriter::new(host);
        let all: Vec<u8> = (0..=255).collect();
        writer.send(Kind::Input, &all).unwrap();
        writer.send(Kind::InputEnd, &[]).unwrap();
        writer.send_window_size(80, 0x0118).unwrap();
        writer.send_signal(15).unwrap();
        drop(writer);
        let mut next = || read_frame(&mut machine).unwrap();
        assert_eq!(next().unwrap(), Frame { kind: Kind::Input, payload: all });
        assert_eq!(next().unwrap(), Frame { kind: Kind::InputEnd, payload: vec![] });
        assert_eq!(next().unwrap(), Frame { kind: Kind::WindowSize, payload: vec![80, 0, 0x18, 1] });
        assert_eq!(next().unwrap(), Frame { kind: Kind::Signal, payload: vec![15, 0, 0, 0] });
        assert_eq!(next(), None);
    }

    #[test]
    fn a_stream_out_of_step_is_an_error() {
        let good = Header { kind: Kind::Output as u8, length: 4 }.to_bytes();
        for (at, value) in [(0, 0), (1, 99), (2, 1), (5, 0xff)] {
            let mut bad = good;
            bad[at] = value;
            assert!(read_frame(&mut bad.as_slice()).is_err(), "byte {at}");
        }
        assert!(read_frame(&mut good.as_slice()).is_err(), "cut off after the header");
        assert!(read_frame(&mut &good[..3]).is_err(), "cut off inside the header");
        assert_eq!(read_frame(&mut &good[..0]).unwrap(), None);
    }
}
