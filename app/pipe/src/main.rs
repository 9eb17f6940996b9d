//! The native pipe and its inlined twin pipe' (exokernel-sosp95 §6.1): a circular buffer in a page that two
//! environments share. An end that finds it full or empty yields to the other end.
//!
//! The two differ in nothing but inlining, which is open to a library in the program's own address space and to no
//! kernel. A counter goes to the child and back; what a round trip costs is measured in ticks.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use abi::budget::Resource;
use alloc::format;
use alloc::string::String;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use runtime::address_space::Access;
use runtime::environment::{Builder, Child};
use runtime::image::Image;
use runtime::page::Allocator;
use runtime::window::Window;
use runtime::{
    EnvironmentId, Error, Failure, KeyIndex, PageNumber, archive, clock, entry, error_line, println, time_slice,
};

entry!(main);

/// Words of one direction's buffer.
const WORDS: u64 = 64;
/// Round trips that are measured.
const ROUNDS: u64 = 2000;
/// Words of the larger messages that are sent after them.
const BULK: u64 = 10_000;

/// One direction, in the shared page: read and write positions, which only grow, and the buffer.
struct Pipe<'a> {
    read: &'a AtomicU64,
    written: &'a AtomicU64,
    buffer: &'a [AtomicU64],
    other_end: EnvironmentId,
}

impl<'a> Pipe<'a> {
    /// The direction that begins at word `start` of the page.
    fn new(words: &'a [AtomicU64], start: usize, other_end: EnvironmentId) -> Self {
        let buffer = &words[start + 2..start + 2 + WORDS as usize];
        Self { read: &words[start], written: &words[start + 1], buffer, other_end }
    }

    /// Sends a word; yields to the reader while the buffer is full.
    #[inline(always)]
    fn send_inlined(&self, word: u64) {
        let at = self.written.load(Relaxed);
        while at - self.read.load(Acquire) == WORDS {
            give_way(self.other_end);
        }
        self.buffer[(at % WORDS) as usize].store(word, Relaxed);
        self.written.store(at + 1, Release);
    }

    /// Takes a word; yields to the writer while the buffer is empty.
    #[inline(always)]
    fn receive_inlined(&self) -> u64 {
        let at = self.read.load(Relaxed);
        while self.written.load(Acquire) == at {
            give_way(self.other_end);
        }
        let word = self.buffer[(at % WORDS) as usize].load(Relaxed);
        self.read.store(at + 1, Release);
        word
    }

    #[inline(never)]
    fn send(&self, word: u64) {
        self.send_inlined(word);
    }

    #[inline(never)]
    fn receive(&self) -> u64 {
        self.receive_inlined()
    }
}

/// The rest of the slice goes to the other end, or, while that one runs elsewhere, to any environment. Without
/// another end there is nothing to wait for.
fn give_way(other_end: EnvironmentId) {
    match time_slice::yield_to(other_end) {
        Ok(()) => {}
        Err(Failure { error: Error::Busy, .. }) => time_slice::yield_now(),
        Err(_) => {
            println!("failed: the other end of the pipe is gone");
            entry::exit(1)
        }
    }
}

fn main() -> u32 {
    entry::status_of(run())
}

fn run() -> Result<(), String> {
    let plain = measure(false)?;
    let inlined = measure(true)?;
    error_line!("a round trip takes {plain} ticks by pipe, {inlined} by pipe'");
    println!("{ROUNDS} round trips and {BULK} words went through pipe and pipe'");
    Ok(())
}

/// Ticks for one round trip; everything that comes back is checked.
fn measure(inlined: bool) -> Result<u64, String> {
    let refused = |failure: Failure| format!("{failure:?}");
    let image = Image::init_of(archive::boot(), Allocator::own()).map_err(|error| format!("{error}"))?;
    let (child, page) = start(&image, inlined).map_err(refused)?;
    let window = Window::open(&[page], KeyIndex::FIRST, Access::WRITE).map_err(refused)?;
    let (out, back) = ends(&window, child.number);
    let begun = clock::ticks();
    let counter = (0..ROUNDS).fold(0, |counter, _| exchange(&out, &back, counter, inlined));
    let ticks = clock::ticks() - begun;
    let sent: u64 = (0..BULK).map(|word| exchange(&out, &back, word, inlined)).sum();
    drop(window);
    child.destroy().map_err(refused)?;
    if counter != ROUNDS || sent != (1..=BULK).sum() {
        return Err(format!("the counter came back as {counter}, the words as {sent}"));
    }
    Ok(ticks / ROUNDS)
}

/// The child and the page that it shares, under its own access list so that it can open it.
fn start(image: &Image<'_>, inlined: bool) -> Result<(Child, PageNumber), Failure> {
    let mut builder = Builder::new()?;
    let page = builder.pages.allocate()?;
    let function = if inlined { echo_inlined } else { echo };
    builder.program(image)?.function(function, page.0).budget(Resource::Page, 16);
    let child = builder.create()?;
    child.run(0, time_slice::ANY_POSITION)?;
    Ok((child, page))
}

/// Both directions, as the parent sees them; the child has them the other way round.
fn ends(window: &Window, other_end: EnvironmentId) -> (Pipe<'_>, Pipe<'_>) {
    let half = window.words().len() / 2;
    (Pipe::new(window.words(), 0, other_end), Pipe::new(window.words(), half, other_end))
}

fn exchange(out: &Pipe<'_>, back: &Pipe<'_>, word: u64, inlined: bool) -> u64 {
    if inlined {
        out.send_inlined(word);
        back.receive_inlined()
    } else {
        out.send(word);
        back.receive()
    }
}

/// The child: sends back each word, plus one.
extern "C" fn echo(page: u64) {
    if let Some(window) = shared(page) {
        let (out, back) = ends(&window, entry::FIRST);
        loop {
            back.send(out.receive() + 1);
        }
    }
}

extern "C" fn echo_inlined(page: u64) {
    if let Some(window) = shared(page) {
        let (out, back) = ends(&window, entry::FIRST);
        loop {
            back.send_inlined(out.receive_inlined() + 1);
        }
    }
}

fn shared(page: u64) -> Option<Window> {
    Window::open(&[PageNumber(page)], KeyIndex::FIRST, Access::WRITE).ok()
}
