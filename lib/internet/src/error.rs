//! Errors of Internet sockets, by the numbers of Linux (errno(3)).

/// Why a call was refused.
#[repr(u16)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// `EPERM`
    NotPermitted = 1,
    /// `ENOENT`
    Missing = 2,
    /// `EIO`: counts that make no sense.
    Garbage = 5,
    /// `EAGAIN`
    Again = 11,
    /// `EACCES`
    Access = 13,
    /// `ENODEV`
    NoDevice = 19,
    /// `EINVAL`
    Invalid = 22,
    /// `EDOM`
    Domain = 33,
    /// `EMSGSIZE`
    TooLong = 90,
    /// `ENOPROTOOPT`
    NoSuchOption = 92,
    /// `EOPNOTSUPP`
    NotSupported = 95,
    /// `EAFNOSUPPORT`
    WrongFamily = 97,
    /// `EADDRINUSE`
    InUse = 98,
    /// `EADDRNOTAVAIL`
    NotAvailable = 99,
    /// `ENETUNREACH`
    Unreachable = 101,
    /// `EISCONN`
    Connected = 106,
    /// `ENOTCONN`
    NotConnected = 107,
    /// `ECONNREFUSED`
    Refused = 111,
}

impl Error {
    /// The number of Linux.
    pub const fn number(self) -> u16 {
        self as u16
    }
}

/// What a call gives.
pub type Result<T> = core::result::Result<T, Error>;
