//! What happens to bytes on their way to a terminal's screen (`OPOST` and its companions, termios(3)).
//!
//! Pure. The column is kept because tabs are expanded and erased by it.

use super::termios::Modes;
use alloc::vec::Vec;
use linux_raw_sys::general as linux;

/// Columns from one tab stop to the next.
const TAB: u32 = 8;

/// Adds `byte` as the screen is to get it to `screen`, and moves the column.
pub fn process(modes: &Modes, column: &mut u32, byte: u8, screen: &mut Vec<u8>) {
    if !modes.has_output(linux::OPOST) {
        screen.push(byte);
        return;
    }
    match byte {
        b'\n' if modes.has_output(linux::ONLCR) => {
            *column = 0;
            screen.extend_from_slice(b"\r\n");
        }
        b'\n' => {
            if modes.has_output(linux::ONLRET) {
                *column = 0;
            }
            screen.push(byte);
        }
        b'\r' if modes.has_output(linux::ONOCR) && *column == 0 => {}
        b'\r' => {
            let turned = modes.has_output(linux::OCRNL);
            if !turned || modes.has_output(linux::ONLRET) {
                *column = 0;
            }
            screen.push(if turned { b'\n' } else { byte });
        }
        b'\t' => {
            let spaces = TAB - *column % TAB;
            *column = column.saturating_add(spaces);
            if modes.output & linux::TABDLY == linux::XTABS {
                screen.resize(screen.len() + spaces as usize, b' ');
            } else {
                screen.push(byte);
            }
        }
        8 => {
            *column = column.saturating_sub(1);
            screen.push(byte);
        }
        _ => {
            let upper = if modes.has_output(linux::OLCUC) { byte.to_ascii_uppercase() } else { byte };
            *column = column.saturating_add(width(modes, byte));
            screen.push(upper);
        }
    }
}

/// Columns that a byte takes by itself: none for control characters, and none for the later bytes of a UTF-8 sequence.
pub const fn width(modes: &Modes, byte: u8) -> u32 {
    let continues = byte & 0xc0 == 0x80 && modes.has_input(linux::IUTF8);
    (!byte.is_ascii_control() && !continues) as u32
}

/// The column after a tab at `column`.
pub const fn after_tab(column: u32) -> u32 {
    column + TAB - column % TAB
}
