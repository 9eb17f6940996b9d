//! The first serial line (16550 at 0x3f8): the kernel's early log and its panic record.
//!
//! Polled, transmit only. A line that is not there or never becomes ready costs a bounded wait and then its bytes are
//! dropped. The record of a dying kernel must not hang it (FAULTS row 96).

use crate::port;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};

/// I/O port of the first serial line.
pub(crate) const PORT: u16 = 0x3f8;
const INTERRUPT_ENABLE: u16 = PORT + 1;
const FIFO_CONTROL: u16 = PORT + 2;
const LINE_CONTROL: u16 = PORT + 3;
const MODEM_CONTROL: u16 = PORT + 4;
const LINE_STATUS: u16 = PORT + 5;
const TRANSMITTER_EMPTY: u8 = 1 << 5;
/// Polls before a byte is given up: about 20 ms on hardware.
const PATIENCE: u32 = 20_000;

static STUCK: AtomicBool = AtomicBool::new(false);
static BUSY: AtomicBool = AtomicBool::new(false);

/// Sets the line to 115200 baud, 8 bits, no parity, FIFOs on, interrupts off.
pub(crate) fn initialise() {
    let settings = [
        (INTERRUPT_ENABLE, 0),
        (LINE_CONTROL, 0x80),
        (PORT, 1),
        (INTERRUPT_ENABLE, 0),
        (LINE_CONTROL, 3),
        (FIFO_CONTROL, 7),
        (MODEM_CONTROL, 3),
    ];
    for (register, value) in settings {
        // SAFETY: the registers of the first serial line; where none is there no device answers.
        unsafe { port::write_u8(register, value) };
    }
}

/// Sends one byte, or drops it if the line does not take it in time.
fn send(byte: u8) {
    // SAFETY: reading the line status of the first serial line has no effect that anyone relies on.
    let ready = || unsafe { port::read_u8(LINE_STATUS) } & TRANSMITTER_EMPTY != 0;
    let patience = if STUCK.load(Ordering::Relaxed) { 1 } else { PATIENCE };
    for _ in 0..patience {
        if ready() {
            STUCK.store(false, Ordering::Relaxed);
            // SAFETY: the transmitter holding register of the first serial line is empty.
            unsafe { port::write_u8(PORT, byte) };
            return;
        }
        core::hint::spin_loop();
    }
    STUCK.store(true, Ordering::Relaxed);
}

/// The line as a place to format to. It takes no lock: see [`line`].
pub(crate) struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                send(b'\r');
            }
            send(byte);
        }
        Ok(())
    }
}

/// Writes one whole line of log. Lines of several CPUs do not mix, unless one holds the line for too long.
pub fn line(text: fmt::Arguments<'_>) {
    if cfg!(not(target_os = "none")) {
        return;
    }
    let mut patience = 10_000_000u32;
    while BUSY.swap(true, Ordering::Acquire) && patience > 0 {
        patience -= 1;
        core::hint::spin_loop();
    }
    // Writing to the line cannot fail.
    let _ = Serial.write_fmt(format_args!("chitin: {text}\n"));
    BUSY.store(false, Ordering::Release);
}

/// Writes one formatted line to the serial line, without allocation.
#[macro_export]
macro_rules! log {
    ($($argument:tt)*) => { $crate::serial::line(format_args!($($argument)*)) };
}
