//! Credentials of a process: its users and groups, and those that it may change to (credentials(7)).
//!
//! Pure. The server keeps the identity of each of its clients by their unforgeable numbers. By it the server decides
//! what they may do with files and System V objects. A process that writes into its own copy changes only what it says
//! of itself.

use super::capabilities::{ALL, Missing};
use linux_abi::errno::{Errno, Result};
use linux_raw_sys::general as linux;
use vfs::namespace::FsCredentials;
use vfs::supplementary_groups::Groups;

/// Capabilities that count for other users, too, if they kept them: the server alone decides what they permit, and it
/// takes no key.
pub const KEEPABLE: u64 = 1 << linux::CAP_SETGID | 1 << linux::CAP_NET_BIND_SERVICE;
/// Leaves a number as it is.
pub const KEEP: u32 = u32::MAX;

/// Real, effective and saved number: of users, or of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResIds {
    /// Whose it is.
    pub real: u32,
    /// The ID that it acts under.
    pub effective: u32,
    /// The ID that it may act under again.
    pub saved: u32,
}

/// How numbers are changed.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `setuid`: all three for who may, else the effective one.
    One = 0,
    /// `setreuid`: real and effective.
    Two = 1,
    /// `setresuid`: all three.
    Three = 2,
    /// `setfsuid`: the one for files only.
    OnFiles = 3,
}

impl Change {
    /// From a word of a message.
    pub const fn from_word(word: u64) -> Option<Self> {
        match word {
            0 => Some(Self::One),
            1 => Some(Self::Two),
            2 => Some(Self::Three),
            3 => Some(Self::OnFiles),
            _ => None,
        }
    }
}

/// A change as it crosses to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentityChange {
    /// What changes: see `Request::SetIdentity`.
    pub which: u64,
    /// How.
    pub change: Change,
    /// To what.
    pub wanted: [u32; 3],
    /// Of [`KEEPABLE`] what user 0 keeps as another user.
    pub kept: u64,
    /// Capabilities that are missing then.
    pub missing: Missing,
}

impl IdentityChange {
    /// As words of a message.
    pub const fn to_words(self) -> [u64; 5] {
        let [first, second, third] = self.wanted;
        let Missing { effective, permitted, gained } = self.missing;
        let head = self.which
            | (self.kept >> KEEPABLE.trailing_zeros()) << 8
            | (self.change as u64) << 16
            | (third as u64) << 32;
        [head, first as u64 | (second as u64) << 32, effective, permitted, gained]
    }

    /// From words of a message; nothing where there is no such change.
    pub const fn from_words([head, two, effective, permitted, gained]: [u64; 5]) -> Option<Self> {
        let Some(change) = Change::from_word(head >> 16 & 0xffff) else { return None };
        let wanted = [two as u32, (two >> 32) as u32, (head >> 32) as u32];
        let missing = Missing { effective: effective & ALL, permitted: permitted & ALL, gained: gained & ALL };
        let kept = (head >> 8 & 0xff) << KEEPABLE.trailing_zeros() & KEEPABLE;
        Some(Self { which: head & 0xff, change, wanted, kept, missing })
    }
}

impl ResIds {
    /// Whether it is one of them.
    pub const fn has(self, number: u32) -> bool {
        self.real == number || self.effective == number || self.saved == number
    }

    /// What becomes of it; `may`: any number is allowed.
    ///
    /// # Errors
    /// `EPERM` for a number that it does not have, `EINVAL` where `One` keeps.
    pub fn changed(self, change: Change, [first, second, third]: [u32; 3], may: bool) -> Result<Self> {
        let own = [self.real, self.effective, self.saved];
        let chosen = |wanted: u32, before: u32| if wanted == KEEP { before } else { wanted };
        let has = |wanted: u32, among: &[u32]| may || wanted == KEEP || among.contains(&wanted);
        match change {
            Change::One if first == KEEP => Err(Errno::EINVAL),
            Change::One if may => Ok(Self { real: first, effective: first, saved: first }),
            Change::One if has(first, &[self.real, self.saved]) => Ok(Self { effective: first, ..self }),
            Change::Two if has(first, &own[..2]) && has(second, &own) => {
                let effective = chosen(second, self.effective);
                let saves = first != KEEP || second != KEEP && second != self.real;
                Ok(Self {
                    real: chosen(first, self.real),
                    effective,
                    saved: if saves { effective } else { self.saved },
                })
            }
            Change::Three if [first, second, third].iter().all(|wanted| has(*wanted, &own)) => Ok(Self {
                real: chosen(first, self.real),
                effective: chosen(second, self.effective),
                saved: chosen(third, self.saved),
            }),
            _ => Err(Errno::EPERM),
        }
    }
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Users.
    pub user: ResIds,
    /// Groups.
    pub group: ResIds,
    /// More groups.
    pub groups: Groups,
    /// User and group as whom it acts on files, where these are not those as whom it acts (setfsuid(2)).
    pub on_files: [Option<u32>; 2],
    /// A principal of its own, because it gained numbers by executing a program (from [`FIRST_APART`] on); 0: none.
    pub apart: u64,
    /// Whether no program gives it any numbers any more (PR_SET_NO_NEW_PRIVS).
    pub no_new_privileges: bool,
    /// Of [`KEEPABLE`] what it kept (PR_SET_KEEPCAPS): it counts until the process executes a program, though none of
    /// its users is user 0 any more.
    pub kept: u64,
    /// The principal whose key the process holds, while its threads have different credentials.
    pub held: Option<u64>,
    /// Capabilities that it gave up. The others count while one of its users is user 0.
    pub missing: Missing,
}

/// Words of [`Credentials::to_words`].
pub const TOLD: usize = 10;

/// The first principal that is no user.
pub const FIRST_APART: u64 = 1 << 32;

/// A program, as far as it says who runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Type and permissions of its file.
    pub mode: u32,
    /// Owner of that.
    pub user: u32,
    /// Group of that.
    pub group: u32,
}

impl Credentials {
    /// The principal whose key the process holds. It is 0 while any of its users is user 0. It is one of its own where
    /// a program gave it IDs that its user does not have, so that other processes of this user cannot reach into it.
    /// Otherwise it is the saved user. While threads differ, it is the principal from before. No process holds the key
    /// of a user that may change to another one by asking: see `server::principals`.
    pub const fn principal(&self) -> u64 {
        let ResIds { real, effective, saved } = self.user;
        if let Some(held) = self.held {
            return held;
        }
        match self.apart {
            _ if real == 0 || effective == 0 || saved == 0 => 0,
            0 => saved as u64,
            apart => apart,
        }
    }

    /// Whether it is this principal, or may become it by asking.
    pub fn may_be(&self, principal: u64) -> bool {
        let own = [self.user.real, self.user.effective, self.user.saved].map(u64::from);
        match principal {
            FIRST_APART.. => principal == self.apart,
            user => self.is_privileged() || own.contains(&user),
        }
    }

    /// Its credentials once it executes a program: set-id bits count, unless it has renounced them (execve(2)).
    #[must_use]
    pub fn executing(&self, program: Program) -> Self {
        const SET_GROUP: u32 = linux::S_ISGID | linux::S_IXGRP;
        let mut after = Self { kept: 0, on_files: [None; 2], ..self.clone() };
        if program.mode & linux::S_ISUID != 0 && !self.no_new_privileges {
            after.user.effective = program.user;
        }
        if program.mode & SET_GROUP == SET_GROUP && !self.no_new_privileges {
            after.group.effective = program.group;
        }
        after.user.saved = after.user.effective;
        after.group.saved = after.group.effective;
        if after.is_plain() {
            after.apart = 0;
        }
        after.missing.permitted =
            after.missing.gained | if self.no_new_privileges { self.missing.permitted } else { 0 };
        after.missing.effective = if after.user.effective == 0 { after.missing.permitted } else { ALL };
        after.renounce(after.missing);
        after
    }

    /// What the server tells a process that takes them up in a fresh environment: the IDs, 1 where it renounced what
    /// programs give, and the missing capabilities.
    #[must_use]
    pub fn to_words(&self) -> [u64; TOLD] {
        let Missing { effective, permitted, gained } = self.missing;
        let ids = [self.user, self.group].map(|ids| [ids.real, ids.effective, ids.saved].map(u64::from));
        let [[a, b, c], [d, e, f]] = ids;
        [a, b, c, d, e, f, self.no_new_privileges.into(), effective, permitted, gained]
    }

    /// Becomes what [`Self::to_words`] told, but for groups and principal.
    pub fn take_words(&mut self, [a, b, c, d, e, f, renounced, effective, permitted, gained]: [u64; TOLD]) {
        let ids = |[real, effective, saved]: [u64; 3]| ResIds {
            real: real as u32,
            effective: effective as u32,
            saved: saved as u32,
        };
        (self.user, self.group) = (ids([a, b, c]), ids([d, e, f]));
        self.no_new_privileges = renounced != 0;
        self.missing = Missing { effective, permitted, gained };
    }

    /// Whether it acts as whom it has been told by a program to act as, and not as whose it is (AT_SECURE).
    pub const fn is_secure(&self) -> bool {
        self.user.effective != self.user.real || self.group.effective != self.group.real
    }

    const fn is_plain(&self) -> bool {
        !self.is_secure() && self.user.saved == self.user.real && self.group.saved == self.group.real
    }

    /// Whether a program has given it IDs that it did not have. That takes a fresh environment, unless the process
    /// could have taken them by itself.
    pub const fn gains(&self, after: &Self) -> bool {
        let same = self.user.effective == after.user.effective && self.group.effective == after.group.effective;
        !same && !self.is_privileged()
    }

    /// Whether it acts as user 0.
    pub const fn is_privileged(&self) -> bool {
        self.user.effective == 0
    }

    /// Capabilities that count.
    pub const fn effective(&self) -> u64 {
        if self.user.has(0) { ALL & !self.missing.effective } else { 0 }
    }

    /// Capabilities that may be made to count.
    pub const fn permitted(&self) -> u64 {
        if self.user.has(0) { ALL & !self.missing.permitted } else { 0 }
    }

    /// Whether a capability counts.
    pub const fn has(&self, capability: u32) -> bool {
        (self.effective() | self.kept) >> capability & 1 != 0
    }

    /// Gives capabilities up, as the process says. What is not permitted any more stays so until it executes a program.
    pub const fn renounce(&mut self, told: Missing) {
        let own = &mut self.missing;
        own.gained |= told.gained;
        own.permitted = if self.user.has(0) { own.permitted | told.permitted } else { 0 };
        own.effective = if self.user.has(0) { own.permitted | told.effective } else { 0 };
        self.kept &= !told.permitted;
    }

    /// Whether it may take any group.
    pub const fn may_change_groups(&self) -> bool {
        self.has(linux::CAP_SETGID)
    }

    /// The user and group that it acts as.
    pub const fn acting(&self) -> FsCredentials {
        FsCredentials {
            capabilities: self.effective(),
            ..FsCredentials::new(self.user.effective, self.group.effective)
        }
    }

    /// The user and group that it acts as on files.
    pub fn acting_on_files(&self) -> FsCredentials {
        let [user, group] = self.on_files;
        let FsCredentials { uid, gid, capabilities } = self.acting();
        FsCredentials { uid: user.unwrap_or(uid), gid: group.unwrap_or(gid), capabilities }
    }

    /// Whose it is, with what may be made to count where that is user 0 (access(2)).
    pub const fn real(&self) -> FsCredentials {
        let capabilities = if self.user.real == 0 { self.permitted() } else { 0 };
        FsCredentials { capabilities, ..FsCredentials::new(self.user.real, self.group.real) }
    }

    /// Changes the users.
    ///
    /// # Errors
    /// As [`ResIds::changed`].
    pub fn change_user(&mut self, change: Change, wanted: [u32; 3]) -> Result<()> {
        let may = self.has(linux::CAP_SETUID);
        changed(&mut self.user, &mut self.on_files[0], change, wanted, may)
    }

    /// Changes the groups; `capable`: the capability that it may have kept counts.
    ///
    /// # Errors
    /// As [`ResIds::changed`].
    pub fn change_group(&mut self, change: Change, wanted: [u32; 3], capable: bool) -> Result<()> {
        let may = capable && self.may_change_groups();
        changed(&mut self.group, &mut self.on_files[1], change, wanted, may)
    }

    /// Sets the other groups.
    ///
    /// # Errors
    /// `EPERM`.
    pub fn set_groups(&mut self, groups: Groups) -> Result<()> {
        if !self.may_change_groups() {
            return Err(Errno::EPERM);
        }
        self.groups = groups;
        Ok(())
    }

    /// Whether it may say of itself that it is this user and group (unix(7)).
    pub const fn may_claim(&self, user: u32, group: u32) -> bool {
        (self.has(linux::CAP_SETUID) || self.user.has(user)) && (self.has(linux::CAP_SETGID) || self.group.has(group))
    }

    /// Whether it may send signals to a process of this real and saved user.
    pub const fn may_signal(&self, real: u32, saved: u32) -> bool {
        let ResIds { real: own, effective, .. } = self.user;
        self.has(linux::CAP_KILL) || effective == real || effective == saved || own == real || own == saved
    }
}

/// Changes numbers, and the one for files with them: that follows the effective one. Alone it is changed to a number
/// that the process has, and else stays, without an error.
fn changed(three: &mut ResIds, on_files: &mut Option<u32>, change: Change, wanted: [u32; 3], may: bool) -> Result<()> {
    if change == Change::OnFiles {
        let [number, ..] = wanted;
        if number != KEEP && (may || three.has(number) || *on_files == Some(number)) {
            *on_files = Some(number).filter(|number| *number != three.effective);
        }
        return Ok(());
    }
    let after = three.changed(change, wanted, may)?;
    // `setresuid` that keeps all keeps this one.
    if change != Change::Three || after != *three || wanted[1] != KEEP {
        *on_files = None;
    }
    *three = after;
    Ok(())
}
