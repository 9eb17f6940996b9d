//! `./chitin fs make`: an empty file system on a file.

use std::fs::File;
use std::io::Read;
use std::process::ExitCode;

use cffs::device::Device;
use cffs::make::{self, Options};
use xn::format::{BLOCK_SIZE, Block, MAGIC};

use crate::failure::{Context, Failure, Result};
use crate::run::disk::{self, Wanted};

use super::image::{Image, arena, now};

/// Makes it.
pub fn run(wanted: &Wanted, force: bool) -> Result<ExitCode> {
    let locked = disk::open(wanted, "")?;
    let path = &locked.disk.file;
    let mut image = Image::new(locked.file, path)?;
    let made = fill(&mut image, force, &path.display().to_string());
    if made.is_err() && locked.is_new {
        // The failure of the file system is what the user is told of.
        let _ = std::fs::remove_file(path);
    }
    made.map(|()| ExitCode::SUCCESS)
}

fn fill(image: &mut Image, force: bool, name: &str) -> Result<()> {
    if !force && let Some(what) = content(image)? {
        return Err(Failure::new(format!("{name}: {what}; --force overwrites it")));
    }
    let mut volume = [0; 16];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut volume)).context("/dev/urandom")?;
    let options = Options { volume, now: now(), owner: (0, 0, 0o755) };
    let mut arena = arena(image);
    make::make(image, &mut arena, &options).map_err(|error| image.failure(error))
}

/// What a file holds already, if its first 1 MiB is not zero.
fn content(image: &mut Image) -> Result<Option<&'static str>> {
    let mut bytes: Block = [0; BLOCK_SIZE];
    for block in 0..image.blocks().min(256) {
        image.read(block, &mut bytes).map_err(|_| image.failure(cffs::error::Error::Io))?;
        if block == 0 && bytes.starts_with(&MAGIC) {
            return Ok(Some("holds a file system of Chitin"));
        }
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(Some("is not empty"));
        }
    }
    Ok(None)
}
