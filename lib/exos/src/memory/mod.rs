//! A program's memory: areas (what each address means), frames (which page is there), and what a fault makes of them.

pub mod advice;
pub mod area;
mod copy_on_write;
mod cut;
pub mod difference;
pub mod draft;
pub mod fill;
pub mod frames;
pub mod journal;
pub mod leaf;
pub mod library;
pub mod locked;
pub mod remap;
mod sorted;
pub mod space;
pub mod start;
pub mod top_level;
