//! Image of a container: its layers in order and its configuration, from an OCI layout or from `docker save`.
//!
//! Formats: the OCI image specification 1.1 and Docker's image specification 1.2. Records are read with serde, only
//! the fields that matter; every digest is verified.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::failure::{Context, Failure, Result};

use super::digest::Digest;
use super::layer_cache::Expected;
use super::store::{Blob, Store};

/// What the machine runs, by the names that images use.
const ARCHITECTURE: &str = "amd64";
const SYSTEM: &str = "linux";
/// How deep an index may stand in another.
const DEPTH: usize = 4;
/// Annotation with the name that a tool gave an image.
const TAG: &str = "org.opencontainers.image.ref.name";

/// The name of the file that marks an OCI layout, and of its index.
const LAYOUT: &str = "oci-layout";
const INDEX: &str = "index.json";
/// The list of images of `docker save`.
const DOCKER: &str = "manifest.json";

/// A layer: where it is stored and what it must hash to.
#[derive(Debug)]
pub struct Layer {
    /// How error lines name it.
    pub name: String,
    pub blob: Blob,
    pub expected: Expected,
}

/// How an image wants to be run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "PascalCase", default)]
pub struct Configuration {
    #[serde(deserialize_with = "null_is_empty")]
    pub user: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub env: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub entrypoint: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub cmd: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub working_dir: String,
}

#[derive(Debug)]
pub struct Image {
    pub layers: Vec<Layer>,
    pub configuration: Configuration,
}

/// A reference to a blob.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    digest: String,
    #[serde(default)]
    media_type: String,
    platform: Option<Platform>,
    #[serde(default, deserialize_with = "null_is_empty")]
    annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

/// An index or a manifest: which one, its fields say.
#[derive(Debug, Deserialize)]
struct Record {
    manifests: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    #[serde(default, deserialize_with = "null_is_empty")]
    layers: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
struct ConfigurationFile {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    config: Configuration,
    rootfs: FileSystem,
}

#[derive(Debug, Deserialize)]
struct FileSystem {
    #[serde(default, deserialize_with = "null_is_empty")]
    diff_ids: Vec<String>,
}

/// One image of `docker save`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerManifest {
    config: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    repo_tags: Vec<String>,
    #[serde(default, deserialize_with = "null_is_empty")]
    layers: Vec<String>,
}

/// Go writes an absent list as `null`.
fn null_is_empty<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> std::result::Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// The image in `store`; of several, the one that is called `tag`. `None` where the store holds no image.
///
/// # Errors
/// When records are missing or damaged, no image is for this machine, or several are and none is chosen.
pub fn find(store: &Store, tag: Option<&str>) -> Result<Option<Image>> {
    if store.get(LAYOUT).is_some() && store.get(INDEX).is_some() {
        return of_layout(store, tag).map(Some);
    }
    if store.get(DOCKER).is_some() {
        return of_docker(store, tag).map(Some);
    }
    Ok(None)
}

fn of_layout(store: &Store, tag: Option<&str>) -> Result<Image> {
    let index: Record = parse(INDEX, &store.read(INDEX)?)?;
    let mut chosen = index.manifests.unwrap_or_default();
    if chosen.is_empty() {
        return Err(Failure::new(format!("{INDEX} lists no image")));
    }
    if let Some(tag) = tag {
        let tags = names(&chosen, |image| image.annotations.get(TAG));
        chosen.retain(|image| image.annotations.get(TAG).is_some_and(|name| is_called(name, tag)));
        refuse_none(chosen.len(), tag, &tags)?;
    }
    let manifest = manifest(store, chosen, 0)?;
    let configuration = manifest.config.ok_or_else(|| Failure::new("the manifest names no configuration"))?;
    let file: ConfigurationFile = record(store, &configuration.digest)?;
    refuse_foreign(&file)?;
    let mut layers = Vec::new();
    for (index, layer) in manifest.layers.iter().enumerate() {
        let digest = Digest::parse(&layer.digest).context("a layer")?;
        let blob = store.get(&place(&digest)).ok_or_else(|| Failure::new(format!("the layer {digest} is missing")))?;
        if layer.media_type.contains("encrypted") {
            return Err(Failure::new(format!("the layer {digest} is encrypted")));
        }
        let unpacked = file.rootfs.diff_ids.get(index).map(|id| Digest::parse(id)).transpose()?;
        layers.push(Layer { name: digest.to_string(), blob, expected: Expected { stored: Some(digest), unpacked } });
    }
    Ok(Image { layers, configuration: file.config })
}

/// Follows indices to the one manifest for this machine.
fn manifest(store: &Store, images: Vec<Descriptor>, depth: usize) -> Result<Record> {
    if depth > DEPTH {
        return Err(Failure::new("its indices stand in each other without end"));
    }
    let fits = |platform: &Platform| platform.architecture == ARCHITECTURE && platform.os == SYSTEM;
    let foreign: Vec<String> = images.iter().filter_map(|image| image.platform.as_ref()).map(Platform::name).collect();
    let mut chosen = images;
    chosen.retain(|image| image.platform.as_ref().is_none_or(fits));
    chosen.dedup_by(|left, right| left.digest == right.digest);
    match chosen.as_slice() {
        [] => Err(Failure::new(format!("it is for {}, not for {SYSTEM}/{ARCHITECTURE}", foreign.join(", ")))),
        [image] => {
            let found: Record = record(store, &image.digest)?;
            match found.manifests {
                Some(images) => manifest(store, images, depth + 1),
                None => Ok(found),
            }
        }
        several => Err(too_many(&names(several, |image| image.annotations.get(TAG)))),
    }
}

impl Platform {
    fn name(&self) -> String {
        format!("{}/{}", self.os, self.architecture)
    }
}

fn of_docker(store: &Store, tag: Option<&str>) -> Result<Image> {
    let mut images: Vec<DockerManifest> = parse(DOCKER, &store.read(DOCKER)?)?;
    let tags = names(&images, |image| image.repo_tags.first());
    if let Some(tag) = tag {
        images.retain(|image| image.repo_tags.iter().any(|name| is_called(name, tag)));
        refuse_none(images.len(), tag, &tags)?;
    }
    let [image] = images.as_slice() else {
        return Err(if images.is_empty() { Failure::new(format!("{DOCKER} lists no image")) } else { too_many(&tags) });
    };
    let file: ConfigurationFile = parse(&image.config, &store.read(&image.config)?)?;
    refuse_foreign(&file)?;
    let ids = &file.rootfs.diff_ids;
    if ids.len() != image.layers.len() {
        let (layers, digests) = (image.layers.len(), ids.len());
        return Err(Failure::new(format!("{DOCKER} lists {layers} layers, {} has {digests} digests", image.config)));
    }
    let layer = |(name, id): (&String, &String)| {
        let blob = store.get(name).ok_or_else(|| Failure::new(format!("the layer {name} is missing")))?;
        let expected = Expected { stored: None, unpacked: Some(Digest::parse(id)?) };
        Ok(Layer { name: name.clone(), blob, expected })
    };
    let layers = image.layers.iter().zip(ids).map(layer).collect::<Result<_>>()?;
    Ok(Image { layers, configuration: file.config })
}

fn refuse_foreign(file: &ConfigurationFile) -> Result<()> {
    if file.architecture == ARCHITECTURE && file.os == SYSTEM {
        return Ok(());
    }
    Err(Failure::new(format!("it is for {}/{}, not for {SYSTEM}/{ARCHITECTURE}", file.os, file.architecture)))
}

fn refuse_none(found: usize, tag: &str, tags: &str) -> Result<()> {
    if found > 0 { Ok(()) } else { Err(Failure::new(format!("no image in it is called {tag}: it has {tags}"))) }
}

fn too_many(tags: &str) -> Failure {
    Failure::new(format!("it holds several images: choose one by PATH:TAG of {tags}"))
}

fn names<T>(images: &[T], name: impl Fn(&T) -> Option<&String>) -> String {
    let names: Vec<&str> = images.iter().map(|image| name(image).map_or("(no name)", String::as_str)).collect();
    names.join(", ")
}

/// Whether a full name such as `docker.io/library/debian:12` is meant by `tag`.
fn is_called(name: &str, tag: &str) -> bool {
    name == tag || name.rsplit_once(':').is_some_and(|(_, short)| short == tag)
}

/// A record that another names by its digest.
fn record<T: DeserializeOwned>(store: &Store, digest: &str) -> Result<T> {
    let digest = Digest::parse(digest)?;
    let bytes = store.read(&place(&digest))?;
    let found = Digest::of(&bytes);
    if found != digest {
        return Err(Failure::new(format!("{} is damaged: its digest is {found}", place(&digest))));
    }
    parse(&place(&digest), &bytes)
}

fn place(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.digits())
}

fn parse<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).context(format!("{name} is damaged"))
}
