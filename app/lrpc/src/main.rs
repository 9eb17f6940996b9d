//! LRPC and trusted LRPC between two environments (exokernel-sosp95 §6.1, §7.1): increment a counter in another address
//! space and return its value.
//!
//! Both are protected control transfers. `lrpc` trusts the server with nothing: the client saves every callee-saved
//! register and sends none of them. `tlrpc` trusts it to keep them, as procedures do, and saves none.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use abi::budget::Resource;
use alloc::format;
use alloc::string::String;
use core::sync::atomic::Ordering::Relaxed;
use runtime::area::Area;
use runtime::environment::{Builder, Child};
use runtime::image::Image;
use runtime::page::Allocator;
use runtime::transfer::{Kind, Message, call, call_trusting, serve, serve_trusted};
use runtime::{EnvironmentId, Error, Failure, archive, clock, entry, error_line, println, time_slice};

entry!(main);

/// Calls that are measured.
const CALLS: u64 = 2000;
/// Free word of the server's area: the counter.
const COUNTER: usize = 0;

fn main() -> u32 {
    entry::status_of(run())
}

fn run() -> Result<(), String> {
    let lrpc = measure(wait_untrusted, |server, message| call(Kind::Synchronous, server, message))?;
    let tlrpc = measure(wait_trusted, |server, message| call_trusting(Kind::Synchronous, server, message))?;
    error_line!("a call takes {lrpc} ticks by lrpc, {tlrpc} by tlrpc");
    println!("{CALLS} calls by lrpc and {CALLS} by tlrpc counted to {}", 2 * CALLS);
    Ok(())
}

/// Ticks for one call and its answer.
fn measure(
    server: extern "C" fn(u64),
    call: impl Fn(EnvironmentId, &mut Message) -> Result<(), Failure>,
) -> Result<u64, String> {
    let refused = |failure: Failure| format!("{failure:?}");
    let image = Image::init_of(archive::boot(), Allocator::own()).map_err(|error| format!("{error}"))?;
    let server = start(&image, server).map_err(refused)?;
    let begun = clock::ticks();
    for count in 1..=CALLS {
        let mut message: Message = [count, 0, 0, 0, 0, 0];
        while let Err(failure) = call(server.number, &mut message) {
            // It has not come to wait yet: it has no slice, so it gets one.
            if failure.error != Error::Busy {
                return Err(refused(failure));
            }
            time_slice::yield_to(server.number).map_err(refused)?;
        }
        if message[0] != count {
            return Err(format!("call {count} returned {}", message[0]));
        }
    }
    let ticks = clock::ticks() - begun;
    server.destroy().map_err(refused)?;
    Ok(ticks / CALLS)
}

/// A server. It needs no slice: callers bring theirs.
fn start(image: &Image<'_>, function: extern "C" fn(u64)) -> Result<Child, Failure> {
    let mut builder = Builder::new()?;
    builder.program(image)?.function(function, 0).budget(Resource::Slice, 0);
    builder.create()
}

extern "C" fn wait_untrusted(_: u64) {
    serve(increment)
}

extern "C" fn wait_trusted(_: u64) {
    serve_trusted(increment)
}

/// The one procedure.
extern "C" fn increment(_: EnvironmentId, message: &mut Message) {
    let counter = &Area::current().library().free[COUNTER];
    counter.store(counter.load(Relaxed) + 1, Relaxed);
    message[0] = counter.load(Relaxed);
}
