//! Answer to a revocation: what a process gives up when the kernel, or its creator, asks for pages.
//!
//! The order is that of the cost to have them again, the cheapest first. Pages kept for the next pipe and the next
//! threads go first. Then go pages at hand for the next program, the spawn cache and the free end of ExOS's heap.
//! Memory that the program gave up itself (`MADV_FREE`) goes last. Pages of files are the server's: to unmap them frees
//! none.
//!
//! A request stays open in the exposed record until it is answered whole. While it is open, the process looks at it
//! again at the end of each slice and after each `MADV_FREE`. Where a call of the program uses much of ExOS's stack,
//! the process looks at the end of that call.

use super::process_record::Process;
use super::thread::thread_create;
use crate::descriptor::exported_pages;
use crate::process::current::{process, thread};
use abi::budget::Resource;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use runtime::area::Area;
use runtime::page::Allocator;
use runtime::upcall::Context;
use runtime::{area, exposed, heap};

/// Bytes of the stack that must be left.
const STACK: u64 = 16 << 10;

/// Pages that are discarded where a fault finds none.
const FOR_A_FAULT: usize = 64;

/// Handles the upcall. Where the stack has no room, the end of the call answers.
pub extern "C" fn revoked(_: &mut Context) {
    if has_room() {
        answer_open();
    } else {
        process().signal.page.questions().store(1, SeqCst);
    }
}

/// Gives up what is still asked of the running environment, as far as the process has it now.
pub fn answer_open() {
    match pages_asked() {
        0 => {}
        pages if has_room() => process().give_up_pages(pages),
        _ => {}
    }
}

/// Pages that an open request asks of the running environment.
fn pages_asked() -> u64 {
    let asked = exposed::environment(area::number())
        .map(|own| own.consistent(|own| (own.revocation_resource.load(Relaxed), own.revocation_count.load(Relaxed))));
    asked.map_or(0, |(resource, count)| if resource == Resource::Page as u64 + 1 { count } else { 0 })
}

fn has_room() -> bool {
    let marker = 0u8;
    let place = &raw const marker as u64;
    let lowest = Area::current().address() + runtime::layout::UPCALL_GUARD;
    place.wrapping_sub(lowest) > STACK
}

/// Pages that are charged to the running environment.
fn used() -> u64 {
    exposed::environment(area::number()).map_or(0, |own| own.budget[Resource::Page as usize].used.load(Relaxed))
}

impl Process {
    /// Gives up so many pages, as far as there are any, and their budget.
    fn give_up_pages(&self, pages: u64) {
        let wanted = used().saturating_sub(pages);
        let steps: [fn(&Self, u64); 6] = [
            |_, _| exported_pages::give_up_spare(),
            |_, _| thread_create::free_kept(),
            |own, _| own.with_memory(|_, pages| pages.give_up_at_hand()),
            |own, _| own.give_up_spawn_cache(),
            |_, _| _ = heap::release_end(),
            |own, missing| _ = own.with_memory(|space, pages| space.discard(pages, missing as usize)),
        ];
        for step in steps {
            let missing = used().saturating_sub(wanted);
            if missing == 0 {
                break;
            }
            step(self, missing);
        }
        crate::budget::give_back();
    }

    /// Gives up some memory that the program does not need, so that a fault finds a page; whether there was any.
    #[cold]
    pub fn discard_some(&self) -> bool {
        self.with_memory(|space, pages| space.discard(pages, FOR_A_FAULT)) > 0
    }

    /// The spawn cache, unless a child is being made of it.
    fn give_up_spawn_cache(&self) {
        let is_busy = self.spawn_cache.lock().is_busy;
        if !is_busy && self.is_first(thread()) {
            self.empty_nursery();
            let copies = core::mem::take(&mut *self.heap_pages.lock());
            Allocator::own().free_many(&copies);
        }
    }
}
