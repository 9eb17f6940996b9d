//! What every library OS stands on.

#![no_std]
