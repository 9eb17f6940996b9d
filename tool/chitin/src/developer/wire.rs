//! Options of `./chitin wire`, and how chances and delays are written.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// The longest delay that a user may ask for.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Args)]
pub struct WireOptions {
    /// Unix socket at which machines join: ./chitin run --network wire:SOCKET
    #[arg(value_name = "SOCKET", required = true)]
    pub sockets: Vec<PathBuf>,
    /// Join a tap of the host, made with: ip tuntap add dev NAME mode tap
    #[arg(long = "tap", value_name = "NAME")]
    pub taps: Vec<String>,
    /// Add a machine that serves the others. 10.0.2.2 leases addresses (DHCP), answers names below test (DNS) and
    /// pings. TCP port 7 echoes. Port 9 answers the SHA-256 of what it got. Port 19 sends as many bytes as a line asks
    /// for
    #[arg(long)]
    pub peer: bool,
    /// Chance that a frame is lost
    #[arg(long, value_name = "CHANCE", default_value = "0%", value_parser = chance)]
    pub loss: Chance,
    /// Chance that a frame arrives twice
    #[arg(long, value_name = "CHANCE", default_value = "0%", value_parser = chance)]
    pub duplicate: Chance,
    /// Chance that later frames overtake a frame
    #[arg(long, value_name = "CHANCE", default_value = "0%", value_parser = chance)]
    pub reorder: Chance,
    /// Chance that a bit of a packet changes
    #[arg(long, value_name = "CHANCE", default_value = "0%", value_parser = chance)]
    pub corrupt: Chance,
    /// How long a frame is under way
    #[arg(long, value_name = "SPAN", default_value = "0us", value_parser = span)]
    pub delay: Duration,
    /// What the chances are drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// End when the last machine has left, instead of by a signal
    #[arg(long)]
    pub once: bool,
}

/// A chance in thousandths of a percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chance(u32);

impl Chance {
    /// Thousandths of a percent in all.
    pub const WHOLE: u64 = 100_000;

    pub const fn of_percent(percent: u32) -> Self {
        Self(percent * 1_000)
    }

    /// Of [`Self::WHOLE`].
    pub fn parts(self) -> u64 {
        self.0.into()
    }
}

/// `5`, `5%` or `0.1%`.
pub fn chance(text: &str) -> Result<Chance, String> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).parse().ok();
    match number {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(Chance((percent * 1_000.0).round() as u32)),
        _ => Err(format!("{text:?} is no chance: chances are 0% to 100%, as in 0.1%")),
    }
}

/// `10ms`, `250us` or `1s`.
pub fn span(text: &str) -> Result<Duration, String> {
    let at = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let number = number.parse().ok();
    let span = number.and_then(|number| match unit {
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    });
    let wrong = || format!("{text:?} is no delay: delays are 0us to 60s, as in 10ms");
    span.filter(|span| *span <= LONGEST).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_and_delays_are_read() {
        assert_eq!(chance("0.1%"), Ok(Chance(100)));
        assert_eq!(chance("100"), Ok(Chance(100_000)));
        assert!(["", "%", "-1", "101", "nan", "inf", "a"].iter().all(|wrong| chance(wrong).is_err()));
        assert_eq!(span("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(span("60s"), Ok(Duration::from_secs(60)));
        assert!(["", "ms", "5", "-1ms", "61s", "1h", "1.5ms"].iter().all(|wrong| span(wrong).is_err()));
    }
}
