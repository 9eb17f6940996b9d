//! A program as a child is to find it that executes it, made by its parent (`vfork_deferred`).
//!
//! Areas, the page record and the page table entries are the same each time that a child of a process executes the same
//! file with the same pages. They are made once, and stay in the child's address space from one child to the next
//! (`vm::spawn_cache`). Left to do is to fill the pages that the program may write. Invariant: no template is used for
//! a program whose file has changed, or of which programs touch other pages.

use crate::hw::library_image::copy_pages;
use crate::hw::mapping::{Mapping, Mappings};
use crate::process::current::process;
use crate::process::exec_file::ElfFile;
use crate::process::exec_request::{ExecPlan, ExecRequest};
use crate::process::load_layout::{LoadedLayout, lay_out};
use crate::server::client::PrefaultSet;
use abi::page_table::PAGE;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::Result;
use runtime::lock::Lock;
use runtime::window::WINDOW_PAGES;
use runtime::{KeyIndex, PageNumber};
use vm::address_space::AddressSpace;
use vm::dry_run::DryRun;
use vm::page_record::PageRecord;

/// What pages begin with that nothing is copied into.
pub(in crate::process) static ZEROS: [u8; PAGE_SIZE as usize] = [0; PAGE_SIZE as usize];

/// The program.
#[derive(Clone, Debug)]
pub struct ExecTemplate {
    /// What it was made of: the program, and its interpreter.
    sources: Vec<Arc<ElfFile>>,
    /// Where its stack begins.
    stack: u64,
    /// Its memory.
    pub space: Box<AddressSpace>,
    /// Where everything lies.
    pub layout: LoadedLayout,
    /// Its own pages: address, and the page of a file that it begins as, if it is no page of zeros.
    own: Vec<(u64, Option<PageNumber>)>,
    /// The pages for these, in the same order.
    numbers: Vec<PageNumber>,
    /// Another number whenever they are others; 0: there are none yet.
    generation: u64,
    /// A window onto the pages of files that are copied, in their order.
    originals: Option<Mapping>,
}

impl ExecTemplate {
    /// The program of a request, as a child is to find it: what was prepared before, if it is the same.
    pub(in crate::process) fn prepare(
        request: &ExecRequest,
        before: Option<Box<Self>>,
        windows: &Lock<Mappings>,
    ) -> Option<Box<Self>> {
        let stack = request.stack();
        match before {
            Some(mut prepared) if prepared.is_of(&request.plan, stack) => {
                prepared.renew(&request.plan);
                return Some(prepared);
            }
            Some(mut other) => other.look_away(&mut windows.lock()),
            None => {}
        }
        Self::new(&request.plan, stack).map(Box::new)
    }

    /// A program whose stack begins at `stack`. Nothing where it cannot be loaded.
    fn new(plan: &ExecPlan, stack: u64) -> Option<Self> {
        let mut space = Box::new(AddressSpace::default());
        space.held = plan.nodes();
        let mut draft = DryRun::default();
        let touched: Vec<Cow<'_, PrefaultSet>> = plan.files().map(|one| Cow::Borrowed(&one.file.touched)).collect();
        let layout = lay_out((&mut space, &mut draft), plan, &touched, stack).ok()?;
        let own = draft.own.into_iter().map(|(address, page)| (address, page.map(PageNumber))).collect();
        let (sources, numbers, generation, originals) = (plan.files().cloned().collect(), Vec::new(), 0, None);
        Some(Self { sources, stack, space, layout, own, numbers, generation, originals }).filter(|_| !draft.is_spoilt)
    }

    /// Whether it is what a plan says.
    fn is_of(&self, plan: &ExecPlan, stack: u64) -> bool {
        let is_same = |(known, planned): (&Arc<ElfFile>, &Arc<ElfFile>)| {
            Arc::ptr_eq(known, planned) || {
                let (before, now) = (&known.file, &planned.file);
                let is_same_file = before.opened.node == now.opened.node && before.touched.pages == now.touched.pages;
                is_same_file && known.image == planned.image
            }
        };
        let count = plan.files().count();
        self.stack == stack && self.sources.len() == count && self.sources.iter().zip(plan.files()).all(is_same)
    }

    /// The files of a plan that says the same are looked at anew.
    fn renew(&mut self, plan: &ExecPlan) {
        self.sources.iter_mut().zip(plan.files()).for_each(|(known, planned)| known.clone_from(planned));
    }

    /// What it was made of.
    pub(in crate::process) fn sources(&self) -> Vec<Arc<ElfFile>> {
        self.sources.clone()
    }

    /// How many pages of its own it begins with.
    pub const fn own(&self) -> usize {
        self.own.len()
    }

    /// What each of these begins as; no page: zeros.
    pub fn begins_as(&self) -> impl Iterator<Item = PageNumber> {
        self.own.iter().map(|(_, page)| page.unwrap_or(PageNumber::NONE))
    }

    /// Gives it these pages, as many as it needs. Where they are others than before it is another
    /// generation; `generations` there were.
    pub fn give(&mut self, pages: &[PageNumber], generations: &mut u64) {
        if self.generation != 0 && self.numbers == pages {
            return;
        }
        for ((address, _), page) in self.own.iter().zip(pages) {
            let entry = self.space.frames.get(*address) & !PAGE | page.address();
            self.space.frames.set(*address, entry);
        }
        *generations += 1;
        (self.numbers, self.generation) = (pages.to_vec(), *generations);
    }

    /// Which generation it is, and what maps it.
    pub fn generation(&self) -> (u64, &PageRecord) {
        (self.generation, &self.space.frames)
    }

    /// Fills the first so many of its own pages, which are mapped from `place` on, if it says so, with what they begin
    /// with.
    ///
    /// # Errors
    /// The kernel's refusals of `page_map`.
    pub fn fill(&mut self, count: usize, place: Option<u64>, key: KeyIndex) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        if self.originals.is_none() {
            let pages: Vec<PageNumber> = self.own.iter().filter_map(|(_, page)| *page).collect();
            if !pages.is_empty() {
                self.originals = Some(process().mappings.lock().open_own(pages, key, false)?);
            }
        }
        let mut original = self.originals.as_ref().map_or(0, Mapping::address);
        let begins_as = self.own.iter().take(count).map(|(_, page)| match page {
            None => ZEROS.as_ptr() as u64,
            Some(_) => {
                original += PAGE_SIZE;
                original - PAGE_SIZE
            }
        });
        let begins_as: Vec<u64> = begins_as.collect();
        let chunks = begins_as.chunks(WINDOW_PAGES).zip(self.numbers[..count].chunks(WINDOW_PAGES));
        for (index, (from, to)) in chunks.enumerate() {
            let place = place.map(|place| place + (index * WINDOW_PAGES) as u64 * PAGE_SIZE);
            copy_pages(from.iter().copied(), to, place, key)?;
        }
        Ok(())
    }

    /// Where its stack begins.
    pub const fn stack(&self) -> u64 {
        self.stack
    }

    /// Closes its window.
    pub fn look_away(&mut self, windows: &mut Mappings) {
        self.originals.take().iter().for_each(|originals| windows.close(originals));
    }
}
