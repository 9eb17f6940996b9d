//! Rule: who may import whom. A crate stands on those below it and on no
//! others; what a test needs (`dev-dependencies`) is its own affair.

use chitin::metadata::Package;

use super::{Finding, Subject};

/// A folder of crates and the folders whose crates these may import. The
/// first row that fits a crate holds; `*` stands for any one name.
const TABLE: [(&str, &[&str]); 27] = [
    ("abi", &[]),
    ("mechanism/*", &["abi", "mechanism/downloaded-code"]),
    ("kernel/machine", &["abi"]),
    ("kernel/driver", &["abi", "kernel/machine"]),
    ("kernel/exokernel", &["abi", "mechanism/*", "kernel/machine", "kernel/driver"]),
    ("kernel/image", &["abi", "mechanism/*", "kernel/*"]),
    ("lib/runtime", &["abi"]),
    ("lib/cffs", &["abi", "mechanism/*"]),
    ("lib/network", &["abi", "mechanism/*"]),
    ("lib/internet", &["abi", "mechanism/*"]),
    ("lib/bpf-loader", &["abi", "mechanism/*"]),
    ("lib/pcap-language", &["abi", "mechanism/*"]),
    ("lib/linux-abi", &["abi", "lib/internet"]),
    ("lib/vfs", &["lib/linux-abi", "lib/internet"]),
    ("lib/vm", &["abi", "lib/linux-abi", "lib/vfs"]),
    ("lib/unix-core", &["abi", "lib/linux-abi", "lib/vfs", "lib/vm", "lib/program"]),
    ("lib/program", &["lib/linux-abi", "lib/vm"]),
    (
        "lib/exos",
        &[
            "abi",
            "mechanism/*",
            "lib/linux-abi",
            "lib/vfs",
            "lib/vm",
            "lib/unix-core",
            "lib/program",
            "lib/runtime",
            "lib/cffs",
            "lib/network",
            "lib/internet",
            "lib/bpf-loader",
            "lib/pcap-language",
        ],
    ),
    (
        "lib/exos-server",
        &[
            "abi",
            "mechanism/*",
            "lib/linux-abi",
            "lib/vfs",
            "lib/vm",
            "lib/unix-core",
            "lib/program",
            "lib/runtime",
            "lib/cffs",
            "lib/network",
            "lib/internet",
            "lib/exos",
        ],
    ),
    (
        "lib/exos-init",
        &[
            "abi",
            "lib/linux-abi",
            "lib/vfs",
            "lib/vm",
            "lib/unix-core",
            "lib/program",
            "lib/runtime",
            "lib/exos",
            "lib/exos-server",
        ],
    ),
    ("app/*", &["abi", "mechanism/*", "lib/*"]),
    ("test/programs", &["abi", "mechanism/*", "lib/*"]),
    ("test/*", &["abi", "mechanism/*", "lib/cffs", "lib/bpf-loader", "lib/pcap-language"]),
    ("bench/guest", &["abi", "mechanism/*", "lib/*"]),
    ("bench/peer", &["abi"]),
    ("tool/chitin", &["abi", "mechanism/xn", "lib/cffs"]),
    ("tool/develop", &["abi", "mechanism/*", "lib/bpf-loader", "lib/network", "test/crash", "tool/chitin"]),
];

pub fn check(subject: &Subject) -> Vec<Finding> {
    subject.metadata.members().flat_map(|package| imports(package, subject)).collect()
}

fn imports(package: &Package, subject: &Subject) -> Vec<Finding> {
    let root = &subject.metadata.workspace_root;
    let folder = |path: &std::path::Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    let importer = folder(package.folder());
    let place = format!("{importer}/Cargo.toml");
    let Some((_, allowed)) = TABLE.iter().find(|(pattern, _)| fits(pattern, &importer)) else {
        return vec![Finding::new(place, "this folder has no row in the table of layers")];
    };
    let own = package.dependencies.iter().filter(|it| it.kind.as_deref() != Some("dev"));
    own.filter_map(|dependency| dependency.path.as_deref())
        .map(folder)
        .filter(|imported| !allowed.iter().any(|pattern| fits(pattern, imported)))
        .map(|imported| Finding::new(&place, format!("{importer} may not import {imported}")))
        .collect()
}

fn fits(pattern: &str, folder: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(parent) => folder.strip_prefix(parent).is_some_and(|name| !name.contains('/')),
        None => pattern == folder,
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    fn found(packages: &[(&str, &[&str])]) -> Vec<String> {
        let mut subject = Subject::planted(vec![]);
        subject.metadata = planted::metadata(packages);
        check(&subject).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn an_import_upwards_is_found() {
        let wrong: [(&str, &str); 7] = [
            ("abi", "mechanism/xn"),
            ("mechanism/xn", "kernel/machine"),
            ("kernel/machine", "mechanism/xn"),
            ("lib/runtime", "kernel/machine"),
            ("lib/exos", "kernel/exokernel"),
            ("lib/network", "lib/exos"),
            ("tool/chitin", "kernel/image"),
        ];
        for (importer, imported) in wrong {
            let expected = format!("{importer} may not import {imported}");
            assert_eq!(found(&[(importer, &[imported])]), [expected]);
        }
    }

    #[test]
    fn an_import_downwards_is_fine_and_an_unknown_folder_is_not() {
        assert!(found(&[("kernel/exokernel", &["abi", "mechanism/xn"])]).is_empty());
        assert_eq!(found(&[("extra/thing", &[])]).len(), 1);
    }
}
