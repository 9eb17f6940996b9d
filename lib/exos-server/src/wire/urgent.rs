//! Urgent bytes (`MSG_OOB`, tcp(7)) between the pages of a socket and its connection of the stack.
//!
//! A page says which byte of its side was urgent last, by the position behind it ([`page::URGENT`]).
//! Invariant: each value of that word reaches the stack once, when its byte is queued there.

use super::keeper::Keeper;
use super::streams::Stream;
use crate::sockets::wire_sockets::Sides;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use internet::option::{self, place};
use internet::page;
use internet::ring::Ring;

impl Keeper {
    /// The bytes from `first` to `end` of what the program sent were queued.
    pub(super) fn send_urgent(&mut self, sides: &Sides, stream: &mut Stream, first: u64, end: u64) {
        let urgent = sides.own.words()[page::URGENT].load(Acquire);
        if urgent != stream.urgent && first < urgent && urgent <= end {
            stream.urgent = urgent;
            self.stack.tcp.mark_urgent(stream.handle, (end - urgent) as u32);
        }
    }

    /// Publishes the urgent byte that has come, before the bytes in front of it are handed over.
    pub(super) fn publish_urgent(&self, sides: &Sides, stream: &Stream) {
        let Some((before, byte)) = self.stack.tcp.block(stream.handle).and_then(|block| block.urgent()) else { return };
        let words = sides.peer.words();
        let position = Ring::new(words[page::SENT].load(Acquire), 0, 0).sent() + before as u64 + 1;
        if words[page::URGENT].load(Acquire) != position {
            skip_earlier(sides);
            words[page::URGENT_BYTE].store(u64::from(byte), SeqCst);
            words[page::URGENT].store(position, SeqCst);
            exos::wait::kick_idle();
        }
    }
}

/// A reader that has reached the earlier urgent byte leaves it out, as within the machine.
fn skip_earlier(sides: &Sides) {
    let words = sides.peer.words();
    let earlier = words[page::URGENT].load(Acquire);
    let taken = Ring::new(0, sides.own.words()[page::TAKEN].load(Acquire), 0).taken();
    if earlier != 0 && taken == earlier - 1 && option::value(&sides.own, place::URGENT_IN_LINE) == 0 {
        words[page::URGENT_SKIPPED].store(earlier, SeqCst);
    }
}
