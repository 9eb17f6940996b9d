//! Programs whose data lies on a disk, and what is there after kills and a power cut. The visit kills the machine
//! by the process number of its own run.

use super::{Visit, packages, well};

/// Those of the default run.
pub(super) const SMALL_DISKS: [Visit; 2] = [
    well("a_file_of_100_gib_with_holes_outlives_its_run", HOLES, "107374182400\nmiddle\nend\n0\n4096\nd: clean\n"),
    well("a_disk_is_mounted_without_pauses", SOON, "soon\n"),
];

/// Nanoseconds of the counting clock, idle ones too. Pauses between the steps of the kernel's XN took 8 seconds.
const SOON: &str = r#"$chitin run --disk d:8M -- true; $chitin run --stats --icount --disk d -- true 2>&1 |
    sed -n 's/.* \([0-9]*\) instructions to the first.*/\1/p' > before; [ $(cat before) -lt 200000000 ] && echo soon || cat before"#;

/// Ends and middle of a file that is larger than its disk; the rest is zeros and takes no room.
const HOLES: &str = r#"$chitin run --disk d:8M -- sh -c 'cd /disk; truncate -s 100G big; printf end | dd of=big bs=1 seek=107374182397 conv=notrunc 2> log
    printf middle | dd of=big bs=4096 seek=13107200 conv=notrunc 2> log; sync'
$chitin run --disk d -- sh -c 'cd /disk; stat -c %s big; dd if=big bs=4096 skip=13107200 count=1 2> log | head -c 6; echo
    tail -c 3 big; echo; dd if=big bs=4096 skip=9999999 count=1 2> log | tr -d "\\000" | wc -c; dd if=big bs=4096 skip=9999999 count=1 2> log | wc -c'
$chitin fs check d | cut -d ";" -f 1"#;

/// Those of full runs.
pub(super) const DISKS: [Visit; 5] = [
    packages("fio_verifies_what_it_wrote", FIO, "0\n0\n0\nd: clean\n"),
    packages("make_builds_a_project_on_a_disk", MAKE, "50\n5000\n12247550\n2\n12247550\n51\nd: clean\n"),
    packages("fault_68_sqlite_keeps_what_it_committed", SQLITE, "ok\nok\nkilled\nok\n0\nkept\nok\n0\nkept\nd: clean\n"),
    packages("fault_68_postgresql_keeps_what_it_committed", POSTGRESQL, "killed\n0|t\n2\nkept\n0\nd: clean\n"),
    packages("dpkg_installs_into_a_root_on_a_disk", DPKG, DPKG_SAYS),
];

/// A rollback journal and a log: sqlite3 is killed within a transaction, then the machine between many. Only `extra`
/// promises that a rollback journal stays away after a power cut: sqlite3 syncs its directory then.
const SQLITE: &str = r#"$chitin fs make d:48M; $chitin run --disk d --packages sqlite3 -- sh -c 'cd /disk
for mode in delete wal; do
    sqlite3 $mode "pragma journal_mode=$mode; create table t(n integer primary key, b text);" > /tmp/log
    (echo "begin;"; n=0; while [ $n -lt 2000 ]; do echo "insert into t(b) values (hex(randomblob(400)));"; n=$((n + 1)); done; sleep 100) |
        sqlite3 $mode & sleep 3
    kill -9 $(pidof sqlite3); kill $(pidof sleep); wait $! 2> /dev/null; sqlite3 $mode "pragma integrity_check"
done 2> /tmp/log
echo killed; while :; do for mode in delete wal; do
    echo $mode $(sqlite3 $mode "pragma synchronous=extra; insert into t(b) values (hex(randomblob(1500))); select max(n) from t"); done; done' > said 2> told & run=$!
until [ -e said ] && [ $(grep -c '^wal ' said) -ge 8 ]; do sleep 0.2; done; kill -9 $run; wait $run 2> /dev/null; sleep 1
grep -v '^wal\|^delete' said
$chitin run --disk d --packages sqlite3 -- sh -c 'cd /disk
for mode in delete wal; do sqlite3 $mode "pragma integrity_check; select max(n) - count(*), max(n) from t" | tr "|" "\n"; done' > found
for mode in delete wal; do
    { read state; read lost; read last; } ; echo $state; echo $lost; [ $last -ge $(grep "^$mode " said | tail -n 1 | cut -d " " -f 2) ] && echo kept
done < found
$chitin fs check d | cut -d ";" -f 1"#;

/// The server is killed once, then the machine while a client commits row after row.
const POSTGRESQL: &str = r#"$chitin fs make d:256M; $chitin run --disk d --packages postgresql -- sh -c '
mkdir -p /run/postgresql /disk/pg; chown postgres /run/postgresql /disk/pg; cat > /tmp/run <<END
cd /disk/pg; PATH=$(ls -d /usr/lib/postgresql/*/bin):$PATH; initdb -D data -A trust > init.log 2>&1
go() { pg_ctl -D data -o "-c shared_buffers=16MB -c max_connections=20" -w -t 300 -l log start > /dev/null; }
go; psql -qAtc "create table t(n int primary key, b text)"
kill -9 \$(head -n 1 data/postmaster.pid); sleep 1; rm -f data/postmaster.pid; go; echo killed; n=0
while :; do n=\$((n + 1)); psql -qAtc "insert into t values (\$n, repeat(chr(65 + \$n % 26), 3000)) returning n"; done
END
su postgres -s /bin/sh /tmp/run' > said 2> told & run=$!
until [ -e said ] && [ $(grep -c . said) -ge 6 ]; do sleep 0.5; done; kill -9 $run; wait $run 2> /dev/null; sleep 1; head -n 1 said
$chitin run --disk d --packages postgresql -- sh -c 'mkdir -p /run/postgresql; chown postgres /run/postgresql; cat > /tmp/run <<END
cd /disk/pg; PATH=$(ls -d /usr/lib/postgresql/*/bin):$PATH; rm -f data/postmaster.pid
pg_ctl -D data -o "-c shared_buffers=16MB -c max_connections=20" -w -t 300 -l log start > /dev/null
psql -Atc "select max(n) - count(*), sum(length(b)) = 3000 * count(*) from t"; psql -Atc "select max(n) from t" > last
psql -qAtc "create extension amcheck"; psql -Atc "select bt_index_check(indexrelid) from pg_index where indrelid > 16000" | wc -l
pg_ctl -D data -w -t 100 stop > /dev/null; cat last; grep -c "PANIC\|invalid page" log
END
su postgres -s /bin/sh /tmp/run' > found
head -n 2 found; [ $(sed -n 3p found) -ge $(tail -n 1 said) ] && echo kept; tail -n 1 found; $chitin fs check d | cut -d ";" -f 1"#;

/// Two packages made on the spot: one needs the other; it is replaced by a newer one, removed, and purged.
const DPKG: &str = r#"$chitin fs make d:64M; $chitin run --disk d --packages dpkg,tar -- sh -c 'cd /disk; mkdir -p r/var/lib/dpkg/info r/var/lib/dpkg/updates
: > r/var/lib/dpkg/status; make() { mkdir -p $1/DEBIAN $1/usr/share/$1 $1/etc; echo $2 > $1/etc/$1.conf; echo /etc/$1.conf > $1/DEBIAN/conffiles
    for n in 1 2 3 4 5 6 7 8 9 10; do seq $((n * 300)) > $1/usr/share/$1/$n; done; ln -f $1/usr/share/$1/1 $1/usr/share/$1/same; ln -sf 1 $1/usr/share/$1/link
    printf "Package: $1\nVersion: $2\nArchitecture: all\nMaintainer: a <a@b>\n$3Description: $1\n" > $1/DEBIAN/control; dpkg-deb --root-owner-group -b $1 $1-$2.deb > log; }
d() { dpkg --root=$PWD/r --force-script-chrootless --force-confold "$@" > log 2>&1; echo $?; }
make two 1; make one 1 "Depends: two\n"; d -i one-1.deb; d -i two-1.deb one-1.deb; echo own >> r/etc/one.conf; make one 2 "Depends: two\n"; d -i one-2.deb
cat r/etc/one.conf; ls r/etc; cat r/usr/share/one/[1-9]* | md5sum; stat -c %h r/usr/share/one/link r/usr/share/one/same; d -V; d -r one; ls r/etc r/usr/share; d -P one two
find r -type f | grep -v dpkg' 2> told; $chitin fs check d | cut -d ";" -f 1"#;
/// What the same lines say on Linux.
const DPKG_SAYS: &str = "1\n0\n0\n1\nown\none.conf\none.conf.dpkg-dist\ntwo.conf\n050b6454bbb340f650cd7f85d0c3099b  -\n1\n2\n0\n0\nr/etc:\none.conf\none.conf.dpkg-dist\ntwo.conf\n\nr/usr/share:\ntwo\n0\nd: clean\n";

/// Random and sequential writers whose blocks bear check sums, through calls and through mappings.
const FIO: &str = r#"$chitin fs make d:64M; $chitin run --disk d --packages fio -- sh -c 'cd /disk
check() { fio --name=a --size=8M --verify=crc32c --verify_fatal=1 --do_verify=1 --thread "$@" > /tmp/said 2>&1 || cat /tmp/said >&2; echo $?; }
check --rw=randwrite --bsrange=512-64k --ioengine=psync --fsync=32; check --rw=randrw --bs=4k --ioengine=mmap
check --rw=write --bs=64k --ioengine=sync --numjobs=2 --end_fsync=1' 2> told || cat told; $chitin fs check d | cut -d ";" -f 1"#;

/// Fifty files of a hundred lines, made by two jobs; then one of them is newer.
const MAKE: &str = r##"$chitin fs make d:64M; $chitin run --disk d --packages gcc,libc6-dev,make -- sh -c 'mkdir /disk/p; cd /disk/p
n=0; while [ $n -lt 50 ]; do { echo "long part$n(long sum) {"; l=1
    while [ $l -lt 99 ]; do echo "    sum += $((n * 100 + l));"; l=$((l + 1)); done; echo "    return sum; }"; } > part$n.c; n=$((n + 1)); done
{ echo "#include <stdio.h>"; seq 0 49 | sed "s/.*/long part&(long);/"; echo "int main(void) { long sum = 0;"
    seq 0 49 | sed "s/.*/sum = part&(sum);/"; echo "printf(\"%ld\", sum); putchar(10); }"; } > main.c
printf "all: main\nmain: main.o %s\n\tgcc -o \$@ \$^\n%%.o: %%.c\n\tgcc -c -O1 \$<\n" "$(echo part*.c | sed "s/[.]c/.o/g")" > Makefile
ls part*.c | wc -l; cat part*.c | wc -l; make -j2 > log 2>&1 || cat log; ./main; touch part7.c; make | wc -l; ./main; ls *.o | wc -l' 2> told
$chitin fs check d | cut -d ";" -f 1"##;
