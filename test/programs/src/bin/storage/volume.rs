//! A volume for the tests: made on the raw disk, opened, and used by small helpers.

use crate::program::{
    self, CLAIMING, DATA, DIRECTORY, ENDLESS, ENTRIES, FIRST_ENTRY, GREEDY, HEAVY, LARGE, LONG, OUTSIDE, SLOW,
};
use abi::capability::Rights;
use abi::device::operation::{KEY_SHIFT, READ, WRITE};
use abi::device::{TransferRow, kind, status};
use abi::limits::PAGE_SIZE;
use abi::memory_map::EXPOSED_BLOCKS;
use abi::storage::{BlockInfo, ChangeRow, DeclaredRow, ROOT, TransactionSpecification, action, state, step};
use alloc::string::String;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use runtime::address_space::Access;
use runtime::page::Allocator;
use runtime::predicate::{self, Event, Operator, Term};
use runtime::window::Window;
use runtime::{Error, Failure, KeyIndex, PageNumber, UserAddress, clock, exposed, key, syscall};
use test_programs::child::eventually;
use test_programs::{Outcome, check, granted};
use xn::format::{
    BLOCK_SIZE, Block, State, Superblock, TEMPLATE_BLOCKS, TEMPLATES, encode_template, initial_block, seal,
};
use xn::template::{Kind, Template};

pub(crate) const KEY: KeyIndex = KeyIndex::FIRST;
/// Name of the volume.
const NAME: [u8; 16] = *b"a volume of XN's";
const BLOCKS: u64 = 2048;
/// What the blocks of trees hold before a tree owns them.
pub(crate) const SECRET: u8 = 0x5e;

/// The disk of the machine.
pub(crate) fn disk() -> Result<u64, String> {
    let found = exposed::device(kind::DISK, 0).ok_or("the machine has no disk")?;
    Ok(found.0)
}

/// Pages for raw transfers.
pub(crate) struct Raw {
    pages: [PageNumber; 2],
    window: Window,
}

impl Raw {
    pub(crate) fn new() -> Result<Self, String> {
        let mut pages = [PageNumber::NONE; 2];
        granted!(Allocator::own().allocate_many(&mut pages));
        let window = granted!(Window::open(&pages, KEY, Access::WRITE));
        Ok(Self { pages, window })
    }

    pub(crate) fn submit(&self, operation: u64, block: u64) -> Result<u64, Failure> {
        let row = [TransferRow {
            operation: operation | KEY.0 << KEY_SHIFT,
            place: block * PAGE_SIZE,
            memory: TransferRow::piece(self.pages[0], 0, PAGE_SIZE),
            status: TransferRow::word(self.pages[1], 0),
        }];
        let device = disk().map_or(u64::MAX, |device| device);
        // SAFETY: the kernel reads the row; the pages are the window's, of atomic words.
        unsafe { syscall::device_submit(KEY, device, 0, UserAddress(row.as_ptr() as u64), 1) }
    }

    fn transfer(&self, operation: u64, block: u64) -> Outcome {
        let status = &self.window.words()[BLOCK_SIZE / 8];
        status.store(0, SeqCst);
        granted!(self.submit(operation, block));
        check!(eventually(|| status.load(Acquire) != 0), "block {block} does not come to an end");
        check!(status.load(Acquire) == status::DONE, "block {block} ended with {}", status.load(Acquire));
        Ok(())
    }

    pub(crate) fn write(&self, block: u64, bytes: &Block) -> Outcome {
        let (words, _) = bytes.as_chunks::<8>();
        words.iter().zip(self.window.words()).for_each(|(word, to)| to.store(u64::from_le_bytes(*word), SeqCst));
        self.transfer(WRITE, block)
    }

    pub(crate) fn read(&self, block: u64) -> Result<Block, String> {
        self.transfer(READ, block)?;
        let mut bytes = [0; BLOCK_SIZE];
        let (words, _) = bytes.as_chunks_mut::<8>();
        words.iter_mut().zip(self.window.words()).for_each(|(to, word)| *to = word.load(Acquire).to_le_bytes());
        Ok(bytes)
    }

    pub(crate) fn free(self) -> Outcome {
        drop(self.window);
        self.pages.iter().try_for_each(|page| Ok(granted!(syscall::page_free(KEY, *page))))
    }
}

fn template(kind: Kind, children: &[u8], owns: &[u8], access: &[u8]) -> Template {
    let mut template = Template { kind, child_count: children.len() as u8, ..Template::NONE };
    template.children[..children.len()].copy_from_slice(children);
    (template.owns_size, template.access_size) = (owns.len() as u32, access.len() as u32);
    template
}

/// Makes a clean volume without roots.
pub(crate) fn make(raw: &Raw) -> Outcome {
    let superblock = Superblock { state: State::Clean, blocks: BLOCKS, volume: NAME, mounts: 0 };
    let mut bytes = [0; BLOCK_SIZE];
    for block in [0, 1, 258, superblock.map_block(0), BLOCKS - 1] {
        initial_block(&superblock, block, &mut bytes);
        raw.write(block, &bytes)?;
    }
    for block in 260..420 {
        raw.write(block, &[SECRET; BLOCK_SIZE])?;
    }
    let metadata = [
        (DIRECTORY, program::owns()),
        (OUTSIDE, program::outside()),
        (ENDLESS, program::endless()),
        (GREEDY, program::greedy()),
    ];
    let access = program::access();
    for (slot, owns) in &metadata {
        let record = template(Kind::Metadata, &[DIRECTORY, DATA], owns, &access);
        install(raw, *slot, &record, [owns, &access])?;
    }
    let (owns, access) = (program::owns_heavy(), program::access_heavy());
    let heavy = template(Kind::Metadata, &[HEAVY, DATA], &owns, &access);
    install(raw, HEAVY, &heavy, [&owns, &access])?;
    let exploding =
        [(SLOW, program::slow()), (CLAIMING, program::claiming()), (LARGE, program::large()), (LONG, program::long())];
    for (slot, owns) in &exploding {
        install(raw, *slot, &template(Kind::Metadata, &[*slot, DATA], owns, &access), [owns, &access])?;
    }
    install(raw, DATA, &template(Kind::Leaf, &[], &[], &[]), [&[], &[]])
}

fn install(raw: &Raw, slot: u8, record: &Template, programs: [&[u8]; 2]) -> Outcome {
    let mut bytes = [0; BLOCK_SIZE];
    for index in 0..TEMPLATE_BLOCKS as usize {
        let block = TEMPLATES + u64::from(slot) * TEMPLATE_BLOCKS + index as u64;
        encode_template(b"of a test", record, programs, index, &mut bytes);
        seal(&NAME, block, &mut bytes);
        raw.write(block, &bytes)?;
    }
    Ok(())
}

/// A test on a fresh volume, which is closed afterwards.
pub(crate) fn on_a_volume(test: fn(&Raw) -> Outcome) -> Outcome {
    let raw = Raw::new()?;
    make(&raw)?;
    open()?;
    test(&raw)?;
    granted!(run(step::CLOSE, 0, 0));
    raw.free()
}

/// One call of a step.
pub(crate) fn once(key: KeyIndex, step: u64, argument: u64, more: u64) -> Result<u64, Failure> {
    let (disk, before) = (disk().unwrap_or(u64::MAX), clock::ticks());
    // SAFETY: a step reads the caller's memory at most.
    let outcome = unsafe { syscall::volume_step(key, disk, step, argument, more) };
    if let Some(worst) = WORST.get(step as usize) {
        worst.fetch_max(clock::ticks() - before, SeqCst);
    }
    outcome
}

/// What the dearest call of each step took.
pub(crate) static WORST: [AtomicU64; step::MAP_READ as usize + 1] = [const { AtomicU64::new(0) }; _];

/// A step to its end.
pub(crate) fn run(step: u64, argument: u64, more: u64) -> Result<u64, Failure> {
    let mut outcome = once(KEY, step, argument, more);
    let is_under_way = |outcome: &Result<u64, Failure>| {
        outcome.is_err_and(|failure| matches!(failure.error, Error::Again | Error::Busy))
    };
    eventually(|| {
        if !is_under_way(&outcome) {
            return true;
        }
        outcome = once(KEY, step, argument, more);
        !is_under_way(&outcome)
    });
    outcome
}

/// Opens the volume for writing, with the templates that are right.
pub(crate) fn open() -> Outcome {
    check!(granted!(run(step::OPEN, 0, 0)) == BLOCKS, "another size");
    for slot in [DIRECTORY, DATA] {
        granted!(run(step::TEMPLATE, slot.into(), 0));
    }
    granted!(run(step::MAP, 0, 0));
    granted!(run(step::START, 0, 0));
    Ok(())
}

/// The record of a frame.
pub(crate) fn info(frame: u64) -> &'static BlockInfo {
    assert!(frame < exposed::kernel().frames.load(Acquire), "there is no such frame");
    // SAFETY: the kernel exposes so many records there, for ever.
    unsafe { &*(EXPOSED_BLOCKS as *const BlockInfo).add(frame as usize) }
}

/// Waits until a frame is in no transfer, by a predicate over its record; whether its block is there.
pub(crate) fn settled(frame: u64) -> bool {
    const MINUTE: u64 = 60_000_000_000;
    let bits = &info(frame).state;
    let (source, mask) = (core::ptr::from_ref(bits) as u64, u64::from(state::IN | state::OUT));
    let rests = Term { source, operation: Operator::Equal as u64, mask, value: 0 };
    let ended = predicate::wait_any(&[&[rests]], Some(clock::now() + MINUTE));
    ended == Ok(Event::Source(0)) && bits.load(Acquire) & state::RESIDENT != 0
}

/// A transaction that changes one range of the block in `frame`, which is shown.
pub(crate) fn transaction(
    frame: u64,
    offset: usize,
    bytes: &[u8],
    declared: &[(u64, u32, u8)],
) -> TransactionSpecification {
    let mut wanted = TransactionSpecification::EMPTY;
    wanted.counts = [1, 1, declared.len() as u32];
    wanted.shown[0] = frame as u32;
    wanted.changes[0] = ChangeRow { frame: frame as u32, offset: offset as u16, length: bytes.len() as u16 };
    wanted.bytes[..bytes.len()].copy_from_slice(bytes);
    for (row, (first, what, template)) in wanted.declared.iter_mut().zip(declared) {
        *row = DeclaredRow { first: *first, count: 1, action: what | u32::from(*template) << 8 };
    }
    wanted
}

pub(crate) fn modify(key: KeyIndex, wanted: &TransactionSpecification) -> Result<(), Failure> {
    // SAFETY: the kernel reads the transaction.
    unsafe { syscall::block_modify(key, UserAddress(core::ptr::from_ref(wanted) as u64)) }
}

/// Writes entry `index` of sector 0 of the block in `frame`, and declares that `block` is allocated.
pub(crate) fn add(key: KeyIndex, frame: u64, index: usize, block: u64, template: u8) -> Result<(), Failure> {
    assert!(index < ENTRIES, "a sector has so many entries");
    let entry = (block | u64::from(template) << 56).to_le_bytes();
    modify(key, &transaction(frame, FIRST_ENTRY + 8 * index, &entry, &[(block, action::ALLOCATE, template)]))
}

/// Makes a tree of the free block, in `frame`, whose owner is the key's name.
pub(crate) fn tree(key: KeyIndex, owner: u64, block: u64, frame: u64) -> Result<u64, String> {
    let tree = granted!(once(KEY, step::CREATE, block, DIRECTORY.into()));
    check!(granted!(syscall::block_bind(key, ROOT | tree, 0, 0, frame)) == 0, "a fresh block was read");
    granted!(modify(key, &transaction(frame, program::OWNER, &owner.to_le_bytes(), &[])));
    Ok(tree)
}

pub(crate) fn read(key: KeyIndex, frame: u64, bytes: &mut [u8]) -> Result<(), Failure> {
    // SAFETY: the bytes are the caller's to write.
    unsafe { syscall::block_read(key, frame, 0, UserAddress(bytes.as_mut_ptr() as u64), bytes.len() as u64) }
}

pub(crate) fn write(key: KeyIndex, frame: u64, bytes: &[u8]) -> Result<(), Failure> {
    // SAFETY: the kernel reads the bytes.
    unsafe { syscall::block_write(key, frame, 0, UserAddress(bytes.as_ptr() as u64), bytes.len() as u64) }
}

/// Begins to write a block to the disk, in as many calls as the kernel wants.
pub(crate) fn submit(frame: u64) -> Result<(), Failure> {
    loop {
        match syscall::block_submit(KEY, frame) {
            Err(Failure { error: Error::Again, .. }) => {}
            outcome => return outcome,
        }
    }
}

/// Writes a block to the disk and makes it durable.
pub(crate) fn persist(frame: u64) -> Outcome {
    granted!(submit(frame));
    check!(settled(frame), "frame {frame} does not come to an end");
    flush()
}

/// A flush to its end.
pub(crate) fn flush() -> Outcome {
    let number = granted!(once(KEY, step::FLUSH, 0, 0));
    let done = || once(KEY, step::STATE, 0, 0).is_ok_and(|state| state >> 8 >= number);
    check!(eventually(done), "flush {number} does not come to an end");
    Ok(())
}

/// A key of its own name, and that name's component.
pub(crate) fn person() -> Result<(KeyIndex, u64), String> {
    let slot = granted!(key::reserve_slot());
    let component = granted!(syscall::key_derive(KEY, slot, u64::from(Rights::ALL.0), 0));
    Ok((slot, component))
}

/// Visits a metadata block of a recovery; the number of calls.
pub(crate) fn visit(frame: u64) -> Result<u64, String> {
    let (mut cursor, mut calls) = (0, 0);
    loop {
        calls += 1;
        match once(KEY, step::CHECK, frame, cursor) {
            Ok(_) => return Ok(calls),
            Err(failure) if failure.error == Error::Again => cursor = failure.detail,
            Err(failure) => check!(false, "a visit gave {failure:?}"),
        }
    }
}
