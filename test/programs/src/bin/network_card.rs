//! Network cards under a flood: what is exposed of them, and what a flood that no program wants costs programs.
//!
//! The machine has two cards. The peer of each floods it for a second, then rests for a second, over and over.
#![no_std]
#![no_main]

extern crate alloc;

use abi::device::{DeviceInfo, State, kind};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use runtime::{channel, clock, exposed, predicate};
use test_programs::{Outcome, World, check, guest};

guest! {
    Here cards_are_exposed;
    Here fault_77_a_flood_leaves_programs_their_pace;
    Here fault_77_a_flood_leaves_an_idle_machine_awake;
}

/// Windows in which the pace is measured, moments of each, and how long a moment is, in nanoseconds.
const WINDOWS: usize = 100;
const MOMENTS: usize = 40;
const MOMENT: u64 = 1_000_000;
/// Percent of its pace that a program keeps.
const KEPT: u64 = 70;

/// Naps on an idle machine, how long each is, and how much longer one may last, in nanoseconds. Floods begin and end
/// meanwhile.
const NAPS: usize = 3_000;
const NAP: u64 = 1_000_000;
const LATE: u64 = 100_000_000;

fn cards() -> Vec<&'static DeviceInfo> {
    let cards = (0..8).filter_map(|number| exposed::device(kind::NETWORK, number));
    cards.map(|(_, info)| info).collect()
}

fn interrupts() -> u64 {
    cards().iter().map(|info| info.interrupts.load(Acquire)).sum()
}

fn cards_are_exposed(_: &World) -> Outcome {
    let cards = cards();
    check!(cards.len() == 2, "{} cards, not 2", cards.len());
    for info in cards {
        let found = [&info.state, &info.depth, &info.room, &info.resets, &info.errors].map(|word| word.load(Acquire));
        check!(found == [State::Working as u64, 128, 128, 0, 0], "a card is exposed as {found:?}");
    }
    Ok(())
}

/// Steps of a computation in a moment.
fn pace() -> u64 {
    let (end, mut steps) = (clock::now() + MOMENT, 0);
    while clock::now() < end {
        steps += 1;
    }
    steps
}

fn fault_77_a_flood_leaves_programs_their_pace(world: &World) -> Outcome {
    let window = |_| {
        let before = interrupts();
        let moments: Vec<u64> = (0..MOMENTS).map(|_| pace()).collect();
        (moments, interrupts() - before)
    };
    let windows: Vec<(Vec<u64>, u64)> = (0..WINDOWS).map(window).collect();
    // Some moment is free of interrupts: the credit of a period is used up at its beginning.
    let full = windows.iter().flat_map(|(moments, _)| moments).max().map_or(1, |most| most * MOMENTS as u64);
    let flooded = windows.iter().filter(|(_, came)| *came > 0);
    let kept = |(moments, came): &(Vec<u64>, u64)| (moments.iter().sum::<u64>() * 100 / full, *came);
    let mut kept: Vec<(u64, u64)> = flooded.map(kept).collect();
    kept.sort_unstable();
    check!(kept.len() > 10, "frames came in {} windows only", kept.len());
    let (least, came) = kept[0];
    channel::measurement("pace kept in the worst flooded window", least, "percent");
    check!(least >= KEPT, "{least} % of the pace is left in a window with {came} interrupts");
    world.pages_add_up()
}

/// On an idle machine receiving has no credit: clocks, programs, the host's channel and the other card have their turn
/// all the same.
fn fault_77_a_flood_leaves_an_idle_machine_awake(world: &World) -> Outcome {
    let before: Vec<u64> = cards().iter().map(|info| info.interrupts.load(Acquire)).collect();
    let mut latest = 0;
    for _ in 0..NAPS {
        let end = clock::now() + NAP;
        predicate::sleep_until(end);
        latest = latest.max(clock::now().saturating_sub(end));
    }
    check!(latest < LATE, "a nap ended {latest} ns late");
    let came = |(info, before): (&&DeviceInfo, u64)| info.interrupts.load(Acquire) - before;
    let came: Vec<u64> = cards().iter().zip(before).map(came).collect();
    let is_fair = came.iter().all(|one| *one > 100 && came.iter().all(|other| other / one < 4));
    check!(is_fair, "the cards were attended {came:?} times");
    world.pages_add_up()
}
