//! The modes of a terminal: `struct termios`, as Linux's x86-64 has it, and as words that relatives share.
//!
//! Pure. Every value of every word has a meaning: what a stranger writes there changes what its own terminal does.

use alloc::vec::Vec;
use linux_raw_sys::general as linux;

/// Control characters of `struct termios` in the kernel's form.
pub const CHARACTERS: usize = 19;
/// Bytes of that form: four words of flags, the line, the characters.
pub const BYTES: usize = 16 + 1 + CHARACTERS;
/// Bytes of `struct termios2`: the two speeds behind it.
pub const BYTES_2: usize = 44;
/// The same of the older `struct termio`, whose flags are halves.
const OLD_CHARACTERS: usize = 8;
/// Its bytes, without what fills it up.
pub const OLD_BYTES: usize = 8 + 1 + OLD_CHARACTERS;
/// Shared words that hold the modes.
pub const WORDS: usize = 6;
/// A control character that stands for none.
pub const DISABLED: u8 = 0;

/// The modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// `c_iflag`.
    pub input: u32,
    /// `c_oflag`.
    pub output: u32,
    /// `c_cflag`.
    pub control: u32,
    /// `c_lflag`.
    pub local: u32,
    /// `c_line`.
    pub line: u8,
    /// `c_cc`.
    pub characters: [u8; CHARACTERS],
}

impl Default for Modes {
    /// Those of a fresh Linux terminal, with UTF-8.
    fn default() -> Self {
        Self {
            input: linux::ICRNL | linux::IXON | linux::IUTF8,
            output: linux::OPOST | linux::ONLCR,
            control: linux::B38400 | linux::CS8 | linux::CREAD,
            local: linux::ISIG
                | linux::ICANON
                | linux::ECHO
                | linux::ECHOE
                | linux::ECHOK
                | linux::ECHOCTL
                | linux::ECHOKE
                | linux::IEXTEN,
            line: 0,
            characters: [3, 28, 127, 21, 4, 0, 1, 0, 17, 19, 26, 0, 18, 15, 23, 22, 0, 0, 0],
        }
    }
}

impl Modes {
    /// Whether a flag of `c_iflag` is set.
    pub const fn has_input(&self, flag: u32) -> bool {
        self.input & flag != 0
    }

    /// Whether a flag of `c_oflag` is set.
    pub const fn has_output(&self, flag: u32) -> bool {
        self.output & flag != 0
    }

    /// Whether a flag of `c_lflag` is set.
    pub const fn has_local(&self, flag: u32) -> bool {
        self.local & flag != 0
    }

    /// Whether input is read line by line.
    pub const fn is_canonical(&self) -> bool {
        self.has_local(linux::ICANON)
    }

    /// Whether `byte` is the control character at `index` (`VINTR` and so on).
    pub fn is(&self, byte: u8, index: u32) -> bool {
        byte != DISABLED && self.character(index) == byte
    }

    /// A control character.
    pub fn character(&self, index: u32) -> u8 {
        self.characters[index as usize % CHARACTERS]
    }

    /// `VMIN`: cells that a read without lines waits for.
    pub fn minimum(&self) -> u64 {
        u64::from(self.character(linux::VMIN))
    }

    /// `VTIME`, in tenths of a second; 0: no timer.
    pub fn timer(&self) -> u64 {
        u64::from(self.character(linux::VTIME))
    }

    /// Whether a timer ends a read between cells.
    pub fn has_timer(&self) -> bool {
        !self.is_canonical() && self.timer() != 0
    }

    /// Cells that a read of `count` bytes takes at once where they wait.
    pub fn cells_enough(&self, count: u64) -> u64 {
        if self.is_canonical() { 1 } else { self.minimum().clamp(1, count) }
    }

    /// Cells that must wait before a reader resumes that found too few for its read, and `waiting` at its last look.
    /// More may have come between its two looks, so `waiting` may be enough already. With a timer each cell resumes the
    /// reader, which begins the timer again.
    pub fn cells_awaited(&self, waiting: u64, count: u64) -> u64 {
        let enough = self.cells_enough(count);
        if self.has_timer() { enough.min(waiting + 1) } else { enough }
    }

    /// As `TCGETS` gives it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let flags = [self.input, self.output, self.control, self.local];
        let mut bytes: Vec<u8> = flags.iter().flat_map(|flags| flags.to_le_bytes()).collect();
        bytes.push(self.line);
        bytes.extend_from_slice(&self.characters);
        bytes
    }

    /// From what `TCSETS` takes; no modes where there are too few bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let flags = |index: usize| bytes.get(index * 4..)?.first_chunk().map(|flags| u32::from_le_bytes(*flags));
        Some(Self {
            input: flags(0)?,
            output: flags(1)?,
            control: flags(2)?,
            local: flags(3)?,
            line: *bytes.get(16)?,
            characters: *bytes.get(17..)?.first_chunk()?,
        })
    }

    /// As the older `TCGETA` gives it: the lower halves of the flags, and the first characters.
    pub fn to_old_bytes(&self) -> Vec<u8> {
        let flags = [self.input, self.output, self.control, self.local];
        let mut bytes: Vec<u8> = flags.iter().flat_map(|flags| (*flags as u16).to_le_bytes()).collect();
        bytes.push(self.line);
        bytes.extend_from_slice(&self.characters[..OLD_CHARACTERS]);
        bytes
    }

    /// These modes with what `TCSETA` takes in their place.
    pub fn with_old_bytes(&self, bytes: &[u8; OLD_BYTES]) -> Self {
        let flags = |index: usize, now: u32| {
            now & !0xffff | u32::from(u16::from_le_bytes([bytes[index * 2], bytes[index * 2 + 1]]))
        };
        let mut characters = self.characters;
        characters[..OLD_CHARACTERS].copy_from_slice(&bytes[OLD_BYTES - OLD_CHARACTERS..]);
        Self {
            input: flags(0, self.input),
            output: flags(1, self.output),
            control: flags(2, self.control),
            local: flags(3, self.local),
            line: bytes[8],
            characters,
        }
    }

    /// As shared words.
    pub fn to_words(&self) -> [u64; WORDS] {
        let mut bytes = self.to_bytes();
        bytes.resize(WORDS * 8, 0);
        core::array::from_fn(|index| u64::from_le_bytes(core::array::from_fn(|byte| bytes[index * 8 + byte])))
    }

    /// From shared words.
    pub fn from_words(words: [u64; WORDS]) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Self::from_bytes(&bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_resumes_with_what_came_between_its_looks() {
        for (local, minimum, timer) in
            [(linux::ICANON, 1, 0), (linux::ICANON, 0, 5), (0, 1, 0), (0, 4, 0), (0, 4, 5), (0, 0, 5)]
        {
            let mut modes = Modes { local, ..Modes::default() };
            (modes.characters[linux::VMIN as usize], modes.characters[linux::VTIME as usize]) = (minimum, timer);
            for (waiting, count) in (0..10).flat_map(|waiting| [(waiting, 1), (waiting, 2), (waiting, 100)]) {
                let (enough, awaited) = (modes.cells_enough(count), modes.cells_awaited(waiting, count));
                assert!(waiting < enough || awaited <= waiting, "{modes:?}: {waiting} cells wait, {awaited} awaited");
                assert!(
                    waiting >= enough || awaited > waiting,
                    "{modes:?}: resumes without a cell more than {waiting}"
                );
            }
        }
    }
}
