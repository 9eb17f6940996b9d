//! Rule: the trusted base takes almost nothing from outside, and what it takes
//! is named here.

use super::{Finding, Subject};

/// Crates from outside that the kernel and the mechanisms may use.
const TRUSTED: [&str; 5] = ["bitflags", "raw-cpuid", "virtio-drivers", "x86_64", "zerocopy"];

pub fn check(subject: &Subject) -> Vec<Finding> {
    let root = &subject.metadata.workspace_root;
    let mut findings = Vec::new();
    for package in subject.metadata.members() {
        let manifest = package.manifest_path.strip_prefix(root).unwrap_or(&package.manifest_path);
        let trusted = ["abi", "kernel", "mechanism"].iter().any(|top| manifest.starts_with(top));
        let outside = |name: &str| trusted && !TRUSTED.contains(&name);
        for dependency in &package.dependencies {
            let built_in = dependency.kind.is_none() && dependency.path.is_none();
            if built_in && outside(&dependency.name) {
                let message = format!("the trusted base may not take {}", dependency.name);
                findings.push(Finding::new(manifest.display(), message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;
    use chitin::metadata::Dependency;

    #[test]
    fn a_crate_from_outside_in_the_kernel_is_found() {
        let found = |folder, name: &str| {
            let mut subject = Subject::planted(vec![]);
            subject.metadata = planted::metadata(&[(folder, &[])]);
            let outside = Dependency { name: name.into(), kind: None, path: None };
            subject.metadata.packages[0].dependencies.push(outside);
            check(&subject).len()
        };
        assert_eq!(found("kernel/exokernel", "serde"), 1);
        assert_eq!(found("kernel/machine", "virtio-drivers"), 0);
        assert_eq!(found("tool/chitin", "serde"), 0);
    }
}
