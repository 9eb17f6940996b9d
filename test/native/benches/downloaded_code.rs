//! Compiled BPF against its peers: the same functions by rustc, rbpf's interpreter and compiler, our own interpreter.
//! Then what verifying and compiling cost, and the analogue of Palladium's Figure 7 (conjunctions of 1 to 16 terms).
//!
//! `cargo bench -p native --bench downloaded_code`. With `CHITIN_BENCH_OUT=FILE` the fastest passes are also written
//! as JSON lines, with `CHITIN_BENCH_PICTURE=FILE` the figure as SVG. "native" has its vector instructions taken away
//! by volatile loads, since the kernel has none either.

mod measure;

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use downloaded_code::compiler::{self, Compiler, Request};
use downloaded_code::context::{Access, Argument, Context, Region, RegionSize, Speculation};
use downloaded_code::interpreter::{Interpreter, NoHelpers};
use downloaded_code::program::Program;
use downloaded_code::verifier::{Verified, Verifier, storage_bound};
use measure::{Bench, ROUNDS, Row};
use native::downloaded_code::prepared::Prepared;
use native::packet_filter_count::instructions;

const REGIONS: [Region<'static>; 1] = [Region {
    name: "packet",
    access: Access::ReadOnly,
    size: RegionSize::Passed { minimum: 0, maximum: 1514 },
    alignment: 1,
}];

fn context(speculation: Speculation) -> Context<'static> {
    Context {
        name: "bench",
        regions: &REGIONS,
        arguments: &[Argument::Pointer(0), Argument::Length(0)],
        helpers: &[],
        budget: 1_000_000,
        deterministic: true,
        strict: true,
        speculation,
    }
}

/// Sum of 32-bit words, folded to 16 bits: the Internet checksum's way.
const CHECKSUM: &str = "
    mov r0, 0
    mov r3, r1
    add r3, r2
    mov r4, r1
    add r4, 4
    jgt r4, r3, +4
    ldxw r5, [r4-4]
    add r0, r5
    add r4, 4
    jle r4, r3, -4
    mov r5, r0
    rsh r5, 32
    lsh r0, 32
    rsh r0, 32
    add r0, r5
    mov r5, r0
    rsh r5, 16
    and r0, 0xffff
    add r0, r5
    mov r5, r0
    rsh r5, 16
    add r0, r5
    and r0, 0xffff
    exit";

/// TCP to port 80 of one address, over a header of variable length.
const FILTER: &str = "
    mov r0, 0
    jlt r2, 34, +14
    ldxh r3, [r1+12]
    jne r3, 8, +12
    ldxb r3, [r1+23]
    jne r3, 6, +10
    ldxw r3, [r1+30]
    jne r3, 0x0202000a, +8
    ldxb r3, [r1+14]
    and r3, 15
    lsh r3, 2
    add r3, 18
    jgt r3, r2, +3
    add r1, r3
    ldxh r3, [r1-2]
    jeq r3, 0x5000, +1
    exit
    mov r0, 1
    exit";

/// FNV-1a of 64 bits.
const HASH: &str = "
    lddw r0, 0xcbf29ce484222325
    lddw r4, 0x100000001b3
    mov r3, r1
    add r3, r2
    jeq r1, r3, +5
    ldxb r5, [r1]
    xor r0, r5
    mul r0, r4
    add r1, 1
    jne r1, r3, -5
    exit";

fn byte(packet: &[u8], index: usize) -> u64 {
    // SAFETY: the reference is valid for a read; volatile only keeps the loads apart.
    u64::from(unsafe { std::ptr::read_volatile(&raw const packet[index]) })
}

/// How fast so small a loop runs depends on where it lies, by a factor of two: the fastest of some copies counts.
#[inline(never)]
fn native_checksum<const COPY: usize>(packet: &[u8]) -> u64 {
    let mut sum = 0u64;
    black_box([0u8; COPY]);
    for word in packet.chunks_exact(4) {
        // SAFETY: four bytes are there; volatile only keeps the loads apart.
        sum += u64::from(unsafe { std::ptr::read_volatile(word.as_ptr().cast::<u32>()) });
    }
    sum = (sum >> 32) + (sum & 0xffff_ffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum += sum >> 16;
    sum & 0xffff
}

#[inline(never)]
fn native_filter(packet: &[u8]) -> u64 {
    let half = |at: usize| packet.get(at..at + 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
    if packet.len() < 34 || half(12) != Some(8) || packet[23] != 6 || packet[30..34] != [10, 0, 2, 2] {
        return 0;
    }
    u64::from(half(16 + usize::from(packet[14] & 15) * 4) == Some(0x5000))
}

#[inline(never)]
fn native_hash(packet: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for index in 0..packet.len() {
        hash = (hash ^ byte(packet, index)).wrapping_mul(0x100_0000_01b3);
    }
    hash
}

fn packet(length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|index| (index * 7 + 3) as u8).collect();
    if length >= 54 {
        bytes[12..14].copy_from_slice(&[8, 0]);
        bytes[14] = 0x45;
        bytes[23] = 6;
        bytes[30..34].copy_from_slice(&[10, 0, 2, 2]);
        bytes[36..38].copy_from_slice(&[0, 80]);
    }
    bytes
}

/// Measures work in passes of some tens of microseconds.
fn measure<T>(bench: &mut Bench, case: &str, contender: &str, parameter: usize, mut work: impl FnMut() -> T) {
    let start = Instant::now();
    (0..8).for_each(|_| drop(black_box(work())));
    let times = (400_000 / (1 + start.elapsed().as_nanos() as usize)).clamp(1, 5_000);
    bench.measure(case, contender, parameter, times, || {
        for _ in 0..times {
            black_box(work());
        }
    });
}

fn compiled(text: &str, speculation: Speculation, bytes: &mut [u8], work: impl FnOnce(&mut Prepared<'_>)) {
    let program = rbpf::assembler::assemble(text).expect("assembles");
    let context = context(speculation);
    let mut regions = [bytes];
    let mut prepared = Prepared::new(&program, &context, &mut regions)
        .unwrap_or_else(|refusal| panic!("{}", refusal.describe(&context)));
    work(&mut prepared);
}

fn contenders(bench: &mut Bench, case: &str, text: &str, length: usize, natives: &[fn(&[u8]) -> u64]) {
    let mut bytes = packet(length);
    let program = rbpf::assembler::assemble(text).expect("assembles");
    // rbpf passes no length: its program starts with one more instruction.
    let peer_program = rbpf::assembler::assemble(&format!("mov r2, {length}\n{text}")).expect("assembles");
    let mut peer = rbpf::EbpfVmRaw::new(Some(&peer_program)).expect("rbpf takes it");
    let expected = peer.execute_program(&mut bytes).expect("rbpf runs it");
    for native in natives {
        assert_eq!(native(&bytes), expected);
        measure(bench, case, "native", length, || native(black_box(&bytes)));
    }
    for (name, speculation) in [("compiled, masked", Speculation::Masked), ("compiled, trusted", Speculation::Trusted)]
    {
        compiled(text, speculation, &mut bytes.clone(), |prepared| {
            assert_eq!(prepared.run(), Ok(expected));
            assert_eq!(prepared.verdict.checked, 0);
            measure(bench, case, name, length, || prepared.run());
        });
    }
    let context = context(Speculation::Masked);
    let parsed = Program::new(&program).expect("whole slots");
    measure(bench, case, "interpreted", length, || {
        let mut regions: [&mut [u8]; 1] = [&mut bytes];
        Interpreter::new(parsed, &context, &mut regions, &[0; 5], 1_000_000).run(&mut NoHelpers).result
    });
    let mut bytes = packet(length);
    measure(bench, case, "rbpf interpreted", length, || {
        // SAFETY: the slice lives as long as the machine; rbpf asks for a lifetime that a loop cannot give.
        let memory = unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr(), bytes.len()) };
        peer.execute_program(memory).expect("runs")
    });
    peer.jit_compile().expect("rbpf compiles it");
    measure(bench, case, "rbpf compiled", length, || {
        // SAFETY: as above; the program stays inside its memory, as our verifier has proven.
        unsafe {
            let memory = std::slice::from_raw_parts_mut(bytes.as_mut_ptr(), bytes.len());
            peer.execute_program_jit(memory).expect("runs")
        }
    });
}

/// A conjunction of so many terms, all true, each one load, one comparison.
fn conjunction(terms: usize) -> String {
    let bytes = packet(128);
    let mut text = format!("mov r0, 0\njlt r2, 64, +{}\n", terms * 2 + 1);
    for term in 0..terms {
        let at = term * 3;
        let value = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let _ = writeln!(text, "ldxh r3, [r1+{at}]\njne r3, {value}, +{}", (terms - term) * 2 - 1);
    }
    text + "mov r0, 1\nexit"
}

fn figure_7(bench: &mut Bench) {
    for terms in [1, 2, 4, 6, 8, 10, 12, 14, 16] {
        let text = conjunction(terms);
        let mut bytes = packet(128);
        compiled(&text, Speculation::Masked, &mut bytes, |prepared| {
            assert_eq!(prepared.run(), Ok(1));
            measure(bench, "terms", "compiled, masked", terms, || prepared.run());
        });
        compiled(&text, Speculation::Trusted, &mut bytes, |prepared| {
            measure(bench, "terms", "compiled, trusted", terms, || prepared.run());
        });
        let program = rbpf::assembler::assemble(&format!("mov r2, 128\n{text}")).expect("assembles");
        let peer = rbpf::EbpfVmRaw::new(Some(&program)).expect("rbpf takes it");
        measure(bench, "terms", "rbpf interpreted", terms, || {
            // SAFETY: the slice lives as long as the machine; rbpf asks for a lifetime that a loop cannot give.
            let memory = unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr(), bytes.len()) };
            peer.execute_program(memory).expect("runs")
        });
    }
}

/// What verifying and compiling cost, for each instruction of a program without loops and one of many small loops.
/// Also, by single-stepping, how many instructions compiling executes for how many that it makes.
fn costs(bench: &mut Bench) {
    let straight = "ldxb r3, [r1+5]\nadd r4, r3\nxor r4, 77\njgt r4, 1000, +1\nmul r4, 3\n".repeat(200);
    let loops = "mov r3, 0\nadd r4, r3\nadd r3, 1\njlt r3, 20, -3\n".repeat(200);
    for (case, body) in [("straight code", straight), ("loops", loops)] {
        let text = format!(
            "mov r0, 0\nmov r4, 0\njlt r2, 34, +{}\n{body}mov r0, r4\nexit",
            if case == "loops" { 800 } else { 1000 }
        );
        let program = rbpf::assembler::assemble(&text).expect("assembles");
        let program = Program::new(&program).expect("whole slots");
        let context = context(Speculation::Masked);
        let mut words = vec![0; storage_bound(program.slots())];
        let mut labels = vec![0; compiler::label_words(program.slots())];
        let mut code = vec![0; 1 << 17];
        let slots = program.slots();
        let verdict = Verifier::run(program, &context, &mut words)
            .unwrap_or_else(|refusal| panic!("{}", refusal.describe(&context)));
        measure(bench, &format!("verifying {case}"), "whole program", slots, || {
            Verifier::run(program, &context, &mut words)
        });
        let verified = Verified::new(program, &context, &words, verdict).expect("they belong together");
        let request = Request { helpers: &[], code_address: None, blinding: None };
        measure(bench, &format!("compiling {case}"), "whole program", slots, || {
            Compiler::run(&verified, &request, &mut code, &mut labels).expect("compiles")
        });
        let counted = format!("compiling {case}, instructions executed");
        if bench.others.iter().any(|line| line.contains(&counted)) {
            continue;
        }
        let (size, executed) = instructions(|| Compiler::run(&verified, &request, &mut code, &mut labels));
        let made = iced_x86::Decoder::new(64, &code[..size.expect("compiles")], 0).iter().count();
        bench.others.push(format!(
            "{{\"bench\":\"downloaded_code\",\"case\":\"{counted}\",\"parameter\":{slots},\"made\":{made},\
             \"executed\":{executed}}}"
        ));
    }
}

/// Time against terms, one line for each contender.
fn draw(path: &str, rows: &[Row]) {
    let points = |contender: &str| -> Vec<(usize, f64)> {
        let chosen = rows.iter().filter(|row| row.case == "terms" && row.contender == contender);
        chosen.map(|row| (row.parameter, row.nanoseconds)).collect()
    };
    let most = rows.iter().filter(|row| row.case == "terms").map(|row| row.nanoseconds).fold(1.0, f64::max);
    let place = |terms: usize, time: f64| (60.0 + terms as f64 * 32.0, 330.0 - time / most * 290.0);
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 390\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"760\" height=\"390\" fill=\"white\"/>\n<path d=\"M60 30V330H580\" fill=\"none\" stroke=\"black\"/>\n\
         <text x=\"230\" y=\"375\">terms, all true</text>\n<text x=\"10\" y=\"20\">nanoseconds for a packet</text>\n",
    );
    for terms in [1, 4, 8, 12, 16] {
        let (x, _) = place(terms, 0.0);
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"350\" text-anchor=\"middle\">{terms}</text>");
    }
    for part in 0..=4 {
        let time = most * f64::from(part) / 4.0;
        let (_, y) = place(0, time);
        let _ = writeln!(svg, "<text x=\"52\" y=\"{:.0}\" text-anchor=\"end\">{time:.0}</text>", y + 4.0);
    }
    let lines = [("rbpf interpreted", "#b03030"), ("compiled, masked", "#3050b0"), ("compiled, trusted", "#308050")];
    for (index, (contender, colour)) in lines.into_iter().enumerate() {
        let path: Vec<String> = points(contender)
            .into_iter()
            .map(|(terms, time)| place(terms, time))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        let y = 60 + index * 22;
        let _ = writeln!(svg, "<text x=\"600\" y=\"{y}\" fill=\"{colour}\">{contender}</text>");
    }
    std::fs::write(path, svg + "</svg>\n").expect("a file for the picture");
}

fn main() {
    let mut bench = Bench::new(15, 50, 150);
    let checksums: [fn(&[u8]) -> u64; 4] =
        [native_checksum::<0>, native_checksum::<1>, native_checksum::<2>, native_checksum::<3>];
    for _ in 0..ROUNDS {
        for length in [64, 1500] {
            contenders(&mut bench, "checksum", CHECKSUM, length, &checksums);
            contenders(&mut bench, "hash", HASH, length, &[native_hash]);
        }
        contenders(&mut bench, "filter", FILTER, 64, &[native_filter]);
        figure_7(&mut bench);
        costs(&mut bench);
    }
    let about = "bytes of the packet; terms of the conjunction; instructions of the program verified or compiled";
    bench.finish("downloaded_code", "parameter", about);
    if let Ok(path) = std::env::var("CHITIN_BENCH_PICTURE") {
        draw(&path, &bench.rows);
    }
}
