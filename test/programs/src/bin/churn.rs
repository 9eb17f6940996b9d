//! Ten thousand environments come and go, and a hundred thousand pages are moved among fifty of them. For full runs.
#![no_std]
#![no_main]

use test_programs::churn::{Amount, run};
use test_programs::{Outcome, World, guest};

guest! {
    Here ten_thousand_environments_and_a_hundred_thousand_pages;
}

fn ten_thousand_environments_and_a_hundred_thousand_pages(world: &World) -> Outcome {
    run(world, Amount { environments: 10_000, together: 50, moves: 100_000 })
}
