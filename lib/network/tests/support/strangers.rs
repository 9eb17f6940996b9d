//! Peers without a TCP of their own: single segments from any address, and what our engine answers.

use network::address::{Endpoint, Pair};
use network::checksum::Sum;
use network::slab::Handle;
use network::tcp::block::Options;
use network::tcp::engine::Tcp;
use network::tcp::listen::Listener;
use network::tcp::segment::{FIN, HEADER_LIMIT, Outgoing, SYN, Segment, Timestamps};
use network::tcp::sequence::Sequence;
use network::time::{SECOND, Time};

use super::memory::Memory;
use super::ours::{Carrier, unpack};

pub struct Server {
    pub tcp: Tcp,
    pub carrier: Carrier,
    pub now: Time,
    pub listener: Handle,
    pub local: Endpoint,
}

impl Server {
    pub fn new(backlog: usize, options: Options) -> Self {
        let now = Time::from_micros(1_000 * SECOND);
        let local = Endpoint::new([10, 0, 0, 1], 80);
        let mut tcp = Tcp::new([11, 12], now);
        let listener = tcp.listen(Listener::new(local, backlog, options)).expect("the port is free");
        let carrier = Carrier { memory: Memory::default(), out: Vec::new(), mtu: 1500 };
        Self { tcp, carrier, now, listener, local }
    }

    pub fn deliver(&mut self, from: Endpoint, outgoing: &Outgoing, payload: &[u8]) {
        let pair = Pair { local: from, remote: self.local };
        let mut bytes = [0; HEADER_LIMIT];
        let outgoing = Outgoing { length: payload.len() as u32, ..*outgoing };
        let length = outgoing.emit(&pair, Sum::of(payload), &mut bytes);
        let segment = [&bytes[..length], payload].concat();
        let (source, destination) = (from.address, self.local.address);
        self.tcp.input(source, destination, &segment, false, self.now, &mut self.carrier);
    }

    /// The last segment that goes out.
    pub fn answer(&mut self) -> Option<Segment> {
        self.tcp.flush(self.now, &mut self.carrier);
        let last = self.carrier.out.drain(..).next_back()?;
        Segment::parse(unpack(&last)?.2)
    }

    pub fn syn(&mut self, from: Endpoint, stamps: bool) -> Option<Segment> {
        let timestamps = stamps.then_some(Timestamps { value: 5_000, echo: 0 });
        let (sequence, maximum_segment, window_shift) = (Sequence(100), Some(1_460), stamps.then_some(7));
        let sack_permitted = stamps;
        let syn = Outgoing {
            sequence,
            flags: SYN,
            window: 500,
            maximum_segment,
            window_shift,
            sack_permitted,
            timestamps,
            ..Outgoing::default()
        };
        self.answer();
        self.deliver(from, &syn, &[]);
        self.answer()
    }

    /// Completes a handshake with one byte, and accepts it.
    pub fn greet(&mut self, from: Endpoint, stamps: bool) -> Option<Handle> {
        let answer = self.syn(from, stamps)?;
        if !answer.has(SYN) {
            return None;
        }
        let timestamps = answer.timestamps.map(|theirs| Timestamps { value: 5_001, echo: theirs.value });
        let acknowledgement = Some(answer.sequence.plus(1));
        let hello =
            Outgoing { sequence: Sequence(101), acknowledgement, window: 500, timestamps, ..Outgoing::default() };
        self.deliver(from, &hello, b"!");
        let handle = self.tcp.accept(self.listener)?;
        let mut buffer = [0; 8];
        let count = self.tcp.read(handle, &mut buffer);
        assert_eq!(&buffer[..count], b"!");
        Some(handle)
    }

    /// Closes a greeted connection from here first, so that TIME_WAIT is here.
    pub fn part(&mut self, from: Endpoint, handle: Handle) {
        self.tcp.close(handle, self.now, &mut self.carrier);
        let fin = self.answer().expect("FIN goes out");
        assert!(fin.has(FIN));
        let acknowledgement = Some(fin.sequence.plus(1));
        let answer =
            Outgoing { sequence: Sequence(102), acknowledgement, flags: FIN, window: 500, ..Outgoing::default() };
        self.deliver(from, &answer, &[]);
        self.carrier.out.clear();
    }
}
