//! The user that a program runs as: `USER[:GROUP]` by names of the root's own files, or by numbers.

use crate::failure::{Failure, Result};

use super::tree::{Kind, Tree};

/// Bytes of `/etc/passwd` or `/etc/group` at most.
const LARGEST: u64 = 16 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub user: u32,
    pub group: u32,
    pub home: String,
}

impl User {
    pub fn root() -> Self {
        Self { user: 0, group: 0, home: "/root".into() }
    }

    /// Whether it is what the first process starts as.
    pub fn is_root(&self) -> bool {
        (self.user, self.group) == (0, 0)
    }
}

/// Finds the user that `given` names.
///
/// # Errors
/// When the root has no such user or group.
pub fn find(tree: &Tree, given: &str) -> Result<User> {
    let (user, group) = given.split_once(':').map_or((given, None), |(user, group)| (user, Some(group)));
    let users = read(tree, "/etc/passwd");
    let row = row(&users, user, 2);
    let number = |row: Option<&Vec<&str>>, field: usize| row.and_then(|row| row.get(field)?.parse().ok());
    let unknown =
        |what: &str, name: &str, file: &str| Failure::new(format!("--user {given}: no {what} {name} in {file}"));
    let id = user.parse().ok().or(number(row.as_ref(), 2));
    let user = id.ok_or_else(|| unknown("user", user, "the root's /etc/passwd"))?;
    let group = match group {
        None => number(row.as_ref(), 3).unwrap_or(0),
        Some(group) => {
            let groups = read(tree, "/etc/group");
            let id = group.parse().ok().or(number(self::row(&groups, group, 2).as_ref(), 2));
            id.ok_or_else(|| unknown("group", group, "the root's /etc/group"))?
        }
    };
    let home = row.and_then(|row| row.get(5).map(|home| (*home).to_owned())).filter(|home| !home.is_empty());
    Ok(User { user, group, home: home.unwrap_or_else(|| if user == 0 { "/root" } else { "/" }.to_owned()) })
}

/// The line whose first field is `name` or whose field of this number is.
fn row<'a>(file: &'a str, name: &str, number: usize) -> Option<Vec<&'a str>> {
    let rows = || file.lines().map(|line| line.split(':').collect::<Vec<_>>());
    rows().find(|row| row[0] == name).or_else(|| rows().find(|row| row.get(number) == Some(&name)))
}

fn read(tree: &Tree, path: &str) -> String {
    let bytes = match tree.follow(path.as_bytes()) {
        Some((_, node)) => match node.kind {
            Kind::File(file) => tree.read(file, LARGEST).unwrap_or_default(),
            _ => Vec::new(),
        },
        None => Vec::new(),
    };
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::tree::{Contents, Node};
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_number() {
        let mut tree = Tree::new();
        for (name, text) in
            [("etc/passwd", "root:x:0:0::/root:/bin/sh\nw:x:33:34::/var/www:\n"), ("etc/group", "g:x:7:\n")]
        {
            let file = tree.add_contents(Contents::Bytes(text.into()));
            tree.insert(name.as_bytes(), Node::of_root(Kind::File(file), 0o644));
        }
        for (given, user, group, home) in [
            ("w", 33, 34, "/var/www"),
            ("33", 33, 34, "/var/www"),
            ("w:g", 33, 7, "/var/www"),
            ("1000", 1000, 0, "/"),
            ("1000:8", 1000, 8, "/"),
            ("0", 0, 0, "/root"),
        ] {
            assert_eq!(find(&tree, given).unwrap(), User { user, group, home: home.into() }, "{given}");
        }
        for bad in ["nobody", "w:nogroup", "-1", ""] {
            assert!(find(&tree, bad).is_err(), "{bad}");
        }
    }
}
