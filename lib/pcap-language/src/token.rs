//! Expression text to tokens, each with where it begins.

use crate::Refusal;

/// The longest expression accepted, in bytes.
pub(crate) const TEXT_MAX: usize = 8192;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    /// A keyword, name, number or address; the `\` that pcap puts before names of
    /// protocols is dropped.
    Word(&'a str),
    /// An operator or bracket.
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// A token and the byte at which it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind<'a>,
    pub(crate) position: usize,
}

/// The longer signs come first, so that `<=` is not read as `<`.
const SIGNS: [&str; 23] = [
    "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "(", ")", "[", "]", "!", "&", "|", "=", "<", ">", "/", "+", "*",
    "^", "%",
];

/// Splits `text` into tokens; the last is always [`Kind::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, Refusal> {
    if text.len() > TEXT_MAX {
        let advice = format!("the expression is longer than {TEXT_MAX} bytes: split it into several filters");
        return Err(Refusal::new(TEXT_MAX, advice));
    }
    let mut found = Vec::new();
    let mut position = 0;
    while let Some(first) = text[position..].chars().next() {
        let rest = &text[position..];
        if first.is_whitespace() {
            position += first.len_utf8();
            continue;
        }
        let (kind, length) = token(rest).ok_or_else(|| unexpected(position, first))?;
        found.push(Token { kind, position });
        position += length;
    }
    found.push(Token { kind: Kind::End, position });
    Ok(found)
}

/// The token at the start of `rest`, and its length in bytes.
fn token(rest: &str) -> Option<(Kind<'_>, usize)> {
    if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
        return Some((Kind::Sign(sign), sign.len()));
    }
    let escaped = rest.strip_prefix('\\').unwrap_or(rest);
    let length = escaped.find(|letter| !belongs_to_word(letter)).unwrap_or(escaped.len());
    let word = &escaped[..length];
    (length > 0).then_some((Kind::Word(word), rest.len() - escaped.len() + length))
}

fn belongs_to_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | ':' | '-' | '_')
}

fn unexpected(position: usize, letter: char) -> Refusal {
    let advice = format!("{letter:?} means nothing here: remove it");
    Refusal::new(position, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind<'_>> {
        tokens(text).expect("sound text").iter().map(|token| token.kind).collect()
    }

    #[test]
    fn words_signs_and_escapes() {
        use Kind::{End, Sign, Word};
        assert_eq!(kinds("ip proto \\tcp"), [Word("ip"), Word("proto"), Word("tcp"), End]);
        assert_eq!(
            kinds("!tcp[4:2]<=1"),
            [Sign("!"), Word("tcp"), Sign("["), Word("4:2"), Sign("]"), Sign("<="), Word("1"), End]
        );
        assert_eq!(kinds("net 10.0.0.0/8"), [Word("net"), Word("10.0.0.0"), Sign("/"), Word("8"), End]);
    }

    #[test]
    fn foreign_letters_are_refused_where_they_stand() {
        assert_eq!(tokens("tcp ; udp").expect_err("semicolon").position, 4);
        assert_eq!(tokens("tcp é").expect_err("letter").position, 4);
        assert!(tokens("\\").is_err());
    }
}
