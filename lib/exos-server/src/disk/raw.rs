//! Raw disks in the server: what programs read and write through `/dev/vda` and its like.
//!
//! The server submits transfers on pages of its own and answers at once. The client waits for the word of the line and
//! repeats its request, so that no request of others waits for a disk. A client that dies leaves nothing behind: its
//! transfer ends, and the line is idle.
//!
//! Invariants:
//! - a disk whose file system is mounted is not written here.

use crate::dispatch::{Answer, FileServer, NOTHING};
use abi::device::status;
use abi::limits::PAGE_SIZE;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use exos::hw::disk::{self, Direction};
use exos::hw::mapping::{Mapping, Mappings};
use linux_abi::errno::{Errno, Result};
use runtime::page::Allocator;
use runtime::{KeyIndex, PageNumber};
use unix_core::block_cache::{BlockCache, Kind, LINE, LINES, Piece, Step, Transfer};
use unix_core::server::protocol::{DISK_LINES, DiskRequest};
use vfs::handle::{Handle, right};

/// The cache and its pages.
#[derive(Debug)]
pub struct RawDisks {
    cache: BlockCache,
    lines: Vec<Mapping>,
}

impl RawDisks {
    fn new(windows: &mut Mappings) -> Result<Self> {
        let mut line = || {
            let mut pages = vec![PageNumber::NONE; (LINE / PAGE_SIZE) as usize];
            Allocator::own().allocate_many(&mut pages)?;
            windows.open(pages, KeyIndex::FIRST, true)
        };
        let lines = (0..LINES).map(|_| line()).collect::<Result<_>>()?;
        Ok(Self { cache: BlockCache::default(), lines })
    }

    /// Records the transfers that have ended.
    fn harvest(&mut self, words: &[AtomicU64]) {
        for line in self.cache.moving() {
            let outcome = words[DISK_LINES + line].load(Acquire);
            if outcome != 0 {
                self.cache.ended(line, outcome == status::DONE);
            }
        }
    }

    fn start(&mut self, transfer: Transfer, notice: &Mapping) {
        let Transfer { line, piece, kind } = transfer;
        let direction = match kind {
            Kind::Write => Direction::Write,
            Kind::Flush => Direction::Flush,
            _ => Direction::Read,
        };
        let word = DISK_LINES + line;
        notice.words()[word].store(0, SeqCst);
        let place = (piece.offset, piece.bytes);
        let status = (notice.pages()[0], word as u64);
        let is_needless = kind == Kind::Flush && !disk::has_cache(piece.disk);
        if is_needless {
            notice.words()[word].store(status::DONE, SeqCst);
        } else if disk::submit(piece.disk, direction, place, (&self.lines[line], piece.offset % LINE), status).is_err()
        {
            notice.words()[word].store(status::FAILED, SeqCst);
        }
    }
}

impl FileServer {
    /// See `Request::Disk`.
    pub(crate) fn disk(
        &mut self,
        caller: u64,
        handle: Handle,
        [request, offset, bytes, ticket]: [u64; 4],
    ) -> Result<Answer> {
        let request = DiskRequest::from_word(request).ok_or(Errno::EINVAL)?;
        let node = self.tree.node(handle.at.node)?;
        let number = vfs::disk_number::number_of(node.device).filter(|_| node.is_disk()).ok_or(Errno::ENXIO)?;
        let kind = match request {
            DiskRequest::Read => Kind::Read,
            DiskRequest::ReadDirect => Kind::ReadDirect,
            DiskRequest::Write => Kind::Write,
            DiskRequest::Flush => {
                return self.raw_step(caller, Kind::Flush, Piece { disk: number, offset: 0, bytes: 0 }, ticket);
            }
        };
        handle.check(if kind == Kind::Write { right::WRITE } else { right::READ })?;
        if kind == Kind::Write && disk::is_read_only(number) {
            return Err(Errno::EPERM);
        }
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= disk::capacity(number));
        if bytes == 0 || !fits || offset % LINE + bytes > LINE {
            return Err(Errno::EINVAL);
        }
        self.raw_step(caller, kind, Piece { disk: number, offset, bytes }, ticket)
    }

    /// Makes what was written to a disk durable: see `Request::SyncDisk`.
    pub(crate) fn sync_disk(&mut self, caller: u64, disk: u64, ticket: u64) -> Result<Answer> {
        if self.raw.is_none() || disk::capacity(disk) == 0 {
            return Ok(NOTHING);
        }
        self.raw_step(caller, Kind::Flush, Piece { disk, offset: 0, bytes: 0 }, ticket)
    }

    fn raw_step(&mut self, caller: u64, kind: Kind, piece: Piece, ticket: u64) -> Result<Answer> {
        let window = self.window(caller)?;
        if self.raw.is_none() {
            self.raw = Some(Box::new(RawDisks::new(&mut self.mappings)?));
        }
        let raw = self.raw.as_mut().ok_or(Errno::EIO)?;
        raw.harvest(self.notice.words());
        let at = piece.offset % LINE;
        match raw.cache.request(kind, piece, ticket, disk::capacity(piece.disk)) {
            Step::Done(line) => {
                if matches!(kind, Kind::Read | Kind::ReadDirect) {
                    copy((&raw.lines[line], at), (&window, 0), piece.bytes)?;
                }
                Ok(NOTHING)
            }
            Step::Start(transfer, ticket) => {
                if transfer.kind == Kind::Write {
                    copy((&window, 0), (&raw.lines[transfer.line], at), piece.bytes)?;
                }
                raw.start(transfer, &self.notice);
                Ok([1, transfer.line as u64, ticket, 0, 0])
            }
            Step::Wait(line, ticket) => Ok([1, line as u64, ticket, 0, 0]),
            Step::Failed => Err(Errno::EIO),
        }
    }
}

fn copy(from: (&Mapping, u64), to: (&Mapping, u64), bytes: u64) -> Result<()> {
    let mut buffer = vec![0; bytes as usize];
    from.0.read(from.1, &mut buffer)?;
    to.0.write(to.1, &buffer)
}
