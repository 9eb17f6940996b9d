//! A complete library operating system, tiny: memory that comes when it is touched, processes that are functions, and
//! messages between them. What it does is its own policy; the kernel only protects.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use abi::page_table::MapRow;
use abi::upcall::kind;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Release};
use runtime::address_space::{self, Access};
use runtime::area::Area;
use runtime::environment::{Builder, Child};
use runtime::image::Image;
use runtime::page::Allocator;
use runtime::predicate::{Operator, wait_any, word};
use runtime::upcall::{Context, set_handler};
use runtime::{Failure, KeyIndex, archive, clock, entry, memory, println, time_slice};

entry!(main);

/// Memory that is there as soon as it is touched.
const LAZY: core::ops::Range<u64> = 0x1000_0000..0x2000_0000;
/// Status word in which a process leaves its answer.
const ANSWER: usize = 1;
/// Free word of the area: faults that were served.
const FAULTS: usize = 0;

fn main() -> u32 {
    set_handler(kind::PAGE_FAULT, serve_page_fault);
    entry::status_of(touch_memory().and_then(|()| run_processes()))
}

/// The whole of virtual memory: a fault in the lazy range gets a fresh page, any other ends the program.
extern "C" fn serve_page_fault(context: &mut Context) {
    let address = context.frame.detail;
    if !LAZY.contains(&address) || give_page(address & !0xfff).is_err() {
        println!("no memory at {address:#x}");
        entry::exit(entry::FAULT_STATUS);
    }
    Area::current().library().free[FAULTS].fetch_add(1, Release);
}

fn give_page(address: u64) -> Result<(), Failure> {
    let page = Allocator::own().allocate()?;
    let row = MapRow { address: address | KeyIndex::FIRST.0, entry: page.address() | Access::WRITE.0 };
    address_space::own().apply(&[row])
}

/// Every seventh word of a megabyte.
fn touch_memory() -> Result<(), String> {
    let words = || (LAZY.start..LAZY.start + (1 << 20)).step_by(56);
    words().for_each(|at| memory::store(at, at * 3));
    let wrong = words().filter(|at| memory::load(*at) != at * 3).count();
    let faults = Area::current().library().free[FAULTS].load(Acquire);
    println!("touched 256 pages, served {faults} faults, found {wrong} wrong words");
    if (faults, wrong) == (256, 0) { Ok(()) } else { Err(String::from("lazy memory")) }
}

/// Four processes compute at the same time; their answers come back through their public pages.
fn run_processes() -> Result<(), String> {
    let image = Image::init_of(archive::boot(), Allocator::own()).map_err(|error| format!("{error}"))?;
    let spawn = |argument| spawn(&image, argument);
    let children = (1..=4).map(spawn).collect::<Result<Vec<_>, _>>().map_err(|failure| format!("{failure:?}"))?;
    for (child, argument) in children.into_iter().zip(1..) {
        let answer = receive(&child).map_err(|failure| format!("{failure:?}"))?;
        println!("process {argument} answered {answer}");
        if answer != sum_of_squares(argument * 1000) {
            return Err(String::from("a wrong answer"));
        }
        child.destroy().map_err(|failure| format!("{failure:?}"))?;
    }
    Ok(())
}

fn spawn(image: &Image<'_>, argument: u64) -> Result<Child, Failure> {
    let mut builder = Builder::new()?;
    builder.program(image)?.function(process, argument);
    let child = builder.create()?;
    child.run(0, time_slice::ANY_POSITION)?;
    Ok(child)
}

/// What a process does, in an environment of its own.
extern "C" fn process(argument: u64) {
    Area::current().status(ANSWER).store(sum_of_squares(argument * 1000), Release);
}

fn sum_of_squares(count: u64) -> u64 {
    (1..=count).map(|number| number * number).sum()
}

/// Sleeps until the answer is there: the kernel watches the word.
fn receive(child: &Child) -> Result<u64, Failure> {
    let public = child.public()?;
    let answer = &public.words()[abi::area::PUBLIC_STATUS as usize / 8 + ANSWER];
    wait_any(&[&[word(answer, Operator::NotEqual, 0)]], Some(clock::now() + 10_000_000_000))?;
    Ok(answer.load(Acquire))
}
