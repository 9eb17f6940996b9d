//! Start program: a static ELF of a few hundred bytes that takes a user and executes another program in its place.
//!
//! ExOS starts the first process as user 0. Any other user is taken as on Linux, by `setgroups`, `setgid` and `setuid`
//! from a program; roots without any program but their own have none that could. Its machine code is made here.

use crate::root::user::User;
use crate::root::{Contents, Kind, Node, Tree};

/// Where it stands in the root.
const PLACE: &str = ".chitin/start";
const BASE: u32 = 0x40_0000;
const HEADERS: usize = 64 + 56;
/// Bytes of the code, the same for each user, and where in it the complaint begins.
const CODE: usize = 123;
const COMPLAINS_AT: usize = 89;

/// `mov register, value` for these registers, and `syscall`.
const EAX: u8 = 0xb8;
const EDI: u8 = 0xbf;
const ESI: u8 = 0xbe;
const EDX: u8 = 0xba;
const SYSCALL: [u8; 2] = [0x0f, 0x05];

const WRITE: u32 = 1;
const EXECVE: u32 = 59;
const EXIT: u32 = 60;
const SETUID: u32 = 105;
const SETGID: u32 = 106;
const SETGROUPS: u32 = 116;
const COMPLAINT: &str = "chitin: this user cannot be taken, or cannot execute the program\n";
/// The status of a program that cannot be executed.
const STATUS: u32 = 126;

/// Adds the program for `user`; the answer is its path.
pub fn add_to(tree: &mut Tree, user: &User) -> String {
    let file = tree.add_contents(Contents::Bytes(elf(user.user, user.group)));
    tree.insert(PLACE.as_bytes(), Node::of_root(Kind::File(file), 0o755));
    format!("/{PLACE}")
}

/// An ELF with one segment: the headers, the code, the group, the complaint.
fn elf(user: u32, group: u32) -> Vec<u8> {
    let data = HEADERS + CODE;
    let group_at = BASE + u32::try_from(data).unwrap_or(0);
    let code = code(user, group, group_at);
    debug_assert_eq!(code.len(), CODE);
    let length = (data + 4 + COMPLAINT.len()) as u64;
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let half = |bytes: &mut Vec<u8>, values: &[u16]| values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    let word = |bytes: &mut Vec<u8>, values: &[u32]| values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    let long = |bytes: &mut Vec<u8>, values: &[u64]| values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    // Executable, for x86-64, version 1; entry, program headers; flags; sizes and counts of headers.
    half(&mut bytes, &[2, 62]);
    word(&mut bytes, &[1]);
    long(&mut bytes, &[u64::from(BASE) + HEADERS as u64, 64, 0]);
    word(&mut bytes, &[0]);
    half(&mut bytes, &[64, 56, 1, 64, 0, 0]);
    // One segment to load, readable and executable.
    word(&mut bytes, &[1, 5]);
    long(&mut bytes, &[0, u64::from(BASE), u64::from(BASE), length, length, 0x1000]);
    bytes.extend(code);
    word(&mut bytes, &[group]);
    bytes.extend(COMPLAINT.as_bytes());
    bytes
}

/// Three calls that must give 0, the execution, and what is said where that fails.
fn code(user: u32, group: u32, group_at: u32) -> Vec<u8> {
    let mut code = Vec::new();
    for (number, first, second) in [(SETGROUPS, 1, group_at), (SETGID, group, 0), (SETUID, user, 0)] {
        load(&mut code, &[(EDI, first), (ESI, second), (EAX, number)]);
        code.extend(SYSCALL);
        // test eax, eax; jnz to the complaint
        code.extend([0x85, 0xc0, 0x75]);
        code.push(u8::try_from(COMPLAINS_AT - code.len() - 1).unwrap_or(0));
    }
    // mov rdi, [rsp + 16]; lea rsi, [rsp + 16]: the arguments from the second on
    code.extend([0x48, 0x8b, 0x7c, 0x24, 0x10, 0x48, 0x8d, 0x74, 0x24, 0x10]);
    // mov rax, [rsp]; lea rdx, [rsp + 8 * rax + 16]: the environment behind them
    code.extend([0x48, 0x8b, 0x04, 0x24, 0x48, 0x8d, 0x54, 0xc4, 0x10]);
    load(&mut code, &[(EAX, EXECVE)]);
    code.extend(SYSCALL);
    let length = u32::try_from(COMPLAINT.len()).unwrap_or(0);
    load(&mut code, &[(EDI, 2), (ESI, group_at + 4), (EDX, length), (EAX, WRITE)]);
    code.extend(SYSCALL);
    load(&mut code, &[(EDI, STATUS), (EAX, EXIT)]);
    code.extend(SYSCALL);
    code
}

/// `mov register, value` for each.
fn load(code: &mut Vec<u8>, values: &[(u8, u32)]) {
    for (register, value) in values {
        code.push(*register);
        code.extend(value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn linux_runs_it_and_it_takes_the_user_or_says_that_it_cannot() {
        assert_eq!(code(1, 2, 3).len(), CODE);
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("start");
        std::fs::write(&program, elf(1234, 5678)).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let output =
            Command::new(&program).args(["/bin/sh", "-c", "id -u; id -G; echo $A"]).env("A", "b").output().unwrap();
        if rustix::process::geteuid().is_root() {
            assert_eq!(String::from_utf8_lossy(&output.stdout), "1234\n5678\nb\n");
            let output = Command::new(&program).arg("/etc/passwd").output().unwrap();
            assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(126), COMPLAINT.as_bytes()));
        } else {
            assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(126), COMPLAINT.as_bytes()));
        }
    }
}
