//! Time of a CPU: where threads run (`wait::cpu_placement`), which run before others (`priority`), what each has used
//! (`cpu_time`), and changes of these (`change`).

pub(crate) mod change;
pub mod cpu_time;
pub mod priority;
