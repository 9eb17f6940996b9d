//! `./chitin tidy`: style and structure as rules that a machine checks. Each
//! rule owns a file of its own here, with a test that plants a violation.

mod dependencies;
mod drift;
mod exceptions;
mod exos_circles;
mod exos_layers;
mod faults;
mod headers;
mod layering;
mod leftovers;
mod licences;
mod manifests;
mod plain_words;
#[cfg(test)]
mod planted;
mod policy_words;
mod rows;
mod scan;
mod sizes;
mod tree;
mod unsafe_wall;

use std::fmt;
use std::process::ExitCode;

use chitin::developer::TidyOptions;

use crate::{kernel_interface, kernel_rows, linux_compatibility, memory_map};
use chitin::answer;
use chitin::failure::{Context, Result};
use chitin::metadata::Metadata;
use chitin::toolchain::Toolchain;
use chitin::workspace::Workspace;

use exceptions::Exceptions;
use tree::Tree;

/// Something against a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `path` or `path:line`, from the root of the checkout.
    pub place: String,
    pub message: String,
}

impl Finding {
    fn new(place: impl fmt::Display, message: impl Into<String>) -> Self {
        Self { place: place.to_string(), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.message)
    }
}

/// All that the rules look at.
pub struct Subject {
    tree: Tree,
    metadata: Metadata,
    exceptions: Exceptions,
}

/// A rule: its name and what it finds.
pub type Rule = (&'static str, fn(&Subject) -> Vec<Finding>);

/// Every rule, in the order in which they are reported.
pub const RULES: [Rule; 15] = [
    ("layering", layering::check),
    ("exos-layers", exos_layers::check),
    ("exos-circles", exos_circles::check),
    ("dependencies", dependencies::check),
    ("licences", licences::check),
    ("manifests", manifests::check),
    ("unsafe-wall", unsafe_wall::check),
    ("sizes", sizes::check),
    ("policy-words", policy_words::check),
    ("leftovers", leftovers::check),
    ("headers", headers::check),
    ("drift", drift::check),
    ("faults", faults::check),
    ("plain-words", plain_words::check),
    ("rows", rows::check),
];

/// Reads the checkout.
///
/// # Errors
/// When it cannot be read or cargo does not answer.
pub fn read(workspace: &Workspace) -> Result<Subject> {
    Ok(Subject {
        tree: Tree::read(workspace.root())?,
        metadata: Metadata::load(Toolchain::detect(), workspace, true)?,
        exceptions: Exceptions::read(workspace.root())?,
    })
}

/// Prints what is against the rules; success means nothing is.
///
/// # Errors
/// When the checkout cannot be read or a page not written.
pub fn run(workspace: &Workspace, options: &TidyOptions) -> Result<ExitCode> {
    if options.write {
        let page = workspace.root().join(kernel_interface::FILE);
        std::fs::write(page, kernel_interface::render()).context(kernel_interface::FILE)?;
        let header = workspace.root().join(kernel_rows::FILE);
        std::fs::write(header, kernel_rows::render()).context(kernel_rows::FILE)?;
        let page = workspace.root().join(linux_compatibility::FILE);
        let tree = Tree::read(workspace.root())?;
        let text = drift::compatibility(&tree);
        std::fs::write(page, text).context(linux_compatibility::FILE)?;
        std::fs::write(workspace.root().join(memory_map::FILE), drift::memory_map(&tree)).context(memory_map::FILE)?;
        exos_layers::write(&tree)?;
    }
    let subject = read(workspace)?;
    let mut count = 0;
    for (name, rule) in RULES {
        for finding in rule(&subject) {
            answer::print(&format!("{finding} [{name}]\n"))?;
            count += 1;
        }
    }
    answer::print(&format!("{} rules, {count} findings\n", RULES.len()))?;
    Ok(if count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
