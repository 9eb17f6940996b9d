//! The same binary on Linux and on Chitin, output compared.

#![forbid(unsafe_code)]
