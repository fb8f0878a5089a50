//! The files of a demonstration, and the two tables that hold them.

use super::args::DemoArgs;
use crate::failure::{Failure, Outcome};
use crate::tree::{self, Entry, Limits};
use base::env::Random;
use std::fs;
use std::path::{Path, PathBuf};

/// The longest file that is imported. A file is one value, and this limit also keeps a batch small.
const MOST_FILE_BYTES: u64 = 16 << 20;
/// A batch, which is one commit, ends with the file that reaches one of these limits.
const BATCH_FILES: usize = 32;
const BATCH_BYTES: u64 = 1 << 20;

/// The table of contents by path.
pub const FILES: &str = "files";
/// The table of [`index_row`] by path.
pub const INDEX: &str = "index";

/// A tree of files, shuffled and cut into batches.
#[derive(Debug)]
pub struct Source {
    pub name: String,
    pub files: Vec<Entry>,
    pub bytes: u64,
    /// The end of each batch in `files`.
    ends: Vec<usize>,
}

impl Source {
    /// Finds the tree that the arguments name, or the first default that exists.
    pub fn find(args: &DemoArgs, scratch: &Path) -> Outcome<Self> {
        let limits =
            Limits { files: args.most_files, bytes: args.most_bytes as u64, file_bytes: MOST_FILE_BYTES };
        let root = if args.small { None } else { args.source.clone().or_else(registry) };
        let (name, files) = match root {
            Some(root) => (root.display().to_string(), tree::list(&root, limits)?),
            None => {
                let root = scratch.join("tree");
                generate(&root, args.seed)?;
                ("a made-up tree".to_owned(), tree::list(&root, limits)?)
            }
        };
        if files.is_empty() {
            return Err(Failure::Usage(format!("there are no files in {name}; name another directory")));
        }
        let mut source =
            Source { name, bytes: files.iter().map(|file| file.bytes).sum(), files, ends: Vec::new() };
        // In the order of a directory walk the writers would only append. After the shuffle they write all over the
        // table.
        Random::seeded(args.seed).shuffle(&mut source.files);
        source.cut();
        Ok(source)
    }

    fn cut(&mut self) {
        let (mut begin, mut bytes) = (0, 0);
        for (index, file) in self.files.iter().enumerate() {
            bytes += file.bytes;
            if index + 1 - begin == BATCH_FILES || bytes >= BATCH_BYTES || index + 1 == self.files.len() {
                self.ends.push(index + 1);
                (begin, bytes) = (index + 1, 0);
            }
        }
    }

    /// Returns the batches in order. Each is one commit.
    pub fn batches(&self) -> impl ExactSizeIterator<Item = &[Entry]> {
        let begin = |index: usize| index.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.ends.iter().enumerate().map(move |(index, end)| &self.files[begin(index)..*end])
    }
}

/// Returns a row of the index: the number of the file's batch, and its length.
pub fn index_row(batch: usize, bytes: usize) -> [u8; 16] {
    let mut row = [0; 16];
    row[..8].copy_from_slice(&(batch as u64).to_le_bytes());
    row[8..].copy_from_slice(&(bytes as u64).to_le_bytes());
    row
}

/// Returns the directory in which cargo keeps the sources of dependencies.
fn registry() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let sources = home.join("registry").join("src");
    let has_entries = fs::read_dir(&sources).is_ok_and(|mut entries| entries.next().is_some());
    has_entries.then_some(sources)
}

/// Generates a tree of about 4 MiB: mostly short files of words, some longer ones, and some of random bytes.
fn generate(root: &Path, seed: u64) -> Outcome {
    const DIRECTORIES: u64 = 24;
    const FILES: u64 = 25;
    let mut random = Random::seeded(seed);
    for directory in 0..DIRECTORIES {
        let path = root.join(format!("part-{:02}", directory % 6)).join(format!("room-{directory:02}"));
        let refused = |cause| Failure::system(format_args!("write to {}", path.display()), cause);
        fs::create_dir_all(&path).map_err(refused)?;
        for file in 0..FILES {
            let length = match random.below(20) {
                0 => random.below(100_000),
                1 => 0,
                _ => random.below(6_000),
            };
            fs::write(path.join(format!("file-{file:02}")), content(&mut random, length as usize))
                .map_err(refused)?;
        }
    }
    Ok(())
}

fn content(random: &mut Random, length: usize) -> Vec<u8> {
    const WORDS: [&str; 8] = ["aspen ", "grove ", "root ", "leaf ", "trunk ", "clone ", "Utah ", "hectare\n"];
    let is_binary = random.chance(1, 5);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        match is_binary {
            true => bytes.extend_from_slice(&random.next_u64().to_le_bytes()),
            false => bytes.extend_from_slice(WORDS[random.below(WORDS.len() as u64) as usize].as_bytes()),
        }
    }
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_the_files_in_order() {
        let file = |bytes| Entry { key: Vec::new(), path: PathBuf::new(), bytes };
        let files: Vec<Entry> =
            (0..100).map(|index| file(if index % 10 == 9 { BATCH_BYTES } else { 1 })).collect();
        let mut source = Source { name: String::new(), files, bytes: 0, ends: Vec::new() };
        source.cut();
        assert_eq!(source.batches().map(<[Entry]>::len).collect::<Vec<_>>(), [10; 10]);
        source.files.truncate(75);
        source.files.iter_mut().for_each(|file| file.bytes = 0);
        source.ends.clear();
        source.cut();
        assert_eq!(source.batches().map(<[Entry]>::len).collect::<Vec<_>>(), [32, 32, 11]);
    }
}
