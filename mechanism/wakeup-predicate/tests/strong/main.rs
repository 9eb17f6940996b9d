//! The strong tests: against naive models, over generated predicates, and by row of
//! the fault matrix. A failing run prints its seed; `CHITIN_SEED` repeats it, and
//! `CHITIN_FULL=1` runs the long ones.

mod check;
mod clock;
mod compile;
mod evaluate;
mod support;
