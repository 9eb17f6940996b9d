//! TCP (RFC 9293): blocks, input, output, and the engine that owns them.

pub mod arrival;
pub mod block;
pub mod challenge;
pub mod congestion;
pub mod cookie;
pub mod demux;
pub mod engine;
pub mod export;
pub mod information;
pub mod input;
pub mod listen;
pub mod output;
pub mod reassembly;
pub mod recovery;
pub mod round_trip;
pub mod scoreboard;
pub mod segment;
pub mod send_queue;
pub mod sequence;
pub mod time_wait;
pub mod timer;
pub mod urgent;
