//! Two library operating systems side by side in one machine: `app/tiny` and ExOS, each with a third of all pages,
//! slices and whatever else has a budget (DESIGN.md §1).
//!
//! Neither knows of the other; both are children of this program. Twenty times tiny is killed while ExOS runs, and
//! twenty times ExOS while tiny runs, at random points; the survivor says what it always says. The output of the
//! system that will be killed is kept from standard output. So what comes there is whole transcripts of the
//! survivors, one after the other.

#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use abi::boot::{ARCHIVE, COMMAND};
use abi::budget::Resource;
use abi::limits::PAGE_SIZE;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use runtime::address_space::Access;
use runtime::archive::{self, Archive};
use runtime::environment::{Builder, Child};
use runtime::image::Image;
use runtime::page::Allocator;
use runtime::predicate::sleep_until;
use runtime::window::Window;
use runtime::{Failure, KeyIndex, PageNumber, area, clock, entry, error_line, exposed, time_slice};

entry!(main);

/// How often each of them is killed.
const POINTS: u64 = 20;
/// How long a system may take, in nanoseconds.
const LIMIT: u64 = 100_000_000_000;
/// Pages that may be gone in the end: the own heap and page tables have grown.
const GROWTH: u64 = 256;
const SEED: u64 = 0x51de_b751de;
/// Where ExOS's command sends its output, and where it sends it when ExOS will be killed.
const TO_OUTPUT: &[u8] = b">&1";
const TO_ERROR: &[u8] = b">&2";

/// A system that can be started.
struct System {
    name: &'static str,
    image: Image<'static>,
    archive: &'static [u8],
    /// A system whose output is kept from standard output gets these pages in place of some of its archive.
    aside: Vec<(u64, PageNumber)>,
}

fn main() -> u32 {
    entry::status_of(run())
}

fn run() -> Result<(), String> {
    let tiny = System::load("system/tiny", None)?;
    let exos = System::load("system/init", Some(archive::boot_bytes()))?;
    let shares = thirds();
    let mut random = Random(SEED);
    let free = || exposed::kernel().free_pages.load(Relaxed);
    let mut before = 0;
    for (survivor, victim) in [(&exos, &tiny), (&tiny, &exos)] {
        // Undisturbed first: how long do they take together?
        let took = duel(survivor, victim, &shares, None)?;
        before = if before == 0 { free() } else { before };
        for point in 0..POINTS {
            let after = random.below(took);
            duel(survivor, victim, &shares, Some(after)).map_err(|why| {
                format!("seed {SEED:#x}, point {point}, {} killed after {after} ns: {why}", victim.name)
            })?;
        }
    }
    if free() + GROWTH < before {
        return Err(format!("{before} free pages became {}", free()));
    }
    error_line!("{before} pages were free after the first two, {} in the end", free());
    Ok(())
}

/// Starts both. Without a time to kill the victim both come to their end; the result is how long that took.
fn duel(survivor: &System, victim: &System, shares: &Shares, kill: Option<u64>) -> Result<u64, String> {
    let begun = clock::now();
    let first = survivor.start(true, shares).map_err(|why| survivor.explain(why))?;
    let second = victim.start(false, shares).map_err(|why| victim.explain(why))?;
    match kill {
        Some(after) => sleep_until(begun + after),
        None => victim.finish(&second)?,
    }
    second.destroy().map_err(|why| victim.explain(why))?;
    survivor.finish(&first)?;
    let took = clock::now() - begun;
    first.destroy().map_err(|why| survivor.explain(why))?;
    Ok(took)
}

impl System {
    /// Loads the program in the archive that is this file of the boot archive. The system sees that archive, or
    /// another.
    fn load(name: &'static str, other: Option<&'static [u8]>) -> Result<Self, String> {
        let missing = || format!("the boot archive has no {name}");
        let inner = archive::boot().find(name).ok_or_else(missing)?.data;
        let image = Image::init_of(Archive::new(inner), Allocator::own());
        let image = image.map_err(|error| format!("{name}: {error}"))?;
        let aside = if other.is_some() { command_aside()? } else { Vec::new() };
        Ok(Self { name, image, archive: other.unwrap_or(inner), aside })
    }

    fn start(&self, aloud: bool, shares: &Shares) -> Result<Child, Failure> {
        let mut builder = Builder::new()?;
        builder.program(&self.image)?.archive(self.archive)?;
        if !aloud {
            for (address, page) in &self.aside {
                builder.show(*address, &[*page], Access::READ)?;
            }
            if self.aside.is_empty() {
                builder.silent();
            }
        }
        for (resource, share) in shares {
            builder.budget(*resource, *share);
        }
        let child = builder.create()?;
        child.run(0, time_slice::ANY_POSITION)?;
        Ok(child)
    }

    fn finish(&self, child: &Child) -> Result<(), String> {
        let ended = child.wait(clock::now() + LIMIT);
        match child.status() {
            Some(0) if ended => Ok(()),
            status if ended => Err(format!("{} ended with status {status:?}", self.name)),
            _ => Err(format!("{} does not end", self.name)),
        }
    }

    fn explain(&self, why: Failure) -> String {
        format!("{}: {} ({why:?})", self.name, why.error.text())
    }
}

type Shares = Vec<(Resource, u64)>;

/// A third of everything that the machine has.
fn thirds() -> Shares {
    let info = exposed::environment(area::number());
    let limit = |resource: Resource| info.map_or(0, |info| info.budget[resource as usize].limit.load(Relaxed));
    Resource::ALL.into_iter().map(|resource| (resource, limit(resource) / 3)).collect()
}

/// Copies of the pages of the archive in which the command of ExOS stands, with its output sent to standard error.
fn command_aside() -> Result<Vec<(u64, PageNumber)>, String> {
    let whole = archive::boot_bytes();
    let command = archive::boot().find(COMMAND).ok_or("the boot archive has no command")?.data;
    let start = command.as_ptr() as usize - whole.as_ptr() as usize;
    let mut bytes = command.to_vec();
    let places = (0..bytes.len().saturating_sub(TO_OUTPUT.len())).filter(|at| command[*at..].starts_with(TO_OUTPUT));
    places.for_each(|at| bytes[at..at + TO_ERROR.len()].copy_from_slice(TO_ERROR));
    let mut changed = Vec::new();
    let page_size = PAGE_SIZE as usize;
    for page in start / page_size..=(start + bytes.len() - 1) / page_size {
        let mut copy = whole[page * page_size..].iter().take(page_size).copied().collect::<Vec<u8>>();
        for (index, byte) in copy.iter_mut().enumerate() {
            let at = page * page_size + index;
            *byte = at.checked_sub(start).and_then(|at| bytes.get(at)).copied().unwrap_or(*byte);
        }
        let fresh = copy_into_page(&copy).map_err(|why| format!("{why:?}"))?;
        changed.push((ARCHIVE + (page * page_size) as u64, fresh));
    }
    Ok(changed)
}

fn copy_into_page(bytes: &[u8]) -> Result<PageNumber, Failure> {
    let page = Allocator::own().allocate()?;
    Window::open(&[page], KeyIndex::FIRST, Access::WRITE)?.write(0, bytes);
    Ok(page)
}

/// Random numbers from a seed: xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }
}
