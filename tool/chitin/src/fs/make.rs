//! `./chitin fs make`: an empty file system on a file.

use std::fs::File;
use std::io::Read;
use std::process::ExitCode;

use cffs::make::{self, Options};

use crate::failure::{Context, Failure, Result};
use crate::run::disk::{self, Locked, Wanted};
use crate::run::disk_content::{Content, look};

use super::image::{Image, arena, now};

/// Makes it.
pub fn run(wanted: &Wanted, force: bool) -> Result<ExitCode> {
    let locked = disk::open(wanted, "")?;
    let path = &locked.disk.file;
    if !force {
        check_blank(&locked)?;
    }
    let mut image = Image::new(locked.file, path)?;
    let made = fill(&mut image);
    if made.is_err() && locked.is_new {
        // The failure of the file system is what the user is told of.
        let _ = std::fs::remove_file(path);
    }
    made.map(|()| ExitCode::SUCCESS)
}

/// Fails where a file holds anything.
fn check_blank(locked: &Locked) -> Result<()> {
    let path = &locked.disk.file;
    let what = match look(&locked.file, path, locked.bytes) {
        Ok(Content::Blank) => return Ok(()),
        Ok(Content::Volume) => "holds a file system of Chitin".to_owned(),
        Ok(Content::Other(what)) => format!("holds {what}"),
        Err(failure) => failure.to_string(),
    };
    Err(Failure::new(format!("{}: {what}; --force overwrites it", path.display())))
}

/// Makes an empty file system, whatever was there.
///
/// # Errors
/// When the file is too small or cannot be written.
pub fn fill(image: &mut Image) -> Result<()> {
    let mut volume = [0; 16];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut volume)).context("/dev/urandom")?;
    let options = Options { volume, now: now(), owner: (0, 0, 0o755) };
    let mut arena = arena(image);
    make::make(image, &mut arena, &options).map_err(|error| image.failure(error))
}
