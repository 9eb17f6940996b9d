//! The environment area as this environment sees it, and the words that the runtime adds to it.
//!
//! The first private page has room behind the kernel's [`PrivateWords`]: there lie the [`LibraryWords`]. GS base points
//! at the private page, so that any code, on any stack, finds its environment in one instruction. An upcall handler
//! finds it from its stack pointer as well, because areas are aligned ([`crate::layout`]). Nothing that belongs to one
//! environment lies anywhere else: two environments can run the same image in one address space.

use abi::area::{PRIVATE, PUBLIC_LIBRARY, PUBLIC_STATUS, PrivateWords};
use abi::limits::PAGE_SIZE;
use abi::{EnvironmentId, KeyIndex, PageNumber, upcall};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Offset of the [`LibraryWords`] in the private page, and from GS base.
pub const LIBRARY: u64 = size_of::<PrivateWords>() as u64;
/// Words that the library OS may use as it likes.
pub const FREE_WORDS: usize = 20;

/// What the runtime keeps of one environment. Written by the environment itself; its creator fills in the words that
/// say so.
#[repr(C)]
#[derive(Debug)]
pub struct LibraryWords {
    /// Address of the area; 0 before the runtime has started.
    pub area: AtomicU64,
    /// Initial stack pointer; 0: the runtime makes a stack. Filled in by the creator.
    pub start_stack: AtomicU64,
    /// Function to begin with, given `start_argument`; 0: the program's `main`. Filled in by the creator.
    pub start_function: AtomicU64,
    /// See `start_function`. Filled in by the creator.
    pub start_argument: AtomicU64,
    /// Slots of the key ring in use, as bits. Filled in by the creator.
    pub keys: AtomicU64,
    /// Slot of the key for the host channel, plus one; 0: none. Filled in by the creator.
    pub channel_key: AtomicU64,
    /// Address of the heap; 0: none yet.
    pub heap: AtomicU64,
    /// Windows in use, as bits.
    pub windows: AtomicU64,
    /// Window tables that are linked, as bits.
    pub window_tables: AtomicU64,
    /// Where vector state is saved at the end of a slice; 0: none lives.
    pub vector_state: AtomicU64,
    /// Stack pointer to go on with when a control transfer is answered.
    pub transfer_stack: AtomicU64,
    /// Environment that may answer it.
    pub transfer_callee: AtomicU64,
    /// Initial stack pointer of the entry for control transfers.
    pub service_stack: AtomicU64,
    /// Where transfers come in that are calls; 0: this is no service.
    pub service_entry: AtomicU64,
    /// Function that serves control transfers.
    pub service_function: AtomicU64,
    /// Answers that could not be delivered: see [`crate::transfer::serve`]. 0: none yet.
    pub service_answers: AtomicU64,
    /// The kinds of calls that came since the service slept last, as bits: with synchronous ones came positions.
    pub service_kinds: AtomicU64,
    /// Handler of each kind of upcall, an `extern "C" fn(&mut Context)`.
    pub handlers: [AtomicU64; upcall::kind::COUNT as usize],
    /// First address after the upcall stack.
    pub upcall_stack_end: AtomicU64,
    /// Address of the boot archive that the creator shows, and its bytes; 0: none. Filled in by the creator.
    pub archive: AtomicU64,
    /// See `archive`. Filled in by the creator.
    pub archive_bytes: AtomicU64,
    /// Not used.
    pub unused: [AtomicU64; 1],
    /// For the library OS.
    pub free: [AtomicU64; FREE_WORDS],
}

const _: () = assert!(LIBRARY + size_of::<LibraryWords>() as u64 == PAGE_SIZE);

/// The area of the environment that runs this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area(u64);

impl Area {
    /// The one of the running environment.
    #[inline]
    pub fn current() -> Self {
        let address: u64;
        // SAFETY: after the runtime has started GS base points at the private page of the environment, in which
        // LIBRARY is the offset of `area`. Reading it changes nothing.
        unsafe {
            core::arch::asm!(
                "mov {}, gs:[{}]", out(reg) address, const LIBRARY,
                options(nostack, preserves_flags, readonly)
            );
        }
        Self(address)
    }

    /// The area that lies at `address`.
    ///
    /// # Safety
    /// It is an area of an environment that runs in this address space, and stays mapped as long as the result is used.
    pub const unsafe fn at(address: u64) -> Self {
        Self(address)
    }

    /// Where it lies.
    pub const fn address(self) -> u64 {
        self.0
    }

    /// The words shared with the kernel.
    #[inline]
    pub fn private(self) -> &'static PrivateWords {
        // SAFETY: an `Area` names a mapped area, whose private page begins with these words; all are atomics.
        unsafe { &*(self.0.wrapping_add(PRIVATE) as *const PrivateWords) }
    }

    /// The runtime's own words.
    #[inline]
    pub fn library(self) -> &'static LibraryWords {
        // SAFETY: as for `private`; the words lie behind the kernel's in the same page, by the assertion above.
        unsafe { &*(self.0.wrapping_add(PRIVATE + LIBRARY) as *const LibraryWords) }
    }

    /// Status word `index` (0 to 223) of the public page, which others may watch.
    pub fn status(self, index: usize) -> &'static AtomicU64 {
        assert!(index < ((PUBLIC_LIBRARY - PUBLIC_STATUS) / 8) as usize, "the public page has no such status word");
        self.public_word(PUBLIC_STATUS / 8 + index as u64)
    }

    /// Word `index` (0 to 255) of the library's half of the public page.
    #[inline]
    pub fn public_library(self, index: usize) -> &'static AtomicU64 {
        assert!(index < ((PAGE_SIZE - PUBLIC_LIBRARY) / 8) as usize, "the public page has no such word");
        self.public_word(PUBLIC_LIBRARY / 8 + index as u64)
    }

    #[inline]
    fn public_word(self, index: u64) -> &'static AtomicU64 {
        // SAFETY: both callers bound the index by the end of the public page, which is mapped as the area is.
        unsafe { &*(self.0.wrapping_add(index * 8) as *const AtomicU64) }
    }
}

/// A word of the running environment's private page by its offset there: one instruction.
#[inline]
fn private_word<const OFFSET: u64>() -> u64 {
    const { assert!(OFFSET.is_multiple_of(8) && OFFSET < PAGE_SIZE, "the private page has no such word") };
    let word: u64;
    // SAFETY: as in `Area::current`: GS base points at the private page, and the offset lies in it. Reading changes nothing.
    unsafe {
        core::arch::asm!(
            "mov {}, gs:[{}]", out(reg) word, const OFFSET,
            options(nostack, preserves_flags, readonly)
        );
    }
    word
}

/// Offset in the private page of a word that the library OS may use as it likes.
pub const fn free_offset(index: usize) -> u64 {
    assert!(index < FREE_WORDS, "there is no such word");
    LIBRARY + offset_of!(LibraryWords, free) as u64 + index as u64 * 8
}

/// Such a word of the running environment, by its index, that keeps its value once it was read. The compiler may read
/// it once for all uses in a function.
#[inline]
pub fn constant_word<const INDEX: usize>() -> u64 {
    let word: u64;
    // SAFETY: as in `private_word`, where `free_offset` has checked the index; what does not change may be read at any
    // time.
    unsafe {
        core::arch::asm!(
            "mov {}, gs:[{}]", out(reg) word, const free_offset(INDEX),
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    word
}

const NUMBER: u64 = offset_of!(PrivateWords, number) as u64;

/// The number of the running environment.
#[inline]
pub fn number() -> EnvironmentId {
    EnvironmentId(private_word::<NUMBER>())
}

const CPU: u64 = offset_of!(PrivateWords, cpu) as u64;

const UPCALL_PKRU: u64 = offset_of!(PrivateWords, upcall_pkru) as u64;

/// The PKRU that the running environment declared for its upcalls.
#[inline]
pub fn upcall_pkru() -> u64 {
    private_word::<UPCALL_PKRU>()
}

/// The CPU that it runs on; it may be another one after the next yield.
#[inline]
pub fn cpu() -> u64 {
    private_word::<CPU>() & 0xffff_ffff
}

/// The page-table root of the running environment.
#[inline(always)]
pub fn root() -> PageNumber {
    let info = crate::exposed::environment(number());
    info.map_or(PageNumber::NONE, |info| PageNumber(info.root.load(Relaxed)))
}

/// The access list of the running environment: by convention the one that its page-table root is under.
pub fn access_list() -> PageNumber {
    crate::exposed::page(root()).map_or(PageNumber::NONE, |info| info.access())
}

/// The key of the host channel, if it has one.
pub fn channel_key() -> Option<KeyIndex> {
    Area::current().library().channel_key.load(Relaxed).checked_sub(1).map(KeyIndex)
}
