//! Attributes of inodes.

use crate::device::Device;
use crate::edit::Edit;
use crate::error::{Error, Result};
use crate::file_system::FileSystem;
use crate::layout::Number;
use crate::layout::inode::{Inode, KIND};

impl<D: Device> FileSystem<'_, D> {
    /// The inode as it is.
    pub fn attributes(&mut self, number: Number) -> Result<Inode> {
        self.step();
        self.inode(number)
    }

    /// The directory above; the root is its own.
    pub fn parent(&mut self, directory: Number) -> Result<Number> {
        self.step();
        let inode = self.inode(directory)?;
        if inode.is_directory() { Ok(inode.parent) } else { Err(Error::NotDirectory) }
    }

    fn change(&mut self, number: Number, change: impl FnOnce(&mut Inode)) -> Result<()> {
        self.check_writable()?;
        self.step();
        self.inode(number)?;
        let (mut edit, now) = (Edit::default(), self.now);
        self.edit_inode(&mut edit, number, |inode| {
            inode.times[2] = now;
            change(inode);
        })?;
        self.commit(&edit)
    }

    /// Changes permissions and set-id bits; the kind stays.
    pub fn set_mode(&mut self, number: Number, mode: u16) -> Result<()> {
        self.change(number, |inode| inode.mode = inode.mode & KIND | mode & !KIND)
    }

    /// Changes owner and group.
    pub fn set_owner(&mut self, number: Number, uid: u32, gid: u32) -> Result<()> {
        self.change(number, |inode| (inode.uid, inode.gid) = (uid, gid))
    }

    /// Clears the set-id bits after a write by another user: set-group-id only where the group may execute.
    pub fn drop_set_id(&mut self, number: Number) -> Result<()> {
        self.change(number, |inode| {
            inode.mode &= !0o4000;
            if inode.mode & 0o010 != 0 {
                inode.mode &= !0o2000;
            }
        })
    }

    /// Sets the times of access and of data change, in nanoseconds since 1970; `None` keeps one.
    pub fn set_times(&mut self, number: Number, access: Option<i64>, data: Option<i64>) -> Result<()> {
        self.change(number, |inode| {
            inode.times[0] = access.unwrap_or(inode.times[0]);
            inode.times[1] = data.unwrap_or(inode.times[1]);
        })
    }
}
