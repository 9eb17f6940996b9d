//! `./chitin doctor`: what is wrong with this machine, a line for each thing
//! that Chitin needs or could use.

mod host;
mod virtual_machine;

use std::process::ExitCode;

use crate::answer;
use crate::failure::Result;
use crate::workspace::Workspace;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// As it should be.
    Good,
    /// Worth knowing; nothing fails because of it.
    Note,
    /// Something will fail.
    Missing,
}

/// One line of the report.
#[derive(Clone, Debug)]
pub struct Line {
    grade: Grade,
    subject: &'static str,
    text: String,
}

impl Line {
    fn good(subject: &'static str, text: impl Into<String>) -> Self {
        Self { grade: Grade::Good, subject, text: text.into() }
    }

    fn note(subject: &'static str, text: impl Into<String>) -> Self {
        Self { grade: Grade::Note, subject, text: text.into() }
    }

    fn missing(subject: &'static str, text: impl Into<String>) -> Self {
        Self { grade: Grade::Missing, subject, text: text.into() }
    }
}

/// Every check.
const CHECKS: [fn(&Workspace) -> Line; 10] = [
    host::rust,
    host::linker,
    host::packages,
    host::tools,
    host::memory,
    host::disk,
    virtual_machine::version,
    virtual_machine::features,
    virtual_machine::kvm,
    virtual_machine::meltdown,
];

/// Prints the report; success means that nothing is missing.
///
/// # Errors
/// When the report cannot be written.
pub fn run(workspace: &Workspace) -> Result<ExitCode> {
    let mut missing = 0;
    for check in CHECKS {
        let line = check(workspace);
        let word = match line.grade {
            Grade::Good => "ok",
            Grade::Note => "note",
            Grade::Missing => "MISSING",
        };
        answer::print(&format!("{word:8}{:10}{}\n", line.subject, line.text))?;
        missing += u32::from(line.grade == Grade::Missing);
    }
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_check_answers_on_one_line() {
        let workspace = Workspace::at(Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap());
        for check in CHECKS {
            let line = check(&workspace);
            assert!(!line.text.is_empty() && !line.text.contains('\n'), "{line:?}");
        }
    }
}
