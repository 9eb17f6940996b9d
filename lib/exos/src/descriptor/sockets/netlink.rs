//! Netlink sockets (netlink(7), rtnetlink(7)): questions about links, addresses and routes, answered by the library
//! itself.

use super::socket::wait_until;
use crate::attributes::attributes;
use crate::descriptor::file_ops::FileOps;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::poll_event::Event;
use crate::hw::domain::domain;
use crate::hw::usercopy;
use crate::server::client;
use crate::wait;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::lock::{Lock, OwnerLock};
use runtime::predicate::{Operator, Term, word};
use unix_core::server::protocol::{ASKS_NOTICE, Request};

/// A socket.
#[derive(Debug)]
pub struct Netlink {
    /// The kind that the program asked for, and the protocol.
    pub kind: u32,
    /// See [`Self::kind`].
    pub protocol: u32,
    port: AtomicU64,
    answers: Lock<VecDeque<Vec<u8>>>,
    came: AtomicU64,
    /// Message queues whose next message is reported here (`mq_notify` with SIGEV_THREAD).
    notices: Lock<Vec<QueueNotice>>,
    /// The server's count of changes before the last look at these.
    changes_seen: AtomicU64,
}

/// Bytes of the cookie that `mq_notify` takes and gives back.
pub const COOKIE: usize = 32;
/// Last byte of the cookie: a message came, or the notice was removed.
const WOKEN: u8 = 1;
const REMOVED: u8 = 2;

/// A notice of a message queue, which the server keeps until a message comes.
#[derive(Clone, Debug)]
pub struct QueueNotice {
    /// The queue.
    pub queue: u64,
    /// Distinguishes this notice from later ones of the same process.
    pub id: u64,
    /// What the program wants to receive.
    pub cookie: [u8; COOKIE],
}

impl Netlink {
    /// A fresh one, without a number.
    pub fn new(kind: u32, protocol: u32) -> Self {
        Self {
            kind,
            protocol,
            port: AtomicU64::new(0),
            answers: Lock::default(),
            came: AtomicU64::new(0),
            notices: Lock::default(),
            changes_seen: AtomicU64::new(0),
        }
    }

    /// Reports the next message of a queue here.
    pub fn add_notice(&self, notice: QueueNotice) {
        self.notices.lock().push(notice);
        self.came.fetch_add(1, SeqCst);
        wait::kick_idle();
    }

    /// Looks which queues got a message, and puts their cookies among the answers.
    fn collect_notices(&self) {
        self.changes_seen.store(client::changes().load(Acquire), SeqCst);
        let waiting = self.notices.lock().clone();
        for notice in waiting {
            let words = [notice.queue, ASKS_NOTICE, 0, notice.id, 0];
            let answer = client::files().lock().on_object(Request::QueueNotify, words);
            let why = match answer {
                Ok([1, ..]) => continue,
                Ok([_, 1, ..]) => WOKEN,
                _ => REMOVED,
            };
            let mut notices = self.notices.lock();
            let before = notices.len();
            notices.retain(|other| other.id != notice.id);
            let was_here = notices.len() < before;
            drop(notices);
            // Another thread may have reported it.
            if was_here {
                self.report(&notice, why);
            }
        }
    }

    fn report(&self, notice: &QueueNotice, why: u8) {
        let mut cookie = notice.cookie.to_vec();
        cookie[COOKIE - 1] = why;
        self.answers.lock().push_back(cookie);
        self.came.fetch_add(1, SeqCst);
        wait::kick_idle();
    }

    /// The number that it is known by.
    pub fn port(&self) -> u32 {
        self.port.load(Acquire) as u32
    }

    /// Gives it a number, that of its process where it asks for any.
    pub fn bind(&self, port: u32) -> Result<()> {
        let any = domain().number() as u32;
        let wanted = u64::from(if port == 0 { any } else { port });
        let before = self.port.compare_exchange(0, wanted, SeqCst, Acquire);
        if before.is_err_and(|before| port != 0 && before != u64::from(port)) { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// Takes a question.
    pub fn send(&self, bytes: &[u8]) -> Result<u64> {
        self.bind(0)?;
        let card = client::network_card();
        let may_change = attributes().credentials.lock().has(linux::CAP_NET_ADMIN);
        let answers = internet::netlink::answer(bytes, self.port(), card.as_ref(), may_change);
        let count = answers.len() as u64;
        self.answers.lock().extend(answers);
        self.came.fetch_add(count, SeqCst);
        wait::kick_idle();
        Ok(bytes.len() as u64)
    }

    /// The next answer, whole.
    pub fn receive(&self, peeks: bool, is_nonblocking: bool) -> Result<Vec<u8>> {
        loop {
            // Made first: what comes after the look changes their words.
            let terms = self.wait_terms(Event::Readable);
            self.collect_notices();
            let next = if peeks { self.answers.lock().front().cloned() } else { self.answers.lock().pop_front() };
            match next {
                Some(answer) => return Ok(answer),
                None if is_nonblocking => return Err(Errno::EAGAIN),
                None => wait_until(&terms, None)?,
            }
        }
    }
}

impl FileOps for Netlink {
    fn locks(&self) -> [Option<&OwnerLock>; 2] {
        [Some(self.answers.owner_lock()), Some(self.notices.owner_lock())]
    }

    fn read(&self, description: &OpenFile, to: u64, count: u64) -> Result<u64> {
        if count == 0 {
            return Ok(0);
        }
        let answer = self.receive(false, description.is_nonblocking())?;
        let some = &answer[..answer.len().min(count as usize)];
        usercopy::write(to, some).map(|()| some.len() as u64)
    }

    fn write_bytes(&self, description: &OpenFile, bytes: &[u8]) -> Result<u64> {
        let _ = description;
        self.send(bytes)
    }

    fn is_ready(&self, event: Event) -> bool {
        if event == Event::Writable {
            return true;
        }
        self.collect_notices();
        !self.answers.lock().is_empty()
    }

    fn wait_terms(&self, event: Event) -> Vec<Term> {
        let _ = event;
        let mut terms = Vec::from([word(&self.came, Operator::NotEqual, self.came.load(Acquire))]);
        if !self.notices.lock().is_empty() {
            terms.push(word(client::changes(), Operator::NotEqual, self.changes_seen.load(Acquire)));
        }
        terms
    }

    fn event_sequence(&self, event: Event) -> u64 {
        if event == Event::Readable { self.came.load(Acquire) } else { 0 }
    }

    fn status(&self) -> (u32, u64) {
        (linux::S_IFSOCK | 0o777, core::ptr::from_ref(self) as u64 >> 4)
    }

    fn name(&self) -> String {
        format!("socket:[{}]", self.status().1)
    }
}
