//! A stream of bytes each way over two virtqueues: input waits in eight pages, output in a ring of eight.

use machine::boot_memory::BootMemory;
use machine::dma::{DeviceBuffer, Direction};
use machine::virtio::{Device, DeviceError};
use machine::virtqueue::{Broken, ENTRIES, Slot, Virtqueue};

const PAGE: usize = 4096;
/// Pages for each direction.
const PAGES: usize = 8;
const OUTPUT: u64 = (PAGES * PAGE) as u64;

/// The records of a queue's descriptors.
pub(crate) const RECORDS: [Slot; ENTRIES] = [const { Slot::EMPTY }; ENTRIES];

/// A page of input that is not all read yet.
#[derive(Clone, Copy, Debug, Default)]
struct Filled {
    page: usize,
    start: usize,
    end: usize,
}

/// Both directions.
#[derive(Debug)]
pub(crate) struct ByteStream {
    /// Numbers of the two queues.
    receive_index: u16,
    transmit_index: u16,
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
}

impl ByteStream {
    /// Makes the queues; `receive_index` is followed by the other direction's.
    pub(crate) fn new(device: &mut Device, receive_index: u16, memory: &mut BootMemory) -> Result<Self, DeviceError> {
        let transmit_index = receive_index + 1;
        let receive = device.make_queue(receive_index, memory, RECORDS)?;
        let transmit = device.make_queue(transmit_index, memory, RECORDS)?;
        let mut buffer = || DeviceBuffer::allocate(memory, PAGES as u64).ok_or(DeviceError::NoMemory);
        let (input, output) = (buffer()?, buffer()?);
        let filled = [Filled::default(); PAGES];
        let stream = Self {
            receive_index,
            transmit_index,
            receive,
            transmit,
            input,
            output,
            filled,
            filled_count: 0,
            put: 0,
            taken: 0,
        };
        if stream.receive.room() < PAGES { Err(DeviceError::Queue) } else { Ok(stream) }
    }

    /// Makes the queues anew after a reset; what was on its way is lost.
    pub(crate) fn remake(&mut self, device: &mut Device) -> Result<(), DeviceError> {
        device.remake_queue(self.receive_index, &mut self.receive)?;
        device.remake_queue(self.transmit_index, &mut self.transmit)?;
        (self.filled_count, self.put, self.taken) = (0, 0, 0);
        Ok(())
    }

    /// Gives the device all pages for input, once it goes.
    pub(crate) fn open(&mut self, device: &Device) {
        (0..PAGES).for_each(|page| self.offer_page(page));
        device.notify(self.receive_index);
    }

    fn offer_page(&mut self, page: usize) {
        let segment = self.input.segment(page * PAGE, PAGE, Direction::FromDevice);
        let offered = self.receive.offer(page as u64, &[segment]);
        assert!(offered, "the receive queue has an entry for each page");
    }

    /// Takes back what the device is done with, so much at once as it can hold; how many bytes arrived.
    pub(crate) fn collect(&mut self) -> Result<u64, Broken> {
        let mut arrived = 0;
        for _ in 0..PAGES {
            let Some(done) = self.receive.take(drop)? else { break };
            let page = done.token as usize;
            if done.length == 0 {
                self.offer_page(page);
                continue;
            }
            self.filled[self.filled_count] = Filled { page, start: 0, end: done.length as usize };
            self.filled_count += 1;
            arrived += u64::from(done.length);
        }
        for _ in 0..ENTRIES {
            let Some(done) = self.transmit.take(drop)? else { break };
            self.taken = self.taken.max(done.token);
        }
        Ok(arrived)
    }

    /// Bytes of output that there is room for. A run that wraps around the ring takes two descriptors.
    pub(crate) fn room(&self) -> usize {
        if self.transmit.room() < 2 { 0 } else { (OUTPUT - (self.put - self.taken)) as usize }
    }

    /// Whether the device has taken all output.
    pub(crate) fn is_drained(&self) -> bool {
        self.put == self.taken
    }

    /// Sends as much as there is room for; how much.
    pub(crate) fn send(&mut self, device: &Device, bytes: &[u8]) -> usize {
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
        self.put += length as u64;
        let offered = self.transmit.offer(self.put, if second.is_empty() { &segments[..1] } else { &segments });
        assert!(offered, "there was room for two descriptors");
        device.notify(self.transmit_index);
        length
    }

    /// Takes what has arrived; how much.
    pub(crate) fn take(&mut self, device: &Device, bytes: &mut [u8]) -> usize {
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
                device.notify(self.receive_index);
            }
        }
        done
    }
}
