//! A walk that shows every extent of a run to a copy: pages, parents first, and large values in pieces.
//!
//! Bytes are read from the file itself, not through the pool: a copy must not evict pages that readers use, and it must
//! find a page that is damaged on disk although the pool may hold a good copy. Each page is verified as the pool would
//! verify it; each large value's checksum is known with its last piece.
//!
//! # What is newer than a checkpoint
//! With `since`, the walk shows only what that checkpoint does not have, and does not read the rest if possible. It
//! relies on two rules of the editor:
//! 1. *A page's birth is not before its children's.* An edit of a page shadows the path to it, so all pages on the path
//!    are born together. A page that `since` already has is therefore the root of a tree that it has.
//! 2. *A leaf that `since` has names no large value that it lacks.* A reference changes with its leaf.
//!
//! A large value has no birth of its own, so all values of a newer leaf are shown. A page's birth is stored in the
//! page, so the children of each newer page are read, but no further pages.
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

/// The largest piece of a large value that is shown, in bytes.
pub const PIECE_BYTES: usize = 64 << 10;

/// The file that the pages are read from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The data file.
    pub file: &'a dyn File,
    /// The id of the database, which seeds every checksum.
    pub database: DatabaseId,
    /// The length of a page in bytes.
    pub page_bytes: usize,
}

impl Source<'_> {
    /// Reads the page at `ptr` into `bytes`. If it is stored compressed, its stored form is read into `stored`.
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
    /// The number of bytes of the extent that have contents.
    pub len_bytes: u64,
    /// The offset of this piece in the extent. Pieces follow each other without gaps.
    pub offset: u64,
    /// The bytes of the piece.
    pub bytes: &'a [u8],
}

/// A page on the path from the root to the walk's position.
#[derive(Debug)]
struct Level {
    ptr: PagePtr,
    bytes: Vec<u8>,
    /// The stored form of a compressed page; empty for others.
    stored: Vec<u8>,
    /// The next entry.
    next: usize,
}

impl Level {
    fn page(&self) -> Page<'_> {
        Page::trusted(&self.bytes)
    }
}

/// The current item of a walk.
#[derive(Clone, Copy, Debug)]
pub enum Shown<'a> {
    /// A page: its pointer, and its bytes as they are stored, compressed or not, verified.
    Page(PagePtr, &'a [u8]),
    /// A piece of a large value.
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
    /// The remaining extents, each with the number of bytes that its checksum covers.
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
    /// Adds `large` after the values that are still to be shown.
    ///
    /// # Errors
    /// Those of [`Pieces::open`].
    pub fn add(&mut self, source: Source<'_>, large: LargeRef) -> Result<()> {
        self.parts.extend(Pieces::find(source.file, source.database, large)?.parts());
        Ok(())
    }

    /// Moves to the next piece. Returns false after the last.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if an extent differs from what was written; the message
    /// names the extent. Errors of reading.
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

    /// Returns the current piece.
    ///
    /// # Panics
    /// Before the first [`LargeWalk::advance`] and after the end.
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
    /// The walk over the current large value.
    large: LargeWalk,
    spare: Vec<Vec<u8>>,
}

impl Walk {
    /// Creates a walk over `run`; with `since`, over what a backup of that checkpoint lacks.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if the descriptor is not that of a run.
    pub fn new(run: &Run, since: Option<CheckpointNo>) -> Result<Walk> {
        if usize::from(run.height) > MAX_HEIGHT || (run.height == 0) != run.root.is_none() {
            let message = format!("a run of height {} with root {:?}", run.height, run.root);
            return Err(Error::corruption(message));
        }
        let (levels, large, spare) = (Vec::new(), LargeWalk::default(), Vec::new());
        Ok(Walk { root: run.top(), deletes: run.deletes, since, levels, at: At::Nothing, large, spare })
    }

    /// Moves to the next piece. Returns false after the last.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) if a page or value differs from what was written; the
    /// message names it. Errors of reading.
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
                self.large.add(source, extent.reference())?;
                self.at = At::Large;
            }
        }
    }

    /// Returns the current item.
    ///
    /// # Panics
    /// Before the first [`Walk::advance`] and after the end.
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
