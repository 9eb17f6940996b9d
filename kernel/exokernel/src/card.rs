//! Network cards: frames that arrived go to packets, transmissions that ended come back, both in bounded steps.
//!
//! Receive credit: while a CPU runs environments, receiving takes at most a quarter of its time, period by period.
//! After that the card gives no interrupts until the period is over, and drops what it has no buffers for. An idle CPU
//! has no limit.
//!
//! Invariants:
//! - an entry takes [`FRAMES`] frames at most, and no more than its units of work allow;
//! - what an entry leaves is put off (`device.rs`), so that other devices and programs have their turns while frames
//!   come without end;
//! - a card that was put off gives no interrupts until all is taken;
//! - the state of the credit changes under the kernel's lock only.

use crate::cost;
use crate::device;
use crate::interrupt;
use crate::kernel::Kernel;
use crate::processor::Phase;
use abi::device::{DeviceInfo, State};
use core::sync::atomic::{AtomicU64, Ordering};
use driver::network::{self, Network, SENDS};
use machine::packet::Card;
use machine::{clock, exposed};

/// Frames that one entry takes at most.
const FRAMES: u32 = 16;
/// The part of its time that a CPU receives in, at most: one of so many.
const SHARE: u64 = 4;
/// Nanoseconds of an interrupt beyond what is measured of it.
const INTERRUPT: u64 = 1_000;

/// When the period of the credit began, and the time spent in it.
static PERIOD: AtomicU64 = AtomicU64::new(0);
static SPENT: AtomicU64 = AtomicU64::new(0);

/// Whether the credit of this period is not used up.
fn has_credit(now: u64) -> bool {
    let quantum = exposed::kernel().quantum.load(Ordering::Relaxed);
    if now >= PERIOD.load(Ordering::Relaxed) + quantum {
        PERIOD.store(now, Ordering::Relaxed);
        SPENT.store(0, Ordering::Relaxed);
    }
    SPENT.load(Ordering::Relaxed) < quantum / SHARE
}

/// Writes what the driver knows of every card into its record.
pub(crate) fn expose() {
    for interface in 1..=network::count() as u64 {
        let Some(facts) = network::with(interface, |card| card.facts()) else { break };
        let info = &exposed::devices()[facts.device];
        info.queues.store(1, Ordering::Release);
        info.depth.store(SENDS as u64, Ordering::Release);
        expose_state(interface, info);
    }
}

/// Writes what changes.
fn expose_state(interface: u64, info: &DeviceInfo) {
    let read = |card: &mut Network| (card.state(), card.resets(), card.room(0));
    if let Some((state, resets, room)) = network::with(interface, read) {
        info.state.store(state as u64, Ordering::Release);
        info.resets.store(resets, Ordering::Release);
        info.room.store(room as u64, Ordering::SeqCst);
    }
}

impl Kernel {
    /// A card has interrupted, or its time has come: takes what it has brought and sent.
    pub(crate) fn attend_card(&mut self, device: usize) {
        let (Some(interface), info) = (network::interface_of(device), &exposed::devices()[device]) else { return };
        let start = clock::now();
        let is_open = self.processor().phase == Phase::Idle || has_credit(start);
        let is_silent = device::take_up(device);
        self.spend(cost::DEVICE_LOOK);
        network::with(interface, |card| {
            card.acknowledge_interrupt();
            card.suppress_interrupts(!is_open || is_silent);
        });
        let reaped = self.reap_card(interface, info);
        let taken = if is_open { self.take_frames(interface, info, start, is_silent) } else { Some(0) };
        if !is_open {
            let quantum = exposed::kernel().quantum.load(Ordering::Relaxed);
            network::look_at(PERIOD.load(Ordering::Relaxed) + quantum);
        }
        if !reaped || taken.is_none() {
            device::put_off(device);
        }
        expose_state(interface, info);
        if taken != Some(0) {
            self.raise_bound(info);
            interrupt::wake_all_idle();
        }
        SPENT.fetch_add(clock::now() - start + INTERRUPT, Ordering::Relaxed);
    }

    /// The same for every card.
    pub(crate) fn attend_all_cards(&mut self) {
        for interface in 1..=network::count() as u64 {
            let Some(facts) = network::with(interface, |card| card.facts()) else { break };
            self.attend_card(facts.device);
        }
    }

    /// Hands the frames that have arrived to packets; how many. None: there may be more, and the card gives no
    /// interrupts from now on. `is_silent`: it has given none; it does again once all is taken.
    fn take_frames(&mut self, interface: u64, info: &DeviceInfo, now: u64, mut is_silent: bool) -> Option<u32> {
        let largest = network::with(interface, |card| card.longest_frame()).unwrap_or_default();
        let most = cost::FRAME_MOST + (largest / cost::FRAME_BYTES_PER_UNIT) as u32;
        let mut frames = 0;
        let all = loop {
            if frames == FRAMES || !self.has_room_for(most) {
                break false;
            }
            let take = |card: &mut Network| card.receive(now, |frame| self.receive(frame));
            let Some(handed) = network::with(interface, take).flatten() else {
                if !is_silent {
                    break true;
                }
                // What came before it gives interrupts again is looked for after that.
                network::with(interface, |card| card.suppress_interrupts(false));
                is_silent = false;
                continue;
            };
            self.spend(cost::FRAME);
            exposed::add(&info.errors, u64::from(!handed));
            frames += 1;
        };
        network::with(interface, |card| {
            if !all {
                card.suppress_interrupts(true);
            }
            card.notify_buffers();
        });
        all.then_some(frames)
    }

    /// Reports the transmissions that have ended; false: there may be more.
    pub(crate) fn reap_card(&mut self, interface: u64, info: &DeviceInfo) -> bool {
        loop {
            let look = |card: &mut Network| (card.state(), card.largest());
            let Some((state, parts)) = network::with(interface, look) else { return true };
            let ends = cost::SENT + parts as u32 * (cost::UNPIN + cost::PAGE_GIVE_UP);
            let step = if state == State::Resetting { ends.max(cost::CARD_ANEW) } else { ends };
            if !self.has_room_for(step) {
                return false;
            }
            let finish = |card: &mut Network| card.finish(clock::now(), |pin| self.unpin(pin));
            let Some(sent) = network::with(interface, finish).flatten() else {
                self.spend(if state == State::Resetting { cost::CARD_ANEW } else { 0 });
                return true;
            };
            self.spend(cost::SENT);
            exposed::add(&info.completed, 1);
            exposed::add(&info.errors, u64::from(!sent.done));
            self.sent(interface, sent);
        }
    }
}
