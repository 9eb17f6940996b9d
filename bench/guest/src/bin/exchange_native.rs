//! Two environments that exchange something without an operating system's help: exokernel-sosp95 Table 8 (pipe,
//! pipe', shm, lrpc) and Table 12 (tlrpc). It also measures the pipe in shared memory of xok-exos-sosp97 Table 2.
//!
//! One way is half a round trip; a call is a round trip.
#![no_std]
#![no_main]

extern crate alloc;

use abi::budget::Resource;
use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber};
use alloc::vec;
use alloc::vec::Vec;
use bench_guest::{begin, measure};
use core::arch::asm;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use runtime::address_space::Access;
use runtime::area::Area;
use runtime::environment::{Builder, Child};
use runtime::page::Allocator;
use runtime::transfer::{Kind, Message, call, call_trusting, serve, serve_trusted};
use runtime::window::Window;
use runtime::{archive, entry, image, println, time_slice};

entry!(main);

/// Round trips in a sample.
const ROUNDS: u64 = 16;
/// Words of one direction's buffer.
const WORDS: u64 = 64;
/// Words of a large message, and pages of one direction's buffer for it.
const BULK: usize = 1024;
const BULK_PAGES: usize = 2;
/// Shared pages: one of positions and small buffers, then one large buffer in each direction.
const PAGES: usize = 1 + 2 * BULK_PAGES;
/// Words in a page.
const PAGE_WORDS: usize = 512;
/// Free word of a server's area: the counter.
const COUNTER: usize = 0;

/// One direction: read and write positions, which only grow, and the buffer.
struct Pipe<'a> {
    read: &'a AtomicU64,
    written: &'a AtomicU64,
    buffer: &'a [AtomicU64],
    bulk: &'a [AtomicU64],
    other_end: EnvironmentId,
}

impl<'a> Pipe<'a> {
    /// Direction 0 or 1 of the shared pages.
    fn new(words: &'a [AtomicU64], direction: usize, other_end: EnvironmentId) -> Self {
        let start = direction * PAGE_WORDS / 2;
        let bulk = PAGE_WORDS * (1 + direction * BULK_PAGES);
        Self {
            read: &words[start],
            written: &words[start + 1],
            buffer: &words[start + 2..start + 2 + WORDS as usize],
            bulk: &words[bulk..bulk + BULK],
            other_end,
        }
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

    /// Sends a large message, as one that fills the buffer.
    fn send_bulk(&self, message: &[u64; BULK]) {
        let at = self.written.load(Relaxed);
        while at != self.read.load(Acquire) {
            give_way(self.other_end);
        }
        copy(message.as_ptr(), self.bulk.as_ptr() as *mut u64);
        self.written.store(at + 1, Release);
    }

    fn receive_bulk(&self, message: &mut [u64; BULK]) {
        let at = self.read.load(Relaxed);
        while self.written.load(Acquire) == at {
            give_way(self.other_end);
        }
        copy(self.bulk.as_ptr().cast(), message.as_mut_ptr());
        self.read.store(at + 1, Release);
    }
}

/// Copies a large message by the instruction with which Linux copies, eight bytes a time.
fn copy(from: *const u64, to: *mut u64) {
    // SAFETY: both are BULK words long and mapped; what others write meanwhile is not looked at before they are done.
    unsafe {
        asm!("rep movsq", inout("rsi") from => _, inout("rdi") to => _, inout("rcx") BULK => _, options(nostack, preserves_flags));
    }
}

/// The rest of the slice goes to the other end.
fn give_way(other_end: EnvironmentId) {
    match time_slice::yield_to(other_end) {
        Ok(()) => {}
        Err(Failure { error: Error::Busy, .. }) => time_slice::yield_now(),
        Err(failure) => {
            println!("bench: failed the other end is gone: {failure:?}");
            entry::exit(1)
        }
    }
}

/// A child that runs `function`, and the pages that it shares.
fn start(function: extern "C" fn(u64)) -> (Child, Window) {
    let mut builder = Builder::new().expect("the budget suffices");
    let first = builder.pages.allocate().expect("there is memory");
    let mut pages = vec![first; PAGES];
    builder.pages.allocate_many(&mut pages[1..]).expect("there is memory");
    let window = Window::open(&pages, KeyIndex::FIRST, Access::WRITE).expect("the pages can be mapped");
    // The child finds the numbers of the pages in the first of them.
    let list = &window.words()[PAGE_WORDS - PAGES..PAGE_WORDS];
    list.iter().zip(&pages).for_each(|(word, page)| word.store(page.0, Relaxed));
    let file = archive::boot().find(abi::boot::INIT).expect("this program is `init` of the boot archive").data;
    let own = image::Image::load(file, Allocator::own()).expect("this program can be loaded");
    builder.program(&own).expect("the program fits").function(function, first.0).budget(Resource::Page, 64);
    let child = builder.create().expect("the environment can be made");
    child.run(0, time_slice::ANY_POSITION).expect("the child can run");
    (child, window)
}

/// The shared pages, as the child opens them.
fn shared(first: u64) -> Option<Window> {
    let list = Window::open(&[PageNumber(first)], KeyIndex::FIRST, Access::WRITE).ok()?;
    let words = &list.words()[PAGE_WORDS - PAGES..];
    let pages: Vec<PageNumber> = words.iter().map(|word| PageNumber(word.load(Relaxed))).collect();
    Window::open(&pages, KeyIndex::FIRST, Access::WRITE).ok()
}

/// What a child does with both directions, for ever.
fn with_pipes(first: u64, body: impl Fn(&Pipe<'_>, &Pipe<'_>)) {
    let Some(window) = shared(first) else { return };
    let (out, back) = (Pipe::new(window.words(), 0, entry::FIRST), Pipe::new(window.words(), 1, entry::FIRST));
    loop {
        body(&out, &back);
    }
}

extern "C" fn echo(first: u64) {
    with_pipes(first, |out, back| back.send(out.receive() + 1));
}

extern "C" fn echo_inlined(first: u64) {
    with_pipes(first, |out, back| back.send_inlined(out.receive_inlined() + 1));
}

extern "C" fn echo_bulk(first: u64) {
    let mut message = [0; BULK];
    let Some(window) = shared(first) else { return };
    let (out, back) = (Pipe::new(window.words(), 0, entry::FIRST), Pipe::new(window.words(), 1, entry::FIRST));
    loop {
        out.receive_bulk(&mut message);
        message[0] += 1;
        back.send_bulk(&message);
    }
}

extern "C" fn count_turns(first: u64) {
    let Some(window) = shared(first) else { return };
    let turn = &window.words()[0];
    loop {
        while turn.load(Acquire) & 1 == 0 {
            give_way(entry::FIRST);
        }
        turn.store(turn.load(Relaxed) + 1, Release);
    }
}

/// Measures round trips with a child, whose answers are checked.
fn pipes(name: &str, child: extern "C" fn(u64), round: impl Fn(&Pipe<'_>, &Pipe<'_>, u64) -> u64) {
    let (child, window) = start(child);
    let (out, back) = (Pipe::new(window.words(), 0, child.number), Pipe::new(window.words(), 1, child.number));
    let mut counter = 0;
    measure(name, 2 * ROUNDS, || (0..ROUNDS).for_each(|_| counter = round(&out, &back, counter)));
    assert!(counter > 0 && counter.is_multiple_of(ROUNDS), "the counter came back as {counter}");
    drop(window);
    child.destroy().expect("the child can be destroyed");
}

fn bulk_pipes() {
    let (child, window) = start(echo_bulk);
    let (out, back) = (Pipe::new(window.words(), 0, child.number), Pipe::new(window.words(), 1, child.number));
    let mut message = vec![0; BULK];
    let message: &mut [u64; BULK] = message.as_mut_slice().try_into().expect("it is as long as that");
    measure("pipe-8k", 2 * ROUNDS, || {
        for _ in 0..ROUNDS {
            out.send_bulk(message);
            back.receive_bulk(message);
        }
    });
    assert!(message[0] > 0, "the message came back unchanged");
    drop(window);
    child.destroy().expect("the child can be destroyed");
}

fn shared_memory() {
    let (child, window) = start(count_turns);
    let turn = &window.words()[0];
    measure("shm", 2 * ROUNDS, || {
        for _ in 0..ROUNDS {
            turn.store(turn.load(Relaxed) + 1, Release);
            while turn.load(Acquire) & 1 == 1 {
                give_way(child.number);
            }
        }
    });
    drop(window);
    child.destroy().expect("the child can be destroyed");
}

/// The one procedure of the servers.
extern "C" fn increment(_: EnvironmentId, message: &mut Message) {
    let counter = &Area::current().library().free[COUNTER];
    counter.store(counter.load(Relaxed) + 1, Relaxed);
    message[0] = counter.load(Relaxed);
}

extern "C" fn wait_untrusted(_: u64) {
    serve(increment)
}

extern "C" fn wait_trusted(_: u64) {
    serve_trusted(increment)
}

fn calls(name: &str, server: extern "C" fn(u64), once: impl Fn(EnvironmentId, &mut Message) -> bool) {
    let (server, window) = start(server);
    let mut message: Message = [0; 6];
    // It has a slice of its own until it has come to wait.
    while !once(server.number, &mut message) {
        time_slice::yield_now();
    }
    measure(name, ROUNDS, || {
        for _ in 0..ROUNDS {
            while !once(server.number, &mut message) {
                time_slice::yield_now();
            }
        }
    });
    assert!(message[0] > ROUNDS, "the counter is {}", message[0]);
    drop(window);
    server.destroy().expect("the server can be destroyed");
}

fn main() -> u32 {
    begin();
    pipes("pipe", echo, |out, back, word| {
        out.send(word);
        back.receive()
    });
    pipes("pipe-inlined", echo_inlined, |out, back, word| {
        out.send_inlined(word);
        back.receive_inlined()
    });
    bulk_pipes();
    shared_memory();
    calls("lrpc", wait_untrusted, |server, message| call(Kind::Synchronous, server, message).is_ok());
    calls("tlrpc", wait_trusted, |server, message| call_trusting(Kind::Synchronous, server, message).is_ok());
    0
}
