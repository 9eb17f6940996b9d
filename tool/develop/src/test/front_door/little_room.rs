//! Little room: a full disk, no way to the registry, and what `./chitin clean` frees.

use super::{Visit, well};

/// The program with which a visit mounts small file systems of its own.
pub(super) const MOUNTS: &str = "unshare";

/// A visit that mounts file systems.
const fn mounting(name: &'static str, lines: &'static str, output: &'static str) -> Visit {
    Visit { name, lines, status: 0, output, told: "", needs: &[MOUNTS] }
}

/// A proxy that is not there: every download fails at once.
macro_rules! without_registry {
    ($lines:literal) => {
        concat!(
            "export http_proxy=http://127.0.0.1:9 https_proxy=http://127.0.0.1:9
            said() { grep -v ': fetching' told | sed 's/E:.* is the/E: is the/'; }
            ",
            $lines
        )
    };
}

pub(super) const LITTLE_ROOM: [Visit; 3] = [
    mounting(
        "a_full_disk_is_named",
        "unshare -rm sh -c 'mkdir small; mount -t tmpfs -o size=1m small small; head -c 4000000 /dev/urandom > a; tar -czf a.tgz a
            CHITIN_CACHE=$PWD/small $chitin run --root a.tgz -- /a 2>&1 | grep -v unpacking; ls small/layer
            TMPDIR=$PWD/small $chitin run -- true 2>&1; ls small; rm -r small/*
            ' 2>&1 |
            sed \"s,$PWD,,g; s/ (os error.*//\"",
        "chitin: --root a.tgz: cannot write /small/layer (./chitin clean frees room, CHITIN_CACHE names another folder): No space left on device
chitin: cannot write the boot archive (TMPDIR names another folder for it): No space left on device
layer
",
    ),
    Visit {
        name: "a_registry_that_is_away",
        lines: without_registry!(
            "CHITIN_CACHE=$PWD/c $chitin run -- true 2> told; echo $?; said; ls c
            CHITIN_CACHE=$PWD/c $chitin run --packages hello -- true 2> told; echo $?; said; ls c/package
            CHITIN_CACHE=$PWD/c $chitin run --packages hello:arm64 -- true 2> told; echo $?; said
            $chitin run -- echo cached"
        ),
        status: 0,
        output: "125
chitin: cannot fetch busybox-static (E: is the network up? (apt-get update renews old lists, --root names another root)
125
chitin: apt-get: E: is the network up? (apt-get update renews old lists)
125
chitin: hello:arm64: packages for arm64 do not run here, the machine is amd64
cached
",
        told: "",
        needs: &["dpkg-deb"],
    },
    well(
        "clean_says_what_it_freed",
        "export CHITIN_CACHE=$PWD/c; mkdir -p c/layer c/root c/kept; head -c 3000000 /dev/zero > c/layer/a; : > c/kept/b
            $chitin clean | sed \"s,$PWD,,; s/^ *//\"; ls c; $chitin clean",
        "1 MiB /c/root\n3 MiB /c/layer\n3 MiB freed\nkept\n   0 MiB freed\n",
    ),
];
