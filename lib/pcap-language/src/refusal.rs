//! Why an expression was refused, and where.

use std::fmt;

/// An expression that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The byte of the text at which the trouble begins, counted from 0.
    pub position: usize,
    /// What is wrong there and what to write instead.
    pub advice: String,
}

impl Refusal {
    pub(crate) fn new(position: usize, advice: impl Into<String>) -> Refusal {
        Refusal { position, advice: advice.into() }
    }

    /// The refusal for a person to read: the expression, a caret under the place, and
    /// the advice.
    pub fn explain(&self, text: &str) -> String {
        let before = text.get(..self.position).unwrap_or(text);
        let caret = " ".repeat(before.chars().count());
        let line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        format!("  {line}\n  {caret}^\n{self}")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at byte {}: {}", self.position, self.advice)
    }
}

impl std::error::Error for Refusal {}
