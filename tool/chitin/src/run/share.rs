//! Shared folders of the host (`-v HOST:GUEST[:ro]`): copied into the root, and what changed copied back at the end.
//!
//! A wrapper is the first process: it runs the program, then writes a tar of the folders to standard output behind a
//! mark that only this run knows. Invariants: a host file that changed meanwhile is kept; nothing outside is written.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::answer;
use crate::command_record::ProgramCommand;
use crate::failure::{Context, Failure, Result};
use crate::root::{Contents, Kind, Node, Tree, load_folder};

use super::share_back;

/// Where the wrapper and its program stand in the root.
const SCRIPT: &str = ".chitin/share";
const BUSYBOX: &str = ".chitin/busybox";
/// A trap in place of a signal's default keeps the wrapper alive; the program gets its default back at exec.
const TEXT: &str = r#"mark=$1; count=$2; shift 2
folders=
while [ "$count" -gt 0 ]; do folders="$folders
$1"; shift; count=$((count - 1)); done
trap : INT QUIT PIPE HUP
"$@"
status=$?
IFS='
'
printf '\n%s\n' "$mark"
/.chitin/busybox tar -c -C / $folders | /.chitin/busybox base64
exit $status
"#;

/// A folder that host and machine share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub host: PathBuf,
    /// Absolute, without a slash at its end.
    pub guest: String,
    pub is_read_only: bool,
}

/// `HOST:GUEST[:ro]`
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> std::result::Result<Share, String> {
    let (rest, is_read_only) = text.strip_suffix(":ro").map_or((text, false), |rest| (rest, true));
    let (host, guest) = rest.rsplit_once(':').ok_or("a shared folder is given as HOST:GUEST[:ro]")?;
    let guest = guest.trim_end_matches('/');
    let is_plain = guest.split('/').skip(1).all(|part| !part.is_empty() && part != "." && part != "..");
    if host.is_empty() || !guest.starts_with('/') || !is_plain || guest.contains('\n') {
        return Err(format!("{text:?}: HOST is a directory, GUEST an absolute path"));
    }
    Ok(Share { host: host.into(), guest: guest.to_owned(), is_read_only })
}

/// Everything that is copied back after a run.
#[derive(Default)]
pub struct Shares {
    writable: Vec<(Share, Tree)>,
    mark: String,
    /// Bytes of standard output from the mark on, while they are caught.
    caught: Mutex<Caught>,
}

#[derive(Default)]
struct Caught {
    /// The end of what has come, which may be the beginning of the mark.
    held: Vec<u8>,
    /// What came behind the mark.
    behind: Option<Vec<u8>>,
}

impl Shares {
    /// Copies the folders into the tree.
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub fn load(shares: &[Share], tree: &mut Tree) -> Result<Self> {
        let mut writable = Vec::new();
        for share in shares {
            let what = format!("--volume {}", share.host.display());
            if !share.host.metadata().context(&what)?.is_dir() {
                return Err(Failure::new(format!("{what}: is no directory")));
            }
            let folder = load_folder(&share.host).context(&what)?;
            let place = tree.place_of(share.guest.trim_start_matches('/').as_bytes());
            tree.graft(&place, &folder);
            if !share.is_read_only {
                writable.push((share.clone(), folder));
            }
        }
        Ok(Self { writable, mark: mark()?, caught: Mutex::default() })
    }

    /// Whether any of them is copied back at the end.
    pub const fn are_copied_back(&self) -> bool {
        !self.writable.is_empty()
    }

    /// Lets the wrapper run the command, which sends the folders at its end.
    ///
    /// # Errors
    /// When busybox cannot be read.
    pub fn wrap(&self, tree: &mut Tree, command: &mut ProgramCommand, busybox: &Path) -> Result<()> {
        let size = busybox.metadata().context(busybox.display())?.len();
        let program = tree.add_contents(Contents::Part { file: busybox.to_owned(), offset: 0, size });
        tree.insert(BUSYBOX.as_bytes(), Node::of_root(Kind::File(program), 0o755));
        let script = tree.add_contents(Contents::Bytes(TEXT.into()));
        tree.insert(SCRIPT.as_bytes(), Node::of_root(Kind::File(script), 0o644));
        let mut arguments: Vec<String> =
            [&format!("/{BUSYBOX}"), "sh", &format!("/{SCRIPT}"), &self.mark].map(str::to_owned).to_vec();
        arguments.push(self.writable.len().to_string());
        arguments.extend(self.writable.iter().map(|(share, _)| share.guest.trim_start_matches('/').to_owned()));
        arguments.append(&mut command.arguments);
        command.arguments = arguments;
        Ok(())
    }

    /// What of standard output is the program's: all before the mark.
    pub fn filter(&self, bytes: &[u8]) -> Vec<u8> {
        if self.writable.is_empty() {
            return bytes.to_vec();
        }
        let mut caught = self.caught.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(behind) = &mut caught.behind {
            behind.extend_from_slice(bytes);
            return Vec::new();
        }
        caught.held.extend_from_slice(bytes);
        let mark = self.mark.as_bytes();
        if let Some(at) = caught.held.windows(mark.len()).position(|window| window == mark) {
            let behind = caught.held.split_off(at);
            caught.behind = Some(behind[mark.len()..].to_vec());
            let mut before = std::mem::take(&mut caught.held);
            // The line end that the wrapper put before the mark; a terminal makes two bytes of it.
            before.truncate(before.len() - usize::from(before.ends_with(b"\n")));
            before.truncate(before.len() - usize::from(before.ends_with(b"\r")));
            return before;
        }
        // Only as much is held back as may be the beginning of the mark.
        let most = caught.held.len().min(mark.len() + 1);
        let start = caught.held.len() - most;
        let begins = |at: &usize| is_beginning(&caught.held[*at..], mark);
        let keep_from = (start..caught.held.len()).find(begins).unwrap_or(caught.held.len());
        let kept = caught.held.split_off(keep_from);
        std::mem::replace(&mut caught.held, kept)
    }

    /// What is still held back, at the end of a run that never came to the mark.
    pub fn rest(&self) -> Vec<u8> {
        std::mem::take(&mut self.caught.lock().unwrap_or_else(std::sync::PoisonError::into_inner).held)
    }

    /// Copies back what changed, and prints the names.
    ///
    /// # Errors
    /// When what the machine sent is damaged, or a file cannot be written.
    pub fn copy_back(&self) -> Result<()> {
        if self.writable.is_empty() {
            return Ok(());
        }
        let mut caught = self.caught.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(text) = caught.behind.take() else {
            return Err(Failure::new(
                "the program ended before its shared folders could be copied back: they are as before",
            ));
        };
        let tar = tempfile::NamedTempFile::new()
            .context(format!("cannot make a temporary file in {}", std::env::temp_dir().display()))?;
        std::fs::write(tar.path(), share_back::from_base64(&text)?).context(tar.path().display())?;
        let mut after = Tree::new();
        crate::root::add_tar(&mut after, tar.path(), "the shared folders")?;
        for (share, before) in &self.writable {
            let report = share_back::apply(share, before, &after)?;
            report.iter().for_each(|line| answer::remark(format_args!("chitin: {line}\n")));
        }
        Ok(())
    }
}

/// Whether `held` is the beginning of a line end and the mark.
fn is_beginning(held: &[u8], mark: &[u8]) -> bool {
    let rest = held.strip_prefix(b"\r\n").or(held.strip_prefix(b"\n")).unwrap_or(held);
    held == b"\r" || mark.starts_with(rest)
}

/// A line that no program prints by chance.
fn mark() -> Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes))
        .context("/dev/urandom")?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("chitin-shared-{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_two_paths_and_perhaps_read_only() {
        let share = parse("a:/b/c/:ro").unwrap();
        assert_eq!(share, Share { host: "a".into(), guest: "/b/c".into(), is_read_only: true });
        assert!(!parse("/a:/b").unwrap().is_read_only);
        for bad in ["", "a", "a:b", ":/b", "a:/", "a:/../b", "a:/b//c"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_program_s_output_ends_at_the_mark_however_it_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let share = Share { host: folder.path().into(), guest: "/b".into(), is_read_only: false };
        for length in [1, 3, 7, 1000] {
            let writable = vec![(share.clone(), Tree::new())];
            let shares = Shares { writable, mark: "mark-1234".into(), caught: Mutex::default() };
            let all = b"one\nmark-12 two\r\nma\n\nmark-1234\nYWJj\n";
            let out: Vec<u8> = all.chunks(length).flat_map(|piece| shares.filter(piece)).collect();
            assert_eq!(String::from_utf8(out).unwrap(), "one\nmark-12 two\r\nma\n");
            assert_eq!(shares.caught.lock().unwrap().behind.as_deref(), Some(&b"\nYWJj\n"[..]));
        }
    }
}
