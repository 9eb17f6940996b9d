//! Crash states of C-FFS: workloads on the file system and on the model, and the judgement of what a power cut leaves.

pub mod campaign;
pub mod decoder;
pub mod device;
pub mod image;
pub mod oracle;
pub mod workload;

#[path = "../../../../lib/cffs/tests/support/model.rs"]
pub mod model;
