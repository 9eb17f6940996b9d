//! Physical pages as typed objects: the wall between what programs can write and what the kernel believes.
//!
//! One value of [`Memory`] exists; holding it exclusively is what makes references into kernel pages sound.
//! Invariants:
//!
//! - the kind of a page (in its exposed record) is changed only here, and only to a kind whose contents were just made;
//! - a page of a kind that the kernel keeps is not mapped writable anywhere. It becomes one only while nothing maps
//!   it, and `page_table` refuses to map it writable afterwards;
//! - an object begins with the identity of its Rust type, which is checked at each use.

use crate::context::Context;
use crate::exposed;
use crate::layout::{PAGE_SIZE, direct};
use abi::area::{PRIVATE, UPCALL_STACK};
use abi::environment::EnvironmentInfo;
use abi::page::{PageInfo, PageKind};
use abi::{EnvironmentId, PageNumber};
use core::any::TypeId;
use core::sync::atomic::{AtomicU64, Ordering};

/// Bytes before the object in its page.
const OBJECT_OFFSET: u64 = 64;

/// The one owner of all typed pages.
#[derive(Debug)]
pub struct Memory {
    /// The bits of a page-table entry that the CPUs know: all, or all but the no-execute bit.
    pub(crate) entry_bits: u64,
    /// The level-1 table that was looked for last.
    pub(crate) last_leaf: crate::page_table::LastLeaf,
}

/// Flags and kind of [`PageInfo::state`], unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageState {
    /// What the page is.
    pub kind: PageKind,
    /// `abi::page::{ZEROED, ORPHAN, DIRTY, WATCHED}`.
    pub flags: u8,
    /// Level of a page table.
    pub level: u8,
}

impl PageState {
    /// An ordinary page that is filled with zeros and that no program has seen since.
    pub(crate) const ZEROED: Self = Self { flags: abi::page::ZEROED, ..Self::of(PageKind::Ordinary) };

    /// The lower half of the state word.
    const fn word(self) -> u64 {
        (self.level as u64) << 16 | (self.flags as u64) << 8 | self.kind as u64
    }

    /// This kind with no flags.
    pub const fn of(kind: PageKind) -> Self {
        Self { kind, flags: 0, level: 0 }
    }
}

/// Reads the state word of a page.
#[inline]
pub fn state(info: &PageInfo) -> PageState {
    let word = info.state.load(Ordering::Relaxed);
    PageState { kind: PageKind::from_number(word as u8), flags: (word >> 8) as u8, level: (word >> 16) as u8 }
}

/// Writes it: the page is something else from now on, of the next generation.
#[inline(always)]
pub(crate) fn set_state(info: &PageInfo, state: PageState) {
    let word = info.state.load(Ordering::Relaxed);
    note_loss(word);
    let next = ((word >> 32) as u32).checked_add(1).unwrap_or_else(begin_anew);
    info.state.store(u64::from(next) << 32 | state.word(), Ordering::Release);
}

/// The state word of a page whose record was all zeros: of the generation after [`Generation::FIRST`].
pub(crate) fn first_state(kind: PageKind) -> u64 {
    1 << 32 | PageState::of(kind).word()
}

/// Makes a page another kind, whose contents stay, and stay readable as they were.
fn rename(info: &PageInfo, kind: PageKind) {
    let generation = info.state.load(Ordering::Relaxed) >> 32;
    let flags = state(info).flags & abi::page::WATCHED;
    info.state.store(generation << 32 | PageState { flags, ..PageState::of(kind) }.word(), Ordering::Release);
}

/// How often the generations of some page began at 0 again.
static GENERATIONS_ANEW: AtomicU64 = AtomicU64::new(0);
/// How often a watched page became something else, or was given up, or generations began anew.
static WATCHED_LOST: AtomicU64 = AtomicU64::new(0);

/// What a page is at some time, to be asked later whether it is that still. Holding one does not keep the owner from
/// giving the page up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(u32);

impl Generation {
    /// That of a page that was nothing yet.
    pub const FIRST: Self = Self(0);
}

/// The generation of a page.
#[inline]
pub fn generation(info: &PageInfo) -> Generation {
    Generation((info.state.load(Ordering::Relaxed) >> 32) as u32)
}

/// Changes when generations that were noted before say nothing any more.
#[inline]
pub fn era() -> u64 {
    GENERATIONS_ANEW.load(Ordering::Relaxed)
}

/// Stays the same as long as every watched page is what it was when it was first watched.
#[inline]
pub fn watched_lost() -> u64 {
    WATCHED_LOST.load(Ordering::Relaxed)
}

/// A page with this word of state is about to become something else, or to be given up.
#[inline(always)]
fn note_loss(state: u64) {
    if state & u64::from(abi::page::WATCHED) << 8 != 0 {
        note_watched_loss();
    }
}

#[cold]
fn note_watched_loss() {
    WATCHED_LOST.fetch_add(1, Ordering::Relaxed);
}

/// An owner gives a page up that something still uses: it is an orphan from now on.
#[inline]
pub fn become_orphan(info: &PageInfo) {
    note_loss(info.state.load(Ordering::Relaxed));
    set_flags(info, abi::page::ORPHAN, 0);
}

/// From now on a sleeper that recorded the generation of a page before finds another.
#[inline]
pub fn begin_generation(info: &PageInfo) {
    let word = info.state.load(Ordering::Relaxed);
    note_loss(word);
    let next = ((word >> 32) as u32).checked_add(1).unwrap_or_else(begin_anew);
    info.state.store(u64::from(next) << 32 | word & 0xffff_ffff, Ordering::Release);
}

/// The generation after the last.
#[cold]
fn begin_anew() -> u32 {
    GENERATIONS_ANEW.fetch_add(1, Ordering::Relaxed);
    note_watched_loss();
    0
}

/// Ends what a page was the object of: it is ordinary again, and still an orphan if it was one.
pub(crate) fn set_ordinary(info: &PageInfo) {
    let flags = state(info).flags & abi::page::ORPHAN;
    set_state(info, PageState { flags, ..PageState::of(PageKind::Ordinary) });
}

/// The same for a page that was filled with zeros.
pub(crate) fn set_zeroed(info: &PageInfo) {
    set_ordinary(info);
    if references(info) == 0 {
        set_flags(info, abi::page::ZEROED, 0);
    }
}

/// Changes the flags of a page.
#[inline]
pub fn set_flags(info: &PageInfo, set: u8, clear: u8) {
    let word = info.state.load(Ordering::Relaxed);
    info.state.store(word & !(u64::from(clear) << 8) | u64::from(set) << 8, Ordering::Release);
}

/// What is in the page may be something else than zeros from now on.
#[inline(always)]
pub fn forget_zeroed(info: &PageInfo) {
    forget_zeroed_as(info, info.state.load(Ordering::Relaxed));
}

/// The same, whose word of state was just read.
#[inline(always)]
pub(crate) fn forget_zeroed_as(info: &PageInfo, state: u64) {
    if state & u64::from(abi::page::ZEROED) << 8 != 0 {
        set_flags(info, 0, abi::page::ZEROED);
    }
}

/// Records that an environment sleeps over a word of the page. The kernel's own are never given up.
#[inline]
pub fn note_watched(info: &PageInfo) {
    let state = state(info);
    if state.flags & abi::page::WATCHED == 0 && state.kind != PageKind::Kernel {
        set_flags(info, abi::page::WATCHED, 0);
    }
}

/// Entries of page tables that map the page.
#[inline]
pub fn references(info: &PageInfo) -> u32 {
    (info.access.load(Ordering::Relaxed) >> 32) as u32
}

/// Notes that a page was bound or unbound now.
#[inline(always)]
pub fn note_use(info: &PageInfo) {
    let events = &exposed::kernel().binding_events;
    let now = events.load(Ordering::Relaxed) + 1;
    events.store(now, Ordering::Release);
    info.last_use.store(now, Ordering::Release);
}

/// The same of many pages, one after the other: what is counted of them together is exposed at the end.
pub(crate) struct Uses(u64);

impl Uses {
    /// None yet.
    #[inline(always)]
    pub(crate) fn begin() -> Self {
        Self(exposed::kernel().binding_events.load(Ordering::Relaxed))
    }

    /// A page was bound or unbound.
    #[inline(always)]
    pub(crate) fn note(&mut self, info: &PageInfo) {
        self.0 = self.0.wrapping_add(1);
        info.last_use.store(self.0, Ordering::Release);
    }

    /// No more.
    #[inline(always)]
    pub(crate) fn end(self) {
        exposed::kernel().binding_events.store(self.0, Ordering::Release);
    }
}

/// The exposed record of a page, if there is one.
#[inline]
pub fn info(page: PageNumber) -> Option<&'static PageInfo> {
    let (pages, page) = (exposed::pages(), page.0 as usize);
    // Two branches: `get` becomes a conditional move and a test of its result.
    if page < pages.len() { Some(&pages[page]) } else { None }
}

/// A page and its record.
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    number: PageNumber,
    info: &'static PageInfo,
}

impl Numbered {
    /// The page.
    #[inline(always)]
    pub const fn number(self) -> PageNumber {
        self.number
    }

    /// Its record.
    #[inline(always)]
    pub const fn info(self) -> &'static PageInfo {
        self.info
    }
}

/// A page with its record, if there is one.
#[inline(always)]
pub fn numbered(page: PageNumber) -> Option<Numbered> {
    info(page).map(|info| Numbered { number: page, info })
}

/// Counts an edit of the entries of a table, or of an access list: a library that reads the exposed count learns
/// whether entries were set.
#[inline(always)]
pub fn note_edit(info: &PageInfo) {
    info.block.store(info.block.load(Ordering::Relaxed) + 1, Ordering::Release);
}

impl Memory {
    /// The only one.
    ///
    /// # Safety
    /// Called once, at boot, when the kernel's record is filled.
    pub(crate) unsafe fn new() -> Self {
        let nx = exposed::kernel().features.load(Ordering::Relaxed) & abi::feature::NX != 0;
        let entry_bits = if nx { !0 } else { !abi::page_table::NO_EXECUTE };
        Self { entry_bits, last_leaf: crate::page_table::LastLeaf::NONE }
    }

    /// Fills a page with zeros through the direct map.
    #[inline(always)]
    pub(crate) fn zero(page: PageNumber) {
        // SAFETY: the callers have checked that the page is memory that no Rust object lies in.
        unsafe {
            core::arch::asm!(
                "rep stosq",
                inout("rcx") PAGE_SIZE / 8 => _, inout("rdi") direct(page.address()) => _, in("rax") 0,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Copies a page through the direct map. Programs may write the source meanwhile.
    #[inline(always)]
    fn copy(from: PageNumber, to: PageNumber) {
        // SAFETY: the caller has checked that both pages are memory that no Rust object lies in. No reference to either
        // exists: programs that have mapped them read and write bytes. Only programs get what is read of the source.
        unsafe {
            core::arch::asm!(
                "rep movsq",
                inout("rcx") PAGE_SIZE / 8 => _,
                inout("rsi") direct(from.address()) => _,
                inout("rdi") direct(to.address()) => _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Fills an ordinary page that nothing maps with zeros, unless that is what is in it.
    pub(crate) fn make_zero(page: PageNumber) {
        let flags = info(page).map_or(0, |info| state(info).flags);
        if flags & abi::page::ZEROED == 0 {
            Self::zero(page);
        }
    }

    /// Takes a free page for a program: zeroed, ordinary.
    #[inline(always)]
    pub fn take_free(&mut self, page: PageNumber) {
        let info = info(page).expect("a free page has a record");
        let state = state(info);
        assert_eq!(state.kind, PageKind::Free, "only a free page is taken");
        if state.flags & abi::page::ZEROED == 0 {
            Self::zero(page);
        }
        set_state(info, PageState::ZEROED);
    }

    /// The same with the contents of an ordinary page in place of zeros.
    pub fn take_free_as_copy(&mut self, page: PageNumber, source: PageNumber) {
        let numbered = |page| numbered(page).expect("a page of memory has a record");
        self.take_free_to_map(numbered(page), Some(numbered(source)));
    }

    /// Takes a free page for a program that is filled with zeros, or with what lies in an ordinary page: it is not
    /// known to hold zeros any more.
    #[inline(always)]
    pub(crate) fn take_free_to_map(&mut self, page: Numbered, source: Option<Numbered>) {
        let word = page.info.state.load(Ordering::Relaxed);
        assert!(word as u8 == PageKind::Free as u8, "only a free page is taken");
        match source {
            Some(source) => {
                let kind = source.info.state.load(Ordering::Relaxed) as u8;
                assert!(kind == PageKind::Ordinary as u8, "only an ordinary page is copied");
                Self::copy(source.number, page.number);
            }
            None if word & u64::from(abi::page::ZEROED) << 8 == 0 => Self::zero(page.number),
            None => {}
        }
        set_state(page.info, PageState::of(PageKind::Ordinary));
    }

    /// Copies an ordinary page into another one. Programs may write both meanwhile.
    pub fn save(&mut self, page: PageNumber, into: PageNumber) {
        assert!(self.is_ordinary(page) && self.is_ordinary(into), "only ordinary pages are saved");
        set_flags(info(into).expect("an ordinary page has a record"), abi::page::DIRTY, abi::page::ZEROED);
        Self::copy(page, into);
    }

    fn is_ordinary(&self, page: PageNumber) -> bool {
        info(page).is_some_and(|info| state(info).kind == PageKind::Ordinary)
    }

    /// Fills a free page with zeros, so that taking it costs less.
    pub fn zero_free(&mut self, page: PageNumber) {
        let info = info(page).expect("a free page has a record");
        assert_eq!(state(info).kind, PageKind::Free, "only a free page is zeroed ahead of use");
        Self::zero(page);
        set_flags(info, abi::page::ZEROED, 0);
    }

    /// Copies bytes into an ordinary page that no program has seen yet.
    pub fn fill(&mut self, page: PageNumber, offset: usize, bytes: &[u8]) {
        let info = info(page).expect("an ordinary page has a record");
        forget_zeroed(info);
        assert!(state(info).kind == PageKind::Ordinary && offset + bytes.len() <= PAGE_SIZE as usize);
        // SAFETY: the range lies in a page that holds no Rust object, and no program runs that could see it.
        unsafe {
            let to = (direct(page.address()) as *mut u8).add(offset);
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    /// Makes an ordinary page free again. Nothing maps it.
    pub fn make_free(&mut self, page: PageNumber) {
        let info = info(page).expect("an ordinary page has a record");
        assert!(
            state(info).kind == PageKind::Ordinary && references(info) == 0,
            "only an unmapped ordinary page is freed"
        );
        let zeroed = state(info).flags & abi::page::ZEROED;
        set_state(info, PageState { flags: zeroed, ..PageState::of(PageKind::Free) });
    }

    /// Whether the page is ordinary and mapped nowhere: what a kernel object can be made of.
    pub fn is_donatable(&self, page: PageNumber) -> bool {
        info(page).is_some_and(|info| state(info).kind == PageKind::Ordinary && references(info) == 0)
    }

    /// Makes a donated page the home of an object.
    pub fn create<T: 'static>(&mut self, page: PageNumber, kind: PageKind, object: T) {
        const { assert!(size_of::<T>() as u64 + OBJECT_OFFSET <= PAGE_SIZE && align_of::<T>() as u64 <= OBJECT_OFFSET) };
        assert!(self.is_donatable(page), "an object is made of a donated page");
        let address = direct(page.address());
        // SAFETY: the page is mapped nowhere but in the direct map and holds no object; both writes lie in it,
        // aligned. What lies behind the object is never read: `dissolve` fills it all with zeros.
        unsafe {
            (address as *mut TypeId).write(TypeId::of::<T>());
            ((address + OBJECT_OFFSET) as *mut T).write(object);
        }
        set_state(info(page).expect("checked"), PageState::of(kind));
    }

    /// The address of the object in a page, if it is a T.
    #[inline(always)]
    fn object_address<T: 'static>(Numbered { number: page, info }: Numbered) -> Option<u64> {
        let state = state(info);
        let holds_object =
            matches!(state.kind, PageKind::AccessList | PageKind::KeyRing | PageKind::Region | PageKind::PacketRing);
        if !holds_object {
            return None;
        }
        let address = direct(page.address());
        // SAFETY: a page of these kinds was made by `create`, which wrote the identity there.
        let identity = unsafe { (address as *const TypeId).read() };
        (identity == TypeId::of::<T>()).then_some(address + OBJECT_OFFSET)
    }

    /// The object in a page, if it holds a T.
    pub fn get<T: 'static>(&self, page: PageNumber) -> Option<&T> {
        self.get_by(numbered(page)?)
    }

    /// The same for a page whose record is known.
    #[inline(always)]
    pub fn get_by<T: 'static>(&self, page: Numbered) -> Option<&T> {
        // SAFETY: a T lies there (`object_address`), and `self` is borrowed: no exclusive reference exists.
        Self::object_address::<T>(page).map(|address| unsafe { &*(address as *const T) })
    }

    /// The object in a page, to change it.
    pub fn get_mut<T: 'static>(&mut self, page: PageNumber) -> Option<&mut T> {
        // SAFETY: as in `get`, and `self` is borrowed exclusively.
        Self::object_address::<T>(numbered(page)?).map(|address| unsafe { &mut *(address as *mut T) })
    }

    /// Makes a page that held an object ordinary again, filled with zeros.
    pub fn dissolve(&mut self, page: PageNumber) {
        let info = info(page).expect("a page with an object has a record");
        let kind = state(info).kind;
        let dissolvable = matches!(
            kind,
            PageKind::AccessList
                | PageKind::KeyRing
                | PageKind::Region
                | PageKind::PacketRing
                | PageKind::EnvironmentControl
                | PageKind::EnvironmentPrivate
        );
        assert!(dissolvable, "page {} of kind {kind:?} holds no object", page.0);
        info.block.store(0, Ordering::Release);
        Self::zero(page);
        set_zeroed(info);
    }

    /// Fills a private page of an environment area with zeros; it is known to be written no more.
    pub fn clear_private(&mut self, page: PageNumber) {
        let info = info(page).expect("a private page has a record");
        assert_eq!(state(info).kind, PageKind::EnvironmentPrivate);
        Self::zero(page);
        set_flags(info, 0, abi::page::DIRTY);
    }

    /// Fills a private page of an environment area with what is in an ordinary page: a reader that looked at it
    /// before looks at another.
    pub fn refill_private(&mut self, page: PageNumber, source: PageNumber) {
        let info = info(page).expect("a private page has a record");
        assert!(state(info).kind == PageKind::EnvironmentPrivate && self.is_ordinary(source));
        Self::copy(source, page);
        set_state(info, PageState::of(PageKind::EnvironmentPrivate));
    }

    /// Makes a page the public or a private page of an environment area; its contents stay.
    pub fn make_area_page(&mut self, page: PageNumber, kind: PageKind) {
        assert!(matches!(kind, PageKind::EnvironmentPublic | PageKind::EnvironmentPrivate));
        let info = info(page).expect("a donated page has a record");
        assert_eq!(state(info).kind, PageKind::Ordinary, "an area is made of ordinary pages");
        match kind {
            PageKind::EnvironmentPublic => rename(info, kind),
            _ => set_state(info, PageState::of(kind)),
        }
    }

    /// Makes a public page ordinary again; its contents stay.
    pub fn release_public(&mut self, page: PageNumber) {
        let info = info(page).expect("a public page has a record");
        assert_eq!(state(info).kind, PageKind::EnvironmentPublic);
        rename(info, PageKind::Ordinary);
    }

    /// Writes words of a public page through the kernel's alias.
    pub fn write_public(&mut self, page: PageNumber, words: &[u64]) {
        let info = info(page).expect("a public page has a record");
        assert!(state(info).kind == PageKind::EnvironmentPublic && words.len() <= 32);
        for (index, word) in words.iter().enumerate() {
            let address = direct(page.address()) + index as u64 * 8;
            // SAFETY: the word lies in the page; programs may write the page at any time, so it is a volatile write
            // of a machine word and no reference to it exists.
            unsafe { (address as *mut u64).write_volatile(*word) };
        }
    }

    /// Makes a donated page the control page of an environment. `private` are its private pages, already of that kind.
    pub fn create_context(
        &mut self,
        page: PageNumber,
        number: EnvironmentId,
        root: PageNumber,
        stack_base: u64,
        private: &[PageNumber],
        record: &'static EnvironmentInfo,
    ) {
        assert!(self.is_donatable(page), "a context is made of a donated page");
        let is_private =
            |page: &PageNumber| info(*page).is_some_and(|info| state(info).kind == PageKind::EnvironmentPrivate);
        assert!(private.iter().all(is_private) && private.len() >= 2, "the private pages are made before the context");
        Self::make_zero(page);
        // What is remembered of a context is of another one that lay here.
        crate::map_few::forget();
        // SAFETY: a Context is made of atomics, for which zero is a value; the page is zeroed and ours alone.
        let context = unsafe { &*(direct(page.address()) as *const Context) };
        let stack = &private[1..];
        for (index, (alias, page)) in context.stack_alias.iter().zip(stack).enumerate() {
            let offset = index as u64 * PAGE_SIZE;
            alias.store(direct(page.address()).wrapping_sub(offset), Ordering::Relaxed);
        }
        context.private.store(direct(private[0].address()), Ordering::Relaxed);
        context.stack_base.store(stack_base, Ordering::Relaxed);
        context.area_private.store(stack_base - (UPCALL_STACK - PRIVATE), Ordering::Relaxed);
        context.stack_bytes.store(stack.len() as u64 * PAGE_SIZE, Ordering::Relaxed);
        context.address_space.store(root.address(), Ordering::Relaxed);
        context.begin(number, record);
        set_state(info(page).expect("checked"), PageState::of(PageKind::EnvironmentControl));
    }

    /// Has the context of an environment that is gone, and that no transfer finds, begin as that of another one with
    /// the same private pages and address space.
    pub fn renew_context(&mut self, page: PageNumber, number: EnvironmentId, record: &'static EnvironmentInfo) {
        let context = self.context(page).expect("an environment has a context");
        crate::map_few::forget();
        context.begin(number, record);
        begin_generation(info(page).expect("it has a context"));
    }

    /// The context in a control page. It stays valid until the page is dissolved, which waits for every CPU to have
    /// left the kernel first (`tlb::quiesce`).
    pub fn context(&self, page: PageNumber) -> Option<&'static Context> {
        let state = state(info(page)?);
        // SAFETY: a page of this kind was made by `create_context`; all fields are atomics.
        (state.kind == PageKind::EnvironmentControl).then(|| unsafe { &*(direct(page.address()) as *const Context) })
    }

    /// An aligned word of a page that programs may write, read once.
    #[inline]
    pub fn read_word(&self, physical: u64) -> u64 {
        assert!(physical.is_multiple_of(8) && info(PageNumber(physical / PAGE_SIZE)).is_some());
        // SAFETY: the word lies in a page of memory; it may change at any time, so it is a volatile read of a machine
        // word.
        unsafe { (direct(physical) as *const u64).read_volatile() }
    }
}
