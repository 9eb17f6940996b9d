//! Linked programs of the corpus compute what they should: the reference interpreter
//! runs them, and the answers are known from elsewhere. So relocations of calls, regions
//! and constants, and the layout of functions, are right.

use bpf_loader::{Object, contexts, regions_with_constants};
use downloaded_code::context::Context;
use downloaded_code::interpreter::{Ending, HelperCall, Helpers, Interpreter};
use downloaded_code::invocation::Stop;
use downloaded_code::program;
use fastrand::Rng;

use crate::compiler::compile;
use crate::corpus::{Entry, programs_in_c, programs_in_rust};
use crate::{cases, seed};

/// Helpers that write down what they are called with.
#[derive(Debug, Default, PartialEq)]
struct Recorder {
    owned: Vec<(u64, u64)>,
    replies: Vec<Vec<u8>>,
}

impl Helpers for Recorder {
    fn call(&mut self, call: &mut HelperCall<'_, '_, '_>) -> Result<u64, Stop> {
        match call.number {
            1 => return Ok(5_000_000),
            2 => {
                let length = call.values[1] as usize;
                self.replies.push(call.bytes(0, length).expect("readable").to_vec());
            }
            _ => self.owned.push((call.values[0], call.values[1])),
        }
        Ok(1)
    }
}

/// What a run left behind.
#[derive(Debug, PartialEq)]
struct Run {
    result: u64,
    /// The second region: state or output.
    second: Vec<u8>,
    recorder: Recorder,
}

fn run(entries: &[Entry], name: &str, input: &[u8], scalar: u64) -> Run {
    let entry = entries.iter().find(|entry| entry.name == name).unwrap_or_else(|| panic!("no program {name}"));
    let (ending, run) = execute(entry, input, scalar);
    assert_eq!(ending, Ending::Stopped(Stop::Finished), "{name}");
    run
}

/// Runs a program in memory of this run's own.
fn execute(entry: &Entry, input: &[u8], scalar: u64) -> (Ending, Run) {
    let regions = regions_with_constants(entry.context.regions, entry.program.constants.len());
    let context = Context { regions: &regions, ..*entry.context };
    let code = program::Program::new(&entry.program.bytes).expect("a legal length");
    let (mut first, mut second, mut constants) = (input.to_vec(), vec![0; 4096], entry.program.constants.clone());
    let mut recorder = Recorder::default();
    let mut memory: Vec<&mut [u8]> = match regions.len() {
        2 => vec![&mut first, &mut constants],
        _ => vec![&mut first, &mut second, &mut constants],
    };
    let outcome = Interpreter::new(code, &context, &mut memory, &[0, scalar, 0, 0, 0], 100_000_000).run(&mut recorder);
    (outcome.ending, Run { result: outcome.result, second, recorder })
}

#[test]
fn checksums_and_codes_have_their_published_values() {
    let entries = programs_in_c();
    let compute = |name: &str, input: &[u8]| run(entries, &format!("memory/{name}.c"), input, 0);
    assert_eq!(compute("crc32", b"123456789").result, 0xcbf4_3926);
    assert_eq!(compute("adler32", b"Wikipedia").result, 0x11e6_0398);
    assert_eq!(compute("fnv_hash", b"foobar").result, 0x8594_4171_f739_67e8);
    let encoded = compute("base64", b"Many hands");
    assert_eq!(&encoded.second[..encoded.result as usize], b"TWFueSBoYW5k");
    assert_eq!(compute("levenshtein", b"kitten          sitting         ").result, 3);
    assert_eq!(compute("sieve", b"").result, 564);
    assert_eq!(compute("utf8_validate", "naïve – ok".as_bytes()).result, 1);
    assert_eq!(compute("utf8_validate", &[0xc0, 0x80]).result, 0);
}

#[test]
fn sha256_of_the_standards_example() {
    let entries = programs_in_c();
    let mut block = [0; 64];
    block[..4].copy_from_slice(b"abc\x80");
    block[63] = 24;
    let words = run(entries, "memory/sha256_block.c", &block, 0).second;
    let first = u32::from_le_bytes([words[0], words[1], words[2], words[3]]);
    let last = u32::from_le_bytes([words[28], words[29], words[30], words[31]]);
    assert_eq!((first, last), (0xba78_16bf, 0xf200_15ad));
}

#[test]
fn owns_functions_name_the_blocks_of_their_metadata() {
    let entries = programs_in_c();
    let words = |words: &[u32]| {
        let mut block: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        block.resize(4096, 0);
        block
    };
    let owned = |name: &str, block: &[u8], kind| run(entries, &format!("owns/{name}.c"), block, kind).recorder.owned;
    assert_eq!(owned("extent_list", &words(&[2, 0, 100, 8, 300, 1]), 0), [(100, 8), (300, 1)]);
    assert_eq!(owned("indirect_block", &words(&[7, 8, 9, 0, 20, 30, 31]), 0), [(7, 3), (20, 1), (30, 2)]);
    assert_eq!(owned("inode", &words(&[0, 0, 1, 1, 50, 0, 51]), 0), [(50, 1), (51, 1)]);
    assert_eq!(owned("two_types", &words(&[3]), 2), [(3, 1)]);
    assert_eq!(owned("two_types", &words(&[3]), 1), []);
}

#[test]
fn handlers_answer_and_count() {
    let entries = programs_in_c();
    let mut request = [0; 42];
    request[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    request[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    request[22..32].copy_from_slice(&[2, 0, 0, 0, 0, 9, 10, 0, 2, 2]);
    request[38..].copy_from_slice(&[10, 0, 2, 15]);
    let replies = run(entries, "packet/straight_arp_reply.c", &request, 0).recorder.replies;
    let [answer] = replies.as_slice() else { panic!("one answer, not {}", replies.len()) };
    assert_eq!(answer[..12], [2, 0, 0, 0, 0, 9, 0x52, 0x54, 0, 0x12, 0x34, 0x56]);
    assert_eq!((answer[21], &answer[28..32], &answer[38..42]), (2, &[10, 0, 2, 15][..], &[10, 0, 2, 2][..]));

    let mut packet = [0; 64];
    packet[36..38].copy_from_slice(&443u16.to_be_bytes());
    let counted = run(entries, "packet/port_counter.c", &packet, 0);
    assert_eq!((counted.result, counted.second[443 * 8]), (443, 1));
}

#[test]
fn programs_in_rust_agree_with_those_in_c() {
    let entries = programs_in_c();
    let rust = programs_in_rust();
    for length in [0, 1, 2, 14, 64, 1000] {
        let input: Vec<u8> = (0..length).map(|index| (index * 37 + 11) as u8).collect();
        let c = |name| run(entries, name, &input, 0).result;
        let r = |name| run(rust, name, &input, 0).result;
        assert_eq!(r("rust/fnv.rs"), c("memory/fnv_hash.c"));
        assert_eq!(r("rust/leb128.rs"), c("memory/varints.c"));
        assert_eq!(r("rust/ethernet_type.rs"), c("packet/straight_ethernet_type.c"));
    }
    let mut block = vec![0; 4096];
    block[..4].copy_from_slice(&[2, 0, 0, 0]);
    block[8..24].copy_from_slice(&[100, 0, 0, 0, 8, 0, 0, 0, 44, 1, 0, 0, 1, 0, 0, 0]);
    let owned = |entries: &[Entry], name| run(entries, name, &block, 0).recorder.owned;
    assert_eq!(owned(rust, "rust/extents.rs"), owned(entries, "owns/extent_list.c"));
}

/// A function that claims blocks says the same of the same metadata, wherever its memory lies.
#[test]
fn fault_61_the_same_metadata_gives_the_same_claims() {
    let mut rng = Rng::with_seed(seed());
    let all = programs_in_c().iter().chain(programs_in_rust());
    let owns: Vec<&Entry> = all.filter(|entry| entry.context.name == "owns").collect();
    assert!(owns.len() >= 10, "only {}", owns.len());
    let mut claims = 0;
    for _ in 0..cases(10, 3_000) {
        let words = (0..1024).map(|_| if rng.bool() { rng.u32(0..16) } else { rng.u32(..) });
        let block: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        let kind = rng.u64(0..256);
        for entry in &owns {
            let first = execute(entry, &block, kind);
            // Other memory is in use now: the second run cannot lie where the first did.
            let second = execute(entry, &block, kind);
            assert_eq!(first, second, "{} on {block:?}", entry.name);
            claims += first.1.recorder.owned.len();
        }
    }
    assert!(claims > 100, "only {claims} claims");
}

/// What a function claims passes through the helper's stated range: no empty, huge or overflowing run of blocks.
#[test]
fn fault_62_a_claim_out_of_range_stops_the_function() {
    let bytes = compile(
        "typedef unsigned long long u64; extern u64 own_blocks(u64 first, u64 count);
u64 owns(const u64 *block, u64 type) { own_blocks(block[0], block[1]); return 0; }",
    );
    let program = Object::parse(&bytes).and_then(|object| object.link(None, &contexts::OWNS)).expect("linked");
    let entry = Entry { name: "claims".into(), context: &contexts::OWNS, program };
    for (count, accepted) in [(0, false), (1, true), (1 << 20, true), ((1 << 20) + 1, false), (1 << 32, false)] {
        let mut block = vec![0; 4096];
        block[..8].copy_from_slice(&77u64.to_le_bytes());
        block[8..16].copy_from_slice(&u64::to_le_bytes(count));
        let (ending, run) = execute(&entry, &block, 0);
        let stop = if accepted { Stop::Finished } else { Stop::BadArgument };
        assert_eq!(ending, Ending::Stopped(stop), "{count} blocks");
        assert_eq!(run.recorder.owned.len(), usize::from(accepted), "{count} blocks");
    }
}
