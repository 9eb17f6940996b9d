//! Images of crash states, for machines that mount them: what the disk holds after a power cut, and the files that
//! must be there byte for byte.

use super::campaign::{Campaign, PERSISTS};
use super::model::{Content, Id, Model};
use super::workload::{Operation, Persist};
use crate::random::Random;

/// A crash state.
pub struct Image {
    /// Contents of the disk.
    pub bytes: Vec<u8>,
    /// Path below the root of the volume, and contents, of each file that was acknowledged as durable and that no later
    /// operation of the workload touched.
    pub durable: Vec<(String, Vec<u8>)>,
}

/// The state that belongs to `seed`, after a workload of 8 to 30 operations. It always has durable files.
pub fn image(seed: u64) -> Image {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x1_5EED);
    let count = 8 + random.below(23);
    let mut step = || {
        let persist = if random.one_in(2) { PERSISTS[random.below(PERSISTS.len())] } else { Persist::Nothing };
        (Operation::random(&mut random), persist)
    };
    let steps: Vec<(Operation, Persist)> = (0..count).map(|_| step()).collect();
    let (cells, durable) = Campaign::new(seed).crash(&steps);
    Image { bytes: cells.iter().flat_map(|cell| cell.iter().copied()).collect(), durable }
}

/// Path and contents of the file `id`, if it is the same in all of `models`, and never had another path in `named`.
pub(super) fn unchanged(models: &[Model], named: &[Model], id: Id) -> Option<(String, Vec<u8>)> {
    let first = models.first()?.nodes.get(&id)?;
    let Content::File { bytes } = &first.content else { return None };
    let path = path(models.last()?, id)?;
    let same = |model: &Model| model.nodes.get(&id).is_some_and(|node| node.content == first.content);
    let at_home = |model: &Model| self::path(model, id).is_none_or(|other| other == path);
    (models.iter().all(same) && named.iter().all(at_home)).then(|| (path.clone(), bytes.clone()))
}

/// The first path that leads to an inode.
fn path(model: &Model, wanted: Id) -> Option<String> {
    let mut pending = vec![(0, String::new())];
    while let Some((id, folder)) = pending.pop() {
        for (name, child) in model.entries(id).ok()? {
            let path = format!("{folder}{}", String::from_utf8_lossy(name));
            if *child == wanted {
                return Some(path);
            }
            if model.is_directory(*child) {
                pending.push((*child, format!("{path}/")));
            }
        }
    }
    None
}
