//! `leaf-edit`: in-place edits of leaves.
//!
//! * Keys 0..n (10,000), 64-bit big-endian, ascending and shuffled; the value is the key.
//! * Pages of 8 KiB. Memory of 8 MiB is all that the database has: transaction, log and memtable use it too. No
//!   checkpoint begins automatically, because its flush could fall into the timer.
//! * `txn`: one write transaction creates the table and inserts all keys, with one durable commit and one flush inside
//!   the timer. Its second row adds a checkpoint, and shows its work inside pages.
//! * `editor`: every key in the given order directly through the run's editor, which counts the work inside pages. Its
//!   second row adds the write-out and a sync.

use super::cases::{cases, duplicate_step};
use crate::bed::{Bed, EditorBed, check_duplicates};
use crate::measure::Meter;
use crate::records::{check_ascending, permutation};
use crate::report::Row;
use crate::settings::{Durability, Path, Settings};
use crate::{Failure, Outcome, ensure};

pub(super) const NAME: &str = "leaf-edit";
const DEFAULT_N: u64 = 10_000;
const PAGE_BYTES: usize = 8 << 10;
const MEMORY_BYTES: usize = 8 << 20;
/// More than a memtable of all keys takes.
const NO_CHECKPOINT_BYTES: usize = 1 << 30;

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let n = u32::try_from(settings.n.unwrap_or(DEFAULT_N));
    let n = n.map_err(|_| Failure::Usage("leaf-edit keeps its keys in memory: --n is too large".into()))?;
    let mut settings = settings.clone();
    settings.page_size.get_or_insert(PAGE_BYTES);
    settings.memory.get_or_insert(MEMORY_BYTES);
    let orders = [("ascending", (0..n).collect()), ("shuffled", permutation(n, settings.seed))];
    let mut rows = Vec::new();
    for (order, numbers) in orders {
        let keys: Vec<[u8; 8]> = numbers.into_iter().map(|number| u64::from(number).to_be_bytes()).collect();
        if settings.path != Some(Path::Txn) {
            rows.extend(editor(&settings, &keys, order)?);
        }
        if settings.path != Some(Path::Editor) {
            rows.extend(transaction(&settings, &keys, order)?);
        }
    }
    Ok(rows)
}

fn editor(settings: &Settings, keys: &[[u8; 8]], order: &str) -> Outcome<Vec<Row>> {
    let mut bed = EditorBed::new(settings)?;
    let loaded = bed.load(|editor| {
        for key in keys {
            let inserted = editor.insert(key, key)?;
            ensure(inserted, || format!("{key:02x?} was there before it was inserted"))?;
        }
        Ok(())
    })?;
    bed.check(loaded.run, |scan| check_ascending(keys.len() as u64, scan, make))?;
    let sample = keys.iter().step_by(duplicate_step(keys.len()));
    bed.check_duplicates(loaded.run, sample.map(|key| &key[..]))?;
    let laps = cases(&format!("editor, {order}")).into_iter().zip([loaded.inserted, loaded.synced]);
    Ok(laps
        .map(|(case, usage)| Row::new(NAME, case, "none", keys.len() as u64, usage).edits(&loaded.counters))
        .collect())
}

fn transaction(settings: &Settings, keys: &[[u8; 8]], order: &str) -> Outcome<Vec<Row>> {
    let durability = settings.durability.unwrap_or(Durability::Sync);
    let bed = Bed::with(settings, durability, |builder| builder.checkpoint_bytes(NO_CHECKPOINT_BYTES))?;
    let mut meter = Meter::start(Some(&bed.db))?;
    let mut tx = bed.db.begin()?;
    let table = tx.create_table("rows", &settings.table_options())?;
    for key in keys {
        tx.insert(&table, key, key)?;
    }
    tx.commit()?;
    let committed = meter.lap()?;
    bed.db.checkpoint()?;
    let absorbed = meter.lap()?;
    let counters = bed.db.stats()?.edits;
    let snapshot = bed.db.snapshot()?;
    check_ascending(keys.len() as u64, &mut snapshot.cursor(&table, ..)?, make)?;
    let sample = keys.iter().step_by(duplicate_step(keys.len()));
    check_duplicates(&bed.db, &table, sample.map(|key| &key[..]))?;
    if durability == Durability::Sync {
        let flushes = committed.flushes;
        ensure(flushes == Some(1), || format!("one durable commit took {flushes:?} flushes"))?;
    }
    let row = |case, usage| Row::new(NAME, case, durability.name(), keys.len() as u64, usage);
    let [without, with] = cases(&format!("txn, {order}"));
    Ok(vec![row(without, committed), row(with, absorbed).edits(&counters)])
}

fn make(i: u64, key: &mut Vec<u8>, value: &mut Vec<u8>) {
    key.extend_from_slice(&i.to_be_bytes());
    value.extend_from_slice(&i.to_be_bytes());
}
