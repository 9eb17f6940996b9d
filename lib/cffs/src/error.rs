//! Refusals of C-FFS, with the errno that a Unix gives for each.

use xn::error::Error as Xn;

/// Why an operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// No such name, or the directory was removed (ENOENT).
    NotFound,
    /// The name is taken (EEXIST).
    Exists,
    /// The inode is no directory (ENOTDIR).
    NotDirectory,
    /// The inode is a directory (EISDIR).
    IsDirectory,
    /// The directory has entries (ENOTEMPTY).
    NotEmpty,
    /// An argument is outside its bounds, or a directory would become its own ancestor (EINVAL).
    Invalid,
    /// A name has more than 255 bytes (ENAMETOOLONG).
    NameTooLong,
    /// The offset is beyond the largest file (EFBIG).
    FileTooLarge,
    /// No free block (ENOSPC).
    NoSpace,
    /// The inode has the most links (EMLINK).
    TooManyLinks,
    /// Hard links to directories are not permitted (EPERM).
    NotPermitted,
    /// The file system is mounted read-only (EROFS).
    ReadOnly,
    /// The device failed (EIO).
    Io,
    /// The block contradicts the format (EIO).
    Damaged(u64),
    /// The cache is too small for the operation (ENOMEM).
    NoMemory,
    /// The inode number names no inode (ESTALE).
    Stale,
    /// The device holds no Chitin volume.
    NotChitin,
    /// The volume has a newer format, or programs that this version does not know.
    Foreign,
    /// The device has fewer blocks than the volume. The detail is the volume's number.
    Truncated(u64),
    /// The device is too small for a volume. The detail is the least number of blocks.
    TooSmall(u64),
    /// The volume has no C-FFS file system.
    NoFileSystem,
    /// XN refused: a fault of this library.
    Refused(Xn),
}

/// The result of an operation.
pub type Result<T> = core::result::Result<T, Error>;

impl From<Xn> for Error {
    fn from(error: Xn) -> Self {
        match error {
            Xn::Damaged(block) => Self::Damaged(block),
            Xn::Failed(_) => Self::Io,
            other => Self::Refused(other),
        }
    }
}
