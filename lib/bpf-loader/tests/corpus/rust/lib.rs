//! Programs in Rust for BPF. Each is one module with one entry function; the comment at
//! its head names the context. A program must not panic (nothing could be done about it),
//! so slices are taken with `get`, not with indices.

#![no_std]

mod checksum;
mod ethernet_type;
mod extents;
mod flow_counter;
mod fnv;
mod inode;
mod leb128;
mod udp_port;

/// The bytes of a packet or of input, from what the program is called with.
///
/// # Safety
/// `first` points to `length` readable bytes, as the context promises.
unsafe fn bytes<'a>(first: *const u8, length: u64) -> &'a [u8] {
    // SAFETY: by this function's contract.
    unsafe { core::slice::from_raw_parts(first, length as usize) }
}
