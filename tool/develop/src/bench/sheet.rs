//! Tables as text: for a terminal with aligned columns, for a page as
//! Markdown.

use super::boot::System;
use super::catalogue::{Catalogue, Row, Table};
use super::cost::Cost;
use super::report::{Clock, Report};
use super::results::{MEASURES, Measure, Results, Value, is_native};

/// A table whose cells are text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    pub heading: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// What stands below it: why figures are missing.
    pub notes: Vec<String>,
}

/// What stands where a system has nothing.
const NONE: &str = "–";

impl Sheet {
    /// Puts a table of the catalogue and what was measured together.
    pub fn of(table: &Table, catalogue: &Catalogue, results: &Results) -> Self {
        let [theirs, own] = &table.systems;
        let columns = ["operation", "measure", "Linux", "Chitin", "ratio", "stock Linux"];
        let mut header: Vec<String> = columns.map(str::to_owned).to_vec();
        header.extend([theirs.clone(), own.clone(), "their ratio".into(), "aim".into()]);
        let mut sheet = Self {
            heading: format!("{} ({}; theirs: {})", table.title, table.source, table.unit),
            header,
            rows: Vec::new(),
            notes: Vec::new(),
        };
        for row in &table.row {
            let native = if is_native(catalogue, row) { " (native)" } else { "" };
            for measure in MEASURES.into_iter().filter(|measure| results.has(System::Chitin, measure.clock())) {
                let cells = sheet.cells(row, measure, native, results);
                sheet.rows.push(cells);
            }
        }
        sheet.notes.extend(ends_of_curves(table, results));
        sheet
    }

    fn cells(&mut self, row: &Row, measure: Measure, native: &str, results: &Results) -> Vec<String> {
        let first = measure == MEASURES[0];
        let mut value = |system| self.cell(row, measure, &results.value(system, measure, row));
        let (linux, chitin) = (value(System::LinuxTuned), value(System::Chitin));
        let stock = if row.headline && results.has(System::LinuxStock, measure.clock()) {
            value(System::LinuxStock)
        } else {
            String::new()
        };
        let ratio = results.ratio(System::LinuxTuned, measure, row);
        let aim = match measure {
            Measure::Instructions => row.aim,
            Measure::Silicon => row.aim_silicon,
            Measure::Wall | Measure::PlainWall => None,
        };
        let (theirs, own) = (row.paper.theirs, row.paper.own);
        let their_ratio = row.paper.ratio();
        let only_first = |text: String| if first { text } else { String::new() };
        vec![
            only_first(format!("{}{native}", row.operation)),
            measure.name().into(),
            linux,
            chitin,
            ratio.map_or_else(String::new, factor),
            stock,
            only_first(theirs.map_or_else(|| NONE.into(), |figure| figure.to_string())),
            only_first(own.map_or_else(|| NONE.into(), |figure| figure.to_string())),
            only_first(their_ratio.map_or_else(String::new, factor)),
            aim.map_or_else(String::new, |aim| verdict(aim, ratio)),
        ]
    }

    fn cell(&mut self, row: &Row, measure: Measure, value: &Value) -> String {
        match value {
            Value::Measured { cost, partial: false } => amount(*cost, measure),
            Value::Measured { cost, partial: true } => format!("{} (partial)", amount(*cost, measure)),
            Value::NotOffered => NONE.into(),
            Value::Missing(why) => {
                let note = format!("{}: {why}", row.operation);
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
                "missing".into()
            }
        }
    }

    /// With aligned columns.
    pub fn for_terminal(&self) -> String {
        let all = || std::iter::once(&self.header).chain(&self.rows);
        let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cell = |(column, text): (usize, &String)| {
                let pad = " ".repeat(widths[column] - text.chars().count());
                if column < 2 { format!("{text}{pad}") } else { format!("{pad}{text}") }
            };
            row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let mut lines = vec![self.heading.clone()];
        lines.extend((!self.rows.is_empty()).then(|| line(&self.header)));
        lines.extend(self.rows.iter().map(line));
        lines.extend(self.notes.iter().map(|note| format!("  {note}")));
        lines.join("\n") + "\n"
    }

    /// For a page.
    pub fn for_page(&self) -> String {
        let line = |cells: &Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(&self.header);
        text.push_str(&"|---".repeat(self.header.len()));
        text.push_str("|\n");
        text.extend(self.rows.iter().map(line));
        if !self.notes.is_empty() {
            text.push_str(&format!("\nMissing: {}.\n", self.notes.join("; ")));
        }
        text
    }
}

/// Where the curves of a table that is a figure end.
fn ends_of_curves(table: &Table, results: &Results) -> Vec<String> {
    let program = table.curves.as_ref().map(|curves| curves.program.as_str());
    let report = program.and_then(|program| results.report(System::Chitin, Clock::Instructions, program));
    let curves = report.map(Report::curves).unwrap_or_default();
    let end = |(name, points): (String, Vec<(u64, u64)>)| {
        let (x, y) = points.last().copied().unwrap_or_default();
        format!("{name} ends at {} after {}", number(y as f64), number(x as f64))
    };
    curves.into_iter().map(end).collect()
}

/// A cost with its spread, unless all samples agree.
pub fn amount(cost: Cost, measure: Measure) -> String {
    if cost.is_exact() || (measure == Measure::Instructions && number(cost.least) == number(cost.most)) {
        return number(cost.median);
    }
    format!("{} ({}–{})", number(cost.median), number(cost.least), number(cost.most))
}

/// A number with its thousands apart; small ones with a digit after the point where it says something.
pub fn number(value: f64) -> String {
    if value < 100.0 && (value - value.round()).abs() >= 0.05 {
        return format!("{value:.1}");
    }
    let digits = format!("{:.0}", value.max(0.0));
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A ratio, to two digits.
pub fn factor(ratio: f64) -> String {
    if ratio >= 9.95 { number(ratio.round()) } else { format!("{ratio:.1}") }
}

/// The aim, and whether a ratio meets it.
pub fn verdict(aim: f64, ratio: Option<f64>) -> String {
    match ratio {
        Some(ratio) if ratio >= aim => format!("{aim}, met"),
        Some(_) => format!("{aim}, below"),
        None => aim.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{results, row};
    use super::*;

    fn sheet() -> Sheet {
        let table = Table {
            name: "t".into(),
            title: "Calls".into(),
            source: "a paper, Table 4".into(),
            unit: "µs".into(),
            systems: ["Ultrix".into(), "Aegis".into()],
            note: String::new(),
            quick: true,
            row: vec![row(), Row { operation: "other".into(), linux: Some("calls/other".into()), aim: None, ..row() }],
            curves: None,
        };
        Sheet::of(&table, &Catalogue { program: Vec::new(), table: Vec::new() }, &results())
    }

    #[test]
    fn a_table_shows_every_measure_and_both_ratios() {
        let text = sheet().for_terminal();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("Calls (a paper, Table 4"));
        let instructions: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(
            instructions,
            ["getpid", "instructions", "300", "20", "(20–25)", "15", "21.3", "1.6", "13", "10,", "met"]
        );
        assert!(lines[3].contains("silicon estimate") && lines[3].contains("400") && lines[3].contains("3.3"));
        assert!(lines[4].contains("500 (400–900)"));
        assert!(lines[5].contains("missing") && text.contains("other: not reported"));
        let widths: Vec<usize> = lines[1..=4].iter().map(|line| line.find("  ").unwrap_or(0)).collect();
        assert!(widths.iter().all(|width| *width <= widths[0].max(9)));
    }

    #[test]
    fn a_page_has_as_many_cells_in_every_row() {
        let page = sheet().for_page();
        let bars = |line: &str| line.matches('|').count();
        let mut lines = page.lines().take_while(|line| !line.is_empty());
        let first = bars(lines.next().unwrap());
        assert!(lines.all(|line| bars(line) == first));
    }

    #[test]
    fn numbers_are_readable() {
        for (value, text) in
            [(0.0, "0"), (2.5, "2.5"), (17.0, "17"), (17.02, "17"), (999.6, "1,000"), (1_234_567.0, "1,234,567")]
        {
            assert_eq!(number(value), text);
        }
        assert_eq!((factor(1.04), factor(49.6), factor(1234.0)), ("1.0".into(), "50".into(), "1,234".into()));
        assert_eq!((verdict(50.0, Some(49.9)), verdict(50.0, Some(50.0))), ("50, below".into(), "50, met".into()));
    }
}
