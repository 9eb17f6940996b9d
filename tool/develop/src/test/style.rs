//! The rules of tidy as tests.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use crate::tidy;
use chitin::failure::Result;
use chitin::workspace::Workspace;

use super::case::Case;

/// One test per rule, all on the same reading of the checkout.
///
/// # Errors
/// When the checkout cannot be read.
pub fn cases(workspace: &Workspace) -> Result<Vec<Case>> {
    let subject = Arc::new(tidy::read(workspace)?);
    let case = |(name, rule): tidy::Rule| {
        let subject = Arc::clone(&subject);
        Case::new(format!("tidy::{name}"), Duration::from_secs(1), move |mut transcript| {
            let findings = rule(&subject);
            for finding in &findings {
                writeln!(transcript, "{finding}").map_err(|error| error.to_string())?;
            }
            match findings.len() {
                0 => Ok(()),
                count => Err(format!("{count} findings")),
            }
        })
    };
    Ok(tidy::RULES.into_iter().map(case).collect())
}
