//! Pseudo-terminals (pty(7)): the master, whose holder types and reads what the screen would get, and the way to the
//! slave.
//!
//! The server gives out the number, and keeps the slave's name below `/dev/pts` and the pages. It tells the slave
//! when no process has the master any more, and the other way round. The writer to the master runs the line
//! discipline.

use super::control;
use super::job_control;
use super::packet::event;
use super::tty_state::{self, Screen, Terminal, place};
use crate::descriptor::file_ops::FileOps;
use crate::descriptor::object::Object;
use crate::descriptor::open_file::OpenFile;
use crate::descriptor::open_node::open_absolute;
use crate::descriptor::poll_event::Event;
use crate::hw::domain::domain;
use crate::hw::usercopy;
use crate::pipe::Pipe;
use crate::server::client;
use crate::wait;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::{general as linux, ioctl};
use runtime::predicate::{Operator, Term, word};
use unix_core::terminal::termios::Modes;
use vfs::initramfs::TERMINALS;

/// Bytes that are typed at a time.
const AT_ONCE: usize = 256;

/// The master of a pseudo-terminal.
#[derive(Debug)]
pub struct Master {
    slave: Terminal,
    ring: Pipe,
    /// Node that each descriptor of the master holds.
    node: u64,
}

/// A fresh pseudo-terminal: what opening `/dev/ptmx` gives. The caller holds its node.
pub fn create() -> Result<Object> {
    let [node, slave, number] = client::files().lock().make_terminal()?;
    let master = Master::open(node, slave).inspect_err(|_| client::files().lock().hold(node, false))?;
    // Modes of a fresh one: as a terminal's, without UTF-8, which the program that displays it asks for.
    let usual = Modes::default();
    master.slave.reset(&Modes { input: usual.input & !linux::IUTF8, ..usual });
    master.slave.word(place::NUMBER).store(number, SeqCst);
    master.slave.word(place::LOCKED).store(1, SeqCst);
    Ok(Object::Other(Arc::new(master)))
}

/// The slave that lies under a node that is held, for a description of its own.
pub fn open_slave(node: u64) -> Result<Terminal> {
    let terminal = see(node, node)?;
    if terminal.word(place::LOCKED).load(Acquire) != 0 || terminal.word(place::HUNG_UP).load(Acquire) != 0 {
        forget(&terminal);
        return Err(Errno::EIO);
    }
    terminal.word(place::CLOSED).store(0, SeqCst);
    Ok(terminal)
}

/// A slave by a node that is held, its own or the master's.
pub fn see(held: u64, slave: u64) -> Result<Terminal> {
    let pages = client::files().lock().terminal(held)?;
    let (own, ring) = pages.split_at_checked(tty_state::PAGES).ok_or(Errno::EIO)?;
    let mut windows = domain().mappings.lock();
    let ring = Pipe::open(&mut windows, ring, domain().session_key)?;
    let screen = Screen::Master { ring: ring.clone(), node: slave };
    let seen = Terminal::open(&mut windows, own, domain().session_key, screen);
    seen.inspect_err(|_| windows.close(ring.window()))
}

/// Closes the windows of a terminal that this process does not have any more.
pub fn forget(terminal: &Terminal) {
    let mut windows = domain().mappings.lock();
    terminal.windows().iter().for_each(|window| windows.close(window));
}

impl Master {
    /// One whose node is held.
    pub fn open(node: u64, slave: u64) -> Result<Self> {
        let slave = see(node, slave)?;
        match slave.screen() {
            Screen::Master { ring, .. } => Ok(Self { ring: ring.clone(), slave, node }),
            Screen::Host => Err(Errno::EIO),
        }
    }

    /// Nodes of the master and of the slave.
    pub fn nodes(&self) -> [u64; 2] {
        [self.node, self.slave.node().unwrap_or_default()]
    }

    fn is_closed(&self) -> bool {
        self.slave.word(place::CLOSED).load(Acquire) != 0
    }

    fn has_bytes(&self) -> bool {
        self.ring.ring().waiting() != Ok(0)
    }

    /// Types bytes: what is echoed goes into the ring as far as it has room, and signals to the foreground group.
    fn type_bytes(&self, bytes: &[u8]) {
        let was_held = self.slave.is_held();
        let typed = self.slave.type_bytes(bytes, |screen| {
            // A ring whose words make no sense shows no echo.
            let _ = self.ring.write_bytes(screen, || false);
        });
        typed.signals.into_iter().for_each(|signal| job_control::signal_foreground(&self.slave, signal));
        if was_held != self.slave.is_held() {
            self.slave.note_held();
        }
        wait::kick_idle();
    }

    /// Whether events of packet mode wait.
    pub fn has_packet_events(&self) -> bool {
        self.slave.has_packets() && self.slave.has_events()
    }

    /// Takes what waits in the ring, behind the byte that says so in packet mode: 0 where nothing does.
    fn read_ring(&self, to: u64, count: u64) -> Result<u64> {
        let waiting = self.ring.ring().waiting()?;
        let head = u64::from(self.slave.has_packets());
        let reachable = usercopy::prepare(to, count.min(waiting + head), true)?;
        if waiting == 0 || reachable <= head {
            return Ok(0);
        }
        let done = self.ring.read(to + head, reachable - head)?;
        if done == 0 {
            return Ok(0);
        }
        usercopy::write(to, &[event::DATA][..head as usize])?;
        Ok(done + head)
    }

    fn ioctl_half(&self, request: u32, argument: u64) -> Result<()> {
        let locked = self.slave.word(place::LOCKED);
        let number = self.slave.word(place::NUMBER).load(Acquire) as u32;
        match request {
            ioctl::TIOCGPTN => usercopy::write_half(argument, number),
            ioctl::TIOCGPTLCK => usercopy::write_half(argument, locked.load(Acquire) as u32),
            ioctl::TIOCSPTLCK => usercopy::read_half(argument).map(|lock| locked.store(u64::from(lock != 0), SeqCst)),
            ioctl::TIOCGPKT => usercopy::write_half(argument, u32::from(self.slave.has_packets())),
            ioctl::TIOCPKT => usercopy::read_half(argument).map(|wanted| self.slave.set_packets(wanted != 0)),
            ioctl::TIOCGPGRP => usercopy::write_half(argument, self.slave.foreground() as u32),
            ioctl::TIOCGSID => usercopy::write_half(argument, self.slave.session() as u32),
            ioctl::TIOCSIG => match argument as u32 {
                signal @ (linux::SIGINT | linux::SIGQUIT | linux::SIGTSTP) => {
                    job_control::signal_foreground(&self.slave, signal);
                    Ok(())
                }
                _ => Err(Errno::EINVAL),
            },
            ioctl::TCFLSH if argument as u32 == linux::TCIFLUSH => {
                self.ring.drop_waiting();
                Ok(())
            }
            _ => control::ioctl(&self.slave, request, argument).map(|_| ()),
        }
    }
}

impl FileOps for Master {
    fn read(&self, description: &OpenFile, to: u64, count: u64) -> Result<u64> {
        if count == 0 {
            return Ok(0);
        }
        loop {
            if self.has_packet_events() {
                usercopy::prepare(to, 1, true)?;
                usercopy::write(to, &[self.slave.take_events()])?;
                return Ok(1);
            }
            let done = self.read_ring(to, count)?;
            if done > 0 {
                return Ok(done);
            }
            if self.is_closed() && !self.has_bytes() {
                return Err(Errno::EIO);
            }
            if description.is_nonblocking() {
                return Err(Errno::EAGAIN);
            }
            wait::wait(&self.wait_terms(Event::Readable), None)?;
        }
    }

    fn write_bytes(&self, description: &OpenFile, bytes: &[u8]) -> Result<u64> {
        let mut done = 0;
        for some in bytes.chunks(AT_ONCE) {
            while !self.is_ready(Event::Writable) {
                let waited = match description.is_nonblocking() {
                    true => Err(Errno::EAGAIN),
                    false => wait::wait(&self.wait_terms(Event::Writable), None),
                };
                match waited {
                    Err(_) if done > 0 => return Ok(done),
                    outcome => outcome?,
                };
            }
            self.type_bytes(some);
            done += some.len() as u64;
        }
        Ok(done)
    }

    fn is_ready(&self, event: Event) -> bool {
        match event {
            Event::Readable => self.has_bytes() || self.has_packet_events(),
            Event::Writable => self.slave.room() > AT_ONCE,
        }
    }

    fn wait_terms(&self, event: Event) -> Vec<Term> {
        let nonzero = |index: usize| word(self.slave.word(index), Operator::NotEqual, 0);
        match event {
            Event::Readable => {
                let packets = self.slave.has_packets().then(|| nonzero(place::EVENTS));
                [self.ring.has_bytes(), nonzero(place::CLOSED)].into_iter().chain(packets).collect()
            }
            Event::Writable => Vec::from([self.slave.room_to_type(AT_ONCE)]),
        }
    }

    fn event_sequence(&self, event: Event) -> u64 {
        match event {
            Event::Readable => {
                let events = self.slave.word(place::EVENTS).load(Acquire);
                (self.ring.ring().written << 1 | u64::from(self.is_closed())) ^ events << 56
            }
            Event::Writable => self.slave.read_count().load(Acquire),
        }
    }

    fn edge_terms(&self, event: Event) -> Vec<Term> {
        let changed = |index: usize| {
            let word_at = self.slave.word(index);
            word(word_at, Operator::NotEqual, word_at.load(Acquire))
        };
        match event {
            Event::Readable => {
                let [written, ..] = self.ring.changes(true);
                Vec::from([written, changed(place::CLOSED), changed(place::EVENTS)])
            }
            Event::Writable => Vec::from([changed(place::READ)]),
        }
    }

    fn end_terms(&self) -> Vec<Term> {
        self.edge_terms(Event::Readable)
    }

    fn is_hung_up(&self) -> bool {
        self.is_closed()
    }

    fn closed(&self, ended: bool) {
        if ended {
            self.slave.hang_up();
            job_control::master_ends(&self.slave);
        }
    }

    fn gone(&self) {
        forget(&self.slave);
    }

    fn node(&self) -> Option<u64> {
        Some(self.node)
    }

    fn status(&self) -> (u32, u64) {
        (linux::S_IFCHR | 0o666, self.node)
    }

    fn name(&self) -> String {
        String::from("/dev/ptmx")
    }

    fn waiting(&self) -> Result<u64> {
        self.ring.ring().waiting()
    }

    fn ioctl(&self, request: u32, argument: u64) -> Result<u64> {
        if request == ioctl::TIOCGPTPEER {
            let number = self.slave.word(place::NUMBER).load(Acquire);
            return open_absolute(format!("{TERMINALS}/{number}").as_bytes(), argument as u32);
        }
        self.ioctl_half(request, argument).map(|()| 0)
    }
}
