//! Linux error numbers, and how a refusal of the kernel reads to a Linux program.

use core::num::NonZeroU64;
use linux_raw_sys::errno as raw;

/// A Linux error number. Invariant: it is between 1 and 4095, so that its negative is an error to every libc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(NonZeroU64);

/// What a Linux call gives.
pub type Result<T> = core::result::Result<T, Errno>;

macro_rules! errnos {
    ($($name:ident)*) => {
        impl Errno {
            $(#[doc = concat!("`", stringify!($name), "`")] pub const $name: Self = Self::new(raw::$name as u64);)*

            /// Its name, if ExOS gives it by itself.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    E2BIG EACCES EADDRINUSE EADDRNOTAVAIL EAFNOSUPPORT EALREADY EINPROGRESS ENETUNREACH EAGAIN EBADF EBUSY ECHILD ECONNABORTED ECONNREFUSED ECONNRESET EDEADLK
    EDESTADDRREQ EDOM EEXIST EIDRM EISCONN EMSGSIZE ENOBUFS ENODATA ENOLCK ENOMSG ENOPROTOOPT ENOTCONN ENOTSOCK EPROTO EPROTONOSUPPORT
    EPROTOTYPE ESOCKTNOSUPPORT EFAULT EFBIG EHOSTUNREACH EINTR EINVAL EIO EISDIR ELIBBAD ELOOP EMFILE EMLINK
    ENAMETOOLONG ENFILE ENODEV ENOENT ENOTBLK ENOEXEC ENOMEM ENOSPC ENOSYS ENOTDIR ENOTEMPTY ENOTTY ENXIO EOPNOTSUPP
    EOVERFLOW EPERM EPIPE ERANGE EROFS ESPIPE ESRCH ETIMEDOUT ETXTBSY EXDEV
}

impl Errno {
    const fn new(number: u64) -> Self {
        Self(NonZeroU64::new(number).expect("an error has a number"))
    }

    /// A signal ended a wait that has a limit of time, which no handler's `SA_RESTART` begins anew: the program is
    /// told `EINTR`.
    pub const INTERRUPTED_FOR_GOOD: Self = Self::new(516);

    /// A signal came before the call had an effect: the call is made again once it was acted on, whatever handles it
    /// (signal(7), as `fork` always is).
    pub const MADE_AGAIN: Self = Self::new(513);

    /// A copy from or to the program faulted while the thread held a lock that the page fault handler needs. The range
    /// must be prepared again, as `copy::with_range` does. A program gets `EFAULT`.
    pub const FAULT_UNDER_LOCK: Self = Self::new(517);

    /// The operation needs bytes that are on a disk only. The server makes the client wait and repeat its request; no
    /// program is told.
    pub const NOT_LOADED: Self = Self::new(518);

    /// The number as Linux counts it.
    pub const fn number(self) -> u16 {
        self.0.get() as u16
    }

    /// What a system call leaves in `rax`.
    pub const fn to_register(self) -> u64 {
        self.0.get().wrapping_neg()
    }

    /// The error that a register holds, if it holds one.
    pub const fn from_register(value: u64) -> Option<Self> {
        let negative = (value as i64).wrapping_neg();
        if negative >= 1 && negative <= 4095 { Some(Self::new(negative as u64)) } else { None }
    }
}

impl From<abi::Error> for Errno {
    fn from(error: abi::Error) -> Self {
        use abi::Error;
        match error {
            Error::OverBudget | Error::Exhausted => Self::ENOMEM,
            Error::NoSuchKey | Error::NotPermitted => Self::EPERM,
            Error::NoSuchEnvironment | Error::Gone => Self::ESRCH,
            Error::BadAddress => Self::EFAULT,
            Error::Busy | Error::Again | Error::InUse => Self::EAGAIN,
            Error::Absent => Self::ENODEV,
            Error::UnknownCall => Self::ENOSYS,
            _ => Self::EINVAL,
        }
    }
}

impl From<internet::error::Error> for Errno {
    fn from(error: internet::error::Error) -> Self {
        Self::new(error.number() as u64)
    }
}

impl From<abi::Failure> for Errno {
    fn from(failure: abi::Failure) -> Self {
        failure.error.into()
    }
}
