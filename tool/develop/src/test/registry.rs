//! The list of guest tests: `test/programs/guests.toml`. Its own comments say
//! what an entry looks like; what does not make sense there is refused here.

use std::fs;

use serde::Deserialize;

use chitin::failure::{Context, Failure, Result};
use chitin::metadata::{Metadata, Target};
use chitin::toolchain::Toolchain;
use chitin::workspace::Workspace;

use super::Depth;
use super::configuration::Configuration;
use super::dialogue::Turn;
use super::linux_program::Product;
use super::wire::Peer;

/// The crate of the programs.
const PACKAGE: &str = "test-programs";
/// The list, in the folder of the programs.
const FILE: &str = "test/programs/guests.toml";

/// One boot, or the same boot on several machines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    pub name: String,
    /// The program of the first environment. Without it ExOS runs `command`.
    pub program: Option<String>,
    /// Guest programs that `program` can start at the same time; `command` is then for ExOS among them.
    #[serde(default)]
    pub systems: Vec<String>,
    /// Images of ExOS; `program` can start a session of each, and all of them run `command`.
    #[serde(default)]
    pub libraries: Vec<String>,
    /// What ExOS runs: a program of the built-in root and its arguments.
    #[serde(default)]
    pub command: Vec<String>,
    /// A C program of `test/programs/linux`, compiled for Linux as it is, which `command` finds under `/test`,
    /// without `.c`.
    pub source: Option<String>,
    /// A C object of the same folder that ExOS can preload: as `source`.
    pub object: Option<String>,
    /// What `command` finds on its standard input.
    #[serde(default)]
    pub input: String,
    /// What is seen and typed on the terminal that `command` has then.
    #[serde(default)]
    pub dialogue: Vec<Turn>,
    /// Disks of the machine, which are full of zeros.
    #[serde(default)]
    pub disks: Vec<GuestDisk>,
    /// Words on the kernel's command line.
    #[serde(default)]
    pub kernel: String,
    /// Network cards of the machine, by the peer of each.
    #[serde(default)]
    pub peers: Vec<Peer>,
    #[serde(default)]
    pub on: Machines,
    /// Further machines in full runs.
    #[serde(default)]
    pub on_in_full: Vec<Configuration>,
    /// Whether the machine's clock counts instructions.
    #[serde(default)]
    pub counting: bool,
    /// Whether non-maskable interrupts come all the while.
    #[serde(default)]
    pub interrupted: bool,
    /// Whether the kernel's page tables are walked all the while.
    #[serde(default)]
    pub walked: bool,
    /// Time limit of one boot.
    #[serde(default = "seconds")]
    pub seconds: u64,
    #[serde(default = "depth")]
    pub depth: Depth,
    /// The names of all results that it reports, each of them passed. Not in
    /// the list: they stand in the `guest!` table of the program's source.
    #[serde(skip)]
    pub results: Vec<String>,
    /// Standard output, exactly.
    pub output: Option<String>,
    /// Exit status; 128 and the signal for one that was killed.
    #[serde(default)]
    pub status: u8,
    #[serde(default)]
    pub stop: ExpectedStop,
    /// Words that the serial line must have carried.
    #[serde(default)]
    pub serial: Vec<String>,
    /// Whether it fails where a library panics.
    #[serde(default)]
    pub unharmed: bool,
    /// Words that the machine's log must have carried.
    #[serde(default)]
    pub log: Vec<String>,
}

impl Guest {
    /// The C sources that it needs, and what becomes of each.
    pub fn sources(&self) -> impl Iterator<Item = (&str, Product)> {
        let program = self.source.as_deref().map(|source| (source, Product::Program));
        program.into_iter().chain(self.object.as_deref().map(|object| (object, Product::Object)))
    }

    /// Whether it is a program that starts ExOS itself.
    pub fn starts_exos(&self) -> bool {
        !self.systems.is_empty() || !self.libraries.is_empty()
    }
}

/// A disk of a machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestDisk {
    /// Size, as in `8M`.
    pub size: String,
    #[serde(default)]
    pub read_only: bool,
    /// Operations in a second.
    #[serde(default)]
    pub pace: u32,
    /// A sector that fails.
    pub bad_sector: Option<u64>,
}

/// Which machines a guest runs on.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Machines {
    /// `"pairwise"`
    Named(Cover),
    These(Vec<Configuration>),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cover {
    Pairwise,
}

/// How the machine is to stop: almost always in order.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedStop {
    #[default]
    InOrder,
    KernelPanic,
    BootFailure,
}

impl Default for Machines {
    fn default() -> Self {
        Self::These(vec![Configuration::default()])
    }
}

impl Machines {
    pub fn list(&self) -> Vec<Configuration> {
        match self {
            Self::Named(Cover::Pairwise) => Configuration::pairwise(),
            Self::These(list) => list.clone(),
        }
    }
}

fn seconds() -> u64 {
    30
}

fn depth() -> Depth {
    Depth::Default
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default, rename = "guest")]
    guests: Vec<Guest>,
}

/// Reads the list, with the results that each program's source promises.
///
/// # Errors
/// When it cannot be read, an entry makes no sense, or a program is in none.
pub fn read(toolchain: Toolchain, workspace: &Workspace) -> Result<Vec<Guest>> {
    let file = workspace.root().join(FILE);
    if !file.exists() {
        return Ok(Vec::new());
    }
    let mut guests = parse(&fs::read_to_string(file).context(FILE)?)?;
    let metadata = Metadata::load(toolchain, workspace, false)?;
    let package = metadata.members().find(|package| package.name == PACKAGE);
    let is_program = |target: &&Target| target.kind.iter().any(|kind| kind == "bin");
    for program in package.iter().flat_map(|package| &package.targets).filter(is_program) {
        let source = fs::read_to_string(&program.src_path).context(program.src_path.display())?;
        let mut running = guests.iter_mut().filter(|guest| guest.program.as_ref() == Some(&program.name)).peekable();
        if running.peek().is_none() {
            return Err(Failure::new(format!("{FILE}: no entry runs the program {}", program.name)));
        }
        running.for_each(|guest| guest.results = promised(&source));
    }
    Ok(guests)
}

/// The names in the `guest!` table of a program: `Here name;` or `Child name;`.
fn promised(source: &str) -> Vec<String> {
    let table = source.split_once("\nguest! {").and_then(|(_, rest)| rest.split_once('}'));
    let rows = table.map_or("", |(table, _)| table).lines().filter(|line| !line.trim_start().starts_with("//"));
    let name = |line: &str| Some(line.trim().strip_suffix(';')?.split_once(' ')?.1.trim().to_owned());
    rows.filter_map(name).collect()
}

fn parse(text: &str) -> Result<Vec<Guest>> {
    let guests = toml::from_str::<List>(text).context(FILE)?.guests;
    for guest in &guests {
        let fail = |what: &str| Err(Failure::new(format!("{FILE}: {}: {what}", guest.name)));
        if !guest.starts_exos() && guest.program.is_none() == guest.command.is_empty() {
            return fail("give either a program or a command");
        }
        if guest.starts_exos() && (guest.program.is_none() || guest.command.is_empty()) {
            return fail("systems and libraries want a program that starts them and a command");
        }
        if guests.iter().filter(|other| other.name == guest.name).count() > 1 {
            return fail("the name is there twice");
        }
        if guest.program.is_some() && !guest.starts_exos() && guest.sources().next().is_some() {
            return fail("a source goes with a command, not with a program");
        }
        if guest.program.is_some() && !guest.input.is_empty() {
            return fail("input goes to a command, not to a program");
        }
        if guest.program.is_some() && !guest.dialogue.is_empty() {
            return fail("one talks to a command, not to a program");
        }
    }
    Ok(guests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_with_its_defaults() {
        let text = "[[guest]]\nname = 'a'\nprogram = 'p'\non = 'pairwise'\n\
                    [[guest]]\nname = 'b'\ncommand = ['/bin/true']\non = ['q35-max-4-64M']\nstatus = 7\n";
        let guests = parse(text).unwrap();
        assert_eq!(guests[0].on.list().len(), Configuration::pairwise().len());
        assert_eq!(guests[0].stop, ExpectedStop::InOrder);
        assert_eq!(guests[1].on.list()[0].to_string(), "q35-max-4-64M");
        assert_eq!((guests[1].seconds, guests[1].status), (30, 7));
    }

    #[test]
    fn results_are_read_from_the_source() {
        let source = "//! A guest! { no }\n\nguest! {\n    Child fault_01_forged_key;\n    // Later: x y;\n    \
                      Here a_b;\n}\n\nfn a_b() {}\n";
        assert_eq!(promised(source), ["fault_01_forged_key", "a_b"]);
        assert_eq!(promised("fn main() {}"), Vec::<String>::new());
    }

    #[test]
    fn entries_that_make_no_sense_are_refused() {
        for bad in [
            "[[guest]]\nname = 'a'",
            "[[guest]]\nname = 'a'\nprogram = 'p'\ncommand = ['c']",
            "[[guest]]\nname = 'a'\nprogram = 'p'\n[[guest]]\nname = 'a'\nprogram = 'p'",
            "[[guest]]\nname = 'a'\nprogram = 'p'\ninput = 'x'",
            "[[guest]]\nname = 'a'\nprogram = 'p'\nsource = 'x.c'",
            "[[guest]]\nname = 'a'\nprogram = 'p'\ndialogue = [{ see = 'x' }]",
            "[[guest]]\nname = 'a'\nprogram = 'p'\nprogramme = 'x'",
            "[[guest]]\nname = 'a'\nprogram = 'p'\non = ['pdp-11']",
            "[[guest]]\nname = 'a'\nprogram = 'p'\nsystems = ['s']",
            "[[guest]]\nname = 'a'\ncommand = ['c']\nsystems = ['s']",
            "[[guest]]\nname = 'a'\nprogram = 'p'\nlibraries = ['l']",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
