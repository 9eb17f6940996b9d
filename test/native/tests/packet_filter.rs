//! Compiled filters, run under guard pages, answer what the merged structure and the naive model do.

#[path = "../../../mechanism/packet-filter/tests/support/mod.rs"]
mod support;

use native::packet_filter::{CodeArena, GuardedWords, PacketPages};
use packet_filter::{Atom, Builder, FilterId, Patch, Progress, Size, Sizes};
use support::{
    CodeMemory, Differ, Driver, Memory, Random, cases, endpoint, seed, small_filter, small_packet, tcp_filter,
    tcp_packet,
};

struct Arena(CodeArena);

impl CodeMemory for Arena {
    fn commit(&mut self, patch: Patch<'_>) {
        self.0.commit(patch);
    }
}

fn memory(sizes: Sizes) -> Memory {
    Memory::with_words(sizes, Box::new(GuardedWords::new(sizes.words())))
}

/// All three agree about a packet that ends at a guard page. Says whether anyone gets it.
fn agree(driver: &Driver<'_, Arena>, pages: &mut PacketPages, packet: &[u8]) -> bool {
    let interpreted = driver.check(packet);
    let answer = driver.code.0.run(pages.put(packet), &driver.classifier);
    assert_eq!(driver.classifier.resolve(answer), interpreted, "{packet:?} among {:#?}", driver.installed);
    interpreted.is_some()
}

#[test]
fn fault_52_compiled_equals_interpreted_equals_naive() {
    let mut random = Random(seed(11));
    let mut pages = PacketPages::new(64);
    let sizes = Sizes::for_filters(4, 64);
    let (mut packets, mut matches, mut installed, mut offered) = (0, 0, 0, 0);
    for _ in 0..cases(250, 100_000) {
        let mut memory = memory(sizes);
        let mut driver = Driver::with_code(&mut memory, random.next(), Arena(CodeArena::new(sizes.code)));
        for _ in 0..50 {
            if random.chance(25) && !driver.installed.is_empty() {
                let index = random.below(driver.installed.len() as u64) as usize;
                driver.remove(driver.installed[index].0);
            } else {
                offered += 1;
                installed += u32::from(driver.insert(random.below(4) as u32, &small_filter(&mut random), true).is_ok());
            }
            for _ in 0..4 {
                packets += 1;
                matches += u32::from(agree(&driver, &mut pages, &small_packet(&mut random)));
            }
        }
    }
    println!("{installed} of {offered} filters installed, {matches} of {packets} packets matched");
    assert!(installed * 2 > offered && matches * 4 > packets && matches < packets, "the cases say something");
}

/// Between any two steps of a change compiled code answers as before the change or as after it, whether the
/// change is completed or refused.
#[test]
fn code_that_runs_never_changes_under_a_packet() {
    let mut random = Random(seed(14));
    let mut pages = PacketPages::new(64);
    let sizes = Sizes::for_filters(3, 32);
    for _ in 0..cases(60, 20_000) {
        let mut memory = memory(sizes);
        let mut driver = Driver::with_code(&mut memory, random.next(), Arena(CodeArena::new(sizes.code)));
        for _ in 0..12 {
            let _ = driver.insert(random.below(3) as u32, &small_filter(&mut random), true);
        }
        for _ in 0..6 {
            let going = (!driver.installed.is_empty() && random.chance(50)).then(|| driver.installed[0].0);
            let begun = match going {
                Some(id) => driver.classifier.remove(id).is_ok(),
                None => driver.classifier.insert(0, &small_filter(&mut random)).is_ok(),
            };
            assert!(begun || going.is_none());
            let installed = watch_steps(&mut driver, &mut pages, &mut random, going);
            if let Some(id) = going.or(installed) {
                // What was newly installed is not among those the model knows: take it out again.
                driver.installed.retain(|(other, _, _)| *other != id);
                if going.is_none() {
                    driver.remove(id);
                }
            }
        }
    }
}

/// Steps to the end of a change, classifying in between; the filter that it has installed.
fn watch_steps(
    driver: &mut Driver<'_, Arena>,
    pages: &mut PacketPages,
    random: &mut Random,
    going: Option<FilterId>,
) -> Option<FilterId> {
    loop {
        let packet = small_packet(random);
        let answer = driver.code.0.run(pages.put(&packet), &driver.classifier);
        let found = driver.classifier.resolve(answer).map(|found| found.filter);
        let all = driver.naive(&packet).map(|(id, _, _)| id);
        let is_new = |id: FilterId| driver.installed.iter().all(|(other, _, _)| *other != id);
        let remaining = driver.naive_without(&packet, going).map(|(id, _, _)| id);
        let dropped = found.is_none() && all == going && going.is_some();
        assert!(
            found == all || found == remaining || dropped || found.is_some_and(is_new),
            "{found:?} {all:?} {remaining:?}"
        );
        match driver.classifier.step(&mut |_, _| true) {
            Progress::Commit => driver.code.commit(driver.classifier.patch()),
            Progress::Installed(id) => return Some(id),
            Progress::Removed(_) | Progress::Refused(_) | Progress::Idle => return None,
            Progress::Again => {}
        }
    }
}

/// Places after the first two bytes that the next filters test.
const PLACES: usize = 5;

/// A filter for one of many values of the first two bytes, and for some of the bytes behind them, exactly or roughly.
fn one_of_many(random: &mut Random) -> Vec<Atom> {
    let mut atoms = [Atom::default(); 1 + PLACES];
    let mut builder = Builder::new(&mut atoms).equal(Size::Two, 0, random.below(40) as u32 * 0x0603);
    for place in 0..PLACES {
        let (offset, value) = (2 + place as u32, random.below(2) as u32);
        builder = match random.below(5) {
            0 | 1 => builder.equal(Size::One, offset, value),
            2 => builder.within(Size::One, offset, value, value + 1),
            _ => builder,
        };
    }
    builder.finish().expect("there is room").to_vec()
}

/// Edges in tables lead to tails with no constant, with one, and with several, and become states and again tails. A
/// tail's first edge may be the one for which its table has to grow.
#[test]
fn tails_of_every_length_behind_tables() {
    let mut random = Random(seed(15));
    let mut pages = PacketPages::new(64);
    let sizes = Sizes::for_filters(1, 150);
    let (mut matches, cases) = (0, cases(12, 4_000));
    for _ in 0..cases {
        let mut memory = memory(sizes);
        let mut driver = Driver::with_code(&mut memory, random.next(), Arena(CodeArena::new(sizes.code)));
        for change in 0..150 {
            if random.chance(if change < 100 { 10 } else { 70 }) && !driver.installed.is_empty() {
                let index = random.below(driver.installed.len() as u64) as usize;
                driver.remove(driver.installed[index].0);
            } else {
                driver.insert(0, &one_of_many(&mut random), false).expect("there is room");
            }
            for _ in 0..6 {
                let first = (random.below(40) as u16 * 0x0603).to_be_bytes();
                let mut packet = first.to_vec();
                packet.extend((0..PLACES).map(|_| random.below(2) as u8));
                matches += u64::from(agree(&driver, &mut pages, &packet));
            }
            let newest = driver.installed.last().map(|(_, _, atoms)| packet_for(atoms));
            matches += u64::from(newest.is_some_and(|packet| agree(&driver, &mut pages, &packet)));
        }
    }
    assert!(matches > 200 * cases, "only {matches} packets matched");
}

/// A packet that [`one_of_many`]'s filter accepts.
fn packet_for(atoms: &[Atom]) -> Vec<u8> {
    let mut packet = vec![0; 2 + PLACES];
    for atom in atoms {
        let value = atom.low.to_be_bytes();
        let size = usize::from(atom.size);
        packet[atom.offset as usize..][..size].copy_from_slice(&value[4 - size..]);
    }
    packet
}

#[test]
fn thousands_of_tcp_filters_agree() {
    let mut random = Random(seed(12));
    let mut pages = PacketPages::new(256);
    let count = cases(1_500, 10_000) as u32;
    for differ in [Differ::Port, Differ::Address, Differ::Both] {
        let sizes = Sizes::for_filters(4, count as usize);
        let mut memory = memory(sizes);
        let mut driver = Driver::with_code(&mut memory, random.next(), Arena(CodeArena::new(sizes.code)));
        for index in 0..count {
            let (address, port) = endpoint(differ, index);
            driver.insert(index % 4, &tcp_filter(address, port), true).expect("there is room");
        }
        for _ in 0..400 {
            let (address, port) = endpoint(differ, random.below(2 * u64::from(count)) as u32);
            let mut packet = tcp_packet(address, port, 5 + random.below(11) as u8);
            if random.chance(20) {
                packet.truncate(random.below(packet.len() as u64) as usize);
            }
            let found = driver.classifier.classify(&packet);
            let answer = driver.code.0.run(pages.put(&packet), &driver.classifier);
            assert_eq!(driver.classifier.resolve(answer), found, "{packet:?}");
        }
        for _ in 0..10 {
            let (address, port) = endpoint(differ, random.below(u64::from(count)) as u32);
            assert!(agree(&driver, &mut pages, &tcp_packet(address, port, 5)));
        }
    }
}

#[test]
fn fault_52_no_length_reads_past_the_packet() {
    let mut random = Random(seed(13));
    let mut pages = PacketPages::new(256);
    let sizes = Sizes::for_filters(1, 64);
    let mut memory = memory(sizes);
    let mut driver = Driver::with_code(&mut memory, random.next(), Arena(CodeArena::new(sizes.code)));
    for index in 0..20 {
        driver.insert(0, &tcp_filter(0x0a00_0001 + index % 3, 80 + index as u16), false).expect("there is room");
    }
    let whole = tcp_packet(0x0a00_0001, 80, 15);
    for length in 0..=whole.len() {
        agree(&driver, &mut pages, &whole[..length]);
    }
}
