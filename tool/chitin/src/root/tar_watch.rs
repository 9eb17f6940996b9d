//! Size guard for a tar that is being unpacked: refuses a bomb at its first header, before its bytes are written.

use crate::failure::{Failure, Result};

const BLOCK: usize = 512;
/// Zeros that a tar may be padded with behind its end.
const PADDING: u64 = 4 << 20;

/// Follows the headers of a tar that comes in pieces.
#[derive(Debug)]
pub struct TarWatch {
    limit: u64,
    /// The header that is being collected.
    header: Vec<u8>,
    /// Bytes of contents and padding before the next header.
    pending: u64,
    /// Bytes so far, and those that headers have announced.
    total: u64,
    /// Bytes since the end of the tar; `None` before it.
    behind: Option<u64>,
}

impl TarWatch {
    /// A guard for a tar of at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self { limit, header: Vec::with_capacity(BLOCK), pending: 0, total: 0, behind: None }
    }

    /// # Errors
    /// When the tar is larger than the limit or has much behind its end.
    pub fn see(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if let Some(behind) = &mut self.behind {
                *behind += bytes.len() as u64;
                return if *behind > PADDING {
                    Err(Failure::new("has more than 4 MiB behind its end"))
                } else {
                    Ok(())
                };
            }
            if self.pending > 0 {
                let skipped = bytes.len().min(usize::try_from(self.pending).unwrap_or(usize::MAX));
                self.pending -= skipped as u64;
                bytes = &bytes[skipped..];
                continue;
            }
            let taken = bytes.len().min(BLOCK - self.header.len());
            self.header.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.header.len() == BLOCK {
                self.begin()?;
                self.header.clear();
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        if self.header.iter().all(|byte| *byte == 0) {
            self.behind = Some(0);
            return Ok(());
        }
        let header = tar::Header::from_byte_slice(&self.header);
        // A header that makes no sense is found by the reader of the tar.
        let size = header.entry_size().unwrap_or(0);
        let blocks = size.saturating_add(BLOCK as u64 - 1) / BLOCK as u64;
        self.pending = blocks.saturating_mul(BLOCK as u64);
        self.total = self.total.saturating_add(self.pending).saturating_add(BLOCK as u64);
        if self.total > self.limit {
            let path = String::from_utf8_lossy(&header.path_bytes()).into_owned();
            let path: String = path.chars().filter(|shown| !shown.is_control()).take(80).collect();
            let (total, limit) = (self.total >> 20, self.limit >> 20);
            return Err(Failure::new(format!(
                "unpacks to {total} MiB or more (at {path:?}): this host's memory allows {limit} MiB"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, size: u64) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.set_path(name).unwrap();
        header.set_size(size);
        header.set_cksum();
        header.as_bytes().to_vec()
    }

    #[test]
    fn a_terabyte_is_refused_at_its_header() {
        let mut watch = TarWatch::new(1 << 30);
        watch.see(&[header("small", 3), vec![1; 512]].concat()).unwrap();
        let complaint = watch.see(&header("bomb", 1 << 40)).unwrap_err().to_string();
        assert!(complaint.contains("\"bomb\"") && complaint.contains("1024 MiB"), "{complaint}");
    }

    #[test]
    fn zeros_without_end_are_no_tar_and_padding_is() {
        let zeros = vec![0; 1 << 20];
        let mut watch = TarWatch::new(1 << 40);
        assert!((0..4).all(|_| watch.see(&zeros).is_ok()));
        assert!(watch.see(&zeros).is_err());
    }

    #[test]
    fn pieces_of_any_length_are_one_tar() {
        let tar = [header("a", 700), vec![7; 1024], header("b", 5000)].concat();
        for length in [1, 7, 511, 513] {
            let mut watch = TarWatch::new(3000);
            let seen = tar.chunks(length).try_for_each(|piece| watch.see(piece));
            assert!(seen.unwrap_err().to_string().contains("\"b\""), "{length}");
        }
    }
}
