//! What goes into the boot archive, by the names of `abi::boot`.

use std::fs::File;
use std::io::{BufWriter, Write};

use abi::boot;

use crate::archive::Writer;
use crate::build::Images;
use crate::command_record::ProgramCommand;
use crate::failure::{Context, Failure, Result};
use crate::root::Tree;

/// The guest program that starts ExOS and what it is to run.
const EXOS_INIT: &str = "init";
/// The guest program that is ExOS's shared image.
const EXOS_IMAGE: &str = "exos";
/// What failed where the archive has no room.
pub const WRITING: &str = "cannot write the boot archive (TMPDIR names another folder for it)";

/// MiB that a root may take: QEMU loads an archive below 2 GiB, and the programs of ExOS go with it.
const MOST: u64 = 2000;

/// # Errors
/// When no machine can be loaded with this root.
fn check_size(root: &Tree) -> Result<()> {
    let size = root.packed_size().div_ceil(1 << 20);
    if size <= MOST {
        return Ok(());
    }
    Err(Failure::new(format!(
        "this root is {size} MiB, and QEMU loads a machine with {MOST} MiB of one at most: take fewer packages, or give \
         `./chitin run --root` a --disk FILE:SIZE, where the root then lives"
    )))
}

/// An archive that brings up ExOS on `root` to run `command`.
///
/// # Errors
/// When the root is too large, a program is missing or damaged, or the archive cannot be written.
pub fn with_exos(file: File, images: &Images, root: &Tree, command: &ProgramCommand) -> Result<()> {
    check_size(root)?;
    let mut archive = Writer::new(BufWriter::new(file));
    archive.add_file(boot::INIT, &images.program(EXOS_INIT)?).context(WRITING)?;
    add_exos(&mut archive, images, EXOS_IMAGE, root, command)?;
    archive.finish().context(WRITING).map(drop)
}

/// What ExOS finds besides its `init`, with `image` as the image of its processes.
fn add_exos<W: Write>(
    archive: &mut Writer<W>,
    images: &Images,
    image: &str,
    root: &Tree,
    command: &ProgramCommand,
) -> Result<()> {
    archive.add_file(boot::EXOS, &images.program(image)?).context(WRITING)?;
    archive.add_file(boot::COMMAND, &command.to_bytes()?).context(WRITING)?;
    root.write(boot::ROOT, archive)
}

/// The archive of [`with_exos`] for a program that brings up several systems side by side. Each of `systems` is a guest
/// program in an archive of its own, as its `init`; that archive is a file in the folder of this name.
const SYSTEMS: &str = "system/";
/// In the same way, for each of `libraries` a whole archive of ExOS with that image.
const SESSIONS: &str = "session/";

/// An archive whose first environment starts ExOS and others side by side.
///
/// # Errors
/// As for [`with_exos`].
pub fn with_systems(file: File, images: &Images, root: &Tree, first: &FirstProgram) -> Result<()> {
    let mut archive = Writer::new(BufWriter::new(file));
    archive.add_file(boot::INIT, &images.program(first.program)?).context(WRITING)?;
    for system in first.systems {
        let inner = archive_of(images, system)?.finish().context(WRITING)?;
        archive.add_file(&format!("{SYSTEMS}{system}"), &inner).context(WRITING)?;
    }
    for image in first.libraries {
        let mut inner = archive_of(images, EXOS_INIT)?;
        add_exos(&mut inner, images, image, root, first.command)?;
        archive.add_file(&format!("{SESSIONS}{image}"), &inner.finish().context(WRITING)?).context(WRITING)?;
    }
    if first.libraries.is_empty() {
        add_exos(&mut archive, images, EXOS_IMAGE, root, first.command)?;
    }
    archive.finish().context(WRITING).map(drop)
}

/// An archive in memory that begins with a program as its `init`.
fn archive_of(images: &Images, program: &str) -> Result<Writer<Vec<u8>>> {
    let mut archive = Writer::new(Vec::new());
    archive.add_file(boot::INIT, &images.program(program)?).context(WRITING)?;
    Ok(archive)
}

/// A program that brings up several systems, and what it finds for them.
pub struct FirstProgram<'a> {
    pub program: &'a str,
    /// Guest programs that it can start.
    pub systems: &'a [String],
    /// Images of ExOS, for each of which it can start a session.
    pub libraries: &'a [String],
    /// What ExOS is to run.
    pub command: &'a ProgramCommand,
}

/// An archive whose first environment is a guest program on its own.
///
/// # Errors
/// When the program is missing or damaged, or the archive cannot be written.
pub fn with_program(file: File, images: &Images, program: &str) -> Result<()> {
    let mut archive = Writer::new(BufWriter::new(file));
    archive.add_file(boot::INIT, &images.program(program)?).context(WRITING)?;
    archive.finish().context(WRITING).map(drop)
}
