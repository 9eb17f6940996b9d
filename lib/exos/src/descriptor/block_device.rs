//! Block devices as a process has them open: `read`, `write`, `fsync` and `ioctl` of `/dev/vda` and its like.
//!
//! A request is cut at the borders of the server's lines. The process waits for the word of a line without a lock, and
//! its other threads go on. As on Linux no signal ends that wait.

use crate::hw::disk;
use crate::hw::usercopy;
use crate::server::client::{self, disk_line};
use crate::wait;
use alloc::vec;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::ioctl;
use runtime::predicate::{Operator, word};
use unix_core::block_cache::LINE;
use unix_core::server::protocol::DiskRequest;
use vfs::disk_number::{SECTOR, number_of};

/// A disk that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// The handle of its node.
    pub node: u64,
    /// Number of the disk.
    pub number: u64,
}

/// Where one piece of a request came out.
enum Progress {
    Done,
    /// To be repeated with this ticket when this line is idle.
    Waits(u64, u64),
}

impl BlockDevice {
    /// Opens the disk with this device number.
    ///
    /// # Errors
    /// `ENXIO` where the machine has none.
    pub fn open(device: (u32, u32), node: u64) -> Result<Self> {
        let number = number_of(device).filter(|number| disk::find(*number).is_some()).ok_or(Errno::ENXIO)?;
        Ok(Self { node, number })
    }

    /// Bytes of the disk.
    pub fn bytes(&self) -> u64 {
        disk::capacity(self.number)
    }

    fn request(&self, request: DiskRequest, place: (u64, u64), ticket: u64) -> Result<Progress> {
        let waits = client::files().lock().disk(self.node, request, place, ticket)?;
        Ok(waits.map_or(Progress::Done, |(line, ticket)| Progress::Waits(line, ticket)))
    }

    /// Repeats a request until it is done. `step` carries it out once, with a ticket.
    fn repeat(mut step: impl FnMut(u64) -> Result<Progress>) -> Result<()> {
        let mut ticket = 0;
        loop {
            match step(ticket)? {
                Progress::Done => return Ok(()),
                Progress::Waits(line, given) => {
                    ticket = given;
                    wait::wait_plainly(&mut [word(disk_line(line), Operator::NotEqual, 0)]);
                }
            }
        }
    }

    /// Cuts a range at the borders of lines; the result is how many bytes were done before an error.
    fn pieces(at: u64, count: u64, mut each: impl FnMut(u64, u64) -> Result<u64>) -> Result<u64> {
        let mut done = 0;
        while done < count {
            let offset = at + done;
            let wanted = (LINE - offset % LINE).min(count - done);
            match each(done, wanted) {
                Err(_) if done > 0 => break,
                outcome => {
                    let now = outcome?;
                    done += now;
                    if now < wanted {
                        break;
                    }
                }
            }
        }
        Ok(done)
    }

    /// What lies on the disk of a range.
    fn within(&self, at: u64, count: u64) -> u64 {
        count.min(self.bytes().saturating_sub(at))
    }

    /// Reads into the program's memory; `direct`: from the disk itself.
    pub fn read(&self, at: u64, to: u64, count: u64, direct: bool) -> Result<u64> {
        if direct {
            check_direct(at, to, count)?;
        }
        let request = if direct { DiskRequest::ReadDirect } else { DiskRequest::Read };
        Self::pieces(at, self.within(at, count), |done, bytes| {
            let (to, mut got) = (to + done, 0);
            Self::repeat(|ticket| {
                usercopy::with_range(to, bytes, true, |reachable| {
                    let mut files = client::files().lock();
                    if let Some((line, ticket)) = files.disk(self.node, request, (at + done, reachable), ticket)? {
                        return Ok(Progress::Waits(line, ticket));
                    }
                    got = reachable;
                    files.window_to_program(to, reachable).map(|()| Progress::Done)
                })
            })?;
            Ok(got)
        })
    }

    /// Reads into a buffer of ExOS.
    pub fn read_bytes(&self, at: u64, count: u64) -> Result<Vec<u8>> {
        let count = self.within(at, count);
        let mut all = vec![0; count as usize];
        let done = Self::pieces(at, count, |done, bytes| {
            Self::repeat(|ticket| {
                let mut files = client::files().lock();
                if let Some((line, ticket)) = files.disk(self.node, DiskRequest::Read, (at + done, bytes), ticket)? {
                    return Ok(Progress::Waits(line, ticket));
                }
                all[done as usize..][..bytes as usize].copy_from_slice(&files.left(bytes)?);
                Ok(Progress::Done)
            })?;
            Ok(bytes)
        })?;
        all.truncate(done as usize);
        Ok(all)
    }

    /// Writes from the program's memory.
    ///
    /// # Errors
    /// `ENOSPC` at the end of the disk.
    pub fn write(&self, at: u64, from: u64, count: u64, direct: bool) -> Result<u64> {
        if direct {
            check_direct(at, from, count)?;
        }
        let room = self.within(at, count);
        if room == 0 && count > 0 {
            return Err(Errno::ENOSPC);
        }
        Self::pieces(at, room, |done, bytes| {
            let (from, mut got) = (from + done, 0);
            Self::repeat(|ticket| {
                usercopy::with_range(from, bytes, false, |reachable| {
                    let mut files = client::files().lock();
                    files.window_from_program(from, reachable)?;
                    got = reachable;
                    let waits = files.disk(self.node, DiskRequest::Write, (at + done, reachable), ticket)?;
                    Ok(waits.map_or(Progress::Done, |(line, ticket)| Progress::Waits(line, ticket)))
                })
            })?;
            Ok(got)
        })
    }

    /// Writes bytes of ExOS.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub fn write_bytes(&self, at: u64, bytes: &[u8]) -> Result<u64> {
        let room = self.within(at, bytes.len() as u64);
        if room == 0 && !bytes.is_empty() {
            return Err(Errno::ENOSPC);
        }
        Self::pieces(at, room, |done, count| {
            Self::repeat(|ticket| {
                let mut files = client::files().lock();
                files.put(&bytes[done as usize..][..count as usize])?;
                let waits = files.disk(self.node, DiskRequest::Write, (at + done, count), ticket)?;
                Ok(waits.map_or(Progress::Done, |(line, ticket)| Progress::Waits(line, ticket)))
            })?;
            Ok(count)
        })
    }

    /// Makes what was written durable.
    pub fn flush(&self) -> Result<()> {
        Self::repeat(|ticket| self.request(DiskRequest::Flush, (0, 0), ticket))
    }

    /// `ioctl`, as linux/fs.h numbers them.
    pub fn ioctl(&self, request: u32, argument: u64, is_privileged: bool) -> Result<u64> {
        let half = |value: u32| usercopy::write_half(argument, value).map(|()| 0);
        let word = |value: u64| usercopy::write_word(argument, value).map(|()| 0);
        match request {
            ioctl::BLKGETSIZE64 => word(self.bytes()),
            ioctl::BLKGETSIZE => word(self.bytes() / SECTOR),
            ioctl::BLKSSZGET | ioctl::BLKIOMIN | ioctl::BLKPBSZGET => half(SECTOR as u32),
            ioctl::BLKBSZGET => half(abi::limits::PAGE_SIZE as u32),
            ioctl::BLKIOOPT | ioctl::BLKALIGNOFF | ioctl::BLKDISCARDZEROES => half(0),
            ioctl::BLKROGET => half(u32::from(disk::is_read_only(self.number))),
            ioctl::BLKRAGET => word(LINE / SECTOR),
            ioctl::BLKROTATIONAL => usercopy::write(argument, &1u16.to_le_bytes()).map(|()| 0),
            ioctl::BLKFLSBUF | ioctl::BLKRRPART if !is_privileged => Err(Errno::EACCES),
            ioctl::BLKFLSBUF => self.flush().map(|()| 0),
            // The disk has no partitions.
            ioctl::BLKRRPART => Err(Errno::EINVAL),
            ioctl::BLKDISCARD | ioctl::BLKSECDISCARD | ioctl::BLKZEROOUT => Err(Errno::EOPNOTSUPP),
            _ => Err(Errno::ENOTTY),
        }
    }
}

/// In place of a node: all files on disks.
const ALL: u64 = 0;

/// Makes a file or directory on a disk durable.
///
/// # Errors
/// `EIO` or `ENOSPC` where something could not be written.
pub fn sync_file(node: u64) -> Result<()> {
    if disk::find(0).is_none() { Ok(()) } else { client::files().lock().sync_files(node, false) }
}

/// Makes all files durable on the volume of a file or directory.
///
/// # Errors
/// As [`sync_file`].
pub fn sync_volume(node: u64) -> Result<()> {
    if disk::find(0).is_none() { Ok(()) } else { client::files().lock().sync_files(node, true) }
}

/// Gives up the clean pages of a file that a disk keeps.
///
/// # Errors
/// Those of the connection with the server.
pub fn discard(node: u64) -> Result<()> {
    if disk::find(0).is_none() { Ok(()) } else { client::files().lock().discard(node) }
}

/// Writes back all files and flushes every disk: `sync`.
pub fn sync_all() {
    if disk::find(0).is_none() {
        return;
    }
    // As on Linux, sync tells of no error.
    let _ = client::files().lock().sync_files(ALL, false);
    for number in 0..vfs::disk_number::MOST {
        if disk::find(number).is_none() {
            return;
        }
        let _ = BlockDevice::repeat(|ticket| {
            let waits = client::files().lock().sync_disk(number, ticket)?;
            Ok(waits.map_or(Progress::Done, |(line, ticket)| Progress::Waits(line, ticket)))
        });
    }
}

/// What `O_DIRECT` needs: whole sectors, and memory that is aligned as these.
fn check_direct(at: u64, memory: u64, count: u64) -> Result<()> {
    if (at | memory | count) % SECTOR == 0 { Ok(()) } else { Err(Errno::EINVAL) }
}
