//! The host channel: frames to and from the tool that started the machine, and the macros that print through it.

use crate::syscall;
use abi::host_channel::{HEADER, Header, Kind, PAYLOAD};
use abi::{Error, Failure, UserAddress};
use core::fmt;

/// Sends bytes, in as many frames as it takes; none where the environment has no key for the channel or it is gone.
pub fn send(kind: Kind, bytes: &[u8]) {
    let mut rest = bytes;
    loop {
        let (now, later) = rest.split_at(rest.len().min(PAYLOAD));
        let _ = send_frame(kind, &[now]);
        rest = later;
        if rest.is_empty() {
            return;
        }
    }
}

/// Sends one frame whose payload is the parts, one after the other; waits while the channel is full.
///
/// # Errors
/// `TooMany` where they are more than [`PAYLOAD`]; `NoSuchKey` without a key for the channel; the kernel's refusals.
pub fn send_frame(kind: Kind, parts: &[&[u8]]) -> Result<(), Failure> {
    let key = crate::area::channel_key().ok_or(Error::NoSuchKey.about(0))?;
    let length: usize = parts.iter().map(|part| part.len()).sum();
    if length > PAYLOAD {
        return Err(Error::TooMany.about(PAYLOAD as u64));
    }
    let mut frame = [0; HEADER + PAYLOAD];
    frame[..HEADER].copy_from_slice(&Header { kind: kind as u8, length: length as u32 }.to_bytes());
    let mut end = HEADER;
    for part in parts {
        frame[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    loop {
        // SAFETY: the kernel reads `end` bytes of this array.
        match unsafe { syscall::channel_send(key, UserAddress(frame.as_ptr() as u64), end as u64) } {
            Err(Failure { error: Error::Exhausted, .. }) => crate::time_slice::yield_now(),
            done => return done,
        }
    }
}

/// A buffer that any frame fits into.
pub type Frame = [u8; HEADER + PAYLOAD];

/// Takes the frame that arrived first: its header, and its payload in `buffer` behind the header.
///
/// # Errors
/// `NoSuchKey` without a key for the channel; the kernel's refusals; `BadArgument` for a frame that is none.
pub fn receive(buffer: &mut Frame) -> Result<Option<(Header, &[u8])>, Failure> {
    let key = crate::area::channel_key().ok_or(Error::NoSuchKey.about(0))?;
    // SAFETY: the kernel writes at most the bytes of this array.
    let bytes = unsafe { syscall::channel_receive(key, UserAddress(buffer.as_mut_ptr() as u64), buffer.len() as u64) }?;
    if bytes == 0 {
        return Ok(None);
    }
    let (start, payload) = buffer.split_first_chunk::<HEADER>().ok_or(Error::BadArgument.about(0))?;
    let header = Header::from_bytes(*start).ok_or(Error::BadArgument.about(0))?;
    let payload = payload.get(..header.length as usize).ok_or(Error::BadArgument.about(bytes))?;
    Ok(Some((header, payload)))
}

/// Tells the host how a test came out; `detail` says why it failed.
pub fn test_result(name: &str, passed: bool, detail: &str) {
    let end = detail.floor_char_boundary(PAYLOAD - 2 - name.len().min(PAYLOAD - 2));
    let _ = send_frame(Kind::TestResult, &[&[u8::from(passed)], name.as_bytes(), b"\0", &detail.as_bytes()[..end]]);
}

/// Reports a measurement.
pub fn measurement(name: &str, value: u64, unit: &str) {
    let mut text = Line::new(Kind::Measurement);
    let _ = fmt::Write::write_fmt(&mut text, format_args!("{name}\0{value}\0{unit}"));
}

/// Text on its way into frames of one kind; sent when it is full, and when it is dropped.
#[derive(Debug)]
pub struct Line {
    kind: Kind,
    length: usize,
    bytes: [u8; Line::BYTES],
}

impl Line {
    const BYTES: usize = 512;

    /// Empty text for frames of this kind.
    pub const fn new(kind: Kind) -> Self {
        Self { kind, length: 0, bytes: [0; Self::BYTES] }
    }

    fn flush(&mut self) {
        if self.length > 0 {
            send(self.kind, &self.bytes[..self.length]);
            self.length = 0;
        }
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            if self.length == Self::BYTES {
                self.flush();
            }
            let (now, later) = rest.split_at(rest.len().min(Self::BYTES - self.length));
            self.bytes[self.length..self.length + now.len()].copy_from_slice(now);
            self.length += now.len();
            rest = later;
        }
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Sends formatted text: what the macros are made of.
pub fn print(kind: Kind, text: fmt::Arguments<'_>) {
    // Writing into a `Line` cannot fail, and a formatter that fails has said what it could.
    let _ = fmt::Write::write_fmt(&mut Line::new(kind), text);
}

/// Prints to standard output.
#[macro_export]
macro_rules! print {
    ($($text:tt)*) => { $crate::channel::print($crate::Kind::Output, format_args!($($text)*)) };
}

/// Prints a line to standard output.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($format:literal $($text:tt)*) => { $crate::print!("{}\n", format_args!($format $($text)*)) };
}

/// Prints a line to standard error.
#[macro_export]
macro_rules! error_line {
    ($format:literal $($text:tt)*) => {
        $crate::channel::print($crate::Kind::Error, format_args!("{}\n", format_args!($format $($text)*)))
    };
}

/// Sends a line of log.
#[macro_export]
macro_rules! log_line {
    ($($text:tt)*) => { $crate::channel::print($crate::Kind::Log, format_args!($($text)*)) };
}
