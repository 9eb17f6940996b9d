//! A pipe without its pages: the ring of bytes (`ring`), the ring of packets (`packets`), and who has its ends
//! (`end_owners`).

pub mod end_owners;
pub mod packets;
pub mod ring;
