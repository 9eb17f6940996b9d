//! From a machine without owner to the first environment (DESIGN.md §6, "Boot archive").
//!
//! The first environment gets the root key, all budget, one time slice on CPU 0, the boot archive read-only, and the
//! program `init` from it. Its pages lie under one access list that names the root.

use crate::access_list::AccessList;
use crate::archive::{self, Program, Segment};
use crate::channel;
use crate::device;
use crate::environment::Environment;
use crate::free_list;
use crate::kernel::{self, Kernel};
use crate::{budget, interface, interrupt, packet_filter, scheduler, storage, system_call};
use abi::boot::{ARCHIVE, AREA, INIT, PRIVATE_PAGES};
use abi::budget::Resource;
use abi::environment::Specification;
use abi::limits::{PAGE_SIZE, SLICES_PER_CPU};
use abi::page::PageKind;
use abi::page_table::{NO_EXECUTE, PRESENT, WRITE};
use abi::{EnvironmentId, PageNumber};
use core::sync::atomic::Ordering;
use machine::boot::Boot;
use machine::entry::{self, Handlers};
use machine::page_table::{WalkError, walk};
use machine::{exposed, log, memory, processor_start, stop};

static HANDLERS: Handlers = Handlers {
    system_calls: system_call::SYSTEM_CALLS,
    interrupt: interrupt::while_running,
    interrupt_while_idle: interrupt::while_idle,
    upcall_failed: interrupt::upcall_failed,
};

/// Starts the kernel on the bootstrap CPU, which then runs the first environment.
pub fn start(mut boot: Boot) -> ! {
    let cpus = boot.cpus;
    let network = packet_filter::prepare(&mut boot);
    let storage = storage::prepare(&mut boot);
    let memory = machine::handover::hand_over(&mut boot, cpus);
    kernel::make(memory, network, storage);
    let mut kernel = kernel::lock();
    // Slot 0 comes last: its first number is one generation later, so that numbers begin with 1.
    let slots = exposed::environments().len();
    (1..slots).chain([0]).for_each(|slot| kernel.give_slot(Environment::in_slot(slot)));
    entry::install(&HANDLERS);
    let archive = boot.archive_bytes();
    let Some(init) = archive::find(archive, INIT) else {
        stop::boot_failure("the boot archive has no program `init`: give one with -initrd");
    };
    let program = Program::new(init.bytes).unwrap_or_else(|why| refuse(why));
    FirstEnvironment::make(&mut kernel, &program, boot.archive());
    device::expose(&boot);
    interface::expose();
    storage::expose(&kernel);
    channel::poll(&mut kernel);
    drop(kernel);
    processor_start::release(cpus);
    machine::clock::note_boot_ended();
    entry::boot_ended();
    scheduler::schedule()
}

/// Starts the kernel on another CPU.
pub fn start_secondary() -> ! {
    entry::boot_ended();
    scheduler::schedule()
}

fn refuse(why: &str) -> ! {
    stop::boot_failure(format_args!("the program `init` of the boot archive cannot be run: {why}"))
}

/// The first environment died: no environment is left to report to, so the machine stops.
pub(crate) fn first_environment_died(environment: Environment) {
    let info = environment.info();
    let word = |word: &core::sync::atomic::AtomicU64| word.load(Ordering::Relaxed);
    log!(
        "the first environment died: reason {}, upcall kind {}, address {:#x}, rip {:#x}",
        word(&info.death_reason),
        word(&info.death_kind),
        word(&info.death_address),
        word(&info.death_rip)
    );
    stop::in_order()
}

/// The making of the first environment.
struct FirstEnvironment<'a> {
    kernel: &'a mut Kernel,
    environment: Environment,
    list: PageNumber,
    root: PageNumber,
}

impl<'a> FirstEnvironment<'a> {
    fn make(kernel: &'a mut Kernel, program: &Program, archive: core::ops::Range<u64>) {
        let environment = kernel.take_slot();
        give_budget(environment);
        let mut making = Self { kernel, environment, list: PageNumber::NONE, root: PageNumber::NONE };
        making.list = making.page();
        making.kernel.set_access_list(making.list, None);
        let list = AccessList::of(capability::root());
        making.kernel.memory.create(making.list, PageKind::AccessList, list);
        making.kernel.set_access_list(making.list, Some(making.list));
        making.root = making.page();
        making.kernel.memory.create_table(making.root, machine::page_table::ROOT_LEVEL);
        for segment in program.segments() {
            let segment = segment.unwrap_or_else(|why| refuse(why));
            making.load(&segment);
        }
        making.map_archive(archive);
        making.finish(program.entry);
    }

    /// A fresh page of the first environment's.
    fn page(&mut self) -> PageNumber {
        let Some(page) = free_list::first(&exposed::kernel().first_free_page) else {
            stop::boot_failure("too little memory for the first environment: give the machine more");
        };
        self.kernel.give_page(page, self.environment, self.list);
        page
    }

    /// Loads a segment page by page; pages that two segments share are filled by both.
    fn load(&mut self, segment: &Segment) {
        let first = segment.address & !(PAGE_SIZE - 1);
        let end = segment.address + segment.memory;
        for address in (first..end).step_by(PAGE_SIZE as usize) {
            let page = self.mapped_page(address, segment);
            let from = address.max(segment.address);
            let in_file = (from - segment.address) as usize;
            let bytes = segment.bytes.get(in_file..).unwrap_or(&[]);
            let room = (PAGE_SIZE - (from - address)) as usize;
            let bytes = &bytes[..bytes.len().min(room)];
            self.kernel.memory.fill(page, (from - address) as usize, bytes);
        }
    }

    /// The page at an address, mapped with at least the rights of a segment.
    fn mapped_page(&mut self, address: u64, segment: &Segment) -> PageNumber {
        let old = walk(self.root, address, 1).map_or(0, |walk| walk.slot.entry());
        let page = if old & PRESENT != 0 { machine::page_table::page_of(old) } else { self.page() };
        let write = if segment.write { WRITE } else { old & WRITE };
        let no_execute = if segment.execute || (old & PRESENT != 0 && old & NO_EXECUTE == 0) { 0 } else { NO_EXECUTE };
        self.map(address, page, write | no_execute);
        page
    }

    /// Maps a page, with the tables that it takes.
    fn map(&mut self, address: u64, page: PageNumber, rights: u64) {
        loop {
            match walk(self.root, address, 1) {
                Ok(found) => {
                    let entry = page.address() | PRESENT | rights;
                    self.kernel.memory.set_leaf(found.slot, entry);
                    return;
                }
                Err(WalkError::Missing(level)) => {
                    let table = self.page();
                    self.kernel.memory.create_table(table, level);
                    let slot = walk(self.root, address, level + 1).expect("the level above was not missing").slot;
                    self.kernel.memory.link(slot, table);
                }
                Err(WalkError::Large(_)) => unreachable!("the boot maps no large pages for programs"),
            }
        }
    }

    fn map_archive(&mut self, archive: core::ops::Range<u64>) {
        let first = archive.start / PAGE_SIZE;
        for page in first..archive.end.div_ceil(PAGE_SIZE) {
            let number = PageNumber(page);
            self.kernel.adopt_page(number, self.environment, self.list);
            let address = ARCHIVE + (page - first) * PAGE_SIZE;
            self.map(address, number, NO_EXECUTE);
        }
    }

    /// Makes the area and the environment, and gives it its slice.
    fn finish(&mut self, entry: u64) {
        let mut wanted = Specification {
            control: self.page().0,
            key_ring: self.page().0,
            public: self.page().0,
            root: self.root.0,
            area: AREA,
            private_count: PRIVATE_PAGES as u64,
            ..Specification::default()
        };
        self.map(AREA, PageNumber(wanted.public), WRITE | NO_EXECUTE);
        for index in 0..PRIVATE_PAGES {
            let page = self.page();
            wanted.private[index] = page.0;
            self.map(AREA + (index as u64 + 1) * PAGE_SIZE, page, WRITE | NO_EXECUTE);
        }
        let environment = self.environment;
        self.kernel.make_area(&wanted);
        self.kernel.build_environment(environment, None, capability::root(), &wanted);
        let words = self.kernel.context_of(environment).private_words();
        words.slice_start_entry.store(entry, Ordering::Relaxed);
        let slice = &exposed::slices(0)[0];
        slice.owner.store(environment.number().0, Ordering::Relaxed);
        slice.runner.store(environment.number().0, Ordering::Release);
        self.kernel.processors[0].vector.allocate(0);
        budget::charge(environment, Resource::Slice, 1);
    }
}

/// How many times what there is the limits of all environments may come to, in pages: who uses less than its limit
/// leaves the rest to others. What an environment must be sure of is its reservation.
const PAGE_LIMIT_FACTOR: u64 = 2;

/// All that there is, and the right to promise more of it than that.
fn give_budget(environment: Environment) {
    let kernel = exposed::kernel();
    let pages = kernel.free_pages.load(Ordering::Relaxed) + kernel.owned_pages.load(Ordering::Relaxed);
    let slices = (exposed::cpu_count() * SLICES_PER_CPU) as u64;
    environment.budget(Resource::Page).reserved.store(pages, Ordering::Relaxed);
    kernel.reserved_pages.store(pages, Ordering::Release);
    let limits = [
        (Resource::Page, PAGE_LIMIT_FACTOR * pages),
        (Resource::Slice, slices),
        (Resource::Filter, exposed::filters().len() as u64),
        (Resource::Predicate, u64::from(u32::MAX)),
        (Resource::Pin, u64::from(u32::MAX)),
        (Resource::Environment, exposed::environments().len() as u64),
    ];
    for (resource, limit) in limits {
        environment.budget(resource).limit.store(limit, Ordering::Relaxed);
    }
    assert_eq!(environment.number(), EnvironmentId(1), "the first environment has number 1");
    assert!(memory::info(PageNumber(0)).is_some());
}
