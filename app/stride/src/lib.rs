//! Application-level stride scheduler (exokernel-sosp95, Figure 3).

#![no_std]
#![forbid(unsafe_code)]
