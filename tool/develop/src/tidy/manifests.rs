//! Rule: every crate takes its licence, edition and lints from the workspace,
//! and the workspace is MIT OR Apache-2.0.

use toml::Table;

use super::{Finding, Subject};

const LICENCE: &str = "MIT OR Apache-2.0";
const INHERITED: [&str; 4] = ["version", "edition", "license", "publish"];

pub fn check(subject: &Subject) -> Vec<Finding> {
    let manifests = subject.tree.files.iter().filter(|file| file.path.ends_with("Cargo.toml"));
    manifests.flat_map(|file| wrong(&file.path, &file.source)).collect()
}

fn wrong(path: &str, source: &str) -> Vec<Finding> {
    let Ok(manifest) = source.parse::<Table>() else {
        return vec![Finding::new(path, "does not parse as TOML")];
    };
    if path == "Cargo.toml" {
        let licence = at(&manifest, &["workspace", "package", "license"]);
        let right = licence.and_then(toml::Value::as_str) == Some(LICENCE);
        return if right { vec![] } else { vec![Finding::new(path, format!("licence is not {LICENCE}"))] };
    }
    let is_inherited = |keys: &[&str]| at(&manifest, keys).and_then(toml::Value::as_bool) == Some(true);
    let mut findings: Vec<Finding> = INHERITED
        .iter()
        .filter(|key| !is_inherited(&["package", key, "workspace"]))
        .map(|key| Finding::new(path, format!("{key} does not come from the workspace")))
        .collect();
    if !is_inherited(&["lints", "workspace"]) {
        findings.push(Finding::new(path, "lints do not come from the workspace"));
    }
    findings
}

fn at<'a>(table: &'a Table, keys: &[&str]) -> Option<&'a toml::Value> {
    let (last, parents) = keys.split_last()?;
    let mut table = table;
    for key in parents {
        table = table.get(*key)?.as_table()?;
    }
    table.get(*last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nversion.workspace = true\nedition.workspace = true\n\
        license.workspace = true\npublish.workspace = true\n[lints]\nworkspace = true\n";

    fn found(path: &str, source: &str) -> usize {
        check(&Subject::planted(vec![(path, source)])).len()
    }

    #[test]
    fn a_manifest_of_its_own_mind_is_found() {
        assert_eq!(found("abi/Cargo.toml", GOOD), 0);
        assert_eq!(found("abi/Cargo.toml", &GOOD.replace("license.workspace = true", "license = \"MIT\"")), 1);
        assert_eq!(found("abi/Cargo.toml", &GOOD.replace("[lints]", "[other]")), 1);
    }

    #[test]
    fn another_licence_for_the_whole_is_found() {
        assert_eq!(found("Cargo.toml", "[workspace.package]\nlicense = \"MIT OR Apache-2.0\""), 0);
        assert_eq!(found("Cargo.toml", "[workspace.package]\nlicense = \"MIT\""), 1);
    }
}
