//! The supplementary groups of a process, in ascending order, as Linux keeps and reports them (getgroups(2)).
//!
//! Pure. A child has its parent's: who has tens of thousands of them pays for that once.

use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};

/// How many there may be (`NGROUPS_MAX`).
pub const MOST: usize = 65_536;

/// The groups. None take no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups(Option<Arc<[u32]>>);

impl Groups {
    /// These, in any order.
    ///
    /// # Errors
    /// `EINVAL` for too many.
    pub fn new(mut groups: Vec<u32>) -> Result<Self> {
        if groups.len() > MOST {
            return Err(Errno::EINVAL);
        }
        groups.sort_unstable();
        Ok(Self((!groups.is_empty()).then(|| groups.into())))
    }

    /// All of them.
    pub fn all(&self) -> &[u32] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether a group is one of them.
    #[inline]
    pub fn has(&self, group: u32) -> bool {
        self.0.as_ref().is_some_and(|groups| groups.binary_search(&group).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn they_are_sorted_and_found() {
        let some = Groups::new(vec![7, 3, 70_000, 3, 0]).expect("few");
        assert_eq!(some.all(), [0, 3, 3, 7, 70_000]);
        assert!([0, 3, 7, 70_000].into_iter().all(|group| some.has(group)) && !some.has(1) && !some.has(u32::MAX));
        assert_eq!(Groups::new(Vec::new()).map(|none| none == Groups::default()), Ok(true));
        assert_eq!(Groups::new(vec![1; MOST]).map(|all| all.all().len()), Ok(MOST));
        assert_eq!(Groups::new(vec![1; MOST + 1]), Err(Errno::EINVAL));
    }
}
