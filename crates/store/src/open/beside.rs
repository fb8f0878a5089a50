//! Reading a database while another process writes it.
//!
//! A writer that admits readers keeps a board (`state/board.rs`), which states how far its commits may be shown. It
//! respects seats (`state/seats.rs`), which state what readers in other processes still need. The steps of opening are:
//!
//! 1. Take a seat, and pin the newest checkpoint with it.
//! 2. Build a read-only store on that checkpoint, as recovery does. Nothing of the log is replayed yet.
//! 3. *Follow*: read the log up to the newest visible commit, and apply each record through the function that commit
//!    and recovery use.
//!
//! [`Follower::catch_up`] repeats step 3. It also follows the writer's checkpoints:
//!
//! * *Switch*: when the writer has made a checkpoint, its runs replace the memtables that it absorbed, as in the
//!   writer's own views. Older snapshots keep what they see.
//! * *Jump*: if this store could not apply all commits that the checkpoint absorbed, because they did not fit into its
//!   memory or because the log was dropped, the runs replace all its memtables.
//! * *Resume*: a log whose commits did not fit is opened again at the position that the checkpoint names. That may be
//!   before the last commit that this store has applied: commits that it has are skipped. After an error the next call
//!   opens the log again where it was, so it fails again until the log can be read, or a checkpoint takes its place.
//! * *Settle*: when no snapshot reads the oldest checkpoint, the seat moves on.
//!
//! A reader that opens while no process writes does so as any reader does, with locks that keep writers out. Then it
//! *stands by*: it takes a seat and gives up the locks ([`stand_by`]). From then on it is a follower like the others,
//! and notices through the board that a writer has come. Until then it looks for a writer with each tick, at no other
//! cost.
//!
//! After that the writer may use the places of pages that only the older checkpoint reached for something else. Copies
//! of these pages stay in the pool until it needs their frames. They are never mistaken for the new contents, because a
//! page is found by the checksum in its pointer as well.
//!
//! Another writer may take over while this store is open. It does not know which pages only older checkpoints reach, so
//! the older views expire: their snapshots fail with [`SnapshotTooOld`](ErrorKind::SnapshotTooOld).

use crate::open::pinned::{following, stamp_of};
use crate::open::read_only::Ceiling;
use crate::open::recovery::{DATA, Found, Hold, Parts, check, check_stored, read_physical_rows};
use crate::open::replay::{Replay, check_record};
use crate::state::board::{self, BOARD, Shown};
use crate::state::options::Options;
use crate::state::seats::{Needed, Seat};
use crate::state::store::Store;
use crate::state::superblock::{RESERVED_UNITS, Superblock};
use crate::state::view::View;
use base::budget::Member;
use base::env::Random;
use base::sync::lock;
use base::{DatabaseId, Error, ErrorKind, Result};
use io::{Dir, File, ReadOnlyDir};
use log::{Beside, Log, Position};
use space::Space;
use std::sync::{Arc, MutexGuard};

/// The number of times that the checkpoint to pin is read again because a newer one came.
const ATTEMPTS: u32 = 1000;

/// A follower keeps a store up to date that another process writes.
///
/// ```
/// # use std::sync::Arc;
/// # use pando_store::{Options, Transaction, TransactionOptions, RequestedLayout, beside};
/// let dir: Arc<dyn io::Dir> = Arc::new(io::MemDir::new());
/// let options = Options { memory_bytes: 4 << 20, admits_readers: true, ..Options::default() };
/// let writer = pando_store::open_or_create(dir.clone(), &options)?;
/// let (reader, mut follower) = beside::open(dir, &Options { read_only: true, ..options })?;
///
/// let mut tx = Transaction::begin(&writer, TransactionOptions::default())?;
/// let table = tx.create_table("fruit", RequestedLayout::BTree)?;
/// tx.put(&table, b"apple", b"red")?;
/// writer.acknowledge(tx.apply()?)?;
///
/// assert!(follower.catch_up()?);
/// let snapshot = reader.snapshot()?;
/// let table = snapshot.table("fruit")?.expect("it was created");
/// assert_eq!(snapshot.get(&table, b"apple")?.as_deref(), Some(&b"red"[..]));
/// # base::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Follower {
    store: Arc<Store>,
    writable: Arc<dyn Dir>,
    ids: Random,
    /// The writer's board; `None`: no process that admits readers has written here.
    board: Option<Arc<dyn File>>,
    /// The log; `None`: it could not be read further.
    log: Option<Beside>,
    /// Where the log that could not be read further is to be opened again; `None`: where the next checkpoint names.
    resume_at: Option<Position>,
    ceiling: Option<Ceiling>,
    /// The checkpoint that the newest view reads.
    newest: Superblock,
    /// Whether the seat was lost, and the older views have not all expired since.
    must_expire: bool,
}

/// Opens for reading the database in `dir`, which another process has open for writing. The directory must be writable:
/// the reader keeps a small file in it.
///
/// # Errors
/// [`ErrorKind::Locked`] if that process does not admit readers; those of a read-only opening.
pub fn open(dir: Arc<dyn Dir>, options: &Options) -> Result<(Arc<Store>, Follower)> {
    open_as(dir, options, Random::from_entropy())
}

/// Opens for reading the database in `dir`, which another process has open for writing. The names of its files are
/// drawn from `ids`. Simulations use it, because they must be repeatable. See [`open`].
///
/// # Errors
/// As for [`open`].
pub fn open_as(dir: Arc<dyn Dir>, options: &Options, ids: Random) -> Result<(Arc<Store>, Follower)> {
    check(options)?;
    let describe = dir.describe();
    open_at(dir, options, ids).map_err(|error| error.within(format!("opening {describe}")))
}

fn open_at(writable: Arc<dyn Dir>, options: &Options, mut ids: Random) -> Result<(Arc<Store>, Follower)> {
    let dir: Arc<dyn Dir> = Arc::new(ReadOnlyDir::new(Arc::clone(&writable)));
    let data = dir.open(DATA)?;
    let database = Superblock::read(&*data)?.database;
    let (board, shown) = find_board(&dir, database)?;
    let mut seat = Seat::take(&writable, database, &mut ids).map_err(no_seat)?;
    let superblock = pin_newest(&*data, &mut seat)?;
    check_stored(options, &superblock)?;
    let Superblock { checkpoint, replay_from, absorbed, next_table, time_ms, .. } = superblock;
    let parts = Parts::read(Arc::clone(&dir), data, superblock, options)?;
    let log = Log::detached(Arc::clone(&dir), database, replay_from, checkpoint, options.log())?;
    let found = Found { last: absorbed, next_table, time_ms, consumers: Vec::new() };
    let store = Arc::new(parts.assemble(found, log, options, Hold::Seat(seat))?);
    let member: Arc<dyn Member> = store.clone();
    store.memory.account.set_member(Arc::downgrade(&member));
    store.processes.note_epoch(shown.epoch);
    look_for_seat_after_errors(&store);
    let mut follower = Follower {
        store: Arc::clone(&store),
        writable,
        ids,
        board: Some(board),
        log: Some(Beside::open(&dir, database, replay_from)?),
        resume_at: None,
        ceiling: Ceiling::new(options, 0),
        newest: superblock,
        must_expire: false,
    };
    follower.catch_up()?;
    Ok((store, follower))
}

/// Makes `store`, which was opened read-only with the locks of its directory, follow the next writer instead of keeping
/// it out. `dir` is that directory, writable. Returns `None`, and keeps the locks, if no file can be created in it.
///
/// # Errors
/// Those of reading the files.
pub fn stand_by(store: &Arc<Store>, dir: Arc<dyn Dir>, options: &Options) -> Result<Option<Follower>> {
    let mut ids = Random::from_entropy();
    let Ok(mut seat) = Seat::take(&dir, store.database, &mut ids) else { return Ok(None) };
    let newest = *store.checkpoints.claim()?;
    let needed = Needed { checkpoint: newest.checkpoint, segment: newest.replay_from.segment };
    if seat.set(needed).is_err() {
        return Ok(None);
    }
    let log = Beside::open(&store.dir, store.database, store.log.end())?;
    // The board of an earlier writer shows only which epoch is over.
    let board = look_for_board(&store.dir, store.database)?;
    store.processes.note_epoch(board.as_ref().map_or(0, |(_, shown)| shown.epoch));
    store.processes.give_up_locks_for(seat);
    look_for_seat_after_errors(store);
    Ok(Some(Follower {
        store: Arc::clone(store),
        writable: dir,
        ids,
        board: board.map(|(board, _)| board),
        log: Some(log),
        resume_at: None,
        ceiling: Ceiling::new(options, 0),
        newest,
        must_expire: false,
    }))
}

/// A writer that takes the seat away frees pages before the follower notices it. What is read there is not damaged.
fn look_for_seat_after_errors(store: &Arc<Store>) {
    let weak = Arc::downgrade(store);
    let has_lost_pages = move || weak.upgrade().is_some_and(|store| has_lost_pages(&store));
    store.pool.set_has_lost_pages(Box::new(has_lost_pages));
}

/// Returns whether a snapshot may read pages that the writer has used again. A call keeps its view also after that has
/// expired.
fn has_lost_pages(store: &Store) -> bool {
    let keeps_lost = |views: &[Box<View>]| {
        let lost_through = store.processes.lost_through();
        views.first().is_some_and(|oldest| oldest.number <= lost_through)
    };
    store.processes.has_lost_seat() || store.views.with_kept(keeps_lost) || is_taken_over(store)
}

/// Returns whether another writer has come than the one that the store follows. It is looked up anew, because the board
/// may be another file.
fn is_taken_over(store: &Store) -> bool {
    let board = look_for_board(&store.dir, store.database);
    matches!(board, Ok(Some((_, shown))) if shown.epoch != store.processes.epoch())
}

fn look_for_board(dir: &Arc<dyn Dir>, database: DatabaseId) -> Result<Option<(Arc<dyn File>, Shown)>> {
    let exists = dir.list()?.iter().any(|name| name == BOARD);
    let board = if exists { Some(dir.open(BOARD)?) } else { None };
    let shown = board.as_ref().map_or(Ok(None), |board| board::read(&**board, database))?;
    Ok(board.zip(shown))
}

fn find_board(dir: &Arc<dyn Dir>, database: DatabaseId) -> Result<(Arc<dyn File>, Shown)> {
    look_for_board(dir, database)?.ok_or_else(|| {
        let message = "another process has the database open for writing and does not admit readers; wait \
                       until it closes the database";
        Error::new(ErrorKind::Locked, message)
    })
}

#[cold]
fn no_seat(error: Error) -> Error {
    if error.kind() == ErrorKind::Full {
        return error.within(
            "another process has the database open for writing; reading beside it needs a small file in the \
             directory, for which the disk has no room",
        );
    }
    let what = "another process has the database open for writing; reading beside it needs permission to \
                create files in the directory";
    Error::new(ErrorKind::Locked, what).caused_by(error)
}

/// Makes the seat keep the newest checkpoint; the head of `state/seats.rs` argues why it is then kept.
fn pin_newest(data: &dyn File, seat: &mut Seat) -> Result<Superblock> {
    let mut superblock = Superblock::read(data)?;
    for _ in 0..ATTEMPTS {
        seat.set(Needed { checkpoint: superblock.checkpoint, segment: superblock.replay_from.segment })?;
        let newest = Superblock::read(data)?;
        if newest.checkpoint == superblock.checkpoint {
            return Ok(superblock);
        }
        superblock = newest;
    }
    let message = "the writing process makes checkpoints faster than this one reads them; try again";
    Err(Error::new(ErrorKind::Io, message))
}

impl Follower {
    /// Makes the store show what the writer shows now. Returns whether anything changed. It takes a few microseconds if
    /// nothing did.
    ///
    /// # Errors
    /// Those of reading the files; [`ErrorKind::Full`] if snapshots have taken all reader slots. The visible state
    /// stays as it was; call it again.
    pub fn catch_up(&mut self) -> Result<bool> {
        let store = Arc::clone(&self.store);
        if self.board.is_none() {
            self.board = look_for_board(&store.dir, store.database)?.map(|(board, _)| board);
        }
        let Some(board) = &self.board else { return Ok(false) };
        let Some(shown) = board::read(&**board, store.database)? else { return Ok(false) };
        let is_taken_over = shown.epoch != store.processes.epoch();
        if !is_taken_over && !store.is_beside() {
            return Ok(false);
        }
        store.processes.note_writer();
        let before = store.clocks.visible();
        let followed = self.follow(shown);
        let moves = is_taken_over || shown.checkpoint > self.newest.checkpoint;
        if moves {
            self.take_newest_checkpoint()?;
            self.follow(shown)?;
        } else {
            followed?;
        }
        if is_taken_over {
            // The new writer keeps what the seat names from now on, but not what only older checkpoints reach.
            self.expire_older_views();
            store.processes.note_epoch(shown.epoch);
        }
        let changes = moves || store.clocks.visible() > before;
        if changes || store.waits_for_readers() {
            self.settle()?;
        }
        Ok(changes)
    }

    /// Begins anew if the writer has taken the seat away, and gives up what the store read. Call it four times a
    /// second, with the time since a fixed moment.
    ///
    /// # Errors
    /// As [`Follower::catch_up`]; [`ErrorKind::Io`] if the database was moved or deleted.
    pub fn tick(&mut self, now: std::time::Duration) -> Result<()> {
        let store = Arc::clone(&self.store);
        store.tick(now);
        store.rest_memory();
        store.dir.check_in_place(&[&*store.data])?;
        if self.seat().is_lost() {
            // This comes before there is another seat, which is not lost.
            store.processes.note_lost_through(store.views.with_current(|view| view.number));
            self.must_expire = true;
            let mut seat = Seat::take(&self.writable, store.database, &mut self.ids).map_err(no_seat)?;
            pin_newest(&*store.data, &mut seat)?;
            *self.seat() = seat;
        }
        self.seat().write_again()?;
        if self.must_expire {
            store.expire_older_views();
            self.take_newest_checkpoint()?;
            self.expire_older_views();
            self.must_expire = false;
            self.settle()?;
        }
        // Another file may have taken the place of the board: then this one shows nothing new.
        let displaced = |board: &mut Arc<dyn File>| store.dir.check_in_place(&[&**board]).is_err();
        self.board.take_if(displaced);
        if store.expire_readers() {
            self.settle()?;
        }
        Ok(())
    }

    /// Returns whether no process has written since the store was opened. Looking for a writer a few times a second is
    /// then enough.
    pub fn is_alone(&self) -> bool {
        !self.store.is_beside()
    }

    /// Expires all views but the current one: the writer does not keep what only they reach.
    fn expire_older_views(&self) {
        let current = self.store.views.with_current(|view| view.number);
        self.store.processes.note_lost_through(current - 1);
        self.store.expire_older_views();
    }

    fn seat(&self) -> MutexGuard<'_, Seat> {
        self.store.processes.seat().expect("a follower's store has a seat")
    }

    /// Applies the log's commits up to the visible one (step 3). Commits that do not fit into memory wait for the next
    /// checkpoint.
    fn follow(&mut self, shown: Shown) -> Result<()> {
        let store = Arc::clone(&self.store);
        if store.clocks.applied() >= shown.visible {
            return Ok(());
        }
        if let (None, Some(at)) = (&self.log, self.resume_at) {
            self.log = Some(Beside::open(&store.dir, store.database, at)?);
        }
        let Some(log) = &mut self.log else { return Ok(()) };
        let reader = store.slots.claim_or_full()?;
        let mut replay = Replay::new(&store, reader, log.end(), self.ceiling.take());
        let followed = (|| {
            while store.clocks.applied() < shown.visible && log.advance()? {
                let applied = store.clocks.applied();
                if stamp_of(log.payload()) > applied {
                    following(applied, log.payload())?;
                    check_record(log.payload())?;
                    replay.record(log.payload(), log.end())?;
                }
            }
            Ok(())
        })();
        let at = replay.at();
        self.ceiling = replay.into_ceiling();
        let Err(error) = followed else { return Ok(()) };
        // The window has moved past a record that was not applied.
        self.log = None;
        let is_full = Error::kind(&error) == ErrorKind::Full;
        self.resume_at = (!is_full).then_some(at);
        if is_full { Ok(()) } else { Err(error) }
    }

    /// Switches, or jumps, to the newest checkpoint.
    fn take_newest_checkpoint(&mut self) -> Result<()> {
        let store = Arc::clone(&self.store);
        let superblock = Superblock::read(&*store.data)?;
        if superblock.checkpoint <= self.newest.checkpoint {
            return Ok(());
        }
        if superblock.database != store.database {
            return Err(Error::new(
                ErrorKind::Foreign,
                "another database has replaced the one in this directory; open it again",
            ));
        }
        let tables = Arc::new(read_physical_rows(&superblock.physical, &store.pool, &store.slots)?);
        let space = Space::load(Arc::clone(&store.data), store.database, RESERVED_UNITS, &superblock.space)?;
        let jumps = store.clocks.applied() < superblock.absorbed;
        if jumps || self.log.is_none() {
            self.log = Some(Beside::open(&store.dir, store.database, superblock.replay_from)?);
            self.resume_at = None;
        }
        store.time.pass(superblock.time_ms);
        let mut last = store.checkpoints.claim()?;
        *lock(&store.space) = space;
        let mut committer = lock(&store.committer);
        if committer.last <= superblock.absorbed {
            // The switch then frees everything that was applied.
            store.seal_at(&mut committer, superblock.replay_from);
            committer.last = superblock.absorbed;
        }
        // As in a replay, this comes before a reader can see the change.
        store.catalog.note(superblock.absorbed);
        store.checkpoints.pins.switch(superblock, Arc::clone(&tables));
        store.views.switch(superblock.absorbed, tables, superblock.checkpoint);
        // This comes after the view, so that a snapshot never names a commit that it does not show.
        if jumps {
            store.clocks.advance_applied(superblock.absorbed);
            store.clocks.publish(superblock.absorbed);
        }
        store.checkpoints.set_replay_from(superblock.replay_from.lsn);
        *last = superblock;
        self.newest = superblock;
        Ok(())
    }

    /// Releases what no snapshot reads.
    fn settle(&mut self) -> Result<()> {
        let read = self.store.free_memtables();
        let checkpoint = read.first().copied().unwrap_or(self.newest.checkpoint);
        let at = self.log.as_ref().map(Beside::end).or(self.resume_at).unwrap_or(self.newest.replay_from);
        let segment = at.segment;
        self.seat().set(Needed { checkpoint, segment })
    }
}
