//! The virtio console (virtio 1.2, section 5.3): the byte stream under the host channel. One port, no control queues.
//!
//! Bounded and non-blocking: input waits in eight pages, output in a ring of eight. Nothing is sent that does not fit.
//! A device that breaks the rules of its queues is reset and started anew, which loses what was on its way; after
//! [`RESETS`] such events it is left alone (FAULTS row 75).

use machine::boot::Boot;
use machine::clock;
use machine::dma::{DeviceBuffer, Direction};
use machine::lock::TicketLock;
use machine::virtio::{Device, DeviceError, Kind};
use machine::virtqueue::{Broken, Virtqueue};

const RECEIVE: u16 = 0;
const TRANSMIT: u16 = 1;
const PAGE: usize = 4096;
/// Pages for each direction.
const PAGES: usize = 8;
const OUTPUT: u64 = (PAGES * PAGE) as u64;
/// How often a device may break the rules.
pub const RESETS: u64 = 8;
/// Nanoseconds that [`drain`] waits at most.
const DRAIN: u64 = 2_000_000_000;

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

/// A page of input that is not all read yet.
#[derive(Clone, Copy, Debug, Default)]
struct Filled {
    page: usize,
    start: usize,
    end: usize,
}

/// The device and its buffers.
#[derive(Debug)]
struct Console {
    device: Device,
    receive: Virtqueue,
    transmit: Virtqueue,
    input: DeviceBuffer,
    output: DeviceBuffer,
    /// Pages of input in the order of arrival.
    filled: [Filled; PAGES],
    filled_count: usize,
    /// Bytes ever put into the output ring, and ever taken by the device.
    put: u64,
    taken: u64,
    counters: Counters,
}

static CONSOLE: TicketLock<Option<Console>> = TicketLock::new(None);

/// Takes the first console of the machine; false if there is none, or it cannot be used.
pub fn start(boot: &mut Boot) -> bool {
    let Some(device) = boot.devices.take(Kind::Console) else { return false };
    match Console::new(device, boot) {
        Ok(console) => {
            *CONSOLE.lock() = Some(console);
            true
        }
        Err(error) => {
            machine::log!("the virtio console cannot be used: {error:?}");
            false
        }
    }
}

/// Sees what the device has done. Called on its interrupt and before looking for input or room.
pub fn poll() {
    with(Console::poll);
}

/// Bytes that [`send`] would take now.
pub fn room() -> usize {
    with(|console| console.room()).unwrap_or(0)
}

/// Sends as many of the bytes as there is room for; returns how many.
pub fn send(bytes: &[u8]) -> usize {
    with(|console| console.send(bytes)).unwrap_or(0)
}

/// Takes bytes that have arrived; returns how many.
pub fn receive(bytes: &mut [u8]) -> usize {
    with(|console| console.take(bytes)).unwrap_or(0)
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
            console.put != console.taken
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
    fn new(mut device: Device, boot: &mut Boot) -> Result<Self, DeviceError> {
        device.start(0)?;
        let mut memory = boot.memory();
        let receive = device.make_queue(RECEIVE, &mut memory)?;
        let transmit = device.make_queue(TRANSMIT, &mut memory)?;
        let mut buffer = || DeviceBuffer::allocate(&mut memory, PAGES as u64).ok_or(DeviceError::NoMemory);
        let (input, output) = (buffer()?, buffer()?);
        let mut console = Self {
            device,
            receive,
            transmit,
            input,
            output,
            filled: [Filled::default(); PAGES],
            filled_count: 0,
            put: 0,
            taken: 0,
            counters: Counters::default(),
        };
        console.go();
        Ok(console)
    }

    fn go(&mut self) {
        self.device.go();
        (0..PAGES).for_each(|page| self.offer_page(page));
        self.device.notify(RECEIVE);
    }

    fn offer_page(&mut self, page: usize) {
        let segment = self.input.segment(page * PAGE, PAGE, Direction::FromDevice);
        let offered = self.receive.offer(page as u64, &[segment]);
        assert!(offered, "the receive queue has an entry for each page");
    }

    fn is_broken(&self) -> bool {
        self.counters.resets > RESETS
    }

    fn poll(&mut self) {
        if self.is_broken() {
            return;
        }
        self.device.acknowledge_interrupt();
        if self.collect().is_err() {
            self.counters.resets += 1;
            if self.is_broken() || self.restart().is_err() {
                self.counters.resets = RESETS + 1;
                // Whatever it answers: nothing more can be done.
                let _ = self.device.reset();
            }
        }
    }

    fn collect(&mut self) -> Result<(), Broken> {
        while let Some(done) = self.receive.take()? {
            let filled = Filled { page: done.token as usize, start: 0, end: done.length as usize };
            self.counters.received += u64::from(done.length);
            self.filled[self.filled_count] = filled;
            self.filled_count += 1;
        }
        while let Some(done) = self.transmit.take()? {
            self.taken = self.taken.max(done.token);
        }
        Ok(())
    }

    fn restart(&mut self) -> Result<(), DeviceError> {
        self.device.start(0)?;
        self.device.remake_queue(RECEIVE, &mut self.receive)?;
        self.device.remake_queue(TRANSMIT, &mut self.transmit)?;
        (self.filled_count, self.put, self.taken) = (0, 0, 0);
        self.go();
        Ok(())
    }

    fn room(&self) -> usize {
        // A run of bytes that wraps around the ring takes two descriptors.
        let full = self.is_broken() || self.transmit.room() < 2;
        if full { 0 } else { (OUTPUT - (self.put - self.taken)) as usize }
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        let length = bytes.len().min(self.room());
        if length == 0 {
            return 0;
        }
        let start = (self.put % OUTPUT) as usize;
        let (first, second) = bytes[..length].split_at(length.min(OUTPUT as usize - start));
        self.output.write(start, first);
        self.output.write(0, second);
        let segments = [
            self.output.segment(start, first.len(), Direction::ToDevice),
            self.output.segment(0, second.len(), Direction::ToDevice),
        ];
        let used = if second.is_empty() { &segments[..1] } else { &segments[..] };
        self.put += length as u64;
        let offered = self.transmit.offer(self.put, used);
        assert!(offered, "there was room for two descriptors");
        self.counters.sent += length as u64;
        self.device.notify(TRANSMIT);
        length
    }

    fn take(&mut self, bytes: &mut [u8]) -> usize {
        let mut done = 0;
        while self.filled_count > 0 && done < bytes.len() {
            let Filled { page, start, end } = self.filled[0];
            let length = (end - start).min(bytes.len() - done);
            self.input.read(page * PAGE + start, &mut bytes[done..done + length]);
            done += length;
            self.filled[0].start += length;
            if self.filled[0].start == end {
                self.filled.copy_within(1..self.filled_count, 0);
                self.filled_count -= 1;
                self.offer_page(page);
                self.device.notify(RECEIVE);
            }
        }
        done
    }
}
