//! `./chitin fs ls` and `cat`.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use cffs::device::Device;
use cffs::error::{Error, Result as Outcome};
use cffs::file_system::FileSystem;
use cffs::layout::Number;
use cffs::layout::inode::{BLOCK_DEVICE, CHARACTER, DIRECTORY, FIFO, FILE, Inode, LINK, SOCKET};

use crate::answer;
use crate::failure::Result;

use super::copy_in::MINOR_BITS;
use super::{image, path};

/// Entries read at a time.
const ENTRIES: usize = 512;
/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// Lists a directory, or one file.
pub fn list(file: &Path, at: &str) -> Result<ExitCode> {
    let text =
        image::read(file, |image, system| lines(system, at.as_bytes()).map_err(|error| image.failure_at(at, error)))?;
    answer::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The listing of a path.
pub fn lines<D: Device>(system: &mut FileSystem<'_, D>, at: &[u8]) -> Outcome<String> {
    let number = path::find(system, at, false)?;
    if !system.attributes(number)?.is_directory() {
        let rows = vec![row(system, number, at)?];
        return Ok(table(&rows));
    }
    let above = system.parent(number)?;
    let mut rows = vec![row(system, number, b".")?, row(system, above, b"..")?];
    let mut names = entries(system, number)?;
    names.sort();
    for (name, number) in names {
        rows.push(row(system, number, &name)?);
    }
    Ok(table(&rows))
}

/// All entries of a directory.
pub fn entries<D: Device>(system: &mut FileSystem<'_, D>, directory: Number) -> Outcome<Vec<(Vec<u8>, Number)>> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let listed = system.list(directory, cookie, ENTRIES)?;
        let Some(last) = listed.last() else { return Ok(names) };
        cookie = last.cookie;
        names.extend(listed.into_iter().map(|entry| (entry.name, entry.number)));
    }
}

/// Mode, links, owner, group, size or device, time, and the name with what a link leads to.
type Row = [String; 7];

fn row<D: Device>(system: &mut FileSystem<'_, D>, number: Number, name: &[u8]) -> Outcome<Row> {
    let inode = system.attributes(number)?;
    let mut shown = printable(name);
    if inode.kind() == LINK {
        shown = format!("{shown} -> {}", printable(&system.read_link(number)?));
    }
    let size = if inode.is_device() { device(inode.parent) } else { inode.size.to_string() };
    let [links, uid, gid] = [inode.nlink.into(), inode.uid, inode.gid].map(|value: u32| value.to_string());
    Ok([mode(&inode), links, uid, gid, size, time(inode.times[1]), shown])
}

fn table(rows: &[Row]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    let line = |row: &Row| {
        let cells: Vec<String> = (0..6).map(|column| format!("{:>1$}", row[column], widths[column])).collect();
        format!("{} {}\n", cells.join(" "), row[6])
    };
    rows.iter().map(line).collect()
}

/// A name without what would move the cursor of a terminal.
pub fn printable(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// Major and minor number of a device node.
fn device(number: u64) -> String {
    format!("{}, {}", number >> MINOR_BITS, number & ((1 << MINOR_BITS) - 1))
}

fn mode(inode: &Inode) -> String {
    let kind = match inode.kind() {
        FIFO => 'p',
        CHARACTER => 'c',
        DIRECTORY => 'd',
        BLOCK_DEVICE => 'b',
        FILE => '-',
        LINK => 'l',
        SOCKET => 's',
        _ => '?',
    };
    let bit = |shift: u16, letter: char| if inode.mode >> shift & 1 == 1 { letter } else { '-' };
    let execute = |shift: u16, special: u16, letters: [char; 2]| match (inode.mode >> special & 1, bit(shift, 'x')) {
        (1, 'x') => letters[0],
        (1, _) => letters[1],
        (_, plain) => plain,
    };
    let (owner, group, others) = (execute(6, 11, ['s', 'S']), execute(3, 10, ['s', 'S']), execute(0, 9, ['t', 'T']));
    let letters =
        [kind, bit(8, 'r'), bit(7, 'w'), owner, bit(5, 'r'), bit(4, 'w'), group, bit(2, 'r'), bit(1, 'w'), others];
    letters.iter().collect()
}

/// Date and minute in UTC.
fn time(nanoseconds: i64) -> String {
    let minutes = nanoseconds.div_euclid(60_000_000_000);
    let (days, minute) = (minutes.div_euclid(1440), minutes.rem_euclid(1440));
    // The calendar repeats every 146,097 days; years begin in March here, so that the leap day is the last one.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * march_month + 2) / 5 + 1, (march_month + 2) % 12 + 1);
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", minute / 60, minute % 60)
}

/// Writes a file to standard output. A reader that has seen enough ends it.
pub fn cat(file: &Path, at: &str) -> Result<ExitCode> {
    image::read(file, |image, system| {
        let mut output = io::stdout().lock();
        let written = copy(system, at.as_bytes(), &mut output).map_err(|error| image.failure_at(at, error))?;
        answer::written(written.and_then(|()| output.flush()))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Writes the content of a path to `output`.
pub fn copy<D: Device>(system: &mut FileSystem<'_, D>, at: &[u8], output: &mut impl Write) -> Outcome<io::Result<()>> {
    let number = path::find(system, at, true)?;
    let inode = system.attributes(number)?;
    if inode.is_directory() {
        return Err(Error::IsDirectory);
    }
    let (mut bytes, mut offset) = (vec![0; CHUNK], 0);
    loop {
        let count = system.read(number, offset, &mut bytes)?;
        if count == 0 {
            return Ok(Ok(()));
        }
        if let Err(error) = output.write_all(&bytes[..count]) {
            return Ok(Err(error));
        }
        offset += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_times_as_ls_has_them() {
        for (bits, text) in
            [(0o100_644, "-rw-r--r--"), (0o041_777, "drwxrwxrwt"), (0o104_710, "-rws--x---"), (0o102_600, "-rw---S---")]
        {
            assert_eq!(mode(&Inode { mode: bits, ..Inode::default() }), text);
        }
        let seconds = |value: i64| time(value * 1_000_000_000);
        assert_eq!(seconds(0), "1970-01-01 00:00");
        assert_eq!(seconds(951_782_400), "2000-02-29 00:00");
        assert_eq!(seconds(1_795_766_399), "2026-11-27 07:59");
        assert_eq!(seconds(-1), "1969-12-31 23:59");
        assert_eq!(device(8 << MINOR_BITS | 1), "8, 1");
        assert_eq!(printable(b"a\x1b[2J"), "a?[2J");
    }
}
