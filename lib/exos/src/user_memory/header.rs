//! What the ExOS image begins with: how the session, and native programs, find their way into it.

use crate::session::IMAGE_MAGIC;

/// The header. Its fields are addresses in the image.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    magic: u64,
    version: u64,
    entry: unsafe extern "C" fn(),
    first: extern "C" fn(u64),
    stub_entry: extern "C" fn(),
    end: &'static u8,
    operations: &'static crate::call::Operations,
}

unsafe extern "C" {
    static image_end: u8;
}

/// The one of this image.
#[used]
#[unsafe(link_section = ".exos_header")]
pub static HEADER: Header = Header {
    magic: IMAGE_MAGIC,
    version: abi::VERSION,
    entry: runtime::entry::_start,
    first: crate::process::begin::first,
    stub_entry: crate::rewriter::gate::stub_entry,
    // SAFETY: only the address of what the linker script defines is taken.
    end: unsafe { &image_end },
    operations: &crate::call::OPERATIONS,
};
