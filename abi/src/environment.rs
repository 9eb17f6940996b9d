//! Environments: protection domain and execution context (exokernel-sosp95 §5.1.2), as the kernel exposes them.

use crate::budget::Resource;
use crate::limits::PRIVATE_PAGES;
use core::sync::atomic::AtomicU64;

/// Life of a slot of the environment table.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Never used, or its record was given up.
    Free = 0,
    /// Lives.
    Alive = 1,
    /// Will never run again; its resources are being released in steps (`environment_destroy`).
    Dying = 2,
    /// Gone; the record of its death stays until the slot is used again, the oldest first.
    Dead = 3,
    /// Has released all but its slot, its public page and its root. The next `environment_destroy` makes it
    /// [`State::Dead`].
    Zombie = 4,
}

/// Why an environment died.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeathReason {
    /// Lives.
    None = 0,
    /// By `environment_destroy`; `by` tells who called it.
    Destroyed = 1,
    /// An upcall frame did not fit on the upcall stack; `kind`, `address` and `rip` tell of the upcall.
    UpcallStackOverflow = 2,
    /// A declared entry was not canonical or not in the user half; `address` is the entry.
    BadEntry = 3,
    /// Too many slices ended without giving up the CPU in time.
    ExcessTime = 4,
    /// Its page-table root was taken by force.
    AddressSpaceTaken = 5,
}

/// What `context_set` sets of the caller's context.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextPart {
    /// The base of FS, where the CPU has no instruction for it: an address of the user half.
    FsBase = 0,
    /// The base of GS, likewise.
    GsBase = 1,
    /// The vector unit: 1 on; 0 off. While it is off its next use is an upcall, and its state is not kept.
    Vector = 2,
    /// The protection keys: 1 on; 0 off, which is how an environment begins. While they are off WRPKRU and RDPKRU are
    /// invalid opcodes, and no key forbids anything.
    ProtectionKeys = 3,
}

impl ContextPart {
    /// The part with this number.
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::FsBase),
            1 => Some(Self::GsBase),
            2 => Some(Self::Vector),
            3 => Some(Self::ProtectionKeys),
            _ => None,
        }
    }
}

/// One figure of a budget, exposed.
#[repr(C)]
#[derive(Debug)]
pub struct Budget {
    /// The most it may use.
    pub limit: AtomicU64,
    /// What is sure to be had.
    pub reserved: AtomicU64,
    /// In use.
    pub used: AtomicU64,
}

/// One environment, exposed. 512 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct EnvironmentInfo {
    /// Odd while the record is being changed, and different after every change.
    pub sequence: AtomicU64,
    /// Its number; 0 in a slot never used.
    pub number: AtomicU64,
    /// [`State`].
    pub state: AtomicU64,
    /// The environment that created it, or that one's heir.
    pub creator: AtomicU64,
    /// Page of its page-table root.
    pub root: AtomicU64,
    /// Page of its control record.
    pub control: AtomicU64,
    /// Its public page.
    pub public: AtomicU64,
    /// Address of its area.
    pub area: AtomicU64,
    /// First of the pages charged to it: a list through [`crate::page::PageInfo::neighbours`].
    pub pages: AtomicU64,
    /// Slot of its first child, plus one; 0: none.
    pub first_child: AtomicU64,
    /// Slot of the next (0..32) and the previous (32..64) child of the same creator, each plus one. In a slot that
    /// waits to be used again, the next such slot.
    pub siblings: AtomicU64,
    /// Budgets, by [`Resource`].
    pub budget: [Budget; Resource::COUNT],
    /// Time of the slices that it began and of those yielded to it, in nanoseconds, even if others ran in them by
    /// control transfer.
    pub time: AtomicU64,
    /// Slices that began for it.
    pub slices: AtomicU64,
    /// Save windows and graces that it let run out; each time that it gives the CPU up by itself takes one off.
    pub excess: AtomicU64,
    /// Terms of predicates evaluated for it.
    pub predicate_terms: AtomicU64,
    /// [`DeathReason`].
    pub death_reason: AtomicU64,
    /// Upcall kind that could not be delivered.
    pub death_kind: AtomicU64,
    /// Address of the fault, or the bad entry.
    pub death_address: AtomicU64,
    /// RIP at death.
    pub death_rip: AtomicU64,
    /// The environment that destroyed it.
    pub death_by: AtomicU64,
    /// When, in nanoseconds since boot.
    pub death_time: AtomicU64,
    /// Its name: an environment with a key that dominates it controls this one.
    pub name: [AtomicU64; 8],
    /// Resource asked back, plus one; 0: no revocation is open.
    pub revocation_resource: AtomicU64,
    /// How many are still asked for.
    pub revocation_count: AtomicU64,
    /// When the kernel begins to take by force, in nanoseconds since boot.
    pub revocation_deadline: AtomicU64,
    /// Page of its key ring.
    pub key_ring: AtomicU64,
    /// When even vital pages are taken, in nanoseconds since boot; 0: no emergency was announced.
    pub revocation_emergency: AtomicU64,
    /// Nanoseconds that come off its next slices: what it used past the end of slices, and a quantum for each excess.
    pub owed: AtomicU64,
    /// Device pins of its requests, at most [`crate::limits::DEVICE_PINS`].
    pub device_pins: AtomicU64,
    /// Not used.
    pub unused: [AtomicU64; 10],
}

/// What `environment_create` reads. All pages are ordinary pages of the caller, named by number. They stay charged to
/// it and come back to it when the environment is gone, the public page with its contents.
///
/// With `parts_of` the environment is made of the parts of a dead one that the caller created: control page, key ring,
/// public page, root, area and private pages. Then the kernel reads `name_key` and the last three words only.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Specification {
    /// Key (index) whose name the environment bears: it is put into slot 1 of the new ring.
    pub name_key: u64,
    /// Becomes the control record.
    pub control: u64,
    /// Becomes the key ring.
    pub key_ring: u64,
    /// Becomes the public page.
    pub public: u64,
    /// Page-table root, made with `page_become`.
    pub root: u64,
    /// Address of the environment area in that address space; a multiple of 4096.
    pub area: u64,
    /// How many private pages.
    pub private_count: u64,
    /// They become the private part: the first holds [`crate::area::PrivateWords`], the others the upcall stack. Each
    /// may be mapped at its place in `root`, and nowhere else.
    pub private: [u64; PRIVATE_PAGES],
    /// Number of an environment that is being destroyed; 0: the words above name the pages.
    pub parts_of: u64,
    /// With `parts_of`: an ordinary page that the caller may read. The first private page begins with its contents.
    pub first: u64,
    /// With `parts_of`: 1 if the address space stays as it is. 0 if only the level-1 table of the area stays, and the
    /// tables on the way to it.
    pub space: u64,
}

const _: () = assert!(size_of::<EnvironmentInfo>() == 512);
