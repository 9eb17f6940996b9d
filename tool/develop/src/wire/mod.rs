//! `./chitin wire SOCKET`: joins machines by a switch, with faults by a seed, with a peer that serves them, and with
//! taps of the host. Without taps it needs no rights and no network.

pub mod faults;
pub mod peer;
pub mod port;
mod random;
pub mod switch;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use chitin::developer::wire::WireOptions;
use network::time::Time;

use chitin::answer;
use chitin::failure::{Context, Failure, Result};
use chitin::run::network::check_tap;

use faults::Faults;
use peer::Peer;
use port::{Event, Port};
use switch::{PortNumber, Switch};

/// Frames that wait for the switch before the machines have to.
const EVENTS: usize = 1_024;
/// The port of the peer; machines have those after it.
const PEER: PortNumber = 0;

/// Carries frames until the end.
///
/// # Errors
/// One line about a socket that cannot be made.
pub fn run(options: &WireOptions) -> Result<ExitCode> {
    let (events, arrivals) = sync_channel(EVENTS);
    let mut first_ports = (0..).map(|place| PEER + 1 + (place << 32));
    for (name, port) in options.taps.iter().zip(&mut first_ports) {
        let opened = check_tap(name).and_then(|()| port::open_tap(port, name, &events).context("it cannot be used"));
        opened.context(format!("--tap {name}"))?;
    }
    let listeners = options.sockets.iter().map(|socket| listen(socket)).collect::<Result<Vec<_>>>()?;
    for (listener, port) in listeners.into_iter().zip(first_ports) {
        port::accept(listener, port, events.clone());
    }
    let WireOptions { loss, duplicate: duplication, reorder: reordering, corrupt: corruption, delay, .. } = *options;
    let faults = Faults { loss, duplication, reordering, corruption, delay };
    let mut wire = Wire::new(Switch::new(faults, options.seed), options.peer.then_some(options.seed));
    wire.carry(&arrivals, options.once);
    let counters = wire.switch.counters();
    answer::remark(format_args!(
        "chitin: {} frames: {} lost, {} duplicated, {} reordered, {} corrupted\n",
        counters.frames, counters.lost, counters.duplicated, counters.reordered, counters.corrupted
    ));
    options.sockets.iter().filter(|socket| is_socket(socket)).for_each(|socket| drop(fs::remove_file(socket)));
    Ok(ExitCode::SUCCESS)
}

/// Listens at a socket. One that an earlier wire has left there is replaced; nothing else is.
fn listen(socket: &Path) -> Result<UnixListener> {
    let what = || format!("{}: no socket can be made there", socket.display());
    match UnixListener::bind(socket) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {}
        result => return result.context(what()),
    }
    // A connection to what is no socket is refused as well: the kind of the file decides.
    if !is_socket(socket) {
        return Err(Failure::new(format!("{}: a file is there already; name another place", socket.display())));
    }
    match UnixStream::connect(socket) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
        _ => return Err(Failure::new(format!("{}: another wire listens there", socket.display()))),
    }
    fs::remove_file(socket).and_then(|()| UnixListener::bind(socket)).context(what())
}

fn is_socket(place: &Path) -> bool {
    fs::symlink_metadata(place).is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// The switch with its ports, and a clock.
pub struct Wire {
    switch: Switch,
    peer: Option<Peer>,
    ports: BTreeMap<PortNumber, Port>,
    start: Instant,
}

impl Wire {
    /// `seed` gives the peer its key; without one there is no peer.
    pub fn new(mut switch: Switch, seed: Option<u64>) -> Self {
        let start = Instant::now();
        if seed.is_some() {
            switch.join(PEER);
        }
        let peer = seed.map(|seed| Peer::new([seed, u64::from(std::process::id())], time(start)));
        Self { switch, peer, ports: BTreeMap::new(), start }
    }

    /// Frames that were carried so far.
    pub fn frames(&self) -> u64 {
        self.switch.counters().frames
    }

    /// Carries frames until all senders of events are gone, or with `once` until the last machine has left.
    pub fn carry(&mut self, events: &Receiver<Event>, once: bool) {
        loop {
            let deadline = self.deliver();
            let wait = Duration::from_micros(deadline.since(time(self.start)).min(network::time::SECOND));
            match events.recv_timeout(wait) {
                Ok(Event::Left(port, complaint)) => {
                    self.leave(port, complaint.as_deref());
                    if once && !self.ports.values().any(Port::has_machine) {
                        return;
                    }
                }
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Joined(number, port) => {
                self.ports.insert(number, port);
                self.switch.join(number);
            }
            Event::Frame(number, frame) => self.switch_frame(number, &frame),
            Event::Left(..) => {}
        }
    }

    fn leave(&mut self, number: PortNumber, complaint: Option<&str>) {
        self.ports.remove(&number);
        self.switch.leave(number);
        if let Some(complaint) = complaint {
            answer::remark(format_args!("chitin: a machine was cut off: {complaint}\n"));
        }
    }

    fn switch_frame(&mut self, from: PortNumber, frame: &[u8]) {
        let Some(twin) = self.switch.receive(from, frame, time(self.start)) else { return };
        let [first, second, third, fourth, fifth, sixth] = twin;
        answer::remark(format_args!(
            "chitin: two machines have the address {first:02x}:{second:02x}:{third:02x}:{fourth:02x}:{fifth:02x}:\
             {sixth:02x}: frames reach only one of them; with --icount all machines have the same\n"
        ));
    }

    /// Hands over what has arrived and lets the peer work; the answer is when there is more to do.
    fn deliver(&mut self) -> Time {
        loop {
            let now = time(self.start);
            while let Some((to, frame)) = self.switch.take(now) {
                match &mut self.peer {
                    Some(peer) if to == PEER => peer.receive(frame),
                    _ => drop(self.ports.get(&to).map(|port| port.send(frame))),
                }
            }
            let Some(peer) = &mut self.peer else { return self.switch.next_arrival() };
            peer.poll(now);
            let mut is_silent = true;
            while let Some(frame) = self.peer.as_mut().and_then(Peer::take) {
                is_silent = false;
                self.switch_frame(PEER, &frame);
            }
            if is_silent {
                let deadline = self.peer.as_ref().map_or(Time::NEVER, Peer::deadline);
                return self.switch.next_arrival().min(deadline);
            }
        }
    }
}

fn time(start: Instant) -> Time {
    Time::from_micros(network::time::SECOND + start.elapsed().as_micros() as u64)
}

#[cfg(test)]
mod tests;
