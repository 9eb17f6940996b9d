//! The test of the bench as a whole: boots the Linux peer and Chitin, and looks
//! at what was measured. Only in full runs: it fetches a kernel.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::case::{Case, Verdict};

const NAME: &str = "bench::both_systems_count_a_system_call";
/// A table that needs programs of both kinds.
const TABLE: &str = "sosp95-table-4";
const WEIGHT: Duration = Duration::from_secs(120);
/// What must be among the lines of JSON, and that all samples of a count agree.
const EXPECTED: [(&str, &str); 3] = [("linux-tuned", "getpid"), ("linux-stock", "getpid"), ("chitin", "null-call")];

/// The test, where its name contains `filter`.
pub fn cases(filter: &str) -> Option<Case> {
    NAME.contains(filter).then(|| Case::new(NAME.into(), WEIGHT, run))
}

fn run(mut transcript: File) -> Verdict {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let this = std::env::current_exe().map_err(|error| said(&error))?;
    let mut command = Command::new(this);
    let output =
        command.args(["bench", "--json", TABLE]).stdin(Stdio::null()).output().map_err(|error| said(&error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    transcript
        .write_all(&output.stdout)
        .and_then(|()| transcript.write_all(&output.stderr))
        .map_err(|error| said(&error))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("it failed").to_owned());
    }
    EXPECTED.iter().try_for_each(|(system, figure)| check(&text, system, figure))
}

/// A count of this figure is there, more than nothing, and the same in most samples.
fn check(text: &str, system: &str, figure: &str) -> Verdict {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let found = lines
        .into_iter()
        .find(|line| line["system"] == system && line["figure"] == figure && line["clock"] == "instructions");
    let line = found.ok_or_else(|| format!("{system} reports no {figure}"))?;
    let samples: Vec<u64> =
        line["samples"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_u64).collect();
    let median = line["median"].as_f64().unwrap_or(0.0);
    let usual = samples.iter().min().map_or(0, |least| samples.iter().filter(|sample| *sample == least).count());
    if median > 1.0 && usual * 2 > samples.len() {
        return Ok(());
    }
    Err(format!("{figure} on {system} takes {median}, with samples {samples:?}"))
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_figure_has_to_be_there_and_to_repeat() {
        let line = |samples: &str, median: &str| {
            format!(
                r#"{{"system":"chitin","figure":"a","clock":"instructions","samples":[{samples}],"median":{median}}}"#
            )
        };
        assert!(check(&line("20,20,25", "20.0"), "chitin", "a").is_ok());
        assert!(check(&line("20,21,25", "21.0"), "chitin", "a").is_err());
        assert!(check(&line("0,0,0", "0.0"), "chitin", "a").is_err());
        assert!(check(&line("20,20,20", "20.0"), "linux-tuned", "a").is_err());
    }
}
