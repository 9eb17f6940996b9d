//! Cost table: what a row of a batch takes beyond the work that its body counts itself.
//!
//! Invariants:
//! - no kernel entry executes more than `abi::limits::ENTRY_INSTRUCTIONS`, whatever rows a batch has (FAULTS 153);
//! - the guest `batched` measures each row at its worst, 64 to a batch, and holds this table to that.

use abi::syscall::number;

/// Instructions that one unit of work stands for.
const UNIT: u32 = 40;
/// Units of any row that is not named below: dispatch, key lookup, and the copies of a row.
const ROW: u32 = 4;

/// Units of a row of `device_submit`: the checks of a page, its pin and its descriptor.
pub(crate) const TRANSFER_ROW: u32 = 4;
/// Units of the end of a device pin, beyond what freeing an orphan counts.
pub(crate) const UNPIN: u32 = 1;
/// Units of the end of a request at its worst: every page is an orphan. No request is ended with less left.
pub(crate) const REQUEST_ENDS: u32 = 320;
/// Units of looking through the requests of an environment that dies.
pub(crate) const DISOWN: u32 = 50;

/// Units of work of one row.
pub(crate) const fn of_row(row: u64) -> u32 {
    match row {
        number::entropy_read => units(7_900),
        number::channel_send | number::channel_receive => units(9_200),
        number::environment_create => units(7_200),
        number::log_read => units(1_800),
        number::page_table_link => units(1_200),
        number::access_list_create | number::address_space_create | number::region_create => units(1_000),
        number::region_read | number::region_write => units(900),
        number::device_submit => units(1_500),
        number::device_bind => units(500),
        number::access_list_set | number::page_free | number::region_swap => units(500),
        number::time_slice_allocate | number::budget_move | number::revocation_request => units(500),
        number::event_raise | number::cpu_kick | number::key_copy | number::key_derive => units(300),
        _ => ROW,
    }
}

const fn units(instructions: u32) -> u32 {
    instructions.div_ceil(UNIT)
}
