//! Devices: whose interrupt it is, what the device has done since, and the event bits that are bound to it.
//!
//! A vector belongs to one device. Its interrupt makes the driver look, and raises the bound bits where it found news.
//! The exposed record of a device is the state of its binding.
//!
//! What a device has beyond one entry's work is put off: an interrupt of the CPU to itself begins the next entry. It
//! comes after those of all devices, and devices that were put off take turns.

use crate::card;
use crate::channel;
use crate::cost;
use crate::kernel::{Kernel, Locked, Outcome, lock, refuse};
use abi::capability::{Capability, DEVICE, Rights};
use abi::device::{DeviceInfo, State, kind};
use abi::limits::DEVICES;
use abi::{EnvironmentId, Error, KeyIndex, PageNumber};
use core::sync::atomic::{AtomicU64, Ordering};
use driver::{disk, network};
use machine::boot::Boot;
use machine::device_discovery::number_of;
use machine::virtio::Kind;
use machine::{apic, clock, entry, exposed};

/// Devices that were put off, as bits, and the one that had its turn last. Both change under the kernel's lock only.
static PUT_OFF: AtomicU64 = AtomicU64::new(0);
static TURN: AtomicU64 = AtomicU64::new(0);

const _: () = assert!(DEVICES < 64);

/// Fills the records of the devices that were found.
pub(crate) fn expose(boot: &Boot) {
    let mut counts = [0; kind::NETWORK as usize + 1];
    // Interface 0 is the machine itself.
    counts[kind::NETWORK as usize] = 1;
    for (info, found) in exposed::devices().iter().zip(boot.devices.kinds()) {
        let kind = match found {
            Kind::Console => kind::CHANNEL,
            Kind::Block => kind::DISK,
            Kind::Entropy => kind::ENTROPY,
            Kind::Network => kind::NETWORK,
        };
        let number = &mut counts[kind as usize];
        info.number.store(*number, Ordering::Relaxed);
        *number += 1;
        if kind == kind::CHANNEL && channel::present() {
            info.queues.store(1, Ordering::Relaxed);
            info.state.store(State::Working as u64, Ordering::Relaxed);
        }
        info.kind.store(kind, Ordering::Release);
    }
    crate::disk::expose();
    card::expose();
}

/// The record of a device, if there is such a device.
pub(crate) fn record(device: u64) -> Option<&'static DeviceInfo> {
    let info = exposed::devices().get(usize::try_from(device).ok()?)?;
    (info.kind.load(Ordering::Relaxed) != kind::NONE).then_some(info)
}

/// The name of a device.
pub(crate) fn name(info: &DeviceInfo) -> Capability {
    capability::named([DEVICE, info.kind.load(Ordering::Relaxed), info.number.load(Ordering::Relaxed)])
}

/// A device has more than this entry takes: the rest has its turn in a later one, on this CPU.
pub(crate) fn put_off(device: usize) {
    PUT_OFF.fetch_or(1 << device, Ordering::Relaxed);
    apic::send(entry::cpu(), apic::REST_VECTOR);
}

/// A device that was put off is not any more; whether it was.
pub(crate) fn take_up(device: usize) -> bool {
    PUT_OFF.fetch_and(!(1 << device), Ordering::Relaxed) & 1 << device != 0
}

/// The device that was put off and whose turn it is.
fn next_turn() -> Option<usize> {
    let waiting = PUT_OFF.load(Ordering::Relaxed);
    let later = waiting & (u64::MAX << 1 << TURN.load(Ordering::Relaxed));
    let next = if later != 0 { later } else { waiting }.trailing_zeros();
    TURN.store(u64::from(next % 64), Ordering::Relaxed);
    (waiting != 0).then_some(next as usize)
}

/// A device that was put off has its turn.
fn take_turn(kernel: &mut Kernel) {
    if let Some(device) = next_turn() {
        attend(kernel, device);
    }
    if PUT_OFF.load(Ordering::Relaxed) != 0 {
        apic::send(entry::cpu(), apic::REST_VECTOR);
    }
}

/// A device interrupted, or what was put off has its turn.
pub(crate) fn interrupted(kernel: &mut Kernel, vector: u64) {
    match number_of(vector) {
        Some(device) => attend(kernel, device),
        None if vector == u64::from(apic::REST_VECTOR) => take_turn(kernel),
        None => {}
    }
}

/// Takes what a device has brought and done.
fn attend(kernel: &mut Kernel, device: usize) {
    let info = &exposed::devices()[device];
    exposed::add(&info.interrupts, 1);
    match info.kind.load(Ordering::Relaxed) {
        kind::CHANNEL => {
            if channel::poll(kernel) {
                kernel.raise_bound(info);
            }
        }
        kind::DISK => {
            take_up(device);
            kernel.finish_requests(device);
        }
        kind::NETWORK => kernel.attend_card(device),
        _ => {}
    }
}

/// When some device must be looked at; never: `u64::MAX`.
pub(crate) fn deadline() -> u64 {
    disk::deadline().min(network::deadline())
}

/// Has the clock interrupt this CPU at a time, or when a device must be looked at before it.
pub(crate) fn set_timer(time: u64) {
    clock::set_timer(time.min(deadline()));
}

/// The clock interrupted: a device may have had its time.
pub(crate) fn check_time(kernel: &mut Kernel) {
    let now = clock::now();
    if now >= disk::deadline() {
        kernel.spend(cost::DISK_REQUESTS * disk::count() as u32);
        disk::check_time(now);
        kernel.finish_all_requests();
    }
    if now >= network::deadline() {
        kernel.spend(cost::DISK_REQUESTS * network::count() as u32);
        network::check_time(now);
        kernel.attend_all_cards();
    }
}

/// Resets the disk or the card whose turn it is, if it has had a page for so long.
pub(crate) fn give_up_on(turn: usize, page: PageNumber, now: u64, patience: u64) {
    let (disks, cards) = (disk::count(), network::count());
    match turn % (disks + cards).max(1) {
        number if number < disks => disk::give_up_on(number, page, now, patience),
        number => {
            network::with((number - disks) as u64 + 1, |card| card.give_up_on(page, now, patience));
        }
    }
}

/// The same on an idle CPU, which holds no lock.
pub(crate) fn check_time_while_idle() {
    if clock::now() >= deadline() {
        let mut kernel: Locked = lock();
        check_time(&mut kernel);
    }
}

impl Kernel {
    /// Binds the interrupt of a device (see `abi::syscall`).
    pub(crate) fn bind_device(
        &mut self,
        key: KeyIndex,
        device: u64,
        queue: u64,
        environment: EnvironmentId,
        bits: u64,
    ) -> Outcome<()> {
        self.key(key)?;
        let Some(info) = record(device) else { return refuse(Error::Absent, 0) };
        self.require(key, &name(info), Rights::OWN)?;
        if queue >= info.queues.load(Ordering::Relaxed) {
            return refuse(Error::BadArgument, 2);
        }
        if environment != EnvironmentId::NONE {
            let target = self.living(environment)?;
            let accepted = self.context_of(target).private_words().events_accepted.load(Ordering::Relaxed);
            if target != self.caller() && bits & !accepted != 0 {
                return refuse(Error::NotPermitted, accepted);
            }
        }
        let is_none = environment == EnvironmentId::NONE || bits == 0;
        let (bound, bits) = if is_none { (0, 0) } else { (environment.0, bits) };
        info.bits.store(bits, Ordering::Relaxed);
        info.bound.store(bound, Ordering::Release);
        Ok(())
    }

    /// Raises the bits that are bound to a device. A binding ends with its environment.
    pub(crate) fn raise_bound(&mut self, info: &DeviceInfo) {
        let bound = EnvironmentId(info.bound.load(Ordering::Relaxed));
        match self.living(bound) {
            Ok(target) => self.raise(target, info.bits.load(Ordering::Relaxed)),
            Err(_) => info.bound.store(0, Ordering::Release),
        }
    }
}
