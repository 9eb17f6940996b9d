//! Attackers from valid state: environments that call the kernel with what they really have.
//!
//! Each argument of a call is drawn by its type in the table of rows. Pages, lists, tables and roots come from the
//! exposed list of the attacker's own pages, environments from the exposed records, and keys from its ring. So most
//! calls get past the first check. One argument in sixteen is a random word.
//!
//! An attacker may lose its memory, its slices or its life by a call; the harness starts the next one. It asks after
//! some rounds whether the machine is whole: every page counted again, the victim undisturbed, no count below zero.

use crate::attempt::watch;
use crate::child::{prepare, status};
use crate::random::Random;
use crate::victim::describe;
use crate::{Outcome, World, attempt, check, granted};
use abi::environment::Specification;
use abi::limits::PRIVATE_PAGES_LEAST;
use abi::page::{NO_PAGE, PageKind};
use abi::page_table::{PRESENT, WRITE};
use abi::predicate::{CLOCK, END_OF_PRODUCT, Operator};
use abi::syscall::{BatchRow, Row, TABLE, number};
use abi::upcall::kind;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use runtime::area::Area;
use runtime::environment::{Child, end_all};
use runtime::page::Allocator;
use runtime::{EnvironmentId, KeyIndex, PageNumber, area, channel, clock, exposed, time_slice};

/// Calls that one attacker makes at most, and how long it may take for them, in nanoseconds. A round in which no
/// attacker has made a call for a while has ended: they sleep, or have no slices any more.
const CALLS_OF_ONE: u64 = 5_000;
const WATCHED: u64 = 100_000_000;
const STILL: u64 = 4_000_000;
/// Attackers at a time on each CPU.
const TOGETHER: u64 = 2;
/// Rounds after which the machine is asked whether it is whole.
const ROUNDS: u64 = 8;
/// Pages that an attacker begins with, to lose.
const SPARE: usize = 48;
/// Words of memory for the structures that calls read and write, and rows that lie there.
const WORDS: usize = 512;
const ROWS: u64 = 6;
/// Status words: calls made, and those that were granted or faulted.
const MADE: usize = 1;
const GRANTED: usize = 2;
/// Where rows map pages.
const PLACE: u64 = 0x2000_0000;

static BUFFER: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// Makes so many calls, from attackers on all CPUs, and recounts.
///
/// # Errors
/// What is not whole any more, with the seed.
pub fn attack(world: &World, calls: u64, seed: u64) -> Outcome {
    let cpus = exposed::kernel().cpus.load(SeqCst);
    let (mut random, mut done, mut round) = (Random(seed), [0; 2], 0);
    while done[0] < calls {
        let seeds: [u64; 8] = core::array::from_fn(|_| random.number());
        let mut attackers = Vec::new();
        for (index, seed) in (0..(TOGETHER * cpus).min(8)).zip(seeds) {
            let mut builder = prepare(world, call_from_valid_state, seed)?;
            builder.silent();
            let child = granted!(builder.create());
            granted!(child.run(index % cpus, time_slice::ANY_POSITION));
            attackers.push(child);
        }
        watch_a_round(&attackers);
        for attacker in &attackers {
            done = [done[0] + status(attacker, MADE), done[1] + status(attacker, GRANTED)];
        }
        // While some end, others on another CPU may leave more.
        let mut left = left_by(world);
        while !left.is_empty() {
            granted!(end_all(&left));
            left = left_by(world);
        }
        for attacker in attackers {
            let (number, root) = (attacker.number, attacker.space.root);
            let destroyed = attacker.destroy();
            destroyed.map_err(|failure| format!("seed {seed:#x}: {}{}", describe(failure), users_of(number, root)))?;
        }
        round += 1;
        if round % ROUNDS == 0 {
            world.still_whole().map_err(|why| format!("seed {seed:#x}, round {round}: {why}"))?;
        }
    }
    channel::measurement("calls from valid state", done[0], "calls");
    channel::measurement("calls from valid state, granted or faulted", done[1], "calls");
    check!(done[1] > done[0] / 20, "seed {seed:#x}: of {} calls only {} were granted", done[0], done[1]);
    world.still_whole().map_err(|why| format!("seed {seed:#x}, at the end: {why}"))
}

/// Waits until the attackers are dead, make no calls any more, or have had their time.
fn watch_a_round(attackers: &[Child]) {
    let begun = clock::now();
    let (mut made, mut moved) = (0, begun);
    while attackers.iter().any(Child::alive) && clock::now() < (moved + STILL).min(begun + WATCHED) {
        time_slice::yield_now();
        let so_far = attackers.iter().map(|attacker| status(attacker, MADE)).sum();
        if so_far != made {
            (made, moved) = (so_far, clock::now());
        }
    }
}

/// The attackers, and what they have left to this environment: who destroys one of the others leaves its children to
/// its creator. Any of them may run in the root of another one, so all end before the first gives its pages back.
fn left_by(world: &World) -> Vec<EnvironmentId> {
    let all = (0..exposed::kernel().environments.load(SeqCst)).filter_map(exposed::environment_slot);
    let heirs = all.filter(|info| info.creator.load(SeqCst) == area::number().0 && info.remains());
    let numbers = heirs.map(|info| EnvironmentId(info.number.load(SeqCst)));
    numbers.filter(|number| *number != world.victim.number()).collect()
}

/// The environments that run in the root of one that could not be destroyed.
fn users_of(number: EnvironmentId, root: PageNumber) -> String {
    let mut text =
        format!("; attacker {}, root {root:?}: {:?}", number.0, exposed::page(root).map(|info| info.links()));
    for info in (0..exposed::kernel().environments.load(SeqCst)).filter_map(exposed::environment_slot) {
        if info.root.load(SeqCst) == root.0 || info.number.load(SeqCst) == number.0 {
            let words = [&info.number, &info.state, &info.creator, &info.death_reason, &info.key_ring];
            text += &format!(", environment {:?}", words.map(|word| word.load(SeqCst)));
        }
    }
    text
}

/// What an attacker draws from.
struct Attacker {
    random: Random,
    children: [u64; 4],
}

extern "C" fn call_from_valid_state(seed: u64) {
    watch();
    let mut attacker = Attacker { random: Random(seed), children: [0; 4] };
    let mut spare = [PageNumber::NONE; SPARE];
    let _ = Allocator::own().allocate_many(&mut spare);
    for call in 0..CALLS_OF_ONE {
        if call % 64 == 0 {
            attacker.look_for_children();
        }
        let row = attacker.any_row();
        let words = attacker.words_of(row);
        let raised = tried(row.number, words);
        Area::current().status(MADE).fetch_add(1, SeqCst);
        if raised.is_some() {
            Area::current().status(GRANTED).fetch_add(1, SeqCst);
        }
    }
}

impl Attacker {
    /// A row of the table. What ends or stops the attacker itself is rare.
    fn any_row(&mut self) -> &'static Row {
        loop {
            let row = &TABLE[self.random.below(TABLE.len() as u64) as usize];
            let is_rare = matches!(
                row.number,
                number::predicate_wait | number::address_space_switch | number::context_set | number::time_slice_free
            );
            if !is_rare || self.random.below(32) == 0 {
                return row;
            }
        }
    }

    fn words_of(&mut self, row: &Row) -> [u64; 6] {
        let mut words = [0; 6];
        for (word, (name, kind)) in words.iter_mut().zip(row.arguments) {
            *word = if self.random.below(16) == 0 { self.any_word() } else { self.valid(row.number, name, kind) };
        }
        words
    }

    fn valid(&mut self, call: u64, name: &str, kind: &str) -> u64 {
        match (name, kind) {
            ("slot", _) => self.random.below(8) + 3,
            (_, "KeyIndex") => self.random.pick(&[1, 1, 1, 1, 1, 2, 3, 4]),
            ("root" | "top" | "table", _) => self.page_of_kind(PageKind::PageTable),
            ("list", _) if self.random.below(4) != 0 => Allocator::own().list.0,
            ("list", _) => self.page_of_kind(PageKind::AccessList),
            (_, "PageNumber") => self.any_page(),
            (_, "EnvironmentId") => self.any_environment(),
            ("address", _) => PLACE + self.random.below(64) * 0x1000,
            (_, "UserAddress") => self.structure(call),
            ("count", _) => self.random.below(ROWS + 1),
            ("rights", _) => self.random.below(16),
            ("level" | "kind", _) => self.random.below(14),
            ("cpu", _) => self.random.below(exposed::kernel().cpus.load(SeqCst)),
            ("deadline", _) => clock::now() + self.random.below(1000),
            _ => self.random.below(8),
        }
    }

    fn any_word(&mut self) -> u64 {
        match self.random.below(5) {
            0 => self.random.below(exposed::kernel().pages.load(SeqCst)),
            1 => 1 << self.random.below(64),
            2 => u64::MAX - self.random.below(5000),
            3 => area::number().0 + self.random.below(3) - 1,
            _ => self.random.number(),
        }
    }

    /// One of the own pages, mostly of those that were charged last.
    fn any_page(&mut self) -> u64 {
        let reach = if self.random.below(8) == 0 { 120 } else { SPARE as u64 };
        let at = self.random.below(reach) as usize;
        let own = exposed::environment(area::number());
        own.and_then(|own| own.pages().nth(at)).map_or(u64::from(NO_PAGE), |page| page.0)
    }

    /// The same of a kind, where there is one among some of them.
    fn page_of_kind(&mut self, kind: PageKind) -> u64 {
        for _ in 0..6 {
            let page = self.any_page();
            if exposed::page(PageNumber(page)).is_some_and(|info| info.kind() == kind) {
                return page;
            }
        }
        if kind == PageKind::PageTable { area::root().0 } else { Allocator::own().list.0 }
    }

    fn look_for_children(&mut self) {
        let (own, slots) = (area::number().0, 0..exposed::kernel().environments.load(SeqCst));
        let mine = slots.filter_map(exposed::environment_slot).filter(|info| info.creator.load(SeqCst) == own);
        self.children = [0; 4];
        self.children.iter_mut().zip(mine).for_each(|(place, info)| *place = info.number.load(SeqCst));
    }

    fn any_environment(&mut self) -> u64 {
        match self.random.below(8) {
            0 => area::number().0,
            1 => exposed::environment(area::number()).map_or(0, |info| info.creator.load(SeqCst)),
            2 => {
                let slot = self.random.below(exposed::kernel().environments.load(SeqCst));
                exposed::environment_slot(slot).map_or(0, |info| info.number.load(SeqCst))
            }
            _ => self.random.pick(&self.children.clone()),
        }
    }

    /// Puts into memory what a call reads: where.
    fn structure(&mut self, call: u64) -> u64 {
        match call {
            number::environment_create => self.specification(),
            number::predicate_wait => self.terms(),
            number::batch => self.batch(),
            _ => self.rows(),
        }
        BUFFER.as_ptr() as u64
    }

    fn rows(&mut self) {
        for row in 0..ROWS as usize {
            let address = PLACE + self.random.below(600) * 0x1000 + self.random.pick(&[1, 1, 1, 2, 0]);
            let page = if self.random.below(6) == 0 { PageNumber::NONE.0 } else { self.any_page() };
            let bits = self.random.pick(&[PRESENT, PRESENT | WRITE, PRESENT | WRITE, 0]);
            BUFFER[row * 2].store(address, SeqCst);
            BUFFER[row * 2 + 1].store(PageNumber(page).address() | bits, SeqCst);
        }
    }

    fn terms(&mut self) {
        for (index, word) in [CLOCK, Operator::GreaterOrEqual as u64 | END_OF_PRODUCT, u64::MAX, clock::now() + 1000]
            .into_iter()
            .enumerate()
        {
            BUFFER[index].store(word, SeqCst);
        }
        let watched = BUFFER.as_ptr() as u64 + 8 * self.random.below(8);
        for (index, word) in [watched, self.random.below(6), self.random.number(), 1].into_iter().enumerate() {
            BUFFER[4 + index].store(word, SeqCst);
        }
    }

    /// Rows of a batch. Their structures lie where those of the batch itself do.
    fn batch(&mut self) {
        let mut rows = [BatchRow::default(); ROWS as usize];
        for row in &mut rows {
            let chosen = self.any_row();
            let call = if chosen.number == number::batch { number::null } else { chosen.number };
            *row = BatchRow { number: call, arguments: [0; 6], unused: 0 };
            for (word, (name, kind)) in row.arguments.iter_mut().zip(chosen.arguments) {
                let at = BUFFER.as_ptr() as u64 + 8 * self.random.below(WORDS as u64);
                *word = if *kind == "UserAddress" { at } else { self.valid(call, name, kind) };
            }
        }
        let words = rows.iter().flat_map(|row| [[row.number].as_slice(), &row.arguments, &[0]].concat());
        BUFFER.iter().zip(words).for_each(|(place, word)| place.store(word, SeqCst));
    }

    /// An environment of the attacker's own pages, or of the parts of another environment, under its own name.
    fn specification(&mut self) {
        let count = PRIVATE_PAGES_LEAST as u64;
        let mut wanted =
            Specification { name_key: KeyIndex::FIRST.0, private_count: count, ..Specification::default() };
        let unused = |page: &PageNumber| {
            exposed::page(*page).is_some_and(|info| info.kind() == PageKind::Ordinary && info.references() == 0)
        };
        let own = exposed::environment(area::number());
        let mut pages = own.into_iter().flat_map(|own| own.pages()).filter(unused).map(|page| page.0);
        let mut next = || pages.next().unwrap_or(u64::from(NO_PAGE));
        (wanted.control, wanted.key_ring, wanted.public) = (next(), next(), next());
        wanted.private[..count as usize].iter_mut().for_each(|place| *place = next());
        wanted.root = self.page_of_kind(PageKind::PageTable);
        wanted.area = 0x1000_0000 + self.random.below(4) * 0x10_0000;
        let fixed = [wanted.name_key, wanted.control, wanted.key_ring, wanted.public, wanted.root, wanted.area, count];
        let parts_of = if self.random.below(2) == 0 { self.any_environment() } else { 0 };
        let last = [parts_of, self.any_page(), self.random.below(3)];
        let words = fixed.into_iter().chain(wanted.private).chain(last);
        BUFFER.iter().zip(words).for_each(|(place, word)| place.store(word, SeqCst));
    }
}

/// A call under a handler: nothing where it was refused, else the upcall that it raised.
fn tried(call: u64, words: [u64; 6]) -> Option<u64> {
    let [a, b, c, d, e, f] = words;
    let raised = attempt!(
        ["mov rax, r15", "syscall", "cmp rax, 0", "jne 77f", "ud2"],
        "rdi" = a,
        "rsi" = b,
        "rdx" = c,
        "r10" = d,
        "r8" = e,
        "r9" = f,
        "r15" = call
    );
    raised.map(|frame| frame.kind).filter(|raised| *raised != kind::SLICE_START)
}
