//! While the first process lives: standard input from the host into its pipe, and the dead without a parent buried.

use super::start::Session;
use crate::block;
use crate::pipe::ring::CAPACITY;
use crate::pipe::{Pipe, Side};
use crate::process::children::STATUS_WORD;
use crate::process::status::{DESTROYED, Status};
use abi::area::PUBLIC_STATUS;
use abi::environment::State;
use abi::host_channel::{HEADER, PAYLOAD};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use runtime::address_space::Access;
use runtime::predicate::{Operator, Term, clock, word};
use runtime::window::Window;
use runtime::{EnvironmentId, Error, Failure, KeyIndex, Kind, channel, exposed, syscall};

/// Bytes that must have been read before more credit is sent.
const CREDIT_STEP: u64 = CAPACITY / 4;
/// Nanoseconds between two looks for the dead that nobody buries.
const SWEEP: u64 = 200_000_000;

/// Standard input on its way.
struct Input {
    pipe: Pipe,
    /// Bytes that the host was told it may send, in all.
    granted: u64,
    /// Bytes that came and did not fit, which the credit forbids.
    waiting: Vec<u8>,
    ended: bool,
}

/// Pumps until the first process has ended; the result is how.
pub fn run(session: &Session) -> Status {
    let mut input = Input { pipe: session.input.clone(), granted: 0, waiting: Vec::new(), ended: false };
    let first = session.first.number;
    while exposed::lives(first) {
        input.receive();
        input.pass_on();
        input.grant();
        bury_orphans(first);
        wait(&input, first);
    }
    status(session)
}

impl Input {
    fn receive(&mut self) {
        let mut frame = [0; HEADER + PAYLOAD];
        while let Ok(Some((header, payload))) = channel::receive(&mut frame) {
            match abi::host_channel::Kind::from_number(header.kind) {
                Some(Kind::Input) => self.waiting.extend_from_slice(payload),
                Some(Kind::InputEnd) => self.ended = true,
                _ => {}
            }
        }
    }

    fn pass_on(&mut self) {
        while !self.waiting.is_empty() {
            // A pipe whose words make no sense has no reader who could complain.
            let some = self.waiting.len().min(crate::pipe::ring::ATOMIC as usize);
            let done = self.pipe.write_bytes(&self.waiting[..some]).unwrap_or(some as u64) as usize;
            if done == 0 {
                return;
            }
            self.waiting.drain(..done);
        }
        if self.ended {
            self.ended = false;
            self.pipe.leave(Side::Write);
        }
    }

    fn grant(&mut self) {
        let wanted = self.pipe.bytes_read().load(Acquire) + CAPACITY;
        let more = wanted.saturating_sub(self.granted);
        if more >= CREDIT_STEP {
            channel::send(Kind::InputCredit, &(more as u32).to_le_bytes());
            self.granted = wanted;
        }
    }

    /// Enough was read for more credit, or for what is waiting.
    fn term(&self) -> Term {
        let read = self.pipe.bytes_read();
        if !self.waiting.is_empty() {
            return word(read, Operator::NotEqual, read.load(Acquire));
        }
        word(read, Operator::GreaterOrEqual, (self.granted + CREDIT_STEP).saturating_sub(CAPACITY))
    }
}

fn wait(input: &Input, first: EnvironmentId) {
    let Some(info) = exposed::environment(first) else { return };
    let frames = &exposed::kernel().channel_frames;
    let terms = [
        word(frames, Operator::NotEqual, 0),
        word(info.state_word(), Operator::NotEqual, State::Alive as u64),
        input.term(),
        clock(runtime::clock::now() + SWEEP),
    ];
    block::wait_plainly(&terms);
}

/// Environments that die and whose creator is gone are released here.
fn bury_orphans(first: EnvironmentId) {
    let own = runtime::area::number().0;
    let slots = 0..exposed::kernel().environments.load(Acquire);
    let orphans = slots.filter_map(exposed::environment_slot).filter(|info| {
        info.state.load(Acquire) == State::Dying as u64
            && info.creator.load(Acquire) == own
            && info.number.load(Acquire) != first.0
    });
    for info in orphans {
        let number = EnvironmentId(info.number.load(Acquire));
        while let Err(Failure { error: Error::Again, .. }) = syscall::environment_destroy(KeyIndex::FIRST, number) {}
    }
}

/// How the first process ended, as its public page says.
fn status(session: &Session) -> Status {
    let Ok(window) = Window::open(&[session.first.public], KeyIndex::FIRST, Access::READ) else { return DESTROYED };
    let said = Status::from_word(window.words()[STATUS_WORD].load(Acquire));
    let by_runtime = window.words()[PUBLIC_STATUS as usize / 8].load(Acquire);
    match (said, by_runtime) {
        (Some(status), _) => status,
        (None, 0) => DESTROYED,
        (None, word) => Status::Exited((word - 1) as u8),
    }
}
