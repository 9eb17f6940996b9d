//! The folder `ns` of a process (namespaces(7)). There is one name space of each kind for all, and it bears the number
//! of Linux's first of that kind.

use super::{Entry, LINK, named};
use alloc::format;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};

/// Names in the folder, kinds, and numbers.
const ALL: [(&str, &str, u64); 10] = [
    ("cgroup", "cgroup", 4_026_531_835),
    ("ipc", "ipc", 4_026_531_839),
    ("mnt", "mnt", 4_026_531_832),
    ("net", "net", 4_026_531_833),
    ("pid", "pid", 4_026_531_836),
    ("pid_for_children", "pid", 4_026_531_836),
    ("time", "time", 4_026_531_834),
    ("time_for_children", "time", 4_026_531_834),
    ("user", "user", 4_026_531_837),
    ("uts", "uts", 4_026_531_838),
];

/// A name space, as the link to it and the file behind that show it.
#[derive(Clone, Copy)]
pub(super) struct Namespace {
    kind: &'static str,
    /// Number of its file.
    pub(super) node: u64,
}

impl Namespace {
    /// Where the link leads.
    pub(super) fn target(self) -> Vec<u8> {
        format!("{}:[{}]", self.kind, self.node).into_bytes()
    }
}

/// What lies below the folder, or the folder.
pub(super) fn entry(rest: &[&str]) -> Result<Entry> {
    match rest {
        [] => Ok(Entry::Directory(named(ALL.into_iter().map(|(name, ..)| name), |_| LINK))),
        [wanted] => {
            let found = ALL.into_iter().find(|(name, ..)| name == wanted);
            found.map(|(_, kind, node)| Entry::Namespace(Namespace { kind, node })).ok_or(Errno::ENOENT)
        }
        _ => Err(Errno::ENOTDIR),
    }
}
