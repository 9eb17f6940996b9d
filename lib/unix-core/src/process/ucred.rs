//! Credentials of the peer of a socket, or of the sender of a message (`struct ucred`, unix(7)).
//!
//! Pure. Only the server says so of others: see `server::identity_tokens`.

use vfs::namespace::FsCredentials;

/// A process with its user and group, at the time when it connected or sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ucred {
    /// Its number; 0: not known.
    pub process: u32,
    /// Its user.
    pub user: u32,
    /// Its group.
    pub group: u32,
}

/// The user and group of whom nothing is known (`overflowuid`).
const OVERFLOW: u32 = 65534;

impl Ucred {
    /// There is no peer.
    pub const NONE: Self = Self { process: 0, user: u32::MAX, group: u32::MAX };
    /// There is a peer, and its credentials are unknown.
    pub const UNKNOWN: Self = Self { process: 0, user: OVERFLOW, group: OVERFLOW };

    /// A process that is this user and group.
    pub const fn of(process: u64, who: FsCredentials) -> Self {
        Self { process: process as u32, user: who.uid, group: who.gid }
    }

    /// Process; user and group (32..64): two words of a message.
    pub const fn to_words(self) -> [u64; 2] {
        [self.process as u64, self.user as u64 | (self.group as u64) << 32]
    }

    /// From those.
    pub const fn from_words([process, numbers]: [u64; 2]) -> Self {
        Self { process: process as u32, user: numbers as u32, group: (numbers >> 32) as u32 }
    }

    /// As `struct ucred`.
    pub fn to_bytes(self) -> [u8; 12] {
        let numbers = [self.process, self.user, self.group];
        core::array::from_fn(|index| numbers[index / 4].to_le_bytes()[index % 4])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_bytes_tell_the_same() {
        let peer = Ucred::of(7, FsCredentials::new(1000, 100));
        assert_eq!(Ucred::from_words(peer.to_words()), peer);
        assert_eq!(peer.to_bytes(), [7, 0, 0, 0, 232, 3, 0, 0, 100, 0, 0, 0]);
        assert_eq!(Ucred::from_words(Ucred::NONE.to_words()), Ucred::NONE);
    }
}
