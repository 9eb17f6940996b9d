//! Making environments, and ending them.
//!
//! A [`Builder`] allocates the pages of a new environment, puts a program into its address space, and fills in the
//! words of its area. Then it creates the environment, and gives it budgets, keys and slices. The pages stay charged to
//! the creator. The environment has a key of its own, whose name is longer than its creator's, and an access list under
//! that name. Its page-table root is under that list: there it finds the list. [`Child::destroy`] ends it and takes
//! every page back.

extern crate alloc;

use crate::address_space::{Access, AddressSpace};
use crate::area::{self, LIBRARY, LibraryWords};
use crate::image::Image;
use crate::layout::{AREA, UPCALL_GUARD, area_at, area_index, stack_end};
use crate::page::{self, Allocator};
use crate::window::Window;
use crate::{archive, exposed, heap, key, syscall, time_slice};
use abi::area::PrivateWords;
use abi::boot::ARCHIVE;
use abi::budget::{Figure, Resource};
use abi::capability::{DEVICE, HOST_CHANNEL, Rights};
pub use abi::environment::{DeathReason, EnvironmentInfo, Specification, State};
use abi::limits::{PAGE_SIZE, PRIVATE_PAGES};
use abi::page::PageKind;
use abi::page_table::{LARGE, PAGE, PRESENT};
use abi::{EnvironmentId, Error, Failure, KeyIndex, PageNumber, UserAddress};
use alloc::vec;
use alloc::vec::Vec;
use core::mem::offset_of;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

/// Slot of a child's ring in which the runtime puts its key for the host channel.
pub const CHANNEL_SLOT: KeyIndex = KeyIndex(2);
/// Pages of a child's private part, unless told otherwise.
pub const PRIVATE_COUNT: usize = 7;
/// Pages of a child's stack, unless told otherwise.
const STACK_COUNT: usize = 8;

/// An environment in the making. Dropped before it is created, it leaves nothing behind.
#[derive(Debug)]
pub struct Builder {
    /// Key of the new environment, in the creator's ring.
    pub key: KeyIndex,
    /// Its access list.
    pub pages: Allocator,
    /// Generation of that list: the environment may free it, and another list may be made of the page.
    generation: u64,
    /// Its address space.
    pub space: AddressSpace,
    area: u64,
    shares_address_space: bool,
    private: Vec<PageNumber>,
    fixed: [PageNumber; 3],
    /// Of one that shares the address space; the list finds the others again.
    stack: Vec<PageNumber>,
    stack_count: usize,
    entry: u64,
    words: Vec<(u64, u64)>,
    budgets: Vec<(Resource, u64)>,
    channel: bool,
    /// What it holds is an environment's by now.
    created: bool,
}

impl Builder {
    /// One with an address space of its own.
    ///
    /// # Errors
    /// The kernel's refusals; `TooMany` where the own key ring is full.
    pub fn new() -> Result<Self, Failure> {
        let key = key::derive(KeyIndex::FIRST, Rights::ALL, 0)?;
        match new_address_space(key) {
            Ok((pages, space)) => Self::with(key, pages, space, AREA, false),
            Err(failure) => key::discard(key).and(Err(failure)),
        }
    }

    /// One that shares the creator's address space, heap and image: another thread, that can run at the same time.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn sharing() -> Result<Self, Failure> {
        let key = key::derive(KeyIndex::FIRST, Rights::ALL, 0)?;
        match heap::reserve_area() {
            Ok(index) => Self::with(key, Allocator::own(), crate::address_space::own(), area_at(index), true),
            Err(failure) => key::discard(key).and(Err(failure)),
        }
    }

    fn with(key: KeyIndex, pages: Allocator, space: AddressSpace, area: u64, shared: bool) -> Result<Self, Failure> {
        let budgets = vec![(Resource::Slice, 1), (Resource::Predicate, 8)];
        let mut builder = Self {
            key,
            pages,
            generation: generation(pages.list),
            space,
            area,
            shares_address_space: shared,
            private: Vec::new(),
            fixed: [PageNumber::NONE; 3],
            stack: Vec::new(),
            stack_count: STACK_COUNT,
            entry: 0,
            words: Vec::new(),
            budgets,
            channel: true,
            created: false,
        };
        let (mut private, mut fixed) = (vec![PageNumber::NONE; PRIVATE_COUNT], builder.fixed);
        Allocator::own().allocate_many(&mut private)?;
        builder.private = private;
        Allocator::own().allocate_many(&mut fixed)?;
        builder.fixed = fixed;
        Ok(builder)
    }

    /// Gives it a stack of so many pages.
    pub const fn stack(&mut self, pages: usize) -> &mut Self {
        self.stack_count = pages;
        self
    }

    /// Puts a program into the address space: it begins at its entry.
    ///
    /// # Errors
    /// As for [`Image::map_into`].
    pub fn program(&mut self, image: &Image<'_>) -> Result<&mut Self, Failure> {
        image.map_into(&self.space, self.pages)?;
        self.entry = image.plan.entry;
        Ok(self)
    }

    /// Begins at another address than the program's entry.
    pub fn entry(&mut self, address: u64) -> &mut Self {
        self.entry = address;
        self
    }

    /// Calls `function` of the image instead of its `main`, with one word.
    pub fn function(&mut self, function: extern "C" fn(u64), argument: u64) -> &mut Self {
        self.library(offset_of!(LibraryWords, start_function), function as usize as u64)
            .library(offset_of!(LibraryWords, start_argument), argument)
    }

    /// Sets a word of the kernel's part of the private page, by its offset in [`PrivateWords`].
    pub fn private_word(&mut self, offset: usize, value: u64) -> &mut Self {
        self.words.push((offset as u64, value));
        self
    }

    /// Sets one of the words that are free for the library OS.
    pub fn free_word(&mut self, index: usize, value: u64) -> &mut Self {
        self.library(offset_of!(LibraryWords, free) + index * 8, value)
    }

    fn library(&mut self, offset: usize, value: u64) -> &mut Self {
        self.private_word(LIBRARY as usize + offset, value)
    }

    /// Takes so much of the creator's budget along; without it one slice and a predicate of eight pages.
    pub fn budget(&mut self, resource: Resource, amount: u64) -> &mut Self {
        self.budgets.retain(|(other, _)| *other != resource);
        self.budgets.push((resource, amount));
        self
    }

    /// Gets no key for the host channel: it stays silent.
    pub fn silent(&mut self) -> &mut Self {
        self.channel = false;
        self
    }

    /// Puts fresh pages into the address space, writable.
    ///
    /// # Errors
    /// As for [`AddressSpace::back_with_fresh_pages`]; `BadAddress` where the address space is the own one.
    pub fn memory(&mut self, address: u64, count: u64) -> Result<&mut Self, Failure> {
        if self.shares_address_space {
            return Err(Error::BadAddress.about(address));
        }
        // SAFETY: it is not the own address space.
        unsafe { self.space.back_with_fresh_pages(address, count) }?;
        Ok(self)
    }

    /// Shows pages of the creator in the address space.
    ///
    /// # Errors
    /// As for [`AddressSpace::edit`]; `BadAddress` where the address space is the own one.
    pub fn show(&mut self, address: u64, pages: &[PageNumber], access: Access) -> Result<&mut Self, Failure> {
        if self.shares_address_space {
            return Err(Error::BadAddress.about(address));
        }
        // SAFETY: it is not the own address space.
        unsafe { self.space.map(address, pages, access) }?;
        Ok(self)
    }

    /// Shows a part of the boot archive, read-only, as if it were the whole; a file of it can be an archive, too. Only
    /// for the first environment, which has the archive.
    ///
    /// # Errors
    /// As for [`Self::show`]; `BadArgument` where the bytes are not of the archive.
    pub fn archive(&mut self, part: &'static [u8]) -> Result<&mut Self, Failure> {
        let whole = archive::boot_bytes().as_ptr_range();
        if !(whole.start..=whole.end).contains(&part.as_ptr()) || part.as_ptr_range().end > whole.end {
            return Err(Error::BadArgument.about(part.as_ptr() as u64));
        }
        let offset = part.as_ptr() as u64 - whole.start as u64;
        let in_page = offset % PAGE_SIZE;
        let count = (in_page + part.len() as u64).div_ceil(PAGE_SIZE);
        let pages: Vec<PageNumber> =
            archive::pages().skip((offset / PAGE_SIZE) as usize).take(count as usize).collect();
        self.show(ARCHIVE, &pages, Access::READ)?;
        let bytes = part.len() as u64;
        Ok(self
            .library(offset_of!(LibraryWords, archive), ARCHIVE + in_page)
            .library(offset_of!(LibraryWords, archive_bytes), bytes))
    }

    /// Creates the environment. It has no slice yet, so that it does not run. Where it cannot be given all that it was
    /// to get, it is gone again.
    ///
    /// # Errors
    /// The kernel's refusals.
    pub fn create(mut self) -> Result<Child, Failure> {
        self.make_stack()?;
        self.fill_words()?;
        self.map_area()?;
        let mut private = [0; PRIVATE_PAGES];
        for (place, page) in private.iter_mut().zip(&self.private) {
            *place = page.0;
        }
        let [control, key_ring, public] = self.fixed.map(|page| page.0);
        let specification = Specification {
            name_key: self.key.0,
            control,
            key_ring,
            public,
            root: self.space.root.0,
            area: self.area,
            private_count: self.private.len() as u64,
            private,
            ..Specification::default()
        };
        let at = UserAddress(&raw const specification as u64);
        // SAFETY: the kernel reads the specification; the private pages are mapped at their place and nowhere else.
        let number = unsafe { syscall::environment_create(KeyIndex::FIRST, at) }?;
        self.created = true;
        let child = Child {
            number,
            key: Some(self.key),
            pages: self.pages,
            generation: self.generation,
            space: self.space,
            kept: [self.fixed.as_slice(), &self.private].concat(),
            stack: core::mem::take(&mut self.stack),
            area: self.area,
            shares_address_space: self.shares_address_space,
        };
        match self.endow(&child) {
            Ok(()) => Ok(child),
            Err(failure) => child.destroy().and(Err(failure)),
        }
    }

    fn make_stack(&mut self) -> Result<(), Failure> {
        let end = stack_end(self.area);
        let mut pages = vec![PageNumber::NONE; self.stack_count];
        self.space.tables.allocate_many(&mut pages)?;
        if self.shares_address_space {
            self.stack = pages.to_vec();
        }
        // SAFETY: the layout keeps this range for the stack of this area, which is new.
        unsafe { self.space.map(end - self.stack_count as u64 * PAGE_SIZE, &pages, Access::WRITE) }?;
        self.library(offset_of!(LibraryWords, start_stack), end);
        Ok(())
    }

    /// Writes the first private page, before it is mapped in its place.
    fn fill_words(&mut self) -> Result<(), Failure> {
        let channel = self.channel && area::channel_key().is_some();
        let keys = 0b11 | u64::from(channel) << CHANNEL_SLOT.0;
        let heap = if self.shares_address_space { heap::address() } else { 0 };
        let entry = if self.shares_address_space { own_entry() } else { self.entry };
        let first = [
            (offset_of!(PrivateWords, slice_start_entry), entry),
            (offset_of!(PrivateWords, critical_section), 1),
            (LIBRARY as usize + offset_of!(LibraryWords, keys), keys),
            (LIBRARY as usize + offset_of!(LibraryWords, heap), heap),
            (LIBRARY as usize + offset_of!(LibraryWords, channel_key), if channel { CHANNEL_SLOT.0 + 1 } else { 0 }),
        ];
        let window = Window::open(&self.private[..1], KeyIndex::FIRST, Access::WRITE)?;
        let given = self.words.iter().map(|(offset, value)| (*offset as usize, *value));
        for (offset, value) in first.into_iter().chain(given) {
            window.words()[offset / 8].store(value, Relaxed);
        }
        Ok(())
    }

    /// All but the lowest page of the upcall stack: see [`crate::layout::UPCALL_GUARD`].
    fn map_area(&self) -> Result<(), Failure> {
        let (below, above) = ([self.fixed[2], self.private[0]], &self.private[2..]);
        // SAFETY: the area is new, and lies where the layout keeps room for it.
        unsafe {
            self.space.map(self.area, &below, Access::WRITE)?;
            self.space.map(self.area + UPCALL_GUARD + PAGE_SIZE, above, Access::WRITE)
        }
    }

    fn leave_shared_address_space(&self) -> Result<(), Failure> {
        match unmap_area(self.area, PRIVATE_COUNT, self.stack.len()) {
            // Whose key takes nothing out of the address space has put nothing in.
            Ok(()) | Err(Failure { error: Error::NotPermitted, .. }) => {
                give_area_back(self.area, &self.stack);
                Ok(())
            }
            refused => refused,
        }
    }

    fn endow(&self, child: &Child) -> Result<(), Failure> {
        for (resource, amount) in &self.budgets {
            child.give(*resource, *amount)?;
        }
        if self.channel
            && let Some(own) = area::channel_key()
        {
            child.grant_channel(own)?;
        }
        Ok(())
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        if self.created {
            return;
        }
        // There is no caller to report a failure to.
        let _ = if self.shares_address_space {
            self.leave_shared_address_space()
        } else {
            unlink_below(self.space.root, self.space.root, ROOT_LEVEL, 0)
                .and_then(|()| reclaim(self.pages, self.generation, self.space.root))
        };
        // Where it had not got them yet the kernel refuses.
        Allocator::own().free_many(&self.fixed);
        Allocator::own().free_many(&self.private);
        let _ = key::discard(self.key);
    }
}

/// An access list whose first entry is the name of a key, and an address space under it.
fn new_address_space(key: KeyIndex) -> Result<(Allocator, AddressSpace), Failure> {
    let own = Allocator::own();
    let list = own.allocate()?;
    let pages = Allocator { key: KeyIndex::FIRST, list };
    let made = page::become_list(KeyIndex::FIRST, list, key).and_then(|()| AddressSpace::create(pages));
    match made {
        Ok(space) => Ok((pages, space)),
        Err(failure) => own.free(list).and(Err(failure)),
    }
}

/// The entry of the own image.
fn own_entry() -> u64 {
    #[cfg(target_os = "none")]
    return crate::entry::_start as *const () as u64;
    #[cfg(not(target_os = "none"))]
    return 0;
}

/// An environment that this one created.
#[derive(Debug)]
pub struct Child {
    /// Its number.
    pub number: EnvironmentId,
    /// Its key, in the own ring, until [`Child::forget_key`].
    pub key: Option<KeyIndex>,
    /// Its access list.
    pub pages: Allocator,
    generation: u64,
    /// Its address space.
    pub space: AddressSpace,
    kept: Vec<PageNumber>,
    stack: Vec<PageNumber>,
    area: u64,
    shares_address_space: bool,
}

impl Child {
    /// Empties the slot of its key in the own ring, which is small: the own first key controls it as well.
    ///
    /// # Errors
    /// The kernel's refusals of `key_drop`.
    pub fn forget_key(&mut self) -> Result<(), Failure> {
        self.key.take().map_or(Ok(()), key::discard)
    }

    /// Moves `amount` of the own budget to it.
    ///
    /// # Errors
    /// The kernel's refusals of `budget_move`.
    pub fn give(&self, resource: Resource, amount: u64) -> Result<(), Failure> {
        let own = area::number();
        syscall::budget_move(KeyIndex::FIRST, own, self.number, resource as u64, Figure::Limit as u64, amount)
    }

    /// Moves `amount` of the own reservation to it: so much it is sure to get, within its budget.
    ///
    /// # Errors
    /// The kernel's refusals of `budget_move`.
    pub fn reserve(&self, resource: Resource, amount: u64) -> Result<(), Failure> {
        let own = area::number();
        syscall::budget_move(KeyIndex::FIRST, own, self.number, resource as u64, Figure::Reserved as u64, amount)
    }

    /// Gives it a time slice at this position of a CPU's vector, or at any; it runs from then on.
    ///
    /// # Errors
    /// The kernel's refusals of `time_slice_allocate`.
    pub fn run(&self, cpu: u64, position: u64) -> Result<u64, Failure> {
        time_slice::allocate(KeyIndex::FIRST, self.number, cpu, position)
    }

    /// Copies a key into a slot of its ring.
    ///
    /// # Errors
    /// The kernel's refusals of `key_copy`.
    pub fn grant(&self, key: KeyIndex, rights: Rights, slot: KeyIndex) -> Result<(), Failure> {
        key::grant(key, rights, self.number, slot)
    }

    /// A key that names the host channel and nothing more, where the own one is the root's.
    fn grant_channel(&self, own: KeyIndex) -> Result<(), Failure> {
        if own != KeyIndex::FIRST {
            return self.grant(own, Rights::ALL, CHANNEL_SLOT);
        }
        let device = key::derive(KeyIndex::FIRST, Rights::ALL, DEVICE)?;
        let channel = key::derive(device, Rights::ALL, HOST_CHANNEL);
        let granted = channel.and_then(|channel| {
            self.grant(channel, Rights::ALL, CHANNEL_SLOT)?;
            key::discard(channel)
        });
        key::discard(device)?;
        granted
    }

    /// Its exposed record, as long as its slot is not used again.
    pub fn info(&self) -> Option<exposed::Environment> {
        exposed::environment(self.number)
    }

    /// Whether it lives.
    pub fn alive(&self) -> bool {
        exposed::lives(self.number)
    }

    /// Looks into its public page.
    ///
    /// # Errors
    /// As for [`Window::open`].
    pub fn public(&self) -> Result<Window, Failure> {
        Window::open(&self.kept[2..3], KeyIndex::FIRST, Access::READ)
    }

    /// The exit status that it left, if it ended by [`crate::entry::exit`].
    pub fn status(&self) -> Option<u32> {
        let window = self.public().ok()?;
        let word = &window.words()[abi::area::PUBLIC_STATUS as usize / 8 + crate::entry::EXIT_WORD];
        word.load(Acquire).checked_sub(1).map(|status| status as u32)
    }

    /// Waits until it is dead or dying, or the time has come; says whether it died.
    pub fn wait(&self, deadline: u64) -> bool {
        use crate::predicate::{Operator, wait_any, word};
        while let Some(info) = self.info().filter(|info| info.alive()) {
            let condition = [word(info.state_word(), Operator::NotEqual, State::Alive as u64)];
            if wait_any(&[&condition], Some(deadline)).is_err() {
                crate::time_slice::yield_now();
            }
            if crate::clock::now() >= deadline {
                return !self.alive();
            }
        }
        true
    }

    /// Ends it and all that it created, whatever they do, and takes back every page that they had.
    ///
    /// # Errors
    /// The kernel's refusals of `environment_destroy`.
    pub fn destroy(self) -> Result<(), Failure> {
        end_all(&[self.number])?;
        if self.shares_address_space {
            unmap_area(self.area, self.kept.len() - 3, self.stack.len())?;
            give_area_back(self.area, &self.stack);
        } else {
            reclaim(self.pages, self.generation, self.space.root)?;
        }
        Allocator::own().free_many(&self.kept);
        self.key.map_or(Ok(()), key::discard)
    }
}

/// Takes an area with so many private pages, and its stack of so many, out of the own address space.
fn unmap_area(area: u64, private: usize, stack: usize) -> Result<(), Failure> {
    let own = crate::address_space::own();
    // SAFETY: the environment that lived there is gone, or was never made.
    unsafe {
        own.unmap(area, 1 + private as u64)?;
        own.unmap(stack_end(area) - stack as u64 * PAGE_SIZE, stack as u64)
    }
}

/// Gives back the place of an area where nothing is mapped any more, and the pages of its stack.
fn give_area_back(area: u64, stack: &[PageNumber]) {
    Allocator::own().free_many(stack);
    heap::release_area(area_index(area));
}

/// Ends environments and all that they created, and frees what they leave to the caller, their heir.
///
/// # Errors
/// The kernel's refusals of `environment_destroy`.
pub fn end_all(numbers: &[EnvironmentId]) -> Result<(), Failure> {
    // What the dead leave is put before this page in the list of the heir. Where no page is free, because the dead
    // have them all, it is the first one there.
    let fresh = Allocator::own().allocate();
    let mark = fresh.or_else(|failure| own_pages().next().ok_or(failure))?;
    numbers.iter().try_for_each(|number| end(*number))?;
    free_inheritance(mark)?;
    if fresh.is_ok() { Allocator::own().free(mark) } else { Ok(()) }
}

/// Destroys an environment and, before it, those that it created. The first call only stops a living one for ever, so
/// that its children can be found. A line of them may be longer than the stack is deep.
fn end(number: EnvironmentId) -> Result<(), Failure> {
    let mut line = vec![number];
    while let Some(last) = line.last().copied() {
        if exposed::lives(last) {
            end_step(last)?;
        }
        match first_child(last) {
            Some(child) => line.push(child),
            None => {
                while !end_step(last)? {}
                line.pop();
            }
        }
    }
    Ok(())
}

/// A step towards the end of an environment; true when it is gone.
fn end_step(number: EnvironmentId) -> Result<bool, Failure> {
    match syscall::environment_destroy(KeyIndex::FIRST, number) {
        Err(Failure { error: Error::Again, .. }) => Ok(false),
        Ok(()) | Err(Failure { error: Error::NoSuchEnvironment, .. }) => Ok(true),
        Err(failure) => Err(failure),
    }
}

/// One of the environments that another has created and that are not gone. That one does not run any more, so that none
/// is added.
fn first_child(number: EnvironmentId) -> Option<EnvironmentId> {
    let slot = exposed::environment(number)?.first_child.load(Acquire) & 0xffff_ffff;
    let child = exposed::environment_slot(slot.checked_sub(1)?)?;
    Some(EnvironmentId(child.number.load(Relaxed)))
}

/// The pages charged to this environment.
fn own_pages() -> impl Iterator<Item = PageNumber> {
    exposed::environment(area::number()).into_iter().flat_map(exposed::Environment::pages)
}

/// Frees what the dead left that the kernel could not free: address spaces that they were building, and access lists
/// that these were under. All of it stands before `mark` in the list of pages; what is under the own list is ours.
fn free_inheritance(mark: PageNumber) -> Result<(), Failure> {
    let own = Allocator::own();
    // A page that is freed may belong to another environment the next moment, and an orphan is freed with its last
    // mapping, in any environment.
    let is_left =
        |info: exposed::Page| info.owner() == area::number() && info.access() != own.list && !info.is_orphan();
    let left = |page: &PageNumber| exposed::page(*page).is_some_and(is_left);
    let pages: Vec<_> = own_pages().take_while(|page| *page != mark).filter(left).collect();
    let is_root = |page: &&PageNumber| {
        exposed::page(**page)
            .is_some_and(|info| info.kind() == PageKind::PageTable && info.level() == ROOT_LEVEL && info.links() == 0)
    };
    // The kernel unlinks the tables below a root that is freed.
    let roots: Vec<_> = pages.iter().filter(is_root).copied().collect();
    own.free_many(&roots);
    own.free_many(&pages);
    let lists: Vec<_> = pages.into_iter().filter(left).collect();
    own.free_many(&lists);
    Ok(())
}

/// Level of the table that is the root of an address space.
const ROOT_LEVEL: u64 = 4;

/// Unlinks every table below `table`, which lies at `address` in an address space in which no environment runs. What a
/// table that others have too leads to is theirs.
fn unlink_below(root: PageNumber, table: PageNumber, level: u64, address: u64) -> Result<(), Failure> {
    let entries: Vec<u64> = {
        let window = Window::open(&[table], KeyIndex::FIRST, Access::READ)?;
        window.words().iter().map(|entry| entry.load(Relaxed)).collect()
    };
    // The upper half of a root is the kernel's.
    let own = if level == ROOT_LEVEL { entries.len() / 2 } else { entries.len() };
    let is_link = |entry: u64| entry & PRESENT != 0 && entry & LARGE == 0;
    for (index, entry) in (0..).zip(&entries[..own]).filter(|(_, entry)| is_link(**entry)) {
        let (below, place) = (PageNumber((entry & PAGE) >> 12), address | index << (12 + 9 * (level - 1)));
        if level > 2 && exposed::page(below).is_some_and(|info| info.links() == 1) {
            unlink_below(root, below, level - 1, place)?;
        }
        loop {
            // SAFETY: nobody runs in this address space, so that nobody's objects lie there.
            match unsafe { syscall::page_table_unlink(KeyIndex::FIRST, root, UserAddress(place), level - 1) } {
                Err(Failure { error: Error::Again, .. }) => {}
                done => break done,
            }
        }?;
    }
    Ok(())
}

/// Frees every page under an access list, then the root of the address space that is under it too, then the list. The
/// environment may have freed or given away each of them. Where the list is gone, nothing is under it.
fn reclaim(pages: Allocator, made: u64, root: PageNumber) -> Result<(), Failure> {
    if generation(pages.list) != made {
        return Ok(());
    }
    let is_under = |info: exposed::Page| info.access() == pages.list && !info.is_orphan();
    // The list tells how many name it; itself is under it too.
    let count = exposed::page(pages.list).map_or(0, exposed::Page::links) as usize + 1;
    let own = exposed::environment(area::number());
    let mut all = own.map_or(Vec::new(), |own| own.charged(count, |_, info| is_under(info)));
    let has_root = all.contains(&root);
    all.retain(|page| *page != root && *page != pages.list);
    pages.free_many(&all);
    if has_root {
        pages.free(root)?;
    }
    let is_left = |info: exposed::Page| info.owner() == area::number() && !info.is_orphan();
    if generation(pages.list) == made && exposed::page(pages.list).is_some_and(is_left) {
        pages.free(pages.list)?;
    }
    Ok(())
}

/// The generation of a page: another one when the page is used for something else.
fn generation(page: PageNumber) -> u64 {
    exposed::page(page).map_or(0, |info| info.state.load(Acquire) >> 32)
}
