//! The place of a workload's records: a temporary directory with a database, or with a file for a bare editor.

use crate::measure::{Meter, Usage};
use crate::records::{RunScan, Scan};
use crate::settings::{Durability, Settings};
use crate::{Outcome, ensure};
use base::budget::Account;
use base::slots::{Reader, Slots};
use base::{CheckpointNo, DatabaseId};
use io::{Dir, OsDir};
use page::EditCounters;
use pando::Database;
use pool::Pool;
use run::{Editor, Run};
use space::Space;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::{env, fs, process};

/// A new empty directory, which is removed with all its files when this is dropped.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
}

impl Place {
    /// Creates a directory in the one that the settings name.
    pub fn new(settings: &Settings) -> Outcome<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::SeqCst);
        let parent = settings.dir.clone().unwrap_or_else(env::temp_dir);
        let path = parent.join(format!("pando-bench-{}-{number}", process::id()));
        fs::create_dir_all(&parent)?;
        fs::create_dir(&path)?;
        Ok(Place { path })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // If it cannot be removed, it stays in a directory for temporary files.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A database for one workload.
#[derive(Debug)]
pub struct Bed {
    /// The database.
    pub db: Database,
    builder: pando::Builder,
    // Fields are dropped in order, so the database is closed before its files are removed.
    place: Place,
}

impl Bed {
    /// Creates a database with the settings' page size and memory, whose transactions have this durability.
    pub fn new(settings: &Settings, durability: Durability) -> Outcome<Self> {
        Bed::with(settings, durability, |builder| builder)
    }

    /// Creates a database with the settings' page size and memory, whose transactions have this durability, with
    /// further `options`.
    pub fn with(
        settings: &Settings,
        durability: Durability,
        options: impl FnOnce(pando::Builder) -> pando::Builder,
    ) -> Outcome<Self> {
        let mut builder = Database::builder().durability(durability.into());
        if let Some(bytes) = settings.page_size {
            builder = builder.page_bytes(bytes);
        }
        if let Some(bytes) = settings.memory {
            builder = builder.memory_bytes(bytes);
        }
        let builder = options(builder);
        let place = Place::new(settings)?;
        let db = builder.clone().create(place.path())?;
        Ok(Bed { db, builder, place })
    }

    /// Returns the size of the database's file `name`.
    pub fn room_of(&self, name: &str) -> Outcome<Room> {
        Ok(Room::from_metadata(&fs::metadata(self.place.path().join(name))?))
    }

    /// Closes the database and returns the size of all files. [`Bed::reopen`] opens it again.
    pub fn closed_room(&self) -> Outcome<Room> {
        self.db.close()?;
        let mut all = Room::default();
        for entry in fs::read_dir(self.place.path())? {
            let Room { file_bytes, block_bytes } = Room::from_metadata(&entry?.metadata()?);
            all.file_bytes += file_bytes;
            all.block_bytes += block_bytes;
        }
        Ok(all)
    }

    /// Closes and opens the database, so that the buffer pool is empty.
    pub fn reopen(&mut self) -> Outcome<()> {
        self.db.close()?;
        self.db = self.builder.clone().open(self.place.path())?;
        Ok(())
    }
}

/// The size of files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Room {
    /// The length of the files in bytes.
    pub file_bytes: u64,
    /// The bytes that have blocks on the disk.
    pub block_bytes: u64,
}

impl Room {
    #[cfg(unix)]
    fn from_metadata(metadata: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        /// The unit in which the system counts a file's blocks, for any file system.
        const BLOCK_BYTES: u64 = 512;
        Room { file_bytes: metadata.len(), block_bytes: metadata.blocks() * BLOCK_BYTES }
    }

    #[cfg(not(unix))]
    fn from_metadata(metadata: &fs::Metadata) -> Self {
        Room { file_bytes: metadata.len(), block_bytes: metadata.len() }
    }
}

/// A run in a file of its own, written only by the editor: no log, no transactions.
pub struct EditorBed {
    pool: Pool,
    space: Mutex<Space>,
    reader: Reader,
    dirty_bytes: usize,
    _place: Place,
}

/// The result of [`EditorBed::load`], and its costs.
pub struct Loaded {
    /// The tree.
    pub run: Run,
    /// The usage up to the last insert; all pages are in memory.
    pub inserted: Usage,
    /// The usage up to the end of the sync.
    pub synced: Usage,
    /// The counters of work inside pages.
    pub counters: EditCounters,
}

/// The memory of an editor if the settings set none.
const EDITOR_BYTES: usize = 1 << 30;
/// The units of the two superblocks, as in a database.
const RESERVED_UNITS: u64 = 2;

impl EditorBed {
    /// Creates an empty file, with the settings' page size, and their memory both for dirty pages and for the pool.
    pub fn new(settings: &Settings) -> Outcome<Self> {
        let place = Place::new(settings)?;
        let file = OsDir::open(place.path())?.create("data")?;
        let database = DatabaseId(settings.seed);
        let page_bytes = settings.page_size.unwrap_or(pando::limits::DEFAULT_PAGE_BYTES);
        let memory_bytes = settings.memory.unwrap_or(EDITOR_BYTES);
        let slots = Arc::new(Slots::new());
        let reader = slots.claim().expect("nobody else has a slot");
        let budget = Account::alone(memory_bytes);
        let pool = Pool::new(Arc::clone(&file), database, page_bytes, budget, memory_bytes, slots);
        let space = Mutex::new(Space::create(file, database, RESERVED_UNITS));
        Ok(EditorBed { pool, space, reader, dirty_bytes: memory_bytes, _place: place })
    }

    /// Measures `fill` on the editor of a new tree, and then the write-out and the sync.
    pub fn load(&mut self, fill: impl FnOnce(&mut Editor<'_>) -> Outcome<()>) -> Outcome<Loaded> {
        let mut meter = Meter::start(None)?;
        let mut editor = Editor::open(
            Run::EMPTY,
            &self.pool,
            &self.reader,
            &self.space,
            CheckpointNo(1),
            self.dirty_bytes,
        );
        fill(&mut editor)?;
        let inserted = meter.lap()?;
        let (run, counters) = editor.finish()?;
        self.pool.file().sync()?;
        let synced = meter.lap()?;
        Ok(Loaded { run, inserted, synced, counters })
    }

    /// Checks that an insert into `run` refuses each of `keys`, which exist. The editor is discarded.
    pub fn check_duplicates<'k>(&mut self, run: Run, keys: impl Iterator<Item = &'k [u8]>) -> Outcome<()> {
        let mut editor =
            Editor::open(run, &self.pool, &self.reader, &self.space, CheckpointNo(2), self.dirty_bytes);
        for key in keys {
            let inserted = editor.insert(key, b"another")?;
            ensure(!inserted, || format!("the duplicate {key:02x?} was inserted"))?;
        }
        Ok(())
    }

    /// Reads `run` back from the file and passes the scan to `check`.
    pub fn check(&self, run: Run, check: impl FnOnce(&mut dyn Scan) -> Outcome<()>) -> Outcome<()> {
        run.check(&self.pool, &mut |_| Ok(()))?;
        check(&mut RunScan::new(run, &self.pool, &self.reader))
    }
}

/// Checks that an insert into `table` refuses each of `keys`, which exist.
pub fn check_duplicates<'k>(
    db: &Database,
    table: &pando::Table,
    keys: impl Iterator<Item = &'k [u8]>,
) -> Outcome<()> {
    let mut tx = db.begin()?;
    for key in keys {
        match tx.insert(table, key, b"another") {
            Err(error) if error.kind() == pando::ErrorKind::Exists => {}
            Err(error) => return Err(error.into()),
            Ok(()) => ensure(false, || format!("the duplicate {key:02x?} was inserted"))?,
        }
    }
    tx.abort();
    Ok(())
}
