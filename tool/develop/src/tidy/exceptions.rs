//! The list of places that are over a limit. It may only shrink: an entry
//! that is larger than the place, or that is not needed, is a finding.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use chitin::failure::{Context, Result};

/// Where the list stands.
pub const FILE: &str = "tool/develop/tidy-exceptions.toml";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exceptions {
    #[serde(default, rename = "file")]
    pub files: Vec<Exception>,
    #[serde(default, rename = "function")]
    pub functions: Vec<Exception>,
}

/// A file, or a function in a file, that may have so many lines.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    pub path: String,
    #[serde(default)]
    pub name: String,
    pub lines: usize,
}

impl Exceptions {
    /// # Errors
    /// When the list is there but does not read.
    pub fn read(root: &Path) -> Result<Self> {
        let file = root.join(FILE);
        if !file.exists() {
            return Ok(Self::default());
        }
        toml::from_str(&fs::read_to_string(&file).context(FILE)?).context(FILE)
    }
}
