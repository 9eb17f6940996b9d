//! SHA-256 digests, as images name their blobs: `sha256:` and 64 hexadecimal digits.

use std::fmt;
use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

use crate::failure::{Failure, Result};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    /// # Errors
    /// When it is no SHA-256 digest.
    pub fn parse(text: &str) -> Result<Self> {
        let is_hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.strip_prefix("sha256:") {
            Some(digits) if digits.len() == 64 && digits.bytes().all(is_hexadecimal) => Ok(Self(digits.to_owned())),
            _ => {
                let shown: String = text.chars().filter(|shown| !shown.is_control()).take(80).collect();
                Err(Failure::new(format!("{shown:?} is no sha256 digest")))
            }
        }
    }

    pub fn of(bytes: &[u8]) -> Self {
        Self::from_hash(&Sha256::digest(bytes))
    }

    fn from_hash(hash: &[u8]) -> Self {
        Self(hash.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The digits alone, fit for a file name.
    pub fn digits(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sha256:{}", self.0)
    }
}

/// Hashes what is read through it.
pub struct Hashing<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Hashing<R> {
    pub fn new(inner: R) -> Self {
        Self { inner, hash: Sha256::new() }
    }

    /// The digest of everything, what has not been read yet included.
    ///
    /// # Errors
    /// When the rest cannot be read.
    pub fn finish(mut self) -> io::Result<Digest> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(Digest::from_hash(&self.hash.finalize()))
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard_and_nonsense_is_refused() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(Hashing::new(&b"ab"[..]).finish().unwrap(), Digest::of(b"ab"));
        assert_eq!(Digest::parse(empty).unwrap().to_string(), empty);
        for bad in ["", "sha256:", "sha512:00", "sha256:../../../../etc/passwd", &empty[..70], &empty.to_uppercase()] {
            assert!(Digest::parse(bad).is_err(), "{bad}");
        }
    }
}
