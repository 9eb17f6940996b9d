//! Lines of `--trace syscalls`, as strace(1) prints them: names of calls, arguments by kind, names of errors. Pure.

use crate::trace_values;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use linux_abi::errno::Errno;
use linux_raw_sys::general as linux;

/// Linux's calls: number, name, and remarks.
const CALLS: &str = include_str!("../../../test/parity/linux-calls");
/// Bytes of a text that are shown.
pub const SHOWN: usize = 48;

/// Kinds of arguments, one letter each: `d` number, `x` word, `o` mode, `s` text that ends with 0, `S` signal.
/// `b` stands for bytes whose count follows, `f` for a directory that a path begins at, `O` for flags of `open`, `C` for
/// those of them that calls take which open no file,
/// `P` for a protection, `M` for a kind of mapping. `p` is an address, `A` flags of calls on paths, `V` a list of texts,
/// `e` an environment, and `t` a time.
/// The letters of [`trace_values::named`] are numbers that have names. Those of [`trace_values::written`] are what the
/// call writes.
const KINDS: [(&str, &str); 131] = [
    ("accept", "dpp"),
    ("accept4", "dppC"),
    ("access", "sR"),
    ("arch_prctl", "hp"),
    ("bind", "dad"),
    ("brk", "p"),
    ("chdir", "s"),
    ("chmod", "so"),
    ("chown", "sdd"),
    ("chroot", "s"),
    ("clock_gettime", "cp"),
    ("clock_nanosleep", "cdtp"),
    ("clone", "ipppp"),
    ("clone3", "xd"),
    ("close", "d"),
    ("connect", "dad"),
    ("creat", "so"),
    ("dup", "d"),
    ("dup2", "dd"),
    ("dup3", "ddC"),
    ("epoll_create1", "C"),
    ("epoll_ctl", "dGdp"),
    ("epoll_wait", "dpdd"),
    ("eventfd2", "dC"),
    ("execve", "sVe"),
    ("execveat", "fsVeA"),
    ("exit", "d"),
    ("exit_group", "d"),
    ("faccessat", "fsR"),
    ("faccessat2", "fsRA"),
    ("fchdir", "d"),
    ("fchmod", "do"),
    ("fchmodat", "fso"),
    ("fchownat", "fsddA"),
    ("fcntl", "dFx"),
    ("flock", "dd"),
    ("fork", ""),
    ("fstat", "dT"),
    ("fstatfs", "dp"),
    ("fsync", "d"),
    ("ftruncate", "dd"),
    ("futex", "pUdppx"),
    ("getcwd", "pd"),
    ("getdents64", "dpd"),
    ("getegid", ""),
    ("geteuid", ""),
    ("getgid", ""),
    ("getgroups", "dp"),
    ("getpeername", "dpp"),
    ("getpgid", "d"),
    ("getpgrp", ""),
    ("getpid", ""),
    ("getppid", ""),
    ("getrandom", "Bdx"),
    ("getsockname", "dpp"),
    ("getsockopt", "dddpp"),
    ("gettid", ""),
    ("getuid", ""),
    ("ioctl", "dIp"),
    ("kill", "dS"),
    ("link", "ss"),
    ("linkat", "fsfsA"),
    ("listen", "dd"),
    ("lseek", "ddW"),
    ("lstat", "sT"),
    ("madvise", "pdD"),
    ("mkdir", "so"),
    ("mkdirat", "fso"),
    ("mmap", "pdPMdx"),
    ("mount", "sssxx"),
    ("mprotect", "pdP"),
    ("mremap", "pddxp"),
    ("munmap", "pd"),
    ("nanosleep", "tp"),
    ("newfstatat", "fsTA"),
    ("open", "sOo"),
    ("openat", "fsOo"),
    ("openat2", "fspd"),
    ("pipe", "Q"),
    ("pipe2", "QC"),
    ("poll", "pdd"),
    ("ppoll", "pdtp"),
    ("prctl", "Jp"),
    ("pread64", "dBdd"),
    ("prlimit64", "dLpp"),
    ("pwrite64", "dbdd"),
    ("read", "dBd"),
    ("readlink", "sBd"),
    ("readlinkat", "fsBd"),
    ("readv", "dpd"),
    ("recvfrom", "dBdxpp"),
    ("rename", "ss"),
    ("renameat", "fsfs"),
    ("renameat2", "fsfsx"),
    ("rmdir", "s"),
    ("rseq", "pdxx"),
    ("rt_sigaction", "Sppd"),
    ("rt_sigprocmask", "Hppd"),
    ("rt_sigreturn", ""),
    ("sched_yield", ""),
    ("sendfile", "ddpd"),
    ("sendto", "dbdxpd"),
    ("set_robust_list", "pd"),
    ("set_tid_address", "p"),
    ("setgid", "d"),
    ("setpgid", "dd"),
    ("setresgid", "ddd"),
    ("setresuid", "ddd"),
    ("setsid", ""),
    ("setsockopt", "dddpd"),
    ("setuid", "d"),
    ("shutdown", "dd"),
    ("sigaltstack", "pp"),
    ("socket", "NKd"),
    ("socketpair", "NKdQ"),
    ("stat", "sT"),
    ("statfs", "sp"),
    ("statx", "fsAxp"),
    ("symlink", "ss"),
    ("symlinkat", "sfs"),
    ("sysinfo", "p"),
    ("tgkill", "ddS"),
    ("truncate", "sd"),
    ("umask", "o"),
    ("umount2", "sx"),
    ("uname", "p"),
    ("unlink", "s"),
    ("unlinkat", "fsA"),
    ("wait4", "dZYp"),
    ("write", "dbd"),
    ("writev", "dpd"),
];

/// The name of a call; its number where it has none.
pub fn name(number: u64) -> String {
    let call = CALLS.lines().filter_map(|line| line.split_once(' ')).find(|(own, _)| own.parse() == Ok(number));
    let name = call.and_then(|(_, rest)| rest.split(' ').next());
    name.map_or_else(|| format!("syscall_{number:#x}"), String::from)
}

/// A call with its arguments as they are before it; what it writes is left out, for [`finish`]. `read` gives at most so
/// many bytes of the program's memory from an address on, up to a 0 where the third argument says so.
pub fn call(number: u64, arguments: [u64; 6], read: impl Fn(u64, usize, bool) -> Option<Vec<u8>>) -> String {
    let name = name(number);
    let kinds = KINDS.iter().find(|(own, _)| *own == name).map(|(_, kinds)| *kinds);
    // Of other calls every argument up to the last that is not 0.
    let given = 6 - arguments.iter().rev().take_while(|argument| **argument == 0).count();
    let kinds = kinds.unwrap_or(&"xxxxxx"[..given]);
    let opens = kinds.find('O').is_some_and(|at| arguments[at] as u32 & (linux::O_CREAT | linux::O_TMPFILE) != 0);
    let mut text = name;
    text.push('(');
    for (index, kind) in kinds.chars().enumerate() {
        // The mode counts only where a file may be made.
        if kind == 'o' && kinds.contains("Oo") && !opens {
            break;
        }
        if index > 0 {
            text.push_str(", ");
        }
        let value = arguments[index];
        text.push_str(&match kind {
            's' => quoted(value, SHOWN, true, &read),
            'b' => quoted(value, arguments[index + 1].min(SHOWN as u64) as usize, false, &read),
            'V' => trace_values::list_of_texts(value, &read),
            'e' => trace_values::environment(value, &read),
            'a' => trace_values::address_of_socket(value, arguments[index + 1], &read),
            't' => trace_values::time(value, &read),
            kind if trace_values::is_written(kind) => format!("{OPEN}{kind}{value:x}{OPEN}"),
            kind => argument(kind, value),
        });
    }
    text.push(')');
    text
}

/// Encloses what [`finish`] fills in: the kind, and the address.
const OPEN: char = '\u{1}';

/// The line of a call that has returned: what it wrote is filled in where it succeeded, else the address of that.
pub fn finish(text: &str, outcome: Result<u64, Errno>, read: impl Fn(u64, usize, bool) -> Option<Vec<u8>>) -> String {
    let parts = text.split(OPEN).enumerate().map(|(index, part)| {
        let mut letters = part.chars();
        match (index % 2, letters.next()) {
            (1, Some(kind)) => {
                let address = u64::from_str_radix(letters.as_str(), 16).unwrap_or_default();
                let written = outcome.ok().and_then(|count| trace_values::written(kind, address, count, &read));
                written.unwrap_or_else(|| trace_values::pointer(address))
            }
            _ => part.into(),
        }
    });
    format!("{} = {}", parts.collect::<String>(), result(outcome))
}

/// What a call gave.
pub fn result(result: Result<u64, Errno>) -> String {
    match result {
        Ok(value) if value < 1 << 32 || value as i64 >= -4096 && (value as i64) < 0 => format!("{}", value as i64),
        Ok(value) => format!("{value:#x}"),
        Err(Errno::FAULT_UNDER_LOCK) => result_of(Errno::EFAULT),
        Err(Errno::INTERRUPTED_FOR_GOOD) => result_of(Errno::EINTR),
        Err(Errno::MADE_AGAIN) => "? ERESTARTNOINTR (To be restarted)".into(),
        Err(error) => result_of(error),
    }
}

fn result_of(error: Errno) -> String {
    const TEXTS: &str = include_str!("errno_texts.txt");
    let text = TEXTS.lines().nth(error.number().wrapping_sub(1) as usize);
    match (error.name(), text) {
        (Some(name), Some(text)) => format!("-1 {name} ({text})"),
        _ => format!("-1 (error {})", error.number()),
    }
}

pub(super) fn quoted(
    address: u64,
    most: usize,
    is_text: bool,
    read: &impl Fn(u64, usize, bool) -> Option<Vec<u8>>,
) -> String {
    if address == 0 {
        return "NULL".into();
    }
    let Some(bytes) = read(address, most, is_text) else { return format!("{address:#x}") };
    let dots = if bytes.len() == SHOWN { "..." } else { "" };
    format!("\"{}\"{dots}", bytes.escape_ascii()).replace("\\'", "'")
}

fn argument(kind: char, value: u64) -> String {
    match kind {
        'd' => format!("{}", value as i64 as i32),
        'f' if value as i32 == linux::AT_FDCWD => "AT_FDCWD".into(),
        'f' => format!("{}", value as i32),
        'o' if value == 0 => "0".into(),
        'o' => format!("0{value:o}"),
        'p' => trace_values::pointer(value),
        'O' => open_flags(value as u32),
        'C' if value as u32 == 0 => "0".into(),
        'C' => String::from(open_flags(value as u32).trim_start_matches("O_RDONLY|")),
        'P' => flags(value, "PROT_NONE", &[(1, "PROT_READ"), (2, "PROT_WRITE"), (4, "PROT_EXEC")]),
        'M' => flags(value, "0", &MAPPINGS),
        'S' => signal(value as u32),
        kind if let Some(text) = trace_values::named(kind, value) => text,
        _ if value == 0 => "0".into(),
        _ => format!("{value:#x}"),
    }
}

const MAPPINGS: [(u64, &str); 8] = [
    (1, "MAP_SHARED"),
    (2, "MAP_PRIVATE"),
    (0x10, "MAP_FIXED"),
    (0x20, "MAP_ANONYMOUS"),
    (0x4000, "MAP_NORESERVE"),
    (0x8000, "MAP_POPULATE"),
    (0x20000, "MAP_STACK"),
    (0x10_0000, "MAP_FIXED_NOREPLACE"),
];

fn open_flags(value: u32) -> String {
    const OTHERS: [(u64, &str); 11] = [
        (linux::O_TMPFILE as u64, "O_TMPFILE"),
        (linux::O_CREAT as u64, "O_CREAT"),
        (linux::O_EXCL as u64, "O_EXCL"),
        (linux::O_NOCTTY as u64, "O_NOCTTY"),
        (linux::O_TRUNC as u64, "O_TRUNC"),
        (linux::O_APPEND as u64, "O_APPEND"),
        (linux::O_NONBLOCK as u64, "O_NONBLOCK"),
        (linux::O_DIRECTORY as u64, "O_DIRECTORY"),
        (linux::O_NOFOLLOW as u64, "O_NOFOLLOW"),
        (linux::O_CLOEXEC as u64, "O_CLOEXEC"),
        (linux::O_PATH as u64, "O_PATH"),
    ];
    let access = ["O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE"][(value & 3) as usize];
    match value & !3 {
        0 => access.into(),
        rest => format!("{access}|{}", flags(u64::from(rest), "0", &OTHERS)),
    }
}

/// The names of flags, and what is left over as a number.
pub(super) fn flags(value: u64, none: &str, names: &[(u64, &str)]) -> String {
    let mut left = value;
    let mut text = String::new();
    for (bits, name) in names {
        if left & bits == *bits {
            left &= !bits;
            let _ = write!(text, "{}{name}", if text.is_empty() { "" } else { "|" });
        }
    }
    match left {
        0 if text.is_empty() => none.into(),
        0 => text,
        left if text.is_empty() => format!("{left:#x}"),
        left => format!("{text}|{left:#x}"),
    }
}

/// The name of a signal.
pub fn signal(number: u32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
        "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
        "WINCH", "IO", "PWR", "SYS",
    ];
    let name = (number as usize).checked_sub(1).and_then(|index| NAMES.get(index));
    match name {
        Some(name) => format!("SIG{name}"),
        None if number >= 32 => format!("SIGRT_{}", number - 32),
        None => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(address: u64, most: usize, _: bool) -> Option<Vec<u8>> {
        (address == 0x1000).then(|| b"/etc/a\n"[..most.min(7)].to_vec())
    }

    #[test]
    fn calls_are_written_as_strace_writes_them() {
        let number = |wanted: &str| (0..500).find(|number| name(*number) == wanted).unwrap();
        let line = |name, arguments| call(number(name), arguments, memory);
        let here = linux::AT_FDCWD as u64;
        assert_eq!(
            line("openat", [here, 0x1000, 0x80000, 5, 0, 0]),
            r#"openat(AT_FDCWD, "/etc/a\n", O_RDONLY|O_CLOEXEC)"#
        );
        assert_eq!(line("openat", [3, 0x1000, 0x41, 0o644, 0, 0]), r#"openat(3, "/etc/a\n", O_WRONLY|O_CREAT, 0644)"#);
        assert_eq!(line("write", [1, 0x1000, 4, 9, 9, 9]), r#"write(1, "/etc", 4)"#);
        assert_eq!(line("kill", [u64::MAX, 9, 0, 0, 0, 0]), "kill(-1, SIGKILL)");
        let anonymous = [0, 4096, 3, 0x22, u64::MAX, 0];
        assert_eq!(line("mmap", anonymous), "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0)");
        let stat = line("stat", [0, 0x20, 0, 0, 0, 0]);
        assert_eq!(finish(&stat, Err(Errno::EFAULT), memory), "stat(NULL, 0x20) = -1 EFAULT (Bad address)");
        let read = line("read", [3, 0x1000, 100, 0, 0, 0]);
        assert_eq!(finish(&read, Ok(4), memory), r#"read(3, "/etc", 100) = 4"#);
        assert_eq!(line("lseek", [3, 0, 2, 0, 0, 0]), "lseek(3, 0, SEEK_END)");
        assert_eq!(line("fcntl", [3, 4, 0x800, 0, 0, 0]), "fcntl(3, F_SETFL, 0x800)");
        assert_eq!(line("unlinkat", [here, 0x1000, 0x200, 0, 0, 0]), r#"unlinkat(AT_FDCWD, "/etc/a\n", AT_REMOVEDIR)"#);
        assert_eq!(
            line("socket", [2, 0x80801, 0, 0, 0, 0]),
            "socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0)"
        );
        assert_eq!(line("kexec_load", [1, 2, 0, 0, 0, 0]), "kexec_load(0x1, 0x2)");
        assert_eq!(name(9999), "syscall_0x270f");
    }

    #[test]
    fn results_bear_the_names_of_errors() {
        assert_eq!(result(Ok(3)), "3");
        assert_eq!(result(Ok(0x7f00_0000_0000)), "0x7f0000000000");
        assert_eq!(result(Err(Errno::ENOENT)), "-1 ENOENT (No such file or directory)");
        assert_eq!(result(Err(Errno::FAULT_UNDER_LOCK)), "-1 EFAULT (Bad address)");
        assert_eq!(result(Err(Errno::MADE_AGAIN)), "? ERESTARTNOINTR (To be restarted)");
        assert_eq!([signal(11), signal(34), signal(0)], ["SIGSEGV", "SIGRT_2", "0"]);
    }

    fn is_known(kind: char) -> bool {
        "dxosbfOCPMSpaVet".contains(kind) || trace_values::is_written(kind) || trace_values::named(kind, 1).is_some()
    }

    #[test]
    fn every_kind_belongs_to_a_call() {
        for (own, kinds) in KINDS {
            assert!((0..500).any(|number| name(number) == own), "{own}");
            assert!(kinds.len() <= 6 && kinds.chars().all(is_known), "{own}");
        }
    }
}
