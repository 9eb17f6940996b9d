//! Whether parity scripts notice what they are for: each must say something else
//! when a call does the wrong thing, and the same when none does.
//!
//! Only in full runs. The object `test/programs/linux/wrong_call.c` is preloaded into every program of a script. It
//! does one wrong thing after the other until the script's output or status is no longer what it is on the host.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chitin::failure::{Failure, Result};
use chitin::root::{Contents, Kind, Node, Tree};
use chitin::toolchain::Toolchain;
use chitin::workspace::Workspace;

use super::case::{Case, Verdict};
use super::linux_program::{self, Product};
use super::parity::{self, Ground, Said};

const OBJECT: &str = "wrong_call.c";
const RUNNER: &str = "parity/run-wrong";
/// Where the runner finds what a script says on the host, and how it ends there.
const EXPECTED: &str = "parity/expected";
/// Scripts of one boot, and its time limit.
const AT_ONCE: usize = 10;
const LIMIT: Duration = Duration::from_hours(1);
/// In place of a call: nothing is wrong.
const NOTHING: &str = "nothing";

/// Runs each script with one wrong call after the other, and frames the first that it notices. The wrong calls are
/// those of the object; the last ones are noticed by almost all.
const RUN: &str = r#"#!/bin/busybox sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
for name in "$@"; do
    noticed=
    for call in nothing wait4 getdents64 fstat lseek unlink dup2 pipe clone write; do
        echo $call > /tmp/wrong
        rm -rf /tmp/work; mkdir /tmp/work; cd /tmp/work
        timeout 60 env EXOS_PRELOAD=/test/wrong_call /parity/$name > /tmp/said 2>&1 < /dev/null
        [ $? = "$(cat /parity/expected/$name.status)" ] && cmp -s /tmp/said /parity/expected/$name && continue
        noticed=$call
        break
    done
    echo "==== $name 0 ${#noticed}"
    printf %s "$noticed"
done
"#;

/// One boot, run when the first of its tests asks.
struct Batch {
    names: Vec<String>,
    ground: Arc<Ground>,
    workspace: Workspace,
    said: OnceLock<std::result::Result<Said, String>>,
}

/// A test for each script whose name contains `filter`.
///
/// # Errors
/// When the scripts cannot be listed.
pub fn cases(toolchain: Toolchain, workspace: &Workspace, filter: &str) -> Result<Vec<Case>> {
    let names = parity::scripts(&parity::SCRIPTS, workspace)?;
    let names: Vec<String> = names.into_iter().filter(|name| test_name(name).contains(filter)).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let ground = match parity::prepare(&parity::SCRIPTS, toolchain, workspace) {
        Ok(ground) => Arc::new(ground),
        Err(failure) => return Ok(vec![Case::failed("build::wrong-call", failure.to_string())]),
    };
    if let Err(failure) = ground.check_host() {
        let skipped = |name: &String| Case::skipped(test_name(name), failure.to_string());
        return Ok(names.iter().map(skipped).collect());
    }
    // Neighbours are in different batches: each of the first tests starts a boot of its own.
    let boots = names.len().div_ceil(AT_ONCE);
    let batch = |first| {
        let (names, ground) = (names.iter().skip(first).step_by(boots).cloned().collect(), Arc::clone(&ground));
        Arc::new(Batch { names, ground, workspace: workspace.clone(), said: OnceLock::new() })
    };
    let batches: Vec<_> = (0..boots).map(batch).collect();
    let case = |(name, batch): (&String, &Arc<Batch>)| {
        let (batch, name, title) = (Arc::clone(batch), name.clone(), test_name(name));
        Case::new(title, LIMIT, move |transcript| batch.judge(&name, transcript))
    };
    Ok(names.iter().zip(batches.iter().cycle()).map(case).collect())
}

fn test_name(script: &str) -> String {
    format!("wrong-call::{script}")
}

impl Batch {
    fn judge(&self, name: &str, mut transcript: File) -> Verdict {
        let said = self.said.get_or_init(|| self.run().map_err(|failure: Failure| failure.to_string()));
        let (_, noticed) = said.as_ref().map_err(Clone::clone)?.get(name).ok_or("it did not run to its end")?;
        let noticed = String::from_utf8_lossy(noticed);
        // The verdict does not hang on the transcript.
        let _ = writeln!(transcript, "notices: {noticed}");
        match &*noticed {
            "" => Err("it notices no wrong call".into()),
            NOTHING => Err("it says something else though no call is wrong".into()),
            _ => Ok(()),
        }
    }

    fn run(&self) -> Result<Said> {
        let mut tree = self.ground.tree()?;
        linux_program::add(&self.workspace, OBJECT, Product::Object, &mut tree)?;
        add(&mut tree, RUNNER, RUN.as_bytes());
        for (name, (status, output)) in self.ground.on_host(&self.names)? {
            add(&mut tree, &format!("{EXPECTED}/{name}"), &output);
            add(&mut tree, &format!("{EXPECTED}/{name}.status"), status.to_string().as_bytes());
        }
        let arguments = [format!("/{RUNNER}")].into_iter().chain(self.names.iter().cloned()).collect();
        self.ground.in_machine(&tree, arguments, LIMIT)
    }
}

fn add(tree: &mut Tree, path: &str, bytes: &[u8]) {
    let file = tree.add_contents(Contents::Bytes(bytes.to_vec()));
    tree.insert(path.as_bytes(), Node::of_root(Kind::File(file), 0o755));
}
