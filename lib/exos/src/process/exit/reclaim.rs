//! Giving up pages that are charged to another process: to the maker of an environment that is gone, which is gone too
//! or will be.
//!
//! Such pages are found by a scan, and the process that they are charged to may end meanwhile: then they are free, and
//! another process may get them at once. So a page that was found is given up with a key that opens only what is under
//! the list of the dead environment. A page of another process is under another list.

use crate::process::environment::EnvironmentRef;
use abi::capability::Rights;
use core::sync::atomic::Ordering::Acquire;
use runtime::page::Allocator;
use runtime::{KeyIndex, PageNumber, exposed, key, syscall};

/// Place of an environment's own name on its access list: a dead environment has no use for it any more.
const OWN_NAME: u64 = 1;

/// The access list of an environment that is about to be gone.
#[derive(Clone, Copy, Debug)]
pub struct DeadAccessList {
    list: PageNumber,
    /// A page under it: as long as that page exists the number stands for the same list, even if another process frees
    /// what is under it.
    anchor: PageNumber,
}

impl DeadAccessList {
    /// The list of an environment that is not quite gone yet, which `power` opens. Nothing where it is gone, or there
    /// is no page.
    pub fn pin(made: &EnvironmentRef, power: KeyIndex) -> Option<Self> {
        let anchors = Allocator { key: power, list: made.list };
        let anchor = anchors.allocate().ok()?;
        if still_present(made) {
            return Some(Self { list: made.list, anchor });
        }
        let _ = anchors.free(anchor);
        None
    }

    /// Whether it is this list or the page that keeps it.
    pub fn keeps(&self, page: PageNumber) -> bool {
        [self.list, self.anchor].contains(&page)
    }

    /// Whether a page is under the list.
    pub fn holds(&self, page: &exposed::Page) -> bool {
        page.access() == self.list
    }

    /// In one call: between the end of the anchor and that of the list no other process can free the list.
    fn close(&self, key: KeyIndex) {
        Allocator { key, list: self.list }.free_many(&[self.anchor, self.list]);
    }
}

/// Whether an environment that was found is still there, and its list the one that was found.
pub fn still_present(made: &EnvironmentRef) -> bool {
    exposed::environment(made.number).is_some_and(|info| {
        let root = exposed::page(PageNumber(info.root.load(Acquire)));
        let is_its = root.is_some_and(|root| root.access() == made.list);
        // Asked last: what was seen before was its as long as it is there now.
        is_its && info.remains() && info.number.load(Acquire) == made.number.0
    })
}

/// Has `free` give up what is under the lists of some who are gone, with a key that opens nothing else; then the lists
/// go.
pub fn close(graves: &[DeadAccessList], power: KeyIndex, free: impl FnOnce(KeyIndex)) {
    let Ok(key) = key::derive(power, Rights::ALL, 0) else {
        // Anchors are the running environment's own.
        return graves.iter().for_each(|grave| _ = Allocator { key: power, list: grave.list }.free(grave.anchor));
    };
    for grave in graves {
        let _ = syscall::access_list_set(power, grave.list, OWN_NAME, key, u64::from(Rights::ALL.0));
    }
    free(key);
    graves.iter().for_each(|grave| grave.close(key));
    let _ = key::discard(key);
}
