//! The virtio console (virtio 1.2, section 5.3): the byte stream under the host channel.
//!
//! It uses port 1 where the machine has one (QEMU's `virtserialport,nr=1`, which loses nothing), else port 0 (QEMU's
//! `virtconsole`, which drops output while its reader is slow). Bounded and non-blocking: nothing is sent that does
//! not fit. The driver resets a device that breaks the rules of its queues, and starts it anew, which loses what was
//! on its way. After [`RESETS`] such events it leaves the device alone (FAULTS row 75).

use crate::byte_stream::ByteStream;
use crate::port_control::{PortControl, queue_of};
use machine::boot::Boot;
use machine::boot_memory::BootMemory;
use machine::clock;
use machine::lock::TurnLock;
use machine::virtio::{Device, DeviceError, Kind};
use machine::virtqueue::Broken;

/// Feature: several ports, and queues to control them.
const SEVERAL_PORTS: u64 = 1 << 1;
/// How often a device may break the rules.
pub const RESETS: u64 = 8;
/// Nanoseconds that [`drain`] waits at most, that the device has for telling its ports at boot, and after a reset.
const DRAIN: u64 = 2_000_000_000;
const PATIENCE_AT_BOOT: u64 = 5_000_000_000;
const PATIENCE_AFTER_RESET: u64 = 10_000;

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Times the device broke the rules.
    pub resets: u64,
}

/// The device, its control queues if it has several ports, and the port in use: its number is that of `streams`.
#[derive(Debug)]
struct Console {
    device: Device,
    control: Option<PortControl>,
    streams: [Option<ByteStream>; 2],
    port: usize,
    counters: Counters,
}

static CONSOLE: TurnLock<Option<Console>> = TurnLock::new(None);

/// Takes the first console of the machine; false if there is none, or it cannot be used.
pub fn start(boot: &mut Boot) -> bool {
    let Some(device) = boot.devices.take(Kind::Console) else { return false };
    let mut place = CONSOLE.lock();
    // It is made where it stays, piece by piece: it is larger than what a stack should hold twice.
    let console =
        place.insert(Console { device, control: None, streams: [None, None], port: 0, counters: Counters::default() });
    let started = console.begin(boot);
    if let Err(error) = started {
        *place = None;
        machine::log!("the virtio console cannot be used: {error:?}");
    }
    started.is_ok()
}

/// Sees what the device has done. Called on its interrupt and before looking for input or room.
pub fn poll() {
    with(Console::poll);
}

/// Bytes that [`send`] would take now.
pub fn room() -> usize {
    with(|console| if console.is_broken() { 0 } else { console.parts().1.room() }).unwrap_or(0)
}

/// Sends as many of the bytes as there is room for; returns how many.
pub fn send(bytes: &[u8]) -> usize {
    with(|console| console.send(bytes)).unwrap_or(0)
}

/// Takes bytes that have arrived; returns how many.
pub fn receive(bytes: &mut [u8]) -> usize {
    let take = |console: &mut Console| {
        let (device, stream) = console.parts();
        stream.take(device, bytes)
    };
    with(take).unwrap_or(0)
}

/// What has happened so far.
pub fn counters() -> Counters {
    with(|console| console.counters).unwrap_or_default()
}

/// Waits until the device has taken all output, but not for ever. Only before the machine stops.
pub fn drain() {
    let deadline = clock::now() + DRAIN;
    let pending = || {
        with(|console| {
            console.poll();
            !console.is_broken() && !console.parts().1.is_drained()
        })
    };
    while pending() == Some(true) && clock::now() < deadline {
        core::hint::spin_loop();
    }
}

fn with<T>(action: impl FnOnce(&mut Console) -> T) -> Option<T> {
    CONSOLE.lock().as_mut().map(action)
}

impl Console {
    /// Makes the queues, and lets the device go.
    fn begin(&mut self, boot: &mut Boot) -> Result<(), DeviceError> {
        let features = self.device.start(SEVERAL_PORTS)?;
        let mut memory = boot.memory();
        self.make_stream(0, &mut memory)?;
        if features & SEVERAL_PORTS != 0 {
            self.control = Some(PortControl::new(&mut self.device, &mut memory)?);
            // A device with a single port has no queues for a second.
            let _ = self.make_stream(1, &mut memory);
        }
        self.go(PATIENCE_AT_BOOT)
    }

    #[inline(never)]
    fn make_stream(&mut self, port: u32, memory: &mut BootMemory) -> Result<(), DeviceError> {
        self.streams[port as usize] = Some(ByteStream::new(&mut self.device, queue_of(port), memory)?);
        Ok(())
    }

    /// Lets the device go, and opens the port.
    fn go(&mut self, patience: u64) -> Result<(), DeviceError> {
        self.device.go();
        if let Some(control) = &mut self.control {
            self.port = control.find_port(&self.device, patience)? as usize;
        }
        let stream = self.streams[self.port].as_mut().ok_or(DeviceError::Queue)?;
        stream.open(&self.device);
        match &mut self.control {
            Some(control) => control.open(&self.device, self.port as u32),
            None => Ok(()),
        }
    }

    /// The device and the stream in use.
    fn parts(&mut self) -> (&Device, &mut ByteStream) {
        let stream = self.streams[self.port].as_mut().expect("the port in use has a stream");
        (&self.device, stream)
    }

    fn is_broken(&self) -> bool {
        self.counters.resets > RESETS
    }

    fn poll(&mut self) {
        if self.is_broken() {
            return;
        }
        self.device.acknowledge_interrupt();
        match self.collect() {
            Ok(arrived) => self.counters.received += arrived,
            Err(Broken) => self.start_anew(),
        }
    }

    fn collect(&mut self) -> Result<u64, Broken> {
        if let Some(control) = &mut self.control {
            control.collect(&self.device)?;
        }
        self.parts().1.collect()
    }

    fn start_anew(&mut self) {
        self.counters.resets += 1;
        if self.is_broken() || self.restart().is_err() {
            self.counters.resets = RESETS + 1;
            // Whatever it answers: nothing more can be done.
            let _ = self.device.reset();
        }
    }

    fn restart(&mut self) -> Result<(), DeviceError> {
        self.device.start(SEVERAL_PORTS)?;
        if let Some(control) = &mut self.control {
            control.remake(&mut self.device)?;
        }
        for stream in self.streams.iter_mut().flatten() {
            stream.remake(&mut self.device)?;
        }
        let port = self.port;
        self.go(PATIENCE_AFTER_RESET)?;
        if self.port == port { Ok(()) } else { Err(DeviceError::Silent) }
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        if self.is_broken() {
            return 0;
        }
        let (device, stream) = self.parts();
        let sent = stream.send(device, bytes);
        self.counters.sent += sent as u64;
        sent
    }
}
