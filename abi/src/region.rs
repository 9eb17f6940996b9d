//! Software regions: protection finer than a page (xok-exos-sosp97 §3.3). A page that its owner made one holds
//! [`crate::limits::REGIONS_PER_PAGE`] regions; each has a name of its own and is reached by system calls only.

use crate::capability::Capability;
use crate::limits::{REGION_BYTES, REGIONS_PER_PAGE};

/// A page of regions as the kernel keeps it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RegionPage {
    /// The access to each: one capability a region.
    pub names: [Capability; REGIONS_PER_PAGE],
    /// Their contents.
    pub data: [[u64; REGION_BYTES / 8]; REGIONS_PER_PAGE],
}

const _: () = assert!(size_of::<RegionPage>() == 3840);
