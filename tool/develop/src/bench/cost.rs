//! What one operation costs, from the samples of a figure: the overhead of
//! measuring is subtracted, and what the samples differ by is kept.

use super::report::{Figure, Report};

/// The figure that every program measures first: nothing.
const OVERHEAD: &str = "overhead";

/// One operation, by one clock: instructions or nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Cost {
    fn scaled(self, factor: f64) -> Self {
        Self { median: self.median * factor, least: self.least * factor, most: self.most * factor }
    }

    fn minus(self, other: Self) -> Self {
        Self { median: self.median - other.median, least: self.least - other.median, most: self.most - other.median }
    }

    /// A cost without a spread.
    pub fn certain(value: f64) -> Self {
        Self { median: value, least: value, most: value }
    }

    /// Whether all samples gave the same.
    pub fn is_exact(&self) -> bool {
        self.least == self.most
    }
}

/// What measuring nothing takes in this program: the median of its samples.
pub fn overhead(report: &Report) -> f64 {
    report.figure(OVERHEAD).map_or(0.0, |figure| sorted(figure)[figure.samples.len() / 2] as f64)
}

/// The cost of an operation of `figure`, the loop or other frame `minus` taken off.
pub fn cost(report: &Report, figure: &str, minus: Option<&str>) -> Option<Cost> {
    let of = |name: &str| Some(raw(report.figure(name)?, overhead(report)));
    let cost = of(figure)?;
    Some(match minus {
        Some(frame) => cost.minus(of(frame)?),
        None => cost,
    })
}

fn raw(figure: &Figure, overhead: f64) -> Cost {
    let samples = sorted(figure);
    let value = |index: usize| (samples[index] as f64 - overhead).max(0.0);
    let all = Cost { median: value(samples.len() / 2), least: value(0), most: value(samples.len() - 1) };
    all.scaled(1.0 / figure.operations as f64)
}

/// The estimate for silicon: instructions, and what events take in addition, of the sample in the middle.
pub fn silicon(report: &Report, figure: &str, minus: Option<&str>) -> Option<f64> {
    let instructions = cost(report, figure, minus)?.median;
    let figure = report.figure(figure)?;
    let window = figure.windows.get(middle(figure))?;
    Some(instructions + window.surcharge() as f64 / figure.operations as f64)
}

/// The index of the sample in the middle by size.
pub fn middle(figure: &Figure) -> usize {
    let mut order: Vec<usize> = (0..figure.samples.len()).collect();
    order.sort_by_key(|index| figure.samples[*index]);
    order[order.len() / 2]
}

fn sorted(figure: &Figure) -> Vec<u64> {
    let mut samples = figure.samples.clone();
    samples.sort_unstable();
    samples
}

#[cfg(test)]
mod tests {
    use super::super::events::Window;
    use super::*;

    fn report() -> Report {
        let figure = |name: &str, operations, samples: &[u64]| Figure {
            name: name.into(),
            operations,
            samples: samples.to_vec(),
            windows: vec![Window { syscalls: operations, ..Window::default() }; samples.len()],
            ..Figure::default()
        };
        let figures = vec![
            figure("overhead", 1, &[15, 15, 15]),
            figure("loop", 100, &[215, 215, 215]),
            figure("call", 100, &[30_015, 39_015, 30_015]),
        ];
        Report { figures, ..Report::of("p") }
    }

    #[test]
    fn overhead_and_frame_are_subtracted_and_the_spread_is_kept() {
        let report = report();
        let plain = cost(&report, "call", None).unwrap();
        assert_eq!(plain, Cost { median: 300.0, least: 300.0, most: 390.0 });
        assert!(!plain.is_exact());
        let net = cost(&report, "call", Some("loop")).unwrap();
        assert_eq!(net.median, 298.0);
        assert!(cost(&report, "loop", None).unwrap().is_exact());
        assert!(cost(&report, "none", None).is_none());
        assert!(cost(&report, "call", Some("none")).is_none());
    }

    #[test]
    fn the_estimate_adds_what_events_take() {
        assert_eq!(silicon(&report(), "call", None), Some(400.0));
        let mut blind = report();
        blind.figures[2].windows.clear();
        assert_eq!(silicon(&blind, "call", None), None);
    }
}
