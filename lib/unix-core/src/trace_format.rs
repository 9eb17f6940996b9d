//! Lines of `--trace syscalls`, as strace(1) prints them: names of calls, arguments by kind, names of errors. Pure.

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
/// `b` stands for bytes whose count follows, `f` for a directory that a path begins at, `O` for flags of `open`,
/// `P` for a protection, `M` for a kind of mapping.
const KINDS: [(&str, &str); 96] = [
    ("accept", "dxx"),
    ("accept4", "dxxO"),
    ("access", "so"),
    ("arch_prctl", "xx"),
    ("bind", "dxd"),
    ("brk", "x"),
    ("chdir", "s"),
    ("chmod", "so"),
    ("chown", "sdd"),
    ("chroot", "s"),
    ("clock_nanosleep", "ddxx"),
    ("clone", "xxxxx"),
    ("clone3", "xd"),
    ("close", "d"),
    ("connect", "dxd"),
    ("creat", "so"),
    ("dup", "d"),
    ("dup2", "dd"),
    ("dup3", "ddO"),
    ("epoll_create1", "O"),
    ("epoll_ctl", "dddx"),
    ("epoll_wait", "dxdd"),
    ("eventfd2", "dO"),
    ("execve", "sxx"),
    ("execveat", "fsxxx"),
    ("exit", "d"),
    ("exit_group", "d"),
    ("faccessat", "fso"),
    ("faccessat2", "fsox"),
    ("fchmod", "do"),
    ("fcntl", "ddx"),
    ("flock", "dd"),
    ("fork", ""),
    ("fstat", "dx"),
    ("fsync", "d"),
    ("ftruncate", "dd"),
    ("futex", "xddxxx"),
    ("getcwd", "xd"),
    ("getdents64", "dxd"),
    ("getegid", ""),
    ("geteuid", ""),
    ("getgid", ""),
    ("getpgrp", ""),
    ("getpid", ""),
    ("getppid", ""),
    ("getrandom", "xdx"),
    ("gettid", ""),
    ("getuid", ""),
    ("ioctl", "dxx"),
    ("kill", "dS"),
    ("link", "ss"),
    ("listen", "dd"),
    ("lseek", "ddd"),
    ("lstat", "sx"),
    ("madvise", "xdd"),
    ("mkdir", "so"),
    ("mkdirat", "fso"),
    ("mmap", "xdPMdx"),
    ("mount", "sssxx"),
    ("mprotect", "xdP"),
    ("mremap", "xddxx"),
    ("munmap", "xd"),
    ("nanosleep", "xx"),
    ("newfstatat", "fsxx"),
    ("open", "sOo"),
    ("openat", "fsOo"),
    ("openat2", "fsxd"),
    ("pipe2", "xO"),
    ("poll", "xdd"),
    ("pread64", "dxdd"),
    ("prlimit64", "ddxx"),
    ("pwrite64", "dbdd"),
    ("read", "dxd"),
    ("readlink", "sxd"),
    ("readlinkat", "fsxd"),
    ("rename", "ss"),
    ("renameat2", "fsfsx"),
    ("rmdir", "s"),
    ("rseq", "xdxx"),
    ("rt_sigaction", "Sxxd"),
    ("rt_sigprocmask", "dxxd"),
    ("sendto", "dbdxxd"),
    ("set_robust_list", "xd"),
    ("set_tid_address", "x"),
    ("socket", "ddd"),
    ("stat", "sx"),
    ("statx", "fsxxx"),
    ("symlink", "ss"),
    ("tgkill", "ddS"),
    ("umask", "o"),
    ("umount2", "sx"),
    ("uname", "x"),
    ("unlink", "s"),
    ("unlinkat", "fsx"),
    ("wait4", "dxxx"),
    ("write", "dbd"),
];

/// The name of a call; its number where it has none.
pub fn name(number: u64) -> String {
    let call = CALLS.lines().filter_map(|line| line.split_once(' ')).find(|(own, _)| own.parse() == Ok(number));
    let name = call.and_then(|(_, rest)| rest.split(' ').next());
    name.map_or_else(|| format!("syscall_{number:#x}"), String::from)
}

/// A call with its arguments. `read` gives at most so many bytes of the program's memory from an address on, up to a 0
/// where the third argument says so.
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
            kind => argument(kind, value),
        });
    }
    text.push(')');
    text
}

/// What a call gave.
pub fn result(result: Result<u64, Errno>) -> String {
    match result {
        Ok(value) if value < 1 << 32 || value as i64 >= -4096 && (value as i64) < 0 => format!("{}", value as i64),
        Ok(value) => format!("{value:#x}"),
        Err(Errno::FAULT_UNDER_LOCK) => result_of(Errno::EFAULT),
        Err(Errno::INTERRUPTED_FOR_GOOD) => result_of(Errno::EINTR),
        Err(error) => result_of(error),
    }
}

fn result_of(error: Errno) -> String {
    error.name().map_or_else(|| format!("-1 (error {})", error.number()), |name| format!("-1 {name}"))
}

fn quoted(address: u64, most: usize, is_text: bool, read: &impl Fn(u64, usize, bool) -> Option<Vec<u8>>) -> String {
    if address == 0 {
        return "NULL".into();
    }
    let Some(bytes) = read(address, most, is_text) else { return format!("{address:#x}") };
    let dots = if bytes.len() == SHOWN { "..." } else { "" };
    format!("\"{}\"{dots}", bytes.escape_ascii())
}

fn argument(kind: char, value: u64) -> String {
    match kind {
        'd' => format!("{}", value as i64 as i32),
        'f' if value as i32 == linux::AT_FDCWD => "AT_FDCWD".into(),
        'f' => format!("{}", value as i32),
        'o' => format!("{value:#o}"),
        'O' => open_flags(value as u32),
        'P' => flags(value, "PROT_NONE", &[(1, "PROT_READ"), (2, "PROT_WRITE"), (4, "PROT_EXEC")]),
        'M' => flags(value, "0", &MAPPINGS),
        'S' => signal(value as u32),
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
fn flags(value: u64, none: &str, names: &[(u64, &str)]) -> String {
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
        assert_eq!(line("openat", [3, 0x1000, 0x41, 0o644, 0, 0]), r#"openat(3, "/etc/a\n", O_WRONLY|O_CREAT, 0o644)"#);
        assert_eq!(line("write", [1, 0x1000, 4, 9, 9, 9]), r#"write(1, "/etc", 4)"#);
        assert_eq!(line("kill", [u64::MAX, 9, 0, 0, 0, 0]), "kill(-1, SIGKILL)");
        let anonymous = [0, 4096, 3, 0x22, u64::MAX, 0];
        assert_eq!(line("mmap", anonymous), "mmap(0, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0)");
        assert_eq!(line("stat", [0, 0x20, 0, 0, 0, 0]), "stat(NULL, 0x20)");
        assert_eq!(line("kexec_load", [1, 2, 0, 0, 0, 0]), "kexec_load(0x1, 0x2)");
        assert_eq!(name(9999), "syscall_0x270f");
    }

    #[test]
    fn results_bear_the_names_of_errors() {
        assert_eq!(result(Ok(3)), "3");
        assert_eq!(result(Ok(0x7f00_0000_0000)), "0x7f0000000000");
        assert_eq!(result(Err(Errno::ENOENT)), "-1 ENOENT");
        assert_eq!(result(Err(Errno::FAULT_UNDER_LOCK)), "-1 EFAULT");
        assert_eq!([signal(11), signal(34), signal(0)], ["SIGSEGV", "SIGRT_2", "0"]);
    }

    #[test]
    fn every_kind_belongs_to_a_call() {
        for (own, kinds) in KINDS {
            assert!((0..500).any(|number| name(number) == own), "{own}");
            assert!(kinds.len() <= 6 && kinds.chars().all(|kind| "dxosbfOPMS".contains(kind)), "{own}");
        }
    }
}
