//! Services of the peer, one connection each. `echo` sends back what comes. `sink` answers the SHA-256 of what came.
//! `source` sends as many bytes as the first line asks for, and their SHA-256 behind them. `caller` opens connections
//! to the other machine: so many to a port as its line says. `flooder` does so too, and sends forged SYNs between
//! them. An urgent byte comes back from `echo` as one.

use std::fmt::Write;
use std::net::Ipv4Addr;

use network::address::Endpoint;
use network::slab::Handle;
use network::stack::Stack;
use network::tcp::block::{Block, Options};
use network::time::Time;
use sha2::{Digest, Sha256};

use super::super::random::Random;
use super::jack::Jack;

/// Bytes of a connection that wait for acknowledgement.
const QUEUED: u32 = 128 << 10;
/// Bytes that are read or made at once.
const PIECE: usize = 8 << 10;
/// Bytes of the longest line that asks a source.
const LINE: usize = 20;
/// Calls that one line asks for.
const CALLS: u32 = 64;
/// Forged SYNs before each call of a flooder.
const SYNS: usize = 64;
/// The bytes of all sources are the same.
const SEED: u64 = 19;

/// What a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Echo,
    Sink,
    Source,
    Caller,
    Flooder,
}

#[derive(Debug)]
pub struct Service {
    kind: Kind,
    sum: Sha256,
    line: Vec<u8>,
    /// Bytes that a source still sends, once it was asked.
    left: Option<u64>,
    random: Random,
}

impl Service {
    pub fn new(kind: Kind) -> Self {
        Self { kind, sum: Sha256::new(), line: Vec::new(), left: None, random: Random::new(SEED) }
    }

    /// Reads and writes what it can; false: the connection is over.
    pub fn serve(&mut self, stack: &mut Stack<Jack>, handle: Handle, now: Time) -> bool {
        if stack.tcp.block(handle).is_none_or(|block| block.error().is_some()) {
            return false;
        }
        let is_over = match self.kind {
            Kind::Echo => echo(stack, handle),
            Kind::Sink => self.sink(stack, handle),
            Kind::Source => self.source(stack, handle),
            Kind::Caller | Kind::Flooder => self.call(stack, handle, now),
        };
        !is_over
    }

    fn sink(&mut self, stack: &mut Stack<Jack>, handle: Handle) -> bool {
        loop {
            let piece = read(stack, handle);
            if piece.is_empty() {
                break;
            }
            self.sum.update(&piece);
        }
        let is_over = is_at_end(stack, handle);
        if is_over {
            self.send_sum(stack, handle);
        }
        is_over
    }

    fn source(&mut self, stack: &mut Stack<Jack>, handle: Handle) -> bool {
        if self.left.is_none() {
            self.line.extend(read(stack, handle));
            self.left = asked(&self.line);
        }
        let is_wrong = self.left.is_none() && (self.line.len() > LINE || is_at_end(stack, handle));
        while let Some(left @ 1..) = self.left
            && has_room(stack, handle)
        {
            let mut piece = vec![0; PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
            piece.chunks_mut(8).for_each(|word| word.copy_from_slice(&self.random.next().to_le_bytes()[..word.len()]));
            self.sum.update(&piece);
            send(stack, handle, &piece);
            self.left = Some(left - piece.len() as u64);
        }
        let is_over = self.left == Some(0);
        if is_over {
            self.send_sum(stack, handle);
        }
        is_over || is_wrong
    }

    /// Each call says one line and ends.
    fn call(&mut self, stack: &mut Stack<Jack>, handle: Handle, now: Time) -> bool {
        self.line.extend(read(stack, handle));
        let Some((port, calls)) = wanted(&self.line) else {
            return self.line.len() > LINE || is_at_end(stack, handle);
        };
        let Some(pair) = stack.tcp.block(handle).map(|block| *block.pair()) else { return true };
        for _ in 0..calls.min(CALLS) {
            let to = Endpoint { address: pair.remote.address, port };
            if self.kind == Kind::Flooder {
                (0..SYNS).for_each(|_| self.forge_syn(stack, to));
            }
            let Ok(call) = stack.connect(to, Options::default(), now) else { break };
            let extent = stack.link_mut().store(b"called\n");
            stack.tcp.send(call, extent);
            stack.close(call, now);
        }
        true
    }

    /// A SYN from an address that answers nothing (198.18.0.0/15, RFC 2544).
    fn forge_syn(&mut self, stack: &mut Stack<Jack>, to: Endpoint) {
        let known = stack.neighbors().find(|(address, _)| *address == to.address);
        let (Some((_, hardware)), Some(target)) = (known, to.address.to_ipv4_mapped()) else { return };
        let (drawn, sequence) = (self.random.next(), self.random.next() as u32);
        let source = Ipv4Addr::from(0xc612_0000 | drawn as u32 & 0x1_ffff);
        let mut ip = [&[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0][..], &source.octets(), &target.octets()].concat();
        let sum = checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum);
        let mut tcp = [0; 20];
        tcp[..2].copy_from_slice(&((drawn >> 32) as u16 | 1024).to_be_bytes());
        tcp[2..4].copy_from_slice(&to.port.to_be_bytes());
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        // Twenty bytes of header, SYN, and a window.
        tcp[12..16].copy_from_slice(&[0x50, 2, 0x40, 0]);
        let sum = checksum(&[&source.octets(), &target.octets(), &[0, 6, 0, 20], &tcp]);
        tcp[16..18].copy_from_slice(&sum);
        let link = [&hardware.0[..], &super::ADDRESS, &[8, 0]].concat();
        stack.link_mut().sent.push_back([link, ip, tcp.to_vec()].concat());
    }

    fn send_sum(&mut self, stack: &mut Stack<Jack>, handle: Handle) {
        let line = hexadecimal(std::mem::take(&mut self.sum)) + "\n";
        send(stack, handle, line.as_bytes());
    }
}

fn echo(stack: &mut Stack<Jack>, handle: Handle) -> bool {
    while has_room(stack, handle) {
        let urgent = stack.tcp.block(handle).and_then(Block::urgent);
        let piece = read(stack, handle);
        if piece.is_empty() {
            break;
        }
        send(stack, handle, &piece);
        if let Some((before, _)) = urgent.filter(|(before, _)| *before < piece.len()) {
            stack.tcp.mark_urgent(handle, (piece.len() - before - 1) as u32);
        }
    }
    is_at_end(stack, handle)
}

fn read(stack: &mut Stack<Jack>, handle: Handle) -> Vec<u8> {
    let waiting = stack.tcp.block(handle).map_or(0, Block::readable);
    let mut piece = vec![0; PIECE.min(waiting)];
    let count = stack.tcp.read(handle, &mut piece);
    piece.truncate(count);
    piece
}

fn send(stack: &mut Stack<Jack>, handle: Handle, bytes: &[u8]) {
    let extent = stack.link_mut().store(bytes);
    stack.tcp.send(handle, extent);
}

fn is_at_end(stack: &Stack<Jack>, handle: Handle) -> bool {
    stack.tcp.block(handle).is_none_or(Block::is_at_end)
}

fn has_room(stack: &Stack<Jack>, handle: Handle) -> bool {
    stack.tcp.block(handle).is_some_and(|block| block.may_send() && block.queued() < QUEUED)
}

/// The checksum of the Internet over parts of an even length.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let words = parts.iter().flat_map(|part| part.chunks_exact(2));
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (!((folded & 0xffff) + (folded >> 16)) as u16).to_be_bytes()
}

/// The port and the number of calls in a line that is whole.
fn wanted(line: &[u8]) -> Option<(u16, u32)> {
    let end = line.iter().position(|byte| *byte == b'\n')?;
    let (port, calls) = std::str::from_utf8(&line[..end]).ok()?.split_once(' ')?;
    Some((port.parse().ok()?, calls.trim().parse().ok()?))
}

/// The number in a line that is whole.
fn asked(line: &[u8]) -> Option<u64> {
    let end = line.iter().position(|byte| *byte == b'\n')?;
    std::str::from_utf8(&line[..end]).ok()?.trim().parse().ok()
}

/// The digits of a sum.
pub fn hexadecimal(sum: Sha256) -> String {
    sum.finalize().iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
