//! Ports of the wire: Unix sockets to which machines connect, and taps of the host. On a socket a frame goes with its
//! length before it, as in QEMU's `-netdev stream`.
//!
//! A port has two threads. The one that reads waits while the wire is behind. The one that writes has a queue of
//! [`QUEUE`] frames: what comes while it is full is lost, as in a switch, so that no machine holds up another.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use tun_tap::{Iface, Mode};

use super::switch::PortNumber;

/// Frames that wait for a machine.
const QUEUE: usize = 512;
/// Bytes of the longest frame: QEMU sends none that is longer.
const LONGEST: usize = 68 << 10;

/// What happens on ports.
#[derive(Debug)]
pub enum Event {
    Joined(PortNumber, Port),
    Frame(PortNumber, Vec<u8>),
    /// The machine is gone, or sent what is no frame.
    Left(PortNumber, Option<String>),
}

/// The side of a port that sends.
#[derive(Debug)]
pub struct Port {
    queue: SyncSender<Vec<u8>>,
    /// That of a machine; a tap has none.
    stream: Option<UnixStream>,
}

impl Port {
    /// Whether a machine is joined there, and no tap.
    pub fn has_machine(&self) -> bool {
        self.stream.is_some()
    }

    /// Sends a frame; false: the queue is full, and the frame is lost.
    pub fn send(&self, frame: Vec<u8>) -> bool {
        !matches!(self.queue.try_send(frame), Err(TrySendError::Full(_)))
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.stream.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }
}

/// Takes connections for ever; the first port has this number, those after it the next ones.
pub fn accept(listener: UnixListener, first: PortNumber, events: SyncSender<Event>) {
    thread::spawn(move || {
        for (number, stream) in (first..).zip(listener.incoming()) {
            let taken = stream.and_then(|stream| open(number, stream, &events));
            if taken.is_err() {
                return;
            }
        }
    });
}

/// Makes a connection a port.
///
/// # Errors
/// When its socket cannot be shared between threads, or the wire is gone.
pub fn open(number: PortNumber, stream: UnixStream, events: &SyncSender<Event>) -> io::Result<()> {
    let (reader, writer) = (stream.try_clone()?, stream.try_clone()?);
    let (queue, frames) = sync_channel(QUEUE);
    join(number, Port { queue, stream: Some(stream) }, events)?;
    thread::spawn(move || write(writer, &frames));
    let events = events.clone();
    thread::spawn(move || read(number, reader, &events));
    Ok(())
}

/// Makes a tap a port.
///
/// # Errors
/// When there is no such tap, it is in use, the caller has no right to it, or the wire is gone.
pub fn open_tap(number: PortNumber, name: &str, events: &SyncSender<Event>) -> io::Result<()> {
    let tap = Arc::new(Iface::without_packet_info(name, Mode::Tap)?);
    let (queue, frames) = sync_channel::<Vec<u8>>(QUEUE);
    join(number, Port { queue, stream: None }, events)?;
    let writer = Arc::clone(&tap);
    // A tap that is down loses frames.
    thread::spawn(move || frames.iter().for_each(|frame| drop(writer.send(&frame))));
    let events = events.clone();
    thread::spawn(move || {
        let mut frame = vec![0; LONGEST];
        while let Ok(length) = tap.recv(&mut frame) {
            if events.send(Event::Frame(number, frame[..length].to_vec())).is_err() {
                return;
            }
        }
        let _ = events.send(Event::Left(number, None));
    });
    Ok(())
}

fn join(number: PortNumber, port: Port, events: &SyncSender<Event>) -> io::Result<()> {
    events.send(Event::Joined(number, port)).map_err(|_| io::ErrorKind::BrokenPipe.into())
}

fn write(mut stream: UnixStream, frames: &Receiver<Vec<u8>>) {
    while let Ok(frame) = frames.recv() {
        let whole = [&(frame.len() as u32).to_be_bytes()[..], &frame].concat();
        if stream.write_all(&whole).is_err() {
            return;
        }
    }
}

fn read(number: PortNumber, mut stream: UnixStream, events: &SyncSender<Event>) {
    let complaint = loop {
        match next(&mut stream) {
            Ok(Some(frame)) => {
                if events.send(Event::Frame(number, frame)).is_err() {
                    return;
                }
            }
            Ok(None) => break None,
            Err(complaint) => break Some(complaint),
        }
    };
    // Without the wire there is no reader of this either.
    let _ = events.send(Event::Left(number, complaint));
}

/// The next frame; nothing at the end.
fn next(stream: &mut impl Read) -> Result<Option<Vec<u8>>, String> {
    let mut length = [0; 4];
    if stream.read_exact(&mut length).is_err() {
        return Ok(None);
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > LONGEST {
        return Err(format!("it sent a frame of {length} bytes; it is no network card of QEMU"));
    }
    let mut frame = vec![0; length];
    Ok(stream.read_exact(&mut frame).is_ok().then_some(frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_a_length_and_an_end() {
        let mut bytes = &b"\0\0\0\x03abc\0\0\0\x01d\0\0\0\x05cut"[..];
        assert_eq!(next(&mut bytes), Ok(Some(b"abc".to_vec())));
        assert_eq!(next(&mut bytes), Ok(Some(b"d".to_vec())));
        assert_eq!(next(&mut bytes), Ok(None));
        assert!(next(&mut &b"GET / HTTP/1.1\r\n"[..]).unwrap_err().contains("no network card"));
    }

    #[test]
    fn a_port_carries_frames_both_ways_and_loses_what_does_not_fit() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let (events, heard) = sync_channel(4);
        open(7, near, &events).unwrap();
        let Ok(Event::Joined(7, port)) = heard.recv() else { panic!("it joins first") };
        far.write_all(b"\0\0\0\x02hi").unwrap();
        assert!(matches!(heard.recv(), Ok(Event::Frame(7, frame)) if frame == b"hi"));
        assert!(port.send(b"yes".to_vec()));
        let mut answer = [0; 7];
        far.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"\0\0\0\x03yes");
        let sent = (0..100_000).take_while(|_| port.send(vec![0; 2_000])).count();
        assert!((QUEUE..100_000).contains(&sent), "a machine that reads nothing holds nothing up: {sent}");
        drop(port);
        assert!(matches!(heard.recv(), Ok(Event::Left(7, None))));
    }
}
