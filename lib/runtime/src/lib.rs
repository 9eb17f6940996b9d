//! What every library OS stands on: the kernel's interface as Rust, and the mechanisms that each would write first.
//!
//! A program names its `main` with [`entry!`], links with `link/program.ld`, and owns everything from there on. Nothing
//! here is policy that cannot be replaced: every entry that the kernel calls is a word in the environment area. No
//! state lies in a static: all of it hangs from that area, so that environments can share an address space and an
//! image.
//!
//! | module | what it holds |
//! |---|---|
//! | [`syscall`] | the system calls, from the one table |
//! | [`entry`], [`area`], [`layout`] | how an environment begins, what it knows of itself, where things lie |
//! | [`upcall`], [`frame_handler`], [`critical_section`], [`time_slice`], [`context`], [`vector`] | exceptions, slices, what is saved and when |
//! | [`predicate`], [`clock`], [`lock`] | waiting, time, exclusion |
//! | [`exposed`] | what the kernel shows |
//! | [`page`], [`address_space`], [`window`], [`vm`], [`heap`], [`region`] | memory |
//! | [`key`], [`environment`], [`image`], [`archive`] | making other environments |
//! | [`transfer`] | calling them |
//! | [`packet`] | frames of network cards |
//! | [`channel`] | talking to the host |

#![cfg_attr(not(test), no_std)]

pub mod address_space;
pub mod archive;
pub mod area;
pub mod channel;
pub mod clock;
pub mod context;
pub mod critical_section;
pub mod entry;
pub mod environment;
pub mod exposed;
pub mod frame_handler;
pub mod heap;
pub mod image;
pub mod key;
pub mod layout;
pub mod lock;
pub mod memory;
pub mod packet;
pub mod page;
pub mod predicate;
pub mod region;
pub mod syscall;
pub mod time_slice;
pub mod transfer;
pub mod unwind;
pub mod upcall;
pub mod vector;
pub mod window;

pub use abi::host_channel::Kind;
pub use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, UserAddress, Word};

#[cfg(test)]
mod tests {
    #[test]
    fn the_documentation_shows_the_example_that_is_built_and_run() {
        let (document, example) =
            (include_str!("../../../doc/runtime.md"), include_str!("../../../app/tiny/src/main.rs"));
        assert!(document.contains(example), "doc/runtime.md does not hold app/tiny/src/main.rs as it is");
        assert!(example.lines().count() < 150, "the example has 150 lines or more");
    }
}
