//! `./chitin fs check`: every damage by block and name, and what the next mount repairs.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use cffs::device::Device;
use cffs::error::Error;
use cffs::examine::{Damage, Examination, examine};
use cffs::mount::Mount;

use crate::answer;
use crate::failure::Result;

use super::image::{Image, arena, now};
use super::listing::printable;

/// The next mount repairs what there is.
const REPAIRABLE: u8 = 1;
/// Something is damaged for good, as fsck says it.
pub const DAMAGED: u8 = 4;

/// Checks a file.
pub fn run(file: &Path) -> Result<ExitCode> {
    let mut image = Image::open(file, false)?;
    let (report, status) = report(&mut image, &file.display().to_string()).map_err(|error| image.failure(error))?;
    answer::print(&report)?;
    Ok(ExitCode::from(status))
}

/// What a check says, and its exit status.
pub fn report<D: Device>(device: &mut D, name: &str) -> std::result::Result<(String, u8), Error> {
    let found = match examine(device) {
        Err(Error::Damaged(block)) => {
            return Ok((format!("{name}: block {block}: the superblock is damaged\n{name}: damaged\n"), DAMAGED));
        }
        other => other?,
    };
    let mut text: String = found.damages.iter().map(|damage| line(name, damage)).collect();
    let mut status = if found.damages.is_empty() { 0 } else { DAMAGED };
    if status == 0 {
        match arena(device).check(device, Mount { read_only: false, now: now() }) {
            Ok(report) if !report.clean => {
                let repairs = report.repairs;
                let _ = writeln!(
                    text,
                    "{name}: was not closed; the next mount removes {} names, restores {}, corrects {} inodes and \
                     frees {}",
                    repairs.removed, repairs.restored, repairs.corrected, repairs.freed
                );
                status = REPAIRABLE;
            }
            Ok(report) if report.map_errors > 0 || !report.repairs.is_none() => {
                let _ = writeln!(text, "{name}: recovery would repair a closed file system: {report:?}");
                status = DAMAGED;
            }
            Ok(_) => (),
            Err(error) => {
                let _ = writeln!(text, "{name}: {}", super::trouble::words(error));
                status = DAMAGED;
            }
        }
    }
    text.push_str(&summary(name, &found, status));
    Ok((text, status))
}

fn line(name: &str, damage: &Damage) -> String {
    let sector = damage.sector.map_or(String::new(), |sector| format!(", sector {sector}"));
    let sufferer = match (&damage.path, damage.inode) {
        (Some(path), _) => format!(" (/{})", printable(path)),
        (None, Some(number)) => format!(" (inode {number})"),
        (None, None) => String::new(),
    };
    format!("{name}: block {}{sector}: {}{sufferer}\n", damage.block, damage.what)
}

fn summary(name: &str, found: &Examination, status: u8) -> String {
    let verdict = match status {
        0 => "clean".into(),
        REPAIRABLE => "not closed, undamaged".into(),
        _ => format!("damaged: {} places", found.damages.len()),
    };
    let (directories, others) = found.inodes;
    let (blocks, used) = found.blocks;
    format!("{name}: {verdict}; {directories} directories, {others} other inodes, {used} of {blocks} blocks in use\n")
}
