//! Time of a CPU: where threads run (`cpu_placement`), which run before others (`priority`), and what each has used
//! (`cpu_time`).

pub mod cpu_placement;
pub mod cpu_time;
pub mod priority;
