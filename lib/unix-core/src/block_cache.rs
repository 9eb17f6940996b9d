//! Block cache of raw disks: a few lines of 32 KiB, written through. Pure.
//!
//! A line caches one aligned piece of a disk, valid by sectors. The cache decides; its owner moves the bytes. A request
//! that needs the disk gets a *ticket* and is repeated with it when the line is idle again.
//!
//! Invariants:
//! - a line has at most one transfer in flight, and is neither written nor replaced meanwhile.
//! - a sector is valid in at most one line, and then equals what the disk holds.
//! - a write is acknowledged after its transfer; a transfer that failed leaves its sectors invalid.

use alloc::collections::VecDeque;
use vfs::disk_number::SECTOR;

/// Bytes of a line: what a window to the server holds.
pub const LINE: u64 = 32 << 10;
/// Lines of all disks together.
pub const LINES: usize = 16;
/// Tickets of failed transfers that are remembered.
const FAILURES: usize = 64;

/// A piece of a disk within one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Number of the disk.
    pub disk: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes, at least 1.
    pub bytes: u64,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes, which a line may hold already.
    Read,
    /// Bytes as the disk holds them now.
    ReadDirect,
    /// Bytes to the disk.
    Write,
    /// Makes acknowledged writes durable.
    Flush,
}

/// A transfer that the owner submits: whole sectors, at the same place in the line as on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Into or out of this line.
    pub line: usize,
    /// What is transferred; of a flush no byte.
    pub piece: Piece,
    /// What is done.
    pub kind: Kind,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The bytes lie in this line, or are on the disk.
    Done(usize),
    /// Submit this, then repeat the request with the ticket when it has ended.
    Start(Transfer, u64),
    /// Repeat the request, with the ticket, when the transfer of this line has ended.
    Wait(usize, u64),
    /// The transfer of the ticket failed.
    Failed,
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// Disk and index of the piece; none: empty.
    of: Option<(u64, u64)>,
    /// Valid sectors.
    valid: u64,
    /// Sectors of the transfer in flight.
    moving: Option<u64>,
    /// Ticket of the last transfer.
    ticket: u64,
    /// Number of the last use.
    used: u64,
}

/// The cache.
#[derive(Debug, Default)]
pub struct BlockCache {
    lines: [Line; LINES],
    failed: VecDeque<u64>,
    tickets: u64,
    uses: u64,
}

/// The sectors of a line that a piece touches.
const fn mask(offset: u64, bytes: u64) -> u64 {
    let (first, end) = (offset % LINE / SECTOR, (offset % LINE + bytes).div_ceil(SECTOR));
    let upto = if end == u64::BITS as u64 { u64::MAX } else { (1 << end) - 1 };
    upto & !((1 << first) - 1)
}

impl BlockCache {
    /// What a request needs next; `capacity` is that of the disk, `ticket` 0 at first. A write of part of a sector
    /// reads that sector first.
    pub fn request(&mut self, kind: Kind, piece: Piece, ticket: u64, capacity: u64) -> Step {
        if ticket != 0 && self.failed.contains(&ticket) {
            return Step::Failed;
        }
        self.uses += 1;
        let of = (piece.disk, piece.offset / LINE);
        if let Some(line) = self.lines.iter().position(|line| ticket != 0 && line.ticket == ticket)
            && self.lines[line].moving.is_some()
        {
            return Step::Wait(line, ticket);
        }
        match kind {
            // Writes and flushes have odd tickets: that of a read before a write says nothing about the write.
            Kind::Write | Kind::Flush if ticket & 1 == 1 => return Step::Done(0),
            Kind::Flush => return self.flush(piece),
            _ => {}
        }
        let line = match self.lines.iter().position(|line| line.of == Some(of)) {
            Some(line) => line,
            None => match self.claim() {
                Ok(line) => {
                    self.lines[line] = Line { of: Some(of), ..Line::default() };
                    line
                }
                Err(busy) => return Step::Wait(busy, 0),
            },
        };
        self.lines[line].used = self.uses;
        if self.lines[line].moving.is_some() {
            return Step::Wait(line, 0);
        }
        self.use_line(line, kind, piece, ticket, capacity)
    }

    fn use_line(&mut self, line: usize, kind: Kind, piece: Piece, ticket: u64, capacity: u64) -> Step {
        let wanted = mask(piece.offset, piece.bytes);
        let Line { valid, ticket: last, .. } = self.lines[line];
        match kind {
            Kind::Write => {
                let (first, end) = (piece.offset, piece.offset + piece.bytes);
                let mut partial = if first % SECTOR == 0 { 0 } else { mask(first, 1) };
                if end % SECTOR != 0 {
                    partial |= mask(end - 1, 1);
                }
                if partial & !valid != 0 {
                    return self.read_line(line, piece, capacity);
                }
                let start = first / SECTOR * SECTOR;
                let bytes = end.next_multiple_of(SECTOR) - start;
                self.start(line, Kind::Write, Piece { offset: start, bytes, ..piece })
            }
            Kind::ReadDirect if ticket == 0 || ticket != last => {
                let start = piece.offset / SECTOR * SECTOR;
                let bytes = (piece.offset + piece.bytes).next_multiple_of(SECTOR) - start;
                self.start(line, Kind::Read, Piece { offset: start, bytes, ..piece })
            }
            _ if wanted & !valid == 0 => Step::Done(line),
            _ => self.read_line(line, piece, capacity),
        }
    }

    fn read_line(&mut self, line: usize, piece: Piece, capacity: u64) -> Step {
        let offset = piece.offset / LINE * LINE;
        self.start(line, Kind::Read, Piece { offset, bytes: LINE.min(capacity - offset), ..piece })
    }

    fn flush(&mut self, piece: Piece) -> Step {
        match self.claim() {
            Ok(line) => {
                self.lines[line] = Line::default();
                self.start(line, Kind::Flush, Piece { offset: 0, bytes: 0, ..piece })
            }
            Err(busy) => Step::Wait(busy, 0),
        }
    }

    /// The idle line that was used longest ago; else a busy one, which will be idle.
    fn claim(&self) -> Result<usize, usize> {
        let idle = (0..LINES).filter(|line| self.lines[*line].moving.is_none());
        idle.min_by_key(|line| self.lines[*line].used).ok_or(self.tickets as usize % LINES)
    }

    fn start(&mut self, line: usize, kind: Kind, piece: Piece) -> Step {
        let is_write = kind != Kind::Read;
        self.tickets += 2;
        let ticket = self.tickets | u64::from(is_write);
        let moving = if piece.bytes == 0 { 0 } else { mask(piece.offset, piece.bytes) };
        // What a transfer changes is known again when it has ended.
        self.lines[line].valid &= !moving | if is_write { u64::MAX } else { 0 };
        self.lines[line].moving = Some(moving);
        self.lines[line].ticket = ticket;
        self.lines[line].used = self.uses;
        Step::Start(Transfer { line, piece, kind }, ticket)
    }

    /// Records the end of a line's transfer.
    pub fn ended(&mut self, line: usize, well: bool) {
        let Line { moving, valid, ticket, .. } = &mut self.lines[line];
        let Some(moved) = moving.take() else { return };
        if well {
            *valid |= moved;
            return;
        }
        *valid &= !moved;
        if self.failed.len() == FAILURES {
            self.failed.pop_front();
        }
        self.failed.push_back(*ticket);
    }

    /// Lines with a transfer in flight.
    pub fn moving(&self) -> impl Iterator<Item = usize> + use<> {
        let moving = self.lines.map(|line| line.moving.is_some());
        (0..LINES).filter(move |line| moving[*line])
    }

    /// Forgets what idle lines hold of a disk.
    pub fn forget(&mut self, disk: u64) {
        for line in self.lines.iter_mut().filter(|line| line.of.is_some_and(|(of, _)| of == disk)) {
            line.valid = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    const CAPACITY: u64 = 5 * LINE + 3 * SECTOR;

    /// A disk with a cache before it, and the lines.
    struct Rig {
        cache: BlockCache,
        lines: Vec<Vec<u8>>,
        disk: Vec<u8>,
        flight: Vec<Transfer>,
        fails: bool,
        transfers: usize,
    }

    impl Rig {
        fn new() -> Self {
            let disk = (0..CAPACITY).map(|at| (at / 7) as u8).collect();
            let lines = vec![vec![0; LINE as usize]; LINES];
            Self { cache: BlockCache::default(), lines, disk, flight: Vec::new(), fails: false, transfers: 0 }
        }

        fn end_all(&mut self) {
            for Transfer { line, piece, kind } in core::mem::take(&mut self.flight) {
                let (start, length) = (piece.offset as usize, piece.bytes as usize);
                let at = start % LINE as usize;
                match kind {
                    _ if self.fails => {}
                    Kind::Write => self.disk[start..][..length].copy_from_slice(&self.lines[line][at..][..length]),
                    Kind::Flush => {}
                    _ => self.lines[line][at..][..length].copy_from_slice(&self.disk[start..][..length]),
                }
                self.cache.ended(line, !self.fails);
            }
        }

        fn request(&mut self, kind: Kind, offset: u64, bytes: &mut [u8]) -> Result<(), ()> {
            let piece = Piece { disk: 0, offset, bytes: bytes.len() as u64 };
            let at = (offset % LINE) as usize;
            let mut ticket = 0;
            for _ in 0..100 {
                match self.cache.request(kind, piece, ticket, CAPACITY) {
                    Step::Done(line) if kind == Kind::Read || kind == Kind::ReadDirect => {
                        bytes.copy_from_slice(&self.lines[line][at..][..bytes.len()]);
                        return Ok(());
                    }
                    Step::Done(_) => return Ok(()),
                    Step::Start(transfer, given) => {
                        assert!(self.flight.iter().all(|other| other.line != transfer.line), "two in one line");
                        assert!(transfer.piece.offset % SECTOR == 0 && transfer.piece.bytes % SECTOR == 0);
                        if transfer.kind == Kind::Write {
                            self.lines[transfer.line][at..][..bytes.len()].copy_from_slice(bytes);
                        }
                        (ticket, self.transfers) = (given, self.transfers + 1);
                        self.flight.push(transfer);
                    }
                    Step::Wait(_, given) => ticket = given,
                    Step::Failed => return Err(()),
                }
                self.end_all();
            }
            panic!("no end")
        }
    }

    #[test]
    fn what_is_written_is_on_the_disk_and_is_read_back() {
        let (mut rig, mut model) = (Rig::new(), Rig::new().disk);
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..5_000 {
            let offset = random.u64(0..CAPACITY);
            let longest = (LINE - offset % LINE).min(CAPACITY - offset);
            let length =
                if random.bool() { random.u64(1..=longest) } else { random.u64(1..=longest.min(700)) } as usize;
            let kind = [Kind::Read, Kind::ReadDirect, Kind::Write][random.usize(0..3)];
            let mut bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            rig.request(kind, offset, &mut bytes).unwrap();
            let there = &mut model[offset as usize..][..length];
            if kind == Kind::Write {
                there.copy_from_slice(&bytes)
            } else {
                assert_eq!(there, bytes)
            }
            assert!(rig.disk == model);
        }
    }

    #[test]
    fn a_line_is_read_once_and_direct_reads_reach_the_disk() {
        let mut rig = Rig::new();
        let mut bytes = [0; 100];
        for place in 0..50 {
            rig.request(Kind::Read, place * 100, &mut bytes).unwrap();
        }
        assert_eq!(rig.transfers, 1);
        rig.disk[512] ^= 0xff;
        rig.request(Kind::Read, 512, &mut bytes[..1]).unwrap();
        assert_ne!(bytes[0], rig.disk[512]);
        rig.request(Kind::ReadDirect, 512, &mut bytes[..1]).unwrap();
        assert_eq!((bytes[0], rig.transfers), (rig.disk[512], 2));
    }

    #[test]
    fn a_failure_reaches_the_request_and_leaves_nothing_valid() {
        let mut rig = Rig::new();
        rig.request(Kind::Read, 0, &mut [0; 512]).unwrap();
        rig.fails = true;
        assert!(rig.request(Kind::Write, 0, &mut [9; 512]).is_err());
        assert!(rig.request(Kind::Flush, 0, &mut []).is_err());
        assert!(rig.request(Kind::Read, LINE, &mut [0; 1]).is_err());
        assert!(rig.request(Kind::Write, 2 * LINE + 1, &mut [9; 1]).is_err(), "the sector around it cannot be read");
        rig.fails = false;
        let mut bytes = [9; 512];
        rig.request(Kind::Read, 0, &mut bytes).unwrap();
        assert_eq!(bytes[..], rig.disk[..512], "a failed write is not read from the cache");
        rig.request(Kind::Flush, 0, &mut []).unwrap();
    }

    #[test]
    fn a_busy_line_is_waited_for_and_all_busy_lines_too() {
        let mut cache = BlockCache::default();
        let capacity = 100 * LINE;
        let piece = |index: u64| Piece { disk: 0, offset: index * LINE, bytes: 512 };
        for index in 0..LINES as u64 {
            assert!(matches!(cache.request(Kind::Read, piece(index), 0, capacity), Step::Start(..)));
        }
        assert!(matches!(cache.request(Kind::Write, piece(0), 0, capacity), Step::Wait(0, 0)));
        assert!(matches!(cache.request(Kind::Read, piece(50), 0, capacity), Step::Wait(_, 0)));
        assert!(matches!(cache.request(Kind::Flush, piece(50), 0, capacity), Step::Wait(_, 0)));
        assert_eq!(cache.moving().count(), LINES);
        cache.ended(3, true);
        assert!(matches!(cache.request(Kind::Flush, piece(50), 0, capacity), Step::Start(Transfer { line: 3, .. }, _)));
    }
}
