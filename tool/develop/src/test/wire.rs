//! Peers of guests' network cards. Each listens at a Unix socket, to which the emulator connects for a card. Every
//! frame has its length before it, in 4 bytes, the most significant first.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::wire::faults::Faults;
use crate::wire::switch::{PortNumber, Switch};
use crate::wire::{self, port};
use chitin::failure::{Context, Result};

/// What a peer does.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// Sends frames of 60 bytes as fast as they are taken, for a second, then nothing for a second, over and over.
    Flood,
    /// Asks for the address of 10.9.0.2, pings it, and sends a frame of kind 0x88b5 when all answers have come.
    Ping,
    /// The peer of `./chitin wire --peer`: a machine that leases addresses and echoes.
    Services,
    /// Waits for a question by DHCP, sends damaged frames of all kinds, and waits for the next question.
    Garbage,
}

/// How a peer fared: a line for the transcript, or what it missed.
pub type Fared = std::result::Result<String, String>;

/// A peer at work.
pub struct Wire {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Fared>,
}

/// How long a read or a write waits before the peer looks whether the machine has stopped.
const STEP: Duration = Duration::from_millis(50);
const PINGS: u16 = 40;
/// How long an answer may take before the question is asked again.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a flood waits for the machine. Where frames wait from its first instruction on, QEMU's microvm sometimes
/// enters a kernel that its firmware has not loaded, and executes zeros for ever.
const FIRMWARE: Duration = Duration::from_secs(3);

const OWN: [u8; 6] = [2, 0, 0, 0, 9, 1];
const OWN_IP: [u8; 4] = [10, 9, 0, 1];
const GUEST_IP: [u8; 4] = [10, 9, 0, 2];
const EVERYONE: [u8; 6] = [0xff; 6];
const ARP: [u8; 2] = [8, 6];
const IP: [u8; 2] = [8, 0];
const GOODBYE: [u8; 2] = [0x88, 0xb5];

/// Starts a peer that listens at `socket`.
///
/// # Errors
/// When it cannot listen there.
pub fn start(peer: Peer, socket: &Path) -> Result<Wire> {
    let listener = UnixListener::bind(socket).context("a peer's socket")?;
    listener.set_nonblocking(true).context("a peer's socket")?;
    let over = Arc::new(AtomicBool::new(false));
    let line = Arc::clone(&over);
    let thread = thread::spawn(move || {
        let line = Line::accept(&listener, line).map_err(|error| format!("the peer's socket: {error}"))?;
        match peer {
            Peer::Flood => flood(line),
            Peer::Ping => ping(line),
            Peer::Garbage => garbage(line),
            Peer::Services => services(line),
        }
    });
    Ok(Wire { over, thread })
}

impl Wire {
    /// The machine has stopped: how the peer fared.
    pub fn finish(self) -> Fared {
        self.over.store(true, Ordering::Release);
        self.thread.join().unwrap_or_else(|_| Err("the peer failed".into()))
    }
}

/// One connection. What is read in part stays until the rest comes.
struct Line {
    stream: UnixStream,
    over: Arc<AtomicBool>,
    read: Vec<u8>,
}

impl Line {
    fn accept(listener: &UnixListener, over: Arc<AtomicBool>) -> std::io::Result<Self> {
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock && !over.load(Ordering::Acquire) => {
                    thread::sleep(STEP / 10);
                }
                Err(error) => return Err(error),
            }
        };
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(STEP))?;
        stream.set_write_timeout(Some(STEP))?;
        Ok(Self { stream, over, read: Vec::new() })
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Writes all bytes; false once the machine has stopped.
    fn write(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() && !self.is_over() {
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_time_out(&error) => {}
                Err(_) => return false,
            }
        }
        bytes.is_empty()
    }

    fn send(&mut self, frame: &[u8]) -> bool {
        self.write(&framed(frame))
    }

    /// The next frame that comes until `deadline`.
    fn receive(&mut self, deadline: Instant) -> Option<Vec<u8>> {
        let mut some = [0; 4096];
        loop {
            if let Some(length) = self.read.first_chunk().map(|length| u32::from_be_bytes(*length) as usize)
                && self.read.len() >= 4 + length
            {
                let frame = self.read[4..4 + length].to_vec();
                self.read.drain(..4 + length);
                return Some(frame);
            }
            match self.stream.read(&mut some) {
                Ok(count @ 1..) => self.read.extend_from_slice(&some[..count]),
                Err(error) if is_time_out(&error) && !self.is_over() && Instant::now() < deadline => {}
                _ => return None,
            }
        }
    }
}

fn is_time_out(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes(), frame].concat()
}

fn flood(mut line: Line) -> Fared {
    let frame = framed(&[&EVERYONE[..], &OWN, &GOODBYE, &[0; 46]].concat());
    let many = frame.repeat(32);
    thread::sleep(FIRMWARE);
    let (start, mut sent) = (Instant::now(), 0u64);
    while !line.is_over() {
        if start.elapsed().as_secs() % 2 == 1 {
            thread::sleep(STEP / 10);
        } else if line.write(&many) {
            sent += 32;
        } else {
            break;
        }
    }
    Ok(format!("{sent} frames in {:?}", start.elapsed()))
}

fn ping(mut line: Line) -> Fared {
    let Some(guest) = find(&mut line) else { return Err("no answer to the question for the guest's address".into()) };
    for number in 0..PINGS {
        let payload: Vec<u8> = (0..usize::from(number) * 36).map(|index| (index as u16 ^ number * 7) as u8).collect();
        let question = echo(&guest, number, &payload);
        if !asked(&mut line, &question, |frame| is_answer(frame, &guest, number, &payload)) {
            return Err(format!("ping {number} of {} bytes was not answered", payload.len()));
        }
    }
    line.send(&[&guest[..], &OWN, &GOODBYE, &[0; 46]].concat());
    while !line.is_over() {
        line.receive(Instant::now() + STEP);
    }
    Ok(format!("{PINGS} pings were answered"))
}

/// Carries frames between the machine and the peer until the machine stops.
fn services(line: Line) -> Fared {
    const FRAMES: usize = 1_024;
    const MACHINE: PortNumber = 1;
    let (events, arrivals) = sync_channel(FRAMES);
    let joined = line.stream.set_read_timeout(None).and_then(|()| line.stream.set_write_timeout(None));
    joined.and_then(|()| port::open(MACHINE, line.stream, &events)).map_err(|error| error.to_string())?;
    drop(events);
    let mut joined = wire::Wire::new(Switch::new(Faults::default(), 1), Some(1));
    joined.carry(&arrivals, true);
    Ok(format!("{} frames were carried", joined.frames()))
}

/// Damaged frames that are sent, and how long the next question may take.
const DAMAGED: u64 = 4_000;
const SILENCE: Duration = Duration::from_secs(20);

fn garbage(mut line: Line) -> Fared {
    let Some(guest) = question_by_dhcp(&mut line) else { return Err("no question by DHCP came".into()) };
    let wholes = templates(&guest);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for number in 0..DAMAGED {
        let whole = &wholes[number as usize % wholes.len()];
        if !line.send(&damaged(whole, &mut seed)) {
            return Err(format!("the machine stopped at frame {number}"));
        }
    }
    if question_by_dhcp(&mut line).is_none() {
        return Err("no question by DHCP came after damaged frames".into());
    }
    while !line.is_over() {
        line.receive(Instant::now() + STEP);
    }
    Ok(format!("the machine asked again after {DAMAGED} damaged frames"))
}

/// Waits for a question by DHCP: the address of its sender.
fn question_by_dhcp(line: &mut Line) -> Option<[u8; 6]> {
    const TO_SERVER: [u8; 2] = [0, 67];
    let deadline = Instant::now() + SILENCE;
    std::iter::from_fn(|| line.receive(deadline))
        .find(|frame| frame.len() > 42 && frame[12..14] == IP && frame[23] == 17 && frame[36..38] == TO_SERVER)
        .and_then(|frame| frame[6..12].try_into().ok())
}

/// Whole frames of each kind that a stack reads.
fn templates(guest: &[u8; 6]) -> Vec<Vec<u8>> {
    let v4 = |protocol: u8, body: &[u8]| {
        let length = (20 + body.len() as u16).to_be_bytes();
        let mut header =
            [&[0x45, 0], &length[..], &[0, 7, 0, 0, 64, protocol, 0, 0], &OWN_IP, &[255, 255, 255, 255]].concat();
        let sum = checksum(&header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        [&guest[..], &OWN, &IP, &header, body].concat()
    };
    let v6 = |next: u8, body: &[u8]| {
        let (length, mut from, mut to) = ((body.len() as u16).to_be_bytes(), [0; 16], [0; 16]);
        (from[0], from[1], from[15], to[0], to[1], to[15]) = (0xfe, 0x80, 1, 0xff, 2, 1);
        let header = [&[0x60, 0, 0, 0], &length[..], &[next, 255], &from, &to].concat();
        [&guest[..], &OWN, &[0x86, 0xdd], &header, body].concat()
    };
    let dhcp = [&[0, 67, 0, 68, 1, 8, 0, 0, 2, 1, 6, 0][..], &[0; 232], &[99, 130, 83, 99, 53, 1, 2, 255]].concat();
    vec![
        [&EVERYONE[..], &OWN, &ARP, &[0, 1, 8, 0, 6, 4, 0, 1], &OWN, &OWN_IP, &[0; 28]].concat(),
        v4(17, &dhcp),
        v4(
            1,
            &[3, 3, 0, 0, 0, 0, 0, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 2, 15, 10, 9, 0, 1, 0, 9, 0, 53],
        ),
        v4(6, &[0, 80, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x70, 2, 255, 255, 0, 0, 0, 0, 2, 4, 5, 180, 1, 3, 3, 7]),
        v6(
            58,
            &[134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 64, 0xc0, 0, 0, 9, 9, 0, 0, 9, 9, 0, 0, 0, 0],
        ),
        v6(44, &[17, 0, 0, 1, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8]),
    ]
}

/// A frame with some bytes changed, cut or lengthened.
fn damaged(whole: &[u8], seed: &mut u64) -> Vec<u8> {
    let mut draw = |below: usize| {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        (*seed >> 11) as usize % below.max(1)
    };
    let mut frame = whole.to_vec();
    for _ in 0..draw(6) {
        let place = 12 + draw(frame.len() - 12);
        frame[place] = draw(256) as u8;
    }
    match draw(4) {
        0 => frame.truncate(14 + draw(frame.len() - 14)),
        1 => frame.extend((0..draw(1_200)).map(|index| index as u8)),
        _ => {}
    }
    frame
}

/// Sends a frame until one comes that is an answer; false: none did.
fn asked(line: &mut Line, question: &[u8], is_answer: impl Fn(&[u8]) -> bool) -> bool {
    (0..20).any(|_| {
        let deadline = Instant::now() + PATIENCE;
        line.send(question)
            && std::iter::from_fn(|| line.receive(deadline).filter(|_| Instant::now() < deadline))
                .any(|frame| is_answer(&frame))
    })
}

/// The hardware address of the guest.
fn find(line: &mut Line) -> Option<[u8; 6]> {
    const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
    let question = [&EVERYONE[..], &OWN, &ARP, &REQUEST, &OWN, &OWN_IP, &[0; 6], &GUEST_IP, &[0; 18]].concat();
    let mut found = None;
    (0..20).find_map(|_| {
        let deadline = Instant::now() + PATIENCE;
        line.send(&question);
        while let (None, Some(frame)) = (found, line.receive(deadline)) {
            let is_reply = frame.len() >= 42 && frame[12..14] == ARP && frame[20..22] == [0, 2];
            if is_reply && frame[28..32] == GUEST_IP && frame[32..42] == *[&OWN[..], &OWN_IP].concat() {
                found = frame[22..28].try_into().ok();
            }
        }
        found
    })
}

fn echo(guest: &[u8; 6], number: u16, payload: &[u8]) -> Vec<u8> {
    let number = number.to_be_bytes();
    let mut message = [&[8, 0, 0, 0, 0x12, 0x34], &number[..], payload].concat();
    let sum = checksum(&message).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    let length = (20 + message.len() as u16).to_be_bytes();
    let mut header = [&[0x45, 0], &length[..], &number, &[0, 0, 64, 1, 0, 0], &OWN_IP, &GUEST_IP].concat();
    let sum = checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    [&guest[..], &OWN, &IP, &header, &message].concat()
}

fn is_answer(frame: &[u8], guest: &[u8; 6], number: u16, payload: &[u8]) -> bool {
    let length = 14 + 20 + 8 + payload.len();
    frame.len() >= length
        && frame[..14] == *[&OWN[..], guest, &IP].concat()
        && frame[26..34] == *[GUEST_IP, OWN_IP].concat()
        && checksum(&frame[14..34]) == 0
        && checksum(&frame[34..length]) == 0
        && frame[34..36] == [0, 0]
        && frame[40..42] == number.to_be_bytes()
        && frame[42..length] == *payload
}

/// The Internet checksum (RFC 1071); 0 over bytes that hold theirs.
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let sum: u32 = bytes.chunks(2).map(word).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_frames_differ_and_keep_a_header() {
        let wholes = templates(&[2, 0, 0, 0, 0, 7]);
        let mut seed = 7;
        let frames: Vec<_> = (0..600).map(|number| damaged(&wholes[number % wholes.len()], &mut seed)).collect();
        let lengths = frames.iter().all(|frame| (14..1_514).contains(&frame.len()));
        let changed = frames.iter().filter(|frame| !wholes.contains(frame)).count();
        assert!(lengths && changed > 400, "{changed}");
    }

    #[test]
    fn questions_are_whole_and_answers_are_looked_at() {
        let guest = [2, 0, 0, 0, 0, 7];
        let mut question = echo(&guest, 3, &[1, 2, 3]);
        assert_eq!((question.len(), checksum(&question[14..34]), checksum(&question[34..])), (45, 0, 0));
        assert!(!is_answer(&question, &guest, 3, &[1, 2, 3]));
        question[..12].copy_from_slice(&[OWN, guest].concat());
        question[26..34].copy_from_slice(&[GUEST_IP, OWN_IP].concat());
        question[34..38].fill(0);
        let sum = checksum(&question[34..]).to_be_bytes();
        question[36..38].copy_from_slice(&sum);
        assert!(is_answer(&question, &guest, 3, &[1, 2, 3]));
        assert!(!is_answer(&question, &guest, 4, &[1, 2, 3]) && !is_answer(&question, &guest, 3, &[1, 2, 4]));
        question[36] ^= 1;
        assert!(!is_answer(&question, &guest, 3, &[1, 2, 3]));
    }
}
