//! Files of `/proc` that tell of the whole machine.

use super::{cpuinfo, disks, net};
use crate::hw::entropy;
use crate::process::current::process;
use crate::procfs::mountinfo;
use crate::server::client::{machine_name, wall_clock};
use alloc::format;
use alloc::string::String;
use core::fmt::Write;
use core::sync::atomic::Ordering::Relaxed;
use linux_abi::address_map::LEAST_ADDRESS;
use runtime::{clock, exposed};
use unix_core::ipc::{self, posix_mq};
use unix_core::procfs::mounts;
use unix_core::server::protocol::{DOMAIN_NAME, HOST_NAME, Listed};
use unix_core::session::{loadavg, status_page};
use vfs::initramfs::device;
use vfs::inotify::{MOST_EVENTS, MOST_WATCHES};
use vfs::mount_table::Kind;

/// The files, without folders.
pub(crate) const FILES: [&str; 13] = [
    "cpuinfo",
    "devices",
    "diskstats",
    "filesystems",
    "loadavg",
    "locks",
    "meminfo",
    "partitions",
    "stat",
    "swaps",
    "uptime",
    "version",
    "vmstat",
];
/// Nanoseconds in a tick of `/proc/stat`.
const TICK: u64 = 10_000_000;

/// Names in a folder.
pub(crate) fn folder(parts: &[&str]) -> Option<&'static [&'static str]> {
    match parts {
        ["sys"] => Some(&["kernel", "vm", "fs"]),
        ["sys", "kernel"] => Some(&[
            "cap_last_cap",
            "core_pattern",
            "domainname",
            "hostname",
            "msgmax",
            "msgmnb",
            "msgmni",
            "ngroups_max",
            "osrelease",
            "ostype",
            "overflowgid",
            "overflowuid",
            "pid_max",
            "random",
            "randomize_va_space",
            "sem",
            "shmall",
            "shmmax",
            "shmmni",
            "tainted",
            "threads-max",
            "version",
        ]),
        ["sys", "kernel", "random"] => Some(&["boot_id", "entropy_avail", "poolsize", "uuid"]),
        ["sys", "vm"] => {
            Some(&["max_map_count", "mmap_min_addr", "overcommit_memory", "overcommit_ratio", "swappiness"])
        }
        ["net"] => Some(&net::FILES),
        ["sysvipc"] => Some(&["msg", "sem", "shm"]),
        ["sys", "fs"] => Some(&[
            "file-max",
            "inotify",
            "mqueue",
            "nr_open",
            "pipe-max-size",
            "pipe-user-pages-hard",
            "pipe-user-pages-soft",
        ]),
        ["sys", "fs", "inotify"] => Some(&["max_queued_events", "max_user_instances", "max_user_watches"]),
        ["sys", "fs", "mqueue"] => Some(&["msg_default", "msg_max", "msgsize_default", "msgsize_max", "queues_max"]),
        _ => None,
    }
}

/// What a file says.
pub(crate) fn text(parts: &[&str]) -> Option<String> {
    Some(match parts {
        ["uptime"] => {
            let (up, idle) = (clock::now() / TICK, idle() / TICK);
            format!("{}.{:02} {}.{:02}\n", up / 100, up % 100, idle / 100, idle % 100)
        }
        ["version"] => String::from("Linux version 6.1.0-chitin (chitin) #1 Chitin ExOS\n"),
        ["filesystems"] => Kind::ALL
            .iter()
            .map(|(kind, name, _)| format!("{}\t{name}\n", if *kind == Kind::Disk { "" } else { "nodev" }))
            .collect(),
        ["devices"] => devices(),
        ["diskstats"] => disks::statistics(),
        ["net", name] => net::text(name)?,
        ["mounts"] => mounts::mounts(&mountinfo()),
        ["mountinfo"] => mountinfo(),
        ["loadavg"] => load_averages(),
        ["meminfo"] => memory(),
        ["vmstat"] => {
            let free = exposed::kernel().free_pages.load(Relaxed);
            format!("nr_free_pages {free}\npgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\npgmajfault 0\n")
        }
        ["cpuinfo"] => (0..exposed::kernel().cpus.load(Relaxed)).map(cpuinfo::text).collect(),
        ["stat"] => statistics(),
        ["locks"] => {
            let lines = process().files.lock().lines(Listed::Locks).unwrap_or_default();
            String::from_utf8_lossy(&lines).into_owned()
        }
        ["sysvipc", kind] => objects(kind)?,
        ["partitions"] => disks::partitions(),
        ["swaps"] => String::from("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"),
        ["sys", "kernel", "cap_last_cap"] => String::from("40\n"),
        ["sys", "kernel", "ngroups_max"] => String::from("65536\n"),
        ["sys", "fs", "nr_open"] => String::from("1048576\n"),
        ["sys", "fs", "inotify", "max_queued_events"] => format!("{MOST_EVENTS}\n"),
        ["sys", "fs", "inotify", "max_user_instances"] => String::from("128\n"),
        ["sys", "fs", "inotify", "max_user_watches"] => format!("{MOST_WATCHES}\n"),
        ["sys", "kernel", "hostname"] => name_line(HOST_NAME),
        ["sys", "kernel", "osrelease"] => String::from("6.1.0-chitin\n"),
        ["sys", "kernel", "ostype"] => String::from("Linux\n"),
        ["sys", "kernel", "version"] => String::from("#1 Chitin ExOS\n"),
        ["sys", "kernel", "overflowuid" | "overflowgid"] => String::from("65534\n"),
        ["sys", "kernel", "pid_max"] => String::from("4194304\n"),
        ["sys", "kernel", "threads-max"] => format!("{}\n", exposed::kernel().environments.load(Relaxed)),
        ["sys", "kernel", "core_pattern"] => String::from("core\n"),
        ["sys", "kernel", "domainname"] => name_line(DOMAIN_NAME),
        // Programs lie where they lie.
        ["sys", "kernel", "randomize_va_space"] => String::from("0\n"),
        ["sys", "kernel", "tainted"] => String::from("0\n"),
        ["sys", "kernel", "random", "entropy_avail" | "poolsize"] => String::from("256\n"),
        ["sys", "kernel", "random", "uuid"] => fresh_number()?,
        ["sys", "kernel", "random", "boot_id"] => {
            let boot = exposed::kernel().wall_clock_at_boot.load(Relaxed);
            universal(u128::from(boot).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
        }
        ["sys", "vm", "overcommit_memory"] => String::from("0\n"),
        ["sys", "vm", "overcommit_ratio"] => String::from("50\n"),
        ["sys", "vm", "swappiness"] => String::from("60\n"),
        ["sys", "vm", "mmap_min_addr"] => format!("{LEAST_ADDRESS}\n"),
        ["sys", "kernel", name] if ipc::limit_text(name).is_some() => ipc::limit_text(name)?,
        ["sys", "fs", "mqueue", name] => queue_limit(name)?,
        ["sys", "vm", "max_map_count"] => format!("{}\n", vm::address_space::MOST_AREAS),
        ["sys", "fs", "file-max"] => String::from("1048576\n"),
        // No user has a limit of its own.
        ["sys", "fs", "pipe-user-pages-hard" | "pipe-user-pages-soft"] => String::from("0\n"),
        ["sys", "fs", "pipe-max-size"] => format!("{}\n", unix_core::pipe::ring::MOST),
        _ => return None,
    })
}

fn name_line(first: usize) -> String {
    format!("{}\n", String::from_utf8_lossy(&machine_name(first)))
}

/// The averages, how many threads run of all, and the newest process.
fn load_averages() -> String {
    let (all, running) = processes();
    let words = &process().board.words()[status_page::LOADS..status_page::LOADS + 3];
    let parts = words.iter().map(|word| loadavg::parts(word.load(Relaxed)));
    let averages: String = parts.map(|(whole, rest)| format!("{whole}.{rest:02} ")).collect();
    let newest = crate::process_table::all().iter().map(|other| other.number).max().unwrap_or_default();
    format!("{averages}{running}/{all} {newest}\n")
}

/// A limit of POSIX message queues.
fn queue_limit(name: &str) -> Option<String> {
    let most = match name {
        "msg_default" => posix_mq::DEFAULT[0],
        "msg_max" => posix_mq::HIGHEST[0],
        "msgsize_default" => posix_mq::DEFAULT[1],
        "msgsize_max" => posix_mq::HIGHEST[1],
        "queues_max" => posix_mq::MOST_QUEUES as u64,
        _ => return None,
    };
    Some(format!("{most}\n"))
}

/// A universally unique number, as RFC 9562 writes a random one.
fn universal(number: u128) -> String {
    let number = number & !(0xf << 76) & !(3 << 62) | 4 << 76 | 2 << 62;
    let part = |from: u32, digits: u32| (number >> from) as u64 & ((1 << (4 * digits)) - 1);
    format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}\n", part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12))
}

/// Such a number, as there was none before; none on a machine without a source of entropy.
fn fresh_number() -> Option<String> {
    let mut bytes = [0; 16];
    entropy(&mut bytes).ok()?;
    Some(universal(u128::from_le_bytes(bytes)))
}

/// Nanoseconds that all CPUs together had nothing to do.
fn idle() -> u64 {
    exposed::cpus().map(|cpu| cpu.idle_time.load(Relaxed)).sum()
}

/// How many processes there are, and how many of them run now.
fn processes() -> (usize, usize) {
    let all = crate::process_table::all();
    let running = all.iter().filter(|other| crate::process_table::is_runnable(other.environment)).count();
    (all.len(), running.max(1))
}

fn memory() -> String {
    let kernel = exposed::kernel();
    let kilobytes = |pages: u64| pages * 4;
    let [free, cached] = [&kernel.free_pages, &kernel.cached_pages].map(|word| word.load(Relaxed));
    let at_hand = crate::budget::pages_for_processes();
    let rows = [
        ("MemTotal", crate::budget::total_pages()),
        ("MemFree", free),
        ("MemAvailable", free.min(at_hand) + cached),
        ("Buffers", 0),
        ("Cached", cached),
        ("SwapCached", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Shmem", 0),
        ("Slab", 0),
        ("SReclaimable", 0),
    ];
    let mut text = String::new();
    for (name, pages) in rows {
        let _ = writeln!(text, "{:<16}{:>8} kB", format!("{name}:"), kilobytes(pages));
    }
    text
}

fn statistics() -> String {
    let now = clock::now();
    let line = |name: &str, all: u64, idle: u64| {
        format!("{name} {} 0 0 {} 0 0 0 0 0 0\n", all.saturating_sub(idle) / TICK, idle / TICK)
    };
    let cpus = exposed::kernel().cpus.load(Relaxed);
    let mut text = line("cpu ", now * cpus, idle());
    for (number, cpu) in exposed::cpus().enumerate() {
        text.push_str(&line(&format!("cpu{number}"), now, cpu.idle_time.load(Relaxed)));
    }
    let boot = wall_clock().saturating_sub(now) / 1_000_000_000;
    let slices: u64 = (0..exposed::kernel().environments.load(Relaxed))
        .filter_map(exposed::environment_slot)
        .map(|info| info.slices.load(Relaxed))
        .sum();
    let (all, running) = processes();
    let _ = write!(
        text,
        "intr 0\nctxt {slices}\nbtime {boot}\nprocesses {all}\nprocs_running {running}\nprocs_blocked 0\n"
    );
    text
}

/// Drivers by the major numbers of their devices.
fn devices() -> String {
    let majors = [
        (device::NULL.0, "mem"),
        (device::TTY.0, "/dev/tty"),
        (device::CONSOLE.0, "/dev/console"),
        (device::PTMX.0, "/dev/ptmx"),
        (device::MISC_MAJOR, "misc"),
        (device::SLAVE_MAJOR, "pts"),
    ];
    let lines: String = majors.iter().map(|(major, name)| format!("{major:3} {name}\n")).collect();
    format!("Character devices:\n{lines}\nBlock devices:\n{}", disks::driver())
}

/// The System V objects of a kind, as the server tells them, below a line that names the columns.
fn objects(kind: &str) -> Option<String> {
    let (kind, head) = match kind {
        "shm" => (
            Listed::Segments,
            "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      \
             dtime      ctime                   rss                  swap\n",
        ),
        "sem" => (
            Listed::Semaphores,
            "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n",
        ),
        "msg" => (
            Listed::Messages,
            "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      \
             ctime\n",
        ),
        _ => return None,
    };
    let lines = process().files.lock().lines(kind).unwrap_or_default();
    Some(format!("{head}{}", String::from_utf8_lossy(&lines)))
}
