//! The part of `doc/benchmarks.md` that is made from a kept run, between two
//! marks, and the pictures that it shows. What stands around is written by
//! hand and stays.

use std::fs;

use chitin::failure::{Context, Failure, Result};
use chitin::workspace::Workspace;

use super::boot::System;
use super::catalogue::{Catalogue, Row, Table, split};
use super::picture::{self, Bars, Curve};
use super::profile::{self, Symbols};
use super::record::Origin;
use super::report::Clock;
use super::results::{Measure, Results};
use super::sheet::{Sheet, factor, number, verdict};

const PAGE: &str = "doc/benchmarks.md";
/// Where the pictures are, from the root of the checkout; the page is in a sibling folder.
const PICTURES: &str = "bench/pictures";
const BEGIN: &str = "<!-- made by ./chitin bench --keep from here -->\n";
const END: &str = "<!-- to here -->\n";
/// Lines of a profile on the page; what is below them is summed up.
const LINES: usize = 14;

/// What a page is made from.
pub struct Run<'a> {
    pub catalogue: &'a Catalogue,
    pub results: &'a Results,
    pub origin: &'a Origin,
    /// The symbols of a program and of what runs beneath it.
    pub symbols: &'a dyn Fn(&str) -> Symbols,
}

/// Draws the pictures and brings the page up to date.
///
/// # Errors
/// When a file cannot be written, or the page lacks its marks.
pub fn write(workspace: &Workspace, run: &Run<'_>) -> Result<()> {
    let folder = workspace.root().join(PICTURES);
    fs::create_dir_all(&folder).context(PICTURES)?;
    for (name, svg) in pictures(run) {
        fs::write(folder.join(&name), svg).context(name)?;
    }
    let file = workspace.root().join(PAGE);
    let page = fs::read_to_string(&file).context(PAGE)?;
    fs::write(&file, replaced(&page, &made(run))?).context(PAGE)
}

/// The page with the part between the marks replaced.
fn replaced(page: &str, made: &str) -> Result<String> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.ok_or_else(|| Failure::new(format!("{PAGE} lacks the marks {BEGIN:?} and {END:?}")))?;
    Ok(format!("{before}{BEGIN}{made}{END}{after}"))
}

/// Each picture with the name of its file.
fn pictures(run: &Run<'_>) -> Vec<(String, String)> {
    let mut all = vec![("headline-ratios.svg".to_owned(), headline(run))];
    for table in &run.catalogue.table {
        all.extend(curves(table, run.results).map(|svg| (format!("{}.svg", table.name), svg)));
    }
    all
}

fn headline(run: &Run<'_>) -> String {
    let rows = run.catalogue.table.iter().flat_map(|table| &table.row).filter(|row| row.headline);
    let ratio = |measure, row| run.results.ratio(System::LinuxTuned, measure, row);
    let bars = |row| vec![ratio(Measure::Instructions, row), ratio(Measure::Silicon, row), ratio(Measure::Wall, row)];
    let rows: Vec<Bars> = rows.map(|row| Bars { name: row.operation.clone(), ratios: bars(row) }).collect();
    picture::ratios("Tuned Linux / Chitin", &["instructions", "silicon estimate", "wall time"], &rows)
}

/// The curves of a table that is a figure.
fn curves(table: &Table, results: &Results) -> Option<String> {
    let curves = table.curves.as_ref()?;
    let report = results.report(System::Chitin, Clock::Instructions, &curves.program)?;
    let points = |points: Vec<(u64, u64)>| points.into_iter().map(|(x, y)| (x as f64, y as f64)).collect();
    let all: Vec<Curve> = report.curves().into_iter().map(|(name, some)| (name, points(some))).collect();
    Some(picture::curves(&table.title, &curves.x, &curves.y, &all))
}

/// Everything between the marks.
fn made(run: &Run<'_>) -> String {
    let origin = run.origin;
    let changed = if origin.changed { ", with files changed" } else { "" };
    let mut text = format!(
        "\nMeasured {} at commit {}{changed}, by `{}`.\n\n- Machine: {}; {}.\n- Both systems: `{}`.\n- Tuned Linux: `{}`.\n\
         - Stock Linux: `{}`.\n- Compiler of the Linux programs: {}.\n\n![Ratios of the headline rows](../{PICTURES}/headline-ratios.svg)\n",
        origin.date,
        origin.commit.get(..12).unwrap_or(&origin.commit),
        origin.command,
        origin.machine,
        origin.qemu,
        origin.flags,
        System::LinuxTuned.command_line(),
        System::LinuxStock.command_line(),
        origin.compiler,
    );
    text.push_str(&aims(run));
    for table in &run.catalogue.table {
        text.push_str(&section(table, run));
    }
    text.push_str(&below(run));
    text.push('\n');
    text
}

/// Every row with an aim, and what became of it.
fn aims(run: &Run<'_>) -> String {
    let mut text =
        "\n## Aims\n\nTuned Linux / Chitin.\n\n| row | table | aim, instructions | aim, silicon estimate |\n\
                    |---|---|---|---|\n"
            .to_owned();
    for table in &run.catalogue.table {
        for row in table.row.iter().filter(|row| row.aim.is_some()) {
            let cell = |aim: Option<f64>, measure| {
                let ratio = run.results.ratio(System::LinuxTuned, measure, row);
                let found = ratio.map_or_else(|| "missing".to_owned(), factor);
                aim.map_or_else(String::new, |aim| format!("{}: {found}", verdict(aim, ratio)))
            };
            let (instructions, silicon) =
                (cell(row.aim, Measure::Instructions), cell(row.aim_silicon, Measure::Silicon));
            text.push_str(&format!("| {} | {} | {instructions} | {silicon} |\n", row.operation, table.source));
        }
    }
    text
}

fn section(table: &Table, run: &Run<'_>) -> String {
    let mut text = format!("\n## {}\n\n{}. Theirs: {}.", table.title, table.source, table.unit);
    if !table.note.is_empty() {
        text.push_str(&format!(" {}", table.note));
    }
    text.push_str("\n\n");
    if table.curves.is_some() {
        text.push_str(&format!("![{}](../{PICTURES}/{}.svg)\n", table.title, table.name));
    } else {
        text.push_str(&Sheet::of(table, run.catalogue, run.results).for_page());
    }
    text
}

/// Where the instructions go in the rows that are below their aims.
fn below(run: &Run<'_>) -> String {
    let mut text = "\n## Rows below their aims, by symbol\n\nInstructions of one operation on Chitin, user's and kernel's, in the \
                    sample in the middle; blocks that a fault cuts short are counted whole.\n"
        .to_owned();
    for row in run.catalogue.table.iter().flat_map(|table| &table.row) {
        let ratio = run.results.ratio(System::LinuxTuned, Measure::Instructions, row);
        if row.aim.zip(ratio).is_some_and(|(aim, ratio)| ratio < aim) {
            text.push_str(&profile(row, run, LINES));
        }
    }
    text
}

/// Where the instructions of a row go on Chitin, in so many lines; nothing where that is not known.
pub fn profile(row: &Row, run: &Run<'_>, lines: usize) -> String {
    let Some((program, name)) = row.chitin.as_deref().map(split) else { return String::new() };
    let report = run.results.report(System::Chitin, Clock::Instructions, program);
    let Some(figure) = report.and_then(|report| report.figure(name)) else { return String::new() };
    let ratio = run.results.ratio(System::LinuxTuned, Measure::Instructions, row);
    let against = match (row.aim, ratio) {
        (Some(aim), Some(ratio)) => format!(" (aim {aim}, ratio {})", factor(ratio)),
        _ => String::new(),
    };
    let mut text = format!("\n{}{against}:\n\n| instructions | symbol |\n|---|---|\n", row.operation);
    for share in profile::of(figure, &(run.symbols)(program), lines) {
        text.push_str(&format!("| {} | `{}` |\n", number(share.instructions), share.symbol));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{results, row};
    use super::*;

    fn catalogue() -> Catalogue {
        let text = "program = []\n[[table]]\nname = 't'\ntitle = 'Calls'\nsource = 'a paper'\nunit = 'µs'\nsystems = ['a', 'b']";
        let mut catalogue: Catalogue = toml::from_str(text).unwrap();
        catalogue.table[0].row = vec![catalogue_row()];
        catalogue
    }

    fn catalogue_row() -> Row {
        Row { aim: Some(100.0), headline: true, ..row() }
    }

    #[test]
    fn the_part_between_the_marks_is_replaced_and_nothing_else() {
        let page = format!("before\n{BEGIN}old\n{END}after\n");
        assert_eq!(replaced(&page, "new\n").unwrap(), format!("before\n{BEGIN}new\n{END}after\n"));
        assert!(replaced("no marks", "new").is_err());
    }

    #[test]
    fn a_page_shows_tables_and_explains_what_is_below_its_aim() {
        let (catalogue, results, origin) = (catalogue(), results(), Origin::default());
        let run = Run { catalogue: &catalogue, results: &results, origin: &origin, symbols: &|_| Symbols::default() };
        let text = made(&run);
        assert!(text.contains("## Calls") && text.contains("| getpid | instructions | 300 |"));
        assert!(text.contains("getpid (aim 100, ratio 15)"));
        assert!(text.contains("| getpid | a paper | 100, below: 15 |  |"));
        let pictures = pictures(&run);
        assert_eq!(pictures.len(), 1);
        assert!(pictures[0].1.contains(">15<"));
    }
}
