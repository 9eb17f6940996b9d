//! Device drivers over machine's safe types: the console under the host channel, disks, entropy, the date.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod byte_stream;
mod chacha20;
pub mod console;
pub mod disk;
pub mod entropy;
pub mod network;
mod port_control;
pub mod wall_clock;

use abi::feature;
use machine::boot::Boot;

/// Starts every driver that finds its device, and adds what is there to the features of the machine.
pub fn start(boot: &mut Boot) {
    if console::start(boot) {
        boot.features.bits |= feature::HOST_CHANNEL;
    }
    disk::start(boot);
    network::start(boot);
    if entropy::start(boot) {
        boot.features.bits |= feature::ENTROPY;
    }
    boot.wall_clock = wall_clock::read().map_or(0, |date| date.saturating_sub(machine::clock::now()));
}
