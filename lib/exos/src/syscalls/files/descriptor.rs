//! Calls on descriptors: dup, pipe, fcntl, ioctl, close.

use super::{fcntl_owner, lock};
use crate::descriptor::exported_pages;
use crate::descriptor::object::{Device, Object};
use crate::descriptor::open_file::OpenFile;
use crate::hw::usercopy;
use crate::pipe::{Pipe, Side};
use crate::process::call::Call;
use crate::terminal::control;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::{general as linux, ioctl};
use runtime::page::Allocator;

/// Flags of `close_range` (linux/close_range.h).
const CLOSE_RANGE_UNSHARE: u32 = 2;
const CLOSE_RANGE_CLOEXEC: u32 = 4;
/// Bytes of a block (`FIGETBSZ`).
const BLOCK: u32 = 4096;
const PROC_BLOCK: u32 = 1024;
/// How much entropy there is (linux/random.h), and what Linux says when there is enough.
const RNDGETENTCNT: u32 = 0x8004_5200;
const ENTROPY_BITS: u32 = 256;

pub(crate) fn close(call: &mut Call<'_>) -> Result<u64> {
    let [number, ..] = call.arguments();
    let description = call.process.descriptors.take_out(u64::from(number as u32))?;
    description.close();
    Ok(0)
}

pub(crate) fn close_range(call: &mut Call<'_>) -> Result<u64> {
    let [first, last, flags, ..] = call.arguments();
    if first > last || flags & !u64::from(CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE) != 0 {
        return Err(Errno::EINVAL);
    }
    let descriptors = call.process.descriptors.table.lock();
    let numbers: Vec<u64> =
        descriptors.iter().map(|(number, _)| number).filter(|number| (first..=last).contains(number)).collect();
    drop(descriptors);
    for number in numbers {
        if flags & u64::from(CLOSE_RANGE_CLOEXEC) != 0 {
            call.process.descriptors.table.lock().set_close_on_exec(number, true)?;
        } else {
            let description = call.process.descriptors.take_out(number)?;
            description.close();
        }
    }
    Ok(0)
}

pub(crate) fn dup(call: &mut Call<'_>) -> Result<u64> {
    let [number, ..] = call.arguments();
    duplicate(call, number, 0, false)
}

/// One more descriptor for what one is open on, not below the least.
pub(crate) fn duplicate(call: &Call<'_>, number: u64, least: u64, close_on_exec: bool) -> Result<u64> {
    let description = call.process.descriptors.description(number)?;
    call.process.descriptors.install(description.duplicate(), least, close_on_exec)
}

pub(crate) fn dup2(call: &mut Call<'_>) -> Result<u64> {
    let [old, new, ..] = call.arguments();
    if old == new {
        return call.process.descriptors.description(old).map(|_| new);
    }
    replace(call, old, new, false)
}

pub(crate) fn dup3(call: &mut Call<'_>) -> Result<u64> {
    let [old, new, flags, ..] = call.arguments();
    if old == new || flags & !u64::from(linux::O_CLOEXEC) != 0 {
        return Err(Errno::EINVAL);
    }
    replace(call, old, new, flags != 0)
}

fn replace(call: &Call<'_>, old: u64, new: u64, close_on_exec: bool) -> Result<u64> {
    let description = call.process.descriptors.description(old)?;
    call.process.descriptors.put_in_place(new, description.duplicate(), close_on_exec)?;
    Ok(new)
}

pub(crate) fn pipe(call: &mut Call<'_>) -> Result<u64> {
    let [to, ..] = call.arguments();
    make_pipe(call, to, 0)
}

pub(crate) fn pipe2(call: &mut Call<'_>) -> Result<u64> {
    let [to, flags, ..] = call.arguments();
    let flags = flags as u32;
    if flags & !(linux::O_CLOEXEC | linux::O_NONBLOCK | linux::O_DIRECT) != 0 {
        return Err(Errno::EINVAL);
    }
    make_pipe(call, to, flags)
}

fn make_pipe(call: &Call<'_>, to: u64, flags: u32) -> Result<u64> {
    let process = call.process;
    usercopy::prepare(to, 8, true)?;
    if process.descriptors.table.lock().room() < 2 {
        return Err(Errno::EMFILE);
    }
    exported_pages::reclaim_unused();
    crate::budget::reserve(64);
    let from = Allocator { key: process.session_key, ..Allocator::own() };
    let mut windows = process.mappings.lock();
    let pipe = Pipe::create(&mut windows, from)?;
    windows.hold_once_more(pipe.window());
    drop(windows);
    let kept = flags & linux::O_NONBLOCK;
    let read = OpenFile::new(Object::Pipe(pipe.clone(), Side::Read), linux::O_RDONLY | kept)?;
    if flags & linux::O_DIRECT != 0 {
        pipe.begin_packets();
    }
    let write = OpenFile::new(Object::Pipe(pipe, Side::Write), linux::O_WRONLY | kept | flags & linux::O_DIRECT)?;
    let close_on_exec = flags & linux::O_CLOEXEC != 0;
    let mut descriptors = process.descriptors.table.lock();
    let read = descriptors.add(read, 0, close_on_exec)?;
    let write = descriptors.add(write, 0, close_on_exec)?;
    drop(descriptors);
    usercopy::write_word(to, read | write << 32)?;
    Ok(0)
}

pub(crate) fn fcntl(call: &mut Call<'_>) -> Result<u64> {
    let [number, command, argument, ..] = call.arguments();
    let description = call.process.descriptors.description(number)?;
    let needs_no_more_than_a_place =
        [linux::F_DUPFD, linux::F_DUPFD_CLOEXEC, linux::F_GETFD, linux::F_SETFD, linux::F_GETFL];
    if description.flags() & linux::O_PATH != 0 && !needs_no_more_than_a_place.contains(&(command as u32)) {
        return Err(Errno::EBADF);
    }
    match command as u32 {
        linux::F_DUPFD => duplicate(call, number, argument, false),
        linux::F_DUPFD_CLOEXEC => duplicate(call, number, argument, true),
        linux::F_GETFD => Ok(u64::from(call.process.descriptors.table.lock().close_on_exec(number)?)),
        linux::F_SETFD => {
            let close = argument & u64::from(linux::FD_CLOEXEC) != 0;
            call.process.descriptors.table.lock().set_close_on_exec(number, close).map(|()| 0)
        }
        linux::F_GETFL => Ok(u64::from(description.flags())),
        linux::F_SETFL => set_flags(call, number, &description, argument as u32),
        linux::F_ADD_SEALS | linux::F_GET_SEALS => seals(call, &description, command as u32, argument),
        // To be notified of nothing is what each descriptor is in the beginning.
        linux::F_NOTIFY if argument as u32 & !linux::DN_MULTISHOT == 0 => Ok(0),
        linux::F_GETLEASE => Ok(u64::from(linux::F_UNLCK)),
        linux::F_GETPIPE_SZ => pipe_of(&description).map(|pipe| pipe.ring().size()),
        linux::F_SETPIPE_SZ => set_pipe_size(&description, argument),
        command => lock::fcntl(call, &description, command, argument)
            .or_else(|| fcntl_owner::fcntl(call, &description, command, argument))
            .unwrap_or(Err(Errno::EINVAL)),
    }
}

fn set_flags(call: &Call<'_>, number: u64, description: &OpenFile, flags: u32) -> Result<u64> {
    match &description.object {
        Object::Pipe(pipe, _) if flags & linux::O_DIRECT != 0 => pipe.begin_packets(),
        _ => {}
    }
    let before = description.flags();
    description.set_flags(flags);
    if (before ^ description.flags()) & linux::FASYNC != 0 {
        call.process.alarms.watch(number, description);
    }
    Ok(0)
}

fn seals(call: &Call<'_>, description: &OpenFile, command: u32, seals: u64) -> Result<u64> {
    let Object::File { node } = description.object else { return Err(Errno::EINVAL) };
    let wanted = (command == linux::F_ADD_SEALS).then_some(seals & 0xffff_ffff);
    let now = call.process.files.lock().seal(node, wanted)?;
    Ok(if wanted.is_some() { 0 } else { now })
}

fn pipe_of(description: &OpenFile) -> Result<&Pipe> {
    if let Object::Pipe(pipe, _) = &description.object { Ok(pipe) } else { Err(Errno::EBADF) }
}

/// Pipes can be made smaller than they begin; to make them larger is refused, as beyond `/proc/sys/fs/pipe-max-size`.
fn set_pipe_size(description: &OpenFile, wanted: u64) -> Result<u64> {
    const MOST: u64 = 1 << 31;
    let (pipe, wanted) = (pipe_of(description)?, wanted & 0xffff_ffff);
    if wanted > MOST { Err(Errno::EINVAL) } else { pipe.set_size(wanted) }
}

pub(crate) fn ioctl(call: &mut Call<'_>) -> Result<u64> {
    let [number, request, argument, ..] = call.arguments();
    let description = call.process.descriptors.opened(number)?;
    match request as u32 {
        ioctl::FIOCLEX => call.process.descriptors.table.lock().set_close_on_exec(number, true).map(|()| 0),
        ioctl::FIONCLEX => call.process.descriptors.table.lock().set_close_on_exec(number, false).map(|()| 0),
        ioctl::FIONBIO => {
            let on = usercopy::read_half(argument)? != 0;
            let flags = description.flags() & !linux::O_NONBLOCK;
            description.set_flags(if on { flags | linux::O_NONBLOCK } else { flags });
            Ok(0)
        }
        // No file has a flag of `chattr`, and none can be set.
        ioctl::FS_IOC_GETFLAGS if description.object.node().is_some() => usercopy::write_half(argument, 0).map(|()| 0),
        ioctl::FS_IOC_SETFLAGS if description.object.node().is_some() => match usercopy::read_half(argument)? {
            0 => Ok(0),
            _ => Err(Errno::EOPNOTSUPP),
        },
        ioctl::FIGETBSZ => {
            let is_of_proc = matches!(description.object, Object::Text(_) | Object::Listing(_));
            usercopy::write_half(argument, if is_of_proc { PROC_BLOCK } else { BLOCK }).map(|()| 0)
        }
        ioctl::FIOASYNC => fcntl_owner::set_asynchronous(call, number, &description, argument),
        ioctl::FIONREAD => match &description.object {
            Object::Pipe(pipe, _) => usercopy::write_half(argument, pipe.ring().waiting()? as u32).map(|()| 0),
            Object::Terminal(terminal) => control::ioctl(terminal, ioctl::FIONREAD, argument),
            Object::File { node } => {
                let size = call.process.files.lock().status_of(*node)?.size;
                usercopy::write_half(argument, size.saturating_sub(description.offset()) as u32).map(|()| 0)
            }
            Object::Other(other) => usercopy::write_half(argument, other.waiting()? as u32).map(|()| 0),
            _ => Err(Errno::ENOTTY),
        },
        RNDGETENTCNT if matches!(description.object, Object::Device(Device::Random, _)) => {
            usercopy::write_half(argument, ENTROPY_BITS).map(|()| 0)
        }
        request => match &description.object {
            Object::File { .. } if [ioctl::FICLONE, ioctl::FICLONERANGE].contains(&request) => Err(Errno::EOPNOTSUPP),
            Object::Terminal(terminal) => control::ioctl(terminal, request, argument),
            Object::Disk(disk) => disk.ioctl(request, argument, call.process.may(linux::CAP_SYS_ADMIN)),
            Object::Other(other) => fcntl_owner::socket_ioctl(call, &description, request, argument)
                .unwrap_or_else(|| other.ioctl(request, argument)),
            _ => Err(Errno::ENOTTY),
        },
    }
}
