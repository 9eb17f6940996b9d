//! The Cheetah web server. Comes with the network issue.

#![no_std]
#![forbid(unsafe_code)]
