//! Costs that may have grown: `bench/accepted.toml`. `./chitin bench --compare` fails for a row of Chitin that takes
//! over 3% more instructions than in the last kept run. An entry accepts its row up to a number, and says why.

use std::fs;

use serde::Deserialize;

use chitin::failure::{Context, Failure, Result};
use chitin::workspace::Workspace;

use super::boot::System;
use super::record::Line;
use super::report::Clock;
use super::sheet::number;

const FILE: &str = "bench/accepted.toml";
/// A row that grew by no more than this share is as before.
const MARGIN: f64 = 0.03;

/// What is accepted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accepted {
    #[serde(default)]
    accepted: Vec<Entry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// `PROGRAM/FIGURE`.
    figure: String,
    /// The most instructions that it may take.
    most: f64,
    why: String,
}

impl Accepted {
    /// # Errors
    /// When the list does not read, or an entry gives no reason.
    pub fn read(workspace: &Workspace) -> Result<Self> {
        Self::parse(&fs::read_to_string(workspace.root().join(FILE)).context(FILE)?)
    }

    fn parse(text: &str) -> Result<Self> {
        let all: Self = toml::from_str(text).context(FILE)?;
        match all.accepted.iter().find(|entry| entry.why.trim().is_empty()) {
            Some(entry) => Err(Failure::new(format!("{FILE}: {} gives no reason: say why in `why`", entry.figure))),
            None => Ok(all),
        }
    }

    /// One line for each row of Chitin that got worse and that no entry accepts.
    pub fn regressions(&self, before: &[Line], now: &[Line]) -> Vec<String> {
        let counted = now.iter().filter(|line| line.system == System::Chitin && line.clock == Clock::Instructions);
        let whole = counted.filter(|line| line.partial.is_none() && line.points.is_empty());
        whole.filter_map(|line| self.regression(before, line)).collect()
    }

    fn regression(&self, before: &[Line], now: &Line) -> Option<String> {
        let is_same = |other: &&Line| {
            (other.system, other.clock, &other.program, &other.figure)
                == (now.system, now.clock, &now.program, &now.figure)
        };
        let then = before.iter().find(is_same)?.median;
        let figure = format!("{}/{}", now.program, now.figure);
        let most = self.accepted.iter().filter(|entry| entry.figure == figure).map(|entry| entry.most);
        let limit = most.fold(then * (1.0 + MARGIN), f64::max);
        (now.median > limit && now.median - then >= 1.0).then(|| {
            let percent = (now.median / then.max(f64::MIN_POSITIVE) - 1.0) * 100.0;
            format!(
                "{figure}: {} instructions before, {} now ({percent:+.1}%): win them back, or say why in {FILE}",
                number(then),
                number(now.median)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Origin, lines};
    use super::super::results::Results;
    use super::super::results::tests::measured;
    use super::*;

    fn of(system: System, clock: Clock, instructions: u64) -> Vec<Line> {
        let measured = vec![measured(system, clock, &[instructions; 3])];
        lines(&Results { measured }, &Origin::default())
    }

    fn found(accepted: &str, before: u64, now: u64) -> usize {
        let [before, now] = [before, now].map(|count| of(System::Chitin, Clock::Instructions, count));
        Accepted::parse(accepted).expect("it reads").regressions(&before, &now).len()
    }

    #[test]
    fn a_row_that_grew_by_more_than_three_percent_is_found() {
        assert_eq!(found("", 1000, 1029), 0);
        assert_eq!(found("", 1000, 1032), 1);
        assert_eq!(found("", 1000, 10), 0, "less is no regression");
    }

    #[test]
    fn an_entry_accepts_its_row_up_to_its_number() {
        let entry = |figure: &str, most: u64| {
            format!("[[accepted]]\nfigure = \"{figure}\"\nmost = {most}\nwhy = \"a cache went\"\n")
        };
        let name = {
            let line = &of(System::Chitin, Clock::Instructions, 1)[0];
            format!("{}/{}", line.program, line.figure)
        };
        assert_eq!(found(&entry(&name, 1100), 1000, 1100), 0);
        assert_eq!(found(&entry(&name, 1100), 1000, 1101), 1);
        assert_eq!(found(&entry("other/row", 1100), 1000, 1100), 1);
        assert!(Accepted::parse(&entry(&name, 1).replace("a cache went", " ")).is_err(), "without a reason");
    }

    #[test]
    fn only_what_chitin_takes_is_looked_at_and_only_by_the_counting_clock() {
        for (system, clock) in [(System::LinuxTuned, Clock::Instructions), (System::Chitin, Clock::Nanoseconds)] {
            let [before, now] = [1000, 2000].map(|count| of(system, clock, count));
            assert!(Accepted::default().regressions(&before, &now).is_empty());
        }
    }
}
