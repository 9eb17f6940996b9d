//! While the first process lives: what the host sends goes where it belongs, and orphans that end are buried.

use crate::boot::{Session, Source};
use crate::console_tty;
use crate::enforcer::Enforcer;
use crate::reaper::Orphans;
use crate::setuid_spawner::SetuidSpawner;
use crate::wire_watch::WireWatch;
use abi::area::PUBLIC_STATUS;
use abi::environment::State;
use abi::host_channel::{HEADER, PAYLOAD};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use exos::pipe::{Pipe, Side};
use exos::process::environment::was_killed_by_session;
use exos::process_table::is_runnable;
use exos::wait;
use linux_raw_sys::general as linux;
use runtime::address_space::Access;
use runtime::predicate::{Operator, Term, clock, word};
use runtime::window::Window;
use runtime::{EnvironmentId, KeyIndex, Kind, channel, exposed};
use unix_core::pipe::ring::CAPACITY;
use unix_core::process::exit_status::{DESTROYED, Status};
use unix_core::process::public_page::STATUS_WORD;
use unix_core::server::condemned::PATIENCE;
use unix_core::session::{loadavg, status_page};
use unix_core::signal::pending::from_system;

/// After how long the session tries again to pass on what came before the first process had begun, in nanoseconds.
const RETRY: u64 = 1_000_000;
/// Bytes that must have been read before more credit is sent.
const CREDIT_STEP: u64 = CAPACITY / 4;

/// Standard input on its way.
#[derive(Default)]
struct Input {
    /// Bytes that the host was told it may send, in all.
    granted: u64,
    /// Bytes that came, in all.
    received: u64,
    /// Input bytes that no process had room for yet.
    waiting: Vec<u8>,
    ended: bool,
    /// The first process has taken its terminal: what is typed has its reader, and `^C` its group.
    has_begun: bool,
}

/// Pumps until the first process has ended; the result is how.
pub(crate) fn run(session: &Session) -> Status {
    let mut input = Input::default();
    let mut early = Vec::new();
    let first = session.first.number;
    let mut orphans = Orphans::new(session.bank, session.server);
    let mut successors = SetuidSpawner::default();
    let mut enforcer = Enforcer::default();
    let mut wire = WireWatch::default();
    let mut next_count = runtime::clock::now() + loadavg::INTERVAL;
    while exposed::lives(first) {
        receive(session, &mut input, &mut early);
        early.retain(|signal| !pass_signal_on(session, *signal));
        input.pass_on(session);
        input.grant(session);
        successors.make(session);
        if enforcer.poll(session) {
            orphans.look_at_once();
        }
        for number in orphans.poll(&mut successors) {
            session.state.lock().condemn(number.0, 0);
        }
        successors.forget_dead(session);
        wire.poll(session);
        if runtime::clock::now() >= next_count {
            next_count += loadavg::INTERVAL;
            count_load(session);
        }
        let is_early = !early.is_empty() || input.is_early(session);
        let retry = is_early.then(|| clock(runtime::clock::now() + RETRY));
        let further = [retry, wire.term(session)];
        wait(session, &input, &orphans, (&successors, &enforcer), further);
    }
    status(session)
}

/// Brings the load averages up to date. The session itself is at work for it, and no process.
fn count_load(session: &Session) {
    let runnable = session.sight().all().iter().filter(|other| is_runnable(other.environment)).count();
    let words = &session.board.words()[status_page::LOADS..status_page::LOADS + 3];
    let averages = core::array::from_fn(|index| words[index].load(Acquire));
    for (word, average) in words.iter().zip(loadavg::next(averages, runnable as u64)) {
        word.store(average, SeqCst);
    }
}

/// Takes every frame that has come. Signals go to the end of `signals`.
fn receive(session: &Session, input: &mut Input, signals: &mut Vec<u32>) {
    let mut frame = [0; HEADER + PAYLOAD];
    while let Ok(Some((header, payload))) = channel::receive(&mut frame) {
        match abi::host_channel::Kind::from_number(header.kind) {
            Some(Kind::Input) => {
                input.received += payload.len() as u64;
                input.waiting.extend_from_slice(payload);
            }
            Some(Kind::InputEnd) => input.ended = true,
            Some(Kind::Signal) => signals.extend(payload.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))),
            Some(Kind::WindowSize) => console_tty::set_size(session, payload),
            _ => {}
        }
    }
}

/// Passes a signal on that was sent to the host's command. The host's keyboard signals go to all of the first process's
/// group, as they would there. A report that the host reads no output goes to the writers; all else is for the first
/// process. False where the first process lives and cannot be found: its environment has not published it yet.
fn pass_signal_on(session: &Session, signal: u32) -> bool {
    if signal == linux::SIGPIPE {
        session.board.words()[status_page::OUTPUT_GONE].store(1, SeqCst);
        wait::kick_idle();
        return true;
    }
    let sight = session.sight();
    let Some(first) = sight.find(session.first.number.0) else { return !exposed::lives(session.first.number) };
    if signal == linux::SIGKILL {
        session.state.lock().condemn(first.environment, PATIENCE);
    }
    let information = from_system(signal);
    // A process that has gone meanwhile needs no signal.
    let _ = match signal {
        linux::SIGINT | linux::SIGQUIT => sight.send_to_group(first.group, &information),
        _ => sight.send(&first, &information),
    };
    true
}

impl Input {
    fn pass_on(&mut self, session: &Session) {
        match &session.input {
            Source::Pipe(pipe) => self.pass_to_pipe(pipe),
            Source::Terminal(terminal) => {
                self.has_begun |= terminal.foreground() != 0;
                if !self.has_begun {
                    return;
                }
                console_tty::type_bytes(session.sight(), terminal, &mut self.waiting);
                if self.ended && self.waiting.is_empty() {
                    self.ended = false;
                    console_tty::hang_up(session.sight(), terminal);
                }
            }
        }
    }

    /// Whether something was typed before the first process took its terminal.
    fn is_early(&self, session: &Session) -> bool {
        matches!(session.input, Source::Terminal(_)) && !self.has_begun && (self.ended || !self.waiting.is_empty())
    }

    /// Bytes that go into the pipe as one.
    fn at_once(&self) -> u64 {
        (self.waiting.len() as u64).min(unix_core::pipe::ring::ATOMIC)
    }

    fn pass_to_pipe(&mut self, pipe: &Pipe) {
        while !self.waiting.is_empty() {
            // A pipe whose words make no sense has no reader who could complain.
            let some = self.at_once();
            let done = pipe.write_bytes(&self.waiting[..some as usize], || false).unwrap_or(some) as usize;
            if done == 0 {
                return;
            }
            self.waiting.drain(..done);
        }
        if self.ended {
            self.ended = false;
            // A reader that sleeps watches the holder of the end, and looks at the count when that changes.
            pipe.leave(Side::Write);
            pipe.release_end(Side::Write, runtime::area::number().0);
        }
    }

    /// Bytes in all that there will have been room for, once what is granted came.
    fn wanted(&self, session: &Session) -> u64 {
        match &session.input {
            Source::Pipe(pipe) => pipe.bytes_read().load(Acquire) + CAPACITY,
            Source::Terminal(_) => self.received - self.waiting.len() as u64 + CAPACITY,
        }
    }

    fn grant(&mut self, session: &Session) {
        let wanted = self.wanted(session);
        let more = wanted.saturating_sub(self.granted);
        if more >= CREDIT_STEP {
            channel::send(Kind::InputCredit, &(more as u32).to_le_bytes());
            self.granted = wanted;
        }
    }

    /// Enough was read for more credit, or for what is waiting.
    fn term(&self, session: &Session) -> Option<Term> {
        match &session.input {
            Source::Pipe(pipe) => {
                let read = pipe.bytes_read();
                Some(if self.waiting.is_empty() {
                    word(read, Operator::GreaterOrEqual, (self.granted + CREDIT_STEP).saturating_sub(CAPACITY))
                } else {
                    pipe.has_room(self.at_once())
                })
            }
            Source::Terminal(_) if self.waiting.is_empty() => None,
            Source::Terminal(terminal) => Some(console_tty::room_term(terminal, &self.waiting)),
        }
    }
}

fn wait(
    session: &Session,
    input: &Input,
    orphans: &Orphans,
    (successors, enforcer): (&SetuidSpawner, &Enforcer),
    further: [Option<Term>; 2],
) {
    let frames = &exposed::kernel().channel_frames;
    let mut terms = Vec::from([word(frames, Operator::NotEqual, 0), clock(orphans.next_look())]);
    terms.push(successors.term(session));
    terms.extend(enforcer.terms(session));
    terms.extend(input.term(session));
    terms.extend(further.into_iter().flatten());
    let watched = [session.first.number].into_iter().chain(successors.alive()).chain(orphans.watched());
    let records = watched.filter_map(exposed::environment);
    terms.extend(records.map(|info| word(info.state_word(), Operator::NotEqual, State::Alive as u64)));
    wait::wait_plainly(&mut terms);
}

/// How the first process ended, as its public page says.
fn status(session: &Session) -> Status {
    if was_killed_by_session(session.first.number) {
        return DESTROYED;
    }
    let Ok(window) = Window::open(&[session.first.public], KeyIndex::FIRST, Access::READ) else { return DESTROYED };
    let said = Status::from_word(window.words()[STATUS_WORD].load(Acquire));
    let by_runtime = window.words()[PUBLIC_STATUS as usize / 8].load(Acquire);
    match (said, by_runtime) {
        (Some(status), _) => status,
        (None, 0) => {
            tell_of_destruction(session.first.number);
            DESTROYED
        }
        (None, word) => Status::Exited((word - 1) as u8),
    }
}

/// The kernel ended the first process, which said nothing: its record says why.
fn tell_of_destruction(first: EnvironmentId) {
    let Some(info) = exposed::environment(first) else { return };
    let word = |word: &core::sync::atomic::AtomicU64| word.load(Acquire);
    runtime::error_line!(
        "chitin: the kernel ended process {}: reason {}, kind {}, address {:#x}, at {:#x}",
        first.0,
        word(&info.death_reason),
        word(&info.death_kind),
        word(&info.death_address),
        word(&info.death_rip)
    );
}
