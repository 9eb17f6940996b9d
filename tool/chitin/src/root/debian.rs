//! A root of Debian's own dynamically linked programs, made by unpacking
//! packages: what parity tests run, on the host and in the machine, and what the
//! bench measures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Context, Failure, Result};
use crate::progress::Progress;
use crate::scratch;

/// A set of packages: programs, and the libraries that they need.
#[derive(Debug)]
pub struct Packages {
    /// Where the unpacked root stands in the cache.
    name: &'static str,
    lists: &'static [&'static str],
    sources: &'static [Source],
}

/// Parts of the source of a package, which go to `usr/src`.
#[derive(Debug)]
struct Source {
    package: &'static str,
    /// `1` where upstream's archive has one folder for all, else `0`.
    strip: &'static str,
    /// Patterns of tar, for upstream's archive and for Debian's.
    upstream: &'static str,
    debian: &'static str,
}

impl Packages {
    fn list(&self) -> String {
        self.lists.join(" ")
    }

    /// What a root is made of: one that was made of something else is made anew.
    fn contents(&self) -> String {
        self.sources.iter().fold(self.list(), |text, source| text + " source:" + source.package)
    }
}

/// The tools of every day.
pub const TOOLS: Packages = Packages { name: "debian-root", lists: &[EVERY_DAY], sources: &[] };
/// The same with a compiler, version control, all of perl, and other programs of some size.
pub const LARGE: Packages = Packages {
    name: "debian-large-root",
    lists: &[EVERY_DAY, LARGE_ONES],
    sources: &[Source { package: "busybox", strip: "1", upstream: "*/testsuite", debian: "debian/config" }],
};

/// What dynamically linked programs that are measured consist of.
pub const BENCH: Packages = Packages {
    name: "debian-bench-root",
    lists: &[MEASURED],
    sources: &[Source { package: "tcc", strip: "0", upstream: "*", debian: "debian/control" }],
};
const MEASURED: &str = "\
    binutils-x86-64-linux-gnu coreutils cpp-12 dash diffutils gcc-12 grep gzip libacl1 libattr1 libbinutils libc6 libc6-dev \
    libcrypt1 libgcc-12-dev libgmp10 libisl23 libjansson4 libmpc3 libmpfr6 libpcre2-8-0 libselinux1 libssl3 libzstd1 \
    linux-libc-dev nginx tar zlib1g";

const EVERY_DAY: &str = "\
    bash bc bsdextrautils bsdutils busybox-static bzip2 coreutils cpio dash dc diffutils ed findutils \
    gawk grep gzip hostname jq less libacl1 libattr1 libblkid1 libbz2-1.0 libc-bin libc6 libcap2 \
    libcrypt1 libevent-core-2.1-7 libexpat1 libffi8 libgcc-s1 libgcrypt20 libgmp10 libgpg-error0 libjq1 \
    liblz4-1 liblzma5 libmount1 libmpfr6 libncursesw6 libonig5 libpcre2-8-0 libproc2-0 \
    libpython3.11-minimal libpython3.11-stdlib libreadline8 libselinux1 libsigsegv2 libsmartcols1 \
    libsqlite3-0 libstdc++6 libsystemd0 libtinfo6 libutempter0 libuuid1 libzstd1 lua5.4 m4 make mawk \
    ncal ncurses-base patch perl-base procps python3.11-minimal readline-common sed sqlite3 tar time \
    tmux util-linux xxd xz-utils zlib1g zstd";
const LARGE_ONES: &str = "\
    binutils binutils-common binutils-x86-64-linux-gnu cpp-12 file gcc-12 git libapparmor1 libbinutils libbsd0 libc6-dev \
    libcrypt-dev libctf-nobfd0 libctf0 libdb5.3 libdrm2 libegl1 libgbm1 libgcc-12-dev libgdbm-compat4 libgdbm6 libgles2 \
    libglvnd0 libgprofng0 libipsec-mb1 libisl23 libjansson4 libjpeg62-turbo libjudydebian1 libkmod2 libmagic-mgc libmagic1 \
    libmd0 libmpc3 libperl5.36 libpopt0 libsctp1 libssl3 libunwind8 libwayland-server0 libxxhash0 linux-libc-dev openssl \
    perl perl-modules-5.36 rsync strace stress-ng vim-common vim-tiny";

/// The tests of redis, of which its package has none.
pub const REDIS_TESTS: Packages = Packages {
    name: "debian-redis-tests",
    lists: &[],
    sources: &[Source { package: "redis", strip: "1", upstream: "*/tests", debian: "debian/control" }],
};

/// What no program reads to run.
const LEFT_OUT: [&str; 10] = [
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "usr/share/bash-completion",
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/lib/x86_64-linux-gnu/perl/5.36.0/CORE",
    "usr/lib/gcc/x86_64-linux-gnu/12/lto1",
    "usr/bin/x86_64-linux-gnu-lto-dump-12",
    "var",
];
/// Folders that packages leave to their installer.
const FOLDERS: [&str; 5] = ["dev", "proc", "tmp", "root", "parity"];

/// The root of these packages in `cache`, which is fetched when it is missing or was made of others.
///
/// # Errors
/// When a package cannot be fetched or unpacked.
pub fn folder(cache: &Path, packages: &Packages) -> Result<PathBuf> {
    let root = cache.join(packages.name);
    let list = packages.list();
    let made_of = cache.join(format!("{}.packages", packages.name));
    if root.is_dir() {
        if fs::read_to_string(&made_of).is_ok_and(|made| made == packages.contents()) {
            return Ok(root);
        }
        fs::remove_dir_all(&root).context(root.display())?;
    }
    fs::create_dir_all(cache).context(cache.display())?;
    let _progress = Progress::step("fetching Debian's packages");
    let work = scratch::folder_in(cache)?;
    if !list.is_empty() {
        let mut download = Command::new("apt-get");
        download.args(["--quiet", "-o", RETRIES, "download"]).args(list.split(' ')).current_dir(work.path());
        said(&mut download, ADVICE)?;
    }
    let unpacked = work.path().join("root");
    for entry in fs::read_dir(work.path()).context(work.path().display())?.flatten() {
        if entry.path().extension().is_some_and(|ending| ending == "deb") {
            said(Command::new("dpkg").arg("-x").arg(entry.path()).arg(&unpacked), ADVICE)?;
        }
    }
    tidy(&unpacked)?;
    for source in packages.sources {
        source.unpack(work.path(), &unpacked)?;
    }
    match fs::rename(&unpacked, &root) {
        // Another run may have been quicker: its files are the same.
        Err(_) if root.is_dir() => {}
        result => result.context(root.display())?,
    }
    fs::write(&made_of, packages.contents()).context(made_of.display())?;
    Ok(root)
}

/// Where Debian's sources are; a machine's own list names programs only.
const SOURCES: &str = "\
deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main
";

impl Source {
    fn unpack(&self, work: &Path, root: &Path) -> Result<()> {
        let (list, lists) = (work.join("sources.list"), work.join("lists"));
        fs::write(&list, SOURCES).context(list.display())?;
        fs::create_dir_all(lists.join("partial")).context(lists.display())?;
        let options = [
            format!("Dir::Etc::sourcelist={}", list.display()),
            "Dir::Etc::sourceparts=-".into(),
            format!("Dir::State::lists={}", lists.display()),
            "Acquire::Languages=none".into(),
        ];
        let apt_get = |arguments: &[&str]| {
            let mut command = Command::new("apt-get");
            for option in &options {
                command.args(["-o", option]);
            }
            said(command.args(arguments).current_dir(work), ADVICE)
        };
        apt_get(&["--quiet", "update"])?;
        apt_get(&["--quiet", "source", "--download-only", self.package])?;
        let folder = root.join("usr/src").join(self.package);
        fs::create_dir_all(&folder).context(folder.display())?;
        for entry in fs::read_dir(work).context(work.display())?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let mut tar = Command::new("tar");
            tar.arg("-x").arg("-f").arg(entry.path()).arg("-C").arg(&folder).arg("--wildcards");
            if name.contains(".orig.tar.") {
                said(tar.args(["--strip-components", self.strip, self.upstream]), ADVICE)?;
            } else if name.contains(".debian.tar.") {
                said(tar.arg(self.debian), ADVICE)?;
            }
        }
        Ok(())
    }
}

fn tidy(root: &Path) -> Result<()> {
    for name in LEFT_OUT {
        let path = root.join(name);
        // What a package does not bring need not go.
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    for name in FOLDERS {
        fs::create_dir_all(root.join(name)).context(name)?;
    }
    Ok(())
}

/// Option of apt-get: where the network is away, its usual three retries take a minute for the packages of a root.
pub const RETRIES: &str = "Acquire::Retries=1";
/// What to do when a package cannot be had.
const ADVICE: &str = "is the network up? (apt-get update renews old lists)";

/// Runs a command; its error is the first line that says what is wrong, and what to do then.
///
/// # Errors
/// When it cannot be started, or fails.
pub fn said(command: &mut Command, advice: &str) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().context(format!("cannot start {name}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = said.lines().find(|line| line.starts_with("E:")).or(said.lines().next()).unwrap_or("it failed");
    Err(Failure::new(format!("{name}: {reason}: {advice}")))
}
