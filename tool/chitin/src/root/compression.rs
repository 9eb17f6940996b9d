//! Compressed files: recognised by their first bytes, read through the decoder that belongs to them.

use std::io::{self, BufRead, Read};
use std::path::Path;

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use crate::failure::{Context, Failure, Result};

/// What the first bytes of a file say of its compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
    /// No decoder is built in; the host's tool of this name decodes it.
    Foreign(&'static str),
}

/// First bytes, longest that is looked at.
const LONGEST: usize = 6;
const MAGIC: [(&[u8], Compression); 6] = [
    (b"\x1f\x8b", Compression::Gzip),
    (b"\x28\xb5\x2f\xfd", Compression::Zstd),
    (b"\xfd7zXZ\0", Compression::Foreign("unxz")),
    (b"BZh", Compression::Foreign("bunzip2")),
    (b"\x04\x22\x4d\x18", Compression::Foreign("unlz4")),
    (b"PK\x03\x04", Compression::Foreign("unzip")),
];

impl Compression {
    pub fn of(first: &[u8]) -> Self {
        MAGIC.iter().find(|(magic, _)| first.starts_with(magic)).map_or(Self::None, |(_, kind)| *kind)
    }

    /// Looks at the first bytes of `reader`, which come out again.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn peek(reader: &mut impl BufRead) -> io::Result<Self> {
        let first = reader.fill_buf()?;
        Ok(Self::of(&first[..first.len().min(LONGEST)]))
    }

    /// What is in `reader`, decompressed. Several gzip members or zstd frames in a row are one stream.
    ///
    /// # Errors
    /// When no decoder is built in.
    pub fn decode<'a>(self, reader: impl BufRead + 'a) -> Result<Box<dyn Read + 'a>> {
        match self {
            Self::None => Ok(Box::new(reader)),
            Self::Gzip => Ok(Box::new(flate2::bufread::MultiGzDecoder::new(reader))),
            Self::Zstd => Ok(Box::new(ZstdFrames { frame: None, rest: Some(reader) })),
            Self::Foreign(tool) => Err(Failure::new(format!("compressed; unpack it with {tool} first"))),
        }
    }
}

/// A frame's magic, which has been read, and the rest of the stream.
type Stream<R> = io::Chain<io::Cursor<[u8; 4]>, R>;

/// All frames of a zstd stream, one after the other. Skippable frames are passed over.
struct ZstdFrames<R: Read> {
    /// `None` between two frames.
    frame: Option<StreamingDecoder<Stream<R>, FrameDecoder>>,
    /// `None` inside a frame and at the end of the stream.
    rest: Option<R>,
}

impl<R: Read> ZstdFrames<R> {
    /// Opens the next frame; false at the end of the stream.
    fn advance(&mut self) -> io::Result<bool> {
        let Some(mut reader) = self.rest.take() else { return Ok(false) };
        loop {
            let mut magic = [0; 4];
            if reader.read(&mut magic[..1])? == 0 {
                return Ok(false);
            }
            reader.read_exact(&mut magic[1..])?;
            if !is_skippable(magic) {
                let stream = io::Cursor::new(magic).chain(reader);
                self.frame = Some(StreamingDecoder::new(stream).map_err(io::Error::other)?);
                return Ok(true);
            }
            let mut length = [0; 4];
            reader.read_exact(&mut length)?;
            io::copy(&mut reader.by_ref().take(u64::from(u32::from_le_bytes(length))), &mut io::sink())?;
        }
    }
}

/// Skippable frames have one of sixteen magics (RFC 8878, 3.1.2).
fn is_skippable(magic: [u8; 4]) -> bool {
    u32::from_le_bytes(magic) & !0xf == 0x184d_2a50
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let count = frame.read(buffer)?;
                if count > 0 || buffer.is_empty() {
                    return Ok(count);
                }
            }
            if let Some(frame) = self.frame.take() {
                self.rest = Some(frame.into_inner().into_inner().1);
            }
            if !self.advance()? {
                return Ok(0);
            }
        }
    }
}

/// The compression of a file on the host.
///
/// # Errors
/// When it cannot be read.
pub fn of_file(path: &Path) -> Result<Compression> {
    let mut reader = io::BufReader::new(std::fs::File::open(path).context(path.display())?);
    Compression::peek(&mut reader).context(path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// What the host's own compressor makes of `bytes`.
    fn packed(tool: &str, bytes: &[u8]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, bytes).unwrap();
        let output = Command::new(tool).arg("-c").arg(&file).stderr(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{tool}");
        output.stdout
    }

    fn decoded(packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        Compression::of(packed).decode(packed).unwrap().read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn what_the_tools_of_the_host_packed_comes_out() {
        let text: Vec<u8> = (0..300_000_u32).flat_map(|number| (number * 7919).to_le_bytes()).collect();
        for (tool, kind) in [("gzip", Compression::Gzip), ("zstd", Compression::Zstd)] {
            let one = packed(tool, &text);
            assert_eq!(Compression::of(&one), kind);
            assert_eq!(decoded(&one).unwrap(), text);
            let two = [one.clone(), packed(tool, b"more")].concat();
            assert_eq!(decoded(&two).unwrap(), [&text[..], b"more"].concat(), "{tool}: two streams in a row");
            assert!(decoded(&one[..one.len() / 2]).is_err(), "{tool}: cut off");
        }
    }

    #[test]
    fn a_skippable_frame_of_zstd_is_passed_over() {
        let skippable = b"\x50\x2a\x4d\x18\x04\0\0\0abcd";
        let stream = [&packed("zstd", b"one")[..], skippable, &packed("zstd", b"two")].concat();
        assert_eq!(decoded(&stream).unwrap(), b"onetwo");
    }

    #[test]
    fn what_no_decoder_is_built_in_for_names_its_tool() {
        let complaint = Compression::of(b"\xfd7zXZ\0").decode(&b""[..]).err().unwrap().to_string();
        assert!(complaint.contains("unxz"), "{complaint}");
    }
}
