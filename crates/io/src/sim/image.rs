//! Images: the states in which a power loss may leave a disk, made one at a time.

use super::SimDisk;
use super::content::{Content, fold};
use super::crash::{Crash, Fate};
use super::model::Model;
use base::env::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A kind of image to make. The number is the most images of that kind: if there are more, a random sample is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageKind {
    /// [`Fate::Nothing`].
    Nothing,
    /// [`Fate::Everything`].
    Everything,
    /// [`Fate::NamesOnly`].
    NamesOnly,
    /// [`Fate::DataOnly`].
    DataOnly,
    /// [`Fate::Prefix`], of every length that is neither nothing nor everything.
    Prefix(usize),
    /// [`Fate::DropOne`], of every pending change.
    DropOne(usize),
    /// [`Fate::KeepOne`], of every pending change.
    KeepOne(usize),
    /// [`Fate::Torn`] at 512 bytes, of the last pending write that touches more than one sector: every cut, with the
    /// part before or after it kept.
    Torn512(usize),
    /// [`Fate::Torn`] at 4096 bytes.
    Torn4k(usize),
    /// [`Fate::OldLengths`], [`Fate::NewLengths`], and for the rest [`Fate::LengthsBetween`]. There are none if no
    /// length is pending.
    Lengths(usize),
    /// [`Fate::Subset`], this many times. There are none if nothing is pending.
    RandomSubset(usize),
}

impl ImageKind {
    /// Returns every kind, with at most `most` images of each.
    pub const fn all(most: usize) -> [ImageKind; 11] {
        [
            ImageKind::Nothing,
            ImageKind::Everything,
            ImageKind::NamesOnly,
            ImageKind::DataOnly,
            ImageKind::Prefix(most),
            ImageKind::DropOne(most),
            ImageKind::KeepOne(most),
            ImageKind::Torn512(most),
            ImageKind::Torn4k(most),
            ImageKind::Lengths(most),
            ImageKind::RandomSubset(most),
        ]
    }

    fn fates(self, crash: &Crash, random: &mut Random) -> Vec<Fate> {
        let pending = crash.pending();
        match self {
            ImageKind::Nothing => vec![Fate::Nothing],
            ImageKind::Everything => vec![Fate::Everything],
            ImageKind::NamesOnly => vec![Fate::NamesOnly],
            ImageKind::DataOnly => vec![Fate::DataOnly],
            ImageKind::Prefix(most) => {
                let inner = sample(pending.saturating_sub(1), most, random);
                inner.into_iter().map(|n| Fate::Prefix(n + 1)).collect()
            }
            ImageKind::DropOne(most) => {
                sample(pending, most, random).into_iter().map(Fate::DropOne).collect()
            }
            ImageKind::KeepOne(most) => {
                sample(pending, most, random).into_iter().map(Fate::KeepOne).collect()
            }
            ImageKind::Torn512(most) => torn(crash, 512, most, random),
            ImageKind::Torn4k(most) => torn(crash, 4096, most, random),
            ImageKind::Lengths(most) if crash.lengths_differ() => {
                let between = std::iter::repeat_with(|| Fate::LengthsBetween(random.next_u64()));
                [Fate::OldLengths, Fate::NewLengths].into_iter().chain(between).take(most).collect()
            }
            ImageKind::RandomSubset(most) if pending > 0 => {
                std::iter::repeat_with(|| Fate::Subset(random.next_u64())).take(most).collect()
            }
            ImageKind::Lengths(_) | ImageKind::RandomSubset(_) => Vec::new(),
        }
    }
}

fn torn(crash: &Crash, sector_bytes: u64, most: usize, random: &mut Random) -> Vec<Fate> {
    let Some((write, sectors)) = crash.last_to_tear(sector_bytes) else { return Vec::new() };
    let cuts = sectors - 1;
    let picked = sample(2 * cuts as usize, most, random).into_iter().map(|n| n as u64);
    let kept = picked.map(|n| if n < cuts { 0..n + 1 } else { n - cuts + 1..sectors });
    kept.map(|kept| Fate::Torn { write, sector_bytes, kept }).collect()
}

/// Returns at most `most` of the numbers below `count`, ascending: all, or a sample without repetition (Floyd's
/// algorithm).
fn sample(count: usize, most: usize, random: &mut Random) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    let mut picked = BTreeSet::new();
    for last in count - most..count {
        let n = random.below(last as u64 + 1) as usize;
        picked.insert(if picked.contains(&n) { last } else { n });
    }
    picked.into_iter().collect()
}

/// The images of one moment, made when they are requested.
pub struct Images {
    crash: Crash,
    fates: std::vec::IntoIter<Fate>,
}

impl Images {
    pub(super) fn new(model: &Model, kinds: &[ImageKind], random: &mut Random) -> Images {
        let crash = Crash::new(model);
        let fates: Vec<Fate> = kinds.iter().flat_map(|kind| kind.fates(&crash, random)).collect();
        Images { crash, fates: fates.into_iter() }
    }
}

impl Iterator for Images {
    type Item = Image;

    fn next(&mut self) -> Option<Image> {
        self.fates.next().map(|fate| Image::new(&self.crash, fate))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.fates.size_hint()
    }
}

/// A state in which a power loss may leave a disk. [`event`](Image::event) and [`fate`](Image::fate) identify it, and
/// [`SimDisk::image`] makes it again from the same history.
#[derive(Clone, Debug)]
pub struct Image {
    event: usize,
    fate: Fate,
    files: BTreeMap<Arc<str>, Arc<Content>>,
}

impl Image {
    pub(super) fn new(crash: &Crash, fate: Fate) -> Image {
        Image { event: crash.event, files: crash.files(&fate), fate }
    }

    /// Returns how many events had happened when the power was lost.
    pub fn event(&self) -> usize {
        self.event
    }

    /// Returns what survived.
    pub fn fate(&self) -> &Fate {
        &self.fate
    }

    /// Returns a hash of all names and contents: images with the same hash are the same disk.
    pub fn fingerprint(&self) -> u64 {
        self.files.iter().fold(self.files.len() as u64, |hash, (name, content)| {
            fold(fold(hash, base::checksum::header(name.as_bytes())), content.fingerprint())
        })
    }

    /// Returns the names of the files, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(|name| &**name)
    }

    /// Returns all bytes of a file, or `None` if there is no file of that name.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        let content = self.files.get(name)?;
        let mut bytes = vec![0; content.len() as usize];
        content.read(&mut bytes, 0);
        Some(bytes)
    }

    /// Returns a new disk on which exactly this is durable: no locks, no handles, no faults, no history. Shares the
    /// bytes.
    pub fn restore(&self) -> SimDisk {
        SimDisk::holding(Model::holding(&self.files))
    }
}
