//! The line discipline and the way to the screen, against what Linux's terminals do.

use linux_raw_sys::general as linux;
use unix_core::terminal::line_discipline::{Cell, Discipline, Effects, LINE_BYTES, Line};
use unix_core::terminal::opost;
use unix_core::terminal::termios::{BYTES, Modes};

const ROOM: usize = 4096;

/// A terminal whose reader never comes.
#[derive(Default)]
struct Terminal {
    modes: Modes,
    line: Line,
    cells: Vec<Cell>,
    screen: Vec<u8>,
    signals: Vec<u32>,
}

impl Terminal {
    fn with(change: impl FnOnce(&mut Modes)) -> Self {
        let mut terminal = Self::default();
        change(&mut terminal.modes);
        terminal
    }

    fn keys(mut self, keys: &[u8]) -> Self {
        for key in keys {
            let room = ROOM - self.cells.len();
            let (modes, line) = (&self.modes, &mut self.line);
            let mut discipline = Discipline { modes, line, room, effects: Effects::default() };
            discipline.type_byte(*key);
            let effects = discipline.effects;
            if effects.flush {
                self.cells.clear();
            }
            self.cells.extend(effects.cells);
            self.screen.extend(effects.screen);
            self.signals.extend(effects.signals);
        }
        self
    }

    /// What reads of whole lines give.
    fn lines(&self) -> Vec<Vec<u8>> {
        let mut lines = vec![Vec::new()];
        for cell in &self.cells {
            if !cell.is_end_of_file() {
                lines.last_mut().unwrap().push(cell.value());
            }
            if cell.ends_line() {
                lines.push(Vec::new());
            }
        }
        assert_eq!(lines.pop(), Some(Vec::new()), "readers are given whole lines");
        lines
    }
}

#[test]
fn a_line_comes_when_it_is_ended_and_is_echoed_at_once() {
    let terminal = Terminal::default().keys(b"ls -l");
    assert_eq!((terminal.cells.len(), terminal.screen.as_slice()), (0, &b"ls -l"[..]));
    let terminal = terminal.keys(b"\r");
    assert_eq!(terminal.lines(), [b"ls -l\n"]);
    assert_eq!(terminal.screen, b"ls -l\r\n");
}

#[test]
fn characters_words_and_lines_are_erased_with_what_they_take_on_the_screen() {
    let rubbed = |keys: &[u8]| {
        let terminal = Terminal::default().keys(keys).keys(b"\n");
        (terminal.lines().remove(0), terminal.screen)
    };
    assert_eq!(rubbed(b"ab\x7fc"), (b"ac\n".to_vec(), b"ab\x08 \x08c\r\n".to_vec()));
    assert_eq!(rubbed("hä\x7fi".as_bytes()), (b"hi\n".to_vec(), "hä\x08 \x08i\r\n".as_bytes().to_vec()));
    assert_eq!(rubbed(b"a\x01\x7fb"), (b"ab\n".to_vec(), b"a^A\x08 \x08\x08 \x08b\r\n".to_vec()));
    let seven = b"\x08".repeat(7);
    assert_eq!(rubbed(b"a\t\x7fb"), (b"ab\n".to_vec(), [b"a\t", &seven[..], b"b\r\n"].concat()));
    assert_eq!(rubbed(b"a\t\x15b"), (b"b\n".to_vec(), [b"a\t", &seven[..], b"\x08 \x08b\r\n"].concat()));
    assert_eq!(rubbed(b"one two  \x17x").0, b"one x\n");
    assert_eq!(rubbed(b"one\x15x").0, b"x\n");
    assert_eq!(rubbed(b"\x7f\x17\x15x").1, b"x\r\n");
    assert_eq!(rubbed(b"a\x16\x03b").0, b"a\x03b\n");
}

#[test]
fn an_end_of_file_ends_a_line_without_a_byte() {
    assert_eq!(Terminal::default().keys(b"ab\x04\x04c\n").lines(), [&b"ab"[..], b"", b"c\n"]);
}

#[test]
fn signals_flush_what_was_typed_unless_told_otherwise() {
    let terminal = Terminal::default().keys(b"old\nne\x03w\n");
    assert_eq!((terminal.signals.as_slice(), terminal.lines()), (&[linux::SIGINT][..], vec![b"w\n".to_vec()]));
    assert!(terminal.screen.ends_with(b"ne^Cw\r\n"));
    let kept = Terminal::with(|modes| modes.local |= linux::NOFLSH).keys(b"old\nne\x1aw\n");
    assert_eq!(
        (kept.signals.as_slice(), kept.lines()),
        (&[linux::SIGTSTP][..], vec![b"old\n".to_vec(), b"new\n".to_vec()])
    );
    assert_eq!(Terminal::default().keys(b"\x1c").signals, [linux::SIGQUIT]);
}

#[test]
fn without_lines_every_byte_comes_as_it_is() {
    let raw = Terminal::with(|modes| {
        modes.local = 0;
        modes.input = 0;
        modes.output = 0;
    });
    let all: Vec<u8> = (0..=255).collect();
    let raw = raw.keys(&all);
    assert_eq!(raw.cells.iter().map(|cell| cell.value()).collect::<Vec<u8>>(), all);
    assert!(raw.screen.is_empty() && raw.signals.is_empty());
}

#[test]
fn a_line_that_is_too_long_rings_the_bell_and_can_still_be_ended() {
    let terminal = Terminal::with(|modes| modes.input |= linux::IMAXBEL).keys(&vec![b'x'; LINE_BYTES + 10]);
    assert_eq!(terminal.screen.iter().filter(|byte| **byte == 7).count(), 10);
    assert_eq!(terminal.keys(b"\n").lines()[0].len(), LINE_BYTES + 1);
}

#[test]
fn output_is_held_and_goes_on() {
    let terminal = Terminal::default().keys(b"\x13");
    assert!(terminal.line.held);
    assert!(!terminal.keys(b"\x11").line.held);
}

#[test]
fn modes_survive_as_bytes_and_as_words() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..200 {
        let bytes: Vec<u8> = (0..BYTES).map(|_| random.u8(..)).collect();
        let modes = Modes::from_bytes(&bytes).expect("enough bytes");
        assert_eq!(modes.to_bytes(), bytes);
        assert_eq!(Modes::from_words(modes.to_words()), modes);
        assert_eq!(Modes::from_bytes(&bytes[1..]), None);
    }
}

#[test]
fn fault_86_nothing_that_is_typed_into_any_modes_makes_a_line_longer_than_it_may_be() {
    let mut random = fastrand::Rng::with_seed(12);
    for _ in 0..300 {
        let bytes: Vec<u8> = (0..BYTES).map(|_| random.u8(..)).collect();
        let mut terminal = Terminal { modes: Modes::from_bytes(&bytes).unwrap(), ..Terminal::default() };
        terminal.line = Line { bytes: (0..random.usize(..100)).map(|_| random.u8(..)).collect(), ..Line::default() };
        let keys: Vec<u8> = (0..random.usize(..5000)).map(|_| random.u8(..)).collect();
        let terminal = terminal.keys(&keys);
        assert!(terminal.line.bytes.len() <= LINE_BYTES && terminal.cells.len() <= ROOM);
    }
}

#[test]
fn output_is_processed_as_the_modes_say() {
    let show = |output: u32, text: &[u8]| {
        let modes = Modes { output, ..Modes::default() };
        let (mut column, mut screen) = (0, Vec::new());
        text.iter().for_each(|byte| opost::process(&modes, &mut column, *byte, &mut screen));
        screen
    };
    let post = linux::OPOST;
    assert_eq!(show(post | linux::ONLCR, b"a\nb"), b"a\r\nb");
    assert_eq!(show(0, b"a\nb\t"), b"a\nb\t");
    assert_eq!(show(post | linux::XTABS, b"ab\tc"), b"ab      c");
    assert_eq!(show(post | linux::OCRNL, b"a\r"), b"a\n");
    assert_eq!(show(post | linux::ONOCR, b"\ra\r"), b"a\r");
    assert_eq!(show(post | linux::OLCUC, b"abc"), b"ABC");
}
