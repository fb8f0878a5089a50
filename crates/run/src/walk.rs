//! Shows every extent of a run to a copy: pages, parents first, and large values in pieces.
//!
//! Bytes come from the file itself, past the pool: a copy must not push out what readers use, and a page that has
//! rotted on the disk must be found although the pool may hold a good copy. Each page is verified as the pool would;
//! each large value's checksum is known with its last piece.
//!
//! # What is newer than a checkpoint
//! With `since`, the walk shows only what that checkpoint does not have, and leaves the rest unread where it can. It
//! rests on two rules of the editor:
//! 1. *A page's birth is not before its children's.* Who changes a page shadows the way to it, so that all pages on
//!    the way are born together. A page that `since` has already is therefore the root of a tree that it has.
//! 2. *A leaf that `since` has names no large value that it lacks.* A reference changes with its leaf.
//!
//! A large value has no birth of its own: a newer leaf's are all shown. A page's birth stands in the page, so the
//! children of each newer page are read, but no further.
//!
//! Memory: a page for each level, twice if they are compressed, one piece, and the list of a large value's extents.

use crate::descriptor::{MAX_HEIGHT, Run, expect_leaf, expect_level};
use crate::large::Pieces;
use base::checksum::Running;
use base::{CheckpointNo, DatabaseId, Error, PagePtr, Result};
use io::File;
use page::{LargeRef, Page, Value};
use pool::stored::{check_length, read_page};
use std::collections::VecDeque;

/// Large values are shown in pieces of at most this.
pub const PIECE_BYTES: usize = 64 << 10;

/// Where the pages lie.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The data file.
    pub file: &'a dyn File,
    /// Whose it is: the seed of every checksum.
    pub database: DatabaseId,
    /// Bytes of a page.
    pub page_bytes: usize,
}

impl Source<'_> {
    /// Reads the page at `ptr` whole into `bytes`, and if it lies there compressed, as it does into `stored`.
    fn read<'b>(&self, ptr: PagePtr, bytes: &'b mut [u8], stored: &mut Vec<u8>) -> Result<Page<'b>> {
        check_length(ptr, bytes.len())?;
        if ptr.len_bytes() == bytes.len() {
            return read_page(self.file, self.database, ptr, bytes);
        }
        stored.resize(ptr.len_bytes(), 0);
        self.file.read_exact_at(stored, ptr.offset_bytes())?;
        Page::decompress(stored, ptr, self.database, bytes)
    }
}

/// Part of an extent, or all of it.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The extent. Its checksum covers `len_bytes` from its beginning; the rest of the last unit is zeros.
    pub ptr: PagePtr,
    /// How much of the extent means something.
    pub len_bytes: u64,
    /// Where in the extent this piece begins. Pieces follow each other without gaps.
    pub offset: u64,
    /// The piece.
    pub bytes: &'a [u8],
}

/// A page on the way from the root to where the walk is.
#[derive(Debug)]
struct Level {
    ptr: PagePtr,
    bytes: Vec<u8>,
    /// What lies there, of a compressed page; of others nothing.
    stored: Vec<u8>,
    /// The entry that comes next.
    next: usize,
}

impl Level {
    fn page(&self) -> Page<'_> {
        Page::trusted(&self.bytes)
    }
}

/// Where a walk stands.
#[derive(Clone, Copy, Debug)]
pub enum Shown<'a> {
    /// At a page: where it lies, and its bytes as they lie there, compressed or not, verified.
    Page(PagePtr, &'a [u8]),
    /// At a piece of a large value.
    Large(Piece<'a>),
}

#[derive(Debug)]
enum At {
    Nothing,
    Page,
    Large,
}

/// Shows the extents of large values, an index before the pieces that it lists.
#[derive(Debug, Default)]
pub struct LargeWalk {
    /// The extents that come, each with the bytes that its checksum covers.
    parts: VecDeque<(PagePtr, u64)>,
    at: Option<Part>,
    piece: Vec<u8>,
}

/// The extent that is being shown.
#[derive(Debug)]
struct Part {
    ptr: PagePtr,
    len_bytes: u64,
    read_bytes: u64,
    running: Running,
}

impl LargeWalk {
    /// Has `large` shown behind what is to be shown already.
    ///
    /// # Errors
    /// As [`Pieces::open`].
    pub fn add(&mut self, source: Source<'_>, large: LargeRef) -> Result<()> {
        self.parts.extend(Pieces::find(source.file, source.database, large)?.parts());
        Ok(())
    }

    /// Goes to the next piece; false behind the last.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) naming the extent that is not what was written; those of reading.
    pub fn advance(&mut self, source: Source<'_>) -> Result<bool> {
        let part = match &mut self.at {
            Some(part) if part.read_bytes < part.len_bytes => part,
            at => {
                let Some((ptr, len_bytes)) = self.parts.pop_front() else {
                    *at = None;
                    return Ok(false);
                };
                let running = Running::extent(source.database, ptr.unit());
                at.insert(Part { ptr, len_bytes, read_bytes: 0, running })
            }
        };
        let Part { ptr, len_bytes, .. } = *part;
        let bytes = (len_bytes - part.read_bytes).min(PIECE_BYTES as u64);
        self.piece.resize(bytes as usize, 0);
        source.file.read_exact_at(&mut self.piece, ptr.offset_bytes() + part.read_bytes)?;
        part.running.update(&self.piece);
        part.read_bytes += bytes;
        if part.read_bytes == len_bytes && part.running.finish() != ptr.checksum() {
            let found = part.running.finish();
            return Err(Error::corruption(format!(
                "large value of {len_bytes} bytes at {ptr:?}: its bytes have checksum {found:016x}"
            )));
        }
        Ok(true)
    }

    /// Where the walk went.
    ///
    /// # Panics
    /// Before the first [`LargeWalk::advance`] and behind the end.
    pub fn shown(&self) -> Piece<'_> {
        let part = self.at.as_ref().expect("the walk is nowhere");
        let offset = part.read_bytes - self.piece.len() as u64;
        Piece { ptr: part.ptr, len_bytes: part.len_bytes, offset, bytes: &self.piece }
    }
}

/// A walk over a run; see [the module](self).
#[derive(Debug)]
pub struct Walk {
    root: Option<(PagePtr, u8)>,
    deletes: bool,
    since: Option<CheckpointNo>,
    levels: Vec<Level>,
    at: At,
    /// The large value that the walk is at.
    large: LargeWalk,
    spare: Vec<Vec<u8>>,
}

impl Walk {
    /// A walk over `run`; with `since`, over what a backup of that checkpoint lacks.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if the run cannot be one.
    pub fn new(run: &Run, since: Option<CheckpointNo>) -> Result<Walk> {
        if usize::from(run.height) > MAX_HEIGHT || (run.height == 0) != run.root.is_none() {
            let message = format!("a run of height {} with root {:?}", run.height, run.root);
            return Err(Error::corruption(message));
        }
        let (levels, large, spare) = (Vec::new(), LargeWalk::default(), Vec::new());
        Ok(Walk { root: run.top(), deletes: run.deletes, since, levels, at: At::Nothing, large, spare })
    }

    /// Goes to the next piece; false behind the last.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) naming the page or value that is not what was written; those of
    /// reading.
    pub fn advance(&mut self, source: Source<'_>) -> Result<bool> {
        if let Some((root, level)) = self.root.take()
            && self.enter(source, root, level)?
        {
            return Ok(true);
        }
        loop {
            if matches!(self.at, At::Large) && self.large.advance(source)? {
                return Ok(true);
            }
            let Some(top) = self.levels.last_mut() else { return Ok(false) };
            let page = Page::trusted(&top.bytes);
            if top.next == page.count() || (page.level() == 0 && !page.has_large()) {
                self.leave();
                continue;
            }
            let at = top.next;
            top.next += 1;
            if page.level() > 0 {
                let (child, level) = (page.child(at), page.level() - 1);
                if self.enter(source, child, level)? {
                    return Ok(true);
                }
            } else if let Value::Large(extent) = page.value(at) {
                self.large.add(source, extent)?;
                self.at = At::Large;
            }
        }
    }

    /// Where the walk went.
    ///
    /// # Panics
    /// Before the first [`Walk::advance`] and behind the end.
    pub fn shown(&self) -> Shown<'_> {
        match &self.at {
            At::Nothing => panic!("the walk is nowhere"),
            At::Page => {
                let Level { ptr, bytes, stored, .. } =
                    self.levels.last().expect("a shown page is on the way");
                Shown::Page(*ptr, if stored.is_empty() { bytes } else { stored })
            }
            At::Large => Shown::Large(self.large.shown()),
        }
    }

    /// Reads the page at `ptr`, and shows it unless `since` has it.
    fn enter(&mut self, source: Source<'_>, ptr: PagePtr, level: u8) -> Result<bool> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.resize(source.page_bytes, 0);
        let mut stored = self.spare.pop().unwrap_or_default();
        stored.clear();
        let page = source.read(ptr, &mut bytes, &mut stored)?;
        match level {
            0 => expect_leaf(page, ptr, self.deletes)?,
            _ => expect_level(page, ptr, level)?,
        }
        let birth = page.birth();
        if let Some(parent) = self.levels.last().map(|level| level.page().birth()).filter(|p| *p < birth) {
            let what = format!("born at checkpoint {}, its parent at {}", birth.0, parent.0);
            return Err(wrong(ptr, &what));
        }
        if self.since.is_some_and(|since| birth <= since) {
            self.spare.extend([bytes, stored]);
            return Ok(false);
        }
        self.levels.push(Level { ptr, bytes, stored, next: 0 });
        self.at = At::Page;
        Ok(true)
    }

    fn leave(&mut self) {
        self.spare.extend(self.levels.pop().into_iter().flat_map(|level| [level.bytes, level.stored]));
        self.at = At::Nothing;
    }
}

#[cold]
fn wrong(ptr: PagePtr, what: &str) -> Error {
    Error::corruption(format!("page at {ptr:?}: {what}"))
}
