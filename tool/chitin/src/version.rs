//! What `./chitin --version` prints: the version, the commit of the checkout, and the hash of the interface.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

/// Digits of a commit that are shown.
const DIGITS: usize = 12;

static TEXT: LazyLock<String> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("/"));
    let commit = commit(root).unwrap_or_else(|| "of a source archive".into());
    format!("{} (commit {commit}, interface {:#018x})", env!("CARGO_PKG_VERSION"), abi::VERSION)
});

pub fn text() -> &'static str {
    &TEXT
}

/// The commit that is checked out, read as git keeps it: git itself need not be there.
fn commit(root: &Path) -> Option<String> {
    let mut folder = root.join(".git");
    if let Ok(link) = fs::read_to_string(&folder) {
        folder = root.join(link.strip_prefix("gitdir: ")?.trim());
    }
    let head = fs::read_to_string(folder.join("HEAD")).ok()?;
    let Some(name) = head.trim().strip_prefix("ref: ") else { return short(&head) };
    // A linked worktree keeps branches where the main one does.
    let common = fs::read_to_string(folder.join("commondir")).map(|place| folder.join(place.trim())).unwrap_or(folder);
    if let Ok(commit) = fs::read_to_string(common.join(name)) {
        return short(&commit);
    }
    let packed = fs::read_to_string(common.join("packed-refs")).ok()?;
    packed.lines().find_map(|line| line.strip_suffix(name)).and_then(short)
}

fn short(commit: &str) -> Option<String> {
    let commit = commit.trim();
    commit.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| commit.get(..DIGITS).map(str::to_owned)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_is_read_as_git_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        assert_eq!(commit(folder.path()), None);
        fs::create_dir_all(git.join("refs/heads")).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(git.join("packed-refs"), "# pack\n0123456789abcdef0123456789abcdef01234567 refs/heads/main\n")
            .unwrap();
        assert_eq!(commit(folder.path()).unwrap(), "0123456789ab");
        fs::write(git.join("refs/heads/main"), "fedcba9876543210fedcba9876543210fedcba98\n").unwrap();
        assert_eq!(commit(folder.path()).unwrap(), "fedcba987654");
        fs::write(git.join("HEAD"), "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n").unwrap();
        assert_eq!(commit(folder.path()).unwrap(), "aaaaaaaaaaaa");
        assert!(text().contains("interface 0x"), "{}", text());
    }
}
