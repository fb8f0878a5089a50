//! Pinned states: a checkpoint and the log up to one commit, kept unchanged while they are copied.
//!
//! The state at commit *t* is what the newest checkpoint wrote, plus the log from there through *t* (invariant 4). It
//! is pinned in these steps:
//! 1. Hold the whole log, so that no segment is dropped.
//! 2. Under the pins' lock, take the newest checkpoint and note its number. A switch to a newer one takes the same lock
//!    *before* it frees anything, and frees only what no noted checkpoint reaches. So neither the pages of this
//!    checkpoint nor the log after it have been freed, nor will they be.
//! 3. Under the same lock, take *t*: the newest visible commit. Everything in a checkpoint was visible before its
//!    switch, so *t* is not before it; and each commit through *t* is in the log already. None came after a later
//!    checkpoint: the large values of such commits may be freed, because this checkpoint does not reach them.
//! 4. Hold the log from the checkpoint's position on, and release the rest.
//!
//! The parts come in this order: commits after the checkpoint through *t*; the large values that they refer to (the pin
//! keeps their extents too, because only a later checkpoint can retire them); pages and large values, those of the runs
//! that these commits attached first, then the physical catalog; the space map. The log is released as soon as its
//! commits have been shown, because a held log grows; the rest stays pinned until the end. No memtable and no view is
//! held, and no lock for more than a moment: commits, checkpoints and seals continue.

use crate::open::claims::{Reference, references};
use crate::state::store::Store;
use crate::state::superblock::{RESERVED_UNITS, Superblock};
use base::checksum::Running;
use base::limits::TIMESTAMP_LIMIT;
use base::{CheckpointNo, CommitTs, Error, LargeRef, Lsn, PagePtr, Result};
use log::{Follow, Position};
use run::walk::{LargeWalk, Piece, Shown, Source, Walk};
use run::{Delta, Run};
use space::Space;
use std::collections::VecDeque;
use std::sync::Arc;

/// The position from which the whole log is held.
const EVERYTHING: Position = Position { segment: 0, generation: 0, lsn: Lsn(0) };

/// A part of a pinned state.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// A commit record as in the log. The records come in order, without gaps.
    Commit(&'a [u8]),
    /// A page: its pointer, and its verified bytes.
    Page(PagePtr, &'a [u8]),
    /// A piece of a large value or of the space map.
    Extent(Piece<'a>),
}

/// The stage of the copy.
#[derive(Debug)]
enum Stage {
    Log(Box<Follow>),
    Values(Box<LargeWalk>),
    Runs(Box<Walk>),
    Map,
    Done,
}

/// A pinned state, and a cursor over its parts. Dropping it unpins the state.
///
/// ```
/// # use std::sync::Arc;
/// use pando_store::{Part, Rebuild};
/// # let options = pando_store::Options { memory_bytes: 2 << 20, ..pando_store::Options::default() };
/// let store = pando_store::open_or_create(Arc::new(io::MemDir::new()), &options)?;
/// let copy: Arc<dyn io::Dir> = Arc::new(io::MemDir::new());
/// let mut rebuild = Rebuild::begin(Arc::clone(&copy))?;
/// let mut pinned = store.pin(None)?;
/// rebuild.state(*pinned.superblock(), pinned.ts())?;
/// while pinned.advance()? {
///     match pinned.part() {
///         Part::Commit(record) => rebuild.commit(record)?,
///         Part::Page(ptr, bytes) => rebuild.page(ptr, bytes)?,
///         Part::Extent(piece) => rebuild.piece(piece)?,
///     }
/// }
/// rebuild.finish(1)?;
/// pando_store::open(copy, &options)?.close()?;
/// # base::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Pinned {
    store: Arc<Store>,
    superblock: Superblock,
    ts: CommitTs,
    since: Option<CheckpointNo>,
    holds_log: bool,
    stage: Stage,
    /// The last commit that was shown, or that the checkpoint absorbed.
    last: CommitTs,
    /// The large values that the shown commits refer to. They are read after the log is released.
    values: VecDeque<LargeRef>,
    runs: VecDeque<Run>,
    /// The runs that the shown commits attached.
    attached: VecDeque<Run>,
    map: VecDeque<PagePtr>,
    /// The current part of the map, or the bytes of a large value.
    part: (Option<PagePtr>, Vec<u8>),
}

impl Store {
    /// Pins the newest state that every reader sees. With `since`, pages and large values that existed at that
    /// checkpoint are left out. It waits only for short holds of the log's and the pins' locks.
    ///
    /// # Errors
    /// [`Closed`](base::ErrorKind::Closed); errors of opening the log's files.
    pub fn pin(self: &Arc<Self>, since: Option<CheckpointNo>) -> Result<Pinned> {
        self.check_open()?;
        self.processes.check_not_beside("a backup", "Database::backup")?;
        self.log.hold(EVERYTHING);
        let (superblock, tables, ts) = self.checkpoints.pins.pin(|| self.clocks.visible());
        self.log.hold(superblock.replay_from);
        self.log.let_go(EVERYTHING);
        let mut pinned = Pinned {
            store: Arc::clone(self),
            superblock,
            ts,
            since,
            holds_log: true,
            stage: Stage::Done,
            last: superblock.absorbed,
            values: VecDeque::new(),
            runs: VecDeque::from([superblock.physical]),
            attached: VecDeque::new(),
            map: VecDeque::new(),
            part: (None, Vec::new()),
        };
        // From here on, dropping it releases everything.
        pinned.runs.extend(tables.iter().flat_map(|(_, layout)| layout.runs()));
        pinned.map = Space::map_parts(&*self.data, self.database, RESERVED_UNITS, &superblock.space)?.into();
        pinned.stage = Stage::Log(Box::new(self.log.follow(superblock.replay_from)?));
        Ok(pinned)
    }
}

impl Pinned {
    /// Returns the checkpoint's superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Returns the last commit of the state.
    pub fn ts(&self) -> CommitTs {
        self.ts
    }

    /// Returns about how many bytes the parts have if none are left out.
    pub fn estimated_bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    /// Moves to the next part. Returns false after the last.
    ///
    /// # Errors
    /// [`Corruption`](base::ErrorKind::Corruption) with the place of the damage; [`Closed`](base::ErrorKind::Closed) if
    /// the database was closed, because its files may then belong to another process;
    /// [`Locked`](base::ErrorKind::Locked) if another process came to write the database that this one had open for
    /// reading; errors of reading.
    pub fn advance(&mut self) -> Result<bool> {
        let advanced = self.go_on();
        // A process that opened the files since may have changed them: then neither data nor errors that were read are
        // valid.
        self.store.check_open()?;
        self.store.processes.check_not_beside("a backup", "Database::backup")?;
        advanced
    }

    /// Returns the current part.
    ///
    /// # Panics
    /// Before the first [`Pinned::advance`] and after the end.
    pub fn part(&self) -> Part<'_> {
        match &self.stage {
            Stage::Log(follow) => Part::Commit(follow.payload()),
            Stage::Values(walk) => Part::Extent(walk.shown()),
            Stage::Runs(walk) => match walk.shown() {
                Shown::Page(ptr, bytes) => Part::Page(ptr, bytes),
                Shown::Large(piece) => Part::Extent(piece),
            },
            Stage::Map | Stage::Done => {
                let (ptr, bytes) = &self.part;
                let ptr = ptr.expect("a part was gone to");
                Part::Extent(Piece { ptr, len_bytes: bytes.len() as u64, offset: 0, bytes })
            }
        }
    }

    fn go_on(&mut self) -> Result<bool> {
        let store = Arc::clone(&self.store);
        let source = Source { file: &*store.data, database: store.database, page_bytes: store.page_bytes };
        loop {
            match &mut self.stage {
                Stage::Log(follow) => {
                    if self.last < self.ts {
                        if !follow.advance()? {
                            return Err(self.ends_early());
                        }
                        self.last = following(self.last, follow.payload())?;
                        for reference in references(follow.payload()) {
                            match reference {
                                Reference::Large(large) => self.values.push_back(large),
                                Reference::Attached(attached) => {
                                    self.attached.extend(Delta::runs(&attached.delta)?);
                                }
                            }
                        }
                        return Ok(true);
                    }
                    self.let_go_of_log();
                    self.stage = Stage::Values(Box::default());
                }
                Stage::Values(walk) => {
                    if walk.advance(source)? {
                        return Ok(true);
                    }
                    match self.values.pop_front() {
                        Some(large) => walk.add(source, large)?,
                        None => self.next_run()?,
                    }
                }
                Stage::Runs(walk) => {
                    if walk.advance(source)? {
                        return Ok(true);
                    }
                    self.next_run()?;
                }
                Stage::Map => {
                    let Some(ptr) = self.map.pop_front() else {
                        self.stage = Stage::Done;
                        return Ok(false);
                    };
                    self.read_map_part(ptr)?;
                    return Ok(true);
                }
                Stage::Done => return Ok(false),
            }
        }
    }

    fn next_run(&mut self) -> Result<()> {
        // Attached runs were never in a backup, however old their pages are.
        let (run, since) = match self.attached.pop_front() {
            Some(run) => (Some(run), None),
            None => (self.runs.pop_front(), self.since),
        };
        self.stage = match run {
            Some(run) => Stage::Runs(Box::new(Walk::new(&run, since)?)),
            None => Stage::Map,
        };
        Ok(())
    }

    fn read_map_part(&mut self, ptr: PagePtr) -> Result<()> {
        let (shown, bytes) = &mut self.part;
        *shown = Some(ptr);
        bytes.resize(ptr.len_bytes(), 0);
        self.store.data.read_exact_at(bytes, ptr.offset_bytes())?;
        let mut running = Running::extent(self.store.database, ptr.unit());
        running.update(bytes);
        match running.finish() {
            found if found == ptr.checksum() => Ok(()),
            found => {
                Err(Error::corruption(format!("space map at {ptr:?}: its bytes have checksum {found:016x}")))
            }
        }
    }

    fn let_go_of_log(&mut self) {
        if std::mem::take(&mut self.holds_log) {
            self.store.log.let_go(self.superblock.replay_from);
        }
    }

    fn ends_early(&self) -> Error {
        Error::corruption(format!(
            "the log ends at commit {}, but commit {} was visible",
            self.last.0, self.ts.0
        ))
    }
}

/// Returns the timestamp of `record`, which comes after commit `last`.
pub(crate) fn following(last: CommitTs, record: &[u8]) -> Result<CommitTs> {
    let stamp = stamp_of(record);
    if Some(stamp.0) != last.0.checked_add(1) || stamp.0 >= TIMESTAMP_LIMIT {
        return Err(Error::corruption(format!("commit {} follows commit {}", stamp.0, last.0)));
    }
    Ok(stamp)
}

/// Returns the timestamp of `record`; 0 if it is too short.
pub(crate) fn stamp_of(record: &[u8]) -> CommitTs {
    CommitTs(record.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.let_go_of_log();
        self.store.checkpoints.pins.unpin(self.superblock.checkpoint);
    }
}
