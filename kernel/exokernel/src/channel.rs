//! The host channel, entropy, the log and the end: what only the machine as a whole has.
//!
//! Frames pass whole. The kernel looks at a header only to know how long the frame is.

use crate::interrupt;
use crate::kernel::{Kernel, Outcome, copied, refuse};
use abi::capability::{Capability, DEVICE, HOST_CHANNEL, Rights};
use abi::host_channel::{HEADER, Header, PAYLOAD};
use abi::limits::ENTROPY_BYTES;
use abi::{Error, KeyIndex, UserAddress, feature};
use core::sync::atomic::Ordering;
use driver::{console, entropy};
use machine::{exposed, user};

/// Bytes of a whole frame.
const FRAME: usize = HEADER + PAYLOAD;

/// The frame that is arriving.
#[derive(Debug)]
pub(crate) struct Channel {
    incoming: [u8; FRAME],
    filled: usize,
}

impl Channel {
    /// Nothing has arrived.
    pub(crate) const fn new() -> Self {
        Self { incoming: [0; FRAME], filled: 0 }
    }

    /// Takes what has arrived; true once a frame is whole.
    fn fill(&mut self) -> bool {
        loop {
            let wanted = self.wanted();
            if self.filled == wanted {
                return true;
            }
            let read = console::receive(&mut self.incoming[self.filled..wanted]);
            if read == 0 {
                return false;
            }
            self.filled += read;
        }
    }

    /// How many bytes the frame has, as far as that is known. A header that is wrong is skipped a byte at a time, until
    /// the stream is in step again.
    fn wanted(&mut self) -> usize {
        while self.filled >= HEADER {
            let mut bytes = [0; HEADER];
            bytes.copy_from_slice(&self.incoming[..HEADER]);
            match Header::from_bytes(bytes) {
                Some(header) => return HEADER + header.length as usize,
                None => {
                    self.incoming.copy_within(1..self.filled, 0);
                    self.filled -= 1;
                }
            }
        }
        HEADER
    }
}

/// The name of the channel.
fn name() -> Capability {
    capability::named([DEVICE, HOST_CHANNEL])
}

/// Looks for a frame that has arrived, and for room, and says so in the exposed words. The device interrupts one CPU
/// only, and programs do not know when these words change: so the others are made to look, if they are idle. True where
/// one changed.
pub(crate) fn poll(kernel: &mut Kernel) -> bool {
    if !present() {
        return false;
    }
    console::poll();
    let whole = kernel.channel.fill();
    let info = exposed::kernel();
    let found = [(&info.channel_frames, u64::from(whole)), (&info.channel_room, console::room() as u64)];
    let news = found.iter().fold(false, |news, (word, value)| word.swap(*value, Ordering::SeqCst) != *value || news);
    if news {
        interrupt::wake_all_idle();
    }
    news
}

/// Whether the machine has a host channel.
pub(crate) fn present() -> bool {
    exposed::kernel().features.load(Ordering::Relaxed) & feature::HOST_CHANNEL != 0
}

fn require_present() -> Outcome<()> {
    if present() { Ok(()) } else { refuse(Error::Absent, feature::HOST_CHANNEL) }
}

impl Kernel {
    /// Sends a frame (see `abi::syscall`).
    pub(crate) fn send_frame(&mut self, key: KeyIndex, frame: UserAddress, bytes: u64) -> Outcome<()> {
        self.require(key, &name(), Rights::WRITE)?;
        require_present()?;
        if !(HEADER as u64..=FRAME as u64).contains(&bytes) {
            return refuse(Error::BadArgument, 2);
        }
        let mut copy = [0; FRAME];
        let copy = &mut copy[..bytes as usize];
        copied(user::copy_in(copy, frame), frame)?;
        let mut header = [0; HEADER];
        header.copy_from_slice(&copy[..HEADER]);
        if Header::from_bytes(header).is_none_or(|header| header.length as u64 + HEADER as u64 != bytes) {
            return refuse(Error::BadArgument, 1);
        }
        poll(self);
        if console::room() < copy.len() {
            return refuse(Error::Exhausted, console::room() as u64);
        }
        let sent = console::send(copy);
        assert_eq!(sent, copy.len(), "there was room for the whole frame");
        exposed::kernel().channel_room.store(console::room() as u64, Ordering::Release);
        Ok(())
    }

    /// Receives a frame (see `abi::syscall`).
    pub(crate) fn receive_frame(&mut self, key: KeyIndex, buffer: UserAddress, bytes: u64) -> Outcome<u64> {
        self.require(key, &name(), Rights::READ)?;
        require_present()?;
        poll(self);
        if !self.channel.fill() {
            return Ok(0);
        }
        let length = self.channel.filled;
        if bytes < length as u64 {
            return refuse(Error::BadArgument, 2);
        }
        copied(user::copy_out(buffer, &self.channel.incoming[..length]), buffer)?;
        self.channel.filled = 0;
        poll(self);
        Ok(length as u64)
    }

    /// Gives random bytes (see `abi::syscall`).
    pub(crate) fn read_entropy(&mut self, buffer: UserAddress, bytes: u64) -> Outcome<()> {
        if bytes > ENTROPY_BYTES as u64 {
            return refuse(Error::TooMany, ENTROPY_BYTES as u64);
        }
        let mut random = [0; ENTROPY_BYTES];
        let random = &mut random[..bytes as usize];
        if !entropy::fill(random) {
            return refuse(Error::Absent, feature::ENTROPY);
        }
        copied(user::copy_out(buffer, random), buffer)
    }
}
