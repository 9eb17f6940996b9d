//! Runs code that the compilers emitted, under guard pages.

