//! The boot archive: a newc cpio (DESIGN.md §6), read without copying.
//!
//! Format: cpio(5), "New ASCII Format": a header of 6 + 13 * 8 characters, the name with its NUL padded to 4 bytes,
//! the contents padded to 4 bytes. What is damaged gives an error that names the place; nothing is believed.

/// One member of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Name, without the final NUL.
    pub name: &'a [u8],
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of the last change, seconds since 1970.
    pub modified: u32,
    /// Inode number: members with the same number and `links` above 1 are one file.
    pub inode: u32,
    /// Names that the file has in the archive.
    pub links: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Contents: of a symbolic link its target.
    pub contents: &'a [u8],
}

/// Why an archive cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Byte in the archive where the member begins.
    pub place: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// The members of an archive, in order, up to its trailer.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    archive: &'a [u8],
    place: usize,
    ended: bool,
}

const HEADER: usize = 110;
const TRAILER: &[u8] = b"TRAILER!!!";

/// The members of `archive`.
pub fn members(archive: &[u8]) -> Members<'_> {
    Members { archive, place: 0, ended: false }
}

/// The contents of the member `name`.
pub fn find<'a>(archive: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    members(archive).filter_map(|member| member.ok()).find(|member| member.name == name).map(|member| member.contents)
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<Member<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.read() {
            Ok(member) if member.name == TRAILER => {
                self.ended = true;
                None
            }
            Ok(member) => Some(Ok(member)),
            Err(what) => {
                self.ended = true;
                Some(Err(Damage { place: self.place, what }))
            }
        }
    }
}

impl<'a> Members<'a> {
    fn read(&mut self) -> Result<Member<'a>, &'static str> {
        let header = self.bytes(self.place, HEADER).ok_or("the archive ends within a header")?;
        if &header[..6] != b"070701" && &header[..6] != b"070702" {
            return Err("no header of the newc format");
        }
        let mut fields = [0u32; 13];
        for (field, digits) in fields.iter_mut().zip(header[6..].chunks_exact(8)) {
            *field = hexadecimal(digits).ok_or("a field of the header is no hexadecimal number")?;
        }
        let [inode, mode, uid, gid, links, modified, size, _, _, major, minor, name_size, _] = fields;
        let name_at = self.place + HEADER;
        let name = self.bytes(name_at, name_size as usize).ok_or("the archive ends within a name")?;
        let (0, name) = name.split_last().map(|(last, rest)| (*last, rest)).ok_or("an empty name")? else {
            return Err("a name does not end in NUL");
        };
        let contents_at = padded(name_at + name_size as usize);
        let contents = self.bytes(contents_at, size as usize).ok_or("the archive ends within a file")?;
        self.place = padded(contents_at + size as usize);
        Ok(Member { name, mode, uid, gid, modified, inode, links, device: (major, minor), contents })
    }

    fn bytes(&self, at: usize, count: usize) -> Option<&'a [u8]> {
        self.archive.get(at..at.checked_add(count)?)
    }
}

const fn padded(at: usize) -> usize {
    (at + 3) & !3
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |value, digit| Some(value << 4 | (*digit as char).to_digit(16)?))
}
