//! Opening: a read-only half that inspects the files, then a mutating half that repairs them.
//!
//! Read-only: 1. lock the directory, by its lock file and its data file; 2. read the superblock; 3. load the space map
//! and the physical rows; 4. walk the log from the superblock's position to its valid end, and claim the extents that
//! it refers to; it must reach as far as it is known to have been durable. Mutating: 5. write the log's tail anew and
//! begin a new generation, unless it was closed cleanly; 6. apply each commit through the function that commit used
//! (invariant 4), with checkpoints in between if the memory requires them (`replay`); then the database is open.
//!
//! A cleanly closed database whose log fits the memory is opened without a sync, and the only write is that of the
//! board for readers in other processes (`state/board.rs`). A read-only opening skips step 5, and makes no checkpoint
//! (`read_only`).
//!
//! # Creation
//! The data file is written as `data.new` and renamed when everything else is in place. So a directory with a `data`
//! file is a database, one with only `data.new` is an interrupted creation and starts over, and one with only log
//! segments has lost its data file and is rejected. A directory with a `data.restore` ([`crate::rebuild`]) is rejected,
//! too.

use crate::open::kept::{join, keep_for_consumers};
use crate::open::read_only::Ceiling;
use crate::open::replay::Survey;
use crate::state::board::{BOARD, Board};
use crate::state::changes::CatalogChanges;
use crate::state::checkpoints::Checkpoints;
use crate::state::closing::known_durable;
use crate::state::committer::Committer;
use crate::state::consumers::CONSUMER_PREFIX;
use crate::state::early::EarlyWrites;
use crate::state::expiry::Expiry;
use crate::state::feeds::{Feeds, Held};
use crate::state::latch::Latch;
use crate::state::memory::{Memory, least_budget_bytes, reserve_bytes};
use crate::state::options::Options;
use crate::state::pacing::Merging;
use crate::state::processes::{Locks, Processes};
use crate::state::reserve::{Leaves, Reservations};
use crate::state::seats::{self, Needed, SEAT_PREFIX, Seat};
use crate::state::store::{Store, Tallies};
use crate::state::stretches::Known;
use crate::state::superblock::{RESERVED_UNITS, Superblock};
use crate::state::tables::{Rows, Tables};
use crate::state::time::{Time, Times};
use crate::state::upkeep::Upkeep;
use crate::state::view::{OpenMemtable, View, Views};
use base::budget::{Account, Budget, Member};
use base::env::Random;
use base::phases::{self, Phase};
use base::slots::Slots;
use base::{CheckpointNo, CommitTs, DatabaseId, Error, ErrorKind, Result, TableId, limits};
use io::{Dir, File, ReadOnlyDir};
use log::{Log, Tail};
use pool::Pool;
use run::{Cursor, Run};
use space::{Space, SpaceRoot};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use txn::Clocks;

pub(crate) const DATA: &str = "data";
pub(crate) const NEW_DATA: &str = "data.new";
/// The name of the data file while a database is being rebuilt from a backup.
pub(crate) const REBUILT_DATA: &str = "data.restore";
pub(crate) const LOCK: &str = "lock";
/// A file that names the lineage of shipped commits from which the database was restored. Only log shipping reads it.
const MARKER: &str = "lineage";
const LOG_PREFIX: &str = "log-";

/// Opens the database in `dir`.
///
/// # Errors
/// [`ErrorKind::Missing`] if there is none, [`ErrorKind::Locked`] if another process has it open,
/// [`ErrorKind::Mismatch`] if `options` contradict what is stored, [`ErrorKind::Foreign`] and
/// [`ErrorKind::Corruption`] if the files are not what they should be.
pub fn open(dir: Arc<dyn Dir>, options: &Options) -> Result<Arc<Store>> {
    check(options)?;
    let describe = dir.describe();
    open_locked(dir, options, false).map_err(|error| error.within(format!("opening {describe}")))
}

/// Opens the database in `dir`, or creates one if there is none.
pub fn open_or_create(dir: Arc<dyn Dir>, options: &Options) -> Result<Arc<Store>> {
    check(options)?;
    let describe = dir.describe();
    open_locked(dir, options, true).map_err(|error| error.within(format!("opening {describe}")))
}

pub(super) fn check(options: &Options) -> Result<()> {
    let page_bytes = options.page_bytes_or_default();
    if !limits::is_page_size(page_bytes) {
        let message =
            format!("the page size must be 4096, 8192, 16384, 32768 or 65536 bytes, not {page_bytes}");
        return Err(Error::invalid(message));
    }
    let most = limits::MAX_LOGGED_VALUE_BYTES;
    let whole_units = options.piece_bytes > 0 && options.piece_bytes.is_multiple_of(limits::UNIT_BYTES);
    if options.large_bytes > most || options.piece_bytes > most || !whole_units {
        return Err(Error::invalid(format!(
            "the size of a value's pieces must be a multiple of a unit, and at most {most} bytes"
        )));
    }
    check_memory(options, page_bytes)?;
    log::Options { max_segment_bytes: options.max_segment_bytes, ..options.log() }.check()
}

/// Checks the memory. The page size determines the least budget; for an existing database it is known only after the
/// superblock was read.
fn check_memory(options: &Options, page_bytes: usize) -> Result<()> {
    let (least, ceiling) = (least_budget_bytes(page_bytes), options.ceiling_bytes());
    if ceiling < least {
        let message = format!(
            "memory_bytes is {ceiling}; with pages of {page_bytes} bytes it must be at least {least}"
        );
        return Err(Error::invalid(message));
    }
    Ok(())
}

fn open_locked(dir: Arc<dyn Dir>, options: &Options, create_missing: bool) -> Result<Arc<Store>> {
    phases::within(Phase::Recovery, || open_observed(dir, options, create_missing))
}

fn open_observed(dir: Arc<dyn Dir>, options: &Options, create_missing: bool) -> Result<Arc<Store>> {
    let dir: Arc<dyn Dir> = if options.read_only { Arc::new(ReadOnlyDir::new(dir)) } else { dir };
    let missing = || Error::new(ErrorKind::Missing, "there is no database; create one first");
    if !create_missing && !dir.list()?.iter().any(|name| is_database_file(name)) {
        // This comes before the lock, which creates a file: looking for a database must create none.
        return Err(missing());
    }
    let lock = dir.lock(LOCK)?;
    let names = dir.list()?;
    let exists = |wanted: &str| names.iter().any(|name| name == wanted);
    if !exists(DATA) {
        if exists(REBUILT_DATA) {
            return Err(Error::corruption(
                "the directory holds part of a database whose restore was interrupted; empty the \
                 directory and \
                 restore again",
            ));
        }
        let has_log = names.iter().any(|name| name.starts_with(LOG_PREFIX));
        if has_log && !exists(NEW_DATA) {
            return Err(Error::corruption("the directory has log segments, but its data file is missing"));
        }
        if !create_missing {
            return Err(missing());
        }
        Board::check_file(&*dir, &names)?;
        create(&dir, options, &names)?;
    }
    // It takes both locks: users who take the lock file for a leftover delete it, which they cannot do with the data
    // file (`io/src/os/lock.rs`).
    let locks = [lock, dir.lock_existing(DATA)?];
    let data = dir.open(DATA)?;
    let superblock = Superblock::read(&*data)?;
    check_stored(options, &superblock)?;
    let parts = Parts::read(dir, data, superblock, options)?;
    parts.recover(options, locks)
}

/// Returns whether a file of this name, in a database's directory, belongs to the database.
///
/// ```
/// assert!(pando_store::is_database_file("data") && pando_store::is_database_file("lock"));
/// assert!(!pando_store::is_database_file("notes.txt"));
/// ```
pub fn is_database_file(name: &str) -> bool {
    matches!(name, DATA | NEW_DATA | REBUILT_DATA | LOCK | BOARD | MARKER)
        || name.starts_with(LOG_PREFIX)
        || name.starts_with(SEAT_PREFIX)
        || name.starts_with(CONSUMER_PREFIX)
}

/// Creates an empty database. After any crash the directory has one, or something that creation starts over from.
fn create(dir: &Arc<dyn Dir>, options: &Options, names: &[String]) -> Result<()> {
    let drawn = || DatabaseId(Random::from_entropy().next_u64());
    let database = options.database.unwrap_or_else(drawn);
    // An existing file is kept: without it, segments that an interrupted creation left would look like those of a
    // database that lost its data file.
    let data =
        if names.iter().any(|name| name == NEW_DATA) { dir.open(NEW_DATA)? } else { dir.create(NEW_DATA)? };
    // Two processes that create at once, while the lock file was deleted in between, must not empty each other's file.
    let _lock = dir.lock_existing(NEW_DATA)?;
    data.set_len(0)?;
    dir.sync()?;
    for name in names.iter().filter(|name| name.starts_with(LOG_PREFIX)) {
        dir.remove(name)?;
    }
    let first = Log::create(Arc::clone(dir), database, options.log())?;
    let superblock = Superblock {
        page_bytes: options.page_bytes_or_default(),
        database,
        checkpoint: CheckpointNo(0),
        absorbed: CommitTs(0),
        replay_from: first.end(),
        log_synced: first.synced(),
        next_table: TableId::FIRST_USER,
        fork: 0,
        space: SpaceRoot::EMPTY,
        physical: Run::EMPTY,
        time_ms: 0,
        times: Times::default(),
        restored: CommitTs(0),
    };
    // Both slots are allocated now: a superblock that found the disk full would latch the database.
    data.write_at(&[0; RESERVED_UNITS as usize * limits::UNIT_BYTES], 0)?;
    superblock.write(&*data)?;
    data.sync()?;
    first.close()?;
    // The following opening makes the name durable: this one, or the next if this process is killed here.
    dir.rename(NEW_DATA, DATA)
}

pub(super) fn check_stored(options: &Options, superblock: &Superblock) -> Result<()> {
    match options.page_bytes {
        Some(asked) if asked != superblock.page_bytes => {
            let stored = superblock.page_bytes;
            let message =
                format!("the database has pages of {stored} bytes, but the options ask for {asked}");
            Err(Error::new(ErrorKind::Mismatch, message))
        }
        _ => check_memory(options, superblock.page_bytes),
    }
}

/// The results of the read-only half.
pub(super) struct Parts {
    dir: Arc<dyn Dir>,
    data: Arc<dyn File>,
    superblock: Superblock,
    slots: Arc<Slots>,
    account: Arc<Account>,
    pool: Pool,
    space: Space,
    tables: Tables,
}

/// The protection of the files that a store reads from other processes.
pub(super) enum Hold {
    /// Locks: other processes cannot write.
    Locks(Locks),
    /// A seat: the process that writes respects it.
    Seat(Seat),
}

/// The contents of the log besides its end.
pub(super) struct Found {
    /// The last commit.
    pub last: CommitTs,
    pub next_table: TableId,
    /// The least time that the database had reached, by the log.
    pub time_ms: u64,
    /// The named consumers, and whether what each needs exists.
    pub consumers: Vec<(String, Held, bool)>,
}

impl Parts {
    pub(super) fn read(
        dir: Arc<dyn Dir>,
        data: Arc<dyn File>,
        superblock: Superblock,
        options: &Options,
    ) -> Result<Self> {
        let Superblock { database, page_bytes, .. } = superblock;
        let shares = options.shares();
        let slots = Arc::new(Slots::new());
        let budget = options.budget.clone().unwrap_or_else(|| Budget::new(options.memory_bytes));
        let account = budget.join(dir.describe(), reserve_bytes(page_bytes))?;
        let (file, paying, most_bytes) = (Arc::clone(&data), Arc::clone(&account), shares.largest_pool_bytes);
        let pool = Pool::new(file, database, page_bytes, paying, most_bytes, Arc::clone(&slots))
            .with_share(shares.pool_bytes);
        let space = match superblock.checkpoint {
            // Nothing was ever written, not even a map.
            CheckpointNo(0) => Space::create(Arc::clone(&data), database, RESERVED_UNITS),
            _ => Space::load(Arc::clone(&data), database, RESERVED_UNITS, &superblock.space)?,
        };
        let mut space = space;
        space.note_reached(superblock.checkpoint);
        let tables = read_physical_rows(&superblock.physical, &pool, &slots)?;
        Ok(Parts { dir, data, superblock, slots, account, pool, space, tables })
    }

    /// Walks the log to its valid end, claims the extents that it refers to, and checks that it reaches far enough
    /// (step 4).
    fn scan(&mut self) -> Result<(Tail, Found)> {
        let superblock = self.superblock;
        let mut survey = Survey {
            pool: &self.pool,
            space: &mut self.space,
            reader: self.slots.claim_or_full()?,
            last: superblock.absorbed,
            next_table: superblock.next_table,
            time_ms: 0,
        };
        let from = superblock.replay_from;
        let mut tail = Log::scan(&self.dir, superblock.database, from, &mut |block| survey.block(&block))?;
        let (last, next_table, time_ms) = (survey.last, survey.next_table, survey.time_ms);
        let consumers = keep_for_consumers(&self.dir, &superblock, &mut tail, &self.pool, &mut self.space)?;
        let found = Found { last, next_table, time_ms, consumers };
        let durable = known_durable(&*self.data, &superblock)?;
        if tail.end.lsn < durable {
            return Err(Error::corruption(format!(
                "the log ends at LSN {}, but it was durable through LSN {durable} when the database was last \
                 closed, or when checkpoint {} was made: blocks were lost",
                tail.end.lsn, superblock.checkpoint.0
            )));
        }
        if tail.newest_checkpoint > superblock.checkpoint {
            return Err(Error::corruption(format!(
                "the log names checkpoint {}, but the newest superblock that can be read is of \
                 checkpoint {}: a superblock was lost",
                tail.newest_checkpoint.0, superblock.checkpoint.0
            )));
        }
        Ok((tail, found))
    }

    /// Walks the log, writes its tail anew unless the opening is read-only, and applies its commits (steps 4 to 6).
    fn recover(mut self, options: &Options, locks: [Box<dyn io::Lock>; 2]) -> Result<Arc<Store>> {
        let superblock = self.superblock;
        let (tail, found) = self.scan()?;
        let ceiling = Ceiling::new(options, tail.payload_bytes);
        let end = tail.end.lsn;
        if !options.read_only {
            self.make_log_room(options.log().first_segment_bytes)?;
        }
        let log = match options.read_only {
            true => Log::read_only(self.dir.clone(), tail, superblock.checkpoint, options.log())?,
            false => self.resume(tail, options)?,
        };
        let last = found.last;
        let store = Arc::new(self.assemble(found, log, options, Hold::Locks(locks))?);
        let begun = store.log.end().lsn;
        store.reservations.note_gap(begun, begun.0.saturating_sub(end.0));
        let member: Arc<dyn Member> = store.clone();
        store.memory.account.set_member(Arc::downgrade(&member));
        store.replay(superblock.replay_from, ceiling)?;
        assert_eq!(store.clocks.applied(), last, "the log was replayed to another end than the scan found");
        store.processes.show(store.clocks.visible());
        Ok(store)
    }

    /// Makes room for a new generation, which needs a segment. If the disk is full, the reserve returns as much
    /// (`room`).
    fn make_log_room(&mut self, segment_bytes: u64) -> Result<()> {
        let units = 2 * segment_bytes / limits::UNIT_BYTES as u64;
        let room_bytes = self.data.room_bytes()?;
        if room_bytes.is_none_or(|bytes| bytes >= units * limits::UNIT_BYTES as u64) {
            return Ok(());
        }
        // Which free units have their blocks is known only after the file system was asked.
        if self.space.firm_up(units, 1)?.is_supported {
            self.space.give_up_firm(units)?;
        }
        Ok(())
    }

    /// Writes the log's tail anew and begins a new generation, unless it was closed cleanly (step 5).
    fn resume(&self, tail: Tail, options: &Options) -> Result<Log> {
        let superblock = self.superblock;
        // Nothing was ever committed: the process that created the database may have been killed before its name was
        // durable.
        if superblock.checkpoint == CheckpointNo(0) && tail.blocks == 0 {
            self.dir.sync()?;
        }
        // A superblock that no part of the log names may be only in the page cache: its writer was killed before the
        // sync, or the sync failed. It is made durable before the log names it or drops what its predecessor needs.
        if tail.newest_checkpoint < superblock.checkpoint {
            superblock.write(&*self.data)?;
            self.data.sync()?;
        }
        Log::resume(self.dir.clone(), tail, superblock.checkpoint, options.log())
    }

    /// Returns the board on which readers in other processes see how far they may read. If there is no room for it, no
    /// readers are admitted. A writer that is refused leaves the board to those who follow it.
    fn board(&self, options: &Options) -> Result<Option<Board>> {
        if options.read_only {
            return Ok(None);
        }
        let Superblock { database, absorbed, checkpoint, .. } = self.superblock;
        if options.admits_readers {
            match Board::open(&*self.dir, database, absorbed, checkpoint, &options.clock) {
                Ok(Some(board)) => return Ok(Some(board)),
                Err(error) if error.kind() != ErrorKind::Full => return Err(error),
                Ok(None) | Err(_) => {}
            }
        }
        // A writer without a board does not look at seats.
        if seats::needed(&*self.dir, database)? != Needed::NOTHING {
            let message = "another process has the database open for reading, and this one cannot write \
                           beside it; wait until that process closes the database";
            return Err(Error::new(ErrorKind::Locked, message));
        }
        Board::remove(&*self.dir)?;
        Ok(None)
    }

    /// Builds the store as of the superblock; nothing of the log is replayed yet.
    pub(super) fn assemble(self, found: Found, log: Log, options: &Options, hold: Hold) -> Result<Store> {
        let (locks, seat) = match hold {
            Hold::Locks(locks) => (Some(locks), None),
            Hold::Seat(seat) => (None, Some(seat)),
        };
        let board = self.board(options)?;
        let shares = options.shares();
        let memory = Memory::new(self.account, shares, &log);
        let (open, writer) = memory.new_memtable(None);
        let view = View {
            number: 0,
            open: OpenMemtable::new(Arc::clone(&open)),
            sealed: Vec::new(),
            tables: Arc::new(self.tables),
            checkpoint: self.superblock.checkpoint,
            has_attached: false,
            absorbed: self.superblock.absorbed,
        };
        let reservations = Reservations::default();
        let (physical, page_bytes) = (&self.superblock.physical, self.superblock.page_bytes);
        reservations.note_leaves(Leaves::count(&view.tables, physical, page_bytes));
        let last = self.superblock.absorbed;
        let clocks = Clocks::new(last);
        let opened_at = self.superblock.replay_from.lsn;
        let checkpoints = Checkpoints::new(self.superblock, Arc::clone(&view.tables));
        let known = Known::new(&memory.account);
        let feeds = Feeds::default();
        Ok(Store {
            dir: self.dir,
            data: self.data,
            database: self.superblock.database,
            page_bytes: self.superblock.page_bytes,
            memory,
            seal_records: options.seal_records,
            slots: self.slots,
            pool: self.pool,
            log,
            views: Views::new(view),
            clocks,
            time: Time::new(options.clock.clone(), self.superblock.times, found.time_ms),
            latch: if options.read_only { Latch::read_only() } else { Latch::default() },
            space: Mutex::new(self.space),
            early: EarlyWrites::new(options.large_bytes, options.piece_bytes),
            committer: Mutex::new(Committer::new(open, opened_at, writer, last)),
            checkpoints,
            upkeep: Upkeep::new(options, shares.seal_bytes),
            catalog: CatalogChanges::new(last, found.next_table),
            consumers: Mutex::new(join(&feeds, found.consumers)),
            feeds,
            max_changes_bytes: options.max_changes_bytes,
            max_log_bytes: options.max_log_bytes,
            max_log_records: options.max_log_records,
            merging: Merging::default(),
            attached: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            closing: Mutex::new(None),
            expiry: Expiry::new(options),
            known,
            processes: Processes::new(locks, board, seat),
            tallies: Tallies::default(),
            reservations,
        })
    }
}

pub(crate) fn read_physical_rows(physical: &Run, pool: &Pool, slots: &Arc<Slots>) -> Result<Tables> {
    let reader = slots.claim_or_full()?;
    let mut rows = Rows::default();
    let mut cursor = Cursor::new(*physical);
    cursor.seek_first(pool, &reader)?;
    while let Some((key, value)) = cursor.entry() {
        rows.push(key, value)?;
        cursor.next(pool, &reader)?;
    }
    rows.tables(pool, &reader)
}
