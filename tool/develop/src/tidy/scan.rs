//! Takes a Rust source apart, line by line, into code, comments and string
//! contents. Enough of the lexical grammar for the rules of tidy: nested block comments, raw strings, character
//! literals and lifetimes.

/// What stands on one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Code, with the contents of strings left out.
    pub code: String,
    /// Comments without their markers, documentation included.
    pub comment: String,
    /// The contents of string literals.
    pub text: String,
}

impl Line {
    /// Whether there is anything but comment and blank.
    pub fn is_code(&self) -> bool {
        !self.code.trim().is_empty() || !self.text.trim().is_empty()
    }
}

#[derive(Clone, Copy)]
enum State {
    Code,
    LineComment,
    BlockComment { depth: usize },
    Text { hashes: Option<usize> },
}

/// Splits `source` into lines.
pub fn scan(source: &str) -> Vec<Line> {
    let mut scanner = Scanner { rest: source, state: State::Code, line: Line::default() };
    let mut lines = Vec::new();
    while let Some(letter) = scanner.rest.chars().next() {
        if letter == '\n' {
            scanner.take(1);
            if matches!(scanner.state, State::LineComment) {
                scanner.state = State::Code;
            }
            lines.push(std::mem::take(&mut scanner.line));
        } else {
            scanner.step(letter);
        }
    }
    if scanner.line != Line::default() {
        lines.push(scanner.line);
    }
    lines
}

struct Scanner<'a> {
    rest: &'a str,
    state: State,
    line: Line,
}

impl<'a> Scanner<'a> {
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    fn step(&mut self, letter: char) {
        match self.state {
            State::Code => self.code(letter),
            State::LineComment => self.comment(letter),
            State::BlockComment { depth } => self.block_comment(letter, depth),
            State::Text { hashes } => self.text(letter, hashes),
        }
    }

    fn code(&mut self, letter: char) {
        if self.rest.starts_with("//") {
            self.take(2);
            self.state = State::LineComment;
        } else if self.rest.starts_with("/*") {
            self.take(2);
            self.state = State::BlockComment { depth: 1 };
        } else if let Some((length, hashes)) = self.raw_string_start() {
            self.take(length);
            self.line.code.push('"');
            self.state = State::Text { hashes: Some(hashes) };
        } else if letter == '"' {
            self.take(1);
            self.line.code.push('"');
            self.state = State::Text { hashes: None };
        } else {
            let length = character_literal(self.rest).unwrap_or(letter.len_utf8());
            let code = self.take(length);
            self.line.code.push_str(code);
        }
    }

    /// Length and hashes of the `r##"` that starts here, if one does.
    fn raw_string_start(&self) -> Option<(usize, usize)> {
        let inside_a_word = |last: char| last.is_alphanumeric() && last != 'b' && last != 'c';
        if self.line.code.chars().last().is_some_and(inside_a_word) {
            return None;
        }
        let after = self.rest.strip_prefix('r')?;
        let hashes = after.len() - after.trim_start_matches('#').len();
        after[hashes..].starts_with('"').then_some((hashes + 2, hashes))
    }

    fn block_comment(&mut self, letter: char, depth: usize) {
        if self.rest.starts_with("*/") {
            self.take(2);
            let closed = depth == 1;
            self.state = if closed { State::Code } else { State::BlockComment { depth: depth - 1 } };
        } else if self.rest.starts_with("/*") {
            self.take(2);
            self.state = State::BlockComment { depth: depth + 1 };
        } else {
            self.comment(letter);
        }
    }

    fn comment(&mut self, letter: char) {
        self.take(letter.len_utf8());
        self.line.comment.push(letter);
    }

    fn text(&mut self, letter: char, hashes: Option<usize>) {
        let end = format!("\"{}", "#".repeat(hashes.unwrap_or(0)));
        if self.rest.starts_with(&end) {
            self.take(end.len());
            self.line.code.push('"');
            self.state = State::Code;
        } else if hashes.is_none() && letter == '\\' {
            let escaped = self.rest.chars().nth(1).filter(|next| *next != '\n');
            let length = 1 + escaped.map_or(0, char::len_utf8);
            let text = self.take(length);
            self.line.text.push_str(text);
        } else {
            self.take(letter.len_utf8());
            self.line.text.push(letter);
        }
    }
}

/// Length of the character literal that `rest` starts with; a lifetime is none.
fn character_literal(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    let mut letters = inside.char_indices();
    let (_, first) = letters.next()?;
    if first == '\\' {
        letters.next()?;
        return letters.find(|(_, letter)| *letter == '\'').map(|(at, _)| at + 2);
    }
    let (at, second) = letters.next()?;
    (second == '\'').then_some(at + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(source: &str) -> Vec<String> {
        scan(source).into_iter().map(|line| line.code.trim().to_owned()).collect()
    }

    #[test]
    fn comments_and_strings_are_told_from_code() {
        let lines = scan("let a = \"// no\"; // yes\n/* one\n/* two */ three */ b");
        assert_eq!(lines[0].code.trim(), "let a = \"\";");
        assert_eq!(lines[0].text, "// no");
        assert_eq!(lines[0].comment, " yes");
        assert!(!lines[1].is_code());
        assert_eq!(lines[2].code.trim(), "b");
    }

    #[test]
    fn quotes_in_character_literals_and_lifetimes_open_nothing() {
        assert_eq!(
            codes("fn f<'a>(x: &'a u8) { '\"'; '\\''; '/' } // c"),
            ["fn f<'a>(x: &'a u8) { '\"'; '\\''; '/' }"]
        );
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes() {
        assert_eq!(codes("r#\"a \" // b\"# ; c"), ["\"\" ; c"]);
        assert_eq!(codes("var\"x\""), ["var\"\""]);
        assert_eq!(scan("\"a\\\"b\" c")[0].text, "a\\\"b");
    }

    #[test]
    fn a_string_over_lines_counts_as_code_on_each() {
        assert!(scan("\"one\n two\n\"").iter().all(Line::is_code));
    }
}
