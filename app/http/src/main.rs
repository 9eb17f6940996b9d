//! HTTP server on a TCP of its own (DESIGN.md §5): `./chitin run --native http -p 8080:80`.
//!
//! The first environment owns the card. It leases an address by DHCP, and gives a second environment two filters: one
//! for ARP, one for TCP port 80 of that address. The second one serves with a stack of its own in its own pages. The
//! kernel gives it no other frame, and lets it send under no other address or port.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

mod page;
mod wire;

use abi::KeyIndex;
use abi::budget::Resource;
use abi::packet_filter::ROOT;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::sync::atomic::Ordering::Acquire;
use network::address::Endpoint;
use network::checksum::Sum;
use network::link::Extent;
use network::route::Prefix;
use network::server::Server;
use network::slab::Handle;
use network::stack::Stack;
use network::tcp::block::{Block, Options};
use network::tcp::listen::Listener;
use network::time::Time;
use runtime::area::{self, Area};
use runtime::environment::{Builder, Child};
use runtime::image::Image;
use runtime::packet::{self, Ring};
use runtime::page::Allocator;
use runtime::{Failure, archive, clock, entry, println, syscall, time_slice};
use wire::Wire;

entry!(main);

/// The first card, the port, and nanoseconds that DHCP may take.
const CARD: u64 = 1;
const PORT: u16 = 80;
const PATIENCE: u64 = 10_000_000_000;
const KEY: KeyIndex = KeyIndex::FIRST;
/// Budget of the server; connections that wait; bytes of one that wait for acknowledgement.
const PAGES: u64 = 4_096;
const BACKLOG: usize = 128;
const QUEUED: u32 = 32 << 10;

fn main() -> u32 {
    entry::status_of(run())
}

fn run() -> Result<(), String> {
    let refused = |failure: Failure| format!("the card: {} ({failure:?})", failure.error.text());
    let hardware = packet::hardware_address(CARD).ok_or("no network card: give one with --network user or -p")?;
    syscall::network_open(KEY, CARD, 1).map_err(refused)?;
    let ring = Ring::new(32, 8).map_err(refused)?;
    let mut wanted = packet::filter(CARD, ROOT, area::access_list(), KEY);
    wanted.ring = ring.page.0;
    let root = packet::insert(KEY, &wanted, &[packet::came_by(CARD)]).map_err(refused)?;
    let mut stack = Stack::new(Wire::new(ring, [root; 2], hardware, Vec::new()), packet::secret(), now());
    stack.start_dhcp(clock::ticks() as u32, now());
    let begun = clock::now();
    let mut server: Option<Child> = None;
    loop {
        step(&mut stack, |_| ());
        match (&server, stack.lease().map(|lease| lease.address)) {
            (None, Some(address)) => {
                server = Some(start(root, address, hardware).map_err(refused)?);
                println!("http: http://{address}/");
            }
            (None, None) if clock::now() > begun + PATIENCE => return Err("no DHCP server answers".into()),
            (Some(server), _) if !server.alive() => return Err("the server has ended".into()),
            _ => {}
        }
    }
}

/// Starts the environment that serves, with its filters.
fn start(root: u64, address: Ipv4Addr, hardware: [u8; 6]) -> Result<Child, Failure> {
    let image = Image::init_of(archive::boot(), Allocator::own()).map_err(|_| abi::Error::BadArgument.about(0))?;
    let mut builder = Builder::new()?;
    let mut arp = packet::filter(CARD, root, builder.pages.list, builder.key);
    let mut tcp = arp;
    let own = address.octets();
    packet::fix(&mut arp, &[(6, &hardware), (12, &[8, 6]), (22, &hardware), (28, &own)]);
    packet::fix(&mut tcp, &[(6, &hardware), (12, &[8, 0, 0x45]), (23, &[6]), (26, &own), (34, &PORT.to_be_bytes())]);
    let kind = |kind: u32| [packet::came_by(CARD), packet::equal(2, 12, kind)];
    let ends = [packet::equal(4, 30, address.to_bits()), packet::equal(2, 36, u32::from(PORT))];
    let of_tcp = [&kind(0x800)[..], &[packet::equal(1, 14, 0x45), packet::equal(1, 23, 6)], &ends].concat();
    let filters = [packet::insert(KEY, &arp, &kind(0x806))?, packet::insert(KEY, &tcp, &of_tcp)?];
    builder
        .program(&image)?
        .function(serve, address.to_bits().into())
        .free_word(0, filters[0])
        .free_word(1, filters[1]);
    builder.budget(Resource::Page, PAGES).budget(Resource::Pin, abi::limits::DEVICE_PINS);
    let child = builder.create()?;
    child.run(0, time_slice::ANY_POSITION)?;
    Ok(child)
}

/// The second environment.
extern "C" fn serve(address: u64) {
    let filters = [0, 1].map(|index| Area::current().library().free[index].load(Acquire));
    let (Ok(ring), Some(hardware)) = (Ring::new(64, 32), packet::hardware_address(CARD)) else { return };
    if filters.iter().any(|filter| ring.take_frames_of(*filter).is_err()) {
        return;
    }
    let mut stack = Stack::new(Wire::new(ring, filters, hardware, page::answers()), packet::secret(), now());
    stack.add_address(Prefix::new(Ipv4Addr::from_bits(address as u32), 24));
    let local = Endpoint::new(Ipv4Addr::from_bits(address as u32), PORT);
    let options = Options { no_delay: true, keep_alive: true, ..Options::default() };
    let mut server = Server::default();
    if server.listen(&mut stack, Listener::new(local, BACKLOG, options), ()).is_err() {
        return;
    }
    loop {
        step(&mut stack, |stack| server.serve(stack, now(), |()| Vec::new(), answer));
    }
}

/// Reads requests of a connection and answers them; false: it is over.
fn answer(stack: &mut Stack<Wire>, handle: Handle, bytes: &mut Vec<u8>) -> bool {
    while stack.tcp.block(handle).is_some_and(|block| block.queued() < QUEUED) {
        if let Some(answer) = page::take(bytes) {
            let whole = &stack.link().answers[answer];
            let (length, sum) = (whole.len() as u32, Sum::of(whole));
            stack.tcp.send(handle, Extent { page: answer as u64, offset: 0, length, sum: Some(sum) });
            if answer & page::CLOSES != 0 {
                return false;
            }
            continue;
        }
        let mut some = [0; 512];
        let count = stack.tcp.read(handle, &mut some);
        bytes.extend_from_slice(&some[..count]);
        if count == 0 {
            break;
        }
    }
    // While answers wait, requests may: the end of what comes is not yet the end of the connection.
    let ends = |block: &Block| block.error().is_some() || block.is_at_end() && block.queued() < QUEUED;
    !stack.tcp.block(handle).is_none_or(ends)
}

/// One round of a stack, then sleep until a frame comes or a timer ends.
fn step(stack: &mut Stack<Wire>, work: impl FnOnce(&mut Stack<Wire>)) {
    let seen = stack.link().ring.received().load(Acquire);
    stack.poll(now());
    work(stack);
    stack.flush(now());
    let deadline = stack.deadline().micros().saturating_mul(1000).min(clock::now() + 1_000_000_000);
    stack.link().ring.wait(seen, deadline);
}

fn now() -> Time {
    Time::from_micros(clock::now() / 1000)
}
