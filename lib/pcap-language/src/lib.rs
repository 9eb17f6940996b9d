//! The pcap filter expression language, translated to packet-filter.

#![forbid(unsafe_code)]
