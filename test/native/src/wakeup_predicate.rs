//! Runs compiled wakeup predicates under guard pages.
//!
//! Code, table and watched words each end right before a page that cannot be touched, and are mapped without the
//! right to write (W^X). Compiled code that reads past its table, writes anywhere, or runs past its end dies with a
//! fault, and the test with it.

use std::arch::asm;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use wakeup_predicate::compile::{CODE_BYTES_MAX, Operand};
use wakeup_predicate::{Outcome, Predicate};

const PAGE: usize = 4096;

/// One page between two that cannot be touched. What is written to it ends at its end.
struct GuardedPage {
    /// The guard page before it.
    mapping: *mut u8,
}

impl GuardedPage {
    fn new() -> GuardedPage {
        // SAFETY: an anonymous mapping at an address of the system's choosing touches no
        // memory that Rust knows of.
        let mapping = unsafe {
            let flags = MapFlags::PRIVATE;
            mmap_anonymous(std::ptr::null_mut(), 3 * PAGE, ProtFlags::empty(), flags).expect("three pages")
        };
        GuardedPage { mapping: mapping.cast() }
    }

    fn protect(&self, flags: MprotectFlags) {
        // SAFETY: the middle page belongs to this mapping; no reference into it exists, as
        // all accesses go through raw pointers within methods of this type.
        unsafe { mprotect(self.mapping.add(PAGE).cast(), PAGE, flags).expect("protection of an own page") }
    }

    /// Puts `bytes` at the end of the page, then gives the page `flags` only. The address
    /// of the first byte.
    fn put(&self, bytes: &[u8], flags: MprotectFlags) -> *const u8 {
        assert!(bytes.len() <= PAGE);
        self.protect(MprotectFlags::READ | MprotectFlags::WRITE);
        // SAFETY: at most a page is copied to the end of the middle page, which is writable
        // now and overlaps nothing.
        let first = unsafe {
            let first = self.mapping.add(2 * PAGE - bytes.len());
            first.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            first
        };
        self.protect(flags);
        first
    }
}

impl Drop for GuardedPage {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped; nothing borrows it.
        unsafe { munmap(self.mapping.cast(), 3 * PAGE).expect("an own mapping") }
    }
}

/// A place to run compiled predicates in, used over and over.
pub struct Runner {
    code: GuardedPage,
    table: GuardedPage,
    words: GuardedPage,
}

impl Default for Runner {
    fn default() -> Runner {
        Runner { code: GuardedPage::new(), table: GuardedPage::new(), words: GuardedPage::new() }
    }
}

impl Runner {
    /// Compiles and runs a predicate. `word` says which of `values` a term watches.
    ///
    /// # Panics
    /// The code does not fit [`CODE_BYTES_MAX`], or changes a register it must not.
    pub fn run(
        &self,
        predicate: &Predicate,
        now: u64,
        values: &[u64],
        gone: u16,
        word: impl Fn(usize) -> usize,
    ) -> Outcome {
        let mut buffer = [0; CODE_BYTES_MAX];
        let length = predicate.compile(&mut buffer).expect("the stated maximum suffices");
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let words = self.words.put(&bytes, MprotectFlags::READ) as u64;
        let table = predicate.operands(|term| words + 8 * word(term) as u64);
        let table: Vec<u8> = table[..predicate.terms().len()].iter().flat_map(operand_bytes).collect();
        let table = self.table.put(&table, MprotectFlags::READ);
        let code = self.code.put(&buffer[..length], MprotectFlags::READ | MprotectFlags::EXEC);
        let gone = u64::from(gone & predicate.watched_mask());
        // SAFETY: the code is what `compile` made of a checked predicate, for this table and
        // these words, which stay mapped meanwhile; should it be wrong, guard pages and
        // read-only mappings turn a stray access into a fault of this test program.
        Outcome::from_word(unsafe { call(code, table, now, gone) })
    }
}

fn operand_bytes(operand: &Operand) -> Vec<u8> {
    [operand.word, operand.mask, operand.value].iter().flat_map(|field| field.to_le_bytes()).collect()
}

/// Calls compiled code with canaries in the registers that it must not change.
///
/// # Safety
/// `code` is a compiled predicate, in executable memory, and `table` its table.
unsafe fn call(code: *const u8, table: *const u8, now: u64, gone: u64) -> u64 {
    const CANARY: u64 = 0xc0de_cafe_0000_0000;
    let answer: u64;
    let (mut rcx, mut r8, mut r9, mut r10) = (CANARY, CANARY + 8, CANARY + 9, CANARY + 10);
    let (mut r11, mut r12, mut r13, mut r14, mut r15) =
        (CANARY + 11, CANARY + 12, CANARY + 13, CANARY + 14, CANARY + 15);
    // SAFETY: by this function's contract the callee is compiled code with the convention
    // stated for it; every register it may change is declared, and those it must not are
    // read back.
    unsafe {
        asm!(
            "call rax",
            inlateout("rax") code => answer,
            inlateout("rdi") table => _,
            inlateout("rsi") now => _,
            inlateout("rdx") gone => _,
            inlateout("rcx") rcx,
            inlateout("r8") r8,
            inlateout("r9") r9,
            inlateout("r10") r10,
            inlateout("r11") r11,
            inlateout("r12") r12,
            inlateout("r13") r13,
            inlateout("r14") r14,
            inlateout("r15") r15,
        );
    }
    let after = [rcx, r8, r9, r10, r11, r12, r13, r14, r15].map(|register| register - CANARY);
    assert_eq!(after, [0, 8, 9, 10, 11, 12, 13, 14, 15], "compiled code changed a register it must not");
    answer
}
