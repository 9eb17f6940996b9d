//! The control queues of a virtio console with several ports (virtio 1.2, section 5.3.6): which ports there are, and
//! opening the one that the host channel uses. What else the device says is received and forgotten.

use crate::byte_stream::RECORDS;
use machine::boot_memory::BootMemory;
use machine::clock;
use machine::dma::{DeviceBuffer, Direction};
use machine::virtio::{Device, DeviceError};
use machine::virtqueue::{Broken, Virtqueue};

const RECEIVE: u16 = 2;
const TRANSMIT: u16 = 3;
/// Highest port that can be used, because of the number of queues.
const LAST_PORT: u32 = 1;

const DEVICE_READY: u16 = 0;
const PORT_ADD: u16 = 1;
const PORT_READY: u16 = 3;
const PORT_OPEN: u16 = 6;

/// A message: port, event, value.
const MESSAGE: usize = 8;
/// Room for a message and a port's name; what is longer is cut by the device.
const SLOT: usize = 128;
const SLOTS: usize = 16;
/// Where messages to the device stand, in the same page.
const OUTPUT: usize = SLOT * SLOTS;

/// Number of the receive queue of a port; its transmit queue is the next.
pub(crate) const fn queue_of(port: u32) -> u16 {
    if port == 0 { 0 } else { port as u16 * 2 + 2 }
}

/// The two control queues.
#[derive(Debug)]
pub(crate) struct PortControl {
    receive: Virtqueue,
    transmit: Virtqueue,
    page: DeviceBuffer,
    /// Messages ever sent; each has a place of its own.
    sent: usize,
}

impl PortControl {
    /// Makes the queues.
    pub(crate) fn new(device: &mut Device, memory: &mut BootMemory) -> Result<Self, DeviceError> {
        let receive = device.make_queue(RECEIVE, memory, RECORDS)?;
        let transmit = device.make_queue(TRANSMIT, memory, RECORDS)?;
        let page = DeviceBuffer::allocate(memory, 1).ok_or(DeviceError::NoMemory)?;
        let control = Self { receive, transmit, page, sent: 0 };
        if control.receive.room() < SLOTS { Err(DeviceError::Queue) } else { Ok(control) }
    }

    /// Makes the queues anew after a reset.
    pub(crate) fn remake(&mut self, device: &mut Device) -> Result<(), DeviceError> {
        self.sent = 0;
        device.remake_queue(RECEIVE, &mut self.receive)?;
        device.remake_queue(TRANSMIT, &mut self.transmit)
    }

    /// Asks which ports there are; the one to use. A port of its own is better than port 0, which is a console: QEMU
    /// drops output to a console when its reader is slow.
    pub(crate) fn find_port(&mut self, device: &Device, patience: u64) -> Result<u32, DeviceError> {
        (0..SLOTS).for_each(|slot| self.offer(slot));
        device.notify(RECEIVE);
        self.send(device, 0, DEVICE_READY)?;
        let deadline = clock::now() + patience;
        let mut found = None;
        // The device tells of all ports at once.
        while found.is_none() && clock::now() < deadline {
            for _ in 0..SLOTS {
                let next = self.receive(device).map_err(|Broken| DeviceError::Queue)?;
                let Some((port, event)) = next else { break };
                if event == PORT_ADD && port <= LAST_PORT {
                    found = found.max(Some(port));
                }
            }
            core::hint::spin_loop();
        }
        found.ok_or(DeviceError::Silent)
    }

    /// Tells the device that a port is in use, so that it passes bytes on.
    pub(crate) fn open(&mut self, device: &Device, port: u32) -> Result<(), DeviceError> {
        self.send(device, port, PORT_READY)?;
        self.send(device, port, PORT_OPEN)
    }

    /// Forgets what the device has said since, a few messages at a time.
    pub(crate) fn collect(&mut self, device: &Device) -> Result<(), Broken> {
        for _ in 0..SLOTS {
            let received = self.receive(device)?;
            let sent = self.transmit.take(drop)?;
            if received.is_none() && sent.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn offer(&mut self, slot: usize) {
        let offered = self.receive.offer(slot as u64, &[self.page.segment(slot * SLOT, SLOT, Direction::FromDevice)]);
        assert!(offered, "the control queue has an entry for each slot");
    }

    /// Port and event of the next message.
    fn receive(&mut self, device: &Device) -> Result<Option<(u32, u16)>, Broken> {
        let Some(done) = self.receive.take(drop)? else { return Ok(None) };
        let slot = done.token as usize;
        let mut message = [0; MESSAGE];
        self.page.read(slot * SLOT, &mut message);
        self.offer(slot);
        device.notify(RECEIVE);
        if (done.length as usize) < MESSAGE {
            return Err(Broken);
        }
        let [port @ .., event_low, event_high, _, _] = message;
        Ok(Some((u32::from_le_bytes(port), u16::from_le_bytes([event_low, event_high]))))
    }

    /// Sends a message with the value 1.
    fn send(&mut self, device: &Device, port: u32, event: u16) -> Result<(), DeviceError> {
        let place = OUTPUT + self.sent % SLOTS * MESSAGE;
        self.sent += 1;
        let mut message = [0; MESSAGE];
        message[..4].copy_from_slice(&port.to_le_bytes());
        message[4..6].copy_from_slice(&event.to_le_bytes());
        message[6] = 1;
        self.page.write(place, &message);
        let offered = self.transmit.offer(0, &[self.page.segment(place, MESSAGE, Direction::ToDevice)]);
        device.notify(TRANSMIT);
        if offered { Ok(()) } else { Err(DeviceError::Queue) }
    }
}
