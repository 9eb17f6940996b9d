//! What programs that are measured say: the lines that begin with `bench: `
//! (`bench/peer/harness.h`), taken apart.

use super::events::Window;

/// What the calibration loop takes by the counting clock: `CALIBRATION` of `bench/peer/harness.h`.
const CALIBRATION: u64 = 200_003;
const PREFIX: &str = "bench: ";

/// What a clock counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// Instructions of the whole machine.
    Instructions,
    /// Time that passes outside.
    Nanoseconds,
    /// The same on a CPU without AVX, XSAVE and protection keys, which the emulator is slow at.
    PlainNanoseconds,
}

impl Clock {
    /// Every clock, in the order in which they are run.
    pub const ALL: [Self; 3] = [Self::Instructions, Self::Nanoseconds, Self::PlainNanoseconds];
}

/// One thing that was measured: so many operations, several times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    pub name: String,
    pub operations: u64,
    pub samples: Vec<u64>,
    /// What happened during each sample, where a plugin looked.
    pub windows: Vec<Window>,
    /// The tool measured it, not the program: no clock of the machine had a part in it.
    pub is_from_outside: bool,
}

/// All that one program said in one boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub program: String,
    /// The system's name and version, as it tells them itself.
    pub version: Option<String>,
    pub calibration: Option<u64>,
    pub figures: Vec<Figure>,
    /// Points of curves: name, x, y.
    pub points: Vec<(String, u64, u64)>,
    /// What this system cannot do, and why.
    pub absent: Vec<(String, String)>,
    /// Why it did not come to its end; `None` when it did.
    pub broken: Option<String>,
}

impl Report {
    /// A program of which nothing has been heard yet.
    pub fn of(program: &str) -> Self {
        Self { program: program.to_owned(), ..Self::default() }
    }

    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Points by the curves that they belong to, in the order in which the curves began.
    pub fn curves(&self) -> Vec<(String, Vec<(u64, u64)>)> {
        let mut all: Vec<(String, Vec<(u64, u64)>)> = Vec::new();
        for (name, x, y) in &self.points {
            match all.iter_mut().find(|(known, _)| known == name) {
                Some((_, points)) => points.push((*x, *y)),
                None => all.push((name.clone(), vec![(*x, *y)])),
            }
        }
        all
    }

    /// Takes in one line; lines that are not meant for it are left alone.
    pub fn hear(&mut self, line: &str) {
        let Some(said) = line.trim_end().strip_prefix(PREFIX) else { return };
        let mut words = said.split(' ');
        match words.next().unwrap_or_default() {
            "calibration" => self.calibration = words.next().and_then(|word| word.parse().ok()),
            "figure" => self.figures.extend(figure(words)),
            "point" => self.points.extend(point(words)),
            "absent" => {
                let (name, why) = said["absent ".len().min(said.len())..].split_once(' ').unwrap_or_default();
                self.absent.push((name.into(), why.into()));
            }
            "failed" => self.broken = Some(said.to_owned()),
            _ => {}
        }
    }

    /// What is wrong with the calibration loop, if anything is: by the counting clock its length is known exactly, by
    /// another it must not look like that.
    pub fn miscalibration(&self, clock: Clock) -> Option<String> {
        let program = &self.program;
        match (clock, self.calibration) {
            (_, None) if self.figures.iter().all(|figure| figure.is_from_outside) => None,
            (_, None) => Some(format!("{program} measured without calibration")),
            (Clock::Instructions, Some(CALIBRATION)) => None,
            (Clock::Instructions, Some(found)) => Some(format!(
                "{program}: a loop of {CALIBRATION} instructions took {found} by the counting clock: nothing it measured counts"
            )),
            (Clock::Nanoseconds | Clock::PlainNanoseconds, Some(CALIBRATION)) => {
                Some(format!("{program} counted instructions without being asked to"))
            }
            (Clock::Nanoseconds | Clock::PlainNanoseconds, Some(_)) => None,
        }
    }

    /// Takes the instructions that the plugin saw as samples, for a program that waits while it is measured.
    pub fn count_busy(&mut self) {
        for figure in &mut self.figures {
            if figure.windows.len() == figure.samples.len() {
                figure.samples = figure.windows.iter().map(|window| window.blocks.values().sum()).collect();
            } else {
                let why = "no plugin counted instructions, and the clock counts waiting, too";
                self.broken.get_or_insert_with(|| why.to_owned());
            }
        }
    }

    /// Joins what a plugin saw, the windows of each figure in their order; of those too many, the last count.
    pub fn join(&mut self, seen: &mut impl Iterator<Item = Vec<Window>>) {
        for (figure, windows) in self.figures.iter_mut().zip(seen) {
            if let Some(surplus) = windows.len().checked_sub(figure.samples.len()) {
                figure.windows = windows[surplus..].to_vec();
            }
        }
    }
}

/// `NAME OPERATIONS SAMPLE…`
fn figure<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Figure> {
    let name = words.next()?.to_owned();
    let operations = words.next()?.parse().ok().filter(|count| *count > 0)?;
    let samples: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
    (!samples.is_empty()).then(|| Figure { name, operations, samples, ..Figure::default() })
}

/// `NAME X Y`
fn point<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<(String, u64, u64)> {
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(lines: &[&str]) -> Report {
        let mut report = Report::of("calls");
        lines.iter().for_each(|line| report.hear(line));
        report
    }

    #[test]
    fn lines_are_taken_apart_and_others_left_alone() {
        let report = heard(&[
            "[    0.1] Linux version",
            "bench: calibration 200003",
            "bench: figure getpid 100 297 298\r\n",
            "bench: figure broken 0 1",
            "bench: figure cut 100 29",
            "bench: figure odd 1 x",
            "bench: point a 1 2",
            "bench: point a 2 4",
            "bench: absent uffd no such call",
        ]);
        assert_eq!(report.calibration, Some(200_003));
        let names: Vec<&str> = report.figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["getpid", "cut"]);
        assert_eq!((report.figures[0].operations, report.figures[0].samples.as_slice()), (100, &[297, 298][..]));
        assert_eq!(report.curves(), [("a".to_owned(), vec![(1, 2), (2, 4)])]);
        assert_eq!(report.absent, [("uffd".to_owned(), "no such call".to_owned())]);
        assert!(report.broken.is_none() && heard(&["bench: failed fork: no"]).broken.is_some());
    }

    #[test]
    fn a_clock_that_is_off_is_noticed() {
        let figure = "bench: figure a 1 1";
        let off = |calibration: &str, clock| heard(&[calibration, figure]).miscalibration(clock).is_some();
        assert!(!off("bench: calibration 200003", Clock::Instructions));
        assert!(off("bench: calibration 200004", Clock::Instructions));
        assert!(off("bench: calibration 200003", Clock::Nanoseconds));
        assert!(!off("bench: calibration 1054066", Clock::Nanoseconds));
        assert!(off("", Clock::Instructions) && off("", Clock::Nanoseconds));
        assert!(heard(&[]).miscalibration(Clock::Instructions).is_none());
    }

    #[test]
    fn a_program_that_waits_is_measured_by_what_ran() {
        let mut report = heard(&["bench: figure a 1 900 950"]);
        let window = |count| Window { blocks: [(1, count), (2, 5)].into(), ..Window::default() };
        report.figures[0].windows = vec![window(10), window(20)];
        report.count_busy();
        assert_eq!(report.figures[0].samples, [15, 25]);
        assert!(report.broken.is_none());
        report.figures[0].windows.clear();
        report.count_busy();
        assert!(report.broken.is_some());
    }

    #[test]
    fn each_sample_gets_its_window_or_none_does() {
        let mut report = heard(&["bench: figure a 1 5 6", "bench: figure b 1 7", "bench: figure c 1 7 8"]);
        let window = |syscalls| Window { syscalls, ..Window::default() };
        let seen = [vec![window(9), window(1), window(2)], vec![window(3)], vec![window(4)]];
        report.join(&mut seen.into_iter());
        assert_eq!(report.figures[0].windows, [window(1), window(2)], "one was left behind by a program that died");
        assert_eq!(report.figures[1].windows, [window(3)]);
        assert!(report.figures[2].windows.is_empty());
    }
}
