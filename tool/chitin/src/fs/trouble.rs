//! What is told of a refusal of C-FFS.

use cffs::error::Error;
use xn::format::BLOCK_SIZE;

/// A refusal in words, as the end of a line that names what was being done.
pub fn words(error: Error) -> String {
    let text = match error {
        Error::NotFound => "no such file or directory",
        Error::Exists => "is there already",
        Error::NotDirectory => "is no directory",
        Error::IsDirectory => "is a directory",
        Error::NotEmpty => "the directory is not empty",
        Error::Invalid => "an argument is outside its bounds",
        Error::NameTooLong => "a name has more than 255 bytes",
        Error::FileTooLarge => "larger than 465 GiB, the largest file",
        Error::NoSpace => "the file system is full",
        Error::TooManyLinks => "the file has 65000 names, the most",
        Error::NotPermitted => "a directory has one name only",
        Error::ReadOnly => "the file system is read-only",
        Error::Io => "the file cannot be read or written",
        Error::NoMemory => "the cache is too small",
        Error::Stale => "the name leads to no inode; `./chitin fs check` says more",
        Error::NotChitin => "holds no file system of Chitin; `./chitin fs make` makes one",
        Error::Foreign => "made by a newer Chitin, or its programs are damaged; `./chitin fs check` says more",
        Error::NoFileSystem => "a volume of XN without a C-FFS file system",
        Error::Damaged(block) => return format!("block {block} is damaged; `./chitin fs check` says more"),
        Error::Truncated(blocks) => {
            return format!("the file is shorter than its file system of {blocks} blocks; it was cut off");
        }
        Error::TooSmall(blocks) => {
            return format!("too small: at least {} KiB are needed", blocks * BLOCK_SIZE as u64 / 1024);
        }
        Error::Refused(inner) => return format!("XN refused: {inner:?}"),
    };
    text.into()
}
