//! The tables of operations that an image of ExOS works by, and that a native program can replace (DESIGN.md §5).
//!
//! A program that links this library into an image of its own names its tables to [`crate::image`]. A table entry that
//! it replaces counts for every process that runs on its image, and for no other. `app/override` shows it; doc/exos.md
//! says how.

use crate::descriptor::open_file::{Offsets, SHARED_OFFSETS};
use crate::hw::pager::OwnPages;
use crate::syscalls::{OPERATIONS, Operation, Operations};
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
    /// ExOS's own.
    pub const EXOS: Self = Self { calls: OPERATIONS, offsets: SHARED_OFFSETS, fault: Self::fill, has_own_return: true };

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

    /// ExOS's own way with a fault: the page comes, and no page goes.
    ///
    /// # Errors
    /// What Linux would make a signal of.
    pub fn fill(
        space: &mut AddressSpace,
        pages: &mut OwnPages<'_>,
        address: u64,
        access: Access,
    ) -> Result<(), FaultError> {
        space.fault(pages, address, access)
    }
}

/// Makes this program an image of ExOS that works by `$tables`, to be linked with `lib/exos/link/image.ld`.
#[macro_export]
macro_rules! image {
    ($tables:expr) => {
        #[used]
        #[unsafe(link_section = ".exos_header")]
        static HEADER: $crate::hw::header::Header = $crate::hw::header::Header::new($tables);

        $crate::runtime::entry!(main);

        /// A process begins at a function that its maker names; without one there is nothing to do.
        fn main() -> u32 {
            $crate::runtime::entry::START_FAILURE_STATUS
        }
    };
}
