//! Images made from the specifications, whole and damaged: what comes of them, and that the host stays as it was.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::digest::Digest;
use super::tree::{Kind, Tree};
use super::{Root, load};
use crate::failure::Result;
use crate::workspace::Workspace;

/// An entry of a layer: name, type, link target or contents, mode.
type Entry<'a> = (&'a str, EntryType, &'a str, u32);

const FILE: EntryType = EntryType::Regular;
const FOLDER: EntryType = EntryType::Directory;

/// A tar written header by header, so that it can hold what no tool would write.
fn tar_of(entries: &[Entry]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, kind, text, mode) in entries {
        let mut header = Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(*mode);
        header.set_uid(7);
        header.set_gid(8);
        header.set_mtime(9);
        let contents: &[u8] = if *kind == FILE { text.as_bytes() } else { b"" };
        header.set_size(contents.len() as u64);
        if *kind != FILE && !text.is_empty() {
            header.set_link_name_literal(text).unwrap();
        }
        header.set_cksum();
        builder.append(&header, contents).unwrap();
    }
    builder.into_inner().unwrap()
}

fn packed(tool: &str, bytes: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layer");
    fs::write(&file, bytes).unwrap();
    Command::new(tool).arg("-c").arg(file).output().unwrap().stdout
}

/// A folder for images and for a cache.
struct Place {
    folder: tempfile::TempDir,
    workspace: Workspace,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(&folder.path().join("checkout"));
        fs::create_dir_all(folder.path().join("image/blobs/sha256")).unwrap();
        fs::write(folder.path().join("image/oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        Self { folder, workspace }
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Stores a blob; the answer is its descriptor.
    fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = Digest::of(bytes);
        fs::write(self.image().join("blobs/sha256").join(digest.digits()), bytes).unwrap();
        json!({ "mediaType": media_type, "digest": digest.to_string(), "size": bytes.len() })
    }

    fn record(&self, media_type: &str, record: &Value) -> Value {
        self.blob(media_type, record.to_string().as_bytes())
    }

    /// A manifest of these layers, each as its tar and as it is stored.
    fn manifest(&self, layers: &[(Vec<u8>, Vec<u8>)], architecture: &str) -> Value {
        let ids: Vec<String> = layers.iter().map(|(tar, _)| Digest::of(tar).to_string()).collect();
        let configuration = json!({
            "architecture": architecture, "os": "linux", "rootfs": { "type": "layers", "diff_ids": ids },
            "config": { "Entrypoint": ["/e"], "Cmd": null, "Env": ["A=b"], "WorkingDir": "/w", "User": "7:8" },
        });
        let configuration = self.record("application/vnd.oci.image.config.v1+json", &configuration);
        let layers: Vec<Value> =
            layers.iter().map(|(_, stored)| self.blob("application/vnd.oci.image.layer.v1.tar", stored)).collect();
        let manifest = json!({ "schemaVersion": 2, "config": configuration, "layers": layers });
        self.record("application/vnd.oci.image.manifest.v1+json", &manifest)
    }

    fn index(&self, manifests: &[Value]) {
        let index = json!({ "schemaVersion": 2, "manifests": manifests });
        fs::write(self.image().join("index.json"), index.to_string()).unwrap();
    }

    fn load(&self) -> Result<Root> {
        load(&self.workspace, "--image", &self.image())
    }

    /// The one line of complaint; nothing is written outside the cache, and nothing is left in it.
    fn complaint(&self) -> String {
        let complaint = self.load().unwrap_err().to_string();
        assert!(!complaint.contains(char::is_control) && complaint.len() < 400, "{complaint}");
        assert!(complaint.contains("--image") && complaint.contains("image"), "{complaint}");
        let names = |folder: &Path| -> Vec<String> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        let mut outside = names(self.folder.path());
        outside.sort();
        assert!(outside.iter().all(|name| ["checkout", "image"].contains(&name.as_str())), "{outside:?}");
        assert_eq!(
            names(&self.folder.path().join("checkout")).len(),
            usize::from(!outside.is_empty() && outside[0] == "checkout")
        );
        complaint
    }
}

/// One uncompressed layer.
fn plain(entries: &[Entry]) -> (Vec<u8>, Vec<u8>) {
    let tar = tar_of(entries);
    (tar.clone(), tar)
}

fn text(tree: &Tree, path: &str) -> Option<String> {
    let (_, node) = tree.follow(path.as_bytes())?;
    let Kind::File(file) = node.kind else { return None };
    Some(String::from_utf8(tree.read(file, 1 << 20).unwrap()).unwrap())
}

#[test]
fn layers_lie_one_on_the_other_however_they_are_packed() {
    let lower = tar_of(&[
        ("a", FOLDER, "", 0o755),
        ("a/gone", FILE, "1", 0o644),
        ("a/stays", FILE, "2", 0o4755),
        ("o", FOLDER, "", 0o755),
        ("o/old", FILE, "3", 0o644),
        ("deep", FOLDER, "", 0o755),
        ("deep/er", FILE, "4", 0o644),
        ("usr", FOLDER, "", 0o755),
        ("usr/bin", FOLDER, "", 0o755),
        ("bin", EntryType::Symlink, "usr/bin", 0o777),
        ("was-folder", FOLDER, "", 0o755),
        ("was-folder/x", FILE, "5", 0o644),
    ]);
    let upper = tar_of(&[
        ("a/.wh.gone", FILE, "", 0o644),
        ("o/new", FILE, "6", 0o644),
        ("o/.wh..wh..opq", FILE, "", 0o644),
        (".wh.deep", FILE, "", 0o644),
        ("a/hard", EntryType::Link, "a/stays", 0o755),
        ("bin/tool", FILE, "7", 0o755),
        ("was-folder", FILE, "8", 0o644),
        ("absolute", EntryType::Symlink, "/etc/passwd", 0o777),
        ("null", EntryType::Char, "", 0o666),
    ]);
    for tool in ["cat", "gzip", "zstd"] {
        let pack = |tar: &Vec<u8>| if tool == "cat" { tar.clone() } else { packed(tool, tar) };
        let place = Place::new();
        place.index(&[place.manifest(&[(lower.clone(), pack(&lower)), (upper.clone(), pack(&upper))], "amd64")]);
        for _ in 0..2 {
            let root = place.load().unwrap();
            let tree = &root.tree;
            let found = [
                "/a/gone",
                "/a/stays",
                "/a/hard",
                "/o/old",
                "/o/new",
                "/deep/er",
                "/usr/bin/tool",
                "/was-folder",
                "/was-folder/x",
            ]
            .map(|path| text(tree, path));
            let expected = [None, Some("2"), Some("2"), None, Some("6"), None, Some("7"), Some("8"), None];
            assert_eq!(found, expected.map(|text| text.map(str::to_owned)), "{tool}");
            let stays = tree.get(b"a/stays").unwrap();
            assert_eq!((stays.permissions, stays.user, stays.group, stays.modified), (0o4755, 7, 8, 9));
            assert_eq!(stays.kind, tree.get(b"a/hard").unwrap().kind);
            assert_eq!(text(tree, "/absolute"), None, "an absolute link stays in the root");
            assert_eq!(
                (root.configuration.entrypoint.as_slice(), root.configuration.user.as_str()),
                (&["/e".to_owned()][..], "7:8")
            );
        }
    }
}

#[test]
fn an_index_is_followed_to_the_own_architecture() {
    let place = Place::new();
    let [mut own, mut foreign] = ["amd64", "arm64"].map(|name| {
        let mut image = place.manifest(&[plain(&[("name", FILE, name, 0o644)])], name);
        image["platform"] = json!({ "architecture": name, "os": "linux" });
        image
    });
    let index = json!({ "schemaVersion": 2, "manifests": [foreign.clone(), own.clone()] });
    place.index(&[place.record("application/vnd.oci.image.index.v1+json", &index)]);
    assert_eq!(text(&place.load().unwrap().tree, "/name").unwrap(), "amd64");
    place.index(&[foreign.clone()]);
    assert!(place.complaint().contains("for linux/arm64, not for linux/amd64"));
    // Without a platform the configuration says it.
    foreign.as_object_mut().unwrap().remove("platform");
    place.index(&[foreign.clone()]);
    assert!(place.complaint().contains("for linux/arm64, not for linux/amd64"));
    own["annotations"] = json!({ "org.opencontainers.image.ref.name": "one" });
    foreign["annotations"] = json!({ "org.opencontainers.image.ref.name": "two" });
    place.index(&[own, foreign]);
    assert!(place.complaint().contains("choose one by PATH:TAG of one, two"));
    let tagged =
        |tag: &str| load(&place.workspace, "--image", &PathBuf::from(format!("{}:{tag}", place.image().display())));
    assert!(tagged("one").is_ok());
    assert!(tagged("three").unwrap_err().to_string().contains("no image in it is called three: it has one, two"));
}

#[test]
fn an_image_that_was_damaged_since_the_last_run_is_told_of() {
    let place = Place::new();
    let layer = plain(&[("a", FILE, "1", 0o644)]);
    place.index(&[place.manifest(std::slice::from_ref(&layer), "amd64")]);
    assert!(place.load().is_ok() && place.load().is_ok());
    let blob = place.image().join("blobs/sha256").join(Digest::of(&layer.1).digits());
    fs::write(blob, tar_of(&[("a", FILE, "2", 0o644)])).unwrap();
    assert!(place.complaint().contains("damaged: the digest is"));
}

#[test]
fn damage_is_told_in_one_line_and_writes_nothing_outside_the_cache() {
    let good = || plain(&[("a", FILE, "1", 0o644)]);
    let damage = |change: &dyn Fn(&Place, &Digest), expected: &str| {
        let place = Place::new();
        let layer = good();
        place.index(&[place.manifest(std::slice::from_ref(&layer), "amd64")]);
        change(&place, &Digest::of(&layer.1));
        let complaint = place.complaint();
        assert!(complaint.contains(expected), "{complaint}");
    };
    let blob = |place: &Place, digest: &Digest| place.image().join("blobs/sha256").join(digest.digits());
    damage(
        &|place, digest| fs::write(blob(place, digest), tar_of(&[("a", FILE, "2", 0o644)])).unwrap(),
        "damaged: the digest is",
    );
    damage(&|place, digest| fs::remove_file(blob(place, digest)).unwrap(), "is missing");
    damage(&|place, _| fs::write(place.image().join("index.json"), "{").unwrap(), "index.json is damaged");
    damage(&|place, _| place.index(&[]), "lists no image");
    damage(
        &|place, _| place.index(&[json!({ "digest": "sha256:../../../../etc/passwd", "size": 1 })]),
        "no sha256 digest",
    );
    damage(&|place, _| place.index(&[json!({ "digest": Digest::of(b"?").to_string(), "size": 1 })]), "is missing");
}

#[test]
fn layers_that_lead_out_are_refused() {
    let header = |entries: &[Entry], expected: &str| {
        let place = Place::new();
        place.index(&[place.manifest(&[plain(entries)], "amd64")]);
        let complaint = place.load().unwrap_err().to_string();
        assert!(complaint.contains(expected) && !complaint.contains('\n'), "{complaint}");
    };
    header(&[("../../etc/evil", FILE, "x", 0o644)], "leads out of the root");
    header(&[("a", EntryType::Link, "../../etc/passwd", 0o644)], "leads out of the root");
    header(&[("a", EntryType::Link, "/etc/passwd", 0o644)], "a hard link to etc/passwd, which is not there");
    header(&[("..", FOLDER, "", 0o755)], "leads out of the root");
}

#[test]
fn a_terabyte_of_zeros_is_refused_at_once() {
    let mut huge = Header::new_gnu();
    huge.set_path("zeros").unwrap();
    huge.set_size(1 << 40);
    huge.set_cksum();
    let mut bomb = huge.as_bytes().to_vec();
    bomb.resize(1 << 20, 0);
    let place = Place::new();
    place.index(&[place.manifest(&[(bomb.clone(), packed("gzip", &bomb))], "amd64")]);
    assert!(place.complaint().contains("unpacks to 1048576 MiB or more (at \"zeros\")"));
    // A sparse tar of that length, not compressed, is not read through either.
    let file = place.folder.path().join("image/huge.tar");
    let mut tar = fs::File::create(&file).unwrap();
    tar.write_all(huge.as_bytes()).unwrap();
    tar.set_len((1 << 40) + 2048).unwrap();
    let complaint = load(&place.workspace, "--root", &file).unwrap_err().to_string();
    assert!(complaint.contains("zeros") && complaint.contains("at most 4095"), "{complaint}");
}

type Files = Vec<(String, Vec<u8>)>;
/// What is done to a good file before it is written.
type Damage<'a> = &'a dyn Fn(&mut Value, &mut Files);

/// A `docker save` file, as Docker's image specification 1.2 has it.
fn docker_save(layers: &[&[Entry]], change: impl FnOnce(&mut Value, &mut Files)) -> Vec<u8> {
    let tars: Vec<Vec<u8>> = layers.iter().map(|entries| tar_of(entries)).collect();
    let ids: Vec<String> = tars.iter().map(|tar| Digest::of(tar).to_string()).collect();
    let configuration = json!({
        "architecture": "amd64", "os": "linux", "config": { "Cmd": ["/c"], "Entrypoint": null },
        "rootfs": { "type": "layers", "diff_ids": ids },
    });
    let names: Vec<String> = (0..tars.len()).map(|number| format!("layer{number}/layer.tar")).collect();
    let mut manifest = json!([{ "Config": "c.json", "RepoTags": ["me/it:latest"], "Layers": names }]);
    let mut files: Files = names.into_iter().zip(tars).collect();
    files.push(("c.json".into(), configuration.to_string().into_bytes()));
    change(&mut manifest, &mut files);
    files.push(("manifest.json".into(), manifest.to_string().into_bytes()));
    let mut builder = Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, name, bytes.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn docker_save_files_are_read_packed_or_not_and_damage_is_told() {
    let place = Place::new();
    let file = place.folder.path().join("image/saved.tar");
    let layers: [&[Entry]; 2] = [&[("a", FILE, "1", 0o644), ("b", FILE, "2", 0o644)], &[(".wh.a", FILE, "", 0o644)]];
    let load_from = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        load(&place.workspace, "--image", &file)
    };
    let good = docker_save(&layers, |_, _| {});
    for bytes in [good.clone(), packed("gzip", &good), packed("zstd", &good)] {
        let root = load_from(&bytes).unwrap();
        assert_eq!((text(&root.tree, "/a"), text(&root.tree, "/b")), (None, Some("2".into())));
        assert_eq!(root.configuration.cmd, ["/c"]);
    }
    let complaint = |change: Damage| {
        load_from(&docker_save(&layers, |manifest, files| change(manifest, files))).unwrap_err().to_string()
    };
    let damages: [(&str, Damage); 7] = [
        ("the layer layer1/layer.tar is missing", &|_: &mut Value, files: &mut Files| drop(files.remove(1))),
        ("the digest of the tar inside is", &|_, files| files[1].1[0] = b'x'),
        ("lists 1 layers, c.json has 2 digests", &|manifest, _| {
            drop(manifest[0]["Layers"].as_array_mut().unwrap().pop())
        }),
        ("../../etc/passwd is missing", &|manifest, _| manifest[0]["Layers"][0] = json!("../../etc/passwd")),
        ("manifest.json is damaged", &|manifest, _| *manifest = json!({})),
        ("lists no image", &|manifest, _| *manifest = json!([])),
        ("c.json is missing", &|_, files| drop(files.pop())),
    ];
    for (expected, change) in damages {
        let said = complaint(change);
        assert!(said.contains(expected), "{said}");
    }
}
