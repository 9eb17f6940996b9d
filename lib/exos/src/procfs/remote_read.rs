//! Files of other processes: the process itself is asked (`signal::remote_call`), and answers here.
//!
//! The file of a process that does not answer cannot be read. An answer was written by a stranger, and is believed as
//! far as any file of that one.

use super::{Entry, ForeignDescriptor, own_entry, read_descriptor, remote_answers};
use crate::process::current::process;
use crate::signal::remote_call::{TEXT, ask_path};
use alloc::string::String;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use unix_core::process::remote_request;
use unix_core::server::protocol::{Request, WINDOW_BYTES};

const LINK: u64 = 1;
const DIRECTORY: u64 = 2;
const DESCRIPTOR: u64 = 3;

/// What lies at a path of another process.
pub(super) fn ask(number: u64, parts: &[&str]) -> Result<Entry> {
    let (kind, bytes) = ask_path(number, parts.join("/").as_bytes())?;
    match (decode(kind, bytes)?, parts) {
        (Entry::Foreign(told), [.., descriptor]) => {
            let descriptor = descriptor.parse().map_err(|_| Errno::EIO)?;
            Ok(Entry::Foreign(ForeignDescriptor { owner: number, descriptor, ..told }))
        }
        (entry, _) => Ok(entry),
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
    match parts.first().and_then(|kind| remote_answers::answer(kind, &text)) {
        Some(answer) => answer.map(|bytes| (TEXT, bytes)),
        None => own_entry(&parts).and_then(encode),
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
