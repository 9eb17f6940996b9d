//! Descriptors: the table of numbers, the open descriptions behind them, and what these are open on.

pub mod async_io;
pub mod block_device;
pub(crate) mod console;
pub mod events;
pub mod exported_pages;
pub mod fd_pins;
pub mod file_ops;
pub(crate) mod file_room;
pub mod object;
pub mod open_file;
pub(crate) mod open_node;
pub mod poll_event;
pub(crate) mod readiness;
pub mod shared_record;
pub mod sockets;
