//! Everything that touches memory by address: the program's memory, page tables, windows onto pages that others write,
//! and the pointer to the process. The safe faces of these are what the rest of ExOS is written against.

pub mod birth;
pub mod copy;
pub mod current;
pub mod foreign;
pub mod header;
pub mod image;
pub mod library_table;
pub mod own_pages;
pub mod shared;
pub mod signal_frame;
pub mod store;
pub mod tables;
pub mod vectors;

use crate::errno::Result;
use runtime::{UserAddress, syscall};

/// Fills a buffer with at most `abi::limits::ENTROPY_BYTES` random bytes from the kernel.
pub fn entropy(buffer: &mut [u8]) -> Result<()> {
    // SAFETY: the kernel writes as many bytes as the buffer has.
    unsafe { syscall::entropy_read(UserAddress(buffer.as_mut_ptr() as u64), buffer.len() as u64) }?;
    Ok(())
}
