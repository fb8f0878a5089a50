//! The operations and their data: 5,000 records of 116 bytes in pages, 500 in the memtable, an empty tree; a queue of
//! 100 records from which 5,000 were taken since the last checkpoint; 2,000 small range deletes in a memtable; and at
//! the end 500 records of 4,016 bytes in pages, and two tables of 2,000 records of 1,016 bytes for short scans, of
//! which a memtable has newer values for every fourth; a table of SQL, see `sql`; and a large transaction, see
//! `append`.

mod append;
mod ranges;
mod sql;

use clap::Parser;
use pando::{Database, Layout, Table, TableOptions, TransactionOptions};
use pando_bench::Outcome;
use pando_bench::bed::{Bed, EditorBed};
use pando_bench::records::{Records, permutation};
use pando_bench::settings::{Durability, Settings};
use run::Editor;
use std::hint::black_box;

const SEED: u64 = 7;
const RECORDS: u64 = 5_000;
const FRESH: u64 = 500;
/// The longest value that is stored in a page.
const LONG_BYTES: usize = pando::limits::max_inline_bytes(pando::limits::DEFAULT_PAGE_BYTES);
/// The number of records with such values.
const LONG: u64 = 500;
/// The number of records of each table of short scans, and the bytes of their values, as in YCSB.
const SHORT: u64 = 2_000;
const SHORT_VALUE_BYTES: usize = 1_000;
/// The number of records of a short scan.
const SHORT_SCAN: u64 = 50;
/// The number of records in a queue.
const QUEUED: u64 = 100;
/// The number of records in a batch.
const BATCH: u64 = 100;
/// The number of range deletes of a table.
const RANGES: u64 = 2_000;
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
/// Enough puts for the log's thread to look several times.
const MOST_WARM_UPS: u64 = 5_000;
/// More puts than the log's thread mostly needs for that. So the puts that are counted are mostly the same ones: some
/// others make the memtable grow.
const LEAST_WARM_UPS: u64 = 600;

/// The settings with the defaults of the command line.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    settings: Settings,
}

/// An operation.
pub struct Op {
    pub name: &'static str,
    /// The number of times that one call of `run` does the operation.
    pub times: u64,
    pub run: fn(&mut Bench, u64) -> Outcome<()>,
    /// Does the operation a few times, in a function of another name.
    pub warm_up: fn(&mut Bench) -> Outcome<()>,
}

/// The operations in the order in which they run. The number of commits in the warm-up of `put_sync` depends on the
/// log's thread, so every operation after it would find another memtable in each run. It is therefore the last one
/// except for those on long values, before which a checkpoint empties the memtable.
pub const OPS: &[Op] = &[
    Op { name: "begin_read", times: 2_000, run: begin_read, warm_up: |_| Ok(()) },
    Op { name: "get_hit", times: 1_000, run: get_hit, warm_up: read_all },
    Op { name: "get_miss", times: 1_000, run: get_miss, warm_up: read_all },
    Op { name: "get_memtable", times: 500, run: get_memtable, warm_up: |_| Ok(()) },
    Op { name: "ref_hit", times: 1_000, run: ref_hit, warm_up: read_all },
    Op { name: "ref_memtable", times: 500, run: ref_memtable, warm_up: |_| Ok(()) },
    Op { name: "scan", times: RECORDS, run: scan, warm_up: read_all },
    Op {
        name: "put_buffered",
        times: 500,
        run: put_buffered,
        warm_up: |bench| bench.put_one(Durability::Buffered),
    },
    Op { name: "queue_pop", times: 1_000, run: queue_pop, warm_up: pop_many },
    Op { name: "queue_first", times: 200, run: queue_first, warm_up: |bench| bench.first() },
    Op { name: "range_delete", times: 200, run: ranges::range_delete, warm_up: |_| Ok(()) },
    Op { name: "range_get", times: 1_000, run: ranges::range_get, warm_up: |_| Ok(()) },
    Op { name: "range_seek", times: 200, run: ranges::range_seek, warm_up: |_| Ok(()) },
    Op { name: "range_scan", times: 2 * RANGES, run: ranges::range_scan, warm_up: |_| Ok(()) },
    Op { name: "leaf_insert", times: RECORDS, run: load_leaves, warm_up: |_| Ok(()) },
    Op { name: "put_sync", times: 50, run: put_sync, warm_up: flush_often },
    Op { name: "get_long", times: LONG, run: get_long, warm_up: load_long },
    Op { name: "ref_long", times: LONG, run: ref_long, warm_up: |_| Ok(()) },
    Op { name: "short_seek", times: 200, run: short_seek, warm_up: load_short },
    Op { name: "short_scan", times: 200, run: short_scan, warm_up: |_| Ok(()) },
    Op { name: "short_lsm_seek", times: 200, run: short_lsm_seek, warm_up: load_short_lsm },
    Op { name: "short_lsm_scan", times: 200, run: short_lsm_scan, warm_up: |_| Ok(()) },
    Op { name: "batch_row", times: 20 * BATCH, run: batch_row, warm_up: begin_batches },
    Op { name: "sql_lookup", times: 500, run: sql::sql_lookup, warm_up: sql::load_rows },
    Op { name: "sql_update", times: 500, run: sql::sql_update, warm_up: sql::update_some },
    Op { name: "sql_insert", times: 10 * BATCH, run: sql::sql_insert, warm_up: sql::insert_some },
    Op { name: "append_row", times: 40_000, run: append::append_row, warm_up: |_| Ok(()) },
];

pub struct Bench {
    bed: Bed,
    editor: EditorBed,
    /// The table in pages.
    settled: Table,
    /// The table in the memtable.
    fresh: Table,
    /// The table whose values have [`LONG_BYTES`]. A warm-up creates it.
    long: Option<Table>,
    /// The tables of short scans, of either layout. Warm-ups create them.
    short: Option<Table>,
    short_lsm: Option<Table>,
    /// The table of batches, and the number of its records. The warm-up creates it.
    batched: Option<Table>,
    batched_records: u64,
    /// The table of SQL. A warm-up creates it.
    rows: Option<sql::Rows>,
    queue: Table,
    /// The number of records that were taken from the queue.
    taken: u64,
    /// The table of which a range delete removed eight of every ten records.
    ranged: Table,
    keys: Vec<Vec<u8>>,
    absent: Vec<Vec<u8>>,
    inserted: page::EditCounters,
}

impl Bench {
    pub fn new() -> Outcome<Self> {
        let settings = Flags::parse_from(["guard", "--seed", "7", "--memory", "32MiB"]).settings;
        let bed = Bed::new(&settings, Durability::Buffered)?;
        let records = Records::new(SEED, KEY_BYTES, VALUE_BYTES);
        let key = |number: u32| {
            let mut key = Vec::new();
            records.key(number.into(), &mut key);
            key
        };
        let (settled, fresh) = (bed.db.ensure_table("settled")?, bed.db.ensure_table("fresh")?);
        let keys: Vec<Vec<u8>> = permutation(RECORDS as u32, SEED).into_iter().map(key).collect();
        let absent = (RECORDS as u32..2 * RECORDS as u32).map(key).collect();
        let value = [1; VALUE_BYTES];
        bed.db.write(|tx| keys.iter().try_for_each(|key| tx.put(&settled, key, &value)))?;
        bed.db.checkpoint()?;
        bed.db.write(|tx| keys[..FRESH as usize].iter().try_for_each(|key| tx.put(&fresh, key, &value)))?;
        let (queue, ranged) = (bed.db.ensure_table("queue")?, bed.db.ensure_table("ranged")?);
        bed.db.write(|tx| (0..QUEUED).try_for_each(|i| tx.put(&queue, &i.to_be_bytes(), &value)))?;
        bed.db.write(|tx| (0..10 * RANGES).try_for_each(|i| tx.put(&ranged, &i.to_be_bytes(), b"value")))?;
        for first in (0..10 * RANGES).step_by(10) {
            let (start, end) = ((first + 1).to_be_bytes(), (first + 9).to_be_bytes());
            bed.db.write(|tx| tx.delete_range(&ranged, start..end))?;
        }
        let (editor, inserted) = (EditorBed::new(&settings)?, page::EditCounters::default());
        Ok(Bench {
            bed,
            editor,
            settled,
            fresh,
            long: None,
            short: None,
            short_lsm: None,
            batched: None,
            batched_records: 0,
            rows: None,
            queue,
            taken: 0,
            ranged,
            keys,
            absent,
            inserted,
        })
    }

    /// Returns the engine's counters that must not grow between versions.
    pub fn counters(&self) -> Outcome<[(&'static str, u64); 6]> {
        let (stats, inserted) = (self.bed.db.stats()?, &self.inserted);
        Ok([
            ("flushes", stats.log_flushes),
            ("log_bytes", stats.log_appended_bytes),
            ("pool_faults", stats.pool_faults),
            ("page_compactions", inserted.compactions),
            ("page_allocator_failures", inserted.allocator_failures),
            ("page_splits", inserted.splits),
        ])
    }

    fn db(&self) -> &Database {
        &self.bed.db
    }

    fn put(&self, durability: Durability, key: &[u8]) -> Outcome<()> {
        let options = TransactionOptions { durability: durability.into(), ..self.db().transaction_options() };
        let mut tx = self.db().begin_with(&options)?;
        tx.put(&self.fresh, key, &[2; VALUE_BYTES])?;
        tx.commit()?;
        Ok(())
    }

    /// Puts a batch of ascending keys in one transaction.
    fn put_batch(&mut self) -> Outcome<()> {
        let options =
            TransactionOptions { durability: Durability::Buffered.into(), ..self.db().transaction_options() };
        let table = self.batched.as_ref().expect("a warm-up creates it");
        let mut tx = self.db().begin_with(&options)?;
        for record in self.batched_records..self.batched_records + BATCH {
            tx.put(table, record.to_be_bytes(), &[4; VALUE_BYTES])?;
        }
        tx.commit()?;
        self.batched_records += BATCH;
        Ok(())
    }

    /// Takes the first record of the queue, and puts one after the last.
    fn pop(&mut self) -> Outcome<()> {
        let options =
            TransactionOptions { durability: Durability::Buffered.into(), ..self.db().transaction_options() };
        let mut tx = self.db().begin_with(&options)?;
        let first = self.taken.to_be_bytes();
        assert!(tx.cursor(&self.queue, ..)?.next()?.is_some_and(|(key, _)| key == first));
        tx.delete(&self.queue, &first)?;
        tx.put(&self.queue, &(self.taken + QUEUED).to_be_bytes(), &[3; VALUE_BYTES])?;
        tx.commit()?;
        self.taken += 1;
        Ok(())
    }

    fn first(&self) -> Outcome<()> {
        let snapshot = self.db().snapshot()?;
        let mut cursor = snapshot.cursor(&self.queue, ..)?;
        assert!(black_box(cursor.next()?).is_some_and(|(key, _)| key == self.taken.to_be_bytes()));
        Ok(())
    }

    /// Creates a table of short scans. A checkpoint follows the load, and each of `smaller` loads of every eighth
    /// record. Then every fourth record gets a new value.
    fn load_short(&self, name: &str, layout: Layout, smaller: usize) -> Outcome<Table> {
        let short = self.db().ensure_table_with(name, &TableOptions::with_layout(layout))?;
        let put = |first: usize, step: usize| {
            let keys = self.keys[..SHORT as usize].iter().skip(first).step_by(step);
            self.db().write(|tx| keys.clone().try_for_each(|key| tx.put(&short, key, [5; SHORT_VALUE_BYTES])))
        };
        put(0, 1)?;
        self.db().checkpoint()?;
        for delta in 0..smaller {
            put(delta + 1, 8)?;
            self.db().checkpoint()?;
        }
        put(0, 4)?;
        self.scan_short(Some(&short), SHORT, SHORT_SCAN)?;
        Ok(short)
    }

    /// Scans `length` records from each of the first `times` keys.
    #[inline(always)]
    fn scan_short(&self, short: Option<&Table>, times: u64, length: u64) -> Outcome<()> {
        let short = short.expect("its warm-up made it");
        for key in &self.keys[..times as usize] {
            let snapshot = self.db().snapshot()?;
            let mut cursor = snapshot.cursor(short, key..)?;
            for _ in 0..length {
                if black_box(cursor.next()?).is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn put_one(&self, durability: Durability) -> Outcome<()> {
        self.put(durability, &self.keys[0])
    }
}

/// Puts until the log, after many flushes, has switched to a segment that makes them cheap. That segment takes one
/// block more, which the log's thread writes when it next looks, and which would otherwise be counted with the measured
/// puts. The same holds for the old segment's last flush, which the last put here makes.
fn flush_often(bench: &mut Bench) -> Outcome<()> {
    let blocks_before = bench.db().stats()?.log_appends;
    for puts in 1..MOST_WARM_UPS {
        bench.put_one(Durability::Sync)?;
        if puts >= LEAST_WARM_UPS && bench.db().stats()?.log_appends > blocks_before + puts {
            break;
        }
    }
    bench.put_one(Durability::Sync)
}

fn pop_many(bench: &mut Bench) -> Outcome<()> {
    (0..RECORDS).try_for_each(|_| bench.pop())
}

fn read_all(bench: &mut Bench) -> Outcome<()> {
    let snapshot = bench.db().snapshot()?;
    let mut cursor = snapshot.cursor(&bench.settled, ..)?;
    while cursor.next()?.is_some() {}
    Ok(())
}

fn load_long(bench: &mut Bench) -> Outcome<()> {
    let long = bench.db().ensure_table("long")?;
    let keys = &bench.keys[..LONG as usize];
    bench.db().write(|tx| keys.iter().try_for_each(|key| tx.put(&long, key, [4; LONG_BYTES])))?;
    bench.db().checkpoint()?;
    bench.long = Some(long);
    get_long(bench, LONG)
}

fn load_short(bench: &mut Bench) -> Outcome<()> {
    bench.short = Some(bench.load_short("short", Layout::BTree, 0)?);
    Ok(())
}

fn load_short_lsm(bench: &mut Bench) -> Outcome<()> {
    bench.short_lsm = Some(bench.load_short("short_lsm", Layout::Lsm, 2)?);
    Ok(())
}

#[inline(never)]
fn begin_read(bench: &mut Bench, times: u64) -> Outcome<()> {
    for _ in 0..times {
        drop(black_box(bench.db().snapshot()?));
    }
    Ok(())
}

#[inline(never)]
fn get_hit(bench: &mut Bench, times: u64) -> Outcome<()> {
    let snapshot = bench.db().snapshot()?;
    for key in &bench.keys[..times as usize] {
        assert!(black_box(snapshot.get(&bench.settled, key)?).is_some());
    }
    Ok(())
}

#[inline(never)]
fn get_miss(bench: &mut Bench, times: u64) -> Outcome<()> {
    let snapshot = bench.db().snapshot()?;
    for key in &bench.absent[..times as usize] {
        assert!(black_box(snapshot.get(&bench.settled, key)?).is_none());
    }
    Ok(())
}

#[inline(never)]
fn get_memtable(bench: &mut Bench, times: u64) -> Outcome<()> {
    let snapshot = bench.db().snapshot()?;
    for key in &bench.keys[..times as usize] {
        assert!(black_box(snapshot.get(&bench.fresh, key)?).is_some());
    }
    Ok(())
}

#[inline(never)]
fn get_long(bench: &mut Bench, times: u64) -> Outcome<()> {
    let long = bench.long.as_ref().expect("its warm-up made it");
    let snapshot = bench.db().snapshot()?;
    for key in &bench.keys[..times as usize] {
        assert!(black_box(snapshot.get(long, key)?).is_some());
    }
    Ok(())
}

#[inline(never)]
fn ref_hit(bench: &mut Bench, times: u64) -> Outcome<()> {
    let snapshot = bench.db().snapshot()?;
    for key in &bench.keys[..times as usize] {
        assert!(black_box(snapshot.get_ref(&bench.settled, key)?.as_deref()).is_some());
    }
    Ok(())
}

#[inline(never)]
fn ref_memtable(bench: &mut Bench, times: u64) -> Outcome<()> {
    let snapshot = bench.db().snapshot()?;
    for key in &bench.keys[..times as usize] {
        assert!(black_box(snapshot.get_ref(&bench.fresh, key)?.as_deref()).is_some());
    }
    Ok(())
}

#[inline(never)]
fn ref_long(bench: &mut Bench, times: u64) -> Outcome<()> {
    let long = bench.long.as_ref().expect("its warm-up made it");
    let snapshot = bench.db().snapshot()?;
    for key in &bench.keys[..times as usize] {
        assert!(black_box(snapshot.get_ref(long, key)?.as_deref()).is_some());
    }
    Ok(())
}

#[inline(never)]
fn scan(bench: &mut Bench, times: u64) -> Outcome<()> {
    let snapshot = bench.db().snapshot()?;
    let mut cursor = snapshot.cursor(&bench.settled, ..)?;
    let mut seen = 0;
    while black_box(cursor.next()?).is_some() {
        seen += 1;
    }
    assert_eq!(seen, times);
    Ok(())
}

#[inline(never)]
fn short_seek(bench: &mut Bench, times: u64) -> Outcome<()> {
    bench.scan_short(bench.short.as_ref(), times, 1)
}

#[inline(never)]
fn short_scan(bench: &mut Bench, times: u64) -> Outcome<()> {
    bench.scan_short(bench.short.as_ref(), times, SHORT_SCAN)
}

#[inline(never)]
fn short_lsm_seek(bench: &mut Bench, times: u64) -> Outcome<()> {
    bench.scan_short(bench.short_lsm.as_ref(), times, 1)
}

#[inline(never)]
fn short_lsm_scan(bench: &mut Bench, times: u64) -> Outcome<()> {
    bench.scan_short(bench.short_lsm.as_ref(), times, SHORT_SCAN)
}

#[inline(never)]
fn put_buffered(bench: &mut Bench, times: u64) -> Outcome<()> {
    bench.keys[..times as usize].iter().try_for_each(|key| bench.put(Durability::Buffered, key))
}

#[inline(never)]
fn put_sync(bench: &mut Bench, times: u64) -> Outcome<()> {
    bench.keys[..times as usize].iter().try_for_each(|key| bench.put(Durability::Sync, key))
}

fn begin_batches(bench: &mut Bench) -> Outcome<()> {
    bench.batched = Some(bench.db().ensure_table("batched")?);
    bench.put_batch()
}

#[inline(never)]
fn batch_row(bench: &mut Bench, times: u64) -> Outcome<()> {
    (0..times / BATCH).try_for_each(|_| bench.put_batch())
}

#[inline(never)]
fn queue_pop(bench: &mut Bench, times: u64) -> Outcome<()> {
    (0..times).try_for_each(|_| bench.pop())
}

#[inline(never)]
fn queue_first(bench: &mut Bench, times: u64) -> Outcome<()> {
    (0..times).try_for_each(|_| bench.first())
}

fn load_leaves(bench: &mut Bench, times: u64) -> Outcome<()> {
    let keys = &bench.keys;
    let loaded = bench.editor.load(|editor| leaf_insert(editor, keys))?;
    bench.inserted = loaded.counters;
    bench.editor.check(loaded.run, |scan| {
        let mut seen = 0;
        while scan.step()?.is_some() {
            seen += 1;
        }
        assert_eq!(seen, times);
        Ok(())
    })
}

#[inline(never)]
fn leaf_insert(editor: &mut Editor<'_>, keys: &[Vec<u8>]) -> Outcome<()> {
    for key in keys {
        assert!(editor.insert(key, &[1; VALUE_BYTES])?);
    }
    Ok(())
}
