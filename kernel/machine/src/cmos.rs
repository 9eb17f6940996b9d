//! The battery-backed registers of a PC (MC146818): the real-time clock keeps its date there.

use crate::port;

const INDEX: u16 = 0x70;
const DATA: u16 = 0x71;
/// Highest register of the clock.
const LAST: u8 = 0x0d;

/// Reads a register of the clock; all ones where there is none. At boot, on the bootstrap CPU.
pub fn read(register: u8) -> u8 {
    assert!(register <= LAST);
    // SAFETY: selecting and reading one of these registers has no effect but to clear interrupt flags that no driver
    // uses.
    unsafe {
        port::write_u8(INDEX, register);
        port::read_u8(DATA)
    }
}
