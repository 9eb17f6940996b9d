//! Application-level stride scheduler (exokernel-sosp95 §7.3, Figure 3).
//!
//! One environment holds the only time slice and three children hold none. On each wakeup it picks the child with the
//! smallest pass, adds the child's stride to it, and yields to the child directly: so they run 3:2:1.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use runtime::area::Area;
use runtime::environment::{Builder, Child};
use runtime::image::Image;
use runtime::page::Allocator;
use runtime::window::Window;
use runtime::{Failure, archive, entry, println, time_slice};

entry!(main);

/// Strides are this divided by the tickets.
const STRIDE: u64 = 60;
/// Tickets of the children, as in the figure.
const TICKETS: [u64; 3] = [3, 2, 1];
/// Slices that are given away.
const SLICES: u64 = 600;
/// Status word that the children count in.
const COUNTER: usize = 1;
/// Largest deviation of a child's share of the time, in thousandths.
const TOLERANCE: u64 = 50;

/// A child and its claim to time.
struct Process {
    child: Child,
    public: Window,
    stride: u64,
    pass: u64,
    slices: u64,
}

fn main() -> u32 {
    entry::status_of(run())
}

fn run() -> Result<(), String> {
    let image = Image::init_of(archive::boot(), Allocator::own()).map_err(|error| format!("{error}"))?;
    let start = |tickets: u64| start(&image, tickets);
    let mut processes =
        TICKETS.into_iter().map(start).collect::<Result<Vec<_>, _>>().map_err(|failure| format!("{failure:?}"))?;
    for slice in 1..=SLICES {
        schedule(&mut processes)?;
        if slice.is_multiple_of(SLICES / 4) {
            println!("after {slice} slices: {:?}", processes.iter().map(|process| process.slices).collect::<Vec<_>>());
        }
    }
    check(&processes)
}

fn start(image: &Image<'_>, tickets: u64) -> Result<Process, Failure> {
    let mut builder = Builder::new()?;
    builder.program(image)?.function(count, 0);
    let child = builder.create()?;
    let public = child.public()?;
    Ok(Process { child, public, stride: STRIDE / tickets, pass: 0, slices: 0 })
}

/// Gives the slice that has just begun to the child with the smallest pass; comes back when the next one begins.
fn schedule(processes: &mut [Process]) -> Result<(), String> {
    let next = processes.iter_mut().min_by_key(|process| process.pass).ok_or("nobody to run")?;
    next.pass += next.stride;
    next.slices += 1;
    let child = &next.child;
    let reason = || child.info().map_or(0, |info| info.death_reason.load(Relaxed));
    time_slice::yield_to(child.number).map_err(|failure| format!("{failure:?}; death for reason {}", reason()))
}

/// What each child does: counts, until its slice ends.
extern "C" fn count(_: u64) {
    let counter = Area::current().status(COUNTER);
    loop {
        counter.store(counter.load(Relaxed) + 1, Relaxed);
    }
}

/// Each child's share of the slices is exact, and its share of the time, as the kernel accounts it, is near it.
fn check(processes: &[Process]) -> Result<(), String> {
    let tickets: u64 = TICKETS.iter().sum();
    let time = |process: &Process| process.child.info().map_or(0, |info| info.time.load(Relaxed));
    let all: u64 = processes.iter().map(time).sum();
    for (process, share) in processes.iter().zip(TICKETS) {
        if process.slices != SLICES * share / tickets {
            return Err(format!("{share} of {tickets} tickets got {} of {SLICES} slices", process.slices));
        }
        let (found, wanted) = (time(process) * 1000 / all.max(1), share * 1000 / tickets);
        let counted = process.public.words()[abi::area::PUBLIC_STATUS as usize / 8 + COUNTER].load(Relaxed);
        if found.abs_diff(wanted) > TOLERANCE || counted == 0 {
            return Err(format!(
                "{share} of {tickets} tickets got {found} thousandths of the time, counted to {counted}"
            ));
        }
    }
    println!("shares are 3:2:1");
    Ok(())
}
