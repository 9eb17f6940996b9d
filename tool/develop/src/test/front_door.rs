//! The front door as strangers try it: wrong words, too little of what it needs, and roots and programs that are none.
//! Also streams that are closed or full, and signals at any moment. Each test is some lines of shell. Its status, its
//! standard output and its standard error are compared; the error is one clear line where something is wrong. Nothing
//! may be left: no temporary file, no process.

mod crash_states;
mod debugging;
mod disks;
mod first_screen;
mod go;
mod linux_on_a_wire;
mod little_room;
mod network;
mod redis;
mod servers;
mod wire;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::bench::peer;
use chitin::build::{self, Images};
use chitin::failure::{Context, Result};
use chitin::kvm;
use chitin::qemu::Accelerator;
use chitin::root::debian;
use chitin::scratch;
use chitin::toolchain::{Toolchain, find_program};
use chitin::workspace::Workspace;

use super::Depth;
use super::case::{Case, Verdict};
use crash_states::{CRASH_STATES, MORE_CRASH_STATES, STATES};
use debugging::DEBUGGING;
use disks::{DISKS, SMALL_DISKS};
use first_screen::FIRST_SCREEN;
use go::GO;
use linux_on_a_wire::{LINUX, LINUX_ON_A_WIRE};
use little_room::{LITTLE_ROOM, MOUNTS};
use network::NETWORK;
use redis::{REDIS, REDIS_S_TESTS};
use servers::{LARGE_SERVERS, SERVERS};
use wire::{LARGE_WIRE, TAPS, WIRE};

/// What a stranger does, and what must come of it.
struct Visit {
    name: &'static str,
    /// Lines of a shell in an empty folder; `$chitin` and `$develop` are the host command, `$door` the script
    /// before it.
    lines: &'static str,
    status: i32,
    output: &'static str,
    /// What standard error must hold; nothing: it must be empty.
    told: &'static str,
    /// Programs of the host without which the visit is skipped.
    needs: &'static [&'static str],
}

/// Lines of a shell with what the front door needs in `PATH`, but not QEMU and nothing that installs it.
macro_rules! without_qemu {
    ($lines:literal) => {
        concat!(
            "mkdir bin; for tool in sh dirname sed sort head cut find env id cargo rustc rustup cc as ld touch; do
                ! found=$(command -v $tool) || ln -s $found bin/$tool
            done; PATH=$PWD/bin; ",
            $lines
        )
    };
}

/// A visit with one complaint.
const fn plain(name: &'static str, lines: &'static str, status: i32, told: &'static str) -> Visit {
    Visit { name, lines, status, output: "", told, needs: &[] }
}

/// A visit that ends well.
const fn well(name: &'static str, lines: &'static str, output: &'static str) -> Visit {
    Visit { name, lines, status: 0, output, told: "", needs: &[] }
}

/// Lines of a shell that make an image of two layers by umoci: the layout `image`, with the name `one`.
macro_rules! with_image {
    ($lines:literal) => {
        concat!(
            "exec 3>&2 2> tools; umoci init --layout image; umoci new --image image:one; umoci unpack --image image:one a
            mkdir -p a/rootfs/bin a/rootfs/d a/rootfs/etc; cp $busybox a/rootfs/bin/
            for name in sh cat id pwd; do ln -s busybox a/rootfs/bin/$name; done
            echo old > a/rootfs/d/old; echo kept > a/rootfs/d/kept; ln a/rootfs/d/kept a/rootfs/d/same
            echo web:x:33:44::/srv:/bin/sh > a/rootfs/etc/passwd; umoci repack --image image:one a
            umoci unpack --image image:one b; rm b/rootfs/d/old; umoci repack --image image:one b
            umoci config --image image:one --config.entrypoint /bin/sh --config.entrypoint -c --config.user web \\
                --config.cmd 'id; pwd; cat /d/*; echo $A' --config.workingdir /srv/new --config.env A=b
            exec 2>&3
            run() { $chitin run --image \"$@\" 2> said; status=$?; grep -v ': unpacking' said >&2; return $status; }
            ",
            $lines
        )
    };
}

/// A visit with a root of Debian packages, which is made at the first time.
const fn packages(name: &'static str, lines: &'static str, output: &'static str) -> Visit {
    Visit { name, lines, status: 0, output, told: "", needs: &["dpkg-deb"] }
}

/// A visit with an image that other projects' tools made.
const fn image(name: &'static str, lines: &'static str, output: &'static str, needs: &'static [&'static str]) -> Visit {
    Visit { name, lines, status: 0, output, told: "", needs }
}

const VISITS: &[Visit] = &[
    plain("an_option_that_is_none", "$chitin run --bogus", 2, "unexpected argument '--bogus'"),
    plain("a_command_that_is_none", "$chitin fly", 2, "unrecognized subcommand 'fly'"),
    plain("a_size_that_is_none", "$chitin run -m much -- /bin/true", 2, "\"much\" is no size"),
    plain("no_cpus", "$chitin run -c 0 -- /bin/true", 2, "0 is not in 1..=16"),
    plain("a_variable_without_a_name", "$chitin run -e =1 -- /bin/true", 2, "given as NAME=VALUE"),
    plain("a_trace_of_nothing", "$chitin run --trace weather -- /bin/true", 2, "invalid value 'weather'"),
    plain("too_little_memory", "$chitin run -m 1M -- /bin/true", 125, "--memory 1M is too little"),
    plain(
        "a_root_that_no_machine_is_loaded_with",
        "mkdir -p large/bin && cp /bin/true large/bin && truncate -s 2100M large/holes && $chitin run --root large -- /bin/true",
        125,
        "this root is 2101 MiB, and QEMU loads a machine with 2000 MiB of one at most",
    ),
    plain("more_memory_than_there_is", "$chitin run -m 999999999G -- /bin/true", 125, "QEMU "),
    well("the_least_memory_is_enough", "$chitin run -m 34M -c 4 -- /bin/sh -c 'seq 1000 | sort -n | tail -n 1'", "1000\n"),
    plain("a_root_that_is_not_there", "$chitin run --root none -- /bin/true", 125, "--root none: No such file"),
    plain("a_root_that_is_a_device", "$chitin run --root /dev/zero", 125, "neither a directory nor a file"),
    plain("a_root_that_is_empty", "mkdir root; $chitin run --root root", 127, "/bin/sh: no such program"),
    plain("a_root_that_is_text", "$chitin run --root /etc/passwd -- /bin/true", 125, "nor a tar that can be read"),
    plain("a_root_of_nothing", ": > none; $chitin run --root none -- /bin/true", 125, "the tar is empty"),
    plain(
        "a_root_that_is_cut_off",
        "head -c 90000 /dev/zero > file; tar -cf tar file; head -c 70000 tar > cut; $chitin run --root cut -- /file",
        125,
        "damaged or cut off behind its entry 1",
    ),
    plain("a_root_that_is_packed_in_another_way", "bzip2 < /etc/passwd > root; $chitin run --root root", 125, "unpack it with bunzip2"),
    image("an_image_of_umoci", with_image!("run image"), "uid=33(web) gid=44 groups=44\n/srv/new\nkept\nkept\nb\n", &["umoci"]),
    image(
        "an_image_of_skopeo_as_docker_saves_it",
        with_image!("skopeo copy -q oci:image:one docker-archive:saved.tar:me/it:1
            run saved.tar:1 -u 5:6 -w / -e A=c -- 'id -u; id -g; pwd; echo $A'"),
        "5\n6\n/\nc\n",
        &["umoci", "skopeo"],
    ),
    image(
        "an_image_of_skopeo_packed_by_zstd",
        with_image!("skopeo copy -q --dest-compress --dest-compress-format zstd oci:image:one oci:packed:one
            tar -C packed -cf - . | gzip > packed.tgz; run packed.tgz --entrypoint cat -- /d/kept"),
        "kept\n",
        &["umoci", "skopeo"],
    ),
    Visit {
        name: "an_image_that_is_damaged",
        lines: with_image!("for blob in image/blobs/sha256/*; do printf x | dd of=$blob bs=1 seek=60 conv=notrunc 2> /dev/null
            done; run image"),
        status: 125,
        output: "",
        told: "is damaged: its digest is sha256:",
        needs: &["umoci"],
    },
    well("a_root_that_is_larger_than_the_usual_memory", "mkdir -p root/bin; cp $busybox root/bin/; truncate -s 300M root/large
        $chitin run --root root -- /bin/busybox wc -c /large", "314572800 /large\n"),
    packages("debian_s_python3", "$chitin run --packages python3 -- python3 -c 'import json; print(json.dumps([6 * 7]))' 2> said || cat said >&2", "[42]\n"),
    packages("debian_s_git", "$chitin run --packages git -- sh -c 'cd /tmp; git init -q a; cd a; git status -s; ls -d .git' 2> said || cat said >&2", ".git\n"),
    packages("debian_s_gcc", "$chitin run --packages gcc,libc6-dev -- sh -c 'echo \"int main(void) { return 42; }\" > a.c; gcc a.c; ./a.out; echo $?' 2> said || cat said >&2", "42\n"),
    plain("a_package_that_is_not_there", "$chitin run --packages pyhton3 -- true", 125, "near it are python3"),
    plain("a_package_with_a_name_that_is_none", "$chitin root -o a.tar -- -o", 125, "is no name of a package"),
    plain("a_root_into_a_folder_that_is_not_empty", "mkdir a; : > a/b; $chitin root hello -o a", 125, "is there already and not empty"),
    Visit {
        name: "a_shared_folder",
        lines: "mkdir d; echo 1 > d/a; echo 2 > d/gone; $chitin run -v d:/mnt/d -- sh -c 'cat /mnt/d/a; echo 3 > /mnt/d/a; rm /mnt/d/gone
            mkdir /mnt/d/e; ln -s a /mnt/d/e/l; printf end; exit 5' 2> said; echo \" $?\"; cat d/a; readlink d/e/l; ls d; sort said",
        status: 0,
        output: "1\nend 5\n3\na\na\ne\nchitin: changed d/a\nchitin: changed d/e\nchitin: changed d/e/l\nchitin: removed d/gone\n",
        told: "",
        needs: &[],
    },
    well("a_program_in_a_shared_folder", "mkdir d; printf '#!/bin/sh\necho $0 $1\n' > d/a; chmod +x d/a; $chitin run -v d:/d:ro -- /d/a 1; $chitin run -v d:/e -e PATH=/e:/bin -- a 2", "/d/a 1\n/e/a 2\n"),
    well("a_shared_folder_that_is_read_only", "mkdir d; echo 1 > d/a; $chitin run -v d:/d:ro -- sh -c 'echo 2 > /d/a; cat /d/a'; cat d/a", "2\n1\n"),
    well(
        "a_raw_disk_keeps_what_tar_wrote",
        "all='find etc -type f | sort | xargs stat -c %n.%a.%u.%Y; find etc -type f | sort | xargs md5sum'
            $chitin run --disk d:4M -- sh -c \"tar -cf /dev/vda etc && sync && $all\" > made
            $chitin run --disk d -- sh -c \"cd /tmp && tar -xf /dev/vda && $all\" > found 2> told
            grep -c etc/passwd made; cmp made found && echo same",
        "2\nsame\n",
    ),
    well(
        "a_raw_disk_has_borders_and_a_size",
        "$chitin run --disk d:1M -- sh -c 'cat /sys/block/vda/size; tail -n 1 /proc/partitions; stat -c %F,%a,%t:%T /dev/vda
            printf abc > /tmp/a; dd if=/tmp/a of=/dev/vda bs=1 seek=1048574 2> /tmp/said; grep -o No.space.* /tmp/said
            dd if=/dev/vda bs=1 skip=1048573 2> /dev/null | od -An -c
            dd if=/dev/vda bs=512 skip=2047 iflag=direct 2> /dev/null | wc -c
            su nobody -s /bin/sh -c \"cat /dev/vda\" 2>&1 | grep -o Permission.*'",
        "2048\n 254        0       1024 vda\nblock special file,660,fe:0\nNo space left on device\n  \\0   a   b\n512\nPermission denied\n",
    ),
    well(
        "a_disk_with_20_000_names_is_mounted",
        "mkdir d; (cd d; seq 20000 | xargs touch); $chitin fs make f:64M; $chitin fs cp d f:/
            $chitin run --disk f -- sh -c 'ls /disk/d | wc -l; ls /disk/d | md5sum' 2>&1; ls d | LC_ALL=C sort | md5sum",
        "20000\nf4d44d248b0434457f5bef608f46fe77  -\nf4d44d248b0434457f5bef608f46fe77  -\n",
    ),
    well(
        "a_disk_keeps_files_over_runs",
        "$chitin run --disk d:8M -- sh -c 'mkdir /disk/a; cp -a /etc /disk/etc; ln /disk/etc/passwd /disk/same; ln -s etc /disk/l
            mkfifo -m 620 /disk/f; chmod 4711 /disk/etc/group; chown 7:8 /disk/etc/hosts; rm /disk/etc/profile; echo a > /disk/etc/big
            dd if=/dev/zero of=/disk/etc/big bs=1 count=1 seek=300000 conv=notrunc 2> /dev/null; mv /disk/etc /disk/a/moved'
            show='cd /disk; find . | sort; stat -c %A.%h.%u.%g.%s a/moved/* f same; cat l/passwd 2>&1; readlink l; md5sum a/moved/big'
            $chitin run --disk d -- sh -c \"$show; cmp same /etc/passwd && echo equal\" > one; grep -c . one; tail -n 1 one
            $chitin run --disk d -- sh -c \"$show\" > two; head -n -1 one | cmp - two && echo same
            $chitin run --disk d -- sh -c 'rm -r /disk/*; find /disk | wc -l'; $chitin run --disk d -- sh -c 'find /disk | wc -l'",
        "22\nequal\nsame\n1\n1\n",
    ),
    well(
        "fault_68_what_was_synced_outlives_a_killed_machine",
        "$chitin run --disk d:8M -- sh -c 'mkdir /disk/k; seq 20000 > /disk/k/a; mv /disk/k/a /disk/k/b; sync; echo synced
            n=0; while :; do n=$((n + 1)); echo $n > /disk/k/t; mv /disk/k/t /disk/k/$((n % 50)); done' > said 2>&1 & run=$!
            until grep -q synced said 2> /dev/null; do sleep 0.2; done; sleep 6; kill -9 $run
            wait $run 2> /dev/null; sleep 1
            for again in 1 2; do $chitin run --disk d -- sh -c 'cmp /disk/k/b /disk/k/b && seq 20000 | cmp - /disk/k/b && echo there
            ls /disk/k | grep -c a; echo new > /disk/new; cat /disk/new'; done",
        "there\n0\nnew\nthere\n0\nnew\n",
    ),
    well(
        "a_disk_that_holds_something_else_is_left_alone",
        "said() { cp d e; $chitin run --disk d -- sh -c 'ls /disk 2>&1; tar -tf /dev/vda 2> /dev/null | tail -n 1' 2> told; cmp d e
                grep -c . told; sed 's/.*: it holds \\(.*\\) and no file .*`\\(.*\\)`.*/\\1: \\2/' told; }
            $chitin run --disk d:4M -- sh -c 'tar -cf /dev/vda etc/group; echo x > /disk/x' 2> /dev/null; said
            truncate -s 0 d; truncate -s 4M d; printf x | dd of=d bs=1 seek=2000000 conv=notrunc 2> log; said
            truncate -s 0 d; truncate -s 4M d; printf '\\123\\357' | dd of=d bs=1 seek=1080 conv=notrunc 2> log; said
            truncate -s 0 d; truncate -s 4M d; printf '\\125\\252' | dd of=d bs=1 seek=510 conv=notrunc 2> log; said
            $chitin fs make d 2>&1 | sed 's/.*d: //'; $chitin fs make --force d; $chitin run --disk d -- ls -d /disk",
        "ls: /disk: No such file or directory\netc/group\n1\na tar archive: ./chitin fs make --force d
ls: /disk: No such file or directory\n1\ndata: ./chitin fs make --force d
ls: /disk: No such file or directory\n1\na file system of the ext family: ./chitin fs make --force d
ls: /disk: No such file or directory\n1\na partition table: ./chitin fs make --force d
holds a partition table; --force overwrites it\n/disk\n",
    ),
    well(
        "disks_that_cannot_be_used_are_refused_in_one_line",
        "try() { cp -p $1 was; $chitin run --disk $1 -- true > out 2> told; echo $? $(grep -c . told) $(sed 's/^chitin: --disk [a-z]*: //; s/;.*//' told)
                cmp $1 was; }
            $chitin fs make good:4M; cp good cut; truncate -s 2M cut; try cut; truncate -s 2000001 cut; try cut
            cp good newer; printf '\\002' | dd of=newer bs=1 seek=8 conv=notrunc 2> log; try newer
            cp good spoilt; printf x | dd of=spoilt bs=1 seek=40 conv=notrunc 2> log; try spoilt
            cp good fixed; chmod 444 fixed; try fixed; : > none; try none
            $chitin run --disk huge:900000000M -- true 2>&1 | sed 's/: [0-9]* MiB cannot.*/: too large/'; ls huge 2> log || echo gone
            $chitin run --disk good -- sleep 1000 & sleep 1; try good | head -n 1; $chitin fs ls good 2>&1 | sed 's/;.*//'; kill $!; wait $! 2> log
            $chitin run --disk good -- true && $chitin fs check good | cut -d ';' -f 1",
        "125 1 the file is shorter than its file system of 1024 blocks
125 1 2000001 bytes are no whole sectors of 512: the file was cut off, or is no disk
125 1 made by a newer Chitin, or its programs are damaged
125 1 block 0 is damaged
125 1 the file is read-only
125 1 the file is empty
chitin: --disk huge: too large
gone
125 1 another run uses it
chitin: good: another run uses it
good: clean
",
    ),
    well(
        "a_root_lives_on_its_disk",
        "mkdir -p r/bin r/etc r/tmp; echo left > r/tmp/x; printf 'root:x:0:0::/:/bin/sh\nuser:x:7:8::/:/bin/sh\n' > r/etc/passwd
            cp $busybox r/bin/busybox; ln -s busybox r/bin/sh; ln r/bin/busybox r/bin/same
            $chitin run --disk d:16M --root r -- sh -c 'busybox true; busybox stat -c %h /bin/same
                echo one > /etc/kept; busybox rm /bin/same; busybox ls /tmp; echo t > /tmp/t; busybox mv /tmp/t /etc/moved; exit 3' 2> told
            echo $? $(grep -c copying told)
            $chitin run --disk d -- sh -c 'busybox cat /etc/kept /etc/moved; busybox ls /bin; busybox ls /tmp; busybox df / | busybox tail -n 1 | busybox cut -c 1-8
                echo two >> /etc/kept; busybox mknod /node c 1 300; busybox test -c /dev/null && busybox test -d /proc/self && echo mounted'
            $chitin run --disk d --root r --user user -- sh -c 'busybox cat /etc/kept; busybox id -u; busybox pwd'
            $chitin fs check d | cut -d ';' -f 1; $chitin fs ls d /node | grep -o '1, 300'; $chitin fs cat d /etc/kept",
        "2\n3 1\none\nt\nbusybox\nsh\n/dev/vda\nmounted\none\ntwo\n7\n/\nd: clean\n1, 300\none\ntwo\n",
    ),
    well(
        "a_disk_too_small_for_the_root_is_one_line",
        "mkdir r; head -c 9000000 /dev/urandom > r/large; printf '#!/bin/x' > r/sh; chmod +x r/sh
            $chitin run --disk d:4M --root r -- /sh 2>&1 | sed 's/needs [0-9]* MiB/needs MiB/; s/d:[0-9]*M/d:M/'; ls d 2> log || echo gone
            $chitin run --disk d:4M --root r -- /none 2>&1; ls d 2> log || echo gone",
        "chitin: --disk d: the root needs MiB and the disk has 4; name a new one with more, as in d:M\ngone
chitin: /none: no such program in the root file system\ngone\n",
    ),
    well(
        "a_mounted_disk_is_not_written_raw",
        "$chitin run --disk d:4M -- sh -c 'echo a > /disk/a; sync; echo x > /dev/vda' 2>&1 | grep -o 'resource busy'
            $chitin run --disk d -- sh -c 'echo x > /dev/vda' 2>&1 | grep -o 'resource busy'
            $chitin run --disk d -- cat /disk/a",
        "resource busy\nresource busy\na\n",
    ),
    well(
        "bad_uses_are_refused_in_one_line_at_once",
        "mkfifo fifo; : > text; mkdir dir; try() { timeout 60 $chitin \"$@\" > out 2> said; echo $? $(grep -c . said) $(sed 's/^chitin: //; s/ (see.*//' said); }
            try fs ls fifo; try fs make x:4K; try run --disk x:0 -- true; try root hello -o text/x; try root hello -o none/x.tar
            try root hello -o text; try root --lock none -o a.tar; try root --lock dir hello -o a.tar; try root --lock /dev/zero -o a.tar
            try run --native none | sed 's/ there are .* http, .*/ there is http/'; ls",
        "125 1 fifo: neither a file nor a disk of this machine
2 1 invalid value 'x:4K' for '<FILE[:SIZE]>': \"4K\" is no size: write 64M or 2G
2 1 invalid value 'x:0' for '--disk <FILE[:SIZE]>': \"0\" is no size: write 64M or 2G
125 1 --output text/x: its folder is a file
125 1 --output none/x.tar: its folder is not there; make it first
125 1 --output text: is a file; name a new directory, or a name with .tar
125 1 --lock none: no such file; name packages to make it
125 1 --lock dir: this is no file
125 1 --lock /dev/zero: this is no file
125 1 no guest program is called none; there is http
dir\nfifo\nout\nsaid\ntext\ntmp\n",
    ),
    plain("a_shared_folder_that_is_not_there", "$chitin run -v none:/d -- true", 125, "--volume none: No such file"),
    plain("a_shared_folder_without_a_place", "$chitin run -v none -- true", 2, "is given as HOST:GUEST"),
    well("the_version_names_the_interface", "$chitin --version | sed 's/.*interface 0x.*/named/'; $chitin completions bash | grep -q 'complete -F' && echo completes", "named\ncompletes\n"),
    well("what_a_run_cost", "$chitin run --stats=a.json -- sh -c '/bin/true; ls /nowhere 2> /dev/null; exit 0'
        grep -o '\"program\": \"[a-z()]*\"' a.json | sort -u | tr -d '\n'; grep -c '\"boot_ticks\": [1-9]' a.json
        for name in faults upcalls transfers peak_pages; do grep -q \"$name\\\": [1-9]\" a.json && echo $name; done
        $chitin run --stats --icount -- /bin/true 2>&1 | grep -c 'instructions to the first user instruction\\|^  *all '",
        "\"program\": \"(server)\"\"program\": \"(session)\"\"program\": \"ls\"\"program\": \"sh\"\"program\": \"true\"1\nfaults\nupcalls\ntransfers\npeak_pages\n2\n"),
    plain("stats_into_no_folder", "$chitin run --stats=none/a.json -- true", 125, "--stats none/a.json: No such file"),
    well("a_file_system_on_a_file", "mkdir -p d/sub; echo hello > d/sub/a; ln -s sub/a d/l; ln d/sub/a d/twin; truncate -s 9M d/hole
        $chitin fs make f.img:4M; $chitin fs cp d/. f.img:/; $chitin fs ls f.img /sub | cut -c 1-12; $chitin fs cat f.img /l
        $chitin fs cp f.img:/ out; diff -r d out && echo same; stat -c %h out/twin; $chitin fs check f.img | cut -d ';' -f 1
        printf x | dd of=f.img bs=1 seek=4200 conv=notrunc 2> log; $chitin fs check f.img | head -n 1; $chitin fs check f.img > log; echo $?",
        "drwxr-xr-x 1\ndrwxr-xr-x 1\n-rw-r--r-- 2\nhello\nsame\n2\nf.img: clean\nf.img: block 1: no root of C-FFS\n4\n"),
    plain("a_file_system_on_a_text", "echo text > f; $chitin fs ls f", 125, "f: holds no file system of Chitin"),
    plain("a_file_system_on_a_text_is_not_made", "head -c 2M /dev/urandom > f; $chitin fs make f", 125, "f: holds data; --force overwrites it"),
    plain("a_program_that_is_not_there", "$chitin run -- /bin/none", 127, "/bin/none: no such program"),
    plain("a_program_without_a_name", "$chitin run -- ''", 127, "has no name"),
    plain("a_program_that_is_a_folder", "$chitin run -- /bin", 126, "/bin is a directory"),
    plain("a_program_that_is_text", "$chitin run -- /etc/passwd", 126, "/etc/passwd is not executable"),
    plain(
        "a_program_of_another_machine",
        r"mkdir root; { printf '\177ELF\1\1\1\0\0\0\0\0\0\0\0\0\2\0\3\0'; head -c 100 /dev/zero; } > root/it
        chmod +x root/it; $chitin run --root root -- /it",
        126,
        "/it is for another machine (32-bit x86), not x86-64",
    ),
    plain("a_folder_that_is_none", "$chitin run -w /etc/passwd -- /bin/pwd", 127, "cannot be entered: it is none"),
    well(
        "a_root_of_a_system_names_the_machine",
        "mkdir -p r/bin r/etc; cp $busybox r/bin/busybox; echo own > r/etc/hostname
            $chitin run --root r -- /bin/busybox cat /etc/hosts /etc/hostname; ls r/etc; rm -r r/etc; $chitin run --root r -- /bin/busybox ls /",
        "127.0.0.1\tlocalhost chitin\n::1\tlocalhost\nown\nhostname\nbin\ndev\nproc\nroot\nsys\ntmp\n",
    ),
    well("the_last_of_two_variables_counts", "$chitin run -e A=1 -e PATH=/nowhere -e A=2 -e PATH=/bin -- env", "HOME=/root\nA=2\nPATH=/bin\n"),
    well("ten_megabytes_of_every_byte_come_back", r#"perl -e 'print pack("C*", 0..255) x 40960' > all
        $chitin run -- /bin/cat < all > back; echo $?; cmp all back && wc -c < back"#, "0\n10485760\n"),
    well("input_that_ends_while_its_reader_sleeps", "mkfifo input; $chitin run -- /bin/cat < input > out & exec 3> input; echo line >&3
        until grep -q line out; do sleep 0.1; done; sleep 0.5; exec 3>&-; wait $!; echo $?; cat out", "0\nline\n"),
    plain("input_that_cannot_be_read", "$chitin run -- /bin/cat < /", 125, "cannot read standard input: Is a directory"),
    plain("output_that_is_full", "$chitin run -- /bin/yes > /dev/full", 125, "cannot write to standard output: No space"),
    Visit { name: "complaints_that_nobody_can_read", lines: "$chitin run -- /bin/none 2> /dev/full", status: 127, output: "", told: "", needs: &[] },
    Visit { name: "a_reader_that_leaves", lines: "{ $chitin run -- /bin/yes; echo $? > status; } | head -n 1; exit $(cat status)", status: 141, output: "y\n", told: "", needs: &[] },
    Visit { name: "a_writer_whose_output_is_closed", lines: "$door run -- /bin/yes >&-", status: 141, output: "", told: "", needs: &[] },
    Visit { name: "no_streams_at_all", lines: "$chitin run -- /bin/sh -c 'cat; echo out; echo error >&2; exit 7' <&- >&- 2>&-", status: 7, output: "", told: "", needs: &[] },
    well("four_at_once", "for n in 1 2 3 4; do $chitin run -- /bin/sh -c \"exit $n\" & all=\"$all $!\"; done
        for one in $all; do wait $one; echo $?; done", "1\n2\n3\n4\n"),
    well("an_end_at_any_moment", "for delay in 0.01 0.03 0.1 0.2 0.4 0.8 2; do
            $chitin run -- /bin/sleep 1000 & sleep $delay; kill -TERM $!; wait $!; echo $?
        done", "143\n143\n143\n143\n143\n143\n143\n"),
    well("killed_without_warning", "$chitin run -- /bin/sleep 1000 & sleep 1.5; kill -KILL $!; wait $! 2> /dev/null; echo $?
        exec $chitin run -- /bin/true", "137\n"),
    plain("a_busybox_that_is_damaged", "export CHITIN_CACHE=$PWD/cache; mkdir -p cache/busybox-static/bin; cp /bin/true cache/busybox-static/bin/busybox
        $chitin run -- /bin/true", 125, "busybox is damaged: delete it and try again"),
    plain("no_emulator", without_qemu!("$chitin run -- /bin/true"), 125, "qemu-system-x86_64 is missing: install the package qemu-system-x86"),
    plain("no_emulator_and_nothing_that_installs_it", without_qemu!("$door run -- /bin/true"), 125, "no apt-get): please install by hand: qemu-system-x86"),
];

/// What a visit takes, roughly, and at most.
const LIMITS: (Duration, &str) = (Duration::from_secs(3), "200");
/// The same where Debian packages are downloaded and configured. Python's tests of asyncio took 1,034 s under load.
const PACKAGE_LIMITS: (Duration, &str) = (Duration::from_secs(60), "1800");

/// What a visit needs that takes long, and its limits.
const LONG: &str = "timeout";
const LONG_LIMITS: (Duration, &str) = (Duration::from_secs(1800), "7200");

impl Visit {
    /// What it takes, roughly, and at most.
    fn limits(&self) -> (Duration, &'static str) {
        if self.needs.contains(&LONG) {
            return LONG_LIMITS;
        }
        if self.needs.contains(&"dpkg-deb") { PACKAGE_LIMITS } else { LIMITS }
    }
}

/// How long what was killed may take to be gone.
const GONE: Duration = Duration::from_secs(20);

/// The trial of accelerators must find that Chitin runs where it does.
const TRIAL: &str = "front-door::emulation_is_found_to_run_chitin";

/// The tests whose names contain `filter`.
pub fn cases(toolchain: Toolchain, workspace: &Workspace, depth: Depth, filter: &str) -> Vec<Case> {
    let full = [&LARGE_SERVERS[..], &REDIS_S_TESTS, &LARGE_WIRE, &LINUX_ON_A_WIRE, &DISKS, &GO, &MORE_CRASH_STATES];
    let large = if depth == Depth::Full { full } else { [&[][..]; 7] };
    let visits = VISITS
        .iter()
        .chain(&NETWORK)
        .chain(&SERVERS)
        .chain(&WIRE)
        .chain(&DEBUGGING)
        .chain(&FIRST_SCREEN)
        .chain(&LITTLE_ROOM)
        .chain(&CRASH_STATES)
        .chain(&SMALL_DISKS)
        .chain(large.into_iter().flatten());
    let named = |visit: &'static Visit| (format!("front-door::{}", visit.name), visit);
    let chosen: Vec<_> = visits.map(named).filter(|(name, _)| name.contains(filter)).collect();
    let is_trial_chosen = TRIAL.contains(filter);
    if chosen.is_empty() && !is_trial_chosen {
        return Vec::new();
    }
    // Built, and KVM tried, beforehand: strangers see what is wrong, not the progress of what is done once in a tree.
    let ready = Images::build(toolchain, workspace, build::EXOS).and_then(|images| {
        kvm::answer(&workspace.cache(), &images)?;
        Ok(images)
    });
    let images = match ready {
        Ok(images) => images,
        Err(failure) => return vec![Case::failed("build::front-door", failure.to_string())],
    };
    let case = |(name, visit): (String, &'static Visit)| {
        if let Some(missing) = visit.needs.iter().find(|tool| find_program(tool).is_none()) {
            return Case::skipped(name, format!("{missing} is not installed"));
        }
        if visit.needs.contains(&MOUNTS) && !may_mount() {
            return Case::skipped(name, "this host allows no mount name space".into());
        }
        if visit.needs.contains(&TAPS) && !may_make_taps() {
            return Case::skipped(name, "this host allows no taps in a network name space".into());
        }
        let root = workspace.root().to_owned();
        Case::new(name, visit.limits().0, move |transcript| judge(visit, &root, transcript))
    };
    let trial = is_trial_chosen.then(|| Case::new(TRIAL.to_owned(), LIMITS.0, move |_| try_emulation(&images)));
    chosen.into_iter().map(case).chain(trial).collect()
}

/// Whether this user may mount file systems in a name space of its own.
fn may_mount() -> bool {
    Command::new(MOUNTS).args(["-rm", "true"]).output().is_ok_and(|output| output.status.success())
}

/// Whether this user may make taps in a name space of its own.
fn may_make_taps() -> bool {
    let make = ["-rn", "ip", "tuntap", "add", "dev", "tap0", "mode", "tap"];
    Command::new("unshare").args(make).output().is_ok_and(|output| output.status.success())
}

fn try_emulation(images: &Images) -> Verdict {
    match kvm::runs(Accelerator::Tcg, images) {
        Ok(true) => Ok(()),
        Ok(false) => Err("the trial did not come to its end".into()),
        Err(failure) => Err(failure.to_string()),
    }
}

fn judge(visit: &Visit, root: &Path, mut transcript: File) -> Verdict {
    let folder = scratch::folder().map_err(|failure| failure.to_string())?;
    let output = pay(visit, root, folder.path()).map_err(|failure| failure.to_string())?;
    let (answered, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    write!(transcript, "{answered}{told}").map_err(|error| error.to_string())?;
    verdict(visit, output.status.code(), &answered, &told)?;
    nothing_left(folder.path())
}

/// Pays the visit.
fn pay(visit: &Visit, root: &Path, folder: &Path) -> Result<Output> {
    let temporary = folder.join("tmp");
    fs::create_dir(&temporary).context("cannot make a folder")?;
    let mut command = Command::new("timeout");
    command.args([visit.limits().1, "sh", "-c", visit.lines]).current_dir(folder).stdin(Stdio::null());
    let this = std::env::current_exe().context("cannot find this program")?;
    command.env("develop", this).env("chitin", super::host_command()?).env("door", root.join("chitin"));
    command.env("CHITIN_ROOT", root).env("TMPDIR", temporary);
    if visit.needs.contains(&LINUX) {
        command.env("linux", peer::kernel(&Workspace::at(root))?);
    }
    if visit.needs.contains(&REDIS) {
        let tests = debian::folder(&Workspace::at(root).cache(), &debian::REDIS_TESTS)?;
        command.env("redis", tests.join("usr/src/redis"));
    }
    if visit.needs.contains(&STATES) {
        crash_states::write(visit, folder)?;
    }
    command.env("busybox", Workspace::at(root).cache().join("busybox-static/bin/busybox"));
    command.output().context("cannot start timeout")
}

/// Trouble is told in one line, and nothing else is.
fn verdict(visit: &Visit, status: Option<i32>, answered: &str, told: &str) -> Verdict {
    if status != Some(visit.status) {
        return Err(format!("the status is {status:?}, not {}: {told}", visit.status));
    }
    if answered != visit.output {
        return Err(format!("the output is {answered:?}, not {:?}: {told}", visit.output));
    }
    let is_clear = match visit.told {
        "" => told.is_empty(),
        wanted => told.starts_with("chitin: ") && told.lines().count() == 1 && told.contains(wanted),
    };
    if is_clear { Ok(()) } else { Err(format!("{:?} is not what is told: {told}", visit.told)) }
}

/// Neither a temporary file nor a machine is left.
fn nothing_left(folder: &Path) -> Verdict {
    let end = Instant::now() + GONE;
    loop {
        let files = fs::read_dir(folder.join("tmp")).into_iter().flatten().flatten();
        let files: Vec<_> = files.map(|entry| entry.file_name()).collect();
        match (files.is_empty(), users_of(folder)) {
            (true, 0) => return Ok(()),
            (_, processes) if Instant::now() > end => {
                return Err(format!("{files:?} and {processes} processes are left"));
            }
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Processes that bear the folder in their command line, as every machine does.
fn users_of(folder: &Path) -> usize {
    let name = folder.to_string_lossy().into_owned();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(&name)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_chatter_and_a_wrong_status_are_failures() {
        let visit = plain("a", "", 2, "no size");
        assert_eq!(verdict(&visit, Some(2), "", "chitin: it is no size\n"), Ok(()));
        assert!(verdict(&visit, Some(0), "", "chitin: it is no size\n").is_err());
        assert!(verdict(&visit, Some(2), "out", "chitin: it is no size\n").is_err());
        assert!(verdict(&visit, Some(2), "", "").is_err());
        assert!(verdict(&visit, Some(2), "", "chitin: it is no size\nchitin: more\n").is_err());
        assert!(verdict(&visit, Some(2), "", "thread panicked: no size\n").is_err());
        assert_eq!(verdict(&well("b", "", "hi"), Some(0), "hi", ""), Ok(()));
        assert!(verdict(&well("b", "", "hi"), Some(0), "hi", "chitin: building\n").is_err());
    }

    #[test]
    fn what_is_left_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let tail = folder.path().join("x");
        fs::write(&tail, "").unwrap();
        let mut process = Command::new("tail").arg("-f").arg(&tail).spawn().unwrap();
        let deadline = Instant::now() + GONE;
        while users_of(folder.path()) == 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(users_of(folder.path()), 1);
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(users_of(folder.path()), 0);
    }
}
