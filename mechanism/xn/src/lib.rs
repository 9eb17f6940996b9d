//! XN: protected stable storage (SOSP 1997, section 4).
//!
//! XN decides who owns which disk block, and in which order blocks reach the disk. Libraries decide everything else.
//! The crate is pure: it performs no I/O and allocates nothing. Its caller gives the memory ([`volume::Memory`]), reads
//! and writes the pages ([`frames::Frames`]), runs the programs of templates ([`template::Programs`]) and carries
//! out the transfers that [`volume::Volume`] permits.
//!
//! Invariants:
//! - a block has one owner, in core and on disk, in every state that a crash can leave.
//! - a pointer that is reachable on disk from a root never leads to an uninitialised or reused block.
//! - a refused entry changes nothing.
//! - no entry loops over more than one sector's claims, [`transaction::MAX_BLOCKS`] blocks or one ledger step.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(test)]
extern crate std;

pub mod access;
pub mod binding;
pub mod block;
pub mod checksum;
pub mod claim;
pub mod difference;
pub mod error;
pub mod format;
pub mod frames;
pub mod ledger;
pub mod lifecycle;
mod memo;
pub mod order;
pub mod program;
pub mod recovery;
pub mod region_map;
pub mod registry;
pub mod template;
pub mod transaction;
pub mod tree;
pub mod volume;
