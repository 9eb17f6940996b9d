//! Table of machine-wide files of `/proc`: one row a file.
//!
//! A row is a fixed text or a function. A fixed text is what Linux writes on a machine without the facility. A function
//! reads the kernel's exposed structures.

use crate::procfs::{DIRECTORY, Entry, FILE, other_entry};
use abi::exposed::CpuInfo;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use runtime::exposed;
use unix_core::session::stored_gzip;
use vfs::initramfs::device;

/// Contents of a file.
enum Contents {
    Fixed(&'static str),
    Made(fn() -> String),
    Bytes(fn() -> Vec<u8>),
}
use Contents::{Bytes, Fixed, Made};

/// Path below `/proc`, permissions, contents.
const FILES: [(&str, u32, Contents); 36] = [
    ("buddyinfo", 0o444, Made(free_blocks)),
    ("cgroups", 0o444, Fixed("#subsys_name\thierarchy\tnum_cgroups\tenabled\n")),
    // The kernel takes no parameters.
    ("cmdline", 0o444, Fixed("\n")),
    ("config.gz", 0o444, Bytes(configuration)),
    ("consoles", 0o444, Fixed("")),
    ("crypto", 0o444, Fixed("")),
    ("interrupts", 0o444, Made(interrupts)),
    ("kallsyms", 0o444, Fixed("")),
    ("misc", 0o444, Fixed("")),
    ("node/node0/meminfo", 0o444, Made(node_memory)),
    ("node/node0/vmstat", 0o444, Made(node_pages)),
    ("pressure/cpu", 0o444, Fixed("")),
    ("pressure/io", 0o444, Fixed("")),
    ("pressure/memory", 0o444, Fixed("")),
    ("slabinfo", 0o400, Fixed(SLAB_HEAD)),
    ("softirqs", 0o444, Made(soft_interrupts)),
    ("timer_list", 0o400, Made(timer_list)),
    ("tty/drivers", 0o444, Made(terminal_drivers)),
    ("tty/ldiscs", 0o444, Fixed("n_tty       0\n")),
    ("zoneinfo", 0o444, Made(zone)),
    ("sys/fs/aio-max-nr", 0o444, Fixed("0\n")),
    ("sys/fs/aio-nr", 0o444, Fixed("0\n")),
    ("sys/fs/file-nr", 0o444, Made(open_files)),
    ("sys/fs/protected_hardlinks", 0o444, Fixed("1\n")),
    ("sys/fs/protected_symlinks", 0o444, Fixed("0\n")),
    ("sys/fs/suid_dumpable", 0o444, Fixed("0\n")),
    // No counter of the CPU is for programs.
    ("sys/kernel/perf_event_paranoid", 0o444, Fixed("3\n")),
    ("sys/kernel/sched_rt_period_us", 0o444, Fixed("1000000\n")),
    // The kernel keeps no share of a period back from real-time threads.
    ("sys/kernel/sched_rt_runtime_us", 0o444, Fixed("-1\n")),
    ("sys/kernel/seccomp/actions_avail", 0o444, Fixed("\n")),
    ("sys/kernel/seccomp/actions_logged", 0o444, Fixed("\n")),
    ("sys/user/max_mnt_namespaces", 0o444, Fixed("0\n")),
    ("sys/user/max_net_namespaces", 0o444, Fixed("0\n")),
    ("sys/user/max_pid_namespaces", 0o444, Fixed("0\n")),
    ("sys/user/max_user_namespaces", 0o444, Fixed("0\n")),
    ("sys/user/max_uts_namespaces", 0o444, Fixed("0\n")),
];
/// Folders without files.
const FOLDERS: [&str; 3] = ["bus", "tty/driver", "tty/ldisc"];
/// The folder that links of `/sys` lead to. Listings leave it out.
const UNLISTED: &str = "node";
const SLAB_HEAD: &str = "slabinfo - version: 2.1\n# name            <active_objs> <num_objs> <objsize> <objperslab> \
                         <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> \
                         <num_slabs> <sharedavail>\n";
/// Parts of Linux's configuration that ExOS offers to programs.
const OPTIONS: [&str; 21] = [
    "64BIT",
    "X86_64",
    "SMP",
    "MMU",
    "MULTIUSER",
    "BINFMT_ELF",
    "BINFMT_SCRIPT",
    "EPOLL",
    "EVENTFD",
    "FILE_LOCKING",
    "FUTEX",
    "INOTIFY_USER",
    "POSIX_MQUEUE",
    "POSIX_TIMERS",
    "PROC_FS",
    "SIGNALFD",
    "SYSFS",
    "SYSVIPC",
    "TIMERFD",
    "TMPFS",
    "UNIX",
];

/// Contents of the file at a path; `None`: the table has no such file.
pub(crate) fn contents(parts: &[&str]) -> Option<Vec<u8>> {
    let path = parts.join("/");
    let (.., contents) = FILES.iter().find(|(name, ..)| *name == path)?;
    Some(match contents {
        Fixed(text) => text.as_bytes().to_vec(),
        Made(make) => make().into_bytes(),
        Bytes(make) => make(),
    })
}

/// Permissions of the file at a path.
pub(crate) fn mode(path: &str) -> Option<u32> {
    FILES.iter().find(|(name, ..)| *name == path).map(|(_, mode, _)| *mode)
}

/// Names and types in a folder; `None`: the table has no such folder.
pub(crate) fn folder(parts: &[&str]) -> Option<Vec<(String, u32)>> {
    let path = parts.join("/");
    let below = |name: &'static str| match path.as_str() {
        "" => Some(name),
        _ => name.strip_prefix(path.as_str())?.strip_prefix('/'),
    };
    let files = FILES.iter().filter_map(|(name, ..)| below(name)).map(|rest| (rest, FILE));
    let folders = FOLDERS.iter().filter_map(|name| below(name)).map(|rest| (rest, DIRECTORY));
    let mut names: Vec<(String, u32)> = Vec::new();
    for (rest, kind) in files.chain(folders) {
        let (name, kind) = rest.split_once('/').map_or((rest, kind), |(name, _)| (name, DIRECTORY));
        let is_listed = name != UNLISTED && names.iter().all(|(there, _)| there != name);
        if is_listed {
            names.push((String::from(name), kind));
        }
    }
    (!names.is_empty() || FOLDERS.contains(&path.as_str())).then_some(names)
}

/// Free pages by the size of their blocks. The kernel frees and allocates single pages.
fn free_blocks() -> String {
    let free = exposed::kernel().free_pages.load(Relaxed);
    format!("Node 0, zone   Normal {free:>6} {}\n", format!("{:>6} ", 0).repeat(10))
}

/// A row of `interrupts` or `softirqs`: a value for each CPU.
fn row(name: &str, width: usize, value: impl Fn(&CpuInfo) -> u64) -> String {
    let values: String = exposed::cpus().map(|cpu| format!(" {:>10}", value(cpu))).collect();
    format!("{name:>width$}:{values}")
}

/// The line that names the CPUs, behind `width` blanks.
fn cpu_head(width: usize) -> String {
    let names: String = (0..exposed::cpus().count()).map(|cpu| format!("{:<11}", format!("CPU{cpu}"))).collect();
    format!("{:width$}{names}\n", "")
}

/// Interrupts that the kernel counts: kicks between CPUs, and interrupts without an owner.
fn interrupts() -> String {
    let kicks = row("RES", 3, |cpu| cpu.kicks.load(Relaxed));
    let stray = row("SPU", 3, |cpu| cpu.stray_interrupts.load(Relaxed));
    let head = cpu_head(11);
    format!("{head}{stray}   Spurious interrupts\n{kicks}   Rescheduling interrupts\n")
}

/// The kernel defers no work out of an interrupt.
fn soft_interrupts() -> String {
    const NAMES: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    let rows: String = NAMES.iter().map(|name| row(name, 12, |_| 0) + "\n").collect();
    cpu_head(20) + &rows
}

/// The head of the list. Timers lie with the processes that set them.
fn timer_list() -> String {
    let now = runtime::clock::now();
    format!("Timer List Version: v0.10\nHRTIMER_MAX_CLOCK_BASES: 8\nnow at {now} nsecs\n\n")
}

fn terminal_drivers() -> String {
    let rows = [
        ("/dev/tty", "/dev/tty", device::TTY.0, "0", "system:/dev/tty"),
        ("/dev/console", "/dev/console", device::CONSOLE.0, "1", "system:console"),
        ("/dev/ptmx", "/dev/ptmx", device::PTMX.0, "2", "system"),
        ("pty_slave", "/dev/pts", device::SLAVE_MAJOR, "0-1048575", "pty:slave"),
    ];
    let line = |(driver, node, major, minors, kind): (&str, &str, u32, &str, &str)| {
        format!("{driver:<20} {node:<8} {major:>7} {minors:>7} {kind}\n")
    };
    rows.map(line).concat()
}

fn pages() -> [u64; 2] {
    let load = |word: &AtomicU64| word.load(Relaxed);
    [crate::budget::total_pages(), load(&exposed::kernel().free_pages)]
}

/// The one zone. The kernel keeps no watermarks.
fn zone() -> String {
    let [all, free] = pages();
    let rows =
        [("boost", 0), ("min", 0), ("low", 0), ("high", 0), ("spanned", all), ("present", all), ("managed", all)];
    let rows: String = rows.iter().map(|(name, value)| format!("        {name:<8} {value}\n")).collect();
    format!("Node 0, zone   Normal\n  per-node stats\n  pages free     {free}\n{rows}")
}

fn node_memory() -> String {
    let [all, free] = pages().map(|pages| pages * 4);
    let rows = [("MemTotal", all), ("MemFree", free), ("MemUsed", all - free.min(all))];
    rows.map(|(name, value)| format!("Node 0 {:<15} {value:>8} kB\n", format!("{name}:"))).concat()
}

fn node_pages() -> String {
    format!("nr_free_pages {}\n", pages()[1])
}

/// Descriptors of the processes whose folders this process may read, unused ones, and the limit.
fn open_files() -> String {
    let count = |number| match other_entry(number, &["fd"]) {
        Ok(Entry::Directory(names)) => names.len(),
        _ => 0,
    };
    let own = crate::process::current::process();
    let others = crate::process_table::all().into_iter().filter(|other| other.number != own.number());
    let sum = others.map(|other| count(other.number)).sum::<usize>() + own.descriptors.table.lock().iter().count();
    format!("{sum}\t0\t1048576\n")
}

fn configuration() -> Vec<u8> {
    let options: String = OPTIONS.iter().map(|name| format!("CONFIG_{name}=y\n")).collect();
    stored_gzip::pack(format!("# What ExOS offers of Linux\n{options}").as_bytes())
}
