//! Settings of the network below `/proc/sys/net`: the values of a Linux that no one has set up.
//!
//! The table names a folder in brackets, then a file and its value on each line. Three values stand for the folders
//! `all`, `default` and `lo`. The files are read only: no value changes what ExOS does.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use linux_raw_sys::general::{S_IFDIR as DIRECTORY, S_IFREG as FILE};

const TABLE: &str = include_str!("net_settings.txt");
/// Folders that a `*` stands for.
const DEVICES: [&str; 3] = ["all", "default", "lo"];

/// Folder, name and value of each line.
fn rows() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let row = |folder: &mut &'static str, line: &'static str| {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            *folder = name;
            return Some(None);
        }
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        Some(Some((*folder, name, value)))
    };
    TABLE.lines().scan("", row).flatten()
}

/// Path and value of each file.
fn files() -> impl Iterator<Item = (String, &'static str)> {
    rows().flat_map(|(folder, name, value)| {
        let devices = if folder.contains('*') { &DEVICES[..] } else { &DEVICES[..1] };
        let values: Vec<&str> = value.split('|').collect();
        let file = move |(at, device): (usize, &&str)| {
            let value = values.get(at).or(values.first()).copied().unwrap_or_default();
            (format!("{}/{name}", folder.replace('*', device)), value)
        };
        devices.iter().enumerate().map(file).collect::<Vec<_>>()
    })
}

/// What the file at a path below `/proc` says; `None`: it is no setting.
pub fn text(parts: &[&str]) -> Option<String> {
    let path = parts.strip_prefix(&["sys", "net"])?.join("/");
    let (_, value) = files().find(|(file, _)| *file == path)?;
    let is_numbers = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b' ');
    let value = if is_numbers { value.replace(' ', "\t") } else { String::from(value) };
    Some(value + "\n")
}

/// Names and types in the folder at a path below `/proc`; `None`: it is none of these.
pub fn folder(parts: &[&str]) -> Option<Vec<(String, u32)>> {
    if parts == ["sys"] {
        return Some(Vec::from([(String::from("net"), DIRECTORY)]));
    }
    let above: String = parts.strip_prefix(&["sys", "net"])?.iter().map(|part| format!("{part}/")).collect();
    let mut names: Vec<(String, u32)> = Vec::new();
    for (file, _) in files() {
        let Some(rest) = file.strip_prefix(&above) else { continue };
        let (name, kind) = rest.split_once('/').map_or((rest, FILE), |(name, _)| (name, DIRECTORY));
        if names.iter().all(|(there, _)| there != name) {
            names.push((String::from(name), kind));
        }
    }
    (!names.is_empty()).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_their_folders() {
        let value = |path: &str| text(&path.split('/').collect::<Vec<_>>());
        assert_eq!(value("sys/net/core/somaxconn").as_deref(), Some("4096\n"));
        assert_eq!(value("sys/net/ipv4/ip_local_port_range").as_deref(), Some("32768\t60999\n"));
        assert_eq!(value("sys/net/ipv4/tcp_available_congestion_control").as_deref(), Some("reno cubic\n"));
        assert_eq!(value("sys/net/ipv4/conf/all/disable_policy").as_deref(), Some("0\n"));
        assert_eq!(value("sys/net/ipv4/conf/lo/disable_policy").as_deref(), Some("1\n"));
        assert_eq!(value("sys/net/ipv4/conf/lo/rp_filter").as_deref(), Some("0\n"));
        assert_eq!(value("sys/net/ipv4/conf/*/rp_filter"), None);
        assert_eq!(value("sys/net/ipv4"), None);
    }

    #[test]
    fn folders_have_each_name_once() {
        let names = |path: &[&str]| folder(path).unwrap_or_default();
        assert_eq!(names(&["sys", "net"]).len(), 4);
        assert_eq!(names(&["sys", "net", "ipv4", "conf"]), DEVICES.map(|name| (String::from(name), DIRECTORY)));
        assert!(names(&["sys", "net", "core"]).iter().all(|(_, kind)| *kind == FILE));
        assert_eq!(folder(&["sys", "net", "none"]), None);
    }
}
