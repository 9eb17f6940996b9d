//! Campaigns: workloads of the adversary, and the judgement of the crash states that they leave.
//!
//! For each state the decoder finds no fault, and XN's recovery finds none. The map after recovery is the set of
//! marks. A part of the states is recovered, changed, closed, and crashed once more on the way.

use crate::adversary::Adversary;
use crate::decoder::Decoder;
use crate::disk::{Cell, Disk};
use crate::machine::{Arena, drive, format, owned};
use crate::random::Random;
use crate::states::{Seen, at_moment};
use xn::format::MAX_ROOTS;

/// What a campaign did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Distinct crash states that were judged.
    pub states: u64,
    /// Of those, states of a crash after a recovery.
    pub again: u64,
    /// True transactions that were accepted, and false ones that were refused.
    pub accepted: u64,
    pub refused: u64,
}

/// Size of a campaign.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub workloads: u64,
    /// Operations of a workload.
    pub operations: usize,
    /// Moments of a workload at which the power is cut.
    pub moments: usize,
    /// States of a moment.
    pub states: usize,
}

struct Judge<'s> {
    seed: u64,
    decoder: Decoder,
    arena: Arena,
    report: &'s mut Report,
}

impl Judge<'_> {
    /// Judges one state; panics with the seed if it is wrong.
    fn judge(&mut self, cells: &[Cell]) {
        let seed = self.seed;
        self.report.states += 1;
        let marks = match self.decoder.marks(cells) {
            Ok(marks) => marks,
            Err(fault) => panic!("seed {seed}: {fault}"),
        };
        for round in 0..2 {
            let xn = match self.arena.mount(cells) {
                Ok(xn) => xn,
                Err(error) => panic!("seed {seed}: recovery {round} fails: {error:?}"),
            };
            let found = owned(&xn);
            assert!(found.iter().eq(&marks), "seed {seed}: the map is {found:?}, the marks are {marks:?}");
        }
    }
}

/// Runs a workload from `base`; returns its disk.
fn workload(base: &[Cell], arena: &mut Arena, seed: u64, size: Size, report: &mut Report) -> Disk {
    let xn = arena.mount(base).unwrap_or_else(|error| panic!("seed {seed}: no mount: {error:?}"));
    let mut client = Adversary::new(xn, Disk::new(base.to_vec()), seed, (seed + 1) << 24);
    drive(&mut client.xn, &mut client.disk, false).expect("the volume can be made writable");
    client.adopt();
    let new = (0..MAX_ROOTS).all(|slot| client.xn.root(slot) == Ok(None));
    if new {
        client.plant();
    }
    let loose = seed % 3 != 0;
    (0..size.operations).for_each(|_| client.step(loose));
    if seed % 2 == 0 {
        // Almost everything is durable, and what is freed then is held. Trees without a root stay dirty.
        client.settle(20);
        (0..3).for_each(|_| client.reuse());
    }
    if !loose {
        client.sync();
        drive(&mut client.xn, &mut client.disk, true).expect("nothing is dirty");
    }
    report.accepted += client.accepted;
    report.refused += client.refused;
    client.disk
}

/// Runs `size.workloads` workloads from `first_seed` on, each over what the one before left after a random crash.
pub fn run(first_seed: u64, size: Size) -> Report {
    let mut report = Report::default();
    let mut base = format();
    for seed in first_seed..first_seed + size.workloads {
        if (seed - first_seed) % 8 == 0 {
            base = format();
        }
        let mut random = Random(seed ^ 0x5EED);
        let mut arena = Arena::default();
        let disk = workload(&base, &mut arena, seed, size, &mut report);
        let judge = Judge { seed, decoder: Decoder::default(), arena, report: &mut report };
        base = crash(disk, size, &mut random, judge);
    }
    println!("seeds {first_seed} to {}: {report:?}", first_seed + size.workloads - 1);
    report
}

/// Judges the states at random moments and at the end; returns one of them.
fn crash(disk: Disk, size: Size, random: &mut Random, mut judge: Judge<'_>) -> Vec<Cell> {
    let mut seen = Seen::default();
    let (mut kept, mut again) = (disk.current.clone(), Vec::new());
    for index in 0..size.moments {
        let moment = if index < 12 { disk.log.len().saturating_sub(index) } else { random.below(disk.log.len() + 1) };
        let mut choice = random.clone();
        at_moment(&disk, moment, size.states, random, &mut seen, &mut |cells| {
            judge.judge(&cells);
            if choice.one_in(10) {
                again.push(cells);
            }
        });
    }
    if let Some(cells) = again.last() {
        kept = cells.clone();
    }
    let small = Size { operations: 40, ..size };
    let seed = judge.seed;
    for (index, cells) in again.iter().enumerate().filter(|(index, _)| index % 10 == 0) {
        let mut arena = Arena::default();
        let disk = workload(cells, &mut arena, (seed << 20) + 3 * index as u64, small, judge.report);
        let before = judge.report.states;
        for back in 0..6 {
            let moment = disk.log.len().saturating_sub(back * 2);
            at_moment(&disk, moment, 4, random, &mut seen, &mut |cells| judge.judge(&cells));
        }
        judge.report.again += judge.report.states - before;
    }
    kept
}
