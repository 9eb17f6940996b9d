//! What goes from a pipe to something else without a stop in the program (splice(2), tee(2)): bytes are copied here
//! that Linux hands over as pages. A byte leaves the pipe when it has arrived, under the pipe's lock, so that no other
//! thread reads it meanwhile.

use super::pipe_end::Pipe;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use linux_abi::address_map::PAGE_SIZE;
use linux_abi::errno::Result;
use unix_core::pipe::ring::Stretch;

/// Bytes that are copied at a time.
pub const PIECE: u64 = 4 * PAGE_SIZE;

impl Pipe {
    /// Whether two are the same, opened here or by others.
    pub fn is_same(&self, other: &Self) -> bool {
        self.pages()[0] == other.pages()[0]
    }

    /// Gives at most so many of the bytes that are there to `take`, which says how many of a piece it took, and must
    /// not wait.
    pub fn give(&self, bytes: u64, mut take: impl FnMut(&[u8]) -> Result<u64>) -> Result<u64> {
        let _held = self.lock();
        let mut done = 0;
        while done < bytes {
            let ring = self.ring();
            let some = self.piece(ring.to_read((bytes - done).min(PIECE))?)?;
            if some.is_empty() {
                break;
            }
            let taken = match take(&some) {
                Err(_) if done > 0 => break,
                outcome => outcome?.min(some.len() as u64),
            };
            self.read_count().store(ring.read.wrapping_add(taken), SeqCst);
            done += taken;
            if taken < some.len() as u64 {
                break;
            }
        }
        if done > 0 {
            self.wake_writer();
        }
        Ok(done)
    }

    /// Gives another pipe at most so many of the bytes that are there, as many as it has room for; with `keep` they
    /// stay here as well.
    pub fn give_to_pipe(&self, other: &Self, bytes: u64, keep: bool) -> Result<u64> {
        // Two that give to each other take the locks in one order.
        let _held = match self.pages()[0] < other.pages()[0] {
            true => [self.lock(), other.lock()],
            false => [other.lock(), self.lock()],
        };
        let (mut from, mut to) = (self.ring(), other.ring());
        let mut done = 0;
        while done < bytes {
            let most = to.to_write((bytes - done).min(PIECE))?;
            let some = self.piece(from.to_read(most.bytes)?)?;
            if some.is_empty() {
                break;
            }
            other.with_place(most.offset, |window, place| window.write(place, &some))?;
            let length = some.len() as u64;
            (from.read, to.written) = (from.read.wrapping_add(length), to.written.wrapping_add(length));
            done += length;
        }
        if done > 0 {
            other.set_written(other.ring(), to.written);
            other.wake_reader();
        }
        if done > 0 && !keep {
            self.read_count().store(from.read, SeqCst);
            self.wake_writer();
        }
        Ok(done)
    }

    pub(super) fn piece(&self, stretch: Stretch) -> Result<Vec<u8>> {
        let mut bytes = vec![0; stretch.bytes as usize];
        self.with_place(stretch.offset, |window, place| window.read(place, &mut bytes))?;
        Ok(bytes)
    }
}
