//! Crash states of C-FFS. A failure prints the workload.

use crash::cffs::campaign::{Campaign, PERSISTS, operations};
use crash::cffs::workload::{LONG, Operation, Persist};
use crash::random::Random;

/// All workloads of one operation.
#[test]
fn fault_68_one_operation() {
    let mut campaign = Campaign::new(1);
    for operation in operations() {
        for persist in PERSISTS {
            campaign.workload(&[(operation, persist)]);
        }
    }
    println!("{:?}", campaign.report);
    assert!(campaign.report.states > 1_500 && campaign.report.repaired > 100, "{:?}", campaign.report);
}

fn pairs(campaign: &mut Campaign, part: usize, of: usize) {
    let all = operations();
    let mut index = 0;
    for first in &all {
        for second in &all {
            for between in [Persist::Nothing, Persist::Fsync] {
                for last in [Persist::Nothing, Persist::Fsync, Persist::Sync] {
                    index += 1;
                    if index % of == part {
                        campaign.workload(&[(*first, between), (*second, last)]);
                    }
                }
            }
        }
    }
    println!("{:?}", campaign.report);
}

/// A name that was renamed, and then removed or made again, leaves nothing at its old place.
#[test]
fn fault_68_a_renamed_name_is_removed() {
    let mut campaign = Campaign::new(5);
    let (foo, bar, moved) = (("A", "foo"), ("A", "bar"), ("A", "moved"));
    for old in [foo, bar, moved, ("B", "foo"), ("B", "bar")] {
        for new in [("B", "new"), ("", "new"), ("A/E", "new"), ("A", LONG)] {
            for between in [Persist::Nothing, Persist::Fsync, Persist::Fdatasync] {
                for last in [Persist::Nothing, Persist::Fsync, Persist::Directory] {
                    let renamed = (Operation::Rename(old, new), between);
                    campaign.workload(&[renamed, (Operation::Unlink(new), last), (Operation::Create(old), last)]);
                    campaign.workload(&[renamed, (Operation::Create(old), last)]);
                }
            }
        }
    }
    // Directories that change places: some of their entries reach the disk, and no cycle may come of it.
    let moves = [(("", "A"), ("B", "new")), (("B", "new"), ("", "A")), (("", "B"), ("A", "new"))];
    for last in PERSISTS {
        let steps = moves.map(|(old, new)| (Operation::Rename(old, new), Persist::Nothing));
        campaign.workload(&[steps[0], steps[1], (steps[2].0, last)]);
    }
    println!("{:?}", campaign.report);
    assert!(campaign.report.states > 600, "{:?}", campaign.report);
}

/// A name that was removed, and made again in another sector before a sync, is there once after a torn write.
#[test]
fn fault_68_a_name_is_made_again_elsewhere() {
    use Operation::{Create, Rename, Unlink};
    let (foo, bar, new) = (("B", "foo"), ("B", "bar"), ("B", "new"));
    let mut states = 0;
    for seed in 0..24 {
        let mut campaign = Campaign::new(seed);
        let steps = |list: &[Operation]| list.iter().map(|one| (*one, Persist::Nothing)).collect::<Vec<_>>();
        campaign.workload(&steps(&[Rename(foo, new), Create(foo)]));
        campaign.workload(&steps(&[Unlink(foo), Create(new), Create(foo)]));
        campaign.workload(&steps(&[Unlink(foo), Create(("B", LONG)), Rename(bar, foo)]));
        states += campaign.report.states;
    }
    assert!(states > 400, "{states}");
}

/// Files whose blocks were reserved before, or are written whole past the cache.
#[test]
fn fault_68_blocks_are_reserved_and_written_whole() {
    use Operation::{Allocate, Write};
    let mut campaign = Campaign::new(6);
    let (foo, large) = (("A", "foo"), ("B", "foo"));
    for last in PERSISTS {
        campaign.workload(&[(Allocate(foo, 8_000, 30_000), Persist::Fsync), (Write(foo, 12_288, 5_000), last)]);
        campaign.workload(&[(Write(large, 0, 40_960), Persist::Sync), (Write(large, 0, 40_960), last)]);
    }
    println!("{:?}", campaign.report);
    assert!(campaign.report.states > 100, "{:?}", campaign.report);
}

/// A part of the workloads of two operations; all of them in the full run.
#[test]
fn fault_68_two_operations() {
    let mut campaign = Campaign::new(2);
    pairs(&mut campaign, 5, 47);
    assert!(campaign.report.states > 5_000 && campaign.report.again > 100, "{:?}", campaign.report);
}

#[test]
#[ignore = "full: hours"]
fn fault_68_all_pairs() {
    for part in 0..16 {
        pairs(&mut Campaign::new(3), part, 16);
    }
}

/// A file that lost one of its names, and is made durable, does not get the name back.
#[test]
fn fault_68_a_file_loses_one_of_its_names() {
    let mut campaign = Campaign::new(6);
    let (foo, bar, twin) = (("A", "foo"), ("A", "bar"), ("B", "twin"));
    let losses =
        [Operation::Unlink(twin), Operation::Unlink(bar), Operation::Rename(foo, twin), Operation::Rename(foo, bar)];
    for loss in losses {
        for name in [bar, twin] {
            let uses =
                [Operation::Write(name, 100, 900), Operation::Rename(name, ("A", "new")), Operation::Rename(name, foo)];
            for (used, last) in uses.into_iter().flat_map(|used| PERSISTS.map(|last| (used, last))) {
                campaign.workload(&[(loss, Persist::Nothing), (used, last)]);
            }
        }
    }
    println!("{:?}", campaign.report);
    assert!(campaign.report.states > 300, "{:?}", campaign.report);
}

fn seeded(campaign: &mut Campaign, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut random = Random(seed);
        let count = 3 + random.below(28);
        let mut step = || {
            let persist = if random.one_in(4) { PERSISTS[random.below(PERSISTS.len())] } else { Persist::Nothing };
            (Operation::random(&mut random), persist)
        };
        let steps: Vec<(Operation, Persist)> = (0..count).map(|_| step()).collect();
        campaign.workload(&steps);
    }
    println!("{:?}", campaign.report);
}

/// Seeded workloads of 3 to 30 operations.
#[test]
fn fault_68_longer_workloads() {
    let mut campaign = Campaign::new(4);
    seeded(&mut campaign, 0..420);
    assert!(campaign.report.states > 10_000, "{:?}", campaign.report);
}

/// The states that machines mount: each differs from the others and has durable files.
#[test]
fn images_of_crash_states_have_durable_files() {
    let images: Vec<_> = (0..20).map(crash::cffs::image::image).collect();
    let files: Vec<usize> = images.iter().map(|image| image.durable.len()).collect();
    println!("durable files: {files:?}");
    assert!(files.iter().all(|count| *count > 0) && files.iter().sum::<usize>() >= 60, "{files:?}");
    assert!((1..20).all(|index| images[index].bytes != images[index - 1].bytes));
}
