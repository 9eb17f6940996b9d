//! What processes ask each other: a file of another process below `/proc` is made by the library of that process, which
//! alone knows what it says, and handed on here. The server knows both, and so who may ask what (proc(5), ptrace(2)).
//!
//! Invariant: an answer comes from the process that was asked, and goes to the one that asked. A word in the mailbox of
//! a process says that there are requests for it. The process takes them from here one by one, so that none is lost
//! however many come.

use crate::dispatch::{Answer, FileServer, NOTHING};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::{EnvironmentId, exposed};
use unix_core::process::credentials::{Credentials, ResIds};
use unix_core::process::remote_request;
use unix_core::server::protocol::{NO_LONGER_WANTED, WINDOW_BYTES};

/// Questions that may be open at a time.
const MOST: usize = 64;
/// Bytes of an answer, at most.
const MOST_BYTES: usize = 4 << 20;
/// What every process may know of any other: first names of paths.
const FOR_ALL: [&[u8]; 17] = [
    remote_request::ADOPT.as_bytes(),
    remote_request::CUT.as_bytes(),
    remote_request::GROWN.as_bytes(),
    b"cmdline",
    b"comm",
    b"limits",
    b"loginuid",
    b"mountinfo",
    b"mounts",
    remote_request::SCHEDULED.as_bytes(),
    b"oom_score",
    b"oom_score_adj",
    b"sessionid",
    b"stat",
    b"statm",
    b"status",
    b"task",
];

/// A request whose sender waits for the answer.
#[derive(Debug)]
struct PendingRequest {
    asker: u64,
    asked: u64,
    path: Vec<u8>,
    /// Whether all of the request is there, and whether who is asked has taken it.
    whole: bool,
    taken: bool,
    /// Error and kind of entry, once all of the answer is there.
    outcome: Option<[u64; 2]>,
    bytes: Vec<u8>,
}

/// Open questions, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct RequestQueue {
    open: BTreeMap<u64, PendingRequest>,
    last: u64,
}

/// Whether one process may look into another (ptrace(2)): with the capability it may. Else user and group are the same
/// in every way, a program has set both apart equally, and the asker has all capabilities of the asked.
fn may_look_into(asker: &Credentials, asked: &Credentials) -> bool {
    let all = |three: ResIds, own: u32| [three.real, three.effective, three.saved].iter().all(|id| *id == own);
    let is_within = asked.permitted() & !asker.effective() == 0;
    asker.has(linux::CAP_SYS_PTRACE)
        || is_within
            && asker.apart == asked.apart
            && all(asked.user, asker.user.real)
            && all(asked.group, asker.group.real)
}

impl FileServer {
    /// See [`unix_core::server::protocol::Request::Submit`]; the process that is asked is told with `tell`.
    pub(crate) fn ask(
        &mut self,
        caller: u64,
        [asked, length, continued, more]: [u64; 4],
        tell: impl Fn() -> Result<()>,
    ) -> Result<Answer> {
        let mut path = self.bytes(caller, length.min(WINDOW_BYTES))?;
        let whole = more == 0;
        if continued != 0 {
            self.continue_question(caller, (continued, asked), &path, whole)?;
            if whole {
                tell()?;
            }
            return Ok([continued, 0, 0, 0, 0]);
        }
        let (Some(asker), Some(target)) = (self.clients.get(&caller), self.clients.get(&asked)) else {
            return Err(Errno::ESRCH);
        };
        let most = remote_request::most_bytes(path.split(|byte| *byte == b'/').next().unwrap_or_default());
        path.truncate(most as usize);
        let first = path.split(|byte| *byte == b'/').next().unwrap_or_default();
        let raises = [
            (remote_request::RAISED_LIMIT, linux::CAP_SYS_RESOURCE),
            (remote_request::RAISED_SCHEDULE, linux::CAP_SYS_NICE),
            (remote_request::RAISED_SET, linux::CAP_SYS_RESOURCE),
        ];
        if raises.iter().any(|(name, needed)| first == name.as_bytes() && !asker.credentials.has(*needed)) {
            return Err(Errno::EPERM);
        }
        if !FOR_ALL.contains(&first) && !may_look_into(&asker.credentials, &target.credentials) {
            return Err(Errno::EACCES);
        }
        let number = self.submit(caller, asked, (path, whole), tell)?;
        Ok([number, 0, 0, 0, 0])
    }

    /// Queues a question that may be asked, whole or its beginning: its number.
    pub(crate) fn submit(
        &mut self,
        caller: u64,
        asked: u64,
        (path, whole): (Vec<u8>, bool),
        tell: impl Fn() -> Result<()>,
    ) -> Result<u64> {
        let lives = |number: u64| exposed::lives(EnvironmentId(number));
        self.requests.open.retain(|_, question| lives(question.asker));
        if self.requests.open.len() >= MOST {
            // Its threads may have left some when another program began.
            self.requests.open.retain(|_, question| question.asker != caller);
        }
        if self.requests.open.len() >= MOST {
            return Err(Errno::EAGAIN);
        }
        self.requests.last += 1;
        let number = self.requests.last;
        if whole {
            tell()?;
        }
        let (taken, outcome, bytes) = (false, None, Vec::new());
        let question = PendingRequest { asker: caller, asked, path, whole, taken, outcome, bytes };
        self.requests.open.insert(number, question);
        Ok(number)
    }

    /// Adds to a request that does not fit into one window. Only who began it may.
    fn continue_question(&mut self, caller: u64, (number, asked): (u64, u64), more: &[u8], whole: bool) -> Result<()> {
        let question = self.requests.open.get_mut(&number).filter(|question| question.asker == caller);
        let question = question.filter(|question| question.asked == asked && !question.whole).ok_or(Errno::ENOENT)?;
        let first = question.path.split(|byte| *byte == b'/').next().unwrap_or_default();
        if (question.path.len() + more.len()) as u64 > remote_request::most_bytes(first) {
            return Err(Errno::E2BIG);
        }
        question.path.extend_from_slice(more);
        question.whole = whole;
        Ok(())
    }

    /// See [`unix_core::server::protocol::Request::TakeRequest`].
    pub(crate) fn take_question(&mut self, caller: u64, number: u64, offset: u64) -> Result<Answer> {
        let is_next = |question: &PendingRequest| question.asked == caller && question.whole && !question.taken;
        let is_wanted = |(own, question): &(&u64, &mut PendingRequest)| match number {
            0 => is_next(question),
            number => **own == number && question.asked == caller && question.taken,
        };
        let (number, question) = self.requests.open.iter_mut().find(is_wanted).ok_or(Errno::ENOENT)?;
        question.taken = true;
        let rest = question.path.get(offset as usize..).unwrap_or_default();
        let some = rest[..rest.len().min(WINDOW_BYTES as usize)].to_vec();
        let (number, whole) = (*number, question.path.len() as u64);
        Ok([number, self.put(caller, &some)?, whole, 0, 0])
    }

    /// See [`unix_core::server::protocol::Request::Reply`].
    pub(crate) fn answer(&mut self, caller: u64, [number, error, kind, bytes, last]: [u64; 5]) -> Result<Answer> {
        let some = self.bytes(caller, bytes)?;
        let question = self.requests.open.get_mut(&number).filter(|question| question.asked == caller);
        let question = question.filter(|question| question.outcome.is_none()).ok_or(Errno::ENOENT)?;
        let room = MOST_BYTES.saturating_sub(question.bytes.len());
        question.bytes.extend_from_slice(&some[..some.len().min(room)]);
        if last != 0 {
            question.outcome = Some([error, kind]);
            self.tell_of_change();
        }
        Ok(NOTHING)
    }

    /// See [`unix_core::server::protocol::Request::TakeReply`].
    pub(crate) fn take_answer(&mut self, caller: u64, number: u64, offset: u64) -> Result<Answer> {
        let question = self.requests.open.get(&number).filter(|question| question.asker == caller);
        let question = question.ok_or(Errno::ENOENT)?;
        if offset == NO_LONGER_WANTED {
            self.requests.open.remove(&number);
            return Ok(NOTHING);
        }
        let Some([error, kind]) = question.outcome else {
            let progress = u64::from(question.taken) + question.bytes.len() as u64;
            let lives = exposed::lives(EnvironmentId(question.asked));
            return if lives { Ok([0, progress, 0, 0, 0]) } else { Err(Errno::ESRCH) };
        };
        let rest = question.bytes.get(offset as usize..).unwrap_or_default();
        let some = rest[..rest.len().min(WINDOW_BYTES as usize)].to_vec();
        let last = some.len() == rest.len();
        let length = self.put(caller, &some)?;
        if last {
            self.requests.open.remove(&number);
        }
        Ok([1, error, kind, length, u64::from(last)])
    }
}
