//! The line discipline: what becomes of each byte that is typed (termios(3); POSIX.1-2017, chapter 11).
//!
//! Pure: bytes in; out come what readers get ([`Cell`]s), what is echoed, and signals. The line that is being edited is
//! kept by the caller, in memory that relatives share, so that nothing here trusts it to make sense.

use super::opost::{self, after_tab};
use super::termios::Modes;
use alloc::vec::Vec;
use linux_raw_sys::general as linux;

/// Longest line that can be edited; what is typed beyond is refused with a bell.
pub const LINE_BYTES: usize = 4095;

/// One byte for readers, or the end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell(pub u16);

impl Cell {
    /// A line ends behind this byte.
    const END: u16 = 0x100;
    /// No byte: a line ends here (`VEOF`).
    pub const END_OF_FILE: Self = Self(0x200 | Self::END);

    /// A byte in the middle of a line.
    pub const fn byte(byte: u8) -> Self {
        Self(byte as u16)
    }

    /// The last byte of a line.
    pub const fn last(byte: u8) -> Self {
        Self(byte as u16 | Self::END)
    }

    /// Its byte; a reader that takes no lines sees a NUL where there is none.
    pub const fn value(self) -> u8 {
        self.0 as u8
    }

    /// Whether a line ends here.
    pub const fn ends_line(self) -> bool {
        self.0 & Self::END != 0
    }

    /// Whether it is the end of a file and no byte.
    pub const fn is_end_of_file(self) -> bool {
        self.0 & Self::END_OF_FILE.0 == Self::END_OF_FILE.0
    }
}

/// The line that is being edited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The next byte is taken as it is (`VLNEXT`).
    pub literal: bool,
    /// Column at which the line begins.
    pub start: u32,
    /// Column of the cursor.
    pub column: u32,
    /// Output is held (`VSTOP`).
    pub held: bool,
}

/// What bytes that were typed bring about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// For readers.
    pub cells: Vec<Cell>,
    /// For the screen.
    pub screen: Vec<u8>,
    /// For the foreground process group, in order.
    pub signals: Vec<u32>,
    /// Cells that waited for readers before these are dropped.
    pub flush: bool,
}

/// One run of the discipline.
#[derive(Debug)]
pub struct Discipline<'a> {
    /// The modes.
    pub modes: &'a Modes,
    /// The line.
    pub line: &'a mut Line,
    /// Cells that readers can still be given.
    pub room: usize,
    /// What came of it.
    pub effects: Effects,
}

impl Discipline<'_> {
    /// A byte was typed.
    pub fn type_byte(&mut self, byte: u8) {
        let Some(byte) = self.translate(byte) else { return };
        if core::mem::take(&mut self.line.literal) {
            return self.take(byte);
        }
        if self.is_signal(byte) || self.is_flow_control(byte) {
            return;
        }
        if self.modes.has_local(linux::IEXTEN) && self.modes.is(byte, linux::VLNEXT) {
            self.line.literal = true;
            if self.modes.has_local(linux::ECHO) && self.modes.has_local(linux::ECHOCTL) {
                self.effects.screen.extend_from_slice(b"^\x08");
            }
            return;
        }
        if self.modes.is_canonical() && self.is_edited(byte) {
            return;
        }
        self.take(byte);
    }

    /// Gives what was typed of a line to readers: the modes changed to no lines at all.
    pub fn give_up_line(&mut self) {
        let bytes = core::mem::take(&mut self.line.bytes);
        self.effects.cells.extend(bytes.into_iter().map(Cell::byte));
    }

    /// `ISTRIP`, `IUCLC` and what becomes of carriage returns.
    fn translate(&self, byte: u8) -> Option<u8> {
        let modes = self.modes;
        let byte = if modes.has_input(linux::ISTRIP) { byte & 0x7f } else { byte };
        let lower = modes.has_input(linux::IUCLC) && modes.has_local(linux::IEXTEN);
        Some(match byte {
            b'\r' if modes.has_input(linux::IGNCR) => return None,
            b'\r' if modes.has_input(linux::ICRNL) => b'\n',
            b'\n' if modes.has_input(linux::INLCR) => b'\r',
            _ if lower => byte.to_ascii_lowercase(),
            _ => byte,
        })
    }

    fn is_signal(&mut self, byte: u8) -> bool {
        if !self.modes.has_local(linux::ISIG) {
            return false;
        }
        let kinds = [(linux::VINTR, linux::SIGINT), (linux::VQUIT, linux::SIGQUIT), (linux::VSUSP, linux::SIGTSTP)];
        let Some((_, signal)) = kinds.into_iter().find(|(index, _)| self.modes.is(byte, *index)) else { return false };
        if !self.modes.has_local(linux::NOFLSH) {
            self.line.bytes.clear();
            self.effects.cells.clear();
            self.effects.flush = true;
        }
        self.line.held = false;
        self.echo(byte);
        self.effects.signals.push(signal);
        true
    }

    fn is_flow_control(&mut self, byte: u8) -> bool {
        if !self.modes.has_input(linux::IXON) {
            return false;
        }
        let (start, stop) = (self.modes.is(byte, linux::VSTART), self.modes.is(byte, linux::VSTOP));
        if start || stop {
            self.line.held = stop && !(start && self.line.held);
            return true;
        }
        if self.line.held && self.modes.has_input(linux::IXANY) {
            self.line.held = false;
        }
        false
    }

    /// Whether `byte` edits the line or ends it.
    fn is_edited(&mut self, byte: u8) -> bool {
        let extended = self.modes.has_local(linux::IEXTEN);
        if self.modes.is(byte, linux::VERASE) {
            self.erase(byte, Unit::Character);
        } else if extended && self.modes.is(byte, linux::VWERASE) {
            self.erase(byte, Unit::Word);
        } else if self.modes.is(byte, linux::VKILL) {
            self.kill(byte);
        } else if extended && self.modes.is(byte, linux::VREPRINT) {
            self.reprint(byte);
        } else if self.modes.is(byte, linux::VEOF) {
            self.end_line(Cell::END_OF_FILE);
        } else if byte == b'\n' {
            if self.modes.has_local(linux::ECHO) || self.modes.has_local(linux::ECHONL) {
                self.show(b'\n');
            }
            self.end_line(Cell::last(byte));
        } else if self.modes.is(byte, linux::VEOL) || extended && self.modes.is(byte, linux::VEOL2) {
            self.echo(byte);
            self.end_line(Cell::last(byte));
        } else {
            return false;
        }
        true
    }

    /// A byte for readers, now or with its line.
    fn take(&mut self, byte: u8) {
        let used = if self.modes.is_canonical() { self.line.bytes.len() } else { 0 };
        if used >= LINE_BYTES || self.effects.cells.len() + used + 1 >= self.room {
            return self.refuse();
        }
        if self.modes.is_canonical() {
            if self.line.bytes.is_empty() {
                self.line.start = self.line.column;
            }
            self.line.bytes.push(byte);
        } else {
            self.effects.cells.push(Cell::byte(byte));
        }
        self.echo(byte);
    }

    /// There is no room for a byte.
    fn refuse(&mut self) {
        if self.modes.has_input(linux::IMAXBEL) {
            self.effects.screen.push(7);
        }
    }

    fn end_line(&mut self, end: Cell) {
        if self.effects.cells.len() + self.line.bytes.len() >= self.room {
            return self.refuse();
        }
        self.give_up_line();
        self.effects.cells.push(end);
    }

    fn erase(&mut self, byte: u8, unit: Unit) {
        let kept = match unit {
            Unit::Character => before_last_character(self.modes, &self.line.bytes),
            Unit::Word => before_last_word(self.modes, &self.line.bytes),
        };
        if kept == self.line.bytes.len() {
            return;
        }
        if self.modes.has_local(linux::ECHOE) {
            return self.rub_out(kept);
        }
        self.line.bytes.truncate(kept);
        self.echo(byte);
    }

    fn kill(&mut self, byte: u8) {
        let local = |flag| self.modes.has_local(flag);
        if local(linux::ECHOK) && local(linux::ECHOKE) && local(linux::ECHOE) {
            return self.rub_out(0);
        }
        self.line.bytes.clear();
        self.echo(byte);
        if local(linux::ECHOK) && local(linux::ECHO) {
            self.show(b'\n');
        }
    }

    fn reprint(&mut self, byte: u8) {
        self.echo(byte);
        if self.modes.has_local(linux::ECHO) {
            self.show(b'\n');
        }
        self.line.start = self.line.column;
        for byte in self.line.bytes.clone() {
            self.echo(byte);
        }
    }

    /// Shows a byte that was typed, control characters as `^X` where that is wanted.
    fn echo(&mut self, byte: u8) {
        if !self.modes.has_local(linux::ECHO) {
            return;
        }
        if is_caret(self.modes, byte) {
            self.show(b'^');
            self.show(byte ^ 0x40);
        } else {
            self.show(byte);
        }
    }

    fn show(&mut self, byte: u8) {
        opost::process(self.modes, &mut self.line.column, byte, &mut self.effects.screen);
    }

    /// Takes what lies behind the first `kept` bytes off the line, and off the screen. As on Linux nothing is written
    /// over what a tab took.
    fn rub_out(&mut self, kept: usize) {
        while self.line.bytes.len() > kept {
            let start = before_last_character(self.modes, &self.line.bytes);
            let (columns, over): (u32, &[u8]) = match &self.line.bytes[start..] {
                b"\t" => (self.width(start + 1).saturating_sub(self.width(start)), b"\x08"),
                others => (others.iter().map(|byte| columns(self.modes, *byte)).sum(), b"\x08 \x08"),
            };
            self.line.bytes.truncate(start);
            if self.modes.has_local(linux::ECHO) {
                self.effects.screen.extend_from_slice(&over.repeat(columns as usize));
                self.line.column = self.line.column.saturating_sub(columns);
            }
        }
    }

    /// The column behind the first `length` bytes of the line.
    fn width(&self, length: usize) -> u32 {
        self.line.bytes[..length].iter().fold(self.line.start, |column, byte| match byte {
            b'\t' => after_tab(column),
            byte => column + columns(self.modes, *byte),
        })
    }
}

/// Columns that a byte takes on the screen which is no tab.
fn columns(modes: &Modes, byte: u8) -> u32 {
    if is_caret(modes, byte) { 2 } else { opost::width(modes, byte) }
}

/// How much is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Character,
    Word,
}

/// Whether a byte is shown as `^X`.
const fn is_caret(modes: &Modes, byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t' && byte != b'\n' && modes.has_local(linux::ECHOCTL)
}

fn before_last_character(modes: &Modes, line: &[u8]) -> usize {
    let starts = |byte: &u8| !modes.has_input(linux::IUTF8) || byte & 0xc0 != 0x80;
    line.iter().rposition(starts).unwrap_or(0)
}

/// As Linux: back over what is no part of a word, then over the word.
fn before_last_word(modes: &Modes, line: &[u8]) -> usize {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let mut kept = line.len();
    let mut seen = false;
    while kept > 0 {
        let start = before_last_character(modes, &line[..kept]);
        let word = is_word(line[start]);
        if seen && !word {
            break;
        }
        seen |= word;
        kept = start;
    }
    kept
}
