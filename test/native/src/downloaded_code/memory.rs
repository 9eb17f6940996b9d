//! Memory between guard pages.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

const PAGE: usize = 4096;
const PATTERN: u8 = 0xa5;
/// A run that takes longer does not end.
const MOST_SECONDS: u32 = 10;

/// The case that runs now, for the report of a fault.
pub static CASE: AtomicU64 = AtomicU64::new(0);

/// Whole pages between two that cannot be touched.
pub struct Guarded {
    mapping: *mut u8,
    pages: usize,
}

impl Guarded {
    /// At least so many bytes, readable and writable.
    ///
    /// # Panics
    /// There is no memory.
    pub fn new(bytes: usize) -> Self {
        let pages = bytes.div_ceil(PAGE).max(1);
        // SAFETY: an anonymous mapping at an address of the system's choosing touches no memory that Rust knows of.
        let mapping = unsafe {
            mmap_anonymous(std::ptr::null_mut(), (pages + 2) * PAGE, ProtFlags::empty(), MapFlags::PRIVATE)
                .expect("address space")
        };
        let guarded = Self { mapping: mapping.cast(), pages };
        guarded.protect(MprotectFlags::READ | MprotectFlags::WRITE);
        guarded
    }

    fn protect(&self, flags: MprotectFlags) {
        // SAFETY: these pages belong to this mapping; no reference into them is alive where this is called.
        unsafe { mprotect(self.start().cast(), self.size(), flags).expect("protection of own pages") }
    }

    /// Bytes between the guards.
    pub fn size(&self) -> usize {
        self.pages * PAGE
    }

    fn start(&self) -> *mut u8 {
        self.mapping.wrapping_add(PAGE)
    }

    /// Address of the first byte.
    pub fn address(&self) -> u64 {
        self.start() as u64
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the pages are mapped, readable and writable (code uses `Code`), and borrowed through `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.size()) }
    }

    /// Puts `content` against a guard: the one behind if `at_end` and the alignment allows it, else the one before.
    /// Returns its offset. The rest gets a pattern.
    pub fn put(&mut self, content: &[u8], at_end: bool, alignment: usize) -> usize {
        let slack = self.size() - content.len();
        let offset = if at_end { slack - slack % alignment } else { 0 };
        let bytes = self.bytes();
        bytes.fill(PATTERN);
        bytes[offset..offset + content.len()].copy_from_slice(content);
        offset
    }

    /// Takes the content back, and says whether the pattern around it is whole.
    pub fn take(&mut self, offset: usize, content: &mut [u8]) -> bool {
        let bytes = self.bytes();
        let end = offset + content.len();
        content.copy_from_slice(&bytes[offset..end]);
        let pattern = [PATTERN; PAGE];
        let whole = |bytes: &[u8]| bytes.chunks(PAGE).all(|chunk| *chunk == pattern[..chunk.len()]);
        whole(&bytes[..offset]) && whole(&bytes[end..])
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped; nothing borrows it any more.
        unsafe { munmap(self.mapping.cast(), (self.pages + 2) * PAGE).expect("an own mapping") }
    }
}

/// Pages for code, never writable and executable at once.
pub struct Code {
    pages: Guarded,
}

impl Code {
    /// Pages for at least so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { pages: Guarded::new(bytes) }
    }

    /// Where the code will run.
    pub fn address(&self) -> u64 {
        self.pages.address()
    }

    /// The first bytes of the code.
    pub fn bytes(&self, size: usize) -> &[u8] {
        assert!(size <= self.pages.size());
        // SAFETY: the pages are mapped and readable, and change only through `write`, which borrows them mutably.
        unsafe { std::slice::from_raw_parts(self.pages.start(), size) }
    }

    /// Lets `write` fill the pages, then makes them executable.
    pub fn write<T>(&mut self, write: impl FnOnce(&mut [u8]) -> T) -> T {
        self.pages.protect(MprotectFlags::READ | MprotectFlags::WRITE);
        let bytes = self.pages.bytes();
        bytes.fill(0xcc);
        let result = write(bytes);
        self.pages.protect(MprotectFlags::READ | MprotectFlags::EXEC);
        result
    }

    /// Calls the code with a record, and raises an alarm if it does not end.
    ///
    /// # Safety
    /// As for [`Code::call`].
    pub unsafe fn call_watched(&self, record: *mut downloaded_code::invocation::Invocation) -> u64 {
        // SAFETY: an alarm touches no memory; the call is the caller's promise.
        unsafe {
            libc::alarm(MOST_SECONDS);
            let result = self.call(record);
            libc::alarm(0);
            result
        }
    }

    /// Calls the code with a record. Returns r0 if it finished.
    ///
    /// # Safety
    /// The code is what the compiler made, and the record agrees with its context.
    #[inline]
    pub unsafe fn call(&self, record: *mut downloaded_code::invocation::Invocation) -> u64 {
        type Entry = unsafe extern "sysv64" fn(*mut downloaded_code::invocation::Invocation) -> u64;
        // SAFETY: the pages start with code of this signature, by the caller's promise.
        let entry: Entry = unsafe { std::mem::transmute(self.pages.start()) };
        // SAFETY: as above; the record is valid for the call.
        unsafe { entry(record) }
    }
}

extern "C" fn report(signal: i32) {
    let mut text = *b"fault (signal ..) in compiled code, seed ....................\n";
    text[14] = b'0' + (signal / 10) as u8;
    text[15] = b'0' + (signal % 10) as u8;
    let mut rest = CASE.load(Ordering::Relaxed);
    for place in text[41..61].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // SAFETY: write and _exit may be called in a signal handler; the text is valid for its length.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(101);
    }
}

/// Reports faults of compiled code, and code that does not end, with the seed of the case, and fails the process.
pub fn catch_faults() {
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGALRM] {
        let handler: extern "C" fn(i32) = report;
        // SAFETY: the handler only calls functions that are allowed in one.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}
