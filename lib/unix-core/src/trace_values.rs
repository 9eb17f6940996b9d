//! Values in lines of `--trace syscalls`: names of numbers, structures that a call reads, and those that it writes, as
//! strace(1) prints them. Pure.

use crate::trace_format::{SHOWN, flags, quoted, signal};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use linux_raw_sys::general as linux;

/// Texts of a list that are shown.
const TEXTS: u64 = 32;

/// An address.
pub(super) fn pointer(value: u64) -> String {
    if value == 0 { "NULL".into() } else { format!("{value:#x}") }
}

const ADVICE: [&str; 26] = [
    "MADV_NORMAL",
    "MADV_RANDOM",
    "MADV_SEQUENTIAL",
    "MADV_WILLNEED",
    "MADV_DONTNEED",
    "5",
    "6",
    "7",
    "MADV_FREE",
    "MADV_REMOVE",
    "MADV_DONTFORK",
    "MADV_DOFORK",
    "MADV_MERGEABLE",
    "MADV_UNMERGEABLE",
    "MADV_HUGEPAGE",
    "MADV_NOHUGEPAGE",
    "MADV_DONTDUMP",
    "MADV_DODUMP",
    "MADV_WIPEONFORK",
    "MADV_KEEPONFORK",
    "MADV_COLD",
    "MADV_PAGEOUT",
    "MADV_POPULATE_READ",
    "MADV_POPULATE_WRITE",
    "MADV_DONTNEED_LOCKED",
    "MADV_COLLAPSE",
];
const CLOCKS: [&str; 8] = [
    "CLOCK_REALTIME",
    "CLOCK_MONOTONIC",
    "CLOCK_PROCESS_CPUTIME_ID",
    "CLOCK_THREAD_CPUTIME_ID",
    "CLOCK_MONOTONIC_RAW",
    "CLOCK_REALTIME_COARSE",
    "CLOCK_MONOTONIC_COARSE",
    "CLOCK_BOOTTIME",
];
const CONTROLS: [&str; 12] = [
    "F_DUPFD", "F_GETFD", "F_SETFD", "F_GETFL", "F_SETFL", "F_GETLK", "F_SETLK", "F_SETLKW", "F_SETOWN", "F_GETOWN",
    "F_SETSIG", "F_GETSIG",
];
const FUTEX: [&str; 14] = [
    "FUTEX_WAIT",
    "FUTEX_WAKE",
    "FUTEX_FD",
    "FUTEX_REQUEUE",
    "FUTEX_CMP_REQUEUE",
    "FUTEX_WAKE_OP",
    "FUTEX_LOCK_PI",
    "FUTEX_UNLOCK_PI",
    "FUTEX_TRYLOCK_PI",
    "FUTEX_WAIT_BITSET",
    "FUTEX_WAKE_BITSET",
    "FUTEX_WAIT_REQUEUE_PI",
    "FUTEX_CMP_REQUEUE_PI",
    "FUTEX_LOCK_PI2",
];
const LIMITS: [&str; 16] = [
    "RLIMIT_CPU",
    "RLIMIT_FSIZE",
    "RLIMIT_DATA",
    "RLIMIT_STACK",
    "RLIMIT_CORE",
    "RLIMIT_RSS",
    "RLIMIT_NPROC",
    "RLIMIT_NOFILE",
    "RLIMIT_MEMLOCK",
    "RLIMIT_AS",
    "RLIMIT_LOCKS",
    "RLIMIT_SIGPENDING",
    "RLIMIT_MSGQUEUE",
    "RLIMIT_NICE",
    "RLIMIT_RTPRIO",
    "RLIMIT_RTTIME",
];
/// Requests of `ioctl`.
const REQUESTS: [(u64, &str); 14] = [
    (0x5401, "TCGETS"),
    (0x5402, "TCSETS"),
    (0x5403, "TCSETSW"),
    (0x5404, "TCSETSF"),
    (0x540b, "TCFLSH"),
    (0x540f, "TIOCGPGRP"),
    (0x5410, "TIOCSPGRP"),
    (0x5413, "TIOCGWINSZ"),
    (0x5414, "TIOCSWINSZ"),
    (0x541b, "FIONREAD"),
    (0x5421, "FIONBIO"),
    (0x5429, "TIOCGSID"),
    (0x5451, "FIOCLEX"),
    (0x540e, "TIOCSCTTY"),
];
/// Flags of `clone`, whose low byte is a signal.
const CLONES: [(u64, &str); 13] = [
    (0x100, "CLONE_VM"),
    (0x200, "CLONE_FS"),
    (0x400, "CLONE_FILES"),
    (0x800, "CLONE_SIGHAND"),
    (0x1000, "CLONE_PIDFD"),
    (0x4000, "CLONE_VFORK"),
    (0x8000, "CLONE_PARENT"),
    (0x1_0000, "CLONE_THREAD"),
    (0x4_0000, "CLONE_SYSVSEM"),
    (0x8_0000, "CLONE_SETTLS"),
    (0x10_0000, "CLONE_PARENT_SETTID"),
    (0x20_0000, "CLONE_CHILD_CLEARTID"),
    (0x100_0000, "CLONE_CHILD_SETTID"),
];
/// Operations of `prctl`.
const OPERATIONS: [(u64, &str); 9] = [
    (1, "PR_SET_PDEATHSIG"),
    (3, "PR_GET_DUMPABLE"),
    (4, "PR_SET_DUMPABLE"),
    (15, "PR_SET_NAME"),
    (16, "PR_GET_NAME"),
    (22, "PR_SET_SECCOMP"),
    (23, "PR_CAPBSET_READ"),
    (36, "PR_SET_CHILD_SUBREAPER"),
    (38, "PR_SET_NO_NEW_PRIVS"),
];
const SEGMENTS: [(u64, &str); 4] =
    [(0x1001, "ARCH_SET_GS"), (0x1002, "ARCH_SET_FS"), (0x1003, "ARCH_GET_FS"), (0x1004, "ARCH_GET_GS")];
const AT_FLAGS: [(u64, &str); 5] = [
    (0x100, "AT_SYMLINK_NOFOLLOW"),
    (0x200, "AT_REMOVEDIR"),
    (0x400, "AT_SYMLINK_FOLLOW"),
    (0x800, "AT_NO_AUTOMOUNT"),
    (0x1000, "AT_EMPTY_PATH"),
];

/// A number of a kind whose numbers have names; `None`: the kind has none.
pub(super) fn named(kind: char, value: u64) -> Option<String> {
    let of = |names: &[&str]| match names.get(value as u32 as usize) {
        Some(name) => String::from(*name),
        None => format!("{:#x}", value as u32),
    };
    Some(match kind {
        'A' => flags(u64::from(value as u32), "0", &AT_FLAGS),
        'D' => of(&ADVICE),
        'F' if value == u64::from(linux::F_DUPFD_CLOEXEC) => "F_DUPFD_CLOEXEC".into(),
        'F' => of(&CONTROLS),
        'G' => of(&["0", "EPOLL_CTL_ADD", "EPOLL_CTL_DEL", "EPOLL_CTL_MOD"]),
        'H' => of(&["SIG_BLOCK", "SIG_UNBLOCK", "SIG_SETMASK"]),
        'I' => among(&REQUESTS, value),
        'J' => among(&OPERATIONS, value),
        'K' => type_of_socket(value as u32),
        'L' => of(&LIMITS),
        'N' => of(&["AF_UNSPEC", "AF_UNIX", "AF_INET", "3", "4", "5", "6", "7", "8", "9", "AF_INET6"])
            .replace("0x10", "AF_NETLINK"),
        'R' => flags(u64::from(value as u32), "F_OK", &[(4, "R_OK"), (2, "W_OK"), (1, "X_OK")]),
        'U' => futex(value as u32),
        'W' => of(&["SEEK_SET", "SEEK_CUR", "SEEK_END", "SEEK_DATA", "SEEK_HOLE"]),
        'Y' => flags(u64::from(value as u32), "0", &[(1, "WNOHANG"), (2, "WSTOPPED"), (8, "WCONTINUED")]),
        'c' => of(&CLOCKS),
        'h' => among(&SEGMENTS, value),
        'i' => clone_flags(value),
        _ => return None,
    })
}

/// The name of a number; the number itself where it has none.
fn among(names: &[(u64, &str)], value: u64) -> String {
    let name = names.iter().find(|(number, _)| *number == value);
    name.map_or_else(|| format!("{value:#x}"), |(_, name)| String::from(*name))
}

fn clone_flags(value: u64) -> String {
    match (value & 0xff, value & !0xff) {
        (0, bits) => flags(bits, "0", &CLONES),
        (number, 0) => signal(number as u32),
        (number, bits) => format!("{}|{}", flags(bits, "0", &CLONES), signal(number as u32)),
    }
}

fn type_of_socket(value: u32) -> String {
    let kind = ["0", "SOCK_STREAM", "SOCK_DGRAM", "SOCK_RAW", "4", "SOCK_SEQPACKET"].get(value as usize & 0xf);
    let more = [(0x800, "|SOCK_NONBLOCK"), (0x80000, "|SOCK_CLOEXEC")];
    let more = more.iter().filter(|(bit, _)| value & bit != 0).map(|(_, name)| *name);
    kind.map_or_else(|| format!("{value:#x}"), |kind| core::iter::once(*kind).chain(more).collect())
}

fn futex(value: u32) -> String {
    let name =
        FUTEX.get((value & 0x7f) as usize).map_or_else(|| format!("{:#x}", value & 0x7f), |name| String::from(*name));
    let more = [(0x80, "_PRIVATE"), (0x100, "|FUTEX_CLOCK_REALTIME")];
    more.iter().filter(|(bit, _)| value & bit != 0).fold(name, |text, (_, name)| text + name)
}

/// Reads memory: see [`crate::trace_format::call`].
pub(super) trait Read: Fn(u64, usize, bool) -> Option<Vec<u8>> {}
impl<F: Fn(u64, usize, bool) -> Option<Vec<u8>>> Read for F {}

fn words<const N: usize>(at: u64, read: &impl Read) -> Option<[u64; N]> {
    let bytes = read(at, N * 8, false).filter(|bytes| bytes.len() == N * 8)?;
    Some(core::array::from_fn(|index| bytes.as_chunks::<8>().0.get(index).map_or(0, |word| u64::from_le_bytes(*word))))
}

fn halves<const N: usize>(at: u64, read: &impl Read) -> Option<[i32; N]> {
    let bytes = read(at, N * 4, false).filter(|bytes| bytes.len() == N * 4)?;
    Some(core::array::from_fn(|index| bytes.as_chunks::<4>().0.get(index).map_or(0, |half| i32::from_le_bytes(*half))))
}

/// Addresses of a list that ends with 0, at most so many.
fn list(at: u64, most: u64, read: &impl Read) -> Vec<u64> {
    let address = |index: u64| words::<1>(at.checked_add(index * 8)?, read).map(|[address]| address);
    (0..most).map_while(address).take_while(|address| *address != 0).collect()
}

/// A list of texts, such as the arguments of a program.
pub(super) fn list_of_texts(at: u64, read: &impl Read) -> String {
    if at == 0 {
        return "NULL".into();
    }
    let texts: Vec<String> = list(at, TEXTS, read).iter().map(|text| quoted(*text, SHOWN, true, read)).collect();
    let more = if texts.len() as u64 == TEXTS { ", ..." } else { "" };
    format!("[{}{more}]", texts.join(", "))
}

/// An environment: how many variables it has.
pub(super) fn environment(at: u64, read: &impl Read) -> String {
    if at == 0 { "NULL".into() } else { format!("{at:#x} /* {} vars */", list(at, 1000, read).len()) }
}

/// A time in seconds and nanoseconds.
pub(super) fn time(at: u64, read: &impl Read) -> String {
    let time = words::<2>(at, read).filter(|_| at != 0);
    time.map_or_else(
        || pointer(at),
        |[seconds, rest]| format!("{{tv_sec={}, tv_nsec={}}}", seconds as i64, rest as i64),
    )
}

/// An address of a socket, which has so many bytes.
pub(super) fn address_of_socket(at: u64, bytes: u64, read: &impl Read) -> String {
    let told = read(at, bytes.min(128) as usize, false).filter(|_| at != 0).unwrap_or_default();
    match told.as_slice() {
        [1, 0, 0, name @ ..] if !name.is_empty() => {
            format!("{{sa_family=AF_UNIX, sun_path=@\"{}\"}}", name.escape_ascii())
        }
        [1, 0, path @ ..] => {
            let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
            format!("{{sa_family=AF_UNIX, sun_path=\"{}\"}}", path.escape_ascii())
        }
        [2, 0, high, low, a, b, c, d, ..] => {
            let port = u16::from_be_bytes([*high, *low]);
            format!("{{sa_family=AF_INET, sin_port=htons({port}), sin_addr=inet_addr(\"{a}.{b}.{c}.{d}\")}}")
        }
        _ => pointer(at),
    }
}

/// Whether arguments of this kind are what the call writes.
pub(super) const fn is_written(kind: char) -> bool {
    matches!(kind, 'B' | 'Q' | 'T' | 'Z')
}

/// What a call has written: bytes as many as its result says (`B`), two descriptors (`Q`), the attributes of a file
/// (`T`), how a child ended (`Z`).
pub(super) fn written(kind: char, at: u64, count: u64, read: &impl Read) -> Option<String> {
    match kind {
        _ if at == 0 => None,
        'B' => {
            let shown = quoted(at, (count as usize).min(SHOWN), false, read);
            Some(if count as usize == SHOWN { String::from(shown.trim_end_matches("...")) } else { shown })
        }
        'Q' => halves::<2>(at, read).map(|[one, other]| format!("[{one}, {other}]")),
        'T' => attributes(at, read),
        'Z' if count == 0 => None,
        'Z' => halves::<1>(at, read).map(|[status]| format!("[{{{}}}]", ended(status as u32))),
        _ => None,
    }
}

/// `struct stat`: the type and permissions, and the size or the numbers of a device.
fn attributes(at: u64, read: &impl Read) -> Option<String> {
    let [_, _, _, mode, _, device, size] = words::<7>(at, read)?;
    let kind = match mode as u32 & linux::S_IFMT {
        linux::S_IFREG => "S_IFREG",
        linux::S_IFDIR => "S_IFDIR",
        linux::S_IFCHR => "S_IFCHR",
        linux::S_IFBLK => "S_IFBLK",
        linux::S_IFIFO => "S_IFIFO",
        linux::S_IFLNK => "S_IFLNK",
        linux::S_IFSOCK => "S_IFSOCK",
        _ => "0",
    };
    let what = match kind {
        "S_IFCHR" | "S_IFBLK" => format!("st_rdev=makedev({:#x}, {:#x})", device >> 8 & 0xfff, device & 0xff),
        _ => format!("st_size={size}"),
    };
    Some(format!("{{st_mode={kind}|0{:o}, {what}, ...}}", mode as u32 & 0o7777))
}

/// How a child ended, from the word of `wait`.
fn ended(status: u32) -> String {
    match (status & 0x7f, status >> 8 & 0xff) {
        (0, code) => format!("WIFEXITED(s) && WEXITSTATUS(s) == {code}"),
        (0x7f, 0xff) => "WIFCONTINUED(s)".into(),
        (0x7f, stop) => format!("WIFSTOPPED(s) && WSTOPSIG(s) == {}", signal(stop)),
        (number, _) => format!("WIFSIGNALED(s) && WTERMSIG(s) == {}", signal(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(address: u64, most: usize, _: bool) -> Option<Vec<u8>> {
        let at = |from: u64, bytes: &[u8]| {
            let rest = address.checked_sub(from).and_then(|start| bytes.get(start as usize..));
            rest.filter(|rest| rest.len() >= most).map(|rest| rest[..most].to_vec())
        };
        let list = [0x30u64.to_le_bytes(), 0x30u64.to_le_bytes(), [0; 8]].concat();
        at(0x100, &list)
            .or_else(|| (address == 0x30).then(|| b"sh".to_vec()))
            .or_else(|| at(0x200, &[7, 0, 0, 0, 9, 0, 0, 0]))
    }

    #[test]
    fn structures_are_written_as_strace_writes_them() {
        assert_eq!(list_of_texts(0x100, &memory), r#"["sh", "sh"]"#);
        assert_eq!(environment(0x100, &memory), "0x100 /* 2 vars */");
        assert_eq!(written('Q', 0x200, 0, &memory).as_deref(), Some("[7, 9]"));
        assert_eq!(written('Q', 0, 0, &memory), None);
        assert_eq!(time(0, &memory), "NULL");
        assert_eq!(
            [ended(0x300), ended(11), ended(0x137f), ended(0xffff)],
            [
                "WIFEXITED(s) && WEXITSTATUS(s) == 3",
                "WIFSIGNALED(s) && WTERMSIG(s) == SIGSEGV",
                "WIFSTOPPED(s) && WSTOPSIG(s) == SIGSTOP",
                "WIFCONTINUED(s)"
            ]
        );
        let internet = |_: u64, _: usize, _: bool| Some(Vec::from([2, 0, 0, 80, 10, 0, 0, 1]));
        assert_eq!(
            address_of_socket(1, 16, &internet),
            r#"{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("10.0.0.1")}"#
        );
        let path = |_: u64, _: usize, _: bool| Some(b"\x01\0/s\0".to_vec());
        assert_eq!(address_of_socket(1, 5, &path), r#"{sa_family=AF_UNIX, sun_path="/s"}"#);
        let status = |_: u64, _: usize, _: bool| {
            Some(
                [0, 0, 0, u64::from(linux::S_IFREG | 0o644), 0, 0, 9]
                    .iter()
                    .flat_map(|word: &u64| word.to_le_bytes())
                    .collect(),
            )
        };
        assert_eq!(written('T', 1, 0, &status).as_deref(), Some("{st_mode=S_IFREG|0644, st_size=9, ...}"));
    }

    #[test]
    fn numbers_have_their_names() {
        let name = |kind, value| named(kind, value).unwrap_or_default();
        assert_eq!(
            [name('U', 0x81), name('K', 0x80002), name('N', 16)],
            ["FUTEX_WAKE_PRIVATE", "SOCK_DGRAM|SOCK_CLOEXEC", "AF_NETLINK"]
        );
        assert_eq!(
            [name('I', 0x5413), name('F', 1030), name('R', 5), name('R', 0)],
            ["TIOCGWINSZ", "F_DUPFD_CLOEXEC", "R_OK|X_OK", "F_OK"]
        );
        assert_eq!([name('W', 2), name('W', 77), name('Y', 1)], ["SEEK_END", "0x4d", "WNOHANG"]);
        assert_eq!(name('i', 0x120_0011), "CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD");
        assert_eq!([name('J', 15), name('h', 0x1002), name('J', 999)], ["PR_SET_NAME", "ARCH_SET_FS", "0x3e7"]);
        assert_eq!(named('!', 1), None);
    }
}
