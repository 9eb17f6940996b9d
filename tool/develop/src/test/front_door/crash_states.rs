//! Crash states of C-FFS in a machine: images that the crash harness made are mounted as disks. What was acknowledged
//! is there, the volume can be used, and after that `./chitin fs check` calls it clean.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crash::cffs::image::image;
use sha2::{Digest, Sha256};

use chitin::failure::{Context, Result};

use super::Visit;

/// Program of the host that such visits need; it also marks them.
pub(super) const STATES: &str = "sha256sum";
/// States of one visit.
const EACH: u64 = 5;

/// A quarter of twenty states, in every run.
pub(super) const CRASH_STATES: [Visit; 1] = [visit("fault_68_crash_states_0_to_4_are_mounted")];
/// The others, in full runs.
pub(super) const MORE_CRASH_STATES: [Visit; 3] = [
    visit("fault_68_crash_states_5_to_9_are_mounted"),
    visit("fault_68_crash_states_10_to_14_are_mounted"),
    visit("fault_68_crash_states_15_to_19_are_mounted"),
];

const fn visit(name: &'static str) -> Visit {
    Visit { name, lines: LINES, status: 0, output: SAID, told: "", needs: &[STATES] }
}

/// The sums of files are read by the program in the machine; it says which of them is wrong, and how many there are.
const LINES: &str = r#"for state in 0 1 2 3 4; do
    $chitin fs check $state > before; [ $? -le 1 ] || cat before
    $chitin run --disk $state -- sh -c 'cd /disk; sha256sum -c > /tmp/said; grep -v ": OK$" /tmp/said; grep -c . /tmp/said
        echo later > later; ln later also; mv later last; sync; cat also last' < $state.sums > said 2> told
    [ "$(head -n 1 said)" = $(grep -c . $state.sums) ] && tail -n +2 said; cat told; $chitin fs check $state | cut -d ';' -f 1
done"#;
const SAID: &str = "later\nlater\n0: clean\nlater\nlater\n1: clean\nlater\nlater\n2: clean\nlater\nlater\n3: clean\n\
                    later\nlater\n4: clean\n";

/// Writes the images of a visit, and the sums of the files that each must have.
///
/// # Errors
/// When there is no room.
pub(super) fn write(visit: &Visit, folder: &Path) -> Result<()> {
    let mut visits = CRASH_STATES.iter().chain(&MORE_CRASH_STATES);
    let index = visits.position(|one| one.name == visit.name).unwrap_or_default();
    for state in 0..EACH {
        let image = image(index as u64 * EACH + state);
        let mut sums = String::new();
        for (path, bytes) in &image.durable {
            let digest = Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
            let _ = writeln!(sums, "{digest}  {path}");
        }
        let file = folder.join(state.to_string());
        fs::write(&file, &image.bytes).context(file.display())?;
        fs::write(file.with_extension("sums"), sums).context(file.display())?;
    }
    Ok(())
}
