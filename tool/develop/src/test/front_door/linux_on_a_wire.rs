//! Debian's kernel as the second machine of a wire: its TCP and that of Chitin are each other's peers.
//!
//! `$linux` is its image, with the modules for the card next to it. Its first process is a shell script.

use super::Visit;

/// A visit that needs this has the kernel fetched by it.
pub(super) const LINUX: &str = "apt-get";

/// Lines of a shell: `linux JOB` boots Linux at 10.0.2.100 of the wire `w`. It serves what the peer serves, runs the
/// lines of the job and stops. What it says lands in the file `console`.
macro_rules! machine {
    () => {
        r#"mkdir -p l/bin l/proc l/sys l/dev l/tmp; cp $busybox l/bin/busybox; cp ${linux%/*}/*.ko l/
for name in sh cat mount insmod ip nc head sha256sum reboot sleep cut seq grep cmp tail mkdir chmod dd; do ln -s busybox l/bin/$name; done
cat > l/init <<'END'
#!/bin/sh
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tmpfs none /tmp
for name in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover net_failover virtio_net; do insmod /$name.ko; done
ip link set lo up; ip addr add 10.0.2.100/24 dev eth0; ip link set eth0 up; cd /tmp; . /job.data
nc -ll -p 7 -e cat & nc -ll -p 9 -e /sink & nc -ll -p 19 -e /source &
. /job; reboot -f
END
cat > l/source <<'END'
#!/bin/sh
read bytes; /bytes $bytes; /bytes $bytes | sha256sum | cut -c 1-64
END
printf '#!/bin/sh\nwhile cat /tmp/data; do :; done 2> /dev/null | head -c $1\n' > l/bytes
printf '#!/bin/sh\nsha256sum | cut -c 1-64\n' > l/sink; chmod +x l/init l/source l/sink l/bytes
linux() {
    (cd l; find . | $busybox cpio -o -H newc 2> /dev/null) > initrd
    qemu-system-x86_64 -machine q35 -cpu max -m 512 -nodefaults -display none -no-reboot -serial file:console -kernel $linux -initrd initrd \
        -append "console=ttyS0 quiet loglevel=0 panic=-1" -netdev stream,id=n,server=off,addr.type=unix,addr.path=w \
        -device virtio-net-pci,netdev=n,mac=02:00:00:00:05:01 > qemu 2>&1 < /dev/null &
}
"#
    };
}

/// Sums of bytes in both directions, with either machine as the client. Beyond 16 MiB the same bytes come again. Linux
/// says that it is ready until its machine is ended: the end of a last connection may be lost, and no side would know.
macro_rules! transfers {
    () => {
        r#"mkdir -p c/bin c/tmp; cp $busybox c/bin/busybox; cp l/source l/sink l/bytes c/; for name in sh cat nc head sha256sum ip sleep cut grep cmp dd; do ln -s busybox c/bin/$name; done
cat > c/ask <<'END'
# ask ADDRESS BYTES
sum=$(/bytes $2 | sha256sum | cut -c 1-64); /bytes $2 | nc $1 9 | grep -q $sum && echo sink
echo $2 | nc $1 19 | (dd bs=64k count=$(($2 / 65536)) iflag=fullblock 2> /dev/null | sha256sum | cut -c 1-64 > /tmp/sum; cut -c 1-64 > /tmp/end); cmp /tmp/end /tmp/sum && echo source
END
cp c/ask l/ask; printf '#!/bin/sh\ncat > /tmp/over\n' > c/over; chmod +x c/over
transfer() {
    $develop wire w --peer --once --loss $1 --seed 7 2> log & until test -S w; do sleep 0.1; done
    echo "head -c 16777216 /dev/urandom > data" > l/job.data
    echo "nc -l -p 21 > /dev/null; . /ask-linux; while :; do echo over | nc -w 5 10.0.2.15 22; sleep 1; done" > l/job
    echo "set -- 10.0.2.15 $2; . /ask" > l/ask-linux; linux; machine=$!
    $chitin run --network wire:w --root c -- sh -c "cd /tmp; until ip addr show eth0 | grep -q 'inet '; do sleep 0.2; done; head -c 16777216 /dev/urandom > data
        until echo | nc 10.0.2.100 7 > /dev/null 2>&1; do sleep 1; done; echo chitin asks at $1; set -- 10.0.2.100 $2; . /ask
        nc -ll -p 9 -e /sink & sinks=\$!; nc -ll -p 19 -e /source & sources=\$!; nc -ll -p 22 -e /over & over=\$!; sleep 1
        until echo go | nc 10.0.2.100 21 2> /dev/null; do sleep 1; done
        until grep -q over over 2> /dev/null; do sleep 1; done; kill \$sinks \$sources \$over" 2> told
    kill $machine; wait 2> /dev/null; echo linux asks at $1; tr -d '\r' < console | grep -x 'sink\|source'
}
"#
    };
}

/// The guests `wire-close` and `wire-options` on Linux with the peer: the output that the guests must have. Then
/// `wire-close` on Chitin with Linux as its peer.
macro_rules! programs {
    () => {
        r#"mkdir -p c; for name in wire_close wire_options; do
    cc -O1 -w -static -o l/$name ${door%/*}/test/programs/linux/$name.c || exit 1; cp l/$name c/
    sed -n "/^source = \"$name.c\"/,/^seconds/p" ${door%/*}/test/programs/guests.toml | sed -n "/^output/,/^..'\$/p" | sed '1d;$d' > $name
done
$develop wire w --peer --once 2> log & until test -S w; do sleep 0.1; done
: > l/job.data; cat > l/job <<'END'
head -c 200000 /dev/zero > data; sleep 2; echo begin close; /wire_close; echo end; echo begin options; /wire_options; echo end; nc -l -p 21
END
linux; until grep -qs 'begin options' console; do sleep 1; kill -0 $! || exit 1; done
until tr -d '\r' < console | sed '1,/begin options/d' | grep -qsx end; do sleep 1; kill -0 $! || exit 1; done
said() { tr -d '\r' < console | sed -n "/^begin $1/,/^end/p" | sed '1d;$d'; }
said close | diff - wire_close && echo wire_close on linux; said options | diff - wire_options && echo wire_options on linux
mkdir -p c/bin c/tmp; cp $busybox c/bin/busybox; for name in sh nc sleep; do ln -s busybox c/bin/$name; done
$chitin run --network wire:w --root c -- sh -c '/wire_close 10.0.2.100; until echo | nc 10.0.2.100 21; do sleep 1; done' > said 2> told
diff said wire_close && echo wire_close against linux; wait"#
    };
}

/// Those of full runs.
pub(super) const LINUX_ON_A_WIRE: [Visit; 5] = [
    Visit {
        name: "linux_and_chitin_on_a_wire",
        lines: concat!(
            machine!(),
            transfers!(),
            "transfer 0% 16777216; transfer 0.1% 16777216; transfer 1% 1048576; transfer 5% 262144; transfer 20% 65536"
        ),
        status: 0,
        output: "chitin asks at 0%\nsink\nsource\nlinux asks at 0%\nsink\nsource\nchitin asks at 0.1%\nsink\nsource
linux asks at 0.1%\nsink\nsource\nchitin asks at 1%\nsink\nsource\nlinux asks at 1%\nsink\nsource\nchitin asks at 5%\nsink
source\nlinux asks at 5%\nsink\nsource\nchitin asks at 20%\nsink\nsource\nlinux asks at 20%\nsink\nsource\n",
        told: "",
        needs: &[LINUX, "dpkg-deb", "qemu-system-x86_64"],
    },
    Visit {
        name: "a_gibibyte_with_linux_on_a_wire",
        lines: concat!(machine!(), transfers!(), "transfer 0% 1073741824"),
        status: 0,
        output: "chitin asks at 0%\nsink\nsource\nlinux asks at 0%\nsink\nsource\n",
        told: "",
        needs: &[LINUX, "qemu-system-x86_64", super::LONG],
    },
    Visit {
        name: "large_transfers_with_linux_on_a_wire",
        lines: concat!(machine!(), transfers!(), "transfer 0.1% 67108864; transfer 1% 4194304"),
        status: 0,
        output: "chitin asks at 0.1%\nsink\nsource\nlinux asks at 0.1%\nsink\nsource\nchitin asks at 1%\nsink\nsource
linux asks at 1%\nsink\nsource\n",
        told: "",
        needs: &[LINUX, "qemu-system-x86_64", super::LONG],
    },
    Visit {
        name: "lossy_transfers_with_linux_on_a_wire",
        lines: concat!(machine!(), transfers!(), "transfer 5% 4194304; transfer 20% 262144"),
        status: 0,
        output: "chitin asks at 5%\nsink\nsource\nlinux asks at 5%\nsink\nsource\nchitin asks at 20%\nsink\nsource
linux asks at 20%\nsink\nsource\n",
        told: "",
        needs: &[LINUX, "dpkg-deb", "qemu-system-x86_64"],
    },
    Visit {
        name: "linux_says_the_same_on_a_wire",
        lines: concat!(machine!(), programs!()),
        status: 0,
        output: "wire_close on linux\nwire_options on linux\nwire_close against linux\n",
        told: "",
        needs: &[LINUX, "dpkg-deb", "qemu-system-x86_64", "cc"],
    },
];
