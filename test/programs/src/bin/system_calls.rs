//! The table of system calls from the outside: wrong pointers, wrong numbers, random words, and arguments that change
//! while they are looked at.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::Resource;
use abi::environment::Specification;
use abi::host_channel::{HEADER, PAYLOAD};
use abi::limits::{BATCH_ROWS, ENTROPY_BYTES, PRIVATE_PAGES_LEAST};
use abi::page_table::{MapRow, PAGE};
use abi::syscall::{ASYNCHRONOUS, BatchRow, SYNCHRONOUS, TABLE, number};
use abi::upcall::kind;
use abi::{Error, feature};
use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use runtime::address_space::{self, Access, AddressSpace};
use runtime::area::Area;
use runtime::environment::Builder;
use runtime::page::{self, Allocator, PageKind};
use runtime::predicate::{Fired, Operator, Predicate, clock as until, word};
use runtime::{
    EnvironmentId, Failure, KeyIndex, Kind, PageNumber, UserAddress, area, channel, clock, exposed, region, syscall,
    time_slice,
};
use test_programs::attempt::watch;
use test_programs::child::{comes_further, eventually, spawn, status};
use test_programs::random::Random;
use test_programs::snapshot::Snapshot;
use test_programs::{Outcome, World, attempt, check, granted, guest, refused};

guest! {
    Child null_does_nothing;
    Child unknown_numbers_are_refused;
    Child a_batch_stops_at_the_first_error;
    Child random_bytes_are_random;
    Here fault_13_pointers_of_every_call;
    Here fault_13_buffer_across_the_end_of_a_mapping;
    Here fault_13_frame_that_cannot_be_received_waits;
    Child fault_14_random_calls;
    Here fault_14_random_calls_that_may_kill;
    Here fault_15_argument_changes_during_the_call;
    Child fault_15_row_of_a_batch_changes_during_the_call;
    Here fault_15_specification_changes_during_the_call;
    Here fault_16_terms_change_while_they_are_taken;
    Child fault_17_batch_that_maps_over_its_own_rows;
    Child fault_17_batch_that_unmaps_its_own_rows;
    Here fault_34_calls_write_no_more_than_they_say;
}

const PLACE: u64 = 0x2000_0000;
const KEY: u64 = KeyIndex::FIRST.0;

fn invoke(number: u64, arguments: [u64; 6]) -> Result<u64, Failure> {
    // SAFETY: the tests pass words that the kernel refuses, or that name memory which is theirs.
    unsafe { syscall::invoke(number, arguments) }
}

fn map(address: u64, entry: u64) -> Result<(), Failure> {
    address_space::own().apply(&[MapRow { address: address | KEY, entry }])
}

fn null_does_nothing() -> Outcome {
    for _ in 0..1000 {
        granted!(syscall::null());
    }
    Ok(())
}

fn unknown_numbers_are_refused() -> Outcome {
    for number in (TABLE.len() as u64..300).chain([1 << 16, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff]) {
        let outcome = invoke(number, [1; 6]);
        check!(outcome == Err(Error::UnknownCall.about(number)), "call {number:#x} gave {outcome:?}");
    }
    Ok(())
}

fn batch(rows: &mut [BatchRow]) -> Result<u64, Failure> {
    // SAFETY: the kernel reads and writes the rows, as many as we say.
    unsafe { syscall::batch(UserAddress(rows.as_mut_ptr() as u64), rows.len() as u64) }
}

/// Asks for any page, with zeros, mapped nowhere.
const FRESH: MapRow = MapRow { address: 0, entry: PageNumber::NONE.address() };

fn a_batch_stops_at_the_first_error() -> Outcome {
    let own = Allocator::own();
    let mut pages = [FRESH; 4];
    let mut places = pages.iter_mut().map(|row| core::ptr::from_mut(row) as u64);
    let mut allocate = |list: u64| BatchRow {
        number: number::page_allocate,
        arguments: [KEY, list, KEY, PageNumber::NONE.0, places.next().unwrap_or(0), 1],
        unused: 0,
    };
    let mut rows = [allocate(own.list.0), allocate(own.list.0), allocate(u64::MAX), allocate(own.list.0)];
    let outcome = batch(&mut rows);
    check!(
        outcome.is_err_and(|failure| failure.detail == 2 && failure.error == Error::NoSuchPage),
        "it gave {outcome:?}"
    );
    check!(rows[0].number == 0 && rows[1].number == 0, "the first two rows were refused");
    check!(rows[2].number == Error::NoSuchPage as u64, "the third row says {}", rows[2].number);
    check!(rows[3].number == number::page_allocate, "the fourth row was touched");
    for row in &core::hint::black_box(&pages)[..2] {
        granted!(own.free(PageNumber((row.entry & PAGE) >> 12)));
    }
    for forbidden in
        [number::batch, number::time_slice_yield, number::predicate_wait, SYNCHRONOUS | 1, ASYNCHRONOUS | 1]
    {
        let outcome = batch(&mut [BatchRow { number: forbidden, arguments: [0; 6], unused: 0 }]);
        check!(outcome.is_err(), "a batch may hold call {forbidden}");
    }
    let mut many = [BatchRow::default(); BATCH_ROWS + 1];
    refused!(batch(&mut many), TooMany);
    check!(batch(&mut many[..BATCH_ROWS]).is_ok() && batch(&mut []).is_ok(), "a full or an empty batch was refused");
    Ok(())
}

fn random_bytes_are_random() -> Outcome {
    let mut bytes = [[0u8; ENTROPY_BYTES]; 2];
    let has = exposed::has(feature::ENTROPY);
    for buffer in &mut bytes {
        // SAFETY: the kernel fills the buffer.
        let outcome = unsafe { syscall::entropy_read(UserAddress(buffer.as_mut_ptr() as u64), ENTROPY_BYTES as u64) };
        check!(outcome.is_ok() == has, "with the feature {has} it gave {outcome:?}");
    }
    check!(!has || bytes[0] != bytes[1], "two readings are equal");
    let zeros = bytes[0].iter().filter(|byte| **byte == 0).count();
    check!(!has || zeros < 32, "{zeros} of {ENTROPY_BYTES} random bytes are zero");
    // SAFETY: refused.
    let outcome = unsafe { syscall::entropy_read(UserAddress(bytes.as_mut_ptr() as u64), ENTROPY_BYTES as u64 + 1) };
    check!(outcome.is_err(), "more bytes than the limit were given");
    Ok(())
}

/// Bytes of the largest frame of the host channel.
const WHOLE_FRAME: u64 = (HEADER + PAYLOAD) as u64;

/// A call that takes a pointer: its number, its arguments, and which of them is the pointer.
struct Pointed {
    number: u64,
    arguments: [u64; 6],
    pointer: usize,
    writes: bool,
}

fn pointed_calls(region: PageNumber) -> [Pointed; 10] {
    let channel = area::channel_key().map_or(KEY, |key| key.0);
    let call = |number, arguments, pointer, writes| Pointed { number, arguments, pointer, writes };
    [
        call(number::batch, [0, 3, 0, 0, 0, 0], 0, true),
        call(number::page_map, [KEY, area::root().0, 0, 3, 0, 0], 2, false),
        call(number::page_allocate, [KEY, area::access_list().0, KEY, area::root().0, 0, 3], 4, true),
        call(number::environment_create, [KEY, 0, 0, 0, 0, 0], 1, false),
        call(number::predicate_wait, [0, 2, 0, 0, 0, 0], 0, false),
        call(number::region_copy, [KEY, region.0, 0, 0, 64, 0], 3, true),
        call(number::region_copy, [KEY, region.0, 0, 0, 64, 1], 3, false),
        call(number::channel_send, [channel, 0, 64, 0, 0, 0], 1, false),
        call(number::channel_receive, [channel, 0, WHOLE_FRAME, 0, 0, 0], 1, true),
        call(number::entropy_read, [0, 64, 0, 0, 0, 0], 0, true),
    ]
}

/// A call under a handler: its refusal (`None`), the upcall that it raised with RIP at the instruction, or invalid
/// opcode where it was granted. To receive where nothing waits touches no buffer.
fn tried(call: u64, words: [u64; 6]) -> Option<u64> {
    let [a, b, c, d, e, f] = words;
    let raised = attempt!(
        ["mov rax, r15", "syscall", "mov [r14], rdx", "cmp rax, 0", "jne 77f", "ud2"],
        "rdi" = a,
        "rsi" = b,
        "rdx" = c,
        "r10" = d,
        "r8" = e,
        "r9" = f,
        "r14" = DETAIL.as_ptr(),
        "r15" = call
    );
    let needs_no_buffer = call == number::channel_receive;
    raised.map(|frame| frame.kind).filter(|raised| !needs_no_buffer || *raised != kind::INVALID_OPCODE)
}

/// The result or detail of the last call that was tried, where it came back with its registers.
static DETAIL: AtomicU64 = AtomicU64::new(0);

/// Whether a word is an address in the kernel's memory.
fn is_kernels(word: u64) -> bool {
    use abi::memory_map::{DIRECT_MAP, EXPOSED, KERNEL_IMAGE};
    (DIRECT_MAP..EXPOSED).contains(&word) || (KERNEL_IMAGE..KERNEL_IMAGE + (1 << 30)).contains(&word)
}

fn region_page() -> Result<PageNumber, alloc::string::String> {
    let page = granted!(Allocator::own().allocate());
    granted!(page::become_regions(KeyIndex::FIRST, page));
    granted!(syscall::region_name(KeyIndex::FIRST, page, 0, KeyIndex::FIRST, 7));
    Ok(page)
}

fn fault_13_pointers_of_every_call(_: &World) -> Outcome {
    watch();
    let region = region_page()?;
    let page = granted!(Allocator::own().allocate());
    let never = [
        0x0000_8000_0000_0000,
        0xffff_8000_0000_0000,
        abi::memory_map::KERNEL_IMAGE,
        u64::MAX,
        u64::MAX - 7,
        abi::memory_map::USER_END - 8,
    ];
    let before = Snapshot::settled()?;
    for call in pointed_calls(region) {
        for (pointer, could_be) in
            [(0, true), (PLACE, true), (PLACE + 1, true)].into_iter().chain(never.map(|pointer| (pointer, false)))
        {
            let mut arguments = call.arguments;
            arguments[call.pointer] = pointer;
            let outcome = tried(call.number, arguments);
            check!(outcome != Some(kind::INVALID_OPCODE), "call {} took the pointer {pointer:#x}", call.number);
            check!(
                outcome.is_none_or(|kind| kind == kind::PAGE_FAULT && could_be),
                "call {} with {pointer:#x} raised {outcome:?}",
                call.number
            );
            // Of nothing at all, nothing can fault.
            if let Some(count) = arguments.get_mut(call.pointer + 1).filter(|count| **count != 0) {
                *count = 0;
                let outcome = tried(call.number, arguments);
                check!(
                    outcome.is_none_or(|kind| kind == kind::INVALID_OPCODE),
                    "call {} with {pointer:#x} and no bytes raised {outcome:?}",
                    call.number
                );
            }
        }
    }
    before.is_unchanged("with wrong pointers")?;
    granted!(map(PLACE, page.address() | Access::WRITE.0));
    let before = Snapshot::settled()?;
    for call in pointed_calls(region) {
        for length in [1 << 63, u64::MAX, 1 << 32, u64::MAX - 4095, u64::MAX / 64 + 2] {
            let mut arguments = call.arguments;
            arguments[call.pointer] = PLACE;
            if let Some(count) = arguments.get_mut(call.pointer + 1).filter(|count| **count != 0) {
                *count = length;
                let outcome = tried(call.number, arguments);
                check!(outcome != Some(kind::INVALID_OPCODE), "call {} took the length {length:#x}", call.number);
            }
        }
    }
    before.is_unchanged("with wrong lengths")?;
    granted!(map(PLACE, 0));
    granted!(Allocator::own().free(page));
    granted!(syscall::page_free(KeyIndex::FIRST, region));
    Ok(())
}

/// The bytes of the region that the pointed calls are about.
fn bytes_of(region: PageNumber) -> Result<[u8; 64], alloc::string::String> {
    let mut bytes = [0u8; 64];
    let place = region::Place { page: region, region: 0, offset: 0 };
    granted!(region::read(KeyIndex::FIRST, place, &mut bytes));
    Ok(bytes)
}

/// A buffer that is half there, or cannot be written: nothing of the kernel's is half done.
fn fault_13_buffer_across_the_end_of_a_mapping(_: &World) -> Outcome {
    watch();
    let region = region_page()?;
    let page = granted!(Allocator::own().allocate());
    granted!(map(PLACE, page.address() | Access::WRITE.0));
    let words = || (PLACE..PLACE + 4096).step_by(8).map(runtime::memory::load).collect::<alloc::vec::Vec<u64>>();
    for word in (PLACE..PLACE + 4096).step_by(8) {
        runtime::memory::store(word, 0x7777_7777_7777_7777);
    }
    let (contents, records) = (bytes_of(region)?, Snapshot::settled()?);
    for call in pointed_calls(region) {
        let mut arguments = call.arguments;
        arguments[call.pointer] = PLACE + 4096 - 16;
        let outcome = tried(call.number, arguments);
        check!(outcome != Some(kind::INVALID_OPCODE), "call {} took a buffer that is half there", call.number);
    }
    records.is_unchanged("with buffers that are half there")?;
    check!(bytes_of(region)? == contents, "a region was written from a buffer that is half there");
    let before = words();
    granted!(map(PLACE, page.address() | Access::READ.0));
    let records = Snapshot::settled()?;
    for call in pointed_calls(region).iter().filter(|call| call.writes && call.number != number::channel_receive) {
        let mut arguments = call.arguments;
        arguments[call.pointer] = PLACE;
        arguments[call.pointer + 1] = arguments[call.pointer + 1].min(8);
        let outcome = tried(call.number, arguments);
        check!(outcome != Some(kind::INVALID_OPCODE), "call {} wrote to a read-only page", call.number);
    }
    check!(words() == before, "a read-only page was written by a call");
    records.is_unchanged("with buffers that cannot be written")?;
    granted!(map(PLACE, 0));
    granted!(Allocator::own().free(page));
    granted!(syscall::page_free(KeyIndex::FIRST, region));
    Ok(())
}

/// A frame of the host that cannot be stored, or for which there is too little room, is there for the next who receives
/// it. It is the one that says that this guest has no input.
fn fault_13_frame_that_cannot_be_received_waits(_: &World) -> Outcome {
    watch();
    let channel = area::channel_key().ok_or("no channel")?;
    let frames = || exposed::kernel().channel_frames.load(SeqCst);
    channel::send(Kind::InputCredit, &1u32.to_le_bytes());
    check!(eventually(|| frames() == 1), "no frame comes");
    let page = granted!(Allocator::own().allocate());
    granted!(map(PLACE, page.address() | Access::READ.0));
    for pointer in [PLACE, PLACE + 4096 - 4, PLACE + 4096, 0] {
        let outcome = tried(number::channel_receive, [channel.0, pointer, WHOLE_FRAME, 0, 0, 0]);
        check!(outcome == Some(kind::PAGE_FAULT), "receiving at {pointer:#x} raised {outcome:?}");
    }
    // SAFETY: refused: there is no room for a header.
    let short = unsafe { syscall::channel_receive(channel, UserAddress(PLACE), HEADER as u64 - 1) };
    refused!(short, BadArgument);
    check!(frames() == 1, "{} frames wait", frames());
    let mut frame = [0xaa; HEADER + PAYLOAD];
    let (header, bytes) = granted!(channel::receive(&mut frame)).ok_or("the frame is gone")?;
    check!(
        header.kind == Kind::InputEnd as u8 && bytes.is_empty(),
        "the frame was {header:?} and {} bytes",
        bytes.len()
    );
    check!(frame[HEADER..].iter().all(|byte| *byte == 0xaa), "more was written than the frame");
    granted!(map(PLACE, 0));
    granted!(Allocator::own().free(page));
    Ok(())
}

/// Calls that write to memory write as many bytes as they say, and none around them.
fn fault_34_calls_write_no_more_than_they_say(_: &World) -> Outcome {
    const AROUND: u8 = 0xa5;
    let region = region_page()?;
    let mut buffer = [AROUND; 4096];
    for bytes in [1usize, 7, 8, 33, 64] {
        for offset in [0usize, 1, 100, 4096 - bytes] {
            let writes: [(&str, u64, [u64; 4]); 2] = [
                ("region_copy", number::region_copy, [KEY, region.0, 0, 3]),
                ("entropy_read", number::entropy_read, [0; 4]),
            ];
            for (name, call, arguments) in writes {
                buffer.fill(AROUND);
                let at = arguments[3] as usize;
                let mut words = [arguments[0], arguments[1], arguments[2], 0, 0, 0];
                words[at] = buffer[offset..].as_mut_ptr() as u64;
                words[at + 1] = bytes as u64;
                let told = invoke(call, words);
                let (before, rest) = core::hint::black_box(&buffer).split_at(offset);
                let around = before.iter().chain(&rest[bytes..]).all(|byte| *byte == AROUND);
                check!(around, "{name} of {bytes} bytes at {offset} wrote around them: {told:?}");
                let absent = call == number::entropy_read && !exposed::has(feature::ENTROPY);
                check!(told == Ok(0) || absent, "{name} of {bytes} bytes gave {told:?}");
                check!(
                    call != number::region_copy || rest[..bytes].iter().all(|byte| *byte == 0),
                    "{name} read something"
                );
            }
        }
    }
    granted!(syscall::page_free(KeyIndex::FIRST, region));
    Ok(())
}

/// Words that calls find interesting, and others.
fn random_word(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => random.below(4),
        1 => random.below(64),
        2 => random.below(exposed::kernel().pages.load(SeqCst)),
        3 => 1 << random.below(64),
        4 => u64::MAX - random.below(5000),
        5 => PLACE + random.below(0x4000),
        6 => area::number().0 + random.below(3) - 1,
        _ => random.number(),
    }
}

/// Any call with any words; none tells an address of the kernel's. Those that would end the test or its memory are left
/// out: they have tests of their own.
fn fault_14_random_calls() -> Outcome {
    watch();
    let seed = 0x14;
    let mut random = Random(seed);
    let (image_start, image_end) = runtime::image::own_range();
    for count in 0..1_000_000u64 {
        if count % 1000 == 0 {
            comes_further();
        }
        let call = random.below(TABLE.len() as u64 + 4);
        let mut words: [u64; 6] = core::array::from_fn(|_| random_word(&mut random));
        match call {
            number::predicate_wait | number::context_set => continue,
            number::time_slice_yield | number::address_space_switch => continue,
            number::time_slice_free => continue,
            number::page_table_unlink | number::key_drop | number::page_unbind => words[0] = random.below(40) + 3,
            number::page_free | number::page_claim => words[0] = random.below(40) + 3,
            number::environment_destroy | number::revocation_request | number::revocation_enforce
                if words[1] == area::number().0 =>
            {
                continue;
            }
            number::batch => words[1] = u64::MAX,
            _ => {}
        }
        if words.iter().any(|word| (image_start..image_end).contains(word)) {
            continue;
        }
        let outcome = tried(call, words);
        check!(
            matches!(outcome, None | Some(kind::PAGE_FAULT | kind::INVALID_OPCODE)),
            "seed {seed:#x}, call {count}: number {call} with {words:x?} raised {outcome:?}"
        );
        let detail = DETAIL.load(SeqCst);
        check!(
            !is_kernels(detail) || words.iter().any(|word| *word == detail || *word & !0xfff == detail),
            "seed {seed:#x}, call {count}: number {call} with {words:x?} told {detail:#x}"
        );
    }
    granted!(syscall::null());
    Ok(())
}

/// Children that call at random, how many times each, and how long one of them is watched, in nanoseconds.
const CALLERS: u64 = 24;
const CALLS_OF_ONE: u64 = 20_000;
const WATCHED: u64 = 300_000_000;
/// Rows of a random batch.
const ROWS: usize = 6;
/// Words of the child's public page: calls that it has made, and those that were granted.
const MADE: usize = 1;
const GRANTED: usize = 2;

/// Words near what a child has: its pages, its environments, its memory.
fn near_word(random: &mut Random, rows: u64) -> u64 {
    let own = exposed::environment(area::number()).and_then(|own| own.pages().nth(random.below(60) as usize));
    match random.below(6) {
        0 => own.map_or(0, |page| page.0),
        1 => own.map_or(0, |page| page.address() | Access::WRITE.0),
        2 => PLACE + random.below(8) * 0x1000 | random.below(4),
        3 => rows,
        4 => area::root().0,
        _ => random_word(random),
    }
}

/// Every call with any words, without regard for oneself: this environment may lose its memory, its slices or its life.
extern "C" fn call_without_regard(seed: u64) {
    watch();
    let mut random = Random(seed);
    let mut rows = [BatchRow::default(); ROWS];
    let place = rows.as_mut_ptr() as u64;
    let count = |word: usize| Area::current().status(word).fetch_add(1, SeqCst);
    for _ in 0..CALLS_OF_ONE {
        for row in &mut rows {
            row.number = random.below(TABLE.len() as u64);
            row.arguments = core::array::from_fn(|_| near_word(&mut random, place));
        }
        let other = random.pick(&[SYNCHRONOUS, ASYNCHRONOUS, 0]) | random.below(1 << 18);
        let call = if random.below(16) == 0 { other } else { random.below(TABLE.len() as u64) };
        let words = core::array::from_fn(|_| near_word(&mut random, place));
        let words = if call == number::batch { [place, random.below(ROWS as u64 + 1), 0, 0, 0, 0] } else { words };
        // What raises nothing was refused.
        let raised = tried(call, words);
        count(MADE);
        if raised.is_some() {
            count(GRANTED);
        }
    }
}

/// No call of any environment with any arguments harms another: the harness checks that. Few of them live to the end.
fn fault_14_random_calls_that_may_kill(world: &World) -> Outcome {
    let mut made = [0; 2];
    for seed in 0..CALLERS {
        let child = spawn(world, call_without_regard, 0x14_000 + seed)?;
        let end = clock::now() + WATCHED;
        while child.alive() && clock::now() < end {
            time_slice::yield_now();
        }
        made = [made[0] + status(&child, MADE), made[1] + status(&child, GRANTED)];
        granted!(child.destroy());
        world.still_whole().map_err(|why| format!("seed {seed}: {why}"))?;
    }
    channel::measurement("random calls without regard, and those granted or faulted", made[0], "calls");
    check!(made[0] > CALLERS * 10 && made[1] > 0, "only {made:?} calls were made");
    Ok(())
}

/// Which word the second thread flips, and between what.
static FLIPPED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
static STOP: AtomicU64 = AtomicU64::new(0);
/// How long, in nanoseconds, calls may meet the same word before the test says so.
const FLIPPING_MOST: u64 = 20_000_000_000;

extern "C" fn flip(_: u64) {
    let [at, first, second] = FLIPPED.each_ref().map(|word| word.load(SeqCst));
    // SAFETY: the word is one of a static of this program, which its creator named.
    let word = unsafe { AtomicU64::from_ptr(at as *mut u64) };
    while STOP.load(SeqCst) == 0 {
        word.store(second, SeqCst);
        word.store(first, SeqCst);
    }
}

/// Makes a call over and over, while a thread, on another CPU where there is one, flips a word. With one value the call
/// is granted, with the other it is refused: each call has one of both, and `check` finds nothing else. The calls go on
/// until both were seen: where the host runs the two CPUs one after the other, thousands may meet the same word.
fn while_flipping(
    word: &AtomicU64,
    [granted, refused]: [u64; 2],
    calls: u64,
    mut call: impl FnMut() -> Result<bool, String>,
) -> Outcome {
    let cpus = exposed::kernel().cpus.load(SeqCst);
    STOP.store(0, SeqCst);
    word.store(granted, SeqCst);
    for (place, value) in FLIPPED.iter().zip([word.as_ptr() as u64, granted, refused]) {
        place.store(value, SeqCst);
    }
    let mut builder = granted!(Builder::sharing());
    builder.function(flip, 0).budget(Resource::Slice, 1);
    let thread = granted!(builder.create());
    granted!(thread.run(cpus - 1, time_slice::ANY_POSITION));
    let mut outcomes = [0u64; 2];
    let both = |outcomes: [u64; 2]| outcomes[1] > 0 && (cpus == 1 || outcomes[0] > 0);
    let end = clock::now() + FLIPPING_MOST;
    while outcomes[0] + outcomes[1] < calls || !both(outcomes) && clock::now() < end {
        outcomes[usize::from(call()?)] += 1;
    }
    STOP.store(1, SeqCst);
    check!(thread.wait(u64::MAX), "the other thread does not end");
    granted!(thread.destroy());
    check!(outcomes[1] > 0, "no call was granted: {outcomes:?}");
    check!(cpus == 1 || outcomes[0] > 0, "no call was refused, with a thread on another CPU: {outcomes:?}");
    Ok(())
}

/// The row of an entry: mapped is a page of ours, and never the kernel's.
fn fault_15_argument_changes_during_the_call(_: &World) -> Outcome {
    static ROW: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    let page = granted!(Allocator::own().allocate());
    granted!(map(PLACE, page.address() | Access::WRITE.0));
    let control = exposed::environment(area::number()).map_or(0, |info| info.control.load(SeqCst));
    let references = |page| exposed::page(page).map(|info| info.references());
    ROW[0].store(PLACE | KEY, SeqCst);
    let entries = [page.address() | Access::WRITE.0, control << 12 | Access::WRITE.0];
    while_flipping(&ROW[1], entries, 50_000, || {
        // SAFETY: the row maps the page that lies there, or is refused.
        let outcome = unsafe { syscall::page_map(KeyIndex::FIRST, area::root(), UserAddress(ROW.as_ptr() as u64), 1) };
        check!(references(PageNumber(control)) == Some(0), "the control page is mapped");
        check!(references(page) == Some(1), "our page is not mapped any more");
        Ok(outcome.is_ok())
    })?;
    granted!(map(PLACE, 0));
    granted!(Allocator::own().free(page));
    Ok(())
}

/// The specification of an environment: one of its private pages is ours, and never the kernel's record of ourselves.
fn fault_15_specification_changes_during_the_call(_: &World) -> Outcome {
    const WORDS: usize = size_of::<Specification>() / 8;
    static WANTED: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
    let own = Allocator::own();
    let control = exposed::environment(area::number()).map_or(0, |info| info.control.load(SeqCst));
    let kind = |page| exposed::page(PageNumber(page)).map(|info| info.kind());
    let mut pages = [PageNumber::NONE; 3 + PRIVATE_PAGES_LEAST];
    granted!(own.allocate_many(&mut pages));
    let root = granted!(AddressSpace::create(own)).root;
    let [first, second, public, ..] = pages;
    let fixed = [KEY, first.0, second.0, public.0, root.0, 0x1000_0000, PRIVATE_PAGES_LEAST as u64];
    let words = fixed.into_iter().chain(pages[3..].iter().map(|page| page.0));
    WANTED.iter().zip(words).for_each(|(place, word)| place.store(word, SeqCst));
    let last = fixed.len() + PRIVATE_PAGES_LEAST - 1;
    let ours = WANTED[last].load(SeqCst);
    while_flipping(&WANTED[last], [ours, control], 2000, || {
        // SAFETY: the kernel reads the specification; nothing maps its pages.
        let made = unsafe { syscall::environment_create(KeyIndex::FIRST, UserAddress(WANTED.as_ptr() as u64)) };
        check!(kind(control) == Some(PageKind::EnvironmentControl), "our record became a {:?}", kind(control));
        let wanted = if made.is_ok() { PageKind::EnvironmentPrivate } else { PageKind::Ordinary };
        check!(kind(ours) == Some(wanted), "{made:?}, and our page is a {:?}", kind(ours));
        if let Ok(number) = made {
            while syscall::environment_destroy(KeyIndex::FIRST, number).is_err_and(|told| told.error == Error::Again) {}
        }
        Ok(made.is_ok())
    })?;
    check!(own.free_many(&pages) == pages.len(), "not all pages were freed");
    granted!(own.free(root));
    Ok(())
}

/// The first term of a predicate watches a word of ours, which never fulfils it, or one of the kernel's, which would.
/// Only the second, which the clock makes true, ever fires.
fn fault_16_terms_change_while_they_are_taken(_: &World) -> Outcome {
    static OURS: AtomicU64 = AtomicU64::new(0);
    let mut predicate = Predicate::new();
    granted!(predicate.add(&[word(&OURS, Operator::NotEqual, 0)]));
    granted!(predicate.add(&[until(0)]));
    // SAFETY: the source of the first term is its first word. Only the kernel reads it while the other thread changes it.
    let source = unsafe { &*predicate.terms().as_ptr().cast::<AtomicU64>() };
    while_flipping(source, [OURS.as_ptr() as u64, abi::memory_map::KERNEL_IMAGE], 2000, || {
        let fired = predicate.wait_once();
        check!(matches!(fired, Ok(Fired::Product(1) | Fired::Upcall) | Err(_)), "the kernel's word fired: {fired:?}");
        Ok(fired.is_ok())
    })
}

/// A row of a batch: pages come under our own list, and never under our creator's.
fn fault_15_row_of_a_batch_changes_during_the_call() -> Outcome {
    static ROWS: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
    static FRESH: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    let own = Allocator::own();
    let creator = exposed::environment(area::number()).map_or(0, |info| info.creator.load(SeqCst));
    let creator = exposed::environment(EnvironmentId(creator)).ok_or("no creator")?;
    let root = PageNumber(creator.root.load(SeqCst));
    let theirs = exposed::page(root).map(|info| info.access()).ok_or("no root")?;
    while_flipping(&ROWS[2], [own.list.0, theirs.0], 20_000, || {
        ROWS[0].store(number::page_allocate, SeqCst);
        ROWS[1].store(KEY, SeqCst);
        FRESH[1].store(PageNumber::NONE.address(), SeqCst);
        let rest = [KEY, PageNumber::NONE.0, FRESH.as_ptr() as u64, 1];
        ROWS[3..].iter().zip(rest).for_each(|(word, value)| word.store(value, SeqCst));
        // SAFETY: the kernel reads and writes one row.
        let done = unsafe { syscall::batch(UserAddress(ROWS.as_ptr() as u64), 1) }.is_ok();
        let page = PageNumber((FRESH[1].load(SeqCst) & PAGE) >> 12);
        if done {
            let list = exposed::page(page).map(|info| info.access());
            check!(list == Some(own.list), "a page came under the list {list:?}");
            granted!(own.free(page));
        }
        Ok(done)
    })
}

/// The second row of a batch maps another page over the rows: the kernel keeps to what it has, or meets the other page.
fn fault_17_batch_that_maps_over_its_own_rows() -> Outcome {
    let own = Allocator::own();
    let (first, second) = (granted!(own.allocate()), granted!(own.allocate()));
    granted!(map(PLACE, first.address() | Access::WRITE.0));
    granted!(map(PLACE + 0x1000, second.address() | Access::WRITE.0));
    let rows = MapRow { address: PLACE | KEY, entry: second.address() | Access::WRITE.0 };
    let remap = [KEY, area::root().0, core::ptr::from_ref(&rows) as u64, 1, 0, 0];
    let null = BatchRow { number: number::null, arguments: [0; 6], unused: 0 };
    let batched = [null, BatchRow { number: number::page_map, arguments: remap, unused: 0 }, null, null];
    for (index, row) in batched.iter().enumerate() {
        // SAFETY: the place is mapped writable, and large enough.
        unsafe { (PLACE as *mut BatchRow).add(index).write_volatile(*row) };
    }
    let outcome = invoke(number::batch, [PLACE, batched.len() as u64, 0, 0, 0, 0]);
    check!(outcome.is_ok() || outcome.is_err_and(|failure| failure.detail >= 2), "the batch gave {outcome:?}");
    let references = [first, second].map(|page| exposed::page(page).map(|info| info.references()));
    check!(references == [Some(0), Some(2)], "after it the pages have {references:?} references");
    granted!(map(PLACE, 0));
    granted!(map(PLACE + 0x1000, 0));
    check!(own.free_many(&[first, second]) == 2, "the pages are not free");
    Ok(())
}

/// The second row takes the page away in which the rows lie, so that their results cannot be returned. The fault is the
/// caller's, each row was done once or not at all, and the new pages are charged to it.
fn fault_17_batch_that_unmaps_its_own_rows() -> Outcome {
    watch();
    let own = Allocator::own();
    let info = exposed::environment(area::number()).ok_or("no record")?;
    let page = granted!(own.allocate());
    granted!(map(PLACE, page.address() | Access::WRITE.0));
    let rows = MapRow { address: PLACE | KEY, entry: 0 };
    let unmap = [KEY, area::root().0, core::ptr::from_ref(&rows) as u64, 1, 0, 0];
    let mut fresh = [FRESH; 2];
    let mut places = fresh.iter_mut().map(|row| core::ptr::from_mut(row) as u64);
    let mut allocate = || [KEY, own.list.0, KEY, PageNumber::NONE.0, places.next().unwrap_or(0), 1];
    let batched = [
        (number::page_allocate, allocate()),
        (number::page_map, unmap),
        (number::page_allocate, allocate()),
        (number::null, [0; 6]),
    ];
    for (index, (number, arguments)) in batched.into_iter().enumerate() {
        // SAFETY: the place is mapped writable, and large enough.
        unsafe { (PLACE as *mut BatchRow).add(index).write_volatile(BatchRow { number, arguments, unused: 0 }) };
    }
    let used = || info.budget[Resource::Page as usize].used.load(SeqCst);
    let before = used();
    let outcome = tried(number::batch, [PLACE, batched.len() as u64, 0, 0, 0, 0]);
    check!(outcome == Some(kind::PAGE_FAULT), "a batch that unmapped its rows raised {outcome:?}");
    check!(exposed::page(page).map(|info| info.references()) == Some(0), "the rows are still mapped");
    check!(used() == before + 2 && info.pages().count() as u64 == used(), "{before} pages became {}", used());
    let mut newest = info.pages();
    for page in [newest.next(), newest.next(), Some(page)] {
        granted!(own.free(page.ok_or("a page is not listed")?));
    }
    check!(used() == before - 1, "{before} pages became {}", used());
    Ok(())
}
