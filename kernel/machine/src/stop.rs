//! Stopping the machine: the debug-exit port tells the host how it ended (`abi::host_channel::stop`).

use crate::{log, port};
use abi::host_channel::stop;
use core::arch::asm;
use core::fmt;

/// I/O port of QEMU's isa-debug-exit device.
pub(crate) const EXIT_PORT: u16 = 0xf4;

/// Stops the machine in order.
pub fn in_order() -> ! {
    with(stop::IN_ORDER)
}

/// Says why the machine cannot boot and what to do, and stops.
pub fn boot_failure(reason: impl fmt::Display) -> ! {
    log!("boot failure: {reason}");
    with(stop::BOOT_FAILURE)
}

/// Stops with a code of `abi::host_channel::stop`; without the debug-exit device this CPU halts for ever.
pub(crate) fn with(code: u32) -> ! {
    #[cfg(feature = "trace")]
    crate::trace::tell();
    // SAFETY: the port is that of the debug-exit device or of nothing; after it nothing of this machine is used.
    unsafe { port::write_u32(EXIT_PORT, code) };
    halt_for_ever()
}

/// Halts this CPU for good; an NMI wakes it only to halt again.
pub(crate) fn halt_for_ever() -> ! {
    loop {
        // SAFETY: with interrupts off, halting only stops this CPU, which is what is wanted.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}
