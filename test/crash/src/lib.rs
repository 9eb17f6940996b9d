//! Crash-consistency harness for XN and C-FFS. Comes with the disk issue.

#![forbid(unsafe_code)]
