//! Interfaces: where frames come from and go to (the seam between packets and the drivers of network cards).
//!
//! Interface 0 is the machine itself: what is sent there is received there. Interface n is the n-th network card, whose
//! device bears the name `[DEVICE, NETWORK, n]`, n from 1 on.
//!
//! - The driver hands a frame that arrived to [`Kernel::receive`], a bounded number an entry.
//! - Packets give a frame to the [`Card`](machine::packet::Card) of its interface, with a token.
//! - The driver reports the end of each transmission to [`Kernel::sent`], by its token; pins come back as they do from
//!   disks.

use crate::kernel::Kernel;
use machine::packet::Received;

#[expect(dead_code, reason = "the driver of network cards calls it, and comes with a change of its own")]
impl Kernel {
    /// A frame arrived.
    pub(crate) fn receive(&mut self, _frame: &Received<'_>) {}

    /// A transmission ended; whether the device sent it.
    pub(crate) fn sent(&mut self, _token: u64, _done: bool) {}
}
