//! What travels between a process and the server of the file system.
//!
//! A message is six words: an operation and its arguments; an answer is an error (0: none, or [`ELSEWHERE`]) and its
//! results. Paths and bytes lie in a window that both map: what the server reads there it copies first.

use super::handle_cache::HandleCache;
pub use super::ipc_protocol::{IpcCommand, IpcKind};
use core::sync::atomic::AtomicU64;
use linux_abi::errno::Errno;
use program::elf::HEAD;
use vfs::path_walk::PATH_BYTES;

/// Pages of a client's window: those for paths and bytes, and one with its handle cache
/// ([`HandleCache`]).
pub const WINDOW_PAGES: usize = 9;
/// Bytes of a client's window that are for paths and bytes.
pub const WINDOW_BYTES: u64 = 8 * 4096;
/// Most bytes of a file that one request reads, by the numbers of their pages.
pub const READ_BYTES: u64 = 32 * 4096;
/// Word of the notice page that counts the watchers of files: if not 0, the server is told of every open, read, close.
pub const WATCHERS: usize = 1;
/// Bit of the flags of `Open`: a node is opened for one operation, of which alone those who watch it are told.
pub const QUIET: u32 = 1 << 30;
/// Bit of the flags of `Open`: the client looked for it in the catalogue, and is going to do so again.
pub const SHOW: u32 = 1 << 29;
/// Words of the notice page that report ends of waits for words of shared memory: [`wake_of`] names a thread's word.
pub const FUTEX_WAKES: usize = 256;
/// How many of these.
pub const FUTEX_WAKES_WORDS: usize = 64;
/// Word of the notice page that counts what may have taken pages from files in use, each time before they go.
pub const CUTS: usize = 2;
/// Words of the notice page that tell who goes before others on a CPU: see [`crate::process::priority_table`].
pub const PRECEDENCES: usize = 384;
/// Word of the notice page that counts what may change a program's contents, touched pages or path, before it does.
pub const PROGRAMS: usize = 3;
/// Words of the notice page, one a line of the cache of raw disks: 0 during a transfer, then the kernel's result.
pub const DISK_LINES: usize = 160;
/// Words of the notice page, bells: threads that wait for many descriptors sleep over one of them each, by number.
pub const BELLS: usize = 192;
/// Words of the notice page with the names of the sockets that rang bells last, see `internet::bell`.
pub const BELL_RECORD: usize = 32;
/// Word of the notice page that counts what the keeper of disks has finished: a read, or a round of write-back.
pub const DISK_DONE: usize = 176;
/// Word of the notice page that counts what is asked of the keeper.
pub const DISK_WORK: usize = 177;
/// Word of the notice page: the last write-back that was carried out, as [`Request::SyncFiles`] numbers them.
pub const DISK_ROUND: usize = 180;
/// Word of the notice page: the last write-back that failed, or was carried out together with one that failed.
pub const DISK_FAILED: usize = 181;
/// Word of the notice page that counts what the keeper of the wire has finished that requests wait for.
pub const NETWORK_DONE: usize = 178;
/// Word of the notice page that counts what is asked of that keeper.
pub const NETWORK_WORK: usize = 179;
/// In place of an error: the client repeats its request when a word of the notice page differs from word 1. Word 2
/// names that word; 0 stands for [`DISK_DONE`].
pub const NOT_YET: u64 = 1 << 33;
/// As the first word of `QueueNotify`: the answer says whether the notice with the number in the third word is still
/// there, and whether a message has used it up.
pub const ASKS_NOTICE: u64 = 2;
/// Word of the notice page that counts changes of the mount table.
pub const MOUNTS: usize = 4;
/// Word of the notice page: nanoseconds, modulo 2^64, between the machine's clock and the one that user 0 set.
pub const CLOCK_OFFSET: usize = 320;
/// Words of the notice page with the host's name and with its domain, zeros behind each.
pub const HOST_NAME: usize = 328;
pub const DOMAIN_NAME: usize = HOST_NAME + NAME_WORDS;
/// Words of a name of the host.
pub const NAME_WORDS: usize = 8;
/// In place of an error: the path leads out of the file system. Word 1 is the node, word 2 the length of the rest,
/// which lies in the window.
pub const ELSEWHERE: u64 = 1 << 32;
/// Bytes of a program that come with its node, and where in the window its path is.
pub const PROGRAM_PATH: u64 = HEAD as u64;
/// Where in the window the pages are that programs touch of it.
pub const PROGRAM_PAGES: u64 = PROGRAM_PATH + PATH_BYTES as u64;
/// As the offset of a write: at the end.
pub const APPEND: u64 = u64::MAX;
/// An offset in an answer: the caller waits for it no more.
pub const NO_LONGER_WANTED: u64 = u64::MAX;
/// As a time to set: now.
pub const TIME_NOW: u64 = i64::MIN as u64;
/// As a time to set: leave it.
pub const TIME_KEEP: u64 = i64::MIN as u64 + 1;
/// Bit of the flags of an operation on a path: follow a symbolic link in the last place.
pub const FOLLOW: u64 = 1;
/// Bit of the flags: an empty path means the node itself.
pub const EMPTY_PATH: u64 = 2;
/// Bit of the flags of `Access`: for the real user, not the effective one.
pub const REAL: u64 = 8;
/// As what `SetIdentity` changes: from now on no program gives the caller any rights.
pub const NO_NEW_PRIVILEGES: u64 = 2;
/// As what `SetIdentity` changes: capabilities that are missing.
pub const CAPABILITIES: u64 = 4;
/// As what `SetIdentity` changes: all threads of the caller take the credentials of one of them, whose number follows.
/// The process then holds the key of these.
pub const SAME_FOR_ALL: u64 = 3;
/// Bit of the flags of a removal: of a directory.
pub const DIRECTORY: u64 = 4;

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// What a client asks for. `at` is where a path without leading slash begins; it and every node that is
        /// held are words of a [`super::handle::Handle`].
        #[repr(u64)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Request {
            $($(#[$doc])* $name = $number,)*
        }

        impl Request {
            /// The operation with this number.
            pub const fn from_number(number: u64) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

impl Request {
    /// Whether it is about words of shared memory.
    pub fn is_of_futexes(number: u64) -> bool {
        number >= Self::FutexEnter as u64 && number <= Self::FutexRequeue as u64
    }

    /// Whether the server keeps something for who asks, which takes of its own memory. What files have counts
    /// elsewhere.
    pub fn allocates(number: u64) -> bool {
        use Request as Is;
        matches!(
            Self::from_number(number),
            Some(
                Is::Attach
                    | Is::Adopt
                    | Is::Open
                    | Is::Make
                    | Is::Link
                    | Is::SymbolicLink
                    | Is::Unnamed
                    | Is::Lock
                    | Is::Offer
                    | Is::Bind
                    | Is::MakeTerminal
                    | Is::BindAbstract
                    | Is::IssueToken
                    | Is::StorePending
                    | Is::Attribute
                    | Is::Fifo
                    | Is::Mount
                    | Is::RegisterThread
                    | Is::ExecAs
                    | Is::OpenExec
                    | Is::ReacquireExec
                    | Is::HandOff
                    | Is::Submit
                    | Is::MakeWatcher
                    | Is::Watch
                    | Is::SegmentGet
                    | Is::SemaphoreGet
                    | Is::MessageGet
                    | Is::MessageSend
                    | Is::QueueOpen
                    | Is::QueueSend
                    | Is::MakeInternetSocket
                    | Is::InternetSocket
                    | Is::Disk
                    | Is::SyncDisk
            )
        )
    }
}

requests! {
    /// () -> page numbers of the window, two in a word, but for the last, which comes with the page that tells of
    /// changes that clients wait for.
    Attach = 0,
    /// (environment, 1 for a window, count, first page of the window that one more environment maps) -> as `Attach`, of
    /// its window. The environment becomes a client that holds what the caller holds, but for so many nodes in the
    /// caller's window, each once.
    Adopt = 1,
    /// (at, flags of `open`, mode, length of path, flags `RESOLVE_…` of `openat2`) -> node, mode, device, size; 1 as
    /// with `Truncate`. The caller holds the node.
    Open = 2,
    /// (at, flags, length of path) -> the status in the window.
    Status = 3,
    /// (node, offset, count) -> count, 0; the bytes in the window. Or, where that is more than the window holds: count,
    /// 1; the numbers of the pages that the bytes lie in, in the window.
    Read = 4,
    /// (node, offset, count) -> count, end of what was written; the bytes in the window.
    Write = 5,
    /// (node, size) -> 1 where another process may still map bytes that were cut.
    Truncate = 6,
    /// (node, number of the last entry that is known, or 0; bytes) -> bytes, number of the last entry; records
    /// of `getdents64` in the window.
    List = 7,
    /// (node, first index, count, which of them is wanted, whether it will be written) -> page number of that one, 0
    /// past the end. The numbers of all that are in memory follow, as `tell_near_pages` has them.
    Pages = 8,
    /// (node; what was closed; open file whose locks end with it or 0; 1: cached handles of the node go with it). The
    /// caller holds the node no more. What was closed: 0, 1: a descriptor, 2: the last of its open file.
    Release = 9,
    /// (at, mode, device, length of path)
    Make = 10,
    /// (at, flags, length of path)
    Remove = 11,
    /// (from at, to at, lengths of both paths: 0..32 and 32..64, flags of `renameat2`)
    Rename = 12,
    /// (from at, to at, lengths of both paths, flags)
    Link = 13,
    /// (at, lengths of target and path)
    SymbolicLink = 14,
    /// (at, length of path) -> length of the target in the window.
    ReadLink = 15,
    /// (at, wanted, flags, length of path)
    Access = 16,
    /// (at, mode, flags, length of path)
    SetMode = 17,
    /// (at, uid | gid << 32, flags, length of path)
    SetOwner = 18,
    /// (at, accessed, modified, flags, length of path)
    SetTimes = 19,
    /// (node, 1 to report the last path of a node that has none) -> length of an absolute path of it in the window.
    PathOf = 20,
    /// (at, flags, length of path) -> pages in all, pages free, nodes; kind of file system, and flags of the mount
    /// (32..64).
    Space = 21,
    /// (at, length of path) -> node, if a directory is there that may be entered. The caller holds it.
    Enter = 22,
    /// (node): the caller holds it once more.
    Hold = 23,
    /// (at, mode, 1 if it may get a name | 2 if it may be sealed, length) -> node of a file without a name,
    /// held. `length` is that of the path of a directory, or 0 and that of the file's label.
    Unnamed = 24,
    /// (node, offset, 1 for a hole, 0 for data) -> where the next one begins.
    Seek = 25,
    /// (node, mode of `fallocate`, offset, length) -> 1 as with `Truncate`.
    Allocate = 26,
    /// (node, [`LockRequest`], first byte, last byte, description) -> 0, or 1 and the lock in the way: kind, first
    /// byte, last byte, process.
    Lock = 27,
    /// (word of the notice page: [`CLOCK_OFFSET`], [`HOST_NAME`] or [`DOMAIN_NAME`]; the offset, or the length of the
    /// name in the window). User 0 may.
    SetMachine = 39,
    /// (node): it is on its way to another client, and held until that one takes it -> its number there.
    Offer = 40,
    /// (number) -> node: the caller holds what was on its way.
    AcceptOffer = 41,
    /// (at, mode and from bit 32 on its kind, page, length of path): a socket under a name that leads to the page.
    Bind = 42,
    /// (at, length of path, three words) -> the stamp of the page that a socket's name leads to, its client, that one's
    /// user and group, its kind, 1 if asked. The three words are 0, or a request to connect: stamps of the first
    /// pages of two pipes of the caller's, and the number of the connection. Where another user listens, the server
    /// puts that into the queue, and says so by the 1. From bit 32 of the kind on stands the list for the pages of the
    /// pipes, where that is not the caller's own.
    Peer = 43,
    /// () -> nodes of master and slave of a fresh pseudo-terminal, and the number in the slave's name. The caller holds
    /// the master.
    MakeTerminal = 44,
    /// (node of a master or a slave) -> count; the terminal's pages in the window, one a word, then those of its ring.
    Terminal = 45,
    /// (page, length) -> node, held. A socket under an abstract name, its kind and the name itself, which leads to the
    /// page while a process holds the node.
    BindAbstract = 46,
    /// (length, three words) -> as `Peer`, of an abstract name.
    PeerAbstract = 47,
    /// (page): the caller listens at the names that it gave to it.
    Listen = 49,
    /// ([`TokenKind`]; for a claim process, and user | group << 32; for a connection first pages of its two pipes) ->
    /// number of the token.
    IssueToken = 68,
    /// (number, [`TokenKind`], for a connection first pages of its two pipes, 1 to keep the token) -> process;
    /// user | group << 32.
    RedeemToken = 69,
    /// (number of a connection; bytes that were read of it; bytes that were sent since; from which of these on they are
    /// in the window; so many of them). The maker of the connection has closed it before it was accepted.
    StorePending = 37,
    /// (number of a connection, from which byte on) -> 1, or 0 where nothing was left; bytes that were read of it. Then
    /// bytes that were sent since; so many of them in the window.
    TakePending = 38,
    /// (at, flags, lengths of path and name, [`AttributeRequest`] | flags of `setxattr` << 32, bytes of the value
    /// behind them). Returns bytes of the value, or of the names, in the window.
    Attribute = 36,
    /// (node of a FIFO) -> count; the pages of its pipe in the window, one a word.
    Fifo = 28,
    /// (target at, source at, lengths of target, source, kind and options: 16 bits each, flags of `mount`)
    Mount = 30,
    /// (at, flags of `umount2`, length of path)
    Unmount = 31,
    /// (at of the new root, at of the place for the old one, lengths of both paths)
    PivotRoot = 32,
    /// (lines to skip) -> bytes, lines; lines of `/proc/self/mountinfo` in the window.
    Mounts = 33,
    /// (node, seals to add, or `u64::MAX` for none) -> its seals.
    Seal = 34,
    /// (environment): it speaks for the caller from now on, as a thread of it.
    RegisterThread = 29,
    /// (`IdentityChange::to_words`, with 0 for users, 1 for groups, [`NO_NEW_PRIVILEGES`], [`CAPABILITIES`]) ->
    /// principal. Sets the credentials of the calling thread. The process
    /// holds the key of the principal then. Also ([`SAME_FOR_ALL`]; number of a thread).
    SetIdentity = 70,
    /// (first; count; 1 with the last of them; the groups in the window): the caller's other groups.
    SetGroups = 71,
    /// (first) -> count; the caller's other groups from there on, in the window.
    Groups = 86,
    /// (node, first index, index after the last) -> count; of the pages that programs touch those that are in memory,
    /// in the window, as index | page number << 32.
    WorkingSet = 48,
    /// (node) -> bytes; the clients that hold it, without the caller, in the window, a word each.
    Holders = 35,
    /// (principal; list of pages that the caller shares, or none) -> list for its shared pages, list for its publicly
    /// readable pages. The caller is going to be this principal, and may be. Its shared pages are those shared with
    /// relatives of another user, or those under the given list.
    ListsForUser = 72,
    /// (environment: the caller or one that it made; resource; amount of unused budget; 1 if the caller ends without).
    DrawBudget = 73,
    /// (1: the caller begins to reown or hand off shared pages, 0: it has done) -> 1 while another process does.
    Reowning = 103,
    /// (process, `Attributes::to_word`): that one goes before others on a CPU so far, if user 0 says so. The caller
    /// itself is scheduled so from now on, where it or its maker may.
    SetPriority = 104,
    /// (process, signal, code, value): the signal, from the caller.
    Signal = 74,
    /// (signal, code, value): the caller ended, stopped or continued; the server reports it to its parent.
    NotifyParent = 75,
    /// (at, length of path): a directory that is the root for the caller, and for who it makes, from now on.
    ChangeRoot = 80,
    /// (node of a program that the caller holds, node of a bundle that it has written, bytes of that, count; nodes in
    /// the window). The session starts a successor of the caller with this program, in a fresh environment that holds
    /// these nodes.
    ExecAs = 91,
    /// () -> number of the successor environment of the caller; 0: there is none yet.
    SuccessorOf = 92,
    /// (0) -> list for what it shares with others, list for its publicly readable pages, principal, number of groups;
    /// `Credentials::to_words` in the window. The caller, started for a pending set-id exec, takes the credentials of
    /// that program.
    /// (1): its keys are those of that principal.
    AssumeIdentity = 93,
    /// (node of a program that the caller holds) -> principal whose key the process holds; the caller executes it in
    /// its own environment.
    Execute = 94,
    /// (at, length of path, 1 where it will run and not only be loaded) -> node, mode, size; lengths; number of its
    /// pages that programs touch. A regular file that the caller may execute. `lengths`: bytes of its beginning (0..32)
    /// and of its absolute path (32..64), 0 where that is not known. They stand in the window, one behind the other:
    /// what the file begins with, at [`PROGRAM_PATH`] the path, at [`PROGRAM_PAGES`] the pages as `WorkingSet` has
    /// them. The caller holds the node; where it may not read it, by a handle without rights, and of what it begins
    /// with there is a script's first line.
    OpenExec = 100,
    /// (node, and another one or 0, as `OpenExec` returned them to a caller that knows their contents). The caller
    /// holds them as if it had opened them, if all users find them and it may.
    ReacquireExec = 105,
    /// (count; in the window so many pages of the caller's, as `orphaned_pages::HandedOffPage` has them): others use
    /// them, and the caller ends.
    HandOff = 101,
    /// (principal that the caller is going to be, and may be; count; a list, 0: none; so many pages in the window).
    /// That principal, too, may use those that were handed off to the server and that all users of the list may use.
    ShareHandedOff = 102,
    /// (): releases the handles of clients that have died; any client may call it.
    ReapClients = 90,
    /// (process, length, continued, more): what a file of that process below `/proc` holds, whose name is in the window
    /// -> number of the question. `continued` is the number of a question whose name this is more of, or 0.
    Submit = 76,
    /// (number, offset) -> number of a question that the caller is asked; bytes of its name in the window; bytes of the
    /// whole name. With 0 it is the oldest that the caller did not take yet. `ENOENT` where there is none.
    TakeRequest = 77,
    /// (number; error, or 0; kind of entry; bytes in the window; 1 with the last of them)
    Reply = 78,
    /// (number, offset) -> 0; 0, or how far the process that is asked has come. Or, once there is an answer, -> 1;
    /// error; kind of entry; bytes in the window; 1 with the last of them. With the last bytes the request is
    /// forgotten, and at once with an offset of [`NO_LONGER_WANTED`].
    TakeReply = 79,
    /// () -> node of an instance of watches. The caller holds it.
    MakeWatcher = 81,
    /// (at, mask of inotify_add_watch(2), instance, length of path) -> number of the watch.
    Watch = 82,
    /// (instance, number of a watch)
    Unwatch = 83,
    /// (instance, room) -> bytes of its events in the window.
    TakeEvents = 84,
    /// (instance) -> bytes of the events that wait in it.
    EventsWaiting = 85,
    /// (key, bytes, flags) -> number of a shared segment.
    SegmentGet = 50,
    /// (number, 1 to read only) -> node and bytes of a shared segment. The caller holds the node.
    SegmentAttach = 51,
    /// (key, count, flags) -> number of a set of semaphores.
    SemaphoreGet = 52,
    /// (number, changes in the window) -> 1 if the caller has to wait.
    SemaphoreOperate = 53,
    /// (number, semaphore, command of `semctl`, value) -> value; values in the window.
    SemaphoreControl = 54,
    /// (0: the caller ends. Or 1, number, count; changes in the window: it gives up waiting for an operation) -> 0:
    /// that was carried out, or 1.
    SemaphoreLeave = 55,
    /// (key, flags) -> number of a queue of messages.
    MessageGet = 56,
    /// (number, type, bytes in the window) -> 1 if the caller has to wait.
    MessageSend = 57,
    /// (number, type, room, flags) -> 1 if the caller has to wait; else 0, bytes in the window, type.
    MessageReceive = 58,
    /// ([`IpcKind`], number, [`IpcCommand`]) -> number; the structure of the object in the window.
    IpcControl = 59,
    /// ([`Listed`], first line) -> bytes, lines, of the file below `/proc` in the window.
    Lines = 60,
    /// (1 to make, 2 to make anew, 0; wanted access; mode; messages and bytes that it may have, or 0; length of the
    /// name) -> number of a POSIX queue.
    QueueOpen = 61,
    /// (number): the last descriptor of a description is closed.
    QueueClose = 62,
    /// (length of the name)
    QueueUnlink = 63,
    /// (number, priority, bytes in the window) -> 1 if there is no room; else 0, and the notification: process, signal,
    /// value.
    QueueSend = 64,
    /// (number, room) -> 1 if there is none; else 0, bytes in the window, priority.
    QueueReceive = 65,
    /// (number) -> messages and bytes of each that it may have, messages in it, bytes in it.
    QueueStatus = 66,
    /// (number, 1 to ask for it, signal, value): notify the caller of the next message.
    QueueNotify = 67,
    /// (word, bits, where the thread can run, as `wait::CpuHint`): the calling thread waits for a word of shared
    /// memory, known by page number << 12 | offset.
    FutexEnter = 95,
    /// () -> 1 if the calling thread still waits: no wakeup has reached it.
    FutexWaits = 96,
    /// () -> 1 if the calling thread still waited; it waits no more.
    FutexLeave = 97,
    /// (word, how many at most, bits) -> how many were woken, and one of them.
    FutexWake = 98,
    /// (word, other word, how many to wake, how many to let wait for the other word) -> how many of each there were,
    /// and one that was woken.
    FutexRequeue = 99,
    /// (family; sort, in the order of `internet::option::Sort`; protocol) -> node of a fresh Internet socket, its
    /// page. The caller holds it.
    MakeInternetSocket = 106,
    /// (node, [`InternetRequest`], three words).
    InternetSocket = 107,
    /// (node of a disk, `DiskRequest`, first byte, bytes, ticket or 0): one request about raw bytes within one line of
    /// the server's cache -> 0: done. Or 1, the line and a ticket: the caller repeats the request with the ticket when
    /// the word of the line is not 0, see [`DISK_LINES`]. The bytes lie in the window.
    Disk = 108,
    /// (number of a disk, ticket or 0) -> as `Disk`: what was written to the disk itself becomes durable.
    SyncDisk = 109,
    /// (ticket or 0, 0, node or 0, 0 or 1): makes durable what was changed before on volumes of disks, or in a node
    /// alone. With 1 the volume of the node is meant. -> 0: it is durable. Or 1, the value of [`DISK_DONE`] and a
    /// ticket: it is durable when [`DISK_ROUND`] has come to the ticket, and [`DISK_FAILED`] has not. Where both have,
    /// the caller repeats the request with the ticket. (0, node): clean pages of a file that a disk keeps are given up,
    /// unless a write-back runs.
    SyncFiles = 110,
    /// (bells, from bit 0 on): a pipe has changed whose sleepers asked for these, see [`BELLS`].
    Ring = 111,
}

/// What is asked of an Internet socket. An endpoint is three words: the address, and the port with more above it.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InternetRequest {
    /// (endpoint) -> the port.
    Bind = 0,
    /// (endpoint) -> the page of the other side; 0 while the connection has not come about. The thread that waits to
    /// accept it.
    Connect = 1,
    /// (backlog; `u64::MAX`: it listens no more)
    Listen = 2,
    /// () -> node of the connection that came first, which the caller holds; its page, and above it that of the other
    /// side; the
    /// endpoint of the other side.
    Accept = 3,
    /// (0 for its own, 1 for that of the other side) -> endpoint; 1 if it has one.
    Name = 4,
    /// () -> its page, that of the other side or 0; family, sort and protocol, a byte each.
    Pages = 5,
    /// (0 for its own, 1 for that of the other side) -> count; the pages of the larger area
    /// in the window, one
    /// a word.
    Large = 6,
    /// (endpoint; above its port the length of the bytes in the window and flags) -> bytes; thread that waits for them;
    /// page, number and family of a channel to there. The page is 0 where there is none,
    /// the family 4 or 6.
    Send = 7,
    /// (first byte, 1 to take it) -> bytes in the window of the datagram that waits with the server: its head, then
    /// its bytes.
    Receive = 8,
    /// (): options in its page that others go by have changed.
    Options = 9,
    /// (): it has no connection any more.
    Disconnect = 10,
    /// (address, 1 to join the group, 0 to leave it)
    Group = 11,
    /// (): counts in its page have changed, and the other side wants to be told: see `internet::page::WATCH`.
    Wake = 12,
    /// () -> count; in the window eight words for each channel that it receives by: page, endpoint that the datagrams
    /// come from, endpoint that they are sent to, 0.
    Channels = 13,
    /// (): the keeper of the wire ends and is made anew, as after a panic. Only for privileged callers.
    ResetCard = 14,
}

impl InternetRequest {
    /// From a word of a message.
    pub const fn from_word(word: u64) -> Option<Self> {
        Some(match word {
            0 => Self::Bind,
            1 => Self::Connect,
            2 => Self::Listen,
            3 => Self::Accept,
            4 => Self::Name,
            5 => Self::Pages,
            6 => Self::Large,
            7 => Self::Send,
            8 => Self::Receive,
            9 => Self::Options,
            10 => Self::Disconnect,
            11 => Self::Group,
            12 => Self::Wake,
            13 => Self::Channels,
            14 => Self::ResetCard,
            _ => return None,
        })
    }
}

/// What is asked of a raw disk.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskRequest {
    /// Bytes, which the server may have read before.
    Read = 0,
    /// Bytes from the disk.
    ReadDirect = 1,
    /// Bytes to the disk.
    Write = 2,
    /// What was written becomes durable.
    Flush = 3,
}

impl DiskRequest {
    /// From a word of a message.
    pub const fn from_word(word: u64) -> Option<Self> {
        Some(match word {
            0 => Self::Read,
            1 => Self::ReadDirect,
            2 => Self::Write,
            3 => Self::Flush,
            _ => return None,
        })
    }
}

/// What the server tells in lines.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Segments of shared memory.
    Segments = 0,
    /// Sets of semaphores.
    Semaphores = 1,
    /// Queues of messages.
    Messages = 2,
    /// Locks on files.
    Locks = 3,
    /// Sockets that have names.
    Sockets = 4,
    /// Internet sockets, by table of `/proc/net`.
    Tcp = 5,
    /// See [`Self::Tcp`].
    Tcp6 = 6,
    /// See [`Self::Tcp`].
    Udp = 7,
    /// See [`Self::Tcp`].
    Udp6 = 8,
    /// See [`Self::Tcp`].
    Raw = 9,
    /// See [`Self::Tcp`].
    Raw6 = 10,
    /// See [`Self::Tcp`].
    Echo = 11,
    /// See [`Self::Tcp`].
    Echo6 = 12,
    /// The network card, as `internet::device` has it.
    Card = 13,
}

impl Listed {
    /// From a word of a message.
    pub const fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => Some(Self::Segments),
            1 => Some(Self::Semaphores),
            2 => Some(Self::Messages),
            3 => Some(Self::Locks),
            4 => Some(Self::Sockets),
            5 => Some(Self::Tcp),
            6 => Some(Self::Tcp6),
            7 => Some(Self::Udp),
            8 => Some(Self::Udp6),
            9 => Some(Self::Raw),
            10 => Some(Self::Raw6),
            11 => Some(Self::Echo),
            12 => Some(Self::Echo6),
            13 => Some(Self::Card),
            _ => None,
        }
    }
}

/// What is asked about a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// Shared, exclusive, or none at all.
    pub kind: LockKind,
    /// The holder of the requested lock.
    pub holder: LockHolder,
    /// What the server does about a lock in the way.
    pub manner: LockManner,
}

/// Kinds of locks.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Others may have shared ones.
    Shared = 0,
    /// No other holder may have one.
    Exclusive = 1,
    /// None: give it up.
    None = 2,
}

/// What is asked about an extended attribute.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeRequest {
    /// What the name stands for.
    Get = 0,
    /// It is to stand for this.
    Set = 1,
    /// It is to go.
    Remove = 2,
    /// All names.
    List = 3,
}

impl AttributeRequest {
    /// From half a word of a message.
    pub const fn from_half(half: u32) -> Option<Self> {
        match half {
            0 => Some(Self::Get),
            1 => Some(Self::Set),
            2 => Some(Self::Remove),
            3 => Some(Self::List),
            _ => None,
        }
    }
}

/// Holders of locks.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockHolder {
    /// The calling process.
    Process = 0,
    /// An open description.
    Description = 1,
    /// An open description, of the whole file, by `flock`.
    Whole = 2,
}

/// What becomes of a request that cannot be granted.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockManner {
    /// The lock in the way is told.
    Try = 0,
    /// As `Try`, and the caller is going to wait: `EDEADLK` where that would be for ever.
    Wait = 1,
    /// Nothing is taken: the lock in the way is told.
    Ask = 2,
    /// The caller waits no more.
    GiveUp = 3,
}

/// What the server is asked to vouch for.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// The caller sends a message, as whose it is.
    Sender = 0,
    /// The same, as who it says.
    Claim = 1,
    /// The caller connects by two pipes that it made, as who it acts as.
    Connection = 2,
    /// The caller passes on a socket, and names credentials for its peer that it could take itself.
    Passed = 3,
}

impl TokenKind {
    /// From a word of a message.
    pub const fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => Some(Self::Sender),
            1 => Some(Self::Claim),
            2 => Some(Self::Connection),
            3 => Some(Self::Passed),
            _ => None,
        }
    }
}

impl LockRequest {
    /// As a word of a message.
    pub const fn to_word(self) -> u64 {
        self.kind as u64 | (self.holder as u64) << 8 | (self.manner as u64) << 16
    }

    /// From such a word; `None` for one that means nothing.
    pub const fn from_word(word: u64) -> Option<Self> {
        let kind = match word & 0xff {
            0 => LockKind::Shared,
            1 => LockKind::Exclusive,
            2 => LockKind::None,
            _ => return None,
        };
        let holder = match word >> 8 & 0xff {
            0 => LockHolder::Process,
            1 => LockHolder::Description,
            2 => LockHolder::Whole,
            _ => return None,
        };
        let manner = match word >> 16 {
            0 => LockManner::Try,
            1 => LockManner::Wait,
            2 => LockManner::Ask,
            3 => LockManner::GiveUp,
            _ => return None,
        };
        Some(Self { kind, holder, manner })
    }
}

/// What a client holds without need, in the words of its window.
#[inline]
pub fn idle_in(window: &[AtomicU64]) -> HandleCache<'_> {
    HandleCache::new(window[WINDOW_BYTES as usize / 8..].first_chunk().expect("a window has a page behind its bytes"))
}

/// Two lengths in one word.
pub const fn pair(low: usize, high: usize) -> u64 {
    low as u64 | (high as u64) << 32
}

/// What a word of [`FUTEX_WAKES`] becomes when a thread is woken: the lower half is that thread's number, the upper one
/// counts.
pub const fn wake_of(thread: u64, before: u64) -> u64 {
    (before >> 32).wrapping_add(1) << 32 | thread & 0xffff_ffff
}

/// What an answer's first word says.
pub fn outcome(word: u64) -> Result<(), Errno> {
    match word {
        0 => Ok(()),
        number => Err(Errno::from_register(number.wrapping_neg()).unwrap_or(Errno::EIO)),
    }
}

/// Pages that an answer of four words can tell of.
pub const NEAR_PAGES: usize = 16;

// One answer is enough for what a fault maps.
const _: () = assert!(vm::fault_around::FAULT_AROUND <= NEAR_PAGES as u64);

/// The numbers of pages in four words, each as its distance from that of another page. Chance decides which of them
/// fit, but a file's pages mostly come together. A number of 0 stands for none.
pub fn tell_near_pages(page: u64, numbers: &[u64]) -> [u64; 4] {
    let mut words = [0; 4];
    for (index, number) in numbers.iter().enumerate().take(NEAR_PAGES) {
        let distance = i16::try_from(number.wrapping_sub(page) as i64).unwrap_or(0);
        words[index / 4] |= u64::from(distance as u16) << (index % 4 * 16);
    }
    words
}

/// The numbers that `tell_near_pages` told of; 0 for the others, and for `page` itself.
pub fn near_pages(page: u64, words: [u64; 4], numbers: &mut [u64]) {
    for (index, number) in numbers.iter_mut().enumerate().take(NEAR_PAGES) {
        let distance = (words[index / 4] >> (index % 4 * 16)) as i16;
        *number = if distance == 0 { 0 } else { page.wrapping_add_signed(i64::from(distance)) };
    }
}
