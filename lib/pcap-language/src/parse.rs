//! From text to syntax tree.
//!
//! ```text
//! expression := term { ("and" | "or") term }        equal precedence, from the left
//! term       := "not" term | "(" expression ")" | primitive
//! primitive  := qualifiers [value] | value | qualifiers "(" values ")"
//!             | protocol "[" offset [":" size] "]" ["&" mask] relation number
//! qualifiers := [protocol] [direction] [kind]
//! ```
//! A value without qualifiers takes those of the primitive before it, as in
//! `tcp port 80 or 443`; values in parentheses take those before the parenthesis.

use crate::Refusal;
use crate::cursor::Cursor;
use crate::expression::Expression;
use crate::qualifier::Qualifiers;
use crate::token::{Kind, tokens};

/// How deep parentheses, `not`, and alternations of `and` with `or` may nest.
const DEPTH_MAX: usize = 64;

/// Parses a whole expression.
///
/// # Errors
/// The first place at which the text is no expression of the language, or of the part
/// of it that this crate translates.
pub fn parse(text: &str) -> Result<Expression, Refusal> {
    let mut parser = Parser { cursor: Cursor::new(tokens(text)?), qualifiers: None, only_values: false };
    if parser.cursor.peek() == Kind::End {
        return Err(Refusal::new(0, "the expression is empty: name what to match, as in `ip or arp`"));
    }
    let (expression, _) = parser.expression(0)?;
    match parser.cursor.peek() {
        Kind::End => Ok(expression),
        _ => Err(parser.cursor.unexpected("write `and` or `or` between two tests")),
    }
}

pub(crate) struct Parser<'a> {
    pub(crate) cursor: Cursor<'a>,
    /// What a value without qualifiers means here.
    pub(crate) qualifiers: Option<Qualifiers>,
    /// Inside parentheses after qualifiers, where values stand alone.
    pub(crate) only_values: bool,
}

impl Parser<'_> {
    /// Parses terms as long as `and` or `or` follows; also says how deep the result nests.
    fn expression(&mut self, depth: usize) -> Result<(Expression, usize), Refusal> {
        let (mut left, mut height) = self.term(depth)?;
        loop {
            let conjunction = self.take_any(["and", "&&"]);
            if !conjunction && !self.take_any(["or", "||"]) {
                return Ok((left, height));
            }
            let position = self.cursor.position();
            let (right, right_height) = self.term(depth)?;
            height = height.max(right_height);
            let (joined, grew) = join(left, right, conjunction);
            left = joined;
            height += usize::from(grew);
            self.check_depth(depth + height, position)?;
        }
    }

    fn term(&mut self, depth: usize) -> Result<(Expression, usize), Refusal> {
        self.check_depth(depth, self.cursor.position())?;
        if self.take_any(["not", "!"]) {
            let (inner, height) = self.term(depth + 1)?;
            return Ok((Expression::Not(Box::new(inner)), height + 1));
        }
        if self.cursor.take("(") {
            return self.rest_of_parentheses(depth);
        }
        match self.primitive()? {
            Some(primitive) => Ok((Expression::Primitive(primitive), 0)),
            None => self.rest_of_values(depth),
        }
    }

    /// An expression and its closing parenthesis; the opening one was taken.
    fn rest_of_parentheses(&mut self, depth: usize) -> Result<(Expression, usize), Refusal> {
        let inner = self.expression(depth + 1)?;
        self.cursor.expect(")")?;
        Ok(inner)
    }

    /// The values in parentheses after qualifiers, which hold for all of them.
    fn rest_of_values(&mut self, depth: usize) -> Result<(Expression, usize), Refusal> {
        self.only_values = true;
        let inner = self.rest_of_parentheses(depth);
        self.only_values = false;
        inner
    }

    fn take_any(&mut self, spellings: [&str; 2]) -> bool {
        spellings.into_iter().any(|spelling| self.cursor.take(spelling))
    }

    fn check_depth(&self, depth: usize, position: usize) -> Result<(), Refusal> {
        if depth <= DEPTH_MAX {
            return Ok(());
        }
        let advice = format!("nested more than {DEPTH_MAX} deep: write it flatter, or as several filters");
        Err(Refusal::new(position, advice))
    }
}

/// Joins two expressions; a chain of the same word stays one list. Says whether the
/// result nests deeper than `left`.
fn join(left: Expression, right: Expression, conjunction: bool) -> (Expression, bool) {
    match (left, conjunction) {
        (Expression::And(mut all), true) => {
            all.push(right);
            (Expression::And(all), false)
        }
        (Expression::Or(mut any), false) => {
            any.push(right);
            (Expression::Or(any), false)
        }
        (left, true) => (Expression::And(vec![left, right]), true),
        (left, false) => (Expression::Or(vec![left, right]), true),
    }
}
