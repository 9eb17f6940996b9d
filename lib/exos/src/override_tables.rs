//! The tables of operations that an image of ExOS works by, and that a native program can replace (DESIGN.md §5).
//!
//! A program that links this library into an image of its own names its tables to [`crate::image`]. A table entry that
//! it replaces counts for every process that runs on its image, and for no other. `app/override` shows it; doc/exos.md
//! says how.

use crate::descriptor::open_file::SHARED_OFFSETS;
use crate::descriptor::{async_io, fd_pins};
use crate::entry::{crash, gate};
use crate::hw::header::{Header, Tables};
use crate::process::call::quick;
use crate::process::fork::child_start;
pub use crate::process::image::{FaultOperation, ImageTables, OverrideTables};
use crate::process::pager::OwnPages;
use crate::process::sched::cpu_time;
use crate::process::{children, exit, spawn_cache, thread};
use crate::procfs;
use crate::syscalls::{OPERATIONS, UNBORN};
use crate::upcalls::Upcalls;
use vm::address_space::{Access, AddressSpace, FaultError};

impl OverrideTables {
    /// ExOS's own.
    pub const EXOS: Self = Self { calls: OPERATIONS, offsets: SHARED_OFFSETS, fault: Self::fill, has_own_return: true };

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

impl ImageTables {
    /// Those of an image that works by these tables.
    pub const fn new(tables: OverrideTables) -> Self {
        let upcalls = Upcalls {
            end: exit::end,
            report: crash::report_sent,
            leave: exit::leave,
            leave_for_exec: exit::leave_for_exec,
            answer_request: procfs::answer,
            lead_on: procfs::lead_on,
            write_proc: procfs::write,
            each_thread: thread::each,
            child: children::find,
            process_time: cpu_time::own_time,
            trim: spawn_cache::trim,
            end_watches: fd_pins::end_watches,
            look_at_watches: async_io::look,
            watch_terms: async_io::terms,
        };
        let (child_entry, install_gate) = (child_start::child_entry, gate::install);
        Self { quick: quick(&tables.calls), tables, unborn: &UNBORN, child_entry, install_gate, upcalls }
    }
}

/// The header of an image with these tables.
pub const fn header(tables: Tables) -> Header {
    Header::new(child_start::first, gate::stub_entry, gate::return_failed, tables)
}

/// Makes this program an image of ExOS that works by `$tables`, to be linked with `lib/exos/link/image.ld`.
#[macro_export]
macro_rules! image {
    ($tables:expr) => {
        #[used]
        #[unsafe(link_section = ".exos_header")]
        static HEADER: $crate::hw::header::Header = $crate::override_tables::header(&TABLES);

        static TABLES: $crate::override_tables::ImageTables = $crate::override_tables::ImageTables::new($tables);

        $crate::runtime::entry!(main);

        /// A process begins at a function that its maker names; without one there is nothing to do.
        fn main() -> u32 {
            $crate::runtime::entry::START_FAILURE_STATUS
        }
    };
}
