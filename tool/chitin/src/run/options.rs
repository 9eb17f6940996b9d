//! Options of `./chitin run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::qemu::{AcceleratorChoice, Link};
use crate::size;

use super::disk;
use super::network::{self, Wanted};
use super::publish;
use super::share::{self, Share};

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Root file system: a directory, a tar, an OCI layout or a `docker save` file, compressed or not (default: a small
    /// built-in one); PATH:TAG chooses one of several images
    #[arg(long, value_name = "PATH")]
    pub root: Option<PathBuf>,
    /// The same, and run what the image names, with its environment, directory and user
    #[arg(long, value_name = "PATH", conflicts_with = "root")]
    pub image: Option<PathBuf>,
    /// Root file system of these Debian packages and what they depend on, made once
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["root", "image"])]
    pub packages: Vec<String>,
    /// Run a program of app/ in place of ExOS, such as http
    #[arg(long, value_name = "NAME", conflicts_with_all = ["root", "image", "packages", "program", "volume", "disk", "user", "env", "workdir", "gdb"])]
    pub native: Option<String>,
    /// Run this program instead of the image's entry point
    #[arg(long, value_name = "PROGRAM", requires = "image")]
    pub entrypoint: Option<String>,
    /// User that the program runs as: a name or a number of the root, or two with a colon
    #[arg(short, long, value_name = "USER[:GROUP]")]
    pub user: Option<String>,
    /// Set an environment variable of the program
    #[arg(short, long, value_name = "K=V", value_parser = variable)]
    pub env: Vec<String>,
    /// Directory that the program starts in (default: the image's, or /)
    #[arg(short, long, value_name = "DIR")]
    pub workdir: Option<String>,
    /// Copy a directory of the host into the root, and what changed in it back at the end, unless :ro
    #[arg(short, long, value_name = "HOST:GUEST[:ro]", value_parser = share::parse)]
    pub volume: Vec<Share>,
    /// Attach a file as a raw virtio disk; it is made with SIZE (default: 256M) where it is
    /// missing
    #[arg(long, value_name = "FILE[:SIZE]", value_parser = disk::parse)]
    pub disk: Vec<disk::Wanted>,
    /// Give the machine a network card, once for each card (default: none, or user where a port is published).
    /// user: QEMU's own network. tap:NAME: a tap of the host. wire:SOCKET: a Unix socket where the other side listens
    #[arg(long, value_name = "KIND", value_parser = network::parse)]
    pub network: Vec<network::Wanted>,
    /// Let a port of the host lead to a port of the machine, by a card of the network user. ADDRESS is one of the host
    /// (default: 127.0.0.1)
    #[arg(short, long, value_name = "[ADDRESS:]HOST:GUEST[/udp]", value_parser = publish::parse)]
    pub publish: Vec<publish::Published>,
    /// Write all frames of the network card into FILE, in the format of pcap; of the second card into FILE-2
    #[arg(long, value_name = "FILE")]
    pub packets: Option<PathBuf>,
    /// Memory of the machine, such as 64M or 2G (default: 256M, or what the root needs)
    #[arg(short, long, value_name = "SIZE", value_parser = size::mebibytes)]
    pub memory: Option<u64>,
    /// CPUs of the machine
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub cpus: u32,
    /// What runs the machine's instructions
    #[arg(long, value_enum, default_value_t)]
    pub accel: AcceleratorChoice,
    /// Let the machine's clock count instructions, so that runs repeat exactly
    #[arg(long)]
    pub icount: bool,
    /// Wait for a debugger before the first instruction; says what to type there
    #[arg(long)]
    pub gdb: bool,
    /// Show on standard error what happens inside
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', num_args = 0..=1, default_missing_value = "log")]
    pub trace: Vec<Trace>,
    /// Print at the end what the run cost, by environment; into FILE, as JSON where its name ends in .json. With
    /// --icount times are instructions
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub stats: Option<Option<PathBuf>>,
    /// Tell at the end which calls programs made that ExOS does not have
    #[arg(long)]
    pub syscall_summary: bool,
    /// Tell which files programs looked for and did not find
    #[arg(long)]
    pub missing_files: bool,
    /// The program and its arguments (default: what the image runs, or a shell)
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<String>,
}

/// What `--trace` can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Trace {
    /// The machine's log, with a back trace of each program that a fault has ended
    Log,
    /// Each call of each program, with its result
    Syscalls,
    /// The last entries of each CPU into the kernel, when the machine has stopped
    Kernel,
}

impl Options {
    /// Options for ExOS, by their names in the boot archive.
    pub fn of_exos(&self) -> Vec<String> {
        let stats = self.stats.is_some().then(|| "stats".to_owned());
        let crash = self.trace.iter().any(|trace| *trace != Trace::Kernel).then(|| "crash".to_owned());
        let network = self.is_reached().then(|| "network".to_owned());
        self.told_by_exos().into_iter().chain(stats).chain(crash).chain(network).collect()
    }

    /// Whether other machines can reach this one: it then answers them from the beginning.
    fn is_reached(&self) -> bool {
        let is_reached = |wanted: &Wanted| !matches!(wanted, Wanted::None | Wanted::Link(Link::User));
        !self.publish.is_empty() || self.network.iter().any(is_reached)
    }

    /// Those that make ExOS write to the log.
    fn told_by_exos(&self) -> Vec<String> {
        let wanted = [
            (self.syscall_summary, "syscall-summary"),
            (self.missing_files, "missing-files"),
            (self.trace.contains(&Trace::Syscalls), "trace=syscalls"),
        ];
        wanted.into_iter().filter(|(wanted, _)| *wanted).map(|(_, name)| name.to_owned()).collect()
    }

    /// Whether the log is shown: what ExOS was asked to tell comes through it.
    pub fn shows_log(&self) -> bool {
        self.trace.iter().any(|trace| *trace != Trace::Kernel) || !self.told_by_exos().is_empty()
    }
}

/// `NAME=VALUE` with a name.
fn variable(text: &str) -> std::result::Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() => Ok(text.to_owned()),
        _ => Err("an environment variable is given as NAME=VALUE".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exos_tells_is_shown() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: Options,
        }
        let parse = |line: &str| <Line as clap::Parser>::try_parse_from(line.split(' ')).map(|line| line.options);
        let quiet = parse("run -- /bin/sh").unwrap();
        assert!(quiet.of_exos().is_empty() && !quiet.shows_log());
        let log = parse("run --trace -- /bin/sh").unwrap();
        assert!(log.of_exos() == ["crash"] && log.shows_log());
        let all = parse("run --trace log,syscalls --syscall-summary --missing-files -- a").unwrap();
        assert_eq!(all.of_exos(), ["syscall-summary", "missing-files", "trace=syscalls", "crash"]);
        assert!(parse("run --missing-files -- a").unwrap().shows_log());
        assert!(parse("run --trace weather -- a").is_err());
        for (line, wanted) in [("-p 8080:80", true), ("--network wire:w", true), ("--network user", false)] {
            assert_eq!(parse(&format!("run {line} -- a")).unwrap().of_exos() == ["network"], wanted, "{line}");
        }
        let stats = parse("run --stats -- a").unwrap();
        assert!(stats.of_exos() == ["stats"] && !stats.shows_log() && stats.stats == Some(None));
        assert_eq!(parse("run --stats=a.json -- a").unwrap().stats, Some(Some("a.json".into())));
        assert!(parse("run --image a --root b -- a").is_err());
    }

    #[test]
    fn variables_have_names() {
        assert!(variable("A=").is_ok());
        assert!(variable("=b").is_err());
        assert!(variable("A").is_err());
    }
}
