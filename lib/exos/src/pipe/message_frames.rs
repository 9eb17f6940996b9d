//! Messages in a pipe: frames of a header, what goes with the bytes, and the bytes (Unix-domain sockets are made of
//! it).
//!
//! The header is two words: bytes of data (0..32) and of what goes with them (32..64); the number under which the
//! server says who sent it, or 0. A stream's reader takes a frame in pieces: how much of it is left stands in the first
//! page. The ring lies in memory that relatives write: every length is checked before it is used.

use super::pipe_end::{Pipe, REMAINING, VOUCHER};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_abi::errno::{Errno, Result};
use runtime::predicate::{Operator, Term, word};
use unix_core::pipe::ring::MOST;

/// Bytes of a header.
const HEADER: u64 = 16;
/// The longest message: as on Linux, where one fills what a socket holds but for 32 bytes.
pub const LONGEST: u64 = 212_960;
/// Room that is kept for a header, and for what goes with a message.
const IMAGE_SLOT: u64 = 4096 + HEADER;

/// A message, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The bytes.
    pub data: Vec<u8>,
    /// What goes with them.
    pub control: Vec<u8>,
    /// Token of its sender; 0: no reader asked for one.
    pub voucher: u64,
    /// Where the message ends, in bytes since the pipe began.
    pub end: u64,
    /// Bytes that the whole message had.
    pub whole: u64,
}

impl Frame {
    /// What goes with a message, of the name that it was sent from and of packed descriptors: nothing where both are
    /// empty.
    pub fn control_of(name: &[u8], rights: &[u8]) -> Vec<u8> {
        if name.is_empty() && rights.is_empty() {
            return Vec::new();
        }
        [&(name.len() as u64).to_le_bytes(), name, rights].concat()
    }

    /// The name that it was sent from, and the packed descriptors; none where others wrote nonsense, or nothing.
    pub fn parts(&self) -> Option<(&[u8], &[u8])> {
        let (length, rest) = self.control.split_first_chunk()?;
        rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
    }
}

/// How to receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Messages have borders: what does not fit is lost.
    pub bordered: bool,
    /// The message stays.
    pub peek: bool,
}

impl Pipe {
    /// Sends bytes with what goes with them: how many were taken, `None` where there is no room now. All or nothing
    /// where messages have borders.
    pub fn send_frame(&self, voucher: u64, control: &[u8], data: &[u8], bordered: bool) -> Result<Option<u64>> {
        let _held = self.lock();
        let ring = self.ring();
        let extra = HEADER + control.len() as u64;
        let room = ring.room()?.saturating_sub(extra);
        let taken = (data.len() as u64).min(room);
        if ring.room()? < extra || bordered && taken < data.len() as u64 || taken == 0 && !data.is_empty() {
            return Ok(None);
        }
        let lengths = taken | (control.len() as u64) << 32;
        self.copy_in(ring.written, &[lengths.to_le_bytes(), voucher.to_le_bytes()].concat())?;
        self.copy_in(ring.written + HEADER, control)?;
        self.copy_in(ring.written + extra, &data[..taken as usize])?;
        self.set_written(ring, ring.written + extra + taken);
        self.wake_reader();
        Ok(Some(taken))
    }

    /// Receives at most `most` bytes of one message; `None` where there is none now.
    pub fn receive_frame(&self, most: u64, manner: Manner) -> Result<Option<Frame>> {
        let _held = self.lock();
        let (ring, left) = (self.ring(), self.word(REMAINING).load(Acquire));
        let waiting = ring.waiting()?;
        let mut frame = Frame { voucher: self.word(VOUCHER).load(Acquire), ..Frame::default() };
        let mut at = ring.read;
        let mut length = left;
        if left == 0 {
            if waiting < HEADER {
                return Ok(None);
            }
            let mut header = [0; HEADER as usize];
            self.copy_out(at, &mut header)?;
            let half = |from: usize| u64::from_le_bytes(core::array::from_fn(|index| header[from + index]));
            let (lengths, control) = (half(0), half(0) >> 32);
            (length, frame.voucher) = (lengths & 0xffff_ffff, half(8));
            self.word(VOUCHER).store(frame.voucher, SeqCst);
            frame.control = vec![0; checked(control, waiting - HEADER)? as usize];
            self.copy_out(at + HEADER, &mut frame.control)?;
            at += HEADER + control;
        }
        checked(length, waiting - (at - ring.read))?;
        (frame.whole, frame.end) = (length, at + length);
        frame.data = vec![0; length.min(most) as usize];
        self.copy_out(at, &mut frame.data)?;
        if !manner.peek {
            let gone = if manner.bordered { length } else { frame.data.len() as u64 };
            self.word(REMAINING).store(length - gone, SeqCst);
            self.read_count().store(at + gone, SeqCst);
            self.wake_writer();
        }
        Ok(Some(frame))
    }

    /// Adds to a part of a stream that was looked at what lies behind it, up to what something goes with.
    pub fn peek_further(&self, frame: &mut Frame, most: u64) -> Result<()> {
        let _held = self.lock();
        let (ring, mut at) = (self.ring(), frame.end);
        // Another reader may have taken all this meanwhile.
        let is_there = |at: u64| at >= ring.read && ring.written.wrapping_sub(at) >= HEADER;
        while frame.control.is_empty() && (frame.data.len() as u64) < most && is_there(at) {
            let mut header = [0; 8];
            self.copy_out(at, &mut header)?;
            let (lengths, waiting) = (u64::from_le_bytes(header), ring.written - at - HEADER);
            let control = checked(lengths >> 32, waiting)?;
            let length = checked(lengths & 0xffff_ffff, waiting - control)?;
            frame.control = vec![0; control as usize];
            self.copy_out(at + HEADER, &mut frame.control)?;
            let had = frame.data.len();
            frame.data.resize(had + length.min(most - had as u64) as usize, 0);
            self.copy_out(at + HEADER + control, &mut frame.data[had..])?;
            at += HEADER + control + length;
        }
        Ok(())
    }

    /// Bytes of data that wait: of the next message, or, without borders, of all.
    pub fn data_waiting(&self, bordered: bool) -> Result<u64> {
        let _held = self.lock();
        let ring = self.ring();
        let left = self.word(REMAINING).load(Acquire);
        let mut at = ring.read + left;
        let mut sum = left;
        while ring.written.wrapping_sub(at) >= HEADER && !(bordered && sum > 0) {
            let mut header = [0; 8];
            self.copy_out(at, &mut header)?;
            let lengths = u64::from_le_bytes(header);
            let (length, control) = (lengths & 0xffff_ffff, lengths >> 32);
            sum += checked(length, MOST)?;
            at += HEADER + checked(control, MOST)? + length;
        }
        Ok(sum)
    }

    /// The messages that wait, without their bytes.
    pub fn controls_waiting(&self) -> Result<Vec<Frame>> {
        let _held = self.lock();
        let ring = self.ring();
        let mut at = ring.read + checked(self.word(REMAINING).load(Acquire), ring.waiting()?)?;
        let mut frames = Vec::new();
        while ring.written - at >= HEADER {
            let mut header = [0; 8];
            self.copy_out(at, &mut header)?;
            let (lengths, waiting) = (u64::from_le_bytes(header), ring.written - at - HEADER);
            let control = checked(lengths >> 32, waiting)?;
            let length = checked(lengths & 0xffff_ffff, waiting - control)?;
            let mut frame = Frame { control: vec![0; control as usize], ..Frame::default() };
            self.copy_out(at + HEADER, &mut frame.control)?;
            frames.push(frame);
            at += HEADER + control + length;
        }
        Ok(frames)
    }

    /// What a sender of so many bytes waits for: room for them, or no reader.
    pub fn room_for(&self, bytes: u64) -> [Term; 3] {
        let ring = self.ring();
        let needed = (bytes + IMAGE_SLOT).min(ring.capacity());
        let least = ring.written.wrapping_add(needed).saturating_sub(ring.capacity());
        let [lets_go, gone] = self.reader_closes();
        [word(self.read_count(), Operator::GreaterOrEqual, least), lets_go, gone]
    }

    /// Whether a message of so many bytes can ever be taken by a ring of this capacity.
    pub fn can_hold(&self, bytes: u64) -> bool {
        bytes + IMAGE_SLOT <= self.ring().size()
    }

    pub(super) fn copy_in(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let ring = self.ring();
        let mut done = 0;
        while done < bytes.len() {
            let some = ring.stretch(at.wrapping_add(done as u64), (bytes.len() - done) as u64);
            let piece = &bytes[done..done + some.bytes as usize];
            self.with_place(some.offset, |window, place| window.write(place, piece))?;
            done += piece.len();
        }
        Ok(())
    }

    pub(super) fn copy_out(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        let ring = self.ring();
        let mut done = 0;
        while done < bytes.len() {
            let some = ring.stretch(at.wrapping_add(done as u64), (bytes.len() - done) as u64);
            let piece = &mut bytes[done..done + some.bytes as usize];
            self.with_place(some.offset, |window, place| window.read(place, piece))?;
            done += some.bytes as usize;
        }
        Ok(())
    }
}

/// A length that others wrote.
fn checked(length: u64, most: u64) -> Result<u64> {
    if length <= most { Ok(length) } else { Err(Errno::EIO) }
}
