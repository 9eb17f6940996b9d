//! `/proc/mounts`, made from `/proc/self/mountinfo`.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

/// The same mounts as `mounts` shows them (fstab(5)): source, place, kind, options of mount and volume, and two zeros.
pub fn mounts(mountinfo: &str) -> String {
    let mut text = String::new();
    for line in mountinfo.lines() {
        let Some((own, volume)) = line.split_once(" - ") else { continue };
        let own: Vec<&str> = own.split(' ').collect();
        let volume: Vec<&str> = volume.split(' ').collect();
        let ([_, _, _, _, point, flags, ..], [kind, source, options]) = (own.as_slice(), volume.as_slice()) else {
            continue;
        };
        let _ = writeln!(text, "{source} {point} {kind} {} 0 0", joined(flags, options));
    }
    text
}

/// What holds for the mount and what holds for its volume in one list: it can be written if both can.
fn joined(flags: &str, options: &str) -> String {
    let (access, rest) = flags.split_once(',').unwrap_or((flags, ""));
    let (volume_access, volume_rest) = options.split_once(',').unwrap_or((options, ""));
    let first = if access == "ro" || volume_access == "ro" { "ro" } else { "rw" };
    [first, rest, volume_rest].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_told_in_both_forms() {
        let mountinfo = "20 1 0:1 / / rw,relatime - tmpfs memory rw\n\
                         24 20 0:4 /a\\040b /mnt ro,nosuid,relatime unbindable - tmpfs none rw,size=8k\n";
        assert_eq!(
            mounts(mountinfo),
            "memory / tmpfs rw,relatime 0 0\nnone /mnt tmpfs ro,nosuid,relatime,size=8k 0 0\n"
        );
        assert_eq!(mounts("nonsense\n1 2 - 3\n"), "");
    }
}
