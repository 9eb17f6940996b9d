//! System V objects and POSIX queues, as the server keeps them: what strangers share by keys and names other than
//! files. The credentials of each client are here too.
//!
//! A shared segment is a file without a name, which processes map as any other; what each holds of it beyond its
//! mapping says how often it is attached. A client that has to wait is told so, and watches the notice page.

use super::dispatch::{Answer, FileServer, NOTHING};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use runtime::{EnvironmentId, exposed};
use unix_core::ipc::id_table::{PRIVATE, Table, access};
use unix_core::ipc::posix_mq::{Opening, Queues};
use unix_core::ipc::sysv_msg::{self, Message};
use unix_core::ipc::sysv_sem::{self, Change, Set, Waiter};
use unix_core::server::protocol::{ASKS_NOTICE, IpcCommand, IpcKind, Listed, Request, WINDOW_BYTES};
use vfs::handle::{Handle, node_of};
use vfs::inode::NodeId;
use vfs::mount_table::Location;
use vfs::namespace::{Fresh, FsCredentials, ROOT};

/// A shared segment.
#[derive(Clone, Debug)]
pub struct Segment {
    node: NodeId,
    bytes: u64,
    /// Seconds: last attached, last change.
    times: [u64; 2],
    /// The process that made it, and the one that attached it last.
    processes: [u64; 2],
}

/// All of them.
#[derive(Debug, Default)]
pub struct Ipc {
    segments: Table<Segment>,
    semaphores: Table<Set>,
    messages: Table<sysv_msg::Queue>,
    queues: Queues,
    /// Operations on semaphores that were carried out while they waited: number of the set, and the outcome. Each stays
    /// until its process asks, even where the set has gone.
    granted: Vec<(u64, Waiter, Result<()>)>,
}

impl Ipc {
    fn take_granted(&mut self, process: u64, number: u64, changes: &[Change]) -> Option<Result<()>> {
        let is_it = |(of, waiter, _): &(u64, Waiter, Result<()>)| {
            (*of, waiter.process, &*waiter.changes) == (number, process, changes)
        };
        let at = self.granted.iter().position(is_it)?;
        Some(self.granted.remove(at).2)
    }
}

/// Words of the structures that tell of objects, behind the permissions: `struct shmid64_ds` and so on.
const STRUCTURE_WORDS: usize = 16;
/// Words of the permissions.
const PERMISSION_WORDS: usize = 6;
/// Commands of `semctl` on one semaphore or all.
const GETPID: u64 = 11;
const GETVAL: u64 = 12;
const GETALL: u64 = 13;
const GETNCNT: u64 = 14;
const GETZCNT: u64 = 15;
const SETVAL: u64 = 16;
const SETALL: u64 = 17;

/// Bit of the mode of a segment that goes with its last attachment.
const REMOVED: u32 = 0o1000;
/// Bit of the mode of a segment that is locked in memory.
const LOCKED: u32 = 0o2000;
const WAIT: Answer = [1, 0, 0, 0, 0];

impl FileServer {
    pub(super) fn perform_on_object(
        &mut self,
        caller: u64,
        who: FsCredentials,
        operation: Request,
        [a, b, c, d, e]: [u64; 5],
    ) -> Result<Answer> {
        match operation {
            Request::SetGroups => self.set_groups(caller, a, b, c != 0),
            Request::Groups => self.groups(caller, a),
            Request::SegmentGet => self.segment_get(caller, who, a as u32, b, c as u32),
            Request::SegmentAttach => self.segment_attach(caller, who, a, b != 0),
            Request::SemaphoreGet => self.semaphore_get(who, a as u32, b, c as u32),
            Request::SemaphoreOperate => self.semaphore_operate(caller, who, a, b as usize),
            Request::SemaphoreControl => self.semaphore_control(caller, who, a, b, c, d),
            Request::SemaphoreLeave if a != 0 => self.semaphore_give_up(caller, b, c as usize),
            Request::SemaphoreLeave => {
                self.semaphore_leave(caller);
                Ok(NOTHING)
            }
            Request::MessageGet => {
                let now = self.seconds();
                let made = || Ok(sysv_msg::Queue::new(now));
                let number = self.ipc.messages.get((a as u32, b as u32), who, |_| Ok(()), made)?;
                Ok([number, 0, 0, 0, 0])
            }
            Request::MessageSend => self.message_send(caller, who, a, b as i64, c),
            Request::MessageReceive => self.message_receive(caller, who, a, (b as i64, c, d as u32)),
            Request::IpcControl => self.ipc_control(caller, who, (a, b), c),
            Request::Lines => self.lines(caller, a, b as usize),
            _ => self.perform_on_queue(caller, who, operation, [a, b, c, d, e]),
        }
    }

    fn perform_on_queue(
        &mut self,
        caller: u64,
        who: FsCredentials,
        operation: Request,
        [a, b, c, d, e]: [u64; 5],
    ) -> Result<Answer> {
        match operation {
            Request::QueueOpen => {
                let name = self.bytes(caller, e)?;
                let most = (d != 0).then_some([d & 0xffff_ffff, d >> 32]);
                let how = Opening { create: (a != 0, a == 2), wanted: b as u32, mode: c as u32, most };
                Ok([self.ipc.queues.open(&name, who, how)?, 0, 0, 0, 0])
            }
            Request::QueueClose => {
                // As on Linux, a process that closes a queue asks for no notice any more.
                let _ = self.queue_notify(caller, a, None);
                self.ipc.queues.close(a);
                Ok(NOTHING)
            }
            Request::QueueUnlink => {
                let name = self.bytes(caller, a)?;
                self.ipc.queues.unlink(&name, who).map(|()| NOTHING)
            }
            Request::QueueSend => {
                let bytes = self.bytes(caller, c)?;
                let Some(notice) = self.ipc.queues.find(a)?.send(b, bytes)? else { return Ok(WAIT) };
                self.tell_of_change();
                let [process, signal, value] = notice.unwrap_or_default();
                Ok([0, process, signal, value, 0])
            }
            Request::QueueReceive => {
                let Some((priority, bytes)) = self.ipc.queues.find(a)?.receive(b)? else { return Ok(WAIT) };
                self.tell_of_change();
                Ok([0, self.put(caller, &bytes)?, priority, 0, 0])
            }
            Request::QueueStatus => {
                let queue = self.ipc.queues.find(a)?;
                Ok([queue.most[0], queue.most[1], queue.len(), queue.bytes(), 0])
            }
            Request::QueueNotify if b == ASKS_NOTICE => {
                let (queue, notice) = (self.ipc.queues.find(a)?, Some([caller, 0, d]));
                Ok([u64::from(queue.notice == notice), u64::from(queue.used_notice == notice), 0, 0, 0])
            }
            Request::QueueNotify => self.queue_notify(caller, a, (b != 0).then_some([caller, c, d])),
            _ => Err(Errno::ENOSYS),
        }
    }

    /// One process at a time is told; who asks no more forgets only itself.
    fn queue_notify(&mut self, caller: u64, number: u64, notice: Option<[u64; 3]>) -> Result<Answer> {
        let queue = self.ipc.queues.find(number)?;
        let taken = queue.notice.filter(|[process, ..]| exposed::lives(EnvironmentId(*process)));
        match (notice, taken) {
            (Some(_), Some(_)) => return Err(Errno::EBUSY),
            (None, Some([process, ..])) if process != caller => {}
            _ => queue.notice = notice,
        }
        self.tell_of_change();
        Ok(NOTHING)
    }

    fn seconds(&self) -> u64 {
        self.tree.now / 1_000_000_000
    }

    /// Bytes that a client put into its window.
    pub(super) fn bytes(&self, caller: u64, count: u64) -> Result<Vec<u8>> {
        if count > WINDOW_BYTES {
            return Err(Errno::EINVAL);
        }
        let mut bytes = vec![0; count as usize];
        self.window(caller)?.read(0, &mut bytes)?;
        Ok(bytes)
    }

    fn segment_get(&mut self, caller: u64, who: FsCredentials, key: u32, bytes: u64, flags: u32) -> Result<Answer> {
        self.forget_left_segments();
        let (now, tree) = (self.seconds(), &mut self.tree);
        let fits = |segment: &Segment| if bytes > segment.bytes { Err(Errno::EINVAL) } else { Ok(()) };
        let number = self.ipc.segments.get((key, flags), who, fits, || {
            let pages = linux_abi::address_map::page_up(bytes).filter(|_| bytes > 0).ok_or(Errno::EINVAL)?;
            if pages / linux_abi::address_map::PAGE_SIZE > tree.store.capacity() {
                return Err(Errno::ENOMEM);
            }
            let fresh = Fresh { mode: linux::S_IFREG | 0o600, owner: who, device: (0, 0), target: b"" };
            let node = tree.create_unnamed(ROOT, fresh, false)?;
            tree.hold(node, true)?;
            tree.truncate(node, pages)?;
            Ok(Segment { node, bytes, times: [0, now], processes: [caller, 0] })
        })?;
        Ok([number, 0, 0, 0, 0])
    }

    fn segment_attach(&mut self, caller: u64, who: FsCredentials, number: u64, reads_only: bool) -> Result<Answer> {
        let now = self.seconds();
        self.forget_left_segments();
        let entry = self.ipc.segments.find(number)?;
        entry.permission.check(who, if reads_only { access::READ } else { access::READ | access::WRITE })?;
        (entry.value.times[0], entry.value.processes[1]) = (now, caller);
        let (node, bytes) = (entry.value.node, entry.value.bytes);
        let mode = if reads_only { linux::O_RDONLY } else { linux::O_RDWR };
        let handle = Handle::opened(Location::first(node), linux::S_IFREG, mode, 0);
        self.hold(caller, handle)?;
        Ok([handle.to_word(), bytes, 0, 0, 0])
    }

    /// How often a segment is attached: what each process holds of it beyond its mapping.
    fn attached(&self, node: NodeId) -> u64 {
        let alive = self.clients.iter().filter(|(number, _)| exposed::lives(EnvironmentId(**number)));
        let held = alive.flat_map(|(_, client)| client.holds.iter()).filter(|(word, _)| node_of(**word) == node);
        held.map(|(_, count)| u64::from(count.saturating_sub(1))).sum()
    }

    /// Takes a segment away: its key is free at once, its number names it as long as a process has it attached.
    fn segment_remove(&mut self, who: FsCredentials, number: u64) -> Result<()> {
        let entry = self.ipc.segments.find(number)?;
        entry.permission.check_owner(who)?;
        let node = entry.value.node;
        if entry.permission.mode & REMOVED == 0 {
            entry.permission.mode |= REMOVED;
            entry.permission.key = PRIVATE;
            self.tree.hold(node, false)?;
        }
        self.forget_left_segments();
        Ok(())
    }

    /// Frees segments that were removed and that no process has attached any more.
    fn forget_left_segments(&mut self) {
        let removed = self.ipc.segments.iter().filter(|(_, entry)| entry.permission.mode & REMOVED != 0);
        let left: Vec<u64> =
            removed.filter(|(_, entry)| self.attached(entry.value.node) == 0).map(|(number, _)| number).collect();
        for number in left {
            let _ = self.ipc.segments.remove(number);
        }
    }

    fn semaphore_get(&mut self, who: FsCredentials, key: u32, count: u64, flags: u32) -> Result<Answer> {
        let now = self.seconds();
        let fits = |set: &Set| if count > set.semaphores.len() as u64 { Err(Errno::EINVAL) } else { Ok(()) };
        let number = self.ipc.semaphores.get((key, flags), who, fits, || Set::new(count, now))?;
        Ok([number, 0, 0, 0, 0])
    }

    fn semaphore_operate(&mut self, caller: u64, who: FsCredentials, number: u64, count: usize) -> Result<Answer> {
        if count == 0 || count > sysv_sem::MOST_CHANGES {
            return Err(if count == 0 { Errno::EINVAL } else { Errno::E2BIG });
        }
        let bytes = self.bytes(caller, (count * Change::BYTES) as u64)?;
        let changes: Vec<Change> = bytes.chunks_exact(Change::BYTES).map(Change::from_bytes).collect();
        if let Some(outcome) = self.ipc.take_granted(caller, number, &changes) {
            return outcome.map(|()| NOTHING);
        }
        let now = self.seconds();
        let entry = self.ipc.semaphores.find(number)?;
        let alters = changes.iter().any(|change| change.by != 0);
        entry.permission.check(who, if alters { access::WRITE } else { access::READ })?;
        for debtor in entry.value.debtors().into_iter().filter(|debtor| !exposed::lives(EnvironmentId(*debtor))) {
            entry.value.leave(debtor, now);
        }
        if !entry.value.operate(caller, &changes, now)? {
            return Ok(WAIT);
        }
        if alters {
            self.semaphores_changed(Some(number));
        }
        Ok(NOTHING)
    }

    /// Carries out what waits for semaphores of a set, or of all, and can be done now; has the waiters look.
    fn semaphores_changed(&mut self, changed: Option<u64>) {
        let now = self.seconds();
        let lives = |process| exposed::lives(EnvironmentId(process));
        self.ipc.granted.retain(|granted| lives(granted.1.process));
        let sets =
            self.ipc.semaphores.iter_mut().filter(|(number, _)| changed.is_none_or(|changed| changed == *number));
        for (number, set) in sets {
            let granted = set.grant(now, lives);
            self.ipc.granted.extend(granted.into_iter().map(|(waiter, outcome)| (number, waiter, outcome)));
        }
        self.tell_of_change();
    }

    /// A process gives up waiting for an operation. Says whether that was carried out, which then counts.
    fn semaphore_give_up(&mut self, caller: u64, number: u64, count: usize) -> Result<Answer> {
        let bytes = self.bytes(caller, (count.min(sysv_sem::MOST_CHANGES) * Change::BYTES) as u64)?;
        let changes: Vec<Change> = bytes.chunks_exact(Change::BYTES).map(Change::from_bytes).collect();
        if let Some(outcome) = self.ipc.take_granted(caller, number, &changes) {
            return outcome.map(|()| NOTHING);
        }
        if let Ok(entry) = self.ipc.semaphores.find(number) {
            entry.value.stop_waiting(caller, &changes);
        }
        Ok(WAIT)
    }

    /// A process has ended.
    fn semaphore_leave(&mut self, caller: u64) {
        let now = self.seconds();
        self.ipc.granted.retain(|granted| granted.1.process != caller);
        if self.ipc.semaphores.iter_mut().fold(false, |any, (_, set)| set.leave(caller, now) | any) {
            self.semaphores_changed(None);
        }
    }

    fn semaphore_control(
        &mut self,
        caller: u64,
        who: FsCredentials,
        number: u64,
        place: u64,
        command: u64,
        value: u64,
    ) -> Result<Answer> {
        let now = self.seconds();
        let writes = matches!(command, SETVAL | SETALL);
        let entry = self.ipc.semaphores.find(number)?;
        entry.permission.check(who, if writes { access::WRITE } else { access::READ })?;
        let set = &mut entry.value;
        let count = set.semaphores.len();
        let one = set.semaphores.get(place as usize).copied().ok_or(Errno::EINVAL);
        let result = match command {
            GETPID => one?.process,
            GETVAL => one?.value as u64,
            GETNCNT => one.map(|_| set.waiting(place as u16, false))?,
            GETZCNT => one.map(|_| set.waiting(place as u16, true))?,
            GETALL => {
                let values: Vec<u8> = set
                    .semaphores
                    .iter()
                    .flat_map(|one| (one.value as u16).to_le_bytes())
                    .take(WINDOW_BYTES as usize)
                    .collect();
                self.put(caller, &values)?;
                count as u64
            }
            SETVAL => set.set(place, value as i32, caller, now).map(|()| 0)?,
            SETALL => {
                let bytes = self.bytes(caller, (count as u64 * 2).min(WINDOW_BYTES))?;
                let set = &mut self.ipc.semaphores.find(number)?.value;
                let values = || bytes.chunks_exact(2).map(|two| i32::from(u16::from_le_bytes([two[0], two[1]])));
                if values().any(|value| value > sysv_sem::HIGHEST) {
                    return Err(Errno::ERANGE);
                }
                (0..).zip(values()).try_for_each(|(place, value)| set.set(place, value, caller, now)).map(|()| 0)?
            }
            _ => return Err(Errno::EINVAL),
        };
        if writes {
            self.semaphores_changed(Some(number));
        }
        Ok([result, count as u64, 0, 0, 0])
    }

    fn message_send(&mut self, caller: u64, who: FsCredentials, number: u64, kind: i64, count: u64) -> Result<Answer> {
        let (bytes, now) = (self.bytes(caller, count)?, self.seconds());
        let entry = self.ipc.messages.find(number)?;
        entry.permission.check(who, access::WRITE)?;
        if !entry.value.send(Message { kind, bytes }, caller, now)? {
            return Ok(WAIT);
        }
        self.tell_of_change();
        Ok(NOTHING)
    }

    fn message_receive(
        &mut self,
        caller: u64,
        who: FsCredentials,
        number: u64,
        (kind, room, flags): (i64, u64, u32),
    ) -> Result<Answer> {
        let now = self.seconds();
        let entry = self.ipc.messages.find(number)?;
        entry.permission.check(who, access::READ)?;
        let Some(message) = entry.value.receive(kind, room, flags, (caller, now))? else { return Ok(WAIT) };
        self.tell_of_change();
        Ok([0, self.put(caller, &message.bytes)?, message.kind as u64, 0, 0])
    }

    fn ipc_control(
        &mut self,
        caller: u64,
        who: FsCredentials,
        (kind, number): (u64, u64),
        command: u64,
    ) -> Result<Answer> {
        let kind = IpcKind::from_word(kind).ok_or(Errno::EINVAL)?;
        if kind == IpcKind::Segment {
            self.forget_left_segments();
        }
        match IpcCommand::from_word(command).ok_or(Errno::EINVAL)? {
            IpcCommand::Highest => Ok(self.ipc_sums(kind)),
            command @ (IpcCommand::Lock | IpcCommand::Unlock) => {
                let permission = &mut self.ipc.segments.find(number)?.permission;
                permission.check_owner(who)?;
                let locked = if command == IpcCommand::Lock { LOCKED } else { 0 };
                permission.mode = permission.mode & !LOCKED | locked;
                Ok(NOTHING)
            }
            IpcCommand::Remove => self.ipc_remove(who, kind, number),
            IpcCommand::Set => self.ipc_set(caller, who, kind, number),
            IpcCommand::Status => self.ipc_status(caller, who, kind, number, true),
            command => {
                let number = match kind {
                    IpcKind::Segment => self.ipc.segments.at(number),
                    IpcKind::Semaphores => self.ipc.semaphores.at(number),
                    IpcKind::Messages => self.ipc.messages.at(number),
                }?;
                self.ipc_status(caller, who, kind, number, command == IpcCommand::StatusAt)
            }
        }
    }

    fn ipc_sums(&self, kind: IpcKind) -> Answer {
        let ipc = &self.ipc;
        match kind {
            IpcKind::Segment => {
                let pages = ipc
                    .segments
                    .iter()
                    .map(|(_, one)| one.value.bytes.div_ceil(linux_abi::address_map::PAGE_SIZE))
                    .sum();
                [ipc.segments.highest(), ipc.segments.iter().count() as u64, pages, 0, 0]
            }
            IpcKind::Semaphores => {
                let all = ipc.semaphores.iter().map(|(_, one)| one.value.semaphores.len() as u64).sum();
                [ipc.semaphores.highest(), ipc.semaphores.iter().count() as u64, all, 0, 0]
            }
            IpcKind::Messages => {
                let all = ipc.messages.iter().map(|(_, one)| one.value.len() as u64).sum();
                let bytes = ipc.messages.iter().map(|(_, one)| one.value.bytes()).sum();
                [ipc.messages.highest(), ipc.messages.iter().count() as u64, all, bytes, 0]
            }
        }
    }

    fn ipc_remove(&mut self, who: FsCredentials, kind: IpcKind, number: u64) -> Result<Answer> {
        match kind {
            IpcKind::Segment => self.segment_remove(who, number)?,
            IpcKind::Semaphores => {
                self.ipc.semaphores.find(number)?.permission.check_owner(who)?;
                self.ipc.semaphores.remove(number)?;
            }
            IpcKind::Messages => {
                self.ipc.messages.find(number)?.permission.check_owner(who)?;
                self.ipc.messages.remove(number)?;
            }
        }
        self.tell_of_change();
        Ok(NOTHING)
    }

    fn ipc_set(&mut self, caller: u64, who: FsCredentials, kind: IpcKind, number: u64) -> Result<Answer> {
        const LIMIT_WORD: usize = PERMISSION_WORDS + 5;
        let bytes = self.bytes(caller, (PERMISSION_WORDS + STRUCTURE_WORDS) as u64 * 8)?;
        let half = |at: usize| u32::from_le_bytes(core::array::from_fn(|byte| bytes[at + byte]));
        let (owner, mode) = (FsCredentials::new(half(4), half(8)), half(20));
        let now = self.seconds();
        match kind {
            IpcKind::Segment => self.ipc.segments.set_owner(number, who, owner, mode)?.times[1] = now,
            IpcKind::Semaphores => self.ipc.semaphores.set_owner(number, who, owner, mode)?.times[1] = now,
            IpcKind::Messages => {
                let most = u64::from_le_bytes(core::array::from_fn(|byte| bytes[LIMIT_WORD * 8 + byte]));
                if most > sysv_msg::QUEUE_BYTES && who.uid != 0 {
                    return Err(Errno::EPERM);
                }
                let queue = self.ipc.messages.set_owner(number, who, owner, mode)?;
                (queue.times[2], queue.most) = (now, most);
                self.tell_of_change();
            }
        }
        Ok(NOTHING)
    }

    /// Writes the structure that tells of an object into the window.
    fn ipc_status(
        &mut self,
        caller: u64,
        who: FsCredentials,
        kind: IpcKind,
        number: u64,
        asks: bool,
    ) -> Result<Answer> {
        let attached = match kind {
            IpcKind::Segment => self.ipc.segments.find(number).map(|entry| entry.value.node)?,
            _ => 0,
        };
        let attached = self.attached(attached);
        let (permission, words) = match kind {
            IpcKind::Segment => {
                let Segment { bytes, times, processes: [maker, last], .. } = self.ipc.segments.find(number)?.value;
                let words = [bytes, times[0], 0, times[1], maker & 0xffff_ffff | last << 32, attached];
                (self.ipc.segments.find(number)?.permission, words.to_vec())
            }
            IpcKind::Semaphores => {
                let entry = self.ipc.semaphores.find(number)?;
                let [operated, changed] = entry.value.times;
                (entry.permission, vec![operated, 0, changed, 0, entry.value.semaphores.len() as u64])
            }
            IpcKind::Messages => {
                let entry = self.ipc.messages.find(number)?;
                let (queue, [sent, received, changed]) = (&entry.value, entry.value.times);
                let processes = queue.processes[0] & 0xffff_ffff | queue.processes[1] << 32;
                let words = vec![sent, received, changed, queue.bytes(), queue.len() as u64, queue.most, processes];
                (entry.permission, words)
            }
        };
        if asks {
            permission.check(who, access::READ)?;
        }
        let mut all = permission.to_words((number >> 15) as u32).to_vec();
        all.extend(words);
        all.resize(PERMISSION_WORDS + STRUCTURE_WORDS, 0);
        let bytes: Vec<u8> = all.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(caller, &bytes)?;
        Ok([number, 0, 0, 0, 0])
    }

    /// Lines of `/proc/sysvipc/*` and of `/proc/locks`, from one on, as many as fit into the window.
    fn lines(&mut self, caller: u64, listed: u64, first: usize) -> Result<Answer> {
        let lines = match Listed::from_word(listed).ok_or(Errno::EINVAL)? {
            Listed::Segments => self.segment_lines(),
            Listed::Semaphores => self.semaphore_lines(),
            Listed::Messages => self.message_lines(),
            Listed::Sockets => self.socket_lines(),
            Listed::Locks => self.locks.lines(|node| self.tree.node(node).map_or(0, |node| node.volume)),
            Listed::Card => self.card_lines()?,
            table => self.internet_lines(table),
        };
        let mut text = String::new();
        let mut count = 0;
        for line in lines.into_iter().skip(first).take_while(|line| line.len() < WINDOW_BYTES as usize) {
            if text.len() + line.len() > WINDOW_BYTES as usize {
                break;
            }
            text.push_str(&line);
            count += 1;
        }
        Ok([self.put(caller, text.as_bytes())?, count, 0, 0, 0])
    }

    fn segment_lines(&mut self) -> Vec<String> {
        self.forget_left_segments();
        let line = |(number, entry): (u64, &unix_core::ipc::id_table::Entry<Segment>)| {
            let (own, Segment { node, bytes, times, processes }) = (entry.permission, entry.value.clone());
            let (owner, creator) = (own.owner, own.creator);
            let resident =
                self.tree.node(node).map_or(0, |_| bytes.next_multiple_of(linux_abi::address_map::PAGE_SIZE));
            format!(
                "{:>10} {number:>10}  {:>4o} {bytes:>21} {:>5} {:>5}  {:>5} {:>5} {:>5} {:>5} {:>5} {:>10} {:>10} {:>10} {resident:>21} {:>21}\n",
                own.key as i32,
                own.mode,
                processes[0],
                processes[1],
                self.attached(node),
                owner.uid,
                owner.gid,
                creator.uid,
                creator.gid,
                times[0],
                0,
                times[1],
                0,
            )
        };
        self.ipc.segments.iter().map(line).collect()
    }

    fn semaphore_lines(&self) -> Vec<String> {
        let line = |(number, entry): (u64, &unix_core::ipc::id_table::Entry<Set>)| {
            let (own, [operated, changed]) = (entry.permission, entry.value.times);
            let (owner, creator) = (own.owner, own.creator);
            format!(
                "{:>10} {number:>10}  {:>4o} {:>10} {:>5} {:>5} {:>5} {:>5} {operated:>10} {changed:>10}\n",
                own.key as i32,
                own.mode,
                entry.value.semaphores.len(),
                owner.uid,
                owner.gid,
                creator.uid,
                creator.gid,
            )
        };
        self.ipc.semaphores.iter().map(line).collect()
    }

    fn message_lines(&self) -> Vec<String> {
        let line = |(number, entry): (u64, &unix_core::ipc::id_table::Entry<sysv_msg::Queue>)| {
            let (own, queue) = (entry.permission, &entry.value);
            let ([sent, received, changed], [sender, receiver]) = (queue.times, queue.processes);
            let (owner, creator) = (own.owner, own.creator);
            format!(
                "{:>10} {number:>10}  {:>4o}  {:>10} {:>10} {sender:>5} {receiver:>5} {:>5} {:>5} {:>5} {:>5} {sent:>10} {received:>10} {changed:>10}\n",
                own.key as i32,
                own.mode,
                queue.bytes(),
                queue.len(),
                owner.uid,
                owner.gid,
                creator.uid,
                creator.gid,
            )
        };
        self.ipc.messages.iter().map(line).collect()
    }
}
