//! Lines of the source.

use std::fmt;

/// A place in the source, with the text of its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The file, as the compiler was given it.
    pub file: String,
    /// The line, counted from 1.
    pub number: u32,
    /// The column, counted from 1; 0 when it is not known.
    pub column: u32,
    /// The line's text, without the blanks around it; empty when it is not known.
    pub text: String,
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.file, self.number)
    }
}

/// The line of each instruction of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// First instruction of each run that shares a line, in order.
    runs: Vec<(usize, Option<Line>)>,
}

impl Lines {
    pub(crate) fn new(lines: impl Iterator<Item = Option<Line>>) -> Lines {
        let mut runs: Vec<(usize, Option<Line>)> = Vec::new();
        for (instruction, line) in lines.enumerate() {
            if runs.last().is_none_or(|(_, before)| *before != line) {
                runs.push((instruction, line));
            }
        }
        Lines { runs }
    }

    /// The line an instruction was made from, when the object says.
    pub fn line(&self, instruction: usize) -> Option<&Line> {
        let after = self.runs.partition_point(|(first, _)| *first <= instruction);
        self.runs[..after].last()?.1.as_ref()
    }

    /// Whether any line is known: the object was compiled with `-g`.
    pub fn known(&self) -> bool {
        self.runs.iter().any(|(_, line)| line.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_line_are_found() {
        let line = |number| Some(Line { file: "a.c".into(), number, column: 0, text: String::new() });
        let lines = Lines::new([None, line(3), line(3), line(4)].into_iter());
        let found: Vec<_> = (0..4).map(|at| lines.line(at).map(|line| line.number)).collect();
        assert_eq!(found, [None, Some(3), Some(3), Some(4)]);
        assert!(lines.known() && !Lines::default().known());
        assert_eq!(Lines::default().line(7), None);
    }
}
