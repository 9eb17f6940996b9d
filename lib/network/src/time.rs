//! Points in time and spans, in microseconds since boot.

/// Spans are plain microseconds.
pub const MILLISECOND: u64 = 1_000;
pub const SECOND: u64 = 1_000_000;

/// A point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(u64);

impl Time {
    /// The deadline of a timer that is not armed.
    pub const NEVER: Self = Self(u64::MAX);

    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    pub const fn micros(self) -> u64 {
        self.0
    }

    pub const fn millis(self) -> u64 {
        self.0 / MILLISECOND
    }

    /// Saturates at [`Time::NEVER`].
    #[must_use]
    pub const fn after(self, span: u64) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// The span from `earlier` to this time; 0 when `earlier` is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }
}
