//! A conversation with our TCP, segment by segment, in a short notation.
//!
//! A segment is `FLAGS SEQUENCE ACKNOWLEDGEMENT LENGTH`, as `A 1 101 0`, `SA 0 1 0` or `R 5 - 0`. Numbers count from
//! the initial ones of both ends, so the first byte of data is 1. Words behind it: `win=N`, `mss=N`, `sack`
//! (permitted), `up=N` (URG and its pointer), `block=FIRST-END`, `ts=VALUE`, `echo=N` (the timestamp of our segment N,
//! from 0).

use network::address::{Endpoint, Pair};
use network::checksum::{Sum, pseudo_header};
use network::slab::Handle;
use network::tcp::block::{Error, Options, State};
use network::tcp::engine::Tcp;
use network::tcp::listen::Listener;
use network::tcp::segment::{ACK, FIN, HEADER_LIMIT, Outgoing, PSH, RST, SYN, Segment, Timestamps, URG};
use network::tcp::sequence::Sequence;
use network::time::{MILLISECOND, SECOND, Time};

use super::memory::Memory;
use super::ours::{Carrier, unpack};

/// The peer's initial number: a wrap is near.
const PEER_INITIAL: Sequence = Sequence(u32::MAX - 2_000);
pub const PORT: u16 = 80;

pub struct Talk {
    pub tcp: Tcp,
    pub carrier: Carrier,
    pub now: Time,
    pub pair: Pair,
    pub listener: Option<Handle>,
    pub connection: Option<Handle>,
    initial: Option<Sequence>,
    /// Timestamps that went out, in order: `echo=N` names one.
    stamps: Vec<u32>,
    last_error: Option<Error>,
}

fn flags_of(text: &str) -> u8 {
    let bit = |letter| match letter {
        'S' => SYN,
        'A' => ACK,
        'F' => FIN,
        'R' => RST,
        'P' => PSH,
        other => panic!("{other} is no flag"),
    };
    text.chars().filter(|letter| *letter != '-').fold(0, |flags, letter| flags | bit(letter))
}

fn text_of(flags: u8) -> String {
    let letters = [(SYN, 'S'), (FIN, 'F'), (RST, 'R'), (PSH, 'P'), (ACK, 'A')];
    let text: String = letters.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, letter)| *letter).collect();
    text.replace('P', "")
}

impl Talk {
    fn new() -> Self {
        let now = Time::from_micros(100 * SECOND);
        let (local, remote) = (Endpoint::new([10, 0, 0, 1], PORT), Endpoint::new([10, 0, 0, 2], 4_000));
        Self {
            tcp: Tcp::new([1, 2], now),
            carrier: Carrier { memory: Memory::default(), out: Vec::new(), mtu: 1500 },
            now,
            pair: Pair { local, remote },
            listener: None,
            connection: None,
            initial: None,
            stamps: Vec::new(),
            last_error: None,
        }
    }

    pub fn listening(options: Options) -> Self {
        let mut talk = Self::new();
        let listener = Listener::new(talk.pair.local, 2, options);
        talk.listener = Some(talk.tcp.listen(listener).expect("the port is free"));
        talk
    }

    pub fn connecting(options: Options) -> Self {
        let mut talk = Self::new();
        let connection = talk.tcp.connect(talk.pair.local, talk.pair.remote, options, talk.now, &talk.carrier);
        talk.connection = Some(connection.expect("the port is free"));
        talk
    }

    /// Waiting and established, by the peer's segments.
    pub fn established(options: Options) -> Self {
        let mut talk = Self::listening(options);
        talk.runs("< S 0 - 0 mss=1000 sack win=60000 | > SA 0 1 0 | < A 1 1 0 win=60000 | >");
        talk
    }

    pub fn handle(&mut self) -> Handle {
        if self.connection.is_none() {
            self.connection = self.listener.and_then(|listener| self.tcp.accept(listener));
        }
        self.connection.expect("a connection")
    }

    /// Runs steps that bars separate. `< SEGMENT` comes from the peer, and `> SEGMENTS` is everything that goes out.
    /// `urgent N` writes bytes of which the last one is urgent. `marked N` says how many bytes wait before an urgent one.
    /// Others are `wait MS`, `write N`, `read N`, `shut`, `close`, `state NAME`, `error NAME`.
    pub fn runs(&mut self, script: &str) {
        for (number, step) in script.split('|').map(str::trim).enumerate() {
            let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
            match verb {
                "<" => self.deliver(rest.trim()),
                ">" => {
                    let expected: Vec<&str> = rest.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
                    assert_eq!(self.sent(), expected, "step {number} of {script}");
                }
                _ => self.act(verb, rest, &format!("step {number} of {script}")),
            }
        }
    }

    fn act(&mut self, verb: &str, rest: &str, place: &str) {
        let number: usize = rest.parse().unwrap_or(0);
        match verb {
            "wait" => {
                self.now = self.now.after(number as u64 * MILLISECOND);
                self.tcp.advance(self.now, &mut self.carrier);
            }
            "write" => {
                let extent = self.carrier.memory.store(&vec![b'x'; number]);
                let handle = self.handle();
                assert!(self.tcp.send(handle, extent), "{place}");
            }
            "urgent" => {
                self.act("write", rest, place);
                let handle = self.handle();
                self.tcp.mark_urgent(handle, 0);
            }
            "marked" => {
                let handle = self.handle();
                let urgent = self.tcp.block(handle).and_then(|block| block.urgent());
                assert_eq!(urgent.map(|(before, _)| before), rest.parse().ok(), "{place}");
            }
            "read" => {
                let handle = self.handle();
                assert_eq!(self.tcp.read(handle, &mut vec![0; 1 << 20]), number, "{place}");
            }
            "shut" => {
                let handle = self.handle();
                self.tcp.shut_down(handle, self.now);
            }
            "close" => {
                let handle = self.handle();
                self.tcp.close(handle, self.now, &mut self.carrier);
            }
            "state" => assert_eq!(self.state(), rest, "{place}"),
            "error" => assert_eq!(format!("{:?}", self.error()), rest, "{place}"),
            other => panic!("{other} is no step"),
        }
    }

    pub fn error(&mut self) -> Option<Error> {
        let handle = self.handle();
        self.last_error = self.tcp.block(handle).and_then(|block| block.error()).or(self.last_error);
        self.last_error
    }

    pub fn state(&mut self) -> String {
        let handle = self.handle();
        let gone = if self.tcp.census() == [0, 0, 1] { "TimeWait" } else { "Gone" };
        let state: Option<State> = self.tcp.block(handle).map(|block| block.state());
        state.map_or(gone.to_string(), |state| format!("{state:?}"))
    }

    /// A segment of the peer's in the notation.
    pub fn segment(&self, text: &str) -> (Outgoing, usize) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |text: &str| text.parse::<u32>().expect("a number");
        let ours = self.initial.unwrap_or_default();
        let mut outgoing = Outgoing {
            sequence: PEER_INITIAL.plus(number(words[1])),
            acknowledgement: (words[2] != "-").then(|| ours.plus(number(words[2]))),
            flags: flags_of(words[0]) & !ACK,
            window: 60_000,
            ..Outgoing::default()
        };
        for word in &words[4..] {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name {
                "win" => outgoing.window = number(value) as u16,
                "up" => (outgoing.urgent, outgoing.flags) = (number(value) as u16, outgoing.flags | URG),
                "mss" => outgoing.maximum_segment = Some(number(value) as u16),
                "sack" => outgoing.sack_permitted = true,
                "shift" => outgoing.window_shift = Some(number(value) as u8),
                "ts" => outgoing.timestamps = Some(Timestamps { value: number(value), echo: 0 }),
                "echo" => {
                    let stamps = outgoing.timestamps.as_mut().expect("`ts` stands before");
                    stamps.echo = self.stamps[number(value) as usize];
                }
                "block" => {
                    let (first, end) = value.split_once('-').expect("FIRST-END");
                    let free = outgoing.sack.iter_mut().find(|slot| slot.is_none()).expect("three blocks");
                    *free = Some((ours.plus(number(first)), ours.plus(number(end))));
                }
                other => panic!("{other} is no option"),
            }
        }
        (outgoing, number(words[3]) as usize)
    }

    pub fn deliver(&mut self, text: &str) {
        let (mut outgoing, length) = self.segment(text);
        outgoing.length = length as u32;
        let payload = vec![b'y'; length];
        let pair = Pair { local: self.pair.remote, remote: self.pair.local };
        let mut bytes = [0; HEADER_LIMIT];
        let header = outgoing.emit(&pair, Sum::of(&payload), &mut bytes);
        let mut segment = bytes[..header].to_vec();
        segment.extend(payload);
        // Flags that make no sense together are not emitted.
        segment[13] = outgoing.flags | if outgoing.acknowledgement.is_some() { ACK } else { 0 };
        segment[16..18].fill(0);
        let pseudo = pseudo_header(pair.local.address, pair.remote.address, 6, segment.len());
        let sum = pseudo.combine(Sum::of(&segment)).finish();
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        self.deliver_bytes(&segment);
    }

    pub fn deliver_bytes(&mut self, segment: &[u8]) {
        let (source, destination) = (self.pair.remote.address, self.pair.local.address);
        self.tcp.input(source, destination, segment, false, self.now, &mut self.carrier);
    }

    /// What went out since the last time, as segments.
    pub fn outgoing(&mut self) -> Vec<(Segment, usize)> {
        let mut all = Vec::new();
        loop {
            self.tcp.flush(self.now, &mut self.carrier);
            if self.carrier.out.is_empty() {
                return all;
            }
            for packet in self.carrier.out.drain(..) {
                let (_, _, bytes) = unpack(&packet).expect("an IP packet");
                let segment = Segment::parse(bytes).expect("a segment");
                all.push((segment, bytes.len() - segment.header_length));
            }
        }
    }

    pub fn sent(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        for (segment, length) in self.outgoing() {
            if segment.has(SYN) {
                self.initial = Some(segment.sequence);
            }
            self.stamps.extend(segment.timestamps.map(|stamps| stamps.value));
            let ours = self.initial.unwrap_or(segment.sequence);
            let sequence = segment.sequence.distance(ours);
            // One before the first is a probe.
            let sequence = sequence.cast_signed().to_string();
            let acknowledgement = match segment.has(ACK) {
                true => segment.acknowledgement.distance(PEER_INITIAL).to_string(),
                false => "-".into(),
            };
            let mut text = format!("{} {sequence} {acknowledgement} {length}", text_of(segment.flags));
            if segment.has(URG) {
                text += &format!(" up={}", segment.urgent);
            }
            for (first, end) in segment.sack.into_iter().flatten() {
                text += &format!(" block={}-{}", first.distance(PEER_INITIAL), end.distance(PEER_INITIAL));
            }
            texts.push(text);
        }
        texts
    }
}
