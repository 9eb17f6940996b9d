//! The kernel's trace: what a kernel that was built with the feature `trace`
//! writes to the serial line when it stops, made readable.

use std::fmt;

/// One entry into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Ticks of the time stamp counter. First, so that entries of all CPUs sort by time.
    stamp: u64,
    cpu: u64,
    cause: u64,
    environment: u64,
    rip: u64,
}

/// From here on a cause is an exception or an interrupt: its vector above this.
const VECTORS: u64 = 0x100;

impl Entry {
    /// Reads `trace CPU STAMP CAUSE ENVIRONMENT RIP`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("trace ")?.split_ascii_whitespace();
        let mut number = || words.next()?.parse().ok();
        let (cpu, stamp, cause, environment) = (number()?, number()?, number()?, number()?);
        let rip = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
        words.next().is_none().then_some(Self { stamp, cpu, cause, environment, rip })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stamp, cpu, cause, environment, rip } = *self;
        write!(formatter, "[kernel] {stamp:>14} CPU {cpu} environment {environment} at {rip:#x}: ")?;
        let call = abi::syscall::TABLE.iter().find(|row| row.number == cause);
        match (call, cause.checked_sub(VECTORS)) {
            (Some(row), _) => formatter.write_str(row.name),
            (None, Some(vector)) => write!(formatter, "vector {vector:#x}"),
            (None, None) => write!(formatter, "unknown call {cause}"),
        }
    }
}

/// The entries that a serial line tells of, of all CPUs in the order of time, and what else it says.
pub fn split(serial: &str) -> (Vec<Entry>, String) {
    let mut entries = Vec::new();
    let mut rest = String::new();
    for line in serial.split_inclusive('\n') {
        match Entry::parse(line.trim_end()) {
            Some(entry) => entries.push(entry),
            None => rest.push_str(line),
        }
    }
    entries.sort_unstable();
    (entries, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_all_cpus_come_in_the_order_of_time() {
        let serial = "chitin: boots\r\ntrace 0 30 0 5 0x401000\r\ntrace 1 20 368 7 0x402000\r\ntrace 1 2 x\n";
        let (entries, rest) = split(serial);
        assert_eq!(rest, "chitin: boots\r\ntrace 1 2 x\n");
        let text: Vec<String> = entries.iter().map(Entry::to_string).collect();
        assert_eq!(text[0], "[kernel]             20 CPU 1 environment 7 at 0x402000: vector 0x70");
        assert!(text[1].ends_with("CPU 0 environment 5 at 0x401000: null"), "{}", text[1]);
        assert!(Entry::parse("trace 0 1 200 3 0x0").unwrap().to_string().ends_with("unknown call 200"));
    }
}
