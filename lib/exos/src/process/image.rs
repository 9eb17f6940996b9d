//! The tables that an image of ExOS works by: what a native program can replace, and what the layers above this one are
//! for it.

use super::call::{Operation, Operations};
use super::pager::OwnPages;
use crate::descriptor::open_file::Offsets;
use crate::hw::header;
use crate::upcalls::Upcalls;
use linux_abi::errno::Errno;
use linux_raw_sys::general::__NR_rt_sigreturn;
use vm::address_space::{Access, AddressSpace, FaultError};

/// What can be replaced.
#[derive(Debug)]
pub struct OverrideTables {
    /// The Linux calls, by number.
    pub calls: Operations,
    /// Where open descriptions keep their offsets.
    pub offsets: Offsets,
    /// What a fault in the program's memory does: which page comes, and which goes for it.
    pub fault: FaultOperation,
    /// Whether the return from a handler is ExOS's own.
    pub(crate) has_own_return: bool,
}

/// Mends a fault at an address of the program, or says why it cannot be mended. The lock of the memory is held.
pub type FaultOperation = fn(&mut AddressSpace, &mut OwnPages<'_>, u64, Access) -> Result<(), FaultError>;

impl OverrideTables {
    /// These tables, with another operation for the call of this number.
    pub const fn with_call(mut self, number: u32, operation: Operation) -> Self {
        self.calls[number as usize] = Some(operation);
        self.has_own_return &= number != __NR_rt_sigreturn;
        self
    }

    /// These tables, with offsets elsewhere.
    pub const fn with_offsets(mut self, offsets: Offsets) -> Self {
        self.offsets = offsets;
        self
    }

    /// These tables, with faults mended otherwise.
    pub const fn with_fault(mut self, fault: FaultOperation) -> Self {
        self.fault = fault;
        self
    }
}

/// All that an image works by.
#[derive(Debug)]
pub struct ImageTables {
    /// What can be replaced.
    pub tables: OverrideTables,
    /// Its calls that need not know every register: see [`super::call::quick`].
    pub quick: Operations,
    /// The calls of a deferred vfork child.
    pub unborn: &'static Operations,
    /// The first function of a child that fork made.
    pub child_entry: extern "C" fn(u64),
    /// Declares the entries and handlers of a process.
    pub install_gate: fn(),
    /// What layers below have those above do.
    pub upcalls: Upcalls,
}

/// The tables of the image that runs.
///
/// # Errors
/// `ENOEXEC` where that was not made by [`crate::image`].
pub fn running() -> Result<&'static ImageTables, Errno> {
    header::tables().downcast_ref().ok_or(Errno::ENOEXEC)
}
