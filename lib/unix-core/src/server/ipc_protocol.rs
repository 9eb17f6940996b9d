//! What of the protocol is about System V objects: their kinds, and what can be done with each.

/// Kinds of System V objects.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpcKind {
    /// Segments of shared memory.
    Segment = 0,
    /// Sets of semaphores.
    Semaphores = 1,
    /// Queues of messages.
    Messages = 2,
}

impl IpcKind {
    /// From a word of a message.
    pub const fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => Some(Self::Segment),
            1 => Some(Self::Semaphores),
            2 => Some(Self::Messages),
            _ => None,
        }
    }
}

/// What can be done with any of them.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpcCommand {
    /// Remove it (`IPC_RMID`).
    Remove = 0,
    /// Set owner and mode from the window (`IPC_SET`).
    Set = 1,
    /// Tell of it (`IPC_STAT`).
    Status = 2,
    /// Tell of the one in this place, and its number (`SHM_STAT` and so on).
    StatusAt = 3,
    /// The same without asking for permission (`SHM_STAT_ANY` and so on).
    StatusAtAny = 4,
    /// The highest place that is taken; how many there are, and bytes or semaphores in all.
    Highest = 5,
    /// It is locked in memory (`SHM_LOCK`), where all are anyway: that is only told.
    Lock = 6,
    /// It is no more.
    Unlock = 7,
}

impl IpcCommand {
    /// From a word of a message.
    pub const fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => Some(Self::Remove),
            1 => Some(Self::Set),
            2 => Some(Self::Status),
            3 => Some(Self::StatusAt),
            4 => Some(Self::StatusAtAny),
            5 => Some(Self::Highest),
            6 => Some(Self::Lock),
            7 => Some(Self::Unlock),
            _ => None,
        }
    }
}
