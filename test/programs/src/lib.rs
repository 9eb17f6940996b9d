//! One-purpose guests, many of them evil.

#![no_std]
