//! Backups during all other work. A pinned state is copied part by part, one or a few in each turn, while clients
//! commit and checkpoints switch and free. The copy is then rebuilt on a disk of its own, together with those to which
//! it is a difference, and compared with the model at the commit that it names. For some rebuilds the crashes are
//! explored: an image is refused or holds everything.
//!
//! Copying writes nothing and has its own random numbers, so histories are the same with and without it, except for
//! what stays pinned.

use crate::model::State;
use base::env::Random;
use base::{CommitTs, ErrorKind, PagePtr};
use io::sim::{ImageKind, SimDisk};
use std::ops::AddAssign;
use std::sync::Arc;
use store::superblock::Superblock;
use store::{Options, Part, Piece, Pinned, Rebuild, Store};

/// One copied part.
#[derive(Debug)]
enum Copied {
    Commit(Vec<u8>),
    Page(PagePtr, Vec<u8>),
    Extent { ptr: PagePtr, len_bytes: u64, offset: u64, bytes: Vec<u8> },
}

/// A complete copy, and the copy to which it is a difference.
#[derive(Debug)]
pub struct Taken {
    superblock: Superblock,
    ts: CommitTs,
    parts: Vec<Copied>,
    base: Option<Arc<Taken>>,
    state: State,
}

/// A copy in progress.
#[derive(Debug)]
struct Copying {
    pinned: Pinned,
    taken: Taken,
    /// Whether it copies only one part every few turns, so that checkpoints begin and end meanwhile. Half of the copies
    /// do.
    is_slow: bool,
}

/// The counts of copies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copies {
    /// The copies that were taken and rebuilt.
    pub taken: u64,
    /// The copies that were differences.
    pub differences: u64,
    /// The crash images of rebuilds.
    pub images: u64,
}

impl AddAssign for Copies {
    fn add_assign(&mut self, other: Copies) {
        self.taken += other.taken;
        self.differences += other.differences;
        self.images += other.images;
    }
}

/// Takes copies of one run's database, over all its sessions.
#[derive(Debug)]
pub struct Copier {
    random: Random,
    options: Options,
    under_way: Option<Box<Copying>>,
    last: Option<Arc<Taken>>,
    /// The tally.
    pub copies: Copies,
}

impl Copier {
    /// Creates a copier for the run of `seed`.
    pub fn new(seed: u64, options: Options) -> Self {
        let random = Random::seeded(seed ^ 0x6261_636b_7570_5f5f);
        Copier { random, options, under_way: None, last: None, copies: Copies::default() }
    }

    /// Takes one turn: does nothing, begins, or copies a few parts. `state_at` returns the state after each commit.
    ///
    /// # Errors
    /// A description of what is wrong.
    pub fn turn(
        &mut self,
        store: &Arc<Store>,
        state_at: impl Fn(u64) -> Option<State>,
    ) -> Result<(), String> {
        if self.under_way.is_none() {
            if self.random.chance(1, 40) {
                self.begin(store, state_at)?;
            }
            return Ok(());
        }
        let parts = match self.under_way.as_ref().is_some_and(|copying| copying.is_slow) {
            true => u64::from(self.random.chance(1, 6)),
            false if self.random.chance(1, 12) => 40,
            false => self.random.below(3),
        };
        for _ in 0..parts {
            let Some(copying) = &mut self.under_way else { return Ok(()) };
            if copying.advance()? {
                continue;
            }
            let taken = Arc::new(self.under_way.take().expect("it is under way").taken);
            self.copies.taken += 1;
            self.copies.differences += u64::from(taken.base.is_some());
            self.rebuild(&taken)?;
            self.last = Some(taken);
        }
        Ok(())
    }

    fn begin(&mut self, store: &Arc<Store>, state_at: impl Fn(u64) -> Option<State>) -> Result<(), String> {
        let base = self.last.clone().filter(|_| self.random.chance(2, 3));
        let since = base.as_ref().map(|base| base.superblock.checkpoint);
        let pinned = store.pin(since).map_err(|error| format!("pinning: {error:?}"))?;
        let (superblock, ts) = (*pinned.superblock(), pinned.ts());
        let shown = store.snapshot().map_err(|error| format!("a snapshot: {error:?}"))?.ts();
        if shown != ts {
            return Err(format!("a copy of commit {}, but readers see {}", ts.0, shown.0));
        }
        let state = state_at(ts.0).ok_or_else(|| format!("a copy of commit {}, which was not made", ts.0))?;
        let taken = Taken { superblock, ts, parts: Vec::new(), base, state };
        let is_slow = self.random.chance(1, 2);
        self.under_way = Some(Box::new(Copying { pinned, taken, is_slow }));
        Ok(())
    }

    /// Ends with the process.
    pub fn give_up(&mut self) {
        self.under_way = None;
    }

    /// Checks that a copy in progress detects that the database was closed.
    ///
    /// # Errors
    /// A description of what is wrong.
    pub fn closed(&mut self) -> Result<(), String> {
        match self.under_way.take().map(|mut copying| copying.pinned.advance()) {
            None => Ok(()),
            Some(Err(error)) if error.kind() == ErrorKind::Closed => Ok(()),
            Some(other) => Err(format!("a copy of a closed database goes on: {other:?}")),
        }
    }

    fn rebuild(&mut self, taken: &Taken) -> Result<(), String> {
        let disk = SimDisk::new();
        disk.keep_history(self.random.chance(1, 4));
        let began = disk.event_count();
        taken.rebuild_on(&disk).map_err(|error| format!("rebuilding commit {}: {error:?}", taken.ts.0))?;
        let events = disk.event_count();
        let (first, history) = disk.events();
        taken.is_on(&disk, &self.options)?;
        if history.is_empty() {
            return Ok(());
        }
        for at in first.max(began)..=events {
            let mut kinds = ImageKind::all(1);
            self.random.shuffle(&mut kinds);
            for image in disk.images(at, &kinds[..2], &mut self.random) {
                self.copies.images += 1;
                let what =
                    |wrong| format!("rebuilding, crash at event {at} of {events}, {}: {wrong}", image.fate());
                match taken.is_on(&image.restore(), &self.options) {
                    Err(wrong) if at == events || !wrong.starts_with(REFUSED) => return Err(what(wrong)),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// The prefix with which [`Taken::is_on`] reports that a disk was refused.
const REFUSED: &str = "refused: ";

impl Copying {
    fn advance(&mut self) -> Result<bool, String> {
        let ts = self.taken.ts.0;
        if !self.pinned.advance().map_err(|error| format!("copying commit {ts}: {error:?}"))? {
            return Ok(false);
        }
        self.taken.parts.push(match self.pinned.part() {
            Part::Commit(record) => Copied::Commit(record.to_vec()),
            Part::Page(ptr, bytes) => Copied::Page(ptr, bytes.to_vec()),
            Part::Extent(Piece { ptr, len_bytes, offset, bytes }) => {
                Copied::Extent { ptr, len_bytes, offset, bytes: bytes.to_vec() }
            }
        });
        Ok(true)
    }
}

impl Taken {
    fn rebuild_on(&self, disk: &SimDisk) -> base::Result<()> {
        let mut rebuild = Rebuild::begin(disk.dir())?;
        self.feed(&mut rebuild)?;
        rebuild.finish(1 + self.ts.0 as u32)
    }

    fn feed(&self, rebuild: &mut Rebuild) -> base::Result<()> {
        if let Some(base) = &self.base {
            base.feed(rebuild)?;
        }
        rebuild.state(self.superblock, self.ts)?;
        for part in &self.parts {
            match part {
                Copied::Commit(record) => rebuild.commit(record)?,
                Copied::Page(ptr, bytes) => rebuild.page(*ptr, bytes)?,
                Copied::Extent { ptr, len_bytes, offset, bytes } => {
                    rebuild.piece(Piece { ptr: *ptr, len_bytes: *len_bytes, offset: *offset, bytes })?;
                }
            }
        }
        Ok(())
    }

    /// Opens the database on `disk` and compares it with the pinned state.
    fn is_on(&self, disk: &SimDisk, options: &Options) -> Result<(), String> {
        let opened = store::open(disk.dir(), options);
        let store = match opened {
            Ok(store) => store,
            Err(error) if matches!(error.kind(), ErrorKind::Missing | ErrorKind::Corruption) => {
                return Err(format!("{REFUSED}{error:?}"));
            }
            Err(error) => return Err(format!("opening: {error:?}")),
        };
        let compared = self.compare(&store);
        let closed = store.close().map_err(|error| format!("closing: {error:?}"));
        compared.and(closed).map_err(|wrong| format!("restored as of commit {}: {wrong}", self.ts.0))
    }

    fn compare(&self, store: &Arc<Store>) -> Result<(), String> {
        let failed = |error: base::Error| format!("{error:?}");
        let snapshot = store.snapshot().map_err(failed)?;
        if snapshot.ts() != self.ts {
            return Err(format!("commit {} is the last", snapshot.ts().0));
        }
        self.state.check(&snapshot)?;
        drop(snapshot);
        store.check().map(drop).map_err(failed)
    }
}
