//! What an image of ExOS begins with: how the session, and the image itself, find their way into it.

use core::any::Any;
use core::mem::offset_of;
use linux_abi::address_map::IMAGE;

/// The first word of the ExOS image.
pub const IMAGE_MAGIC: u64 = 0x0053_4f78_4e69_7443;

/// The header. What it names lies in the image. The session reads the words before the tables.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    magic: u64,
    version: u64,
    entry: unsafe extern "C" fn(),
    first: extern "C" fn(u64),
    stub_entry: extern "C" fn(),
    end: &'static u8,
    tables: Tables,
    return_failed: extern "C" fn(),
}

/// The tables of an image, whose type a layer above knows.
pub type Tables = &'static (dyn Any + Send + Sync);

unsafe extern "C" {
    static image_end: u8;
}

impl Header {
    /// Address of the word that says where the return from a handler continues, whose frame cannot be read any more.
    pub const RETURN_FAILED: u64 = IMAGE + offset_of!(Self, return_failed) as u64;

    /// That of an image with these tables, in which processes begin at `first`, stubs of rewritten calls enter at
    /// `stub_entry`, and returns from handlers that fail in the end continue at `return_failed`.
    pub const fn new(
        first: extern "C" fn(u64),
        stub_entry: extern "C" fn(),
        return_failed: extern "C" fn(),
        tables: Tables,
    ) -> Self {
        Self {
            magic: IMAGE_MAGIC,
            version: abi::VERSION,
            entry: runtime::entry::_start,
            first,
            stub_entry,
            // SAFETY: only the address of what the linker script defines is taken.
            end: unsafe { &image_end },
            tables,
            return_failed,
        }
    }
}

fn header() -> &'static Header {
    // SAFETY: link/image.ld puts the header of every image at this address, where it is mapped for as long as the image
    // is, and nothing writes there.
    unsafe { &*(IMAGE as *const Header) }
}

/// Where stubs of rewritten calls enter the image that runs.
pub fn stub_entry() -> u64 {
    header().stub_entry as *const () as u64
}

/// The tables of the image that runs.
pub fn tables() -> Tables {
    header().tables
}
