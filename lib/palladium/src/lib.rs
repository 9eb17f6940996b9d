//! Hardware-protected extensions. Comes with the Palladium issue.

#![no_std]
