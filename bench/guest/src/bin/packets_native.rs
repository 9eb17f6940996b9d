//! Classification by the kernel's own path (exokernel-sosp95, Table 7): what sending a frame to interface 0 takes with
//! ten filters of TCP/IP, and without any. The filters have no rings, so that nothing is copied.
//!
//! The machine has room for filters by the word `packets` on the kernel's command line.
#![no_std]
#![no_main]

extern crate alloc;

use abi::interface::LOOPBACK;
use abi::packet_filter::ROOT;
use bench_guest::{begin, measure};
use runtime::packet::{self, Ring};
use runtime::{Failure, KeyIndex, area, println, syscall};

runtime::entry!(main);

const KEY: KeyIndex = KeyIndex::FIRST;
/// Ports of the ten filters, from this one on; the one that frames go to; one that no filter has.
const PORTS: core::ops::Range<u16> = 8000..8010;
const TAKEN: u16 = 8005;
const FREE: u16 = 9000;
const ADDRESS: [u8; 4] = [10, 0, 0, 1];

/// The headers of a segment to a port.
fn headers(port: u16) -> [u8; 54] {
    let mut frame = [0; 54];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    frame[14..34].copy_from_slice(&[0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1]);
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame[46..48].copy_from_slice(&[0x50, 0x10]);
    frame
}

fn insert_filter(port: u16) -> Result<u64, Failure> {
    let atoms = [
        packet::came_by(LOOPBACK),
        packet::equal(2, 12, 0x800),
        packet::equal(1, 14, 0x45),
        packet::equal(1, 23, 6),
        packet::equal(4, 30, u32::from_be_bytes(ADDRESS)),
        packet::equal(2, 36, port.into()),
    ];
    packet::insert(KEY, &packet::filter(LOOPBACK, ROOT, area::access_list(), KEY), &atoms)
}

fn main() -> u32 {
    begin();
    match run() {
        Ok(()) => 0,
        Err(failure) => {
            println!("bench: failed packets: {failure:?}");
            1
        }
    }
}

fn run() -> Result<(), Failure> {
    syscall::network_open(KEY, LOOPBACK, 1)?;
    let mut ring = Ring::new(8, 8)?;
    let sender = packet::insert(KEY, &packet::filter(LOOPBACK, ROOT, area::access_list(), KEY), &[])?;
    let mut send = |name: &str, port: u16| {
        let frame = headers(port);
        measure(name, 1, || ring.frame(&frame).and_then(|frame| frame.send(sender)).expect("the ring has room"));
    };
    send("no-filters", TAKEN);
    for port in PORTS {
        insert_filter(port)?;
    }
    send("ten-filters", TAKEN);
    send("ten-filters-missed", FREE);
    Ok(())
}
