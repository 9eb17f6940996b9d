//! Options of the commands that `tool/develop` carries out.

pub mod wire;

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Clone, Debug, Args)]
pub struct BenchOptions {
    /// Only what takes three minutes together: no stock Linux, no second CPU model, no long tables
    #[arg(long)]
    pub quick: bool,
    /// One line of JSON for each figure instead of tables
    #[arg(long)]
    pub json: bool,
    /// Tell what moved since the run that was kept last; fail where a row got worse by 3% (bench/accepted.toml)
    #[arg(long)]
    pub compare: bool,
    /// Keep this run in bench/results, and bring pictures and doc/benchmarks.md up to date
    #[arg(long, conflicts_with_all = ["quick", "names"])]
    pub keep: bool,
    /// Show where the instructions go, by symbol, in each row on Chitin: so many lines
    #[arg(long, value_name = "LINES", num_args = 0..=1, require_equals = true, default_missing_value = "14")]
    pub profile: Option<usize>,
    /// Chitin alone, by the counting clock: what changed since a moment ago
    #[arg(long, conflicts_with = "keep")]
    pub alone: bool,
    /// The longest that any one boot may take (default: what its programs may take, two minutes at most each)
    #[arg(long, value_name = "SECONDS")]
    pub limit: Option<u64>,
    /// Only tables whose names begin like this (default: all)
    pub names: Vec<String>,
}

#[derive(Clone, Debug, Subcommand)]
pub enum Code {
    /// Verify a program; say why it is refused, or which run-time checks remain
    Check(CodeOptions),
    /// Show a program and the machine code it becomes, side by side
    Disasm(CodeOptions),
}

#[derive(Clone, Debug, Args)]
pub struct CodeOptions {
    /// An object made by `clang -target bpf -O2 -g -c`
    pub file: PathBuf,
    /// What the program may see and do: packet, owns or memory
    #[arg(long, default_value = "packet")]
    pub context: String,
    /// The function to begin with; not needed when only one is global
    #[arg(long)]
    pub entry: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct TestOptions {
    /// Only what is quick: under three minutes
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Everything, for hours: seeded, resumable; writes doc/testing-full.json
    #[arg(long)]
    pub full: bool,
    /// Only tests whose name contains this
    pub filter: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub struct TidyOptions {
    /// Write the pages that are made from data anew, and drop exceptions that are gone
    #[arg(long)]
    pub write: bool,
}
