//! What processes ask each other: a file of another process below `/proc` is made by the library of that process, which
//! alone knows what it says, and handed on here. The guardian knows both, and so who may ask what (proc(5), ptrace(2)).
//!
//! Holds always: an answer comes from the process that was asked, and goes to the one that asked. A word in the mailbox of a
//! process says that there are questions for it; it takes them from here one by one, so that none is lost however many come.

use super::protocol::{NO_LONGER_WANTED, WINDOW_BYTES};
use super::server::{Answer, NOTHING, Server};
use crate::errno::{Errno, Result};
use crate::file_system::path::PATH_BYTES;
use crate::process::identity::{Identity, Three};
use crate::process::request;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use runtime::{EnvironmentId, exposed};

/// Questions that may be open at a time.
const MOST: usize = 64;
/// Bytes of an answer, at most.
const MOST_BYTES: usize = 4 << 20;
/// What anybody may know of any process: first names of paths.
const FOR_ALL: [&[u8]; 15] = [
    request::ADOPT.as_bytes(),
    request::CUT.as_bytes(),
    request::GROWN.as_bytes(),
    b"cmdline",
    b"comm",
    b"limits",
    b"mountinfo",
    b"mounts",
    request::SCHEDULED.as_bytes(),
    b"oom_score",
    b"oom_score_adj",
    b"stat",
    b"statm",
    b"status",
    b"task",
];

/// A question that somebody waits for.
#[derive(Debug)]
struct Question {
    asker: u64,
    asked: u64,
    path: Vec<u8>,
    /// Whether who is asked has taken it.
    taken: bool,
    /// Error and kind of entry, once all of the answer is there.
    outcome: Option<[u64; 2]>,
    bytes: Vec<u8>,
}

/// Open questions, by their numbers.
#[derive(Debug, Default)]
pub struct Questions {
    open: BTreeMap<u64, Question>,
    last: u64,
}

/// Whether one process may look into another: user 0, and whoever is the same user and group in every way, and as much set
/// apart by a program.
fn may_look_into(asker: &Identity, asked: &Identity) -> bool {
    let all = |three: Three, own: u32| [three.real, three.effective, three.saved].iter().all(|id| *id == own);
    asker.is_privileged()
        || asker.apart == asked.apart && all(asked.user, asker.user.real) && all(asked.group, asker.group.real)
}

impl Server {
    /// See [`super::protocol::Operation::Ask`]; the process that is asked is told with `tell`.
    pub(super) fn ask(
        &mut self,
        caller: u64,
        (asked, length): (u64, u64),
        tell: impl Fn() -> Result<()>,
    ) -> Result<Answer> {
        let path = self.bytes(caller, length.min(PATH_BYTES as u64))?;
        let (Some(asker), Some(target)) = (self.clients.get(&caller), self.clients.get(&asked)) else {
            return Err(Errno::ESRCH);
        };
        let first = path.split(|byte| *byte == b'/').next().unwrap_or_default();
        let raises = [request::RAISED_LIMIT, request::RAISED_SCHEDULE].iter().any(|name| first == name.as_bytes());
        if raises && !asker.identity.is_privileged() {
            return Err(Errno::EPERM);
        }
        if !FOR_ALL.contains(&first) && !may_look_into(&asker.identity, &target.identity) {
            return Err(Errno::EACCES);
        }
        let lives = |number: u64| exposed::lives(EnvironmentId(number));
        self.questions.open.retain(|_, question| lives(question.asker));
        if self.questions.open.len() >= MOST {
            // Its threads may have left some when another program began.
            self.questions.open.retain(|_, question| question.asker != caller);
        }
        if self.questions.open.len() >= MOST {
            return Err(Errno::EAGAIN);
        }
        self.questions.last += 1;
        let number = self.questions.last;
        tell()?;
        let question = Question { asker: caller, asked, path, taken: false, outcome: None, bytes: Vec::new() };
        self.questions.open.insert(number, question);
        Ok([number, 0, 0, 0, 0])
    }

    /// See [`super::protocol::Operation::TakeQuestion`].
    pub(super) fn take_question(&mut self, caller: u64) -> Result<Answer> {
        let is_next = |question: &Question| question.asked == caller && !question.taken;
        let next = self.questions.open.iter_mut().find(|(_, question)| is_next(question));
        let (number, question) = next.ok_or(Errno::ENOENT)?;
        question.taken = true;
        let (number, path) = (*number, question.path.clone());
        Ok([number, self.put(caller, &path)?, 0, 0, 0])
    }

    /// See [`super::protocol::Operation::Answer`].
    pub(super) fn answer(&mut self, caller: u64, [number, error, kind, bytes, last]: [u64; 5]) -> Result<Answer> {
        let some = self.bytes(caller, bytes)?;
        let question = self.questions.open.get_mut(&number).filter(|question| question.asked == caller);
        let question = question.filter(|question| question.outcome.is_none()).ok_or(Errno::ENOENT)?;
        let room = MOST_BYTES.saturating_sub(question.bytes.len());
        question.bytes.extend_from_slice(&some[..some.len().min(room)]);
        if last != 0 {
            question.outcome = Some([error, kind]);
            self.tell_of_change();
        }
        Ok(NOTHING)
    }

    /// See [`super::protocol::Operation::TakeAnswer`].
    pub(super) fn take_answer(&mut self, caller: u64, number: u64, offset: u64) -> Result<Answer> {
        let question = self.questions.open.get(&number).filter(|question| question.asker == caller);
        let question = question.ok_or(Errno::ENOENT)?;
        if offset == NO_LONGER_WANTED {
            self.questions.open.remove(&number);
            return Ok(NOTHING);
        }
        let Some([error, kind]) = question.outcome else {
            return if exposed::lives(EnvironmentId(question.asked)) { Ok(NOTHING) } else { Err(Errno::ESRCH) };
        };
        let rest = question.bytes.get(offset as usize..).unwrap_or_default();
        let some = rest[..rest.len().min(WINDOW_BYTES as usize)].to_vec();
        let last = some.len() == rest.len();
        let length = self.put(caller, &some)?;
        if last {
            self.questions.open.remove(&number);
        }
        Ok([1, error, kind, length, u64::from(last)])
    }
}
