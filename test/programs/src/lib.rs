//! The harness of the guests: named tests, a victim that runs in parallel, and what must hold after each.
//!
//! A guest is the first environment of a machine and holds the root key. A [`Test`] runs in it ([`Place::Here`]) or in
//! a child of its own that holds nothing but what the harness gives it ([`Place::Child`]): that is where evil is done.
//! After each test the kernel must answer, and every page must be accounted for. No entry into the kernel may have been
//! longer than its bound, where the clock counts instructions. The victim, an environment that only computes, must have
//! made progress with its data whole.

#![no_std]

extern crate alloc;

pub mod arrays;
pub mod attackers;
pub mod attempt;
pub mod callee;
pub mod child;
pub mod churn;
pub mod random;
pub mod shadow;
pub mod snapshot;
pub mod victim;
pub mod writer;

use alloc::format;
use alloc::string::String;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use runtime::archive;
use runtime::image::Image;
use runtime::page::{Allocator, PageKind};
use runtime::{EnvironmentId, Error, Failure, PageNumber, area, channel, exposed, syscall};
use victim::Victim;

/// How a test came out: nothing, or why it failed.
pub type Outcome = Result<(), String>;

/// Where a test runs.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// In the first environment, with the root key.
    Here(fn(&World) -> Outcome),
    /// In a child.
    Child(fn() -> Outcome),
}

/// One test.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// What it is called; a row of the fault matrix has its number in it.
    pub name: &'static str,
    /// What it does, and where.
    pub place: Place,
}

/// What tests in the first environment find around themselves.
#[derive(Debug)]
pub struct World {
    /// This very program, to be run by children.
    pub image: Image<'static>,
    /// The environment that must not be disturbed.
    pub victim: Victim,
    /// Pages that the machine has.
    pub all_pages: u64,
    /// All tests of this guest: a child finds its own by index.
    pub tests: &'static [Test],
    /// Whether ticks are instructions of the one CPU: only then do they say something exact.
    pub counting: bool,
}

/// Fails the test with a reason unless the condition holds.
#[macro_export]
macro_rules! check {
    ($condition:expr, $($reason:tt)+) => {
        if !$condition {
            return Err($crate::reason(format_args!($($reason)+), line!()));
        }
    };
}

/// Fails the test unless the call is refused with this error.
#[macro_export]
macro_rules! refused {
    ($call:expr, $error:ident) => {
        match $call {
            Err(failure) if failure.error == abi::Error::$error => {}
            other => {
                let what = stringify!($call);
                return Err($crate::reason(format_args!("{what} gave {other:?}, not {}", stringify!($error)), line!()));
            }
        }
    };
}

/// The value of a call that must not be refused.
#[macro_export]
macro_rules! granted {
    ($call:expr) => {
        match $call {
            Ok(value) => value,
            Err(failure) => {
                return Err($crate::reason(format_args!("{} gave {failure:?}", stringify!($call)), line!()));
            }
        }
    };
}

/// Text and the line it is about.
pub fn reason(text: core::fmt::Arguments<'_>, line: u32) -> String {
    format!("line {line}: {text}")
}

/// Makes a table of tests the program of a guest.
#[macro_export]
macro_rules! guest {
    ($($place:ident $name:ident;)*) => {
        static TESTS: &[$crate::Test] =
            &[$($crate::Test { name: stringify!($name), place: $crate::Place::$place($name) },)*];

        fn main() -> u32 {
            $crate::run(TESTS)
        }

        runtime::entry!(main);
    };
}

/// Runs every test; the exit status is the number of those that failed, at most 100.
pub fn run(tests: &'static [Test]) -> u32 {
    let world = match World::new(tests) {
        Ok(world) => world,
        Err(why) => {
            channel::test_result("harness", false, &why);
            return 100;
        }
    };
    let mut failed = 0;
    for (index, test) in tests.iter().enumerate() {
        let outcome = world.run(index, test).and_then(|()| world.still_whole());
        let detail = outcome.as_ref().err().map_or("", String::as_str);
        channel::test_result(test.name, outcome.is_ok(), detail);
        failed += u32::from(outcome.is_err());
    }
    if world.counting {
        let (longest, call) = longest_entry();
        channel::measurement(&format!("longest kernel entry, of call {call:#x}"), longest, "instructions");
    }
    failed.min(100)
}

impl World {
    fn new(tests: &'static [Test]) -> Result<Self, String> {
        let file = archive::boot().find(abi::boot::INIT).ok_or("the boot archive holds no init")?;
        let image =
            Image::load(file.data, Allocator::own()).map_err(|error| format!("loading this program: {error}"))?;
        let victim = Victim::start(&image, tests).map_err(|failure| format!("starting the victim: {failure:?}"))?;
        let all_pages = (0..exposed::kernel().pages.load(Relaxed))
            .filter_map(|number| exposed::page(abi::PageNumber(number)))
            .filter(|page| page.kind() != PageKind::Absent)
            .count() as u64;
        let counting = is_counting() && exposed::kernel().cpus.load(Relaxed) == 1;
        Ok(Self { image, victim, all_pages, tests, counting })
    }

    fn run(&self, index: usize, test: &Test) -> Outcome {
        match test.place {
            Place::Here(body) => body(self),
            Place::Child(_) => child::run_test(self, index),
        }
    }

    /// What must hold after every test.
    pub fn still_whole(&self) -> Outcome {
        syscall::null().map_err(|failure| format!("the kernel does not answer: {failure:?}"))?;
        self.pages_add_up()?;
        self.no_entry_took_too_long()?;
        self.victim.check()
    }

    /// No entry into the kernel so far took more instructions than it may; it says which call.
    fn no_entry_took_too_long(&self) -> Outcome {
        let (longest, call) = longest_entry();
        let may = abi::limits::ENTRY_INSTRUCTIONS;
        check!(
            !self.counting || (1..=may).contains(&longest),
            "an entry of call {call:#x} took {longest} instructions"
        );
        Ok(())
    }

    /// The kernel's counts of owned, orphan, free, cached and kernel pages are what the page array says, page by page,
    /// and no count would have gone below zero. Where the counts move meanwhile, because another environment runs, the
    /// pages are counted again.
    pub fn pages_add_up(&self) -> Outcome {
        let miscounts = exposed::kernel().miscounts.load(Relaxed);
        check!(miscounts == 0, "{miscounts} counts of the kernel would have gone below zero");
        let mut differences = String::new();
        for _ in 0..RECOUNTS {
            let (before, counted, after) = (page_counts(), recount(exposed::kernel()), page_counts());
            let sum: u64 = counted.iter().sum();
            check!(sum == self.all_pages, "pages {counted:?} add up to {sum}, the machine has {}", self.all_pages);
            if before == counted && counted == after {
                return Ok(());
            }
            differences = format!("the kernel counts {before:?}, then {after:?}; its page array has {counted:?}");
        }
        Err(differences)
    }
}

/// How often pages are counted while the counts move.
const RECOUNTS: usize = 50;

/// The kernel's own counts: owned, orphan, free, cached, kernel.
fn page_counts() -> [u64; 5] {
    let kernel = exposed::kernel();
    [&kernel.owned_pages, &kernel.orphan_pages, &kernel.free_pages, &kernel.cached_pages, &kernel.kernel_pages]
        .map(|count| count.load(Acquire))
}

/// The same five, from what the page array says of each page.
fn recount(kernel: &abi::exposed::KernelInfo) -> [u64; 5] {
    let mut counts = [0; 5];
    for page in (0..kernel.pages.load(Relaxed)).filter_map(|number| exposed::page(PageNumber(number))) {
        let class = match page.kind() {
            PageKind::Absent => continue,
            PageKind::Free => 2,
            _ if page.is_orphan() => 1,
            _ if page.owner() != EnvironmentId::NONE => 0,
            _ => 4,
        };
        counts[class] += 1;
    }
    counts
}

/// The level-1 table of the own address space for an address, one of the own pages.
///
/// # Errors
/// `NotMapped` where none is.
pub fn level_one_of(address: u64) -> Result<PageNumber, Failure> {
    let own = exposed::environment(area::number()).ok_or(Error::NoSuchEnvironment.about(0))?;
    let found = own.pages().find(|page| leads_to(*page, address));
    found.ok_or(Error::NotMapped.about(1))
}

fn leads_to(table: PageNumber, address: u64) -> bool {
    let Some(info) = exposed::page(table).filter(|info| info.kind() == PageKind::PageTable && info.level() == 1) else {
        return false;
    };
    let mut parent = info.parent();
    for level in 2..=4 {
        let Some((page, index)) = parent else { return false };
        if index != address >> (12 + 9 * (level - 1)) & 511 {
            return false;
        }
        parent = exposed::page(page).and_then(exposed::Page::parent);
    }
    true
}

/// The first page of 2 MiB that are free.
pub fn free_large_page() -> Option<PageNumber> {
    let is_free = |start: u64| {
        (start..start + 512)
            .all(|page| exposed::page(PageNumber(page)).is_some_and(|info| info.kind() == PageKind::Free))
    };
    let last = exposed::kernel().pages.load(Relaxed) / 512;
    (0..last).rev().map(|chunk| chunk * 512).find(|start| is_free(*start)).map(PageNumber)
}

/// Whether the machine's clock counts instructions: a loop of 20,000 takes as many ticks. Only then do times say
/// something exact, however busy the host is.
pub fn is_counting() -> bool {
    (0..3).all(|_| {
        let before = runtime::clock::ticks();
        // SAFETY: the loop changes rcx only.
        unsafe { core::arch::asm!("mov ecx, 10000", "2:", "dec ecx", "jnz 2b", out("ecx") _, options(nostack)) };
        (20_000..20_020).contains(&(runtime::clock::ticks() - before))
    })
}

/// Ticks of the longest entry into the kernel so far, and the number of its call, or 0x100 and its vector.
fn longest_entry() -> (u64, u64) {
    let kernel = exposed::kernel();
    (kernel.longest_entry.load(Relaxed), kernel.longest_entry_call.load(Relaxed))
}
