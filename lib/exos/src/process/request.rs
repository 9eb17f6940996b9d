//! What one process asks another to do: `prlimit` of another process, as a path that travels like a question about `/proc`
//! (`guardian::questions`).
//!
//! Pure. Raising what may be asked for at most has a name of its own, which the guardian passes on from user 0 only.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// First name of a request to tell or lower limits.
pub const LIMIT: &str = "(limit)";
/// First name of one that may raise them.
pub const RAISED_LIMIT: &str = "(raised limit)";

/// A request about a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The resource.
    pub resource: u64,
    /// What is to hold, and the most that may be asked for.
    pub new: Option<[u64; 2]>,
    /// Whether the most may become more.
    pub may_raise: bool,
}

impl Limit {
    /// As a path.
    pub fn to_path(self) -> String {
        let first = if self.may_raise { RAISED_LIMIT } else { LIMIT };
        match self.new {
            None => format!("{first}/{}", self.resource),
            Some([soft, hard]) => format!("{first}/{}/{soft}/{hard}", self.resource),
        }
    }

    /// From a path.
    pub fn from_path(path: &str) -> Option<Self> {
        let mut parts = path.split('/');
        let may_raise = match parts.next()? {
            RAISED_LIMIT => true,
            LIMIT => false,
            _ => return None,
        };
        let numbers: Vec<u64> = parts.map(|part| part.parse().ok()).collect::<Option<_>>()?;
        let (resource, new) = match *numbers.as_slice() {
            [resource] => (resource, None),
            [resource, soft, hard] => (resource, Some([soft, hard])),
            _ => return None,
        };
        Some(Self { resource, new, may_raise })
    }
}

/// Limits as an answer has them.
pub fn limits_to(limits: [u64; 2]) -> Vec<u8> {
    limits.iter().flat_map(|limit| limit.to_le_bytes()).collect()
}

/// Limits from an answer.
pub fn limits_from(bytes: &[u8]) -> Option<[u64; 2]> {
    let (soft, hard) = bytes.split_at_checked(8)?;
    Some([u64::from_le_bytes(soft.try_into().ok()?), u64::from_le_bytes(hard.try_into().ok()?)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_out_as_it_went_in() {
        for new in [None, Some([0, u64::MAX])] {
            for may_raise in [false, true] {
                let request = Limit { resource: 7, new, may_raise };
                assert_eq!(Limit::from_path(&request.to_path()), Some(request));
            }
        }
        for wrong in ["", "(limit)", "(limit)/x", "(limit)/1/2", "limits/1", "(limit)/1/2/3/4"] {
            assert_eq!(Limit::from_path(wrong), None, "{wrong}");
        }
        assert_eq!(limits_from(&limits_to([1, u64::MAX])), Some([1, u64::MAX]));
        assert_eq!(limits_from(b"123456789"), None);
    }
}
