//! What one process asks another to do: `prlimit`, `setpriority` and the like of another process, as a path that
//! travels like a question about `/proc` (`server::process_requests`).
//!
//! Pure. What takes more than a process has a right to has a name of its own, which the server passes on from user 0
//! only.

use super::prctl_state::{Attributes, Change};
use vfs::path_walk::PATH_BYTES;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// First name of a request to tell or lower limits.
pub const LIMIT: &str = "(limit)";
/// First name of one that may raise them.
pub const RAISED_LIMIT: &str = "(raised limit)";
/// First name of a request to tell how a process is scheduled.
pub const SCHEDULED: &str = "(scheduled)";
/// First name of one to change that.
pub const SCHEDULE: &str = "(schedule)";
/// First name of one to look again at a file that got shorter, or a hole: its node, and from which byte to which.
pub const CUT: &str = "(cut)";
/// First name of one to open what a pipe has grown by: the number of its first page.
pub const GROWN: &str = "(grown)";
/// First name of one to adopt children of who asks, and ends: their numbers.
pub const ADOPT: &str = "(adopt)";
/// First name of one to tell what a descriptor is open on.
pub const DESCRIPTION: &str = "(description)";
/// First name of one for the attributes of what a descriptor is open on (`fstat`).
pub const STATUS: &str = "(status)";
/// First name of one to hand over a copy of a descriptor.
pub const COPY: &str = "(copy)";
/// First name of one for bytes of memory, and of one to change them.
pub const MEMORY: &str = "(memory)";
/// See [`MEMORY`].
pub const STORE: &str = "(store)";
/// First name of one for the entries of `pagemap`.
pub const PAGE_MAP: &str = "(page map)";
/// First name of one to set a value by a file below `/proc`.
pub const SET: &str = "(set)";
/// First name of one that may lower the OOM score adjustment.
pub const RAISED_SET: &str = "(raised set)";
/// First name of one that may give it more than it has a right to.
pub const RAISED_SCHEDULE: &str = "(raised schedule)";

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

/// A request about how a process is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// What is to change; `None`: it is only asked.
    pub change: Option<Change>,
    /// Whether it may get more than it has a right to.
    pub may_raise: bool,
}

impl Schedule {
    /// As a path.
    pub fn to_path(self) -> String {
        let Some(change) = self.change else { return SCHEDULED.into() };
        let first = if self.may_raise { RAISED_SCHEDULE } else { SCHEDULE };
        let [what, value] = change.to_words();
        format!("{first}/{what}/{value}")
    }

    /// From a path.
    pub fn from_path(path: &str) -> Option<Self> {
        let mut parts = path.split('/');
        let may_raise = match parts.next()? {
            SCHEDULED => return parts.next().is_none().then_some(Self { change: None, may_raise: false }),
            RAISED_SCHEDULE => true,
            SCHEDULE => false,
            _ => return None,
        };
        let numbers: Vec<u64> = parts.map(|part| part.parse().ok()).collect::<Option<_>>()?;
        let change = Change::from_words(numbers.try_into().ok()?)?;
        Some(Self { change: Some(change), may_raise })
    }
}

/// A request to set a value by a file below `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<'a> {
    /// Name of the file.
    pub name: &'a str,
    /// The value.
    pub value: i64,
    /// Whether it may lower the OOM score adjustment.
    pub may_raise: bool,
}

impl<'a> Setting<'a> {
    /// As a path.
    pub fn to_path(self) -> String {
        format!("{}/{}/{}", if self.may_raise { RAISED_SET } else { SET }, self.name, self.value)
    }

    /// From a path.
    pub fn from_path(path: &'a str) -> Option<Self> {
        let [first, name, value] = path.split('/').collect::<Vec<_>>().try_into().ok()?;
        let may_raise = match first {
            RAISED_SET => true,
            SET => false,
            _ => return None,
        };
        Some(Self { name, value: value.parse().ok()?, may_raise })
    }
}

/// What a request about a file says that bytes went from: its node, the first of them, and the one behind the last.
pub fn cut_from_path(path: &str) -> Option<[u64; 3]> {
    let numbers: Option<Vec<u64>> = path.strip_prefix(CUT)?.split('/').skip(1).map(|part| part.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// Such a request.
pub fn cut_to_path([node, first, end]: [u64; 3]) -> String {
    format!("{CUT}/{node}/{first}/{end}")
}

/// A request to open what a pipe has grown by.
pub fn grown_to_path(first: u64) -> String {
    format!("{GROWN}/{first}")
}

/// The pipe that such a request is about.
pub fn grown_from_path(path: &str) -> Option<u64> {
    path.strip_prefix(GROWN)?.strip_prefix('/')?.parse().ok()
}

/// A request about a descriptor: [`DESCRIPTION`], [`STATUS`] or [`COPY`].
pub fn descriptor_to_path(first: &str, descriptor: u64) -> String {
    format!("{first}/{descriptor}")
}

/// The descriptor that such a request is about.
pub fn descriptor_from_path(first: &str, path: &str) -> Option<u64> {
    path.strip_prefix(first)?.strip_prefix('/')?.parse().ok()
}

/// A request to adopt children.
pub fn adopt_to_path(numbers: &[u64]) -> String {
    numbers.iter().fold(ADOPT.into(), |path: String, number| format!("{path}/{number}"))
}

/// Those that such a request names.
pub fn adopt_from_path(path: &str) -> Option<Vec<u64>> {
    path.strip_prefix(ADOPT)?.split('/').skip(1).map(|part| part.parse().ok()).collect()
}

/// A request for bytes of memory: address and count. `forced`: whatever the protection of the memory.
pub fn memory_to_path(address: u64, bytes: u64, forced: bool) -> String {
    format!("{MEMORY}/{address}/{bytes}/{}", u64::from(forced))
}

/// What such a request asks for.
pub fn memory_from_path(path: &str) -> Option<(u64, u64, bool)> {
    let [address, bytes, forced] = numbers_after(MEMORY, path)?;
    Some((address, bytes, forced != 0))
}

/// A request for the entries of `/proc/PID/pagemap` from a page on, so many.
pub fn page_map_to_path(first: u64, count: u64) -> String {
    format!("{PAGE_MAP}/{first}/{count}")
}

/// What such a request asks for.
pub fn page_map_from_path(path: &str) -> Option<[u64; 2]> {
    numbers_after(PAGE_MAP, path)
}

fn numbers_after<const N: usize>(first: &str, path: &str) -> Option<[u64; N]> {
    let numbers: Option<Vec<u64>> =
        path.strip_prefix(first)?.split('/').skip(1).map(|part| part.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// A request to put bytes into memory, which follow the address as they are. `forced`: see [`memory_to_path`].
pub fn store_to_bytes(address: u64, forced: bool, bytes: &[u8]) -> Vec<u8> {
    let mut request = format!("{STORE}/{address}/{}/", u64::from(forced)).into_bytes();
    request.extend_from_slice(bytes);
    request
}

/// What such a request puts where.
pub fn store_from_bytes(request: &[u8]) -> Option<(u64, bool, &[u8])> {
    let (address, rest) = number_before(request.strip_prefix(STORE.as_bytes())?.strip_prefix(b"/")?)?;
    let (forced, bytes) = number_before(rest)?;
    Some((address, forced != 0, bytes))
}

/// A number that ends with a slash, and what follows.
fn number_before(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'/')?;
    let number = core::str::from_utf8(&bytes[..end]).ok()?;
    Some((number.parse().ok()?, &bytes[end + 1..]))
}

/// Bytes of memory that one request carries at most.
pub const MOST_STORED: u64 = 512 << 10;

/// Bytes that a request may have whose first name this is: those that carry memory fill several windows.
pub fn most_bytes(first: &[u8]) -> u64 {
    if first == STORE.as_bytes() { MOST_STORED + 64 } else { PATH_BYTES as u64 }
}

/// How a process is scheduled, as an answer has it.
pub fn schedule_to(attributes: &Attributes) -> Vec<u8> {
    attributes.scheduling().iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// How a process is scheduled, from an answer.
pub fn schedule_from(bytes: &[u8]) -> Option<Attributes> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    rest.is_empty().then(|| words.try_into().ok().map(Attributes::scheduled_as))?
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
    use alloc::vec;

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
        let changes = [Change::Priority(7), Change::Policy(1, 50), Change::Cpus(3), Change::Io(1 << 13)];
        for change in changes.map(Some).into_iter().chain([None]) {
            let request = Schedule { change, may_raise: change == Some(Change::Cpus(3)) };
            assert_eq!(Schedule::from_path(&request.to_path()), Some(request));
        }
        for wrong in ["(schedule)", "(schedule)/9/1", "(schedule)/1", "(scheduled)/1", "(schedule)/1/2/3", "(limit)/1"]
        {
            assert_eq!(Schedule::from_path(wrong), None, "{wrong}");
        }
        for may_raise in [false, true] {
            let setting = Setting { name: "oom_score_adj", value: -1000, may_raise };
            assert_eq!(Setting::from_path(&setting.to_path()), Some(setting));
        }
        for wrong in ["(set)", "(set)/x", "(set)/x/", "(set)/x/1/2", "(limit)/x/1"] {
            assert_eq!(Setting::from_path(wrong), None, "{wrong}");
        }
        let attributes = Attributes { priority: 3, cpus: 1, policy: 2, real_time_priority: 9, ..Attributes::default() };
        assert_eq!(schedule_from(&schedule_to(&attributes)), Some(attributes));
        assert_eq!(schedule_from(b"123"), None);
        assert_eq!(memory_from_path(&memory_to_path(1 << 40, 3, true)), Some((1 << 40, 3, true)));
        assert_eq!(page_map_from_path(&page_map_to_path(1 << 35, 3)), Some([1 << 35, 3]));
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(store_from_bytes(&store_to_bytes(9, true, &bytes)), Some((9, true, &bytes[..])));
        assert_eq!([most_bytes(b"(store)"), most_bytes(b"(memory)")], [MOST_STORED + 64, PATH_BYTES as u64]);
        for wrong in ["(store)/1", "(store)/1/2", "(store)//0/00", "(memory)/1/0/00", "(store)"] {
            assert_eq!(store_from_bytes(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(cut_from_path(&cut_to_path([7, 0, u64::MAX])), Some([7, 0, u64::MAX]));
        for wrong in ["", "(cut)", "(cut)/1/2", "(cut)/1/2/x", "(cut)/1/2/3/4", "7/0/1"] {
            assert_eq!(cut_from_path(wrong), None, "{wrong}");
        }
        assert_eq!(adopt_from_path(&adopt_to_path(&[7, u64::MAX])), Some(vec![7, u64::MAX]));
        assert!(["", "(adopt)/", "(adopt)/1/x", "7"].iter().all(|wrong| adopt_from_path(wrong).is_none()));
        assert_eq!(descriptor_from_path(COPY, &descriptor_to_path(COPY, 3)), Some(3));
        assert_eq!(descriptor_from_path(COPY, &descriptor_to_path(DESCRIPTION, 3)), None);
        assert_eq!(grown_from_path(&grown_to_path(77)), Some(77));
        assert!(["", "(grown)", "(grown)/", "(grown)/1/2"].iter().all(|wrong| grown_from_path(wrong).is_none()));
        assert_eq!(limits_from(&limits_to([1, u64::MAX])), Some([1, u64::MAX]));
        assert_eq!(limits_from(b"123456789"), None);
    }
}
