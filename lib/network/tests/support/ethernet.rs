//! Ethernet ends of a test: a stack, and a cable that a test looks into.

use std::collections::VecDeque;

use network::checksum::Sum;
use network::link::{Extent, Full, Link, Pages, Part};
use network::route::Prefix;
use network::stack::Stack;
use network::time::Time;
use smoltcp::wire::EthernetAddress;

use super::memory::Memory;

pub struct Port {
    pub memory: Memory,
    pub received: VecDeque<Vec<u8>>,
    pub sent: Vec<Vec<u8>>,
    hardware: EthernetAddress,
    pub mtu: usize,
}

impl Port {
    pub fn new(last: u8, mtu: usize) -> Self {
        let hardware = EthernetAddress([2, 0, 0, 0, 0, last]);
        Self { memory: Memory::default(), received: VecDeque::new(), sent: Vec::new(), hardware, mtu }
    }
}

impl Pages for Port {
    fn sum(&self, part: Part) -> Sum {
        self.memory.sum(part)
    }

    fn append(&self, part: Part, to: &mut Vec<u8>) {
        self.memory.append(part, to);
    }

    fn release(&mut self, extent: Extent) {
        self.memory.release(extent);
    }
}

impl Link for Port {
    fn hardware_address(&self) -> EthernetAddress {
        self.hardware
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        frame.clear();
        self.received.pop_front().inspect(|next| frame.extend_from_slice(next)).is_some()
    }

    fn has_room(&self) -> bool {
        self.sent.len() < 256
    }

    fn send(&mut self, head: &[u8], parts: &[Part]) -> Result<(), Full> {
        if !self.has_room() {
            return Err(Full);
        }
        let mut frame = head.to_vec();
        parts.iter().for_each(|part| frame.extend_from_slice(self.memory.bytes(*part)));
        assert!(frame.len() <= self.mtu + 14, "{} bytes on a link of {}", frame.len(), self.mtu);
        self.sent.push(frame);
        Ok(())
    }
}

/// A stack with 10.0.0.`last` and fd00::`last`.
pub fn stack(last: u8, mtu: usize, now: Time) -> Stack<Port> {
    let mut stack = Stack::new(Port::new(last, mtu), [u64::from(last), 99], now);
    stack.add_address(Prefix::new([10, 0, 0, last], 24));
    stack.add_address(Prefix::new([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)], 64));
    stack
}

/// Polls both and carries frames between them until both are silent.
pub fn exchange(first: &mut Stack<Port>, second: &mut Stack<Port>, now: Time) {
    loop {
        first.poll(now);
        second.poll(now);
        let (to_second, to_first) = (take(first), take(second));
        if to_first.is_empty() && to_second.is_empty() {
            return;
        }
        second.link_mut().received.extend(to_second);
        first.link_mut().received.extend(to_first);
    }
}

pub fn take(stack: &mut Stack<Port>) -> Vec<Vec<u8>> {
    std::mem::take(&mut stack.link_mut().sent)
}
