//! A place in the list of tokens.

use crate::Refusal;
use crate::token::{Kind, Token};

/// Reads tokens one after the other; past the last one it stays at [`Kind::End`].
pub(crate) struct Cursor<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the first of `tokens`, which end with [`Kind::End`].
    pub(crate) fn new(tokens: Vec<Token<'a>>) -> Cursor<'a> {
        Cursor { tokens, next: 0 }
    }

    /// The token `ahead` places on, without taking it.
    fn look(&self, ahead: usize) -> Token<'a> {
        let last = self.tokens.len() - 1;
        self.tokens[(self.next + ahead).min(last)]
    }

    pub(crate) fn peek(&self) -> Kind<'a> {
        self.look(0).kind
    }

    pub(crate) fn peek_second(&self) -> Kind<'a> {
        self.look(1).kind
    }

    /// Where the next token begins.
    pub(crate) fn position(&self) -> usize {
        self.look(0).position
    }

    /// Leaves the next token behind.
    pub(crate) fn advance(&mut self) {
        self.next = (self.next + 1).min(self.tokens.len() - 1);
    }

    /// Takes the next token if it is this word or sign.
    pub(crate) fn take(&mut self, text: &str) -> bool {
        let found = matches!(self.peek(), Kind::Word(word) | Kind::Sign(word) if word == text);
        if found {
            self.advance();
        }
        found
    }

    /// Takes the next token, which must be the sign `sign`.
    pub(crate) fn expect(&mut self, sign: &str) -> Result<(), Refusal> {
        if self.take(sign) { Ok(()) } else { Err(self.unexpected(&format!("write `{sign}` here"))) }
    }

    /// Takes the next token, which must be a word; `wanted` says what is missing if not.
    pub(crate) fn word(&mut self, wanted: &str) -> Result<&'a str, Refusal> {
        match self.peek() {
            Kind::Word(word) => {
                self.advance();
                Ok(word)
            }
            _ => Err(self.unexpected(wanted)),
        }
    }

    /// The refusal of whatever comes next.
    pub(crate) fn unexpected(&self, wanted: &str) -> Refusal {
        let found = match self.peek() {
            Kind::Word(word) | Kind::Sign(word) => format!("`{word}` does not fit here"),
            Kind::End => String::from("the expression ends too early"),
        };
        Refusal::new(self.position(), format!("{found}: {wanted}"))
    }
}
