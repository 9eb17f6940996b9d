//! Texts below `/proc` that need no process: mounts in their older form, counters and settings of the network.

pub mod mounts;
pub mod net_counters;
pub mod net_settings;

use alloc::vec::Vec;
use linux_abi::errno::Errno;

/// The rest of a path: from a node, or from the place where relative paths begin.
pub type Way = (Option<u64>, Vec<u8>);

/// What becomes of a link in the last place of a path below `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// It is what was asked for.
    Keep,
    /// It is followed, but what a descriptor is open on is found as such.
    Follow,
    /// It is followed, to the node of a descriptor too, where that has one: the operation gets an empty path.
    Node,
}

impl Last {
    /// For an operation that looks at attributes, by whether it follows links.
    pub const fn of(follow: bool) -> Self {
        if follow { Self::Node } else { Self::Keep }
    }
}

/// The error of every `read` of the file at a path, as Linux gives it: `EOPNOTSUPP` where pressure is not measured,
/// `EINVAL` where no security module has attributes.
pub fn read_error(path: &[u8]) -> Option<Errno> {
    if path.starts_with(b"pressure/") {
        return Some(Errno::EOPNOTSUPP);
    }
    let mut parts = path.rsplit(|byte| *byte == b'/');
    (parts.nth(1) == Some(b"attr")).then_some(Errno::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_read_say_why() {
        assert_eq!(read_error(b"pressure/cpu"), Some(Errno::EOPNOTSUPP));
        assert_eq!(read_error(b"self/attr/current"), Some(Errno::EINVAL));
        assert_eq!(read_error(b"self/attr"), None);
        assert_eq!(read_error(b"stat"), None);
    }
}
