//! Linux capabilities of a process (capabilities(7)): which of user 0's powers it kept, and which the next program
//! inherits.
//!
//! Pure. They are not keys: the server asks for them wherever it asks for user 0, and knows what a process gave up
//! ([`Missing`]). They count while one of its users is user 0.

use super::credentials::ResIds;
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use vfs::namespace::FsCredentials;

/// The highest of them.
pub const LAST: u32 = 40;
/// All of them.
pub const ALL: u64 = (1 << (LAST + 1)) - 1;

/// Those that count for files.
const ON_FILES: u64 = 1 << linux::CAP_CHOWN
    | 1 << linux::CAP_DAC_OVERRIDE
    | 1 << linux::CAP_DAC_READ_SEARCH
    | 1 << linux::CAP_FOWNER
    | 1 << linux::CAP_FSETID
    | 1 << linux::CAP_LINUX_IMMUTABLE
    | 1 << linux::CAP_MKNOD
    | 1 << linux::CAP_MAC_OVERRIDE;

/// The sets of a process, as bits, and how they follow its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Those that count.
    pub effective: u64,
    /// Those that may be made to count.
    pub permitted: u64,
    /// Those that a program may go on having whose file says so; none does here.
    pub inheritable: u64,
    /// Those that a program may give at all.
    pub bounding: u64,
    /// Capabilities that any program inherits (the ambient set).
    pub ambient: u64,
    /// SECBIT flags.
    pub secure_bits: u32,
}

/// What is missing in the sets of a process, as bits: the server's record of them. By default user 0 has all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// What does not count.
    pub effective: u64,
    /// What cannot be made to count.
    pub permitted: u64,
    /// What no program gets that is executed as user 0.
    pub gained: u64,
}

/// SECBIT flags, as far as they mean something here.
pub mod secure {
    /// User 0 gets nothing by executing a program.
    pub const NO_ROOT: u32 = 1;
    /// A change of user changes nothing.
    pub const NO_SETUID_FIXUP: u32 = 4;
    /// Permitted ones outlive that user 0 becomes another.
    pub const KEEP: u32 = 16;
    /// No ambient ones are added.
    pub const NO_AMBIENT_RAISE: u32 = 64;
    /// All that there are; each has one above it that locks it.
    pub const ALL: u32 = 0xff;
    /// Those that lock.
    pub const LOCKS: u32 = 0xaa;
}

impl Default for Capabilities {
    fn default() -> Self {
        Self { effective: ALL, permitted: ALL, inheritable: 0, bounding: ALL, ambient: 0, secure_bits: 0 }
    }
}

impl Capabilities {
    /// Whether one of them counts.
    pub const fn has(&self, capability: u32) -> bool {
        self.effective >> capability & 1 != 0
    }

    /// What is missing in them.
    pub const fn missing(&self) -> Missing {
        Missing {
            effective: ALL & !self.effective,
            permitted: ALL & !self.permitted,
            gained: ALL & !(self.bounding | self.inheritable),
        }
    }

    /// Whether the permitted ones outlive that user 0 becomes another.
    pub const fn keeps(&self) -> bool {
        self.secure_bits & (secure::KEEP | secure::NO_SETUID_FIXUP) != 0
    }

    /// What `capset` makes of them.
    ///
    /// # Errors
    /// `EPERM` for what cannot be added.
    pub const fn set(&self, [effective, permitted, inheritable]: [u64; 3]) -> Result<Self> {
        let may_inherit = if self.has(linux::CAP_SETPCAP) { u64::MAX } else { self.inheritable | self.permitted };
        if !is_within(inheritable, may_inherit)
            || !is_within(inheritable, self.inheritable | self.bounding)
            || !is_within(permitted, self.permitted)
            || !is_within(effective, permitted)
        {
            return Err(Errno::EPERM);
        }
        let ambient = self.ambient & permitted & inheritable;
        Ok(Self { effective, permitted, inheritable, ambient, ..*self })
    }

    /// What a change of users makes of them.
    #[must_use]
    pub fn of_user(&self, before: ResIds, after: ResIds) -> Self {
        let mut sets = *self;
        if self.secure_bits & secure::NO_SETUID_FIXUP != 0 {
            return sets;
        }
        if before.has(0) && !after.has(0) {
            sets.ambient = 0;
            if self.secure_bits & secure::KEEP == 0 {
                sets.permitted = 0;
                sets.effective = 0;
            }
        }
        match (before.effective, after.effective) {
            (0, 0) => {}
            (0, _) => sets.effective = 0,
            (_, 0) => sets.effective = sets.permitted,
            _ => {}
        }
        sets
    }

    /// The sets after the process changed the user it acts as on files (setfsuid(2)).
    #[must_use]
    pub fn of_user_on_files(&self, before: FsCredentials, after: FsCredentials) -> Self {
        let effective = match (before.uid, after.uid) {
            _ if self.secure_bits & secure::NO_SETUID_FIXUP != 0 => self.effective,
            (0, 0) => self.effective,
            (0, _) => self.effective & !ON_FILES,
            (_, 0) => self.effective | self.permitted & ON_FILES,
            _ => self.effective,
        };
        Self { effective, ..*self }
    }

    /// What a program begins with that is executed as these users. `changed`: it is not the caller's own users.
    #[must_use]
    pub fn executing(&self, users: ResIds, changed: bool, no_new_privileges: bool) -> Self {
        let mut sets = Self { secure_bits: self.secure_bits & !secure::KEEP, ..*self };
        if changed {
            sets.ambient = 0;
        }
        let is_root = (users.real == 0 || users.effective == 0) && self.secure_bits & secure::NO_ROOT == 0;
        let gained = if is_root { self.bounding | self.inheritable } else { 0 };
        sets.permitted = gained | sets.ambient;
        if no_new_privileges {
            sets.permitted &= self.permitted;
        }
        sets.effective = if is_root && users.effective == 0 { sets.permitted } else { sets.ambient };
        sets
    }

    /// Takes one out of what programs may give.
    ///
    /// # Errors
    /// `EINVAL` for one that is none, `EPERM`.
    pub fn drop_bound(&mut self, capability: u64) -> Result<()> {
        if !self.has(linux::CAP_SETPCAP) {
            return Err(Errno::EPERM);
        }
        self.bounding &= !bit(capability)?;
        Ok(())
    }

    /// Adds one to the ambient ones.
    ///
    /// # Errors
    /// `EINVAL` for one that is none, `EPERM` where it is not permitted and inheritable.
    pub fn raise_ambient(&mut self, capability: u64) -> Result<()> {
        let bit = bit(capability)?;
        if self.permitted & self.inheritable & bit == 0 || self.secure_bits & secure::NO_AMBIENT_RAISE != 0 {
            return Err(Errno::EPERM);
        }
        self.ambient |= bit;
        Ok(())
    }

    /// Sets the SECBIT flags.
    ///
    /// # Errors
    /// `EPERM` for what is locked, and for unknown ones.
    pub const fn set_secure_bits(&mut self, bits: u64) -> Result<()> {
        let bits_32 = bits as u32;
        let locked = (self.secure_bits & secure::LOCKS) >> 1;
        let unlocks = self.secure_bits & secure::LOCKS & !bits_32 != 0;
        if bits & !(secure::ALL as u64) != 0
            || (self.secure_bits ^ bits_32) & locked != 0
            || unlocks
            || !self.has(linux::CAP_SETPCAP)
        {
            return Err(Errno::EPERM);
        }
        self.secure_bits = bits_32;
        Ok(())
    }
}

const fn is_within(set: u64, of: u64) -> bool {
    set & !of == 0
}

/// The bit of one of them.
///
/// # Errors
/// `EINVAL` for one that is none.
pub fn bit(capability: u64) -> Result<u64> {
    if capability > u64::from(LAST) { Err(Errno::EINVAL) } else { Ok(1 << capability) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: ResIds = ResIds { real: 0, effective: 0, saved: 0 };
    const USER: ResIds = ResIds { real: 1000, effective: 1000, saved: 1000 };

    #[test]
    fn what_is_dropped_comes_back_by_executing_as_root_only() {
        let none = Capabilities::default().set([0; 3]).expect("less is allowed");
        assert_eq!(none.set([1, 1, 0]), Err(Errno::EPERM));
        assert_eq!(none.executing(ROOT, false, false).effective, ALL);
        assert_eq!(none.executing(ROOT, false, true).effective, 0, "nothing new");
        assert_eq!(none.executing(USER, false, false).effective, 0);
        let mut bound = Capabilities::default();
        bound.drop_bound(7).expect("may");
        assert_eq!(bound.executing(ROOT, false, false).effective, ALL & !(1 << 7));
        assert_eq!(none.clone().drop_bound(7), Err(Errno::EPERM));
        assert_eq!(bound.drop_bound(41), Err(Errno::EINVAL));
    }

    #[test]
    fn users_take_them_along_only_where_they_are_kept() {
        let all = Capabilities::default();
        assert_eq!((all.of_user(ROOT, USER).effective, all.of_user(ROOT, USER).permitted), (0, 0));
        let kept = Capabilities { secure_bits: secure::KEEP, ..all }.of_user(ROOT, USER);
        assert_eq!((kept.effective, kept.permitted), (0, ALL));
        let acting = ResIds { effective: 1000, ..ROOT };
        let dropped = all.of_user(ROOT, acting);
        assert_eq!((dropped.effective, dropped.permitted), (0, ALL));
        assert_eq!(dropped.of_user(acting, ROOT).effective, ALL, "and back");
    }

    #[test]
    fn ambient_ones_outlive_a_program() {
        let mut sets = Capabilities::default();
        assert_eq!(sets.raise_ambient(5), Err(Errno::EPERM), "not inheritable");
        sets = sets.set([ALL, ALL, 1 << 5]).expect("may");
        sets.raise_ambient(5).expect("now it is");
        assert_eq!(sets.executing(USER, false, false).effective, 1 << 5);
        assert_eq!(sets.executing(USER, true, false).effective, 0);
        assert_eq!(sets.set([0; 3]).map(|sets| sets.ambient), Ok(0));
    }

    #[test]
    fn secure_bits_lock() {
        let mut sets = Capabilities::default();
        sets.set_secure_bits(3).expect("may");
        assert_eq!(sets.set_secure_bits(2), Err(Errno::EPERM));
        assert_eq!(sets.set_secure_bits(1), Err(Errno::EPERM));
        assert_eq!(sets.set_secure_bits(0x103), Err(Errno::EPERM));
        assert_eq!(sets.executing(ROOT, false, false).effective, 0);
    }
}
