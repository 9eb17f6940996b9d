//! Lock file of a root: the version and the digest of each package, so that the root can be made again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::failure::{Context, Failure, Result};
use crate::root::digest::{Digest, Hashing};

use super::apt::Package;

const FIRST: &str = "# Packages of a root, made by ./chitin root --lock: name, version, architecture, digest.";

/// The line of each package, of which the lock file consists; a root is known by them in the cache, too.
///
/// # Errors
/// When a file cannot be read.
pub fn lines(packages: &[Package], files: &[PathBuf]) -> Result<Vec<String>> {
    let line = |(package, file): (&Package, &PathBuf)| {
        let digest = Hashing::new(File::open(file).context(file.display())?).finish().context(file.display())?;
        let Package { name, version, architecture } = package;
        Ok(format!("{name} {version} {architecture} {digest}\n"))
    };
    packages.iter().zip(files).map(line).collect()
}

/// The text of the lock file.
pub fn text(lines: &[String]) -> String {
    format!("{FIRST}\n{}", lines.concat())
}

/// The packages of a lock file, and its text.
///
/// # Errors
/// When it cannot be read or is none.
pub fn read(path: &Path) -> Result<(Vec<Package>, String)> {
    if !path.is_file() {
        return Err(Failure::new(format!("--lock {}: this is no file", path.display())));
    }
    let text = fs::read_to_string(path).context(format!("--lock {}", path.display()))?;
    let package = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        [name, version, architecture, digest] if Digest::parse(digest).is_ok() => {
            let [name, version, architecture] = [name, version, architecture].map(str::to_owned);
            Ok(Package { name, version, architecture })
        }
        _ => Err(Failure::new(format!("--lock {}: {line:?} is no line of a lock file", path.display()))),
    };
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let packages = lines.map(package).collect::<Result<Vec<_>>>()?;
    if packages.is_empty() {
        Err(Failure::new(format!("--lock {}: names no package", path.display())))
    } else {
        Ok((packages, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_is_a_lock() {
        for none in ["/", "/dev/zero"] {
            assert!(read(Path::new(none)).unwrap_err().to_string().ends_with("this is no file"), "{none}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (file, lock) = (folder.path().join("a.deb"), folder.path().join("lock"));
        fs::write(&file, "x").unwrap();
        let package = Package { name: "a".into(), version: "1:2-3".into(), architecture: "all".into() };
        let written = text(&lines(std::slice::from_ref(&package), &[file]).unwrap());
        fs::write(&lock, &written).unwrap();
        assert_eq!(read(&lock).unwrap(), (vec![package], written));
        for bad in ["", "a 1 all", "a 1 all sha256:xyz"] {
            fs::write(&lock, bad).unwrap();
            assert!(read(&lock).is_err(), "{bad}");
        }
    }
}
