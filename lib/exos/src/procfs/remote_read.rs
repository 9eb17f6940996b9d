//! Files of other processes: the process itself is asked, by way of the server, which knows who may
//! (`server::process_requests`).
//!
//! A process that is stopped, or that waits for another one to hand its memory back, does not answer: then the file
//! cannot be read. What an answer says was written by a stranger, and is believed as far as any file of his.

use super::{Entry, ForeignDescriptor, own_entry, read_descriptor};
use crate::hw::current::process;
use crate::server::client;
use crate::signal;
use crate::wait;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Acquire;
use linux_abi::errno::{Errno, Result};
use runtime::predicate::{Operator, clock, word};
use unix_core::process::remote_request;
use unix_core::server::protocol::{NO_LONGER_WANTED, Request, WINDOW_BYTES};

/// Nanoseconds that an answer may take.
const PATIENCE: u64 = 1_000_000_000;
/// Kinds of entries in an answer.
const TEXT: u64 = 0;
const LINK: u64 = 1;
const DIRECTORY: u64 = 2;
const DESCRIPTOR: u64 = 3;

/// What lies at a path of another process.
pub(super) fn ask(number: u64, parts: &[&str]) -> Result<Entry> {
    match (ask_path(number, parts.join("/").as_bytes())?, parts) {
        (Entry::Foreign(told), [.., descriptor]) => {
            let descriptor = descriptor.parse().map_err(|_| Errno::EIO)?;
            Ok(Entry::Foreign(ForeignDescriptor { owner: number, descriptor, ..told }))
        }
        (entry, _) => Ok(entry),
    }
}

/// Has another process do what a request says (`process::request`): its answer.
pub(crate) fn request(number: u64, path: &str) -> Result<Vec<u8>> {
    request_bytes(number, path.as_bytes())
}

/// The same of a request that carries bytes as they are.
pub(crate) fn request_bytes(number: u64, path: &[u8]) -> Result<Vec<u8>> {
    match ask_path(number, path)? {
        Entry::Text(bytes) => Ok(bytes),
        _ => Err(Errno::EIO),
    }
}

fn ask_path(number: u64, path: &[u8]) -> Result<Entry> {
    let process = process();
    await_beginning(number);
    let changes = client::changes();
    let question = submit(number, path)?;
    let deadline = runtime::clock::now() + PATIENCE;
    let mut bytes = Vec::new();
    loop {
        let seen = changes.load(Acquire);
        match take(question, &mut bytes)? {
            Some([error, ..]) if error != 0 => {
                return Err(Errno::from_register(error.wrapping_neg()).unwrap_or(Errno::EIO));
            }
            Some([_, kind]) => return decode(kind, bytes),
            None if runtime::clock::now() >= deadline => {
                let words = [question, NO_LONGER_WANTED, 0, 0, 0];
                let _ = process.files.lock().on_object(Request::TakeReply, words);
                return Err(Errno::EACCES);
            }
            None => {}
        }
        // The process that is asked may be asking, too.
        signal::answer_questions();
        let asked = word(process.signal_page.questions(), Operator::NotEqual, 0);
        wait::wait_stopped(&[word(changes, Operator::NotEqual, seen), asked, clock(deadline)]);
    }
}

/// Hands a request to the server, in as many windows as it fills: its number.
fn submit(number: u64, request: &[u8]) -> Result<u64> {
    let (mut question, mut rest) = (0, request);
    loop {
        let (some, more) = rest.split_at(rest.len().min(WINDOW_BYTES as usize));
        let words = [number, some.len() as u64, question, u64::from(!more.is_empty()), 0];
        [question, ..] = process().files.lock().on_object_with(Request::Submit, words, some)?;
        if more.is_empty() {
            return Ok(question);
        }
        rest = more;
    }
}

/// Waits until a child that was just made has begun. Before that, the server may not know it and refuse the request.
fn await_beginning(number: u64) {
    let dependence = || process().children.lock().all.iter().find(|child| child.number() == number)?.dependence();
    let deadline = runtime::clock::now() + PATIENCE;
    while let Some([over, begun]) = dependence().filter(|_| runtime::clock::now() < deadline) {
        wait::wait_stopped(&[over, begun, clock(deadline)]);
    }
}

/// As much of an answer as is there: error and kind once it is whole.
fn take(question: u64, bytes: &mut Vec<u8>) -> Result<Option<[u64; 2]>> {
    let mut files = process().files.lock();
    loop {
        let words = [question, bytes.len() as u64, 0, 0, 0];
        let [there, error, kind, some, last] = files.on_object(Request::TakeReply, words)?;
        if there == 0 {
            return Ok(None);
        }
        bytes.extend(files.left(some)?);
        if last != 0 {
            return Ok(Some([error, kind]));
        }
    }
}

/// Answers the oldest question about this process; whether there was one.
pub(crate) fn answer() -> bool {
    let Ok((question, path)) = next_question() else { return false };
    answer_to(question, &path);
    true
}

/// What a request finds. One that carries memory is not looked at as a text.
fn entry_of(path: &[u8]) -> Result<(u64, Vec<u8>)> {
    let of_memory = [remote_request::MEMORY, remote_request::STORE].map(str::as_bytes);
    if path.split(|byte| *byte == b'/').next().is_some_and(|first| of_memory.contains(&first)) {
        return super::process_memory::answer(path).map(|bytes| (TEXT, bytes));
    }
    let text = String::from_utf8_lossy(path);
    let parts: Vec<&str> = text.split('/').collect();
    match parts.first() {
        Some(&(remote_request::LIMIT | remote_request::RAISED_LIMIT)) => {
            crate::syscalls::answer_limit(process(), &text).map(|bytes| (TEXT, bytes))
        }
        Some(&remote_request::ADOPT) => crate::process::subreaper::answer(&text).map(|bytes| (TEXT, bytes)),
        Some(&remote_request::DESCRIPTION) => {
            crate::syscalls::answer_description(process(), &text).map(|bytes| (TEXT, bytes))
        }
        Some(&remote_request::STATUS) => crate::syscalls::answer_status(process(), &text).map(|bytes| (TEXT, bytes)),
        Some(&remote_request::COPY) => crate::syscalls::answer_copy(process(), &text).map(|bytes| (TEXT, bytes)),
        Some(&remote_request::PAGE_MAP) => {
            let [first, count] = remote_request::page_map_from_path(&text).ok_or(Errno::EINVAL)?;
            Ok((TEXT, super::live_files::own_entries(first, count)))
        }
        Some(&remote_request::GROWN) => crate::pipe::answer_grown(&text).map(|bytes| (TEXT, bytes)),
        Some(&remote_request::CUT) => crate::syscalls::answer_cut(process(), &text).map(|bytes| (TEXT, bytes)),
        Some(&(remote_request::SCHEDULED | remote_request::SCHEDULE | remote_request::RAISED_SCHEDULE)) => {
            crate::syscalls::answer_schedule(process(), &text).map(|bytes| (TEXT, bytes))
        }
        _ => own_entry(&parts).and_then(encode),
    }
}

fn answer_to(question: u64, path: &[u8]) {
    let (error, kind, bytes) = match entry_of(path) {
        Ok((kind, bytes)) => (0, kind, bytes),
        Err(error) => (u64::from(error.number()), 0, Vec::new()),
    };
    let mut files = process().files.lock();
    let mut rest = bytes.as_slice();
    loop {
        let (some, more) = rest.split_at(rest.len().min(WINDOW_BYTES as usize));
        let words = [question, error, kind, some.len() as u64, u64::from(more.is_empty())];
        if files.on_object_with(Request::Reply, words, some).is_err() || more.is_empty() {
            return;
        }
        rest = more;
    }
}

fn next_question() -> Result<(u64, Vec<u8>)> {
    let mut files = process().files.lock();
    let (mut question, mut request) = (0, Vec::new());
    loop {
        let [number, some, whole, ..] = {
            let words = [question, request.len() as u64, 0, 0, 0];
            files.on_object(Request::TakeRequest, words)?
        };
        request.extend(files.left(some)?);
        if some == 0 || request.len() as u64 >= whole {
            return Ok((number, request));
        }
        question = number;
    }
}

/// An entry as kind and bytes. Of a descriptor others see where it leads.
fn encode(entry: Entry) -> Result<(u64, Vec<u8>)> {
    Ok(match entry {
        Entry::Text(text) => (TEXT, text),
        Entry::Link(target) => (LINK, target),
        Entry::Descriptor(number) => (DESCRIPTOR, read_descriptor(number)?),
        Entry::Foreign(foreign) => (LINK, foreign.target),
        Entry::Namespace(namespace) => (LINK, namespace.target()),
        Entry::Directory(names) => {
            let lines = names.iter().map(|(name, kind)| [&kind.to_le_bytes()[..], name.as_bytes(), b"\0"].concat());
            (DIRECTORY, lines.flatten().collect())
        }
    })
}

fn decode(kind: u64, bytes: Vec<u8>) -> Result<Entry> {
    match kind {
        TEXT => Ok(Entry::Text(bytes)),
        LINK => Ok(Entry::Link(bytes)),
        DESCRIPTOR => Ok(Entry::Foreign(ForeignDescriptor { owner: 0, descriptor: 0, target: bytes })),
        DIRECTORY => {
            let mut names = Vec::new();
            let mut rest = bytes.as_slice();
            while let Some((kind, named)) = rest.split_first_chunk::<4>() {
                let end = named.iter().position(|byte| *byte == 0).ok_or(Errno::EIO)?;
                names.push((String::from_utf8_lossy(&named[..end]).into_owned(), u32::from_le_bytes(*kind)));
                rest = &named[end + 1..];
            }
            Ok(Entry::Directory(names))
        }
        _ => Err(Errno::EIO),
    }
}
