//! Classification by merged, compiled filters against its peers, on the same packets in one run.
//!
//! `cargo bench -p native --bench packet_filter`. With `CHITIN_BENCH_OUT=FILE` the fastest passes are also written as
//! JSON lines. libpcap's interpreter takes part when `libpcap.so.0.8` is there.

#[path = "../../../mechanism/packet-filter/tests/support/mod.rs"]
mod support;

mod measure;

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use downloaded_code::context::{Access, Argument, Context, Region, RegionSize, Speculation};
use measure::{Bench, ROUNDS};
use native::downloaded_code::prepared::Prepared;
use native::packet_filter::{CodeArena, GuardedWords};
use packet_filter::{Patch, Sizes};
use support::{CodeMemory, Differ, Driver, Memory, Random, endpoint, tcp_filter, tcp_packet};

const COUNTS: [u32; 5] = [1, 10, 100, 1_000, 10_000];
const PACKETS: usize = 4096;
/// Packets of the shortest pass.
const FEWEST: usize = 256;
const INSERTIONS: usize = 50;

struct Arena(CodeArena);

impl CodeMemory for Arena {
    fn commit(&mut self, patch: Patch<'_>) {
        self.0.commit(patch);
    }
}

/// A packet with its length, in a line of the cache, as a network card's ring has them.
#[repr(C, align(64))]
struct Buffer {
    bytes: [u8; 62],
    length: u16,
}

impl Buffer {
    fn new(packet: &[u8]) -> Self {
        let bytes = core::array::from_fn(|byte| packet.get(byte).copied().unwrap_or(0));
        Self { bytes, length: packet.len() as u16 }
    }

    fn packet(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Packets for installed filters (hits) or for none (misses), in random order.
fn packets(differ: Differ, count: u32, hit: bool) -> Vec<Buffer> {
    let mut random = Random(u64::from(count));
    let first = if hit { 0 } else { count };
    let packet = |random: &mut Random| {
        let (address, port) = endpoint(differ, first + random.below(u64::from(count)) as u32);
        tcp_packet(address, port, 5)
    };
    (0..PACKETS).map(|_| Buffer::new(&packet(&mut random))).collect()
}

/// How many packets make a pass of about a millisecond, which others on the machine seldom disturb: all of them, or of
/// slow contenders the first few hundred.
fn packets_in_a_pass(packets: &[Buffer], classify: &mut impl FnMut(&[u8]) -> u32) -> usize {
    let start = Instant::now();
    for buffer in &packets[..FEWEST] {
        black_box(classify(black_box(buffer.packet())));
    }
    let fits = 1_000_000 * FEWEST as u128 / start.elapsed().as_nanos().max(1);
    (fits as usize).clamp(FEWEST, packets.len())
}

/// Runs one contender over all packets; the time is for one packet.
fn measure(
    bench: &mut Bench,
    case: &str,
    contender: &str,
    filters: u32,
    packets: &[Buffer],
    mut classify: impl FnMut(&[u8]) -> u32,
) {
    let count = packets_in_a_pass(packets, &mut classify);
    bench.measure(case, contender, filters as usize, count, || {
        for buffer in &packets[..count] {
            black_box(classify(black_box(buffer.packet())));
        }
    });
}

fn dpf(bench: &mut Bench) {
    for differ in [Differ::Port, Differ::Address, Differ::Both] {
        for count in COUNTS {
            let sizes = Sizes::for_filters(1, count as usize);
            let mut memory = Memory::with_words(sizes, Box::new(GuardedWords::new(sizes.words())));
            let mut driver = Driver::with_code(&mut memory, 0x5ec_7e7, Arena(CodeArena::new(sizes.code)));
            for index in 0..count {
                let (address, port) = endpoint(differ, index);
                driver.insert(0, &tcp_filter(address, port), false).expect("there is room");
            }
            let classifier = &driver.classifier;
            let compiled = driver.code.0.compiled(classifier);
            for (hit, kind) in [(true, "hit"), (false, "miss")] {
                let packets = packets(differ, count, hit);
                let group = format!("{differ:?}-{kind}").to_lowercase();
                assert!(packets.iter().map(Buffer::packet).all(|packet| classifier.classify(packet).is_some() == hit));
                measure(bench, &group, "dpf", count, &packets, |packet| compiled.run(packet));
                measure(bench, &group, "merged-interpreted", count, &packets, |packet| {
                    classifier.classify(packet).map_or(0, |found| found.filter.slot())
                });
            }
        }
    }
}

/// What someone would write by hand for these ten filters. It is called by its address, as compiled code is.
fn by_hand(packet: &[u8]) -> u32 {
    if packet.len() < 34 || packet[12..14] != [8, 0] || packet[23] != 6 || packet[30..34] != [10, 0, 0, 1] {
        return 0;
    }
    let port_at = 14 + 4 * usize::from(packet[14] & 15) + 2;
    let Some(&[high, low]) = packet.get(port_at..port_at + 2) else { return 0 };
    match u16::from_be_bytes([high, low]) {
        PORT_0 => 1,
        PORT_1 => 2,
        PORT_2 => 3,
        PORT_3 => 4,
        PORT_4 => 5,
        PORT_5 => 6,
        PORT_6 => 7,
        PORT_7 => 8,
        PORT_8 => 9,
        PORT_9 => 10,
        _ => 0,
    }
}

/// The ports of the first ten filters of `Differ::Port`.
const fn port(index: u32) -> u16 {
    1024 + (3 * index + index.wrapping_mul(2_654_435_761) % 3) as u16
}

const PORT_0: u16 = port(0);
const PORT_1: u16 = port(1);
const PORT_2: u16 = port(2);
const PORT_3: u16 = port(3);
const PORT_4: u16 = port(4);
const PORT_5: u16 = port(5);
const PORT_6: u16 = port(6);
const PORT_7: u16 = port(7);
const PORT_8: u16 = port(8);
const PORT_9: u16 = port(9);

/// What someone would write by hand for many: the headers, then a hash map of the standard library. Called, too.
#[inline(never)]
fn by_hand_hashed(packet: &[u8], filters: &HashMap<(u32, u16), u32>) -> u32 {
    if packet.len() < 34 || packet[12..14] != [8, 0] || packet[23] != 6 {
        return 0;
    }
    let address = u32::from_be_bytes([packet[30], packet[31], packet[32], packet[33]]);
    let port_at = 14 + 4 * usize::from(packet[14] & 15) + 2;
    let Some(&[high, low]) = packet.get(port_at..port_at + 2) else { return 0 };
    filters.get(&(address, u16::from_be_bytes([high, low]))).copied().unwrap_or(0)
}

fn hand_written(bench: &mut Bench) {
    for (hit, kind) in [(true, "hit"), (false, "miss")] {
        let packets = packets(Differ::Port, 10, hit);
        assert!(packets.iter().map(Buffer::packet).all(|packet| (by_hand(packet) != 0) == hit));
        let group = format!("port-{kind}");
        measure(bench, &group, "rust-match", 10, &packets, black_box(by_hand as fn(&[u8]) -> u32));
        measure(bench, &group, "rust-match-inlined", 10, &packets, by_hand);
    }
    for count in COUNTS {
        let filters: HashMap<_, _> = (0..count).map(|index| (endpoint(Differ::Both, index), index + 1)).collect();
        let packets = packets(Differ::Both, count, true);
        measure(bench, "both-hit", "rust-hashmap", count, &packets, |packet| by_hand_hashed(packet, &filters));
    }
}

/// One instruction of classic BPF, as libpcap takes it.
#[repr(C)]
#[derive(Clone, Copy)]
struct ClassicInstruction {
    code: u16,
    jump_true: u8,
    jump_false: u8,
    constant: u32,
}

/// The classic program for one TCP/IP filter.
fn classic(address: u32, port: u16) -> [ClassicInstruction; 11] {
    let plain = |code, constant| ClassicInstruction { code, jump_true: 0, jump_false: 0, constant };
    let unless = |constant, jump_false| ClassicInstruction { code: 0x15, jump_true: 0, jump_false, constant };
    [
        plain(0x28, 12),
        unless(0x0800, 8),
        plain(0x30, 23),
        unless(6, 6),
        plain(0x20, 30),
        unless(address, 4),
        plain(0xb1, 14),
        plain(0x48, 16),
        unless(u32::from(port), 1),
        plain(0x06, 1),
        plain(0x06, 0),
    ]
}

type BpfFilter = unsafe extern "C" fn(*const ClassicInstruction, *const u8, u32, u32) -> u32;

fn libpcap(bench: &mut Bench) {
    // SAFETY: loading libpcap runs no code of consequence.
    let Ok(library) = (unsafe { libloading::Library::new("libpcap.so.0.8") }) else {
        println!("libpcap.so.0.8 is not here: its interpreter takes no part");
        return;
    };
    // SAFETY: `bpf_filter(const struct bpf_insn *, const u_char *, u_int, u_int)` is libpcap's public interface.
    let bpf_filter = unsafe { library.get::<BpfFilter>(b"bpf_filter").expect("libpcap has bpf_filter") };
    one_by_one(bench, "libpcap", &[1, 10, 100, 1_000], |address, port| {
        let (program, bpf_filter) = (classic(address, port), *bpf_filter);
        move |packet: &[u8]| {
            let length = packet.len() as u32;
            // SAFETY: the program is a valid one that ends in returns, the packet is as long as stated.
            unsafe { bpf_filter(program.as_ptr(), packet.as_ptr(), length, length) != 0 }
        }
    });
}

/// The same filter in eBPF, checking lengths as a verifier asks: the packet in r1, its length in r2.
fn filter_in_bpf(address: u32, port: u16) -> String {
    let (address, port) = (address.swap_bytes() as i32, port.swap_bytes());
    format!(
        "mov r0, 0\njlt r2, 34, +19\nldxh r3, [r1+12]\njne r3, 8, +17\nldxb r3, [r1+23]\njne r3, 6, +15\n\
         ldxw r3, [r1+30]\nmov32 r4, {address}\njne r3, r4, +12\nldxb r3, [r1+14]\nand r3, 15\nlsh r3, 2\n\
         mov r4, r3\nadd r4, 18\njgt r4, r2, +6\nadd r1, r3\nldxh r3, [r1+16]\nmov r4, {port}\njne r3, r4, +2\n\
         mov r0, 1\nexit\nexit"
    )
}

fn rbpf_interpreter(bench: &mut Bench) {
    one_by_one(bench, "rbpf", &[1, 10], |address, port| {
        let text = format!("ldxdw r2, [r1+8]\nldxdw r1, [r1+0]\nsub r2, r1\n{}", filter_in_bpf(address, port));
        let program = rbpf::assembler::assemble(&text).expect("it assembles");
        let program: &'static [u8] = program.leak();
        let machine = rbpf::EbpfVmMbuff::new(Some(program)).expect("it is accepted");
        move |packet: &[u8]| {
            let range = packet.as_ptr_range();
            let mut context = [0; 16];
            context[..8].copy_from_slice(&(range.start as u64).to_le_bytes());
            context[8..].copy_from_slice(&(range.end as u64).to_le_bytes());
            machine.execute_program(packet, &context).expect("it runs") != 0
        }
    });
}

/// Our own compiler of BPF, with and without masks against speculation.
fn compiled_bpf(bench: &mut Bench) {
    let regions = [Region {
        name: "packet",
        access: Access::ReadOnly,
        size: RegionSize::Passed { minimum: 0, maximum: 1514 },
        alignment: 1,
    }];
    for (name, speculation) in
        [("compiled-bpf-masked", Speculation::Masked), ("compiled-bpf-trusted", Speculation::Trusted)]
    {
        let context = Context {
            name: "filter",
            regions: &regions,
            arguments: &[Argument::Pointer(0), Argument::Length(0)],
            helpers: &[],
            budget: 1_000,
            deterministic: true,
            strict: true,
            speculation,
        };
        one_by_one(bench, name, &[1, 10], |address, port| {
            let program = rbpf::assembler::assemble(&filter_in_bpf(address, port)).expect("it assembles");
            let region: &mut [&mut [u8]] = vec![vec![0; 64].leak()].leak();
            let mut prepared = Prepared::new(&program, &context, region).expect("it is accepted");
            // SAFETY: each run is on a packet of its own, which outlives it; there are no others.
            move |packet: &[u8]| unsafe { prepared.run_on(packet) } == Ok(1)
        });
    }
}

/// Filters tried one at a time, as without merging.
fn one_by_one<F: FnMut(&[u8]) -> bool>(bench: &mut Bench, name: &str, counts: &[u32], make: impl Fn(u32, u16) -> F) {
    for count in counts.iter().copied() {
        let endpoints = (0..count).map(|index| endpoint(Differ::Port, index));
        let mut filters: Vec<F> = endpoints.map(|(address, port)| make(address, port)).collect();
        for (hit, kind) in [(true, "hit"), (false, "miss")] {
            let packets = packets(Differ::Port, count, hit);
            let mut classify = |packet: &[u8]| {
                filters.iter_mut().position(|filter| filter(packet)).map_or(0, |index| index as u32 + 1)
            };
            assert!(packets.iter().map(Buffer::packet).all(|packet| (classify(packet) != 0) == hit));
            measure(bench, &format!("port-{kind}"), name, count, &packets, classify);
        }
    }
}

/// Installing one filter among many, and removing it again: steps, and time without changing page protections.
fn insertion(bench: &mut Bench) {
    for differ in [Differ::Port, Differ::Both] {
        for count in COUNTS {
            let sizes = Sizes::for_filters(1, count as usize + 1);
            let mut memory = Memory::new(sizes);
            let mut driver = Driver::new(&mut memory, 7);
            for index in 0..count {
                let (address, port) = endpoint(differ, index);
                driver.insert(0, &tcp_filter(address, port), false).expect("there is room");
            }
            let (address, port) = endpoint(differ, count);
            let atoms = tcp_filter(address, port);
            let case = format!("{differ:?}-insert-and-remove").to_lowercase();
            bench.measure(&case, "dpf", count as usize, INSERTIONS, || {
                for _ in 0..INSERTIONS {
                    driver.installed.clear();
                    let id = driver.insert(0, &atoms, false).expect("there is room");
                    driver.remove(id);
                }
            });
        }
    }
}

fn main() {
    let mut bench = Bench::new(12, 30, 60);
    for _ in 0..ROUNDS {
        dpf(&mut bench);
        hand_written(&mut bench);
        libpcap(&mut bench);
        rbpf_interpreter(&mut bench);
        compiled_bpf(&mut bench);
        insertion(&mut bench);
    }
    let about =
        "how many are installed; classifying 4,096 TCP/IPv4 headers in random order, or installing and removing one";
    bench.finish("packet_filter", "filters", about);
}
