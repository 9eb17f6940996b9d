//! What is measured: `bench/tables.toml`, which has for each table of a paper
//! its rows, the paper's own figures with their source, and the aims.

use std::collections::BTreeMap;

use serde::Deserialize;

use chitin::failure::{Context, Failure, Result};
use chitin::workspace::Workspace;

const FILE: &str = "bench/tables.toml";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    pub program: Vec<Program>,
    pub table: Vec<Table>,
}

/// A program that measures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    pub name: String,
    pub kind: Kind,
    /// Seconds that it may take in one boot.
    #[serde(default = "sixty")]
    pub seconds: u64,
    /// CPUs of the machine that it runs on.
    #[serde(default = "one")]
    pub cpus: u32,
    /// MiB of the disk at /disk; 0: there is none. What such a program does while it waits is not instructions of an
    /// operation: they are counted by the plugin.
    #[serde(default)]
    pub disk: u64,
    /// Documents that it serves by HTTP at port 80 of a network card, without end. `served.rs` measures it from
    /// outside: each is a figure.
    #[serde(default)]
    pub serves: Vec<String>,
    /// Words on the command line of Chitin's kernel.
    #[serde(default)]
    pub kernel: String,
    /// Other programs that it starts.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Files of Debian's packages ([`chitin::root::debian::BENCH`]) that it starts or that those need: by where they
    /// stand in the root file system, where they stand in the packages.
    #[serde(default)]
    pub debian: BTreeMap<String, String>,
}

fn sixty() -> u64 {
    60
}

fn one() -> u32 {
    1
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A Linux program, the same file in both systems.
    Linux,
    /// A program for Chitin's kernel alone: Linux has no such operation.
    Native,
    /// A Linux program that is linked with ExOS (`lib/exos/link/linked.h`), and runs nowhere else.
    Linked,
}

/// A table (or figure) of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What it is called on the command line.
    pub name: String,
    pub title: String,
    /// Paper and table.
    pub source: String,
    /// The unit of the paper's figures, and the machine that they are from.
    pub unit: String,
    /// The two systems of the paper: the conventional one, and the paper's own.
    pub systems: [String; 2],
    /// What a reader has to know.
    #[serde(default)]
    pub note: String,
    /// Whether `--quick` has it.
    #[serde(default = "yes")]
    pub quick: bool,
    #[serde(default)]
    pub row: Vec<Row>,
    /// A figure rather than a table: curves that a program reports as points.
    pub curves: Option<Curves>,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub operation: String,
    /// `PROGRAM/FIGURE` on Linux; where there is none, Linux has no such operation.
    pub linux: Option<String>,
    /// A figure of the same program that is the frame of this one (such as a loop) and not part of it.
    pub linux_minus: Option<String>,
    /// The same two on Chitin.
    pub chitin: Option<String>,
    pub chitin_minus: Option<String>,
    #[serde(default)]
    pub paper: Paper,
    /// The least ratio in instructions that is aimed at, and the least in the estimate for silicon.
    pub aim: Option<f64>,
    pub aim_silicon: Option<f64>,
    /// Whether the row also shows the stock configuration of Linux, and a bar in the picture.
    #[serde(default)]
    pub headline: bool,
}

/// The paper's own figures, as it prints them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// The conventional system's.
    pub theirs: Option<f64>,
    /// That of the system that the paper is about.
    pub own: Option<f64>,
    /// The figures are rates, of which the larger is the better.
    #[serde(default)]
    pub rates: bool,
}

impl Paper {
    /// How many times the conventional system takes what the paper's own does.
    pub fn ratio(self) -> Option<f64> {
        let (theirs, own) = self.theirs.zip(self.own)?;
        Some(if self.rates { own / theirs } else { theirs / own })
    }
}

/// Points with the same name are a curve.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curves {
    pub program: String,
    pub x: String,
    pub y: String,
}

impl Catalogue {
    /// # Errors
    /// When the file cannot be read or names what it does not have.
    pub fn read(workspace: &Workspace) -> Result<Self> {
        Self::parse(&std::fs::read_to_string(workspace.root().join(FILE)).context(FILE)?)
    }

    pub fn parse(text: &str) -> Result<Self> {
        let catalogue: Self = toml::from_str(text).context(FILE)?;
        let references = catalogue.table.iter().flat_map(Table::programs);
        let unknown = references.into_iter().find(|(name, _)| catalogue.program(name).is_none());
        match unknown {
            Some((name, _)) => Err(Failure::new(format!("{FILE} names the program {name} and does not have it"))),
            None => Ok(catalogue),
        }
    }

    pub fn program(&self, name: &str) -> Option<&Program> {
        self.program.iter().find(|program| program.name == name)
    }

    /// The tables whose names begin as one of `names` says; all, where none is given.
    ///
    /// # Errors
    /// When a name fits no table.
    pub fn chosen(&self, names: &[String], quick: bool) -> Result<Vec<&Table>> {
        let fits = |table: &&Table, name: &str| table.name.starts_with(name);
        if let Some(wrong) = names.iter().find(|name| !self.table.iter().any(|table| fits(&table, name))) {
            let known: Vec<&str> = self.table.iter().map(|table| table.name.as_str()).collect();
            return Err(Failure::new(format!("no table is called {wrong}; there are {}", known.join(", "))));
        }
        let wanted =
            |table: &&Table| names.is_empty() && (table.quick || !quick) || names.iter().any(|name| fits(table, name));
        Ok(self.table.iter().filter(wanted).collect())
    }
}

/// Which system a program is wanted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Linux,
    Chitin,
}

impl Table {
    /// Programs that its rows refer to.
    pub fn programs(&self) -> Vec<(&str, Side)> {
        let mut all = Vec::new();
        for row in &self.row {
            all.extend(row.linux.as_deref().map(|reference| (split(reference).0, Side::Linux)));
            all.extend(row.chitin.as_deref().map(|reference| (split(reference).0, Side::Chitin)));
        }
        all.extend(self.curves.as_ref().map(|curves| (curves.program.as_str(), Side::Chitin)));
        all
    }
}

/// `PROGRAM/FIGURE`
pub fn split(reference: &str) -> (&str, &str) {
    reference.split_once('/').unwrap_or((reference, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        [[program]]
        name = 'calls'
        kind = 'linux'
        [[table]]
        name = 'one-a'
        title = 't'
        source = 's'
        unit = 'µs'
        systems = ['Ultrix', 'Aegis']
        [[table.row]]
        operation = 'call'
        linux = 'calls/getpid'
        paper = { theirs = 21.3, own = 1.6 }
        [[table]]
        name = 'one-b'
        title = 't'
        source = 's'
        unit = 'µs'
        systems = ['Ultrix', 'Aegis']
        quick = false
    ";

    fn names(names: &[&str], quick: bool) -> Option<Vec<String>> {
        let catalogue = Catalogue::parse(TEXT).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let chosen = catalogue.chosen(&names, quick).ok()?;
        Some(chosen.into_iter().map(|table| table.name.clone()).collect())
    }

    #[test]
    fn tables_are_chosen_by_the_beginning_of_their_names() {
        assert_eq!(names(&[], false).unwrap(), ["one-a", "one-b"]);
        assert_eq!(names(&[], true).unwrap(), ["one-a"]);
        assert_eq!(names(&["one"], true).unwrap(), ["one-a", "one-b"]);
        assert_eq!(names(&["one-b"], false).unwrap(), ["one-b"]);
        assert!(names(&["two"], false).is_none());
    }

    #[test]
    fn a_papers_ratio_is_above_one_where_its_own_system_is_better() {
        let ratio = |theirs, own, rates| Paper { theirs, own, rates }.ratio();
        assert_eq!(ratio(Some(30.0), Some(10.0), false), Some(3.0));
        assert_eq!(ratio(Some(10.0), Some(30.0), true), Some(3.0));
        assert_eq!(ratio(None, Some(30.0), false), None);
    }

    #[test]
    fn a_row_of_an_unknown_program_is_an_error() {
        assert!(Catalogue::parse(&TEXT.replace("calls/", "walls/")).is_err());
    }

    #[test]
    fn the_catalogue_of_this_checkout_is_sound() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let catalogue = Catalogue::read(&Workspace::at(&root)).unwrap();
        for row in catalogue.table.iter().flat_map(|table| &table.row) {
            assert!(row.linux.is_some() || row.chitin.is_some(), "{}", row.operation);
        }
    }
}
