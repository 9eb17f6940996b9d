//! Change of user: by a call (`change_user`), and by a set-id program, for which a process hands over to a fresh
//! environment (`setuid_handover`) that continues as the same process (`setuid_resume`).

pub mod change_user;
pub(super) mod setuid_handover;
pub(super) mod setuid_resume;
