//! Attackers from valid state: some hundred thousand calls, and a recount.
#![no_std]
#![no_main]

use test_programs::attackers::attack;
use test_programs::{Outcome, World, guest};

guest! {
    Here fault_14_attackers_from_valid_state;
}

fn fault_14_attackers_from_valid_state(world: &World) -> Outcome {
    attack(world, 50_000, 0x14)
}
