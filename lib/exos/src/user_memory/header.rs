//! What an image of ExOS begins with: how the session, and the image itself, find their way into it.

use crate::call::Operations;
use crate::layout::IMAGE;
use crate::session::IMAGE_MAGIC;
use crate::tables::Tables;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Release};

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
}

unsafe extern "C" {
    static image_end: u8;
}

impl Header {
    /// The one of an image that works by these tables.
    pub const fn new(tables: Tables) -> Self {
        Self {
            magic: IMAGE_MAGIC,
            version: abi::VERSION,
            entry: runtime::entry::_start,
            first: crate::process::begin::first,
            stub_entry: crate::rewriter::gate::stub_entry,
            // SAFETY: only the address of what the linker script defines is taken.
            end: unsafe { &image_end },
            tables,
        }
    }
}

/// The tables of the image that runs.
pub fn tables() -> &'static Tables {
    // SAFETY: link/image.ld puts the header of every image at this address, where it is mapped for as long as the image
    // is, and nothing writes there.
    unsafe { &(*(IMAGE as *const Header)).tables }
}

/// The table of calls that a process works by: that of its image, unless an object was preloaded.
#[derive(Debug)]
pub struct CallTable(AtomicPtr<Operations>);

impl Default for CallTable {
    fn default() -> Self {
        Self(AtomicPtr::new(core::ptr::from_ref(&tables().calls).cast_mut()))
    }
}

impl CallTable {
    /// The table.
    pub fn get(&self) -> &'static Operations {
        // SAFETY: the pointer was made of a reference that lives for ever, and is only read through.
        unsafe { &*self.0.load(Acquire) }
    }

    /// Whether it is that of the image, which knows what its operations do with registers.
    #[inline]
    pub fn is_of_image(&self) -> bool {
        core::ptr::eq(self.0.load(Acquire), &tables().calls)
    }

    /// Another one from now on.
    pub fn set(&self, table: &'static Operations) {
        self.0.store(core::ptr::from_ref(table).cast_mut(), Release);
    }
}
