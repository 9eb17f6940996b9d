//! Everything that touches memory by address: the program's memory, page tables, windows onto pages that others write,
//! and the words that lead to records. The safe faces of these are what the rest of ExOS is written against.

pub mod bank;
pub mod card;
pub mod cpu_time;
pub mod current;
pub mod disk;
pub mod domain;
pub mod env_create;
pub mod fpu;
pub mod header;
pub mod key_slots;
pub mod library_image;
pub mod mapping;
pub mod page_quota;
pub mod page_store;
pub mod page_tables;
pub mod plain_wait;
pub mod preload_abi;
pub mod signal_frame;
pub mod static_ref;
pub mod thread_context;
pub mod usercopy;
pub mod volume;

use linux_abi::errno::Result;
use runtime::{UserAddress, syscall};

/// Fills a buffer with at most `abi::limits::ENTROPY_BYTES` random bytes from the kernel.
pub fn entropy(buffer: &mut [u8]) -> Result<()> {
    // SAFETY: the kernel writes as many bytes as the buffer has.
    unsafe { syscall::entropy_read(UserAddress(buffer.as_mut_ptr() as u64), buffer.len() as u64) }?;
    Ok(())
}
