//! Runs compiled packet filters under guard pages.
//!
//! The packet ends right before a page that cannot be touched, and so do the tables. The code lies between two such
//! pages, is never writable while it can run (W^X), and is filled with breakpoints where nothing was committed.
//! Compiled code that reads past a packet or a table, or jumps astray, dies with a fault, and the test with it.

use std::arch::asm;
use std::ops::{Deref, DerefMut};

use packet_filter::{Classifier, Patch};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

const PAGE: usize = 4096;

/// Whole pages between two that cannot be touched.
struct Guarded {
    /// The guard page before them.
    mapping: *mut u8,
    pages: usize,
}

impl Guarded {
    fn new(bytes: usize) -> Guarded {
        let pages = bytes.div_ceil(PAGE).max(1);
        // SAFETY: an anonymous mapping at an address of the system's choosing touches no memory that Rust knows of.
        let mapping = unsafe {
            mmap_anonymous(std::ptr::null_mut(), (pages + 2) * PAGE, ProtFlags::empty(), MapFlags::PRIVATE)
                .expect("address space")
        };
        let guarded = Guarded { mapping: mapping.cast(), pages };
        guarded.protect(MprotectFlags::READ | MprotectFlags::WRITE);
        guarded
    }

    fn protect(&self, flags: MprotectFlags) {
        // SAFETY: these pages belong to this mapping; no reference into them is alive where this is called.
        unsafe { mprotect(self.start().cast(), self.pages * PAGE, flags).expect("protection of own pages") }
    }

    fn start(&self) -> *mut u8 {
        self.mapping.wrapping_add(PAGE)
    }

    /// The address that leaves `bytes` to the guard page behind.
    fn last(&self, bytes: usize) -> *mut u8 {
        assert!(bytes <= self.pages * PAGE);
        self.start().wrapping_add(self.pages * PAGE - bytes)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped; nothing borrows it any more.
        unsafe { munmap(self.mapping.cast(), (self.pages + 2) * PAGE).expect("an own mapping") }
    }
}

/// Words for a classifier's tables; the last one ends at a guard page.
pub struct GuardedWords {
    pages: Guarded,
    count: usize,
}

impl GuardedWords {
    /// So many words, all zero.
    pub fn new(count: usize) -> GuardedWords {
        GuardedWords { pages: Guarded::new(4 * count), count }
    }
}

impl Deref for GuardedWords {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        // SAFETY: the words lie in the mapping, which is readable, zeroed and as long-lived as `self`.
        unsafe { std::slice::from_raw_parts(self.pages.last(4 * self.count).cast(), self.count) }
    }
}

impl DerefMut for GuardedWords {
    fn deref_mut(&mut self) -> &mut [u32] {
        // SAFETY: as for `deref`; the mapping is writable and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.pages.last(4 * self.count).cast(), self.count) }
    }
}

/// A code arena.
pub struct CodeArena {
    pages: Guarded,
}

impl CodeArena {
    /// An arena of so many bytes, all breakpoints.
    pub fn new(bytes: usize) -> CodeArena {
        let pages = Guarded::new(bytes);
        // SAFETY: fills exactly the own pages, which are writable.
        unsafe { pages.start().write_bytes(0xcc, pages.pages * PAGE) };
        pages.protect(MprotectFlags::READ | MprotectFlags::EXEC);
        CodeArena { pages }
    }

    /// Puts a patch in its place. The arena cannot be executed meanwhile, nor written afterwards.
    ///
    /// # Panics
    /// The patch lies outside.
    pub fn commit(&mut self, patch: Patch<'_>) {
        assert!(patch.offset + patch.bytes.len() <= self.pages.pages * PAGE);
        self.pages.protect(MprotectFlags::READ | MprotectFlags::WRITE);
        // SAFETY: the destination lies in the own pages by the assertion, which are writable now.
        unsafe {
            self.pages.start().add(patch.offset).copy_from_nonoverlapping(patch.bytes.as_ptr(), patch.bytes.len());
        }
        self.pages.protect(MprotectFlags::READ | MprotectFlags::EXEC);
    }

    /// Classifies a packet with the code in the arena: the conjunction that wins, or 0.
    ///
    /// The classifier must be the one that made the code.
    pub fn run(&self, packet: &[u8], classifier: &Classifier<'_>) -> u32 {
        let words = classifier.words().as_ptr();
        // SAFETY: the packet is readable for its length, the words are those that the code was made for, and the
        // code is what the classifier had committed.
        unsafe { call(self.pages.start(), classifier.entry(), packet.as_ptr(), packet.len(), words) }
    }

    /// What was compiled for this classifier, as long as it does not change: for benchmarks.
    pub fn compiled<'c>(&'c self, classifier: &'c Classifier<'_>) -> Compiled<'c> {
        let code = self.pages.start();
        // SAFETY: code with this signature begins at the entry, in own pages, and stays there while they are borrowed.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(code.add(classifier.entry())) };
        Compiled { entry, words: classifier.words(), code }
    }
}

/// The signature of compiled code.
type Entry = unsafe extern "sysv64" fn(packet: *const u8, length: usize, words: *const u32, code: *const u8) -> u32;

/// Compiled code, to be run as it is.
#[derive(Clone, Copy)]
pub struct Compiled<'c> {
    entry: Entry,
    words: &'c [u32],
    code: *const u8,
}

impl Compiled<'_> {
    /// Classifies a packet, without watching the registers.
    #[inline]
    pub fn run(self, packet: &[u8]) -> u32 {
        // SAFETY: the packet is readable for its length, words and code are those of one classifier, which is borrowed.
        unsafe { (self.entry)(packet.as_ptr(), packet.len(), self.words.as_ptr(), self.code) }
    }
}

/// Calls compiled code with canaries in the registers that it must not change.
///
/// # Safety
/// `code` is the start of a committed code arena, `entry` and `words` are its classifier's; `packet` is readable for
/// `length`.
unsafe fn call(code: *const u8, entry: usize, packet: *const u8, length: usize, words: *const u32) -> u32 {
    const CANARY: u64 = 0xc0de_cafe_0000_0000;
    let answer: u64;
    let (mut words_after, mut code_after) = (words as u64, code as u64);
    let (mut r12, mut r13, mut r14, mut r15) = (CANARY + 12, CANARY + 13, CANARY + 14, CANARY + 15);
    // SAFETY: by this function's contract the callee is compiled code with the stated convention: it may change
    // rax, rdi, rsi and r8 to r11, which are declared; those it must not change are read back.
    unsafe {
        asm!(
            "call rax",
            inlateout("rax") code.wrapping_add(entry) => answer,
            inlateout("rdi") packet => _,
            inlateout("rsi") length => _,
            inlateout("rdx") words_after,
            inlateout("rcx") code_after,
            lateout("r8") _,
            lateout("r9") _,
            lateout("r10") _,
            lateout("r11") _,
            inlateout("r12") r12,
            inlateout("r13") r13,
            inlateout("r14") r14,
            inlateout("r15") r15,
        );
    }
    assert_eq!([words_after, code_after], [words as u64, code as u64], "compiled code changed its base registers");
    let after = [r12, r13, r14, r15].map(|register| register - CANARY);
    assert_eq!(after, [12, 13, 14, 15], "compiled code changed a register it must not");
    answer as u32
}

/// A place for packets that end where touching is fatal.
pub struct PacketPages {
    pages: Guarded,
}

impl PacketPages {
    /// Room for packets of at most so many bytes.
    pub fn new(bytes: usize) -> PacketPages {
        PacketPages { pages: Guarded::new(bytes) }
    }

    /// The packet, moved so that its last byte lies right before the guard page.
    ///
    /// # Panics
    /// The packet is longer than there is room for.
    pub fn put(&mut self, packet: &[u8]) -> &[u8] {
        let place = self.pages.last(packet.len());
        // SAFETY: `last` leaves as many bytes as the packet has, in own pages that are writable; the slice borrows
        // `self`.
        unsafe {
            place.copy_from_nonoverlapping(packet.as_ptr(), packet.len());
            std::slice::from_raw_parts(place, packet.len())
        }
    }
}
