//! Layer cache: tars unpacked once into `cache/layer`, one file for each digest.
//!
//! Only whole, verified tars are in it: each is written to a scratch folder, compared with its digest, and renamed.
//! A later run reads the image's own copy only to verify its digest.
//!
//! Invariants: nothing of a tar is made into files of the host; holes of a file stay holes.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::failure::{Context, Failure, Result};
use crate::progress::Progress;
use crate::scratch;

use super::compression::Compression;
use super::digest::{Digest, Hashing};
use super::store::Blob;
use super::tar_watch::TarWatch;

/// Bytes that are copied at once; a piece of zeros becomes a hole.
const PIECE: usize = 64 << 10;

/// The layer cache in a folder.
#[derive(Clone, Debug)]
pub struct LayerCache {
    folder: PathBuf,
    /// Bytes that a tar may unpack to.
    limit: u64,
}

/// What a blob's bytes must hash to.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Of the bytes as they are stored.
    pub stored: Option<Digest>,
    /// Of the tar inside.
    pub unpacked: Option<Digest>,
}

impl LayerCache {
    pub fn new(cache: &Path, limit: u64) -> Self {
        Self { folder: cache.join("layer"), limit }
    }

    /// The tar in a layer, verified, as a file of its own.
    ///
    /// # Errors
    /// When its digest is wrong, it is damaged, or it is too large.
    pub fn layer(&self, blob: &Blob, expected: &Expected, progress: &mut Progress) -> Result<PathBuf> {
        let name = expected.unpacked.as_ref().or(expected.stored.as_ref());
        let name = name.ok_or_else(|| Failure::new("a layer without a digest"))?;
        self.kept(&format!("{}.tar", name.digits()), blob, expected, progress)
    }

    /// The tar in a compressed file that no record names: it is known by its place, size and time.
    ///
    /// # Errors
    /// When it is damaged or too large.
    pub fn file(&self, path: &Path, progress: &mut Progress) -> Result<PathBuf> {
        let metadata = path.metadata().context(path.display())?;
        let identity = (metadata.dev(), metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec());
        let name = format!("file-{}.tar", Digest::of(format!("{identity:?}").as_bytes()).digits());
        let blob = Blob { file: path.to_owned(), offset: 0, size: metadata.len() };
        self.kept(&name, &blob, &Expected { stored: None, unpacked: None }, progress)
    }

    fn kept(&self, name: &str, blob: &Blob, expected: &Expected, progress: &mut Progress) -> Result<PathBuf> {
        let place = self.folder.join(name);
        if place.is_file() {
            // An image that was damaged since is still told of.
            return verify(blob, expected).map(|()| place);
        }
        fs::create_dir_all(&self.folder).context(cannot_write(&self.folder))?;
        progress.busy_with(&name[..name.len().min(16)]);
        let work = scratch::folder_in(&self.folder)?;
        let partial = work.path().join("partial");
        self.unpack(blob, expected, &partial)?;
        fs::rename(&partial, &place).context(place.display())?;
        Ok(place)
    }

    fn unpack(&self, blob: &Blob, expected: &Expected, into: &Path) -> Result<()> {
        let mut stored = BufReader::with_capacity(PIECE, Hashing::new(blob.open()?));
        let compression = Compression::peek(&mut stored).context("cannot be read")?;
        let mut file = File::create(into).context(into.display())?;
        let mut unpacked = Hashing::new(compression.decode(&mut stored)?);
        let copied = copy(&mut unpacked, &mut file, TarWatch::new(self.limit), &self.folder)?;
        file.set_len(copied).context(cannot_write(&self.folder))?;
        let unpacked = unpacked.finish().context("damaged")?;
        let stored = stored.into_inner().finish().context("cannot be read")?;
        check("", &stored, expected.stored.as_ref())?;
        check(" of the tar inside", &unpacked, expected.unpacked.as_ref())
    }
}

/// Reads a blob whose tar is in the cache already.
fn verify(blob: &Blob, expected: &Expected) -> Result<()> {
    let mut stored = BufReader::with_capacity(PIECE, blob.open()?);
    if expected.stored.is_some() {
        let found = Hashing::new(stored).finish().context("cannot be read")?;
        return check("", &found, expected.stored.as_ref());
    }
    if expected.unpacked.is_none() {
        return Ok(());
    }
    let compression = Compression::peek(&mut stored).context("cannot be read")?;
    let found = Hashing::new(compression.decode(stored)?).finish().context("damaged")?;
    check(" of the tar inside", &found, expected.unpacked.as_ref())
}

fn check(of: &str, found: &Digest, expected: Option<&Digest>) -> Result<()> {
    match expected {
        Some(expected) if expected != found => Err(Failure::new(format!("damaged: the digest{of} is {found}"))),
        _ => Ok(()),
    }
}

fn cannot_write(cache: &Path) -> String {
    format!("cannot write {} (./chitin clean frees room, CHITIN_CACHE names another folder)", cache.display())
}

/// Copies a tar into a file of `cache`; pieces of zeros become holes. The answer is its length.
fn copy(from: &mut impl Read, into: &mut File, mut watch: TarWatch, cache: &Path) -> Result<u64> {
    let mut piece = vec![0; PIECE];
    let mut length = 0;
    loop {
        let count = fill(from, &mut piece).map_err(|error| Failure::new(format!("damaged or cut off: {error}")))?;
        if count == 0 {
            return Ok(length);
        }
        watch.see(&piece[..count])?;
        let result = match piece[..count].iter().all(|byte| *byte == 0) {
            true => into.seek(SeekFrom::Current(i64::try_from(count).unwrap_or(0))).map(drop),
            false => into.write_all(&piece[..count]),
        };
        result.context(cannot_write(cache))?;
        length += count as u64;
    }
}

fn fill(from: &mut impl Read, piece: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < piece.len() {
        match from.read(&mut piece[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}
