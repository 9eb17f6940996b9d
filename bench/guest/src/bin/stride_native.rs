//! The application-level stride scheduler of exokernel-sosp95 §7.3: the counters of three children that are given time
//! 3:2:1, as they grow (Figure 3).
//!
//! One environment holds the only time slice and its children hold none. On each wakeup it picks the child with the
//! smallest pass, adds the child's stride to it, and yields to the child directly.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use bench_guest::begin;
use core::sync::atomic::Ordering::Relaxed;
use runtime::area::Area;
use runtime::environment::{Builder, Child};
use runtime::image::Image;
use runtime::page::Allocator;
use runtime::window::Window;
use runtime::{archive, println, time_slice};

runtime::entry!(main);

/// Strides are this divided by the tickets.
const STRIDE: u64 = 60;
/// Tickets of the children, as in the figure, and the names of their curves.
const TICKETS: [(u64, &str); 3] = [(3, "three-tickets"), (2, "two-tickets"), (1, "one-ticket")];
/// Slices that are given away, and after how many the counters are looked at.
const SLICES: u64 = 300;
const STEP: u64 = 15;
/// Status word that the children count in.
const COUNTER: usize = 1;

/// A child and its claim to time.
struct Process {
    child: Child,
    public: Window,
    name: &'static str,
    stride: u64,
    pass: u64,
}

impl Process {
    fn start(image: &Image<'_>, tickets: u64, name: &'static str) -> Self {
        let mut builder = Builder::new().expect("the budget suffices");
        builder.program(image).expect("the program fits").function(count, 0);
        let child = builder.create().expect("the environment can be made");
        let public = child.public().expect("the child has a public page");
        Self { child, public, name, stride: STRIDE / tickets, pass: 0 }
    }

    fn counted(&self) -> u64 {
        self.public.words()[abi::area::PUBLIC_STATUS as usize / 8 + COUNTER].load(Relaxed)
    }
}

/// What each child does: counts, until its slice ends.
extern "C" fn count(_: u64) {
    let counter = Area::current().status(COUNTER);
    loop {
        counter.store(counter.load(Relaxed) + 1, Relaxed);
    }
}

/// Gives the slice that has just begun to the child with the smallest pass; comes back when the next one begins.
fn schedule(processes: &mut [Process]) {
    let next = processes.iter_mut().min_by_key(|process| process.pass).expect("there are children");
    next.pass += next.stride;
    time_slice::yield_to(next.child.number).expect("the child lives");
}

fn main() -> u32 {
    begin();
    let file = archive::boot().find(abi::boot::INIT).expect("this program is `init` of the boot archive").data;
    let image = Image::load(file, Allocator::own()).expect("this program can be loaded");
    let mut processes: Vec<Process> =
        TICKETS.into_iter().map(|(tickets, name)| Process::start(&image, tickets, name)).collect();
    for slice in 0..=SLICES {
        if slice.is_multiple_of(STEP) {
            processes.iter().for_each(|it| println!("bench: point {} {slice} {}", it.name, it.counted()));
        }
        schedule(&mut processes);
    }
    0
}
