//! Debian's Go, twenty times each on two and on four CPUs: three programs of eight goroutines (`test/programs/go`), and
//! `go vet` and `go build` of a package with C.

use super::{LONG, Visit};

/// Lines of a shell that run lines in a machine with Debian's Go, a C compiler and the programs.
macro_rules! with_go {
    ($cpus:literal, $lines:literal) => {
        concat!(
            "$chitin run -c ",
            $cpus,
            " -m 3G --packages golang-go,gcc,libc6-dev -v $CHITIN_ROOT/test/programs/go:/programs:ro -- sh -c '
            cd /tmp; cp /programs/*.go .; export HOME=/tmp; ",
            $lines,
            "' 2> said || cat said >&2"
        )
    };
}

macro_rules! programs {
    ($cpus:literal) => {
        with_go!(
            $cpus,
            "for program in pipes children sockets; do
                go build -o $program $program.go; done=0
                for turn in $(seq 20); do ./$program > out 2>&1 && done=$((done + 1)) || cat out; done
                echo $program: $done of 20
            done"
        )
    };
}

/// Each turn builds what the turn before it has changed.
macro_rules! with_c {
    ($cpus:literal) => {
        with_go!(
            $cpus,
            "done=0
            for turn in $(seq 20); do
                go vet with_c.go && go build -o with_c with_c.go && ./with_c > out && done=$((done + 1)); cat out | grep -v \"twice 21: 42\"
                echo \"// turn $turn\" >> with_c.go
            done 2>&1; echo $done of 20"
        )
    };
}

/// Those of full runs.
pub(super) const GO: [Visit; 4] = [
    visit("go_programs_on_two_cpus", programs!("2"), PROGRAMS),
    visit("go_programs_on_four_cpus", programs!("4"), PROGRAMS),
    visit("go_vet_and_build_with_c_on_two_cpus", with_c!("2"), "20 of 20\n"),
    visit("go_vet_and_build_with_c_on_four_cpus", with_c!("4"), "20 of 20\n"),
];

const PROGRAMS: &str = "pipes: 20 of 20\nchildren: 20 of 20\nsockets: 20 of 20\n";

const fn visit(name: &'static str, lines: &'static str, output: &'static str) -> Visit {
    Visit { name, lines, status: 0, output, told: "", needs: &["dpkg-deb", LONG] }
}
