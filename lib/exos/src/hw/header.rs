//! What an image of ExOS begins with: how the session, and the image itself, find their way into it.

use crate::init::IMAGE_MAGIC;
use crate::override_tables::OverrideTables;
use crate::syscalls::{NUMBERS, Operation, Operations, quick};
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};
use linux_abi::address_map::IMAGE;

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
    tables: OverrideTables,
    quick: Operations,
}

unsafe extern "C" {
    static image_end: u8;
}

impl Header {
    /// The one of an image that works by these tables.
    pub const fn new(tables: OverrideTables) -> Self {
        Self {
            magic: IMAGE_MAGIC,
            version: abi::VERSION,
            entry: runtime::entry::_start,
            first: crate::process::child_start::first,
            stub_entry: crate::entry::gate::stub_entry,
            // SAFETY: only the address of what the linker script defines is taken.
            end: unsafe { &image_end },
            quick: quick(&tables.calls),
            tables,
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
pub fn tables() -> &'static OverrideTables {
    &header().tables
}

/// The table of calls that a process works by: that of its image, unless an object was preloaded.
#[derive(Debug)]
pub struct CallTable {
    all: AtomicPtr<Operations>,
    /// Those of them that may be performed without all registers, and without more ado.
    quick: AtomicPtr<Operations>,
    /// Not 0 where ExOS's own operation performs the return from a handler, without more ado.
    returns: AtomicU32,
    is_watched: bool,
    /// A thread is confined to some calls: see `syscalls::seccomp`.
    confines: AtomicBool,
}

static NO_CALLS: Operations = [None; NUMBERS];

impl CallTable {
    /// Where the word lies that is 0 where the return from a handler is a call as any other.
    pub const RETURNS: usize = offset_of!(Self, returns);

    /// That of the image; `is_watched`: each call gets further work.
    pub fn of_image(is_watched: bool) -> Self {
        let quick = if is_watched { &NO_CALLS } else { &header().quick };
        let returns = AtomicU32::new(u32::from(!is_watched && tables().has_own_return));
        let confines = AtomicBool::new(false);
        Self { all: pointer(&tables().calls), quick: pointer(quick), returns, is_watched, confines }
    }

    /// The table.
    pub fn get(&self) -> &'static Operations {
        // SAFETY: the pointer was made of a reference that lives for ever, and is only read through.
        unsafe { &*self.all.load(Acquire) }
    }

    /// What performs a call of this number, where that has nothing to do with registers that functions keep.
    #[inline]
    pub fn quick(&self, number: u64) -> Option<Operation> {
        // SAFETY: as for `get`.
        let table = unsafe { &*self.quick.load(Relaxed) };
        table.get(usize::try_from(number).ok()?).copied().flatten()
    }

    /// Whether it is that of the image.
    pub fn is_of_image(&self) -> bool {
        core::ptr::eq(self.all.load(Acquire), &tables().calls)
    }

    /// Another one from now on, which knows nothing of registers.
    pub fn set(&self, table: &'static Operations) {
        self.quick.store(core::ptr::from_ref(&NO_CALLS).cast_mut(), Release);
        self.returns.store(0, Release);
        self.all.store(core::ptr::from_ref(table).cast_mut(), Release);
    }

    /// Every call passes a check from now on, for as long as the process runs.
    pub fn confine(&self) {
        self.confines.store(true, Release);
        self.set(self.get());
    }

    /// Whether calls have to pass a check.
    pub fn confines(&self) -> bool {
        self.confines.load(Relaxed)
    }

    /// That of the image again.
    pub fn reset(&self) {
        let Self { all, quick, returns, .. } = Self::of_image(self.is_watched || self.confines());
        self.all.store(all.into_inner(), Release);
        self.quick.store(quick.into_inner(), Release);
        self.returns.store(returns.into_inner(), Release);
    }
}

fn pointer(table: &'static Operations) -> AtomicPtr<Operations> {
    AtomicPtr::new(core::ptr::from_ref(table).cast_mut())
}
