//! Attackers from valid state: ten million calls a machine. Each machine is a part of its own, with its own seed.
#![no_std]
#![no_main]

use core::sync::atomic::Ordering::Relaxed;
use runtime::exposed;
use test_programs::attackers::attack;
use test_programs::{Outcome, World, guest};

guest! {
    Here fault_14_many_attackers_from_valid_state;
}

fn fault_14_many_attackers_from_valid_state(world: &World) -> Outcome {
    let kernel = exposed::kernel();
    attack(world, 10_000_000, kernel.pages.load(Relaxed) << 8 | kernel.cpus.load(Relaxed))
}
