//! What the tests share: storage, a driver that commits code into bytes, a seeded generator, and the naive model that
//! says which filter gets a packet.
#![allow(dead_code, unreachable_pub)]

use packet_filter::{
    Account, Atom, Branch, Builder, Cell, Classifier, Compare, Filter, FilterId, Installed, Job, Match, Parent, Patch,
    Progress, Quota, Rank, Refusal, Shape, Size, Sizes, State, Storage, Tail, conjunctions, limit, reference,
};

use std::ops::DerefMut;

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The seed of this run: `CHITIN_SEED`, or the given one. Printed, so that a failure shows it.
pub fn seed(default: u64) -> u64 {
    let seed = std::env::var("CHITIN_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    println!("seed {seed} (set CHITIN_SEED to repeat another)");
    seed
}

/// How many cases to run: many more under `CHITIN_FULL=1`.
pub fn cases(quick: u64, full: u64) -> u64 {
    if std::env::var("CHITIN_FULL").is_ok_and(|value| value == "1") { full } else { quick }
}

/// Storage for a classifier.
pub struct Memory {
    sizes: Sizes,
    accounts: Vec<Account>,
    filters: Vec<Filter>,
    conjunctions: Vec<Installed>,
    cells: Vec<Cell>,
    shapes: Vec<Shape>,
    states: Vec<State>,
    branches: Vec<Branch>,
    tails: Vec<Tail>,
    words: Box<dyn DerefMut<Target = [u32]>>,
    word_map: Vec<u8>,
    code_map: Vec<u8>,
    staging: Vec<u8>,
    incoming: Vec<Atom>,
    job: Box<Job>,
}

fn records<T: Default + Clone>(count: usize) -> Vec<T> {
    vec![T::default(); count]
}

/// A quota that does not matter.
pub const PLENTY: Quota = Quota { filters: 1 << 20, conjunctions: 1 << 22, atoms: 1 << 24, shapes: 1 << 20 };

impl Memory {
    pub fn new(sizes: Sizes) -> Self {
        Self::with_words(sizes, Box::new(vec![0; sizes.words()]))
    }

    pub fn with_words(sizes: Sizes, words: Box<dyn DerefMut<Target = [u32]>>) -> Self {
        Self {
            sizes,
            accounts: vec![Account::new(PLENTY); sizes.owners],
            filters: records(sizes.filters),
            conjunctions: records(sizes.conjunctions),
            cells: records(sizes.cells),
            shapes: records(sizes.shapes),
            states: records(sizes.states),
            branches: records(sizes.branches),
            tails: records(sizes.tails),
            words,
            word_map: records(sizes.word_map()),
            code_map: records(sizes.code_map()),
            staging: records(limit::PIECE),
            incoming: records(limit::FILTER_ATOMS),
            job: Box::new(Job::new()),
        }
    }

    pub fn storage(&mut self) -> Storage<'_> {
        Storage {
            accounts: &mut self.accounts,
            filters: &mut self.filters,
            conjunctions: &mut self.conjunctions,
            cells: &mut self.cells,
            shapes: &mut self.shapes,
            states: &mut self.states,
            branches: &mut self.branches,
            tails: &mut self.tails,
            words: &mut self.words,
            word_map: &mut self.word_map,
            code_map: &mut self.code_map,
            staging: &mut self.staging,
            incoming: &mut self.incoming,
            job: &mut self.job,
        }
    }
}

/// Where committed code goes.
pub trait CodeMemory {
    fn commit(&mut self, patch: Patch<'_>);
}

impl CodeMemory for Vec<u8> {
    fn commit(&mut self, patch: Patch<'_>) {
        self[patch.offset..patch.offset + patch.bytes.len()].copy_from_slice(patch.bytes);
    }
}

/// A classifier, its code, and what is installed in it.
pub struct Driver<'a, C> {
    pub classifier: Classifier<'a>,
    pub code: C,
    pub installed: Vec<(FilterId, u32, Vec<Atom>)>,
    pub steps: u64,
}

impl<'a> Driver<'a, Vec<u8>> {
    pub fn new(memory: &'a mut Memory, secret: u64) -> Self {
        let code = vec![0xcc; memory.sizes.code];
        Self::with_code(memory, secret, code)
    }
}

impl<'a, C: CodeMemory> Driver<'a, C> {
    pub fn with_code(memory: &'a mut Memory, secret: u64, code: C) -> Self {
        let classifier = Classifier::new(memory.storage(), secret).expect("storage fits");
        let mut driver = Self { classifier, code, installed: Vec::new(), steps: 0 };
        driver.run(&mut |_, _| false);
        driver
    }

    /// Steps until nothing is under way.
    pub fn run(&mut self, holds_key: &mut dyn FnMut(FilterId, u32) -> bool) -> Option<Progress> {
        let mut last = None;
        loop {
            self.steps += 1;
            match self.classifier.step(holds_key) {
                Progress::Idle => return last,
                Progress::Again => {}
                Progress::Commit => self.code.commit(self.classifier.patch()),
                end => last = Some(end),
            }
        }
    }

    pub fn insert(&mut self, owner: u32, atoms: &[Atom], key: bool) -> Result<FilterId, Refusal> {
        let id = self.classifier.insert(owner, atoms)?;
        match self.run(&mut |_, _| key) {
            Some(Progress::Installed(installed)) => {
                assert_eq!(installed, id);
                self.installed.push((id, owner, atoms.to_vec()));
                Ok(id)
            }
            Some(Progress::Refused(refusal)) => Err(refusal),
            other => panic!("an insertion ended as {other:?}"),
        }
    }

    /// The same in something.
    pub fn insert_in(&mut self, parent: Parent, owner: u32, atoms: &[Atom]) -> Result<FilterId, Refusal> {
        let id = self.classifier.insert_in(parent, owner, atoms)?;
        match self.run(&mut |_, _| true) {
            Some(Progress::Installed(_)) => {
                self.installed.push((id, owner, atoms.to_vec()));
                Ok(id)
            }
            Some(Progress::Refused(refusal)) => Err(refusal),
            other => panic!("an insertion ended as {other:?}"),
        }
    }

    pub fn remove(&mut self, id: FilterId) {
        self.classifier.remove(id).expect("it is installed");
        assert_eq!(self.run(&mut |_, _| false), Some(Progress::Removed(id)));
        self.installed.retain(|(other, _, _)| *other != id);
    }

    /// The winner of a packet, by the reference and the rule.
    pub fn naive(&self, packet: &[u8]) -> Option<(FilterId, u8, Rank)> {
        self.naive_without(packet, None)
    }

    /// The same, if one filter were not installed.
    pub fn naive_without(&self, packet: &[u8], left_out: Option<FilterId>) -> Option<(FilterId, u8, Rank)> {
        let mut best: Option<(FilterId, u8, Rank)> = None;
        for (id, _, atoms) in self.installed.iter().filter(|(id, _, _)| Some(*id) != left_out) {
            for (number, conjunction) in conjunctions(atoms).enumerate() {
                if reference::holds(conjunction, packet) {
                    let rank = Rank::of(conjunction, id.serial(), number as u8).expect("it was accepted");
                    if best.is_none_or(|(_, _, other)| rank > other) {
                        best = Some((*id, number as u8, rank));
                    }
                }
            }
        }
        best
    }

    /// Asserts that the merged structure gives a packet to the same owner as the model.
    pub fn check(&self, packet: &[u8]) -> Option<Match> {
        let found = self.classifier.classify(packet);
        let expected = self.naive(packet);
        let short = found.map(|found| (found.filter, found.conjunction, found.rank));
        assert_eq!(short, expected, "packet {packet:?} among {:#?}", self.installed);
        found
    }
}

/// A random atom about few places and few values, so that filters meet often.
pub fn small_atom(random: &mut Random, conjunction: u8) -> Atom {
    let size = [1, 1, 1, 2, 4][random.below(5) as usize];
    let all = u32::MAX >> (32 - 8 * u32::from(size));
    let mask = if random.chance(60) { all } else { random.next() as u32 & all & 0x0303_0303 };
    let small = |random: &mut Random| {
        let wide = random.next() as u32 & 0x0303_0303;
        (if random.chance(50) { wide & 3 } else { wide }) & all
    };
    let offset = random.below(7) as u32;
    let (first, second) = (small(random), small(random));
    let base = Atom { conjunction, size, offset, mask, ..Atom::default() };
    match random.below(12) {
        0..=6 => Atom { compare: Compare::Equal as u8, low: first & mask, ..base },
        7 => Atom { compare: Compare::NotEqual as u8, low: first & mask, ..base },
        8 | 9 => Atom { compare: Compare::Within as u8, low: first.min(second), high: first.max(second), ..base },
        10 => Atom { compare: Compare::Outside as u8, low: first.min(second), high: first.max(second), ..base },
        _ => Atom { compare: Compare::Shift as u8, mask: 3 & all, shift: random.below(4) as i8 - 1, ..base },
    }
}

/// A random filter of small atoms.
pub fn small_filter(random: &mut Random) -> Vec<Atom> {
    let mut atoms = Vec::new();
    for conjunction in 0..1 + random.below(3) as u8 {
        for _ in 0..1 + random.below(4) {
            atoms.push(small_atom(random, conjunction));
        }
    }
    atoms
}

/// A random packet of small bytes.
pub fn small_packet(random: &mut Random) -> Vec<u8> {
    (0..random.below(16)).map(|_| random.below(4) as u8).collect()
}

/// Kinds of TCP/IP filters that the tests and benchmarks install.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differ {
    Port,
    Address,
    Both,
}

/// The `index`-th address and port of a family; all below 10,000 are different, and none in a row.
pub fn endpoint(differ: Differ, index: u32) -> (u32, u16) {
    let scattered = 3 * index + index.wrapping_mul(2_654_435_761) % 3;
    let (address, port) = (0x0a00_0001 + scattered, 1024 + scattered as u16);
    match differ {
        Differ::Port => (0x0a00_0001, port),
        Differ::Address => (address, 1024),
        Differ::Both => (address, port),
    }
}

/// Ethernet, IPv4, TCP to one address and port, whatever the length of the IP header.
pub fn tcp_filter(address: u32, port: u16) -> Vec<Atom> {
    let mut atoms = [Atom::default(); 8];
    Builder::new(&mut atoms)
        .equal(Size::Two, 12, 0x0800)
        .equal(Size::One, 23, 6)
        .equal(Size::Four, 30, address)
        .shift(Size::One, 14, 0x0f, 2)
        .equal(Size::Two, 16, u32::from(port))
        .finish()
        .expect("eight are enough")
        .to_vec()
}

/// A TCP segment without payload to one address and port, with so many words of IP header.
pub fn tcp_packet(address: u32, port: u16, header_words: u8) -> Vec<u8> {
    let header = 4 * usize::from(header_words);
    let mut packet = vec![0; 14 + header + 20];
    packet[12..14].copy_from_slice(&[8, 0]);
    packet[14] = 0x40 | header_words;
    packet[23] = 6;
    packet[26..30].copy_from_slice(&[192, 168, 1, 9]);
    packet[30..34].copy_from_slice(&address.to_be_bytes());
    let port_at = 14 + header + 2;
    packet[port_at..port_at + 2].copy_from_slice(&port.to_be_bytes());
    packet
}

/// Atoms about the first two bytes, whose low three bits alone can be anything but zero in a tiny packet.
pub fn tiny_filter(random: &mut Random, shifts: bool) -> Vec<Atom> {
    let mut atoms = Vec::new();
    for conjunction in 0..1 + random.below(2) as u8 {
        for _ in 0..1 + random.below(3) {
            atoms.push(tiny_atom(random, conjunction, shifts));
        }
    }
    atoms
}

fn tiny_atom(random: &mut Random, conjunction: u8, shifts: bool) -> Atom {
    let size = 1 + random.below(2) as u8;
    let offset = random.below(3 - u64::from(size)) as u32;
    let all = u32::MAX >> (32 - 8 * u32::from(size));
    let mask = [all, all, all, random.next() as u32 & all][random.below(4) as usize];
    let value =
        |random: &mut Random| random.next() as u32 & [0x0303, 0xffff, 0x0300, 0x0003][random.below(4) as usize] & all;
    let (first, second) = (value(random), value(random));
    let base =
        Atom { conjunction, size, offset, mask, low: first.min(second), high: first.max(second), ..Atom::default() };
    match random.below(if shifts { 6 } else { 5 }) {
        0 | 1 => Atom { compare: Compare::Equal as u8, low: first & mask, high: 0, ..base },
        2 => Atom { compare: Compare::NotEqual as u8, low: first & mask, high: 0, ..base },
        3 => Atom { compare: Compare::Within as u8, ..base },
        4 => Atom { compare: Compare::Outside as u8, ..base },
        _ => Atom { compare: Compare::Shift as u8, mask: 1, low: 0, high: 0, ..base },
    }
}

/// Every packet of up to three bytes, the third of few values.
pub fn tiny_packets() -> impl Iterator<Item = Vec<u8>> {
    (0..=u16::MAX).flat_map(|word| {
        let [a, b] = word.to_be_bytes();
        [0, 1, 2, 3, 255].map(|c| vec![a, b, c]).into_iter().chain([vec![a, b]])
    })
}
