//! System V shared memory: segments are files without names that the server keeps, mapped like any other.

use super::ipc::{Telling, control, numbers};
use crate::process::Process;
use crate::process::call::Call;
use alloc::vec;
use alloc::vec::Vec;
use linux_abi::address_map::{PAGE_MASK, PAGE_SIZE, page_up};
use linux_abi::errno::{Errno, Result};
use unix_core::ipc::LARGEST_SEGMENT;
use unix_core::ipc::attachments::Attachment;
use unix_core::server::protocol::{IpcCommand, IpcKind, Request};
use vm::vma::{Backing, Protection, Vma};

/// Flags of `shmat`.
const READ_ONLY: u64 = 0o10000;
const ROUND: u64 = 0o20000;
const REPLACE: u64 = 0o40000;
const EXECUTE: u64 = 0o100000;
/// Commands about memory that is never paged out anyway.
const LOCK: u64 = 11;
const UNLOCK: u64 = 12;

const TELLING: Telling =
    Telling { kind: IpcKind::Segment, bytes: 112, at: [13, 15], sums: 14, information: limits_or_sums };

/// `struct shminfo64`, or `struct shm_info`.
fn limits_or_sums(sums: Option<[u64; 5]>) -> alloc::vec::Vec<u8> {
    const MOST: u64 = unix_core::ipc::id_table::MOST as u64;
    match sums {
        None => numbers(&[], &[LARGEST_SEGMENT, 1, MOST, MOST, LARGEST_SEGMENT, 0, 0, 0, 0]),
        Some([_, count, pages, ..]) => numbers(&[count as u32, 0], &[pages, pages, 0, 0, 0]),
    }
}

pub(crate) fn shmget(call: &mut Call<'_>) -> Result<u64> {
    let [key, bytes, flags, ..] = call.arguments();
    let words = [key, bytes, flags, 0, 0];
    Ok(call.process.files.lock().on_object(Request::SegmentGet, words)?[0])
}

pub(crate) fn shmat(call: &mut Call<'_>) -> Result<u64> {
    let [number, address, flags, ..] = call.arguments();
    let address = if flags & ROUND != 0 { address & PAGE_MASK } else { address };
    if !address.is_multiple_of(PAGE_SIZE) || flags & REPLACE != 0 && address == 0 {
        return Err(Errno::EINVAL);
    }
    let words = [number as u32 as u64, u64::from(flags & READ_ONLY != 0), 0, 0, 0];
    let [node, bytes, ..] = call.process.files.lock().on_object(Request::SegmentAttach, words)?;
    let outcome = map(call.process, node, bytes, address, flags);
    let gone = match outcome {
        Ok(attached) => call.process.holdings.lock().replace(attached),
        Err(_) => vec![node],
    };
    let_go(call.process, gone);
    outcome.map(|attached| attached.address)
}

fn map(process: &Process, node: u64, bytes: u64, address: u64, flags: u64) -> Result<Attachment> {
    let bytes = page_up(bytes).ok_or(Errno::ENOMEM)?;
    let mut protection = if flags & READ_ONLY != 0 { Protection::READ } else { Protection::READ_WRITE };
    if flags & EXECUTE != 0 {
        protection = Protection(protection.0 | Protection::EXECUTE.0);
    }
    process.with_memory(|space, pages| {
        let start = if address == 0 { space.areas.find_place(bytes)? } else { address };
        let end =
            start.checked_add(bytes).filter(|end| *end <= linux_abi::address_map::PROGRAM_END).ok_or(Errno::EINVAL)?;
        if flags & REPLACE == 0 && !space.areas.is_free(start, end) {
            return Err(Errno::EINVAL);
        }
        let backing = Backing::File { node, offset: 0, writable: flags & READ_ONLY == 0 };
        let area = Vma { shared: true, backing, ..Vma::anonymous(start, end, protection) };
        space.check_room(&area, bytes)?;
        space.map(pages, area)?;
        Ok(Attachment { address: start, end, node })
    })
}

pub(crate) fn shmdt(call: &mut Call<'_>) -> Result<u64> {
    let [address, ..] = call.arguments();
    follow(call.process);
    let attached = call.process.holdings.lock().take(address).ok_or(Errno::EINVAL)?;
    call.process.with_memory(|space, pages| {
        let of_it = |area: &Vma| matches!(area.backing, Backing::File { node, .. } if node == attached.node);
        let parts = space.areas.within(attached.address, attached.end);
        parts.iter().filter(|area| of_it(area)).try_for_each(|area| space.unmap(pages, area.start, area.end))
    })?;
    call.process.files.lock().hold(attached.node, false);
    Ok(0)
}

/// Something may have become of the segments that are attached.
pub(crate) fn follow(process: &Process) {
    let mut holdings = process.holdings.lock();
    if !holdings.attached.is_empty() {
        let gone = process.with_memory(|space, _| holdings.follow(&space.areas));
        drop(holdings);
        let_go(process, gone);
    }
}

fn let_go(process: &Process, nodes: Vec<u64>) {
    nodes.into_iter().for_each(|node| process.files.lock().hold(node, false));
}

pub(crate) fn shmctl(call: &mut Call<'_>) -> Result<u64> {
    let [number, command, at, ..] = call.arguments();
    follow(call.process);
    match control(call, &TELLING, number, command, at) {
        Some(outcome) => outcome,
        None if command == LOCK || command == UNLOCK => {
            let command = if command == LOCK { IpcCommand::Lock } else { IpcCommand::Unlock };
            call.process.files.lock().control_object(TELLING.kind, number as u32 as u64, command).map(|_| 0)
        }
        None => Err(Errno::EINVAL),
    }
}
