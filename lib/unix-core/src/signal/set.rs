//! Signals by number: what they do where the program says nothing, and how sets of them are written.

use linux_raw_sys::general as linux;

/// How many there are; they count from 1.
pub const COUNT: u32 = 64;

/// What a signal does by itself (signal(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// Ends the process.
    End,
    /// Nothing.
    Ignore,
    /// Stops the process.
    Stop,
    /// Lets a stopped process go on.
    Continue,
}

/// What `signal` does by itself.
pub const fn default(signal: u32) -> Default {
    match signal {
        linux::SIGCHLD | linux::SIGURG | linux::SIGWINCH => Default::Ignore,
        linux::SIGSTOP | linux::SIGTSTP | linux::SIGTTIN | linux::SIGTTOU => Default::Stop,
        linux::SIGCONT => Default::Continue,
        _ => Default::End,
    }
}

/// The set that holds `signal`, and nothing for a number that is no signal.
pub const fn bit(signal: u32) -> u64 {
    if signal >= 1 && signal <= COUNT { 1 << (signal - 1) } else { 0 }
}

/// Signals that can be neither blocked nor handled.
pub const UNSTOPPABLE: u64 = bit(linux::SIGKILL) | bit(linux::SIGSTOP);
/// Signals that stop a process unless it handles them.
pub const STOPS: u64 = bit(linux::SIGSTOP) | bit(linux::SIGTSTP) | bit(linux::SIGTTIN) | bit(linux::SIGTTOU);
/// The signal that lets a stopped process go on.
pub const CONTINUE: u64 = bit(linux::SIGCONT);
/// Signals that a fault raises; they end the process even if they are blocked.
pub const FAULTS: u64 =
    bit(linux::SIGSEGV) | bit(linux::SIGBUS) | bit(linux::SIGILL) | bit(linux::SIGFPE) | bit(linux::SIGTRAP);

/// Signals that end a process as a crash does: by themselves they leave a core on Linux (signal(7)).
pub const CORES: u64 =
    FAULTS | bit(linux::SIGQUIT) | bit(linux::SIGABRT) | bit(linux::SIGXCPU) | bit(linux::SIGXFSZ) | bit(linux::SIGSYS);

/// The signal of a set that is delivered first.
pub const fn first(set: u64) -> Option<u32> {
    let faults = set & FAULTS;
    let set = if faults != 0 { faults } else { set };
    if set == 0 { None } else { Some(set.trailing_zeros() + 1) }
}
