//! Cost table: the work of each row of a batch, and of each item that an input can multiply.
//!
//! A unit of work stands for [`UNIT`] instructions. An entry that has done [`ENTRY`] units returns `Again`, or begins
//! nothing more. Bodies charge by this table and hold no figures of their own.
//!
//! Invariants:
//! - no kernel entry executes more than `abi::limits::ENTRY_INSTRUCTIONS`, for every batch (FAULTS 153);
//! - the guest `batched` measures each row at its worst, alone and 64 to a batch, and holds this table to that.

use abi::limits::TRANSFER_PIECES;
use abi::page::PageKind;
use abi::syscall::number;

/// Instructions that one unit of work stands for.
const UNIT: u32 = 40;
/// Units after which an entry ends with `Again`, well within `abi::limits::ENTRY_INSTRUCTIONS`.
pub(crate) const ENTRY: u32 = 268;
/// Units that an entry does at most, with a last row that began before the entry had done enough.
pub(crate) const ENTRY_MOST: u32 = 450;
/// Any row of a batch that [`of_row`] does not name: dispatch, key lookup, and the copies of a row.
const ROW: u32 = 4;

// Access lists and pages.
/// Entries of an access list that one unit pays for.
pub(crate) const LIST_ENTRIES_PER_UNIT: u32 = 2;
/// Taking a page, which may need zeros.
pub(crate) const PAGE_TAKE: u32 = 22;
/// Saving a page into another one, with two access lists to look through.
pub(crate) const PAGE_SAVE: u32 = 90;
/// Giving a page up.
pub(crate) const PAGE_GIVE_UP: u32 = 8;
/// Freeing a page that nothing uses, in a run.
pub(crate) const PAGE_FREED: u32 = 2;

// Entries of page tables.
/// A row of `page_map` in a run.
pub(crate) const MAP_ROW_RUN: u32 = 2;
/// Any other row of `page_map`.
pub(crate) const MAP_ROW: u32 = 16;
/// A row of `page_allocate`, beyond its page.
pub(crate) const SUPPLY_ROW: u32 = 4;
/// Binding or unbinding a page, outside of a run.
pub(crate) const PAGE_BIND: u32 = 4;
/// Checking, mapping or unmapping 2 MiB, each.
pub(crate) const LARGE_BIND: u32 = 280;
/// Pages that one unit pays for when a run unmaps them.
pub(crate) const UNMAPPED_PER_UNIT: u32 = 2;
/// Unmapping a page that this frees.
pub(crate) const UNMAP_FREEING: u32 = 8;
/// What must be left of an entry to unmap 2 MiB.
pub(crate) const LARGE_UNMAP_LEFT: u32 = 130;
/// Copying an entry of a table, beyond binding its page.
pub(crate) const ENTRY_COPY: u32 = 7;

// Page tables.
/// Filling a table with zeros.
pub(crate) const TABLE_CLEAR: u32 = 40;
/// Looking for the entries of a table whose used eighths are known.
pub(crate) const TABLE_LOOK: u32 = 14;
/// Looking through a table for the entries that another one lacks.
pub(crate) const TABLE_COMPARE: u32 = 100;
/// Looking through a part of a table for a page.
pub(crate) const TABLE_SEARCH: u32 = 100;
/// Finding an entry above level 1 and removing its link.
pub(crate) const TABLE_UNLINK: u32 = 24;
/// Copying a link to a table.
pub(crate) const LINK_COPY: u32 = 1;

// Environments: creation, destruction, and creation from parts.
/// Checking a specification and making an environment of fresh pages.
pub(crate) const CREATION: u32 = units(7_200);
/// What must be left of an entry to begin a step.
pub(crate) const DESTRUCTION_LEFT: u32 = 130;
/// A step, beyond what it counts itself.
pub(crate) const DESTRUCTION_STEP: u32 = 8;
/// Releasing slices, beyond the records of them that are read.
pub(crate) const SLICE_RELEASE: u32 = 3;
/// Records of slices that one unit pays for.
pub(crate) const SLICES_PER_UNIT: usize = 12;
/// Giving a child to the heir.
pub(crate) const CHILD_ADOPTED: u32 = 4;
/// Giving up a page of a dying environment, beyond what that counts itself.
pub(crate) const PAGE_RELEASE: u32 = 8;
/// What must be left of an entry to give up such a page.
pub(crate) const PAGE_RELEASE_LEFT: u32 = 110;
/// Filling a private page with zeros.
pub(crate) const PRIVATE_CLEAR: u32 = 24;
/// The last step of a creation from parts.
pub(crate) const PARTS: u32 = 90;
/// Filling a used page of the upcall stack with zeros in it.
pub(crate) const PARTS_CLEAR: u32 = 13;
/// What that step takes of an entry at most.
pub(crate) const PARTS_MOST: u32 = 260;

// Scheduling and predicates.
/// Looking at a position, without the predicate of its runner.
pub(crate) const POSITION_LOOK: u32 = 4;
/// Evaluating a predicate, without its terms.
pub(crate) const PREDICATE: u32 = 6;
/// Each term of it.
pub(crate) const PREDICATE_TERM: u32 = 3;

// The sweep of revocation.
/// Looking at 32 entries of a table.
pub(crate) const SWEEP_ENTRIES: u32 = 18;
/// Looking at the pages of a large entry.
pub(crate) const SWEEP_LARGE: u32 = 80;
/// What must be left of an entry to look at a large entry and to remove it.
pub(crate) const SWEEP_LARGE_LEFT: u32 = 200;
/// Looking at 64 records of pages.
pub(crate) const SWEEP_RECORDS: u32 = 36;

// Disks.
/// The end of a transfer of a block, whose checksums are verified. None ends with less left.
pub(crate) fn block_arrives() -> u32 {
    if machine::crc32c::has_instruction() { 60 } else { 390 }
}
/// A step of the verifier or the compiler of a template's program.
pub(crate) const PROGRAM_STEP: u32 = 226;
/// Instructions of a transaction on metadata for each block that it allocates or frees.
pub(crate) const TRANSACTION_BLOCK: u64 = 260;
/// Instructions of a run of an access program, without those of the program.
pub(crate) const ACCESS_RUN: u64 = 2_400;
/// Instructions of a run of an owns program over a sector, without those of the program.
pub(crate) const OWNS_RUN: u64 = 800;
/// Instructions of the above that a transaction takes at most: with its copies it stays below the bound of an entry.
pub(crate) const TRANSACTION_MOST: u64 = 15_000;

/// Instructions that the compiled code of a program takes at most for so many BPF instructions.
pub(crate) const fn of_program(instructions: u64) -> u64 {
    instructions * 3 / 2
}

/// Units of the end of a device pin, beyond what freeing an orphan counts.
pub(crate) const UNPIN: u32 = 1;
/// Units of the end of a request beyond its pins: used entry, status byte, status word, counters.
pub(crate) const REQUEST_END: u32 = 14;
/// Units of the end of a request at its worst: every page is an orphan. No request is ended with less left.
pub(crate) const REQUEST_ENDS: u32 = REQUEST_END + (TRANSFER_PIECES as u32 + 1) * (UNPIN + PAGE_GIVE_UP);
/// The step by which a disk that was reset begins anew. No request of such a disk is ended with less left.
pub(crate) const DISK_ANEW: u32 = 350;
/// Asking a disk or a network card what it has done, and writing its record.
pub(crate) const DEVICE_LOOK: u32 = 14;
/// Looking through the requests of a disk: for the oldest, or for those of an environment that dies.
pub(crate) const DISK_REQUESTS: u32 = 10;
/// Looking through the descriptors and the waiting requests of a disk for a page.
pub(crate) const DISK_PAGE: u32 = 250;

// Packets.
/// Giving a page of a ring back, beyond what freeing it counts.
pub(crate) const RING_PAGE: u32 = 3;
/// Filling the object of a ring with zeros.
pub(crate) const RING_CLEAR: u32 = 14;
/// A step of an insertion or a removal of a filter.
pub(crate) const FILTER_STEP: u32 = 300;
/// Looking through records for filters of an environment that dies.
pub(crate) const FILTER_SEARCH: u32 = 32;
/// Classifying a frame, without its tests.
pub(crate) const CLASSIFY: u32 = 4;
/// Tests of the classifier that one unit pays for.
pub(crate) const SHAPES_PER_UNIT: usize = 4;
/// Putting a frame into a ring, without its bytes.
pub(crate) const DELIVER: u32 = 6;
/// Bytes that one unit pays for when they are copied.
pub(crate) const BYTES_PER_UNIT: usize = 320;
/// Taking a frame to send from its slot, and checking it.
pub(crate) const SEND: u32 = 8;
/// Finding a segment of a frame, without its bytes.
pub(crate) const SEGMENT: u32 = 2;

// Network cards.
/// A frame that arrived, in the driver: used entries, header, buffers offered again.
pub(crate) const FRAME: u32 = 14;
/// The same at its worst with what packets do, without the bytes that are copied. No frame is taken with less left.
pub(crate) const FRAME_MOST: u32 = FRAME + 80;
/// Bytes of a frame that one unit pays for.
pub(crate) const FRAME_BYTES_PER_UNIT: usize = 256;
/// The end of a transmission, without its pins.
pub(crate) const SENT: u32 = 8;
/// A step by which a card that was reset begins anew. None begins with less left.
pub(crate) const CARD_ANEW: u32 = 350;

/// Units of work of one row. What `page_become` costs depends on the kind, its third argument.
pub(crate) const fn of_row(row: u64, arguments: &[u64; 6]) -> u32 {
    match row {
        number::page_become if arguments[2] == PageKind::PacketRing as u64 => units(16_000),
        number::entropy_read => units(7_900),
        number::channel_send | number::channel_receive => units(9_200),
        number::page_table_link => units(1_200),
        number::region_copy => units(900),
        // Measured: 990 a row that is a request of its own.
        number::device_submit => units(16_000),
        number::device_bind => units(500),
        number::page_become => units(1_000),
        number::volume_step | number::block_modify => units(16_000),
        number::block_bind | number::block_submit => units(12_000),
        number::block_read | number::block_write => units(8_000),
        number::block_release => units(600),
        number::filter_remove | number::filter_direct | number::network_open | number::packet_send => units(500),
        number::filter_insert => units(4_000),
        number::access_list_set | number::page_free => units(500),
        number::region_name | number::key_drop => units(500),
        number::time_slice_allocate | number::budget_move | number::revocation_request => units(500),
        number::event_raise | number::cpu_kick | number::key_copy | number::key_derive => units(300),
        _ => ROW,
    }
}

const fn units(instructions: u32) -> u32 {
    instructions.div_ceil(UNIT)
}
