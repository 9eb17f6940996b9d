//! What moved since the last kept run. Counts that differ at all have moved;
//! times have when their ranges do not touch.

use super::record::Line;
use super::report::Clock;
use super::sheet::number;

/// What there is to tell, and since when.
pub fn told(before: &[Line], now: &[Line]) -> String {
    let since = before.first().map_or("the last kept run", |line| line.origin.date.as_str());
    match changes(before, now).as_slice() {
        [] => format!("nothing moved since {since}"),
        changes => format!("since {since}:\n{}", changes.join("\n")),
    }
}

/// One line for each figure that moved, and one for each that came or went.
fn changes(before: &[Line], now: &[Line]) -> Vec<String> {
    let mut said = Vec::new();
    for line in now {
        match before.iter().find(|other| is_same(other, line)) {
            None => said.push(format!("{}: new, {}", name(line), number(line.median))),
            Some(other) if moved(other, line) => said.push(format!(
                "{}: {} before, {} now ({:+.1}%)",
                name(line),
                number(other.median),
                number(line.median),
                (line.median / other.median.max(f64::MIN_POSITIVE) - 1.0) * 100.0
            )),
            Some(_) => {}
        }
    }
    // A figure is gone only where its program was run at all.
    let run = |line: &&Line| {
        now.iter()
            .any(|other| other.system == line.system && other.program == line.program && other.clock == line.clock)
    };
    let gone = before.iter().filter(run).filter(|line| !now.iter().any(|other| is_same(other, line)));
    said.extend(gone.map(|line| format!("{}: gone, {} before", name(line), number(line.median))));
    said
}

fn is_same(one: &Line, other: &Line) -> bool {
    let key = |line: &Line| (line.system, line.clock, line.program.clone(), line.figure.clone());
    key(one) == key(other)
}

fn moved(before: &Line, now: &Line) -> bool {
    if before.points != now.points {
        return now.clock == Clock::Instructions;
    }
    match now.clock {
        Clock::Instructions => number(before.median) != number(now.median),
        Clock::Nanoseconds | Clock::PlainNanoseconds => before.least > now.most || before.most < now.least,
    }
}

fn name(line: &Line) -> String {
    let system = serde_json::to_value(line.system).ok().and_then(|value| value.as_str().map(str::to_owned));
    let unit = match line.clock {
        Clock::Instructions => "instructions",
        Clock::Nanoseconds => "ns",
        Clock::PlainNanoseconds => "ns, plain CPU",
    };
    format!("{} {}/{} in {unit}", system.unwrap_or_default(), line.program, line.figure)
}

#[cfg(test)]
mod tests {
    use super::super::boot::System;
    use super::super::record::{Origin, lines};
    use super::super::results::Results;
    use super::super::results::tests::{measured, results};
    use super::*;

    fn of(samples: [&[u64]; 2]) -> Vec<Line> {
        let [instructions, nanoseconds] = samples;
        let measured = vec![
            measured(System::Chitin, Clock::Instructions, instructions),
            measured(System::Chitin, Clock::Nanoseconds, nanoseconds),
        ];
        lines(&Results { measured }, &Origin::default())
    }

    #[test]
    fn only_what_moved_is_told() {
        let before = of([&[20, 20, 20], &[50, 60, 70]]);
        assert!(changes(&before, &before).is_empty());
        assert_eq!(told(&before, &before), "nothing moved since ");
        assert!(changes(&before, &of([&[20, 20, 20], &[65, 80, 90]])).is_empty(), "the ranges touch");
        let said = changes(&before, &of([&[21, 21, 21], &[71, 80, 90]]));
        assert_eq!(said.len(), 2);
        assert_eq!(said[0], "chitin calls/getpid in instructions: 20 before, 21 now (+5.0%)");
    }

    #[test]
    fn what_came_and_what_went_is_told_where_the_program_ran() {
        let all = lines(&results(), &Origin::default());
        let mut renamed = all.clone();
        renamed[2].figure = "other".into();
        let said = changes(&all, &renamed);
        assert_eq!(
            said,
            ["chitin calls/other in instructions: new, 20", "chitin calls/getpid in instructions: gone, 20 before"]
        );
        assert!(changes(&all, &all[..1]).is_empty());
    }
}
