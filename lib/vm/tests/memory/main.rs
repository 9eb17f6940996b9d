//! Areas against a naive model, and faults, fork and protection over simulated pages.

mod areas;
mod begin;
mod changes;
mod evicted;
mod faults;
mod files;
mod fork;
mod frames;
mod journal;
mod lazy_free;
mod long_work;
mod machine;
