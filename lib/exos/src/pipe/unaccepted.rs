//! A pipe of a connection that was closed before it was accepted: its contents, and how another pipe with the same
//! contents is made (`exos_server::sockets::unaccepted`).

use super::pipe_end::{Pipe, Side};
use crate::hw::domain::domain;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use linux_abi::errno::Result;
use unix_core::pipe::ring::{MOST, Ring};

impl Pipe {
    /// How many bytes were read, and those that wait.
    pub fn left_behind(&self) -> Result<(u64, Vec<u8>)> {
        let _held = self.lock();
        let mut ring = self.ring();
        let (read, mut all) = (ring.read, Vec::new());
        while ring.waiting()? > 0 {
            let some = self.piece(ring.to_read(MOST)?)?;
            ring.read = ring.read.wrapping_add(some.len() as u64);
            all.extend(some);
        }
        Ok((read, all))
    }

    /// Puts those contents into this pipe, which is fresh, and which no process writes to from then on.
    pub fn fill_as_left(&self, read: u64, bytes: &[u8]) -> Result<()> {
        self.grow(bytes.len() as u64)?;
        let (mut ring, mut done) = (self.ring(), 0);
        // Frames lie where they lay.
        (ring.read, ring.written) = (read % MOST, read % MOST);
        self.read_count().store(ring.read, SeqCst);
        while done < bytes.len() {
            let place = ring.to_write((bytes.len() - done) as u64)?;
            if place.bytes == 0 {
                break;
            }
            let piece = &bytes[done..done + place.bytes as usize];
            self.with_place(place.offset, |window, at| window.write(at, piece))?;
            ring.written += place.bytes;
            done += place.bytes as usize;
        }
        self.set_written(Ring { written: ring.read, ..ring }, ring.written);
        self.give_up(Side::Write);
        Ok(())
    }

    /// Closes this side of a fresh one: it has no holder.
    pub fn give_up(&self, side: Side) {
        self.leave(side);
        self.release_end(side, domain().environment());
    }
}
