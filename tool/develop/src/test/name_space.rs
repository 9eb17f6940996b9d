//! Name spaces on the host: parity scripts run there with the Debian root as their root, and with a loopback device of
//! their own.
//!
//! A user name space is tried first, as it needs no rights. In a chroot the kernel refuses one: root can do without.
//! Invariants: no mount made for a script reaches the host's own name space; the host's devices are never below a
//! folder that the host could delete.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use chitin::failure::{Context, Failure, Result};

/// Makes the root a root on the host: devices and processes as they are there, and nothing written to it.
const ENTER: &str = r#"
cd "$1" && shift && mount -t tmpfs tmpfs tmp && mount --rbind /dev dev && mount --rbind /proc proc &&
{ chroot . /bin/busybox ifconfig lo 127.0.0.1 up 2>/dev/null; exec chroot . "$@"; }
"#;

/// The same where mounts of the name space are shared with the host: below a private mount of the root on itself. The
/// host sees only that mount, which goes at the end.
const ENTER_PRIVATE: &str = r#"
root=$1; shift
mount --bind "$root" "$root" && mount --make-rprivate "$root" && cd "$root" &&
mount -t tmpfs tmpfs tmp && mount --rbind /dev dev && mount --rbind /proc proc &&
{ chroot . /bin/busybox ifconfig lo 127.0.0.1 up 2>/dev/null; chroot . "$@"; }
status=$?; cd /; umount -l "$root"; exit $status
"#;

/// Status of a command that was ended at its limit, as timeout(1) has it.
pub const LATE: i32 = 124;
/// What a trial may take.
const TRIAL: Duration = Duration::from_secs(60);

/// A way to make a name space: arguments of `unshare`, and what is run in it.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    options: &'static [&'static str],
    enter: &'static str,
}

const WAYS: [Way; 3] = [
    Way { options: &["--user", "--map-root-user", "--mount", "--net", "--uts"], enter: ENTER },
    Way { options: &["--mount", "--net", "--uts"], enter: ENTER },
    Way { options: &["--mount", "--net", "--uts", "--propagation", "unchanged"], enter: ENTER_PRIVATE },
];

/// The first way that works on this host, tried in `root`.
///
/// # Errors
/// Why there is none, in one line.
pub fn find(root: &Path) -> Result<Way> {
    let mut why = String::new();
    for way in WAYS {
        let output =
            way.command(root, TRIAL).args(["/bin/busybox", "true"]).output().context("cannot start unshare")?;
        if output.status.success() {
            return Ok(way);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let reason = said.lines().next().unwrap_or("it does not say why").to_owned();
        if why.is_empty() {
            why = reason;
        }
    }
    Err(Failure::new(format!("this host allows no mount name space ({why}): run as root, or outside of the container")))
}

impl Way {
    /// A command that runs what its further arguments name, with `root` as its root. After `limit` it is ended, with
    /// the status [`LATE`].
    pub fn command(self, root: &Path, limit: Duration) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", &limit.as_secs().to_string(), "unshare"]).args(self.options);
        command.args(["sh", "-c", self.enter, "sh"]).arg(root);
        command.stdin(Stdio::null()).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }
}
