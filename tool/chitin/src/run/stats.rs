//! `--stats`: what a run cost, by environment, as a table or as JSON.
//!
//! The machine tells it in frames of `abi::host_channel::Kind::Cost`, several for an environment where it was used for
//! several programs. A figure that the machine does not count is a dash in the table and null in JSON.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use abi::host_channel::cost::{BOOT, BYTES, IDLE, NAMES, NOT_COUNTED, RATE, RUN, SWITCHES};
use serde_json::{Map, Value, json};

use crate::answer;
use crate::failure::{Context, Result};

/// Figures of the machine: their names on the channel, and those in a report.
const MACHINE: [(&str, &str); 5] =
    [(BOOT, "boot_ticks"), (RUN, "run_ticks"), (RATE, "ticks_per_second"), (IDLE, "idle_time"), (SWITCHES, "switches")];
/// Figures of the table, its heads, and how two of them come together in the line of all.
const COLUMNS: [(&str, &str, Sum); 8] = [
    ("time", "time", Sum::All),
    ("library_time", "in ExOS", Sum::All),
    ("slices", "slices", Sum::All),
    ("faults", "faults", Sum::All),
    ("upcalls", "upcalls", Sum::All),
    ("transfers", "transfers", Sum::All),
    ("waits", "waits", Sum::All),
    ("peak_pages", "peak pages", Sum::Largest),
];

/// What the line of all environments shows.
#[derive(Clone, Copy)]
enum Sum {
    All,
    Largest,
}

/// One environment.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    figures: [Option<u64>; NAMES.len()],
    program: String,
}

/// What the machine told.
#[derive(Debug, Default)]
pub struct Stats {
    costs: Vec<Cost>,
    machine: [Option<u64>; MACHINE.len()],
}

impl Cost {
    fn read(payload: &[u8]) -> Option<Self> {
        let (words, program) = payload.split_at_checked(BYTES)?;
        let mut figures = [None; NAMES.len()];
        for (figure, bytes) in figures.iter_mut().zip(words.as_chunks::<8>().0) {
            *figure = Some(u64::from_le_bytes(*bytes)).filter(|value| *value != NOT_COUNTED);
        }
        Some(Self { figures, program: String::from_utf8_lossy(program).into_owned() })
    }

    fn figure(&self, name: &str) -> Option<u64> {
        NAMES.iter().position(|other| *other == name).and_then(|index| self.figures[index])
    }

    fn to_json(&self) -> Value {
        let mut object: Map<String, Value> =
            NAMES.iter().zip(self.figures).map(|(name, figure)| ((*name).to_owned(), json!(figure))).collect();
        object.insert("program".into(), json!(self.program));
        Value::Object(object)
    }
}

impl Stats {
    /// Adds a frame; a short one is none of this interface, and is passed over.
    pub fn add(&mut self, payload: &[u8]) {
        self.costs.extend(Cost::read(payload));
    }

    /// Whether a measurement is a figure of the machine.
    pub fn measure(&mut self, name: &str, value: &str) -> bool {
        let Some(index) = MACHINE.iter().position(|(known, _)| *known == name) else { return false };
        self.machine[index] = value.parse().ok();
        true
    }

    /// Prints the report on standard error, or writes it into `file`. `counts`: the clock counted instructions.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn report(&self, file: Option<&Path>, host: Duration, counts: bool) -> Result<()> {
        let Some(file) = file else {
            answer::remark(self.to_text(host, counts));
            return Ok(());
        };
        let is_json = file.extension().is_some_and(|extension| extension == "json");
        let text = if is_json { format!("{:#}\n", self.to_json(host, counts)) } else { self.to_text(host, counts) };
        fs::write(file, text).context(format_args!("--stats {}", file.display()))
    }

    fn to_text(&self, host: Duration, counts: bool) -> String {
        let mut text = format!("chitin: the run took {:.3} s of the host", host.as_secs_f64());
        if let [Some(boot), Some(run), Some(rate), ..] = self.machine {
            let amount =
                |ticks: u64| if counts { amount(ticks, true) } else { amount(nanoseconds(ticks, rate), false) };
            let _ =
                write!(text, "; {} to the first user instruction, {} from there to the end", amount(boot), amount(run));
        }
        text.push('\n');
        let mut rows = vec![["environment", "program"].map(str::to_owned).to_vec()];
        rows[0].extend(COLUMNS.map(|(_, head, _)| head.to_owned()));
        rows.extend(self.costs.iter().map(|cost| row(cost, counts)));
        rows.push(self.sums(counts));
        text += &table(&rows);
        if !counts {
            text += "Instructions are counted with --icount.\n";
        }
        text
    }

    fn sums(&self, counts: bool) -> Vec<String> {
        let mut row = vec!["all".to_owned(), String::new()];
        for (name, _, sum) in COLUMNS {
            let figures = self.costs.iter().filter_map(|cost| cost.figure(name));
            let all = match sum {
                Sum::All => figures.sum(),
                Sum::Largest => figures.max().unwrap_or(0),
            };
            row.push(cell(name, Some(all), counts));
        }
        row
    }

    fn to_json(&self, host: Duration, counts: bool) -> Value {
        let mut machine: Map<String, Value> =
            MACHINE.iter().zip(self.machine).map(|((_, name), value)| ((*name).to_owned(), json!(value))).collect();
        machine.insert("host_seconds".into(), json!(host.as_secs_f64()));
        machine.insert("clock_counts_instructions".into(), json!(counts));
        let environments: Vec<Value> = self.costs.iter().map(Cost::to_json).collect();
        json!({ "machine": machine, "environments": environments })
    }
}

fn row(cost: &Cost, counts: bool) -> Vec<String> {
    let number = cost.figure("environment").map_or_else(String::new, |number| number.to_string());
    let figures = COLUMNS.map(|(name, _, _)| cell(name, cost.figure(name), counts));
    [vec![number, cost.program.clone()], figures.to_vec()].concat()
}

fn cell(name: &str, figure: Option<u64>, counts: bool) -> String {
    match figure {
        None => "-".into(),
        Some(value) if name.ends_with("time") => amount(value, counts),
        Some(value) => value.to_string(),
    }
}

/// Nanoseconds, or instructions: by the counting clock each takes one.
fn amount(value: u64, counts: bool) -> String {
    if counts {
        format!("{value} instructions")
    } else {
        format!("{}.{:03} ms", value / 1_000_000, value / 1000 % 1000)
    }
}

fn nanoseconds(ticks: u64, rate: u64) -> u64 {
    u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(rate.max(1))).unwrap_or(u64::MAX)
}

/// Columns as wide as what stands in them, numbers to the right.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if index == 1 { write!(text, "{cell:<width$}  ") } else { write!(text, "{cell:>width$}  ") };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> Stats {
        let mut stats = Stats::default();
        for (number, program) in [(5_u64, "sh"), (6, "true")] {
            let mut payload: Vec<u8> =
                [number, 1, 2_500_000, NOT_COUNTED, 3, 4, 5, 6, 7, number * 10].map(u64::to_le_bytes).concat();
            payload.extend(program.bytes());
            stats.add(&payload);
        }
        stats.add(b"short");
        for (name, value) in [(BOOT, "4000000"), (RUN, "10000000"), (RATE, "2000000000")] {
            assert!(stats.measure(name, value));
        }
        assert!(!stats.measure("else", "1"));
        stats
    }

    #[test]
    fn the_table_has_a_line_for_each_environment_and_one_for_all() {
        let text = told().to_text(Duration::from_millis(1500), false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "chitin: the run took 1.500 s of the host; 2.000 ms to the first user instruction, 5.000 ms from there to the end"
        );
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(lines[2]), ["5", "sh", "2.500", "ms", "-", "3", "4", "5", "6", "7", "50"]);
        assert_eq!(words(lines[4]), ["all", "5.000", "ms", "0.000", "ms", "6", "8", "10", "12", "14", "60"]);
        assert!(told().to_text(Duration::ZERO, true).contains("4000000 instructions to the first user instruction"));
    }

    #[test]
    fn json_has_null_for_what_is_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        told().report(Some(&file), Duration::from_secs(1), false).unwrap();
        let read: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(read["environments"][1]["program"], "true");
        assert_eq!(read["environments"][0]["library_time"], Value::Null);
        assert_eq!(read["environments"][0]["peak_pages"], 50);
        assert_eq!(read["machine"]["boot_ticks"], 4_000_000);
        let error = told().report(Some(Path::new("/none/a")), Duration::ZERO, false).unwrap_err().to_string();
        assert!(error.starts_with("--stats /none/a: No such file"), "{error}");
    }
}
