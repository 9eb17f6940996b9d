//! Redis's own tests under ExOS: the 83 files that upstream's `tests/test_helper.tcl` lists, without those of TLS, for
//! which Debian's package brings no certificates. All pass on Linux. Each file has a test server of its own, as
//! upstream's `runtest --single` gives it.
//!
//! Visits stand by subject. A file that computes for minutes has a visit of its own: emulation takes 10 to 50 times
//! what Linux takes without it. The clock counts instructions: some tests want a node to answer within a second,
//! whatever the host does.

use super::Visit;

/// A visit that needs this has the tests of redis in `$redis`.
pub(super) const REDIS: &str = "apt-cache";

/// A visit of some files.
macro_rules! files {
    ($name:literal, $count:literal, $files:literal) => {
        Visit {
            name: concat!("redis_s_own_tests", $name),
            lines: concat!(
                r#"$chitin run --icount -m 2G --packages redis-server,redis-tools,tcl,procps -v $redis:/redis:ro -- sh -c 'cp -r /redis /tmp/r
cd /tmp/r; mkdir -p src tests/tmp; for each in server cli benchmark check-aof check-rdb; do ln -s /usr/bin/redis-$each src/redis-$each; done
for file in "#,
                $files,
                r#"; do
    all=$((all + 1)); tclsh tests/test_helper.tcl --clients 1 --single $file > log 2>&1 && passed=$((passed + 1)) || tail -n 40 log
    pkill redis-server
done; echo $all files, $passed passed' 2> said || cat said >&2"#
            ),
            status: 0,
            output: concat!($count, " files, ", $count, " passed\n"),
            told: "",
            needs: &[REDIS, "dpkg-deb", super::LONG],
        }
    };
}

/// Those of full runs.
pub(super) const REDIS_S_TESTS: [Visit; 22] = [
    files!("", 6, "unit/printver unit/auth unit/protocol unit/quit unit/type/incr unit/oom-score-adj"),
    files!("_of_strings", 4, "unit/type/string unit/type/hash unit/bitops unit/bitfield"),
    files!("_of_lists", 2, "unit/type/list unit/type/list-2"),
    files!("_of_long_lists", 1, "unit/type/list-3"),
    files!("_of_sets", 2, "unit/type/set unit/type/zset"),
    files!("_of_streams", 2, "unit/type/stream unit/type/stream-cgroups"),
    files!("_of_keys", 5, "unit/dump unit/keyspace unit/expire unit/multi unit/other"),
    files!("_of_scan_and_sort", 2, "unit/scan unit/sort"),
    files!("_of_geo", 1, "unit/geo"),
    files!("_of_hyperloglog", 1, "unit/hyperloglog"),
    files!(
        "_of_clients",
        21,
        "unit/info unit/info-command unit/acl unit/acl-v2 unit/latency-monitor unit/slowlog unit/introspection \
         unit/introspection-2 unit/limits unit/pause unit/querybuf unit/pendingquerybuf unit/tracking unit/shutdown \
         unit/networking unit/violations unit/replybufsize unit/pubsub unit/pubsubshard unit/lazyfree unit/wait"
    ),
    files!("_of_scripts", 3, "unit/scripting unit/functions unit/cluster-scripting"),
    files!("_of_clusters", 3, "unit/cluster unit/cluster/misc unit/cluster/links"),
    files!("_of_buffers", 3, "unit/obuf-limits unit/client-eviction integration/dismiss-mem"),
    files!("_of_maxmemory", 1, "unit/maxmemory"),
    files!("_of_memefficiency", 1, "unit/memefficiency"),
    files!(
        "_of_files",
        12,
        "unit/aofrw integration/aof integration/aof-multi-part integration/rdb integration/corrupt-dump \
         integration/convert-zipmap-hash-on-load integration/convert-ziplist-hash-on-load \
         integration/convert-ziplist-zset-on-load integration/logging integration/redis-cli integration/redis-benchmark \
         integration/shutdown"
    ),
    files!("_of_damaged_dumps", 1, "integration/corrupt-dump-fuzzer"),
    files!("_of_replication", 1, "integration/replication"),
    files!(
        "_of_replicas",
        5,
        "integration/block-repl integration/replication-2 integration/replication-3 integration/replication-4 \
         integration/replication-buffer"
    ),
    files!(
        "_of_psync2",
        5,
        "integration/psync2 integration/psync2-reg integration/psync2-pingoff integration/psync2-master-restart \
         integration/failover"
    ),
    files!("_of_replication_psync", 1, "integration/replication-psync"),
];
