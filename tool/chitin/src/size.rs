//! Sizes of memory as people write them.

/// The MiB in `64M`, `2G` or a plain number, which counts MiB.
///
/// # Errors
/// When it is no such size.
pub fn mebibytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.trim_end_matches(['b', 'B', 'i']) {
        rest if rest.ends_with(['g', 'G']) => (&rest[..rest.len() - 1], 1024),
        rest if rest.ends_with(['m', 'M']) => (&rest[..rest.len() - 1], 1),
        rest => (rest, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    number.filter(|size| *size > 0).ok_or_else(|| format!("{text:?} is no size: write 64M or 2G"))
}

/// Bytes of memory that this host has: what no machine's root can be larger than.
pub fn host_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.map_or(u64::MAX, |number| number << 10)
}

#[cfg(test)]
mod tests {
    use super::mebibytes;

    #[test]
    fn sizes_are_read_and_nonsense_is_not() {
        for (text, size) in [("64M", 64), ("2G", 2048), ("6GiB", 6144), ("128", 128), ("1g", 1024)] {
            assert_eq!(mebibytes(text), Ok(size));
        }
        for text in ["", "M", "0", "1K", "-1M", "1.5G", "99999999999999999999G"] {
            assert!(mebibytes(text).is_err(), "{text}");
        }
    }
}
