//! Parsing of comparisons of header bytes: `tcp[tcpflags] & (tcp-syn|tcp-fin) != 0`.

use crate::Refusal;
use crate::address;
use crate::expression::{Primitive, Protocol, Relation};
use crate::name;
use crate::parse::Parser;
use crate::token::Kind;

/// The largest offset: a frame is never longer.
const OFFSET_MAX: u32 = 9000;

impl Parser<'_> {
    /// The rest of `protocol[offset:size] & mask relation value` after the bracket.
    pub(crate) fn field(&mut self, protocol: Protocol, position: usize) -> Result<Primitive, Refusal> {
        let (offset, size) = self.place()?;
        self.cursor.expect("]")?;
        let mask = if self.cursor.take("&") { self.bit_mask()? } else { u32::MAX };
        let relation = self.relation()?;
        let value = self.alternatives()?;
        if mask == 0 {
            let advice = "the mask is zero, so that the packet would not matter: set the bits to compare";
            return Err(Refusal::new(position, advice));
        }
        Ok(Primitive::Field { protocol, offset, size, mask, relation, value })
    }

    fn place(&mut self) -> Result<(u16, u8), Refusal> {
        let wanted = "write a constant offset and a size of 1, 2 or 4, as in `ip[2:2]` or `tcp[tcpflags]`";
        let refusal = self.cursor.unexpected(wanted);
        let word = self.cursor.word(wanted)?;
        let (offset, size) = match word.split_once(':') {
            Some((offset, size)) => (offset, address::number(size)),
            None => (word, Some(1)),
        };
        let offset = address::number(offset).or_else(|| name::constant(offset));
        match (offset, size) {
            (Some(offset), Some(1 | 2 | 4)) if offset > OFFSET_MAX => {
                let advice = format!("the offset is past the end of any frame: write at most {OFFSET_MAX}");
                Err(Refusal::new(refusal.position, advice))
            }
            (Some(offset), Some(size @ (1 | 2 | 4))) => Ok((offset as u16, size as u8)),
            _ => Err(refusal),
        }
    }

    fn relation(&mut self) -> Result<Relation, Refusal> {
        let relation = match self.cursor.peek() {
            Kind::Sign("=" | "==") => Relation::Equal,
            Kind::Sign("!=") => Relation::NotEqual,
            Kind::Sign("<") => Relation::Less,
            Kind::Sign("<=") => Relation::LessOrEqual,
            Kind::Sign(">") => Relation::Greater,
            Kind::Sign(">=") => Relation::GreaterOrEqual,
            _ => {
                let wanted = "write a comparison with a constant; of arithmetic only `& MASK` is translated, as in `ip[0] & 0xf > 5`";
                return Err(self.cursor.unexpected(wanted));
            }
        };
        self.cursor.advance();
        Ok(relation)
    }

    /// One number or name, or several in parentheses joined by `|`. (Without them,
    /// `a & b | c` would be `(a & b) | c`.)
    fn bit_mask(&mut self) -> Result<u32, Refusal> {
        if self.cursor.take("(") { self.rest_of_parenthesised() } else { self.constant() }
    }

    /// Numbers and names joined by `|`, in parentheses or not.
    fn alternatives(&mut self) -> Result<u32, Refusal> {
        if self.cursor.take("(") {
            return self.rest_of_parenthesised();
        }
        let mut value = self.constant()?;
        while self.cursor.take("|") {
            value |= self.constant()?;
        }
        Ok(value)
    }

    fn rest_of_parenthesised(&mut self) -> Result<u32, Refusal> {
        let mut value = self.constant()?;
        while self.cursor.take("|") {
            value |= self.constant()?;
        }
        self.cursor.expect(")")?;
        Ok(value)
    }

    fn constant(&mut self) -> Result<u32, Refusal> {
        let wanted = "write a number or a name such as `tcp-syn`";
        let refusal = self.cursor.unexpected(wanted);
        let word = self.cursor.word(wanted)?;
        address::number(word).or_else(|| name::constant(word)).ok_or(refusal)
    }
}
