//! Linux's TCP is the third implementation: our stack on a tap in a network name space of its own, and sockets of the
//! host's kernel on the other side. Runs as root in full runs; the wire loses one frame of fifty each way.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use network::address::Endpoint;
use network::checksum::Sum;
use network::link::{Extent, Full, Link, Pages, Part};
use network::route::Prefix;
use network::slab::Handle;
use network::stack::Stack;
use network::tcp::block::Options;
use network::tcp::listen::Listener;
use network::time::{SECOND, Time};
use smoltcp::phy::{Device, Medium, RxToken, TunTapInterface, TxToken, wait};
use smoltcp::wire::EthernetAddress;
use support::memory::Memory;
use support::random::{Random, seed};
use support::script::text;

const TAP: &str = "chitin0";
const LINUX: [u8; 4] = [10, 9, 0, 1];
const OURS: [u8; 4] = [10, 9, 0, 2];
const BYTES: usize = 2 << 20;
/// Set in the process that runs inside the name space.
const INSIDE: &str = "CHITIN_NETWORK_INSIDE";
/// Frames in a thousand that are lost, each way.
const LOSS: u64 = 20;

struct Tap {
    device: TunTapInterface,
    memory: Memory,
    random: Random,
}

impl Pages for Tap {
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

impl Link for Tap {
    fn hardware_address(&self) -> EthernetAddress {
        EthernetAddress([2, 0, 0, 0, 9, 2])
    }

    fn mtu(&self) -> usize {
        1500
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        frame.clear();
        let Some((token, _)) = self.device.receive(smoltcp::time::Instant::ZERO) else { return false };
        token.consume(|bytes| frame.extend_from_slice(bytes));
        if self.random.chance(LOSS) {
            frame.clear();
        }
        true
    }

    fn has_room(&self) -> bool {
        true
    }

    fn send(&mut self, head: &[u8], parts: &[Part]) -> Result<(), Full> {
        let mut frame = head.to_vec();
        parts.iter().for_each(|part| frame.extend_from_slice(self.memory.bytes(*part)));
        if self.random.chance(LOSS) {
            return Ok(());
        }
        let token = self.device.transmit(smoltcp::time::Instant::ZERO).ok_or(Full)?;
        token.consume(frame.len(), |bytes| bytes.copy_from_slice(&frame));
        Ok(())
    }
}

/// Connections that send back what they get, and one that connects outward.
struct Echo {
    stack: Stack<Tap>,
    listener: Handle,
    open: Vec<(Handle, bool)>,
    start: Instant,
}

impl Echo {
    fn new() -> Self {
        let device = TunTapInterface::new(TAP, Medium::Ethernet).expect("the tap is there");
        let tap = Tap { device, memory: Memory::default(), random: Random::new(seed()) };
        let mut stack = Stack::new(tap, [seed(), 4], Time::from_micros(SECOND));
        stack.add_address(Prefix::new(OURS, 24));
        let listener = Listener::new(Endpoint::new(OURS, 80), 16, Options::default());
        let listener = stack.tcp.listen(listener).expect("the port is free");
        Self { stack, listener, open: Vec::new(), start: Instant::now() }
    }

    fn now(&self) -> Time {
        Time::from_micros(SECOND + self.start.elapsed().as_micros() as u64)
    }

    fn step(&mut self) {
        let now = self.now();
        self.stack.poll(now);
        while let Some(handle) = self.stack.tcp.accept(self.listener) {
            self.open.push((handle, false));
        }
        let mut open = std::mem::take(&mut self.open);
        open.retain_mut(|(handle, shut)| self.serve(*handle, shut, now));
        self.open = open;
        self.stack.flush(now);
        let wait_for = self.stack.deadline().since(self.now()).clamp(0, 5_000);
        let timeout = Some(smoltcp::time::Duration::from_micros(wait_for));
        wait(self.stack.link().device.as_raw_fd(), timeout).expect("the tap can be waited for");
    }

    /// Whether the connection stays open.
    fn serve(&mut self, handle: Handle, shut: &mut bool, now: Time) -> bool {
        let Some(block) = self.stack.tcp.block(handle) else { return false };
        assert_eq!(block.error(), None);
        if !*shut && block.may_send() && block.queued() < 128 << 10 {
            let mut buffer = [0; 4096];
            let count = self.stack.tcp.read(handle, &mut buffer);
            if count > 0 {
                let extent = self.stack.link_mut().memory.store(&buffer[..count]);
                assert!(self.stack.tcp.send(handle, extent));
            }
        }
        let block = self.stack.tcp.block(handle).expect("it was there");
        if block.is_at_end() && !*shut {
            *shut = true;
            self.stack.close(handle, now);
            return false;
        }
        true
    }
}

/// Sends text through an echo on a socket of the kernel's, and compares.
fn exchange(stream: TcpStream, seed: u64) {
    let bytes = text(seed, BYTES);
    let (mut writer, sent) = (stream.try_clone().expect("a second handle"), bytes.clone());
    let sender = thread::spawn(move || {
        writer.write_all(&sent).expect("all is sent");
        writer.shutdown(Shutdown::Write).expect("it is open");
    });
    let mut received = Vec::new();
    let mut reader = stream;
    reader.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    reader.read_to_end(&mut received).expect("all comes back");
    sender.join().expect("the sender ends");
    assert!(received == bytes, "{} of {} bytes", received.len(), bytes.len());
}

fn inside() {
    let mut echo = Echo::new();
    let server = TcpListener::bind((core::net::Ipv4Addr::from(LINUX), 81)).expect("the port is free");
    let clients: Vec<_> = (0..3)
        .map(|number| {
            thread::spawn(move || {
                exchange(TcpStream::connect((core::net::Ipv4Addr::from(OURS), 80)).expect("it answers"), number);
            })
        })
        .collect();
    let accepted = thread::spawn(move || exchange(server.accept().expect("it comes").0, 77));
    let now = echo.now();
    let outward = echo.stack.connect(Endpoint::new(LINUX, 81), Options::default(), now).expect("a port is free");
    echo.open.push((outward, false));
    let end = Instant::now() + Duration::from_secs(120);
    while !(clients.iter().all(|client| client.is_finished()) && accepted.is_finished()) {
        assert!(Instant::now() < end, "not done: {:?}", echo.stack.tcp.census());
        echo.step();
    }
    clients.into_iter().for_each(|client| client.join().expect("a client ends well"));
    accepted.join().expect("the accepted one ends well");
    let end = Instant::now() + Duration::from_secs(20);
    while echo.stack.tcp.census()[0] > 0 && Instant::now() < end {
        echo.step();
    }
    assert_eq!(echo.stack.tcp.census()[..2], [0, 0]);
    println!("{:?}", echo.stack.tcp.counters());
}

#[test]
#[ignore = "full runs only: needs root, /dev/net/tun and a name space"]
fn bytes_travel_to_and_from_linux() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let own = std::env::current_exe().expect("this test");
    let script = format!(
        "ip tuntap add mode tap name {TAP} && ip addr add 10.9.0.1/24 dev {TAP} && ip link set {TAP} up && \
         exec \"$0\" --ignored --nocapture bytes_travel_to_and_from_linux"
    );
    let mut command = Command::new("unshare");
    command.args(["-n", "sh", "-c", &script]).arg(own).env(INSIDE, "1");
    assert!(command.status().expect("unshare is installed").success());
}
