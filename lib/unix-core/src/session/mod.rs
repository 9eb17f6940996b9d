//! What the session and its processes tell each other: the command, the record of the first process, the status page,
//! the map of process numbers, load averages.

pub mod command;
pub mod first_process;
pub mod loadavg;
pub mod pid_map;
pub mod status_page;
pub mod stored_gzip;
