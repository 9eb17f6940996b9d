//! All that kernel and user both see.

#![no_std]
#![forbid(unsafe_code)]
