//! Some hundred environments come and go, and some thousand pages are moved among twenty of them.
#![no_std]
#![no_main]

use test_programs::churn::{Amount, run};
use test_programs::{Outcome, World, guest};

guest! {
    Here environments_and_pages_are_accounted_for_after_a_churn;
}

fn environments_and_pages_are_accounted_for_after_a_churn(world: &World) -> Outcome {
    run(world, Amount { environments: 200, together: 20, moves: 2_000 })
}
