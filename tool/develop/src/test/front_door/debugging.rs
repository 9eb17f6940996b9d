//! Debugging and interrupting: back traces of crashes, gdb, and a signal that the program must get.

use super::{Visit, well};

/// Lines of a shell that make `root` with a program that crashes below `qsort` of libc, without and with libraries.
macro_rules! with_crash {
    ($lines:literal) => {
        concat!(
            "cat > a.c <<'END'
#include <stdlib.h>
static int *volatile nowhere;
__attribute__((noinline)) int third(int a) { *nowhere = a; return a + 1; }
__attribute__((noinline)) int second(int a) { return third(a + 1) + 1; }
__attribute__((noinline)) int compare(const void *a, const void *b) { return second(*(const int *)a - *(const int *)b) + 2; }
int main(int count, char **words) { int all[2] = {2, 1}; nowhere = count > 1 ? all : 0; qsort(all, 2, sizeof(int), compare); abort(); }
END
            mkdir root; cc -O1 -static -o root/fixed a.c && cc -O1 -pie -fPIE -o root/movable a.c || exit
            cp -L --parents $(ldd root/movable | grep -o '/[^ ]*') root 2> log
            ",
            $lines
        )
    };
}

/// A visit for which a program of the host is needed.
const fn with(needs: &'static [&'static str], name: &'static str, lines: &'static str, output: &'static str) -> Visit {
    Visit { name, lines, status: 0, output, told: "", needs }
}

pub(super) const DEBUGGING: [Visit; 5] = [
    with(
        &["cc"],
        "a_crash_has_a_back_trace",
        with_crash!(
            "for program in fixed movable; do
                $chitin run --root root --trace log -- /$program 2> said; echo $?; grep -c 'ended by SIGSEGV' said
                sed -n 's/.*#[0-9]* 0x[0-9a-f]* \\([^ ]*\\) + 0x.*(\\(.*\\))/\\1 \\2/p' said | grep '^third\\|^second\\|^compare\\|^main'
                grep -c ' rip 0x' said
                $chitin run --root root --trace log -- /$program aborts 2> said; echo $?; grep -c 'ended by SIGABRT, which was sent' said
                sed -n 's/.*#[0-9]* 0x[0-9a-f]* \\([^ ]*\\) + 0x.*(\\(.*\\))/\\1 \\2/p' said | grep '^main\\|^abort' | head -n 2
            done | tr -d '\\r'"
        ),
        "139
1
third /fixed
second /fixed
compare /fixed
main /fixed
1
134
1
abort /fixed
main /fixed
139
1
third /movable
second /movable
compare /movable
main /movable
1
134
1
abort /lib/x86_64-linux-gnu/libc.so.6
main /movable
",
    ),
    with(
        &["gdb", "cc", "nm"],
        "gdb_traces_across_an_upcall",
        with_crash!(
            "for program in fixed movable; do
                $chitin run --root root --gdb -- /$program 2> said & run=$!
                until script=$(sed -n 's/^ *gdb -x //p' said | grep .); do sleep 0.1; done
                until [ -S ${script%script}socket ]; do sleep 0.1; done
                name=$(nm ${CARGO_TARGET_DIR:-$CHITIN_ROOT/target}/guest/x86_64-unknown-none/release/exos | grep -o '_ZN4exos5entry5crash6report.*')
                gdb -batch -x $script -ex \"hbreak $name\" -ex continue -ex bt -ex kill > trace 2>&1 < /dev/null
                wait $run; grep '^#' trace | grep -o '\\<\\(report\\|exception\\|signal handler called\\|third\\|second\\|compare\\)\\>' | tr '\\n' ' '
            done"
        ),
        "report exception signal handler called third second compare report exception signal handler called third second compare ",
    ),
    well(
        "an_interrupt_ends_a_program_that_does_nothing_else",
        "for delay in 0.02 0.2 0.4 0.6 0.8 1.5; do
            $chitin run -- sh -c 'while :; do :; done' & run=$!; sleep $delay; kill -INT $run
            wait $run; echo $?
        done",
        "130\n130\n130\n130\n130\n130\n",
    ),
    well(
        "an_interrupt_that_a_program_ignores",
        "$chitin run -- sh -c 'trap \"\" INT; echo ready; sleep 1000' > out 2> told & run=$!
            until grep -qs ready out; do sleep 0.2; done; kill -INT $run; until grep -q again told; do sleep 0.5; done
            grep -c . told; kill -INT $run; wait $run; echo $?",
        "1\n130\n",
    ),
    with(
        &["script"],
        "control_c_ends_a_program_on_a_terminal",
        "mkfifo keys; script -qec \"$chitin run -- sh -c 'echo ready; while :; do :; done'\" typed < keys > log & run=$!
            exec 4> keys; until grep -qs ready log; do sleep 0.2; done; printf '\\003' >&4; wait $run; echo $?",
        "130\n",
    ),
];
