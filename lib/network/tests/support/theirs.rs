//! An end that speaks smoltcp's TCP.

use core::net::IpAddr;

use network::time::{MILLISECOND, Time};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr};

use super::ends::End;
use super::script::Script;

#[derive(Default)]
struct Port {
    received: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    mtu: usize,
}

struct Receive(Vec<u8>);
struct Transmit<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for Receive {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, act: F) -> R {
        act(&self.0)
    }
}

impl TxToken for Transmit<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, act: F) -> R {
        let mut packet = vec![0; length];
        let result = act(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Port {
    type RxToken<'a> = Receive;
    type TxToken<'a> = Transmit<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Receive, Transmit<'_>)> {
        let packet = if self.received.is_empty() { None } else { Some(self.received.remove(0)) };
        packet.map(|packet| (Receive(packet), Transmit(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Transmit<'_>> {
        Some(Transmit(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

pub struct Theirs {
    interface: Interface,
    port: Port,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    script: Script,
    shut: bool,
    wakes: Time,
}

fn instant(now: Time) -> Instant {
    Instant::from_micros(now.micros() as i64)
}

impl Theirs {
    pub fn new(address: IpAddr, seed: u64, mtu: usize, script: Script, buffer: usize, now: Time) -> Self {
        let mut port = Port { mtu, ..Port::default() };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut port, instant(now));
        let length = if address.is_ipv4() { 24 } else { 64 };
        interface.update_ip_addrs(|addresses| addresses.push(IpCidr::new(address.into(), length)).expect("room"));
        let mut sockets = SocketSet::new(Vec::new());
        let half = || SocketBuffer::new(vec![0; buffer]);
        let socket = sockets.add(Socket::new(half(), half()));
        Self { interface, port, sockets, socket, script, shut: false, wakes: Time::NEVER }
    }

    pub fn listen(&mut self, port: u16) {
        self.sockets.get_mut::<Socket<'_>>(self.socket).listen(port).expect("a fresh socket");
    }

    pub fn connect(&mut self, remote: IpAddr, port: u16, local_port: u16) {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        socket.connect(self.interface.context(), (remote, port), local_port).expect("a fresh socket");
    }

    fn step(&mut self, now: Time) {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        let script = &mut self.script;
        while socket.can_recv() && script.reads_now() {
            socket.recv(|bytes| (bytes.len(), script.receive(bytes))).expect("it can receive");
        }
        while socket.can_send() {
            let piece = script.piece(usize::MAX);
            let sent = socket.send_slice(piece).expect("it can send");
            script.written += sent;
            if sent == 0 {
                break;
            }
        }
        let established = socket.may_send() && socket.state() != State::SynReceived;
        if established && script.has_written_all() && !self.shut {
            self.shut = true;
            socket.close();
        }
        self.wakes = if socket.can_recv() { now.after(10 * MILLISECOND) } else { Time::NEVER };
    }
}

impl End for Theirs {
    fn deliver(&mut self, packet: &[u8], _: Time) {
        self.port.received.push(packet.to_vec());
    }

    fn poll(&mut self, now: Time) -> Vec<Vec<u8>> {
        self.interface.poll(instant(now), &mut self.port, &mut self.sockets);
        self.step(now);
        self.interface.poll(instant(now), &mut self.port, &mut self.sockets);
        std::mem::take(&mut self.port.sent)
    }

    fn deadline(&self, now: Time) -> Time {
        // Its own estimate needs a mutable interface; a millisecond is fine enough for its timers.
        let socket = self.sockets.get::<Socket<'_>>(self.socket);
        let idle = matches!(socket.state(), State::Closed | State::Listen);
        let next = if idle { Time::NEVER } else { now.after(10 * MILLISECOND) };
        next.min(self.wakes)
    }

    fn is_done(&self) -> bool {
        let socket = self.sockets.get::<Socket<'_>>(self.socket);
        let ended = matches!(socket.state(), State::Closed | State::TimeWait);
        if self.shut && ended && !socket.can_recv() {
            assert_eq!(self.script.received, self.script.expected.len(), "the end came early");
            return true;
        }
        false
    }

    fn assert_clean(&self) {}

    fn describe(&self) -> String {
        let socket = self.sockets.get::<Socket<'_>>(self.socket);
        let script = (self.script.written, self.script.text.len(), self.script.received, self.script.expected.len());
        format!("theirs: script {script:?} {} queued {}", socket.state(), socket.send_queue())
    }
}
