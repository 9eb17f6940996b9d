//! Storage: XN's volumes and cached blocks, and the structures of the calls about them (SOSP 1997, section 4).
//!
//! A volume lies on one disk, from its first block on. A *frame* is one of the kernel's pages that cache
//! blocks. A *tree* is a root block and all that it owns. Templates of the volume say what a metadata block
//! owns and who may use a tree: their programs are BPF, compiled by the kernel. The format of the disk is that
//! of `mechanism/xn`.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// Steps of `volume_step`. Each needs the right on the disk that its doc names.
pub mod step {
    /// Own. Opens the volume of the disk, in steps; the result is its number of blocks. The disk must be idle.
    /// From then on `device_submit` refuses to write the disk. The root catalogue is in frame 0.
    pub const OPEN: u64 = 0;
    /// Own. Verifies and compiles the template in slot `argument`, in steps.
    pub const TEMPLATE: u64 = 1;
    /// Own. Loads the map of region `argument`, in steps: of a clean volume from the disk, else empty for
    /// recovery.
    pub const MAP: u64 = 2;
    /// Own. Begins recovery: marks the roots.
    pub const RECOVER: u64 = 3;
    /// Own. Visits the metadata block in frame `argument`, in steps. `more` is the cursor: 0, then the detail
    /// of `Again`.
    pub const CHECK: u64 = 4;
    /// Own. Ends recovery. Refused with `Again` while marked blocks were not visited; the detail is their
    /// number.
    pub const RECOVERED: u64 = 5;
    /// Own. Makes the volume writable, in steps. The mark *dirty* is durable first.
    pub const START: u64 = 6;
    /// Own. Makes the volume clean, in steps. `InUse` names a block that is dirty, held, in transit or
    /// unattached.
    pub const STOP: u64 = 7;
    /// Own. Forgets the volume and empties all frames. Refused with `Busy` while a transfer is under way. Of a
    /// volume that is not clean, the next mount recovers what was durable.
    pub const CLOSE: u64 = 8;
    /// Write. Makes an unattached tree of the free block `argument`; `more` is its template, with bit 8 for a
    /// temporary tree. The result is the tree.
    pub const CREATE: u64 = 9;
    /// Write. Enters the tree `argument >> 8` as root `argument & 0xff`. `more` is the address of its name of
    /// 48 bytes. The root block must be durable.
    pub const ENTER: u64 = 10;
    /// Write. Removes root `argument` from the catalogue. The result is its tree, which stays.
    pub const LEAVE: u64 = 11;
    /// Write. Frees the root block of tree `argument`, which owns nothing and has no parent.
    pub const DROP: u64 = 12;
    /// Any. The tree of root `argument`.
    pub const MOUNT: u64 = 13;
    /// Any. Issues a flush; the result is its number.
    pub const FLUSH: u64 = 14;
    /// Any. Frees the blocks of record `argument` of the ledger, if nothing on disk leads to them. The detail
    /// of `Again` is the next record.
    pub const RECLAIM: u64 = 15;
    /// Any. The result is the [`super::phase`], with the number of the last completed flush from bit 8 on.
    pub const STATE: u64 = 16;
    /// Any. How the 32 blocks from `argument & !31` on are used, 2 bits each: see [`super::usage`].
    pub const MAP_READ: u64 = 17;
}

/// Phases of a volume.
pub mod phase {
    /// Recovery traverses the trees.
    pub const CHECKING: u64 = 0;
    /// Blocks can be read.
    pub const READ_ONLY: u64 = 1;
    /// It is being marked.
    pub const MARKING: u64 = 2;
    /// Everything is permitted.
    pub const OPEN: u64 = 3;
    /// A block has two owners: read only.
    pub const DAMAGED: u64 = 4;
    /// A flush failed: only recovery helps.
    pub const FAILED: u64 = 5;
}

/// Uses of a block in a region map.
pub mod usage {
    /// No tree owns it.
    pub const FREE: u64 = 0;
    /// Owned.
    pub const USED: u64 = 1;
    /// Owned; the disk holds nothing of it.
    pub const FRESH: u64 = 2;
    /// Freed, but a pointer on the disk may be left. During recovery: owned and not visited yet.
    pub const HELD: u64 = 3;
}

/// State bits of [`BlockInfo::state`].
pub mod state {
    /// Contents are valid.
    pub const RESIDENT: u32 = 1;
    /// The frame differs from the disk.
    pub const DIRTY: u32 = 2;
    /// The device writes into the frame.
    pub const IN: u32 = 8;
    /// The device reads from the frame.
    pub const OUT: u32 = 16;
    /// The last write failed.
    pub const ERROR: u32 = 64;
    /// The block was freed while in transit.
    pub const ORPHAN: u32 = 128;
    /// One bit for each sector of a metadata block: its checksum is not that of its content. A submission seals it
    /// (decision 0057).
    pub const UNSEALED: u32 = 0xff << 8;
}

/// In the `parent` of `block_bind`: the number is a tree, whose root block is bound.
pub const ROOT: u64 = 1 << 32;
/// In the detail of `Unready`: it is the number of a flush that must have completed.
pub const FLUSH: u64 = 1 << 63;
/// In the detail of `BadArgument`: the rest is a block that the owns program does not confirm.
pub const UNDECLARED: u64 = 1 << 62;
/// In the detail of `BadArgument`: the rest is a template slot whose program was refused, or stopped with an
/// error. The instruction stands from bit 16 on.
pub const PROGRAM: u64 = 1 << 61;

/// One cached block, exposed at the index of its frame. 64 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct BlockInfo {
    /// Block + 1; 0 for an empty frame.
    pub name: AtomicU64,
    /// Bits of [`state`].
    pub state: AtomicU32,
    /// Template slot.
    pub template: AtomicU8,
    /// Sectors of which owns has said, since their last change, that they own nothing: bit n is sector n.
    pub empty: AtomicU8,
    /// The tree in which it was bound.
    pub tree: AtomicU16,
    /// Parent block (from bit 3 on) and sector; 0 for the root of a tree without parent.
    pub parent: AtomicU64,
    /// Children that are not good on disk.
    pub unready: AtomicU32,
    /// Children in frames.
    pub children: AtomicU32,
    /// The flush that must have completed before the block may be written.
    pub ready_at: AtomicU64,
    /// Counts changes; odd while one is made.
    pub version: AtomicU64,
    /// Sequence number of the last completed write; 0: none since the volume was opened.
    pub written: AtomicU64,
    /// The flush that makes that write durable.
    pub durable_at: AtomicU64,
}

/// What a declared range is for.
pub mod action {
    /// Free blocks become owned.
    pub const ALLOCATE: u32 = 0;
    /// Owned blocks become free, at the latest when nothing on disk leads to them.
    pub const FREE: u32 = 1;
    /// Blocks of the reserved template become readable.
    pub const RETYPE: u32 = 2;
    /// The root of an unattached tree becomes part of this tree.
    pub const ATTACH: u32 = 3;
}

/// New bytes for a range within one sector. 8 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ChangeRow {
    /// Frame of the block.
    pub frame: u32,
    /// First byte in the block.
    pub offset: u16,
    /// Bytes.
    pub length: u16,
}

/// A declared range of blocks. 16 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DeclaredRow {
    /// First block.
    pub first: u64,
    /// Number of blocks.
    pub count: u32,
    /// The [`action`] (0..8), and the template after the change, for `FREE` before it (8..16).
    pub action: u32,
}

/// A transaction on metadata: all or nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionSpecification {
    /// Entries of `shown`, `changes` and `declared`.
    pub counts: [u32; 3],
    /// Not used.
    pub unused: u32,
    /// Frames that the access program sees, in this order.
    pub shown: [u32; crate::limits::TRANSACTION_SHOWN],
    /// Changed ranges.
    pub changes: [ChangeRow; crate::limits::TRANSACTION_CHANGES],
    /// What happens to blocks.
    pub declared: [DeclaredRow; crate::limits::TRANSACTION_DECLARED],
    /// The new bytes of all changes, one after the other.
    pub bytes: [u8; crate::limits::TRANSACTION_BYTES],
}

impl TransactionSpecification {
    /// Nothing shown, changed or declared.
    pub const EMPTY: Self = Self {
        counts: [0; 3],
        unused: 0,
        shown: [0; crate::limits::TRANSACTION_SHOWN],
        changes: [ChangeRow { frame: 0, offset: 0, length: 0 }; crate::limits::TRANSACTION_CHANGES],
        declared: [DeclaredRow { first: 0, count: 0, action: 0 }; crate::limits::TRANSACTION_DECLARED],
        bytes: [0; crate::limits::TRANSACTION_BYTES],
    };
}

const _: () = assert!(size_of::<BlockInfo>() == 64 && size_of::<TransactionSpecification>() == 784);
