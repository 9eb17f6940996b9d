//! Memo of the last claims and of the last permission: neighbouring blocks of a sector are bound and written one after
//! the other, and each asks the same questions.
//!
//! Programs are deterministic (FAULTS rows 61 and 63), so equal questions have equal answers. A question names the page
//! and its version. Invariants:
//! - a page that gets another block leaves the memo; so does one whose checksums change.
//! - nothing that was refused stands here.
//!
//! It saves one run of owns a bind, and two runs of the access program for each bind and each store. Each of the latter
//! copies a block (bench row `write-mib`).

use crate::access::{Caller, Operation};

/// A sector whose claims are in the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) page: usize,
    pub(crate) sector: usize,
    pub(crate) version: u64,
}

/// An operation on the children of a block that the access program of a tree's template permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permission {
    pub(crate) page: usize,
    pub(crate) version: u64,
    pub(crate) template: u8,
    pub(crate) operation: Operation,
    pub(crate) caller: Caller,
}

/// Permissions that are remembered: one for binds and one for stores.
const PERMISSIONS: usize = 2;

/// The memo of a volume.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// The sector whose claims the workspace holds.
    pub(crate) listed: Option<Listed>,
    permitted: [Option<Permission>; PERMISSIONS],
    /// A template whose access program looks at credentials alone, and credentials that it permits everything.
    pub(crate) admitted: Option<(u8, [u64; 4])>,
}

impl Memo {
    /// Whether this was permitted.
    pub(crate) fn permits(&self, question: &Permission) -> bool {
        self.permitted.iter().flatten().any(|known| known == question)
    }

    /// Records a permission in the place of the older one of its operation.
    pub(crate) fn permit(&mut self, granted: Permission) {
        let place = usize::from(granted.operation == Operation::Write);
        self.permitted[place] = Some(granted);
    }

    /// Forgets a page.
    pub(crate) fn forget(&mut self, page: usize) {
        self.listed = self.listed.filter(|listed| listed.page != page);
        for known in &mut self.permitted {
            *known = known.filter(|known| known.page != page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(page: usize, version: u64, operation: Operation, seconds: u64) -> Permission {
        let caller = Caller { credentials: [1, 2, 3, 4], clock: seconds };
        Permission { page, version, template: 1, operation, caller }
    }

    #[test]
    fn only_the_same_question_has_been_answered() {
        let mut memo = Memo::default();
        let asked = question(3, 2, Operation::Write, 7);
        memo.permit(asked);
        memo.permit(question(3, 2, Operation::Read, 7));
        assert!(memo.permits(&asked) && memo.permits(&question(3, 2, Operation::Read, 7)));
        let others = [
            question(4, 2, Operation::Write, 7),
            question(3, 4, Operation::Write, 7),
            question(3, 2, Operation::Modify, 7),
            question(3, 2, Operation::Write, 8),
            Permission { template: 2, ..asked },
            Permission { caller: Caller { credentials: [1, 2, 3, 5], clock: 7 }, ..asked },
        ];
        assert!(others.iter().all(|other| !memo.permits(other)));
        memo.forget(4);
        assert!(memo.permits(&asked));
        memo.forget(3);
        assert!(!memo.permits(&asked) && !memo.permits(&question(3, 2, Operation::Read, 7)));
    }
}
