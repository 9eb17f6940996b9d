//! All reports of a run, and what they say about a row of a table.

use super::boot::System;
use super::catalogue::{Catalogue, Kind, Row, split};
use super::cost::{self, Cost};
use super::report::{Clock, Report};

/// What one program said on one system by one clock.
#[derive(Clone, Debug)]
pub struct Measured {
    pub system: System,
    pub clock: Clock,
    pub report: Report,
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub struct Results {
    pub measured: Vec<Measured>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Busy instructions, by the counting clock.
    Instructions,
    /// The estimate for silicon, in cycles.
    Silicon,
    /// Nanoseconds outside of the emulator.
    Wall,
    /// The same on the plain CPU.
    PlainWall,
}

pub const MEASURES: [Measure; 4] = [Measure::Instructions, Measure::Silicon, Measure::Wall, Measure::PlainWall];

impl Measure {
    pub fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Silicon => "silicon estimate",
            Self::Wall => "wall ns",
            Self::PlainWall => "wall ns, plain CPU",
        }
    }
}

impl Measure {
    /// The clock that it is taken by.
    pub fn clock(self) -> Clock {
        match self {
            Self::Instructions | Self::Silicon => Clock::Instructions,
            Self::Wall => Clock::Nanoseconds,
            Self::PlainWall => Clock::PlainNanoseconds,
        }
    }
}

/// What a system has in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Measured {
        cost: Cost,
        /// The program did not come to its end.
        partial: bool,
    },
    /// Why there is none.
    Missing(String),
    /// This system has no such operation.
    NotOffered,
}

impl Value {
    pub fn cost(&self) -> Option<Cost> {
        match self {
            Self::Measured { cost, .. } => Some(*cost),
            _ => None,
        }
    }
}

impl Results {
    pub fn report(&self, system: System, clock: Clock, program: &str) -> Option<&Report> {
        let fits = |it: &&Measured| it.system == system && it.clock == clock && it.report.program == program;
        self.measured.iter().find(fits).map(|measured| &measured.report)
    }

    /// Whether a system was measured at all by a clock.
    pub fn has(&self, system: System, clock: Clock) -> bool {
        self.measured.iter().any(|measured| measured.system == system && measured.clock == clock)
    }

    /// What `system` has in `row`.
    pub fn value(&self, system: System, measure: Measure, row: &Row) -> Value {
        let (reference, minus) = match system {
            System::Chitin => (&row.chitin, &row.chitin_minus),
            System::LinuxTuned | System::LinuxStock => (&row.linux, &row.linux_minus),
        };
        let Some(reference) = reference else { return Value::NotOffered };
        let (program, figure) = split(reference);
        let clock = measure.clock();
        let Some(report) = self.report(system, clock, program) else {
            return Value::Missing("not run".into());
        };
        let minus = minus.as_deref();
        let cost = match measure {
            Measure::Silicon => cost::silicon(report, figure, minus).map(Cost::certain),
            Measure::Instructions | Measure::Wall | Measure::PlainWall => cost::cost(report, figure, minus),
        };
        match cost {
            Some(cost) => Value::Measured { cost, partial: report.broken.is_some() },
            None => Value::Missing(why(report, figure, measure)),
        }
    }

    /// How many times `other` has what Chitin has.
    pub fn ratio(&self, other: System, measure: Measure, row: &Row) -> Option<f64> {
        let theirs = self.value(other, measure, row).cost()?.median;
        let ours = self.value(System::Chitin, measure, row).cost()?.median;
        (ours > 0.0).then(|| theirs / ours)
    }

    /// Programs whose counting clock was off: nothing of the run counts then.
    pub fn miscalibrations(&self) -> Vec<String> {
        self.measured.iter().filter_map(|measured| measured.report.miscalibration(measured.clock)).collect()
    }
}

fn why(report: &Report, figure: &str, measure: Measure) -> String {
    let absent = report.absent.iter().find(|(name, _)| name == figure).map(|(_, why)| why.clone());
    let unseen = || {
        (measure == Measure::Silicon && report.figure(figure).is_some()).then(|| "events were not counted".to_owned())
    };
    absent.or_else(unseen).or_else(|| report.broken.clone()).unwrap_or_else(|| "not reported".into())
}

/// Whether Chitin's side of a row is a program that runs on Chitin alone.
pub fn is_native(catalogue: &Catalogue, row: &Row) -> bool {
    let program = row.chitin.as_deref().and_then(|reference| catalogue.program(split(reference).0));
    program.is_some_and(|program| program.kind != Kind::Linux)
}

#[cfg(test)]
pub mod tests {
    use super::super::events::Window;
    use super::super::report::Figure;
    use super::*;

    /// A figure called `getpid` of a program called `calls`: so many instructions (or nanoseconds) for one operation.
    pub fn measured(system: System, clock: Clock, samples: &[u64]) -> Measured {
        let figure = Figure {
            name: "getpid".into(),
            operations: 1,
            samples: samples.to_vec(),
            windows: vec![Window { syscalls: 1, ..Window::default() }; samples.len()],
            ..Figure::default()
        };
        Measured { system, clock, report: Report { figures: vec![figure], ..Report::of("calls") } }
    }

    /// A row of that figure in both systems.
    pub fn row() -> Row {
        let text = "operation = 'getpid'\nlinux = 'calls/getpid'\nchitin = 'calls/getpid'\npaper = { theirs = 21.3, own = 1.6 }\naim = 10";
        toml::from_str(text).unwrap()
    }

    pub fn results() -> Results {
        let measured = vec![
            measured(System::LinuxTuned, Clock::Instructions, &[300, 300, 300]),
            measured(System::LinuxTuned, Clock::Nanoseconds, &[400, 500, 900]),
            measured(System::Chitin, Clock::Instructions, &[20, 20, 25]),
            measured(System::Chitin, Clock::Nanoseconds, &[50, 50, 50]),
        ];
        Results { measured }
    }

    #[test]
    fn ratios_are_of_medians_in_each_measure() {
        let (results, row) = (results(), row());
        let ratio = |measure| results.ratio(System::LinuxTuned, measure, &row).unwrap();
        assert_eq!(ratio(Measure::Instructions), 15.0);
        assert_eq!(ratio(Measure::Silicon), 400.0 / 120.0);
        assert_eq!(ratio(Measure::Wall), 10.0);
        assert_eq!(results.ratio(System::LinuxStock, Measure::Wall, &row), None);
    }

    #[test]
    fn what_is_missing_says_why() {
        let (mut results, mut row) = (results(), row());
        let value = |results: &Results, row: &Row| results.value(System::Chitin, Measure::Instructions, row);
        assert!(matches!(value(&results, &row), Value::Measured { partial: false, .. }));
        results.measured[2].report.broken = Some("the time limit passed".into());
        assert!(matches!(value(&results, &row), Value::Measured { partial: true, .. }));
        row.chitin = Some("calls/other".into());
        assert_eq!(value(&results, &row), Value::Missing("the time limit passed".into()));
        results.measured[2].report.absent.push(("other".into(), "ENOSYS".into()));
        assert_eq!(value(&results, &row), Value::Missing("ENOSYS".into()));
        row.chitin = None;
        assert_eq!(value(&results, &row), Value::NotOffered);
    }
}
