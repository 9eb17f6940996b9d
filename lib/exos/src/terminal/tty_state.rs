//! The pages of a terminal, and the lock on them.
//!
//! The first page holds the words below, the next two the cells for readers, the last the line that is being edited.
//! Counts only grow, as in a pipe, so that a waiter sleeps on a wakeup predicate over them. A pseudo-terminal has a
//! ring besides, which carries what is printed to its master.

use crate::hw::mapping::{Mapping, Mappings, lock_in};
use crate::pipe::Pipe;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::{Errno, Result};
use runtime::exposed::PageStamp;
use runtime::lock::Held;
use runtime::predicate::{Operator, Term, word};
use runtime::{KeyIndex, PageNumber};
use unix_core::terminal::line_discipline::{Cell, Discipline, Effects, LINE_BYTES, Line};
use unix_core::terminal::opost;
use unix_core::terminal::termios::{self, Modes};
use vfs::initramfs::device;

/// Pages of a terminal.
pub const PAGES: usize = 4;
/// Cells that wait for readers, at most.
const CELLS: u64 = 4096;
const CELLS_AT: u64 = PAGE_SIZE;
const LINE_AT: u64 = 3 * PAGE_SIZE;
const _: () = assert!(CELLS * 2 == LINE_AT - CELLS_AT && LINE_BYTES < PAGE_SIZE as usize);

/// Words of the first page; word 0 is the lock.
pub(super) mod place {
    pub(in crate::terminal) const WRITTEN: usize = 1;
    pub(in crate::terminal) const READ: usize = 2;
    pub(in crate::terminal) const HUNG_UP: usize = 3;
    pub(in crate::terminal) const FOREGROUND: usize = 4;
    pub(in crate::terminal) const SESSION: usize = 5;
    pub(in crate::terminal) const SIZE: usize = 6;
    pub(in crate::terminal) const LINE_LENGTH: usize = 7;
    pub(in crate::terminal) const LINE_STATE: usize = 8;
    pub(in crate::terminal) const HELD: usize = 9;
    /// How often a session that it controlled came to its end: a process that had it open before is hung up.
    pub(in crate::terminal) const SESSIONS_ENDED: usize = 10;
    /// No process has the slave open any more, though one had.
    pub(in crate::terminal) const CLOSED: usize = 11;
    /// The slave cannot be opened yet (`TIOCSPTLCK`).
    pub(in crate::terminal) const LOCKED: usize = 12;
    /// Packet mode, and the events that the master was not told of yet (`TIOCPKT`).
    pub(in crate::terminal) const PACKET: usize = 13;
    pub(in crate::terminal) const EVENTS: usize = 14;
    /// Number in the slave's name.
    pub(in crate::terminal) const NUMBER: usize = 15;
    pub(in crate::terminal) const MODES: usize = 16;
    /// Page numbers of a terminal that says of itself what it is made of.
    pub(in crate::terminal) const OWN_PAGES: usize = 24;
}

/// Where what programs print goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Screen {
    /// To the host.
    Host,
    /// To the master of a pseudo-terminal.
    Master {
        /// What it has not read yet.
        ring: Pipe,
        /// Node of the slave's name, which each descriptor of the slave holds.
        node: u64,
    },
}

/// A terminal, as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terminal {
    pages: Mapping,
    screen: Screen,
    /// Value of [`place::SESSIONS_ENDED`] when it was opened.
    generation: u64,
}

/// The foreground group of a terminal whose first page these words are.
pub fn foreground_in(words: &[AtomicU64]) -> u64 {
    words[place::FOREGROUND].load(Acquire)
}

/// What the server tells those who have a pseudo-terminal open, in its first page: the master is gone.
pub fn tell_hung_up(words: &[AtomicU64]) {
    words[place::HUNG_UP].store(1, SeqCst);
    crate::wait::kick_idle();
}

/// In the same way: no process has the slave open.
pub fn tell_closed(words: &[AtomicU64]) {
    words[place::CLOSED].store(1, SeqCst);
    crate::wait::kick_idle();
}

/// What came of typing: what the caller has to do once the lock is free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// Bytes that were taken.
    pub taken: usize,
    /// Signals for the foreground process group.
    pub signals: Vec<u32>,
}

impl Terminal {
    /// Opens the pages of a terminal.
    pub fn open(windows: &mut Mappings, pages: &[PageNumber], key: KeyIndex, screen: Screen) -> Result<Self> {
        if pages.len() != PAGES {
            return Err(Errno::EIO);
        }
        let mut terminal = Self { pages: windows.open(pages.to_vec(), key, true)?, screen, generation: 0 };
        terminal.generation = terminal.word(place::SESSIONS_ENDED).load(Acquire);
        Ok(terminal)
    }

    /// Opens the machine's own terminal by its first page, which names the others.
    pub fn open_by_first(windows: &mut Mappings, first: PageStamp, key: KeyIndex) -> Result<Self> {
        let head = windows.open_noted(&[first], key, true)?;
        let word = |index: usize| head.words()[place::OWN_PAGES + index].load(Acquire);
        let pages: Vec<PageNumber> = (0..PAGES).map(|index| PageNumber(word(index))).collect();
        windows.close(&head);
        if pages[0] != first.page() {
            return Err(Errno::EIO);
        }
        Self::open(windows, &pages, key, Screen::Host)
    }

    /// Sets a fresh one up.
    pub fn reset(&self, modes: &Modes) {
        self.set_modes(modes);
        for (index, page) in self.pages().iter().enumerate() {
            self.word(place::OWN_PAGES + index).store(page.0, SeqCst);
        }
    }

    /// The same terminal, opened when that one was.
    pub fn as_old_as(self, generation: u64) -> Self {
        Self { generation, ..self }
    }

    /// How many sessions it had controlled when it was opened.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Where what programs print goes.
    pub const fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Windows that it is seen through.
    pub fn windows(&self) -> Vec<Mapping> {
        let ring = match &self.screen {
            Screen::Host => None,
            Screen::Master { ring, .. } => Some(ring.window().clone()),
        };
        [self.pages.clone()].into_iter().chain(ring).collect()
    }

    /// Its device number, as `/proc` tells it: minor 0..8, major 8..20.
    pub fn device(&self) -> u64 {
        let (major, minor) = match self.screen {
            Screen::Host => device::CONSOLE,
            Screen::Master { .. } => (device::SLAVE_MAJOR, self.word(place::NUMBER).load(Acquire) as u32),
        };
        u64::from(major << 8 | minor & 0xff)
    }

    /// Node of the slave's name, which each descriptor of it holds; none for the machine's own terminal.
    pub const fn node(&self) -> Option<u64> {
        match self.screen {
            Screen::Host => None,
            Screen::Master { node, .. } => Some(node),
        }
    }

    /// Its pages.
    pub fn pages(&self) -> &[PageNumber] {
        self.pages.pages()
    }

    /// The modes.
    pub fn modes(&self) -> Modes {
        Modes::from_words(core::array::from_fn(|index| self.word(place::MODES + index).load(Acquire)))
    }

    /// Sets the modes; a line that was begun goes to readers where lines are no longer read.
    pub fn set_modes(&self, modes: &Modes) {
        let _held = self.lock();
        let was_canonical = self.modes().is_canonical();
        for (index, value) in modes.to_words().into_iter().enumerate() {
            self.word(place::MODES + index).store(value, SeqCst);
        }
        if was_canonical && !modes.is_canonical() {
            let mut line = self.line();
            let mut discipline = Discipline { modes, line: &mut line, room: 0, effects: Effects::default() };
            discipline.give_up_line();
            let cells = discipline.effects.cells;
            self.put_line(&line);
            self.put_cells(&cells);
        }
    }

    /// Runs the discipline on bytes that were typed, as many as readers have room for. What is echoed is shown before
    /// readers get any of it, so that it stands before what they write about it.
    pub fn type_bytes(&self, bytes: &[u8], echo: impl FnOnce(&[u8])) -> Typed {
        let _held = self.lock();
        let modes = self.modes();
        let mut line = self.line();
        let (mut typed, mut screen, mut cells) = (Typed::default(), Vec::new(), Vec::new());
        for byte in bytes {
            let room = self.room().saturating_sub(cells.len());
            let mut discipline = Discipline { modes: &modes, line: &mut line, room, effects: Effects::default() };
            discipline.type_byte(*byte);
            let effects = discipline.effects;
            if effects.flush {
                cells.clear();
                self.word(place::READ).store(self.word(place::WRITTEN).load(Acquire), SeqCst);
            }
            cells.extend(effects.cells);
            screen.extend(effects.screen);
            typed.signals.extend(effects.signals);
            typed.taken += 1;
        }
        self.put_line(&line);
        if !screen.is_empty() {
            echo(&screen);
        }
        self.put_cells(&cells);
        typed
    }

    /// How many bytes may be typed before readers have no room for them.
    pub fn room(&self) -> usize {
        CELLS.saturating_sub(self.waiting()) as usize
    }

    /// Cells that wait for readers.
    pub fn waiting(&self) -> u64 {
        self.word(place::WRITTEN).load(Acquire).wrapping_sub(self.word(place::READ).load(Acquire)).min(CELLS)
    }

    /// The count of cells that were read.
    pub fn read_count(&self) -> &'static AtomicU64 {
        self.word(place::READ)
    }

    /// True when readers have room for more than so many bytes: those that are about to be typed.
    pub fn room_to_type(&self, bytes: usize) -> Term {
        let read = (self.word(place::WRITTEN).load(Acquire) + bytes as u64 + 1).saturating_sub(CELLS);
        word(self.word(place::READ), Operator::GreaterOrEqual, read)
    }

    /// Takes cells as a `read` of `count` bytes does: the rest of a line, or, without lines, whatever is there. Nothing
    /// where no cell waits.
    pub fn take(&self, count: usize) -> Option<Vec<u8>> {
        let _held = self.lock();
        let canonical = self.modes().is_canonical();
        let mut bytes = Vec::new();
        let mut taken = 0;
        let waiting = self.waiting();
        while taken < waiting {
            let cell = self.cell(taken);
            if canonical && cell.is_end_of_file() {
                taken += 1;
                break;
            }
            if bytes.len() == count {
                break;
            }
            taken += 1;
            bytes.push(cell.value());
            if canonical && cell.ends_line() {
                break;
            }
        }
        self.word(place::READ).fetch_add(taken, SeqCst);
        crate::wait::kick_idle();
        (waiting > 0).then_some(bytes)
    }

    /// Bytes that a read could take, as `FIONREAD` tells it.
    pub fn readable_bytes(&self) -> u64 {
        let _held = self.lock();
        (0..self.waiting()).filter(|index| !self.cell(*index).is_end_of_file()).count() as u64
    }

    /// Drops what waits for readers, and the line that was begun.
    pub fn flush_input(&self) {
        let _held = self.lock();
        self.word(place::READ).store(self.word(place::WRITTEN).load(Acquire), SeqCst);
        let mut line = self.line();
        line.bytes.clear();
        self.put_line(&line);
        crate::wait::kick_idle();
    }

    /// Bytes of a program as the screen is to get them.
    pub fn process_output(&self, bytes: &[u8]) -> Vec<u8> {
        let _held = self.lock();
        let modes = self.modes();
        let mut line = self.line();
        let mut screen = Vec::with_capacity(bytes.len() + 16);
        for byte in bytes {
            opost::process(&modes, &mut line.column, *byte, &mut screen);
        }
        self.put_line_state(&line);
        screen
    }

    /// Whether no process is at the terminal any more.
    pub fn is_hung_up(&self) -> bool {
        self.word(place::HUNG_UP).load(Acquire) != 0
            || self.word(place::SESSIONS_ENDED).load(Acquire) != self.generation
    }

    /// No process is at the terminal any more.
    pub fn hang_up(&self) {
        tell_hung_up(self.pages.words());
    }

    /// The leader of the session that it controls has ended: a process that has it open reads its end and writes
    /// nothing more.
    pub fn end_session(&self) {
        self.word(place::SESSIONS_ENDED).fetch_add(1, SeqCst);
        crate::wait::kick_idle();
    }

    /// Whether output is held.
    pub fn is_held(&self) -> bool {
        self.word(place::HELD).load(Acquire) != 0
    }

    /// Holds output, or lets it go on.
    pub fn hold(&self, held: bool) {
        self.word(place::HELD).store(u64::from(held), SeqCst);
    }

    /// What becomes true when more than `least` cells wait, or the terminal is gone.
    pub fn input_terms(&self, least: u64) -> [Term; 3] {
        let read = self.word(place::READ).load(Acquire);
        let enough = read.wrapping_add(least.clamp(1, CELLS));
        let [gone, ended] = self.gone();
        [word(self.word(place::WRITTEN), Operator::GreaterOrEqual, enough), gone, ended]
    }

    /// What becomes true when output resumes, or the terminal is gone.
    pub fn held_terms(&self) -> [Term; 3] {
        let [gone, ended] = self.gone();
        [word(self.word(place::HELD), Operator::Equal, 0), gone, ended]
    }

    /// True when the terminal is gone for the process that opened it.
    pub fn gone(&self) -> [Term; 2] {
        [
            word(self.word(place::HUNG_UP), Operator::NotEqual, 0),
            word(self.word(place::SESSIONS_ENDED), Operator::NotEqual, self.generation),
        ]
    }

    /// A number that changes with each cell that is typed, and when the terminal is gone.
    pub fn input_stamp(&self) -> u64 {
        self.word(place::WRITTEN).load(Acquire) << 1 | u64::from(self.is_hung_up())
    }

    /// What becomes true when that number changes.
    pub fn input_changes(&self) -> [Term; 3] {
        let written = self.word(place::WRITTEN);
        let [gone, ended] = self.gone();
        [word(written, Operator::NotEqual, written.load(Acquire)), gone, ended]
    }

    /// The foreground process group; 0: none.
    pub fn foreground(&self) -> u64 {
        self.word(place::FOREGROUND).load(Acquire)
    }

    /// Sets the foreground process group.
    pub fn set_foreground(&self, group: u64) {
        self.word(place::FOREGROUND).store(group, SeqCst);
    }

    /// The session that it controls; 0: none.
    pub fn session(&self) -> u64 {
        self.word(place::SESSION).load(Acquire)
    }

    /// Sets the session that it controls.
    pub fn set_session(&self, session: u64) {
        self.word(place::SESSION).store(session, SeqCst);
    }

    /// `struct winsize`: rows, columns, and their sizes in pixels.
    pub fn size(&self) -> [u16; 4] {
        let word = self.word(place::SIZE).load(Acquire);
        [0, 16, 32, 48].map(|shift| (word >> shift) as u16)
    }

    /// Sets the window size; whether it changed.
    pub fn set_size(&self, size: [u16; 4]) -> bool {
        let word = size.iter().rev().fold(0, |word, part| word << 16 | u64::from(*part));
        self.word(place::SIZE).swap(word, SeqCst) != word
    }

    fn put_cells(&self, cells: &[Cell]) {
        for cell in cells.iter().take(self.room()) {
            let at = self.word(place::WRITTEN).load(Acquire);
            let offset = CELLS_AT + at % CELLS * 2;
            // The offset lies in the pages, whatever the count says.
            let _ = self.pages.write(offset, &cell.0.to_le_bytes());
            self.word(place::WRITTEN).store(at.wrapping_add(1), SeqCst);
        }
    }

    /// The cell that lies `index` behind the next to be read.
    fn cell(&self, index: u64) -> Cell {
        let at = self.word(place::READ).load(Acquire).wrapping_add(index);
        let mut bytes = [0; 2];
        let _ = self.pages.read(CELLS_AT + at % CELLS * 2, &mut bytes);
        Cell(u16::from_le_bytes(bytes))
    }

    fn line(&self) -> Line {
        let length = self.word(place::LINE_LENGTH).load(Acquire).min(LINE_BYTES as u64);
        let mut bytes = vec![0; length as usize];
        let _ = self.pages.read(LINE_AT, &mut bytes);
        let state = self.word(place::LINE_STATE).load(Acquire);
        Line {
            bytes,
            literal: state >> 63 != 0,
            start: (state >> 32) as u32 & 0xffff,
            column: state as u32 & 0xffff,
            held: self.is_held(),
        }
    }

    fn put_line(&self, line: &Line) {
        let _ = self.pages.write(LINE_AT, &line.bytes);
        self.word(place::LINE_LENGTH).store(line.bytes.len() as u64, SeqCst);
        self.put_line_state(line);
        self.hold(line.held);
    }

    fn put_line_state(&self, line: &Line) {
        let columns = u64::from(line.start.min(0xffff)) << 32 | u64::from(line.column.min(0xffff));
        self.word(place::LINE_STATE).store(columns | u64::from(line.literal) << 63, Relaxed);
    }

    fn lock(&self) -> Held<'static> {
        lock_in(&self.pages).acquire()
    }

    pub(super) fn word(&self, index: usize) -> &'static AtomicU64 {
        &self.pages.words()[index]
    }
}

const _: () = assert!(place::MODES + termios::WORDS <= place::OWN_PAGES);
