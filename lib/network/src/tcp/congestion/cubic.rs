//! CUBIC (RFC 9438) in integers: C = 0.4, beta = 0.7, time in milliseconds, windows in bytes.

use crate::time::Time;

#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    /// Window before the last loss, reduced further by fast convergence.
    maximum: u32,
    /// Window at the beginning of this epoch.
    start_window: u32,
    /// What Reno would have (RFC 9438, 4.3), and its bytes short of a segment.
    reno: u32,
    reno_credit: u32,
    /// [`Time::NEVER`]: no epoch yet.
    epoch: Time,
    /// Milliseconds from the beginning of the epoch to the plateau.
    plateau: u32,
}

impl Default for Cubic {
    fn default() -> Self {
        Self { maximum: 0, start_window: 0, reno: 0, reno_credit: 0, epoch: Time::NEVER, plateau: 0 }
    }
}

impl Cubic {
    /// The reduced window. Fast convergence (4.7): a window below the last maximum yields more.
    pub fn lost(&mut self, window: u32) -> u32 {
        self.maximum = if window < self.maximum { scale(window, 17, 20) } else { window };
        self.epoch = Time::NEVER;
        scale(window, 7, 10)
    }

    /// The window that the curve has one round trip from now.
    pub fn target(&mut self, window: u32, bytes: u32, segment: u32, now: Time, round_trip: u32) -> u32 {
        if self.epoch.is_never() {
            self.begin(window, segment, now);
        }
        self.grow_reno(window, bytes, segment);
        let elapsed = (now.since(self.epoch) + u64::from(round_trip)) / 1_000;
        let curve = self.curve(elapsed, segment);
        // 4.2: not below the window, not beyond one and a half of it.
        curve.clamp(window, window.saturating_add(window / 2)).max(self.reno)
    }

    /// The window stays; its curve begins anew after the pause.
    pub fn idle(&mut self) {
        self.epoch = Time::NEVER;
    }

    fn begin(&mut self, window: u32, segment: u32, now: Time) {
        self.epoch = now;
        self.start_window = window;
        (self.reno, self.reno_credit) = (window, 0);
        self.maximum = self.maximum.max(window);
        let segments_1000 = u64::from(self.maximum - window) * 1_000 / u64::from(segment.max(1));
        // K = cbrt((W_max - cwnd) / C) seconds = cbrt(thousandths of segments / 0.4 * 10^6) milliseconds.
        self.plateau = cube_root(segments_1000 * 2_500_000);
    }

    /// W_max + C (t - K)^3, in bytes.
    fn curve(&self, elapsed: u64, segment: u32) -> u32 {
        let distance = i128::from(elapsed.min(1 << 30)) - i128::from(self.plateau);
        let bytes = distance.pow(3) * i128::from(segment) * 4 / 10_000_000_000;
        u32::try_from((i128::from(self.maximum) + bytes).max(0)).unwrap_or(u32::MAX)
    }

    /// Alpha is 3 (1 - beta) / (1 + beta) = 9/17 until the old maximum is reached, then 1.
    fn grow_reno(&mut self, window: u32, bytes: u32, segment: u32) {
        let step = if self.reno < self.maximum { u64::from(segment) * 9 / 17 } else { u64::from(segment) };
        let growth = step * u64::from(bytes) + u64::from(self.reno_credit);
        let window = u64::from(window.max(1));
        self.reno = self.reno.saturating_add((growth / window) as u32);
        self.reno_credit = (growth % window) as u32;
    }
}

fn scale(window: u32, numerator: u64, denominator: u64) -> u32 {
    (u64::from(window) * numerator / denominator) as u32
}

/// The largest integer whose cube is not above `value`.
fn cube_root(value: u64) -> u32 {
    let mut root: u64 = 0;
    for bit in (0..22).rev() {
        let candidate: u64 = root | 1 << bit;
        if u128::from(candidate).pow(3) <= u128::from(value) {
            root = candidate;
        }
    }
    root as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots() {
        for (value, root) in [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3), (1_000_000, 100), (u64::MAX, 2_642_245)]
        {
            assert_eq!(cube_root(value), root, "{value}");
        }
    }
}
