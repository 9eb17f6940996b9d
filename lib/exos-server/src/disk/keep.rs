//! What clients of the server ask of the keeper of disks: pages that are on a disk only, and write-back.

use crate::dispatch::{Answer, FileServer, NOTHING};
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_abi::errno::{Errno, Result};
use runtime::transfer::Message;
use unix_core::server::protocol::{DISK_DONE, DISK_WORK, NOT_YET};

impl FileServer {
    fn wake_keeper(&self) {
        self.notice.words()[DISK_WORK].fetch_add(1, SeqCst);
        exos::wait::kick_idle();
    }

    /// Turns a refusal for lack of a page into an answer that makes the client wait and ask again.
    pub(crate) fn ask_for_missing(&mut self, message: &mut Message) {
        let seen = self.notice.words()[DISK_DONE].load(Acquire);
        if core::mem::take(&mut self.tree.wants_room) && !self.keeper.is_dead() {
            self.keeper.wants_room = true;
            self.wake_keeper();
            *message = [NOT_YET, seen, 0, 0, 0, 0];
            return;
        }
        let Some(missing) = self.tree.missing.take().filter(|_| !self.keeper.is_dead()) else {
            message[0] = u64::from(Errno::EIO.number());
            return;
        };
        if let Some(place) = self.keeper.lost.iter().position(|lost| *lost == missing) {
            self.keeper.lost.remove(place);
            message[0] = u64::from(Errno::EIO.number());
            return;
        }
        if !self.keeper.wanted.contains(&missing) {
            self.keeper.wanted.push_back(missing);
        }
        self.wake_keeper();
        *message = [NOT_YET, seen, 0, 0, 0, 0];
    }

    /// See `Request::SyncFiles`: gives up clean pages of a file. What a write-back has taken would count as clean.
    pub(crate) fn discard_pages(&mut self, caller: u64, node: u64) -> Result<Answer> {
        let node = self.start(caller, node)?.node;
        if !self.keeper.is_writing {
            self.tell_of_cut();
            self.tree.evict_file(node, u64::MAX);
        }
        Ok(NOTHING)
    }

    /// See `Request::SyncFiles`: waits for a round that begins after this, and covers everything, a node or its volume.
    pub(crate) fn sync_files(&mut self, caller: u64, ticket: u64, node: u64, is_whole: bool) -> Result<Answer> {
        if self.tree.backings.is_empty() {
            return Ok(NOTHING);
        }
        let seen = self.notice.words()[DISK_DONE].load(Acquire);
        let ticket = if ticket == 0 || ticket > self.keeper.asked {
            if node == 0 {
                self.keeper.scope.everything = true;
            } else {
                let node = self.start(caller, node)?.node;
                // A file of a volume in memory is where it will ever be.
                let volume = self.tree.node(node)?.volume;
                if !self.tree.backings.contains_key(&volume) {
                    return Ok(NOTHING);
                }
                if is_whole {
                    self.keeper.scope.volumes.insert(volume);
                } else {
                    self.keeper.scope.nodes.insert(node);
                }
            }
            self.keeper.asked += 1;
            self.wake_keeper();
            self.keeper.asked
        } else {
            ticket
        };
        if ticket > self.keeper.done && self.keeper.is_dead() {
            return Err(Errno::EIO);
        }
        if ticket > self.keeper.done {
            return Ok([1, seen, ticket, 0, 0]);
        }
        let failed = self.keeper.failed.iter().find(|(first, last, _)| (*first..=*last).contains(&ticket));
        failed.map_or(Ok(NOTHING), |(.., error)| Err(*error))
    }
}
