//! Tests with forged files: every checksum is correct, and no version of Pando has written such runs.

use crate::checkpoint::Step;
use crate::state::stack::{MOST_STACKED, Role, Stack, Stacked};
use crate::state::tables::Layout;
use crate::{Options, RequestedLayout, Span, Store, Table, Transaction, TransactionOptions};
use base::op::{Encoder, Op};
use base::sync::lock;
use base::{CommitTs, Error, ErrorKind, TableId};
use io::{Dir, MemDir};
use run::{Delta, Ranges, Residence, Run};
use std::sync::Arc;

fn options() -> Options {
    Options { page_bytes: Some(4096), memory_bytes: 4 << 20, ..Options::default() }
}

fn open(dir: &Arc<dyn Dir>) -> Result<Arc<Store>, Error> {
    crate::open_or_create(Arc::clone(dir), &options())
}

fn begin(store: &Arc<Store>) -> Transaction {
    Transaction::begin(store, TransactionOptions::default()).unwrap()
}

/// Returns a new database with an LSM table that has a run.
fn new() -> (Arc<dyn Dir>, Arc<Store>, Table) {
    let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
    let store = open(&dir).unwrap();
    let mut tx = begin(&store);
    let table = tx.create_table("t", RequestedLayout::Lsm).unwrap();
    tx.put(&table, b"key", b"value").unwrap();
    store.acknowledge(tx.apply().unwrap()).unwrap();
    while store.checkpoint().unwrap() {}
    (dir, store, table)
}

fn empty() -> Delta {
    let (records, ranges_run, filter) = (Run::EMPTY, Run::EMPTY, Run::EMPTY);
    Delta { records, ranges: Arc::default(), ranges_run, filter, residence: Residence::default() }
}

fn is_damage(opened: Result<Arc<Store>, Error>, what: &str) {
    let error = opened.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains(what), "{error}");
}

/// Makes a checkpoint in which the rows of the table are those of the stack that `forge` makes of its own.
fn forge_stack(store: &Store, table: &Table, forge: impl FnOnce(Vec<Stacked>) -> Vec<Stacked>) {
    let mut tx = store.begin_checkpoint().unwrap();
    let checkpoint = tx.as_mut().expect("there is something to absorb");
    while checkpoint.next_step() != Step::PhysicalRows {
        checkpoint.step().unwrap();
    }
    let Some(Layout::Lsm(stack)) = checkpoint.tables.get(table.id()) else { panic!("the table has a stack") };
    let forged = forge(stack.entries().to_vec());
    checkpoint.set_layout(table.id(), Stack::new(forged).map(Layout::Lsm));
    tx.unwrap().finish().unwrap();
}

/// Writes something for the next checkpoint to absorb.
fn write(store: &Arc<Store>, table: &Table) {
    let mut tx = begin(store);
    tx.put(table, b"other", b"value").unwrap();
    store.acknowledge(tx.apply().unwrap()).unwrap();
}

#[test]
fn a_stack_that_is_too_tall_is_damage() {
    for (height, is_legal) in [(MOST_STACKED, true), (MOST_STACKED + 1, false), (250, false)] {
        let (dir, store, table) = new();
        write(&store, &table);
        forge_stack(&store, &table, |mut entries| {
            let missing = height - entries.len();
            entries.splice(0..0, std::iter::repeat_with(|| Stacked::rests(empty())).take(missing));
            entries
        });
        store.close().unwrap();
        match is_legal {
            true => drop(open(&dir).unwrap().snapshot().unwrap().cursor(&table, Span::all())),
            false => is_damage(open(&dir), "more deltas than a table may have"),
        }
    }
}

#[test]
fn a_run_that_a_stack_has_twice_is_damage() {
    let (dir, store, table) = new();
    write(&store, &table);
    forge_stack(&store, &table, |entries| [&entries[..], &entries].concat());
    store.close().unwrap();
    is_damage(open(&dir), "where another run has its own");
}

#[test]
fn the_range_deletes_of_a_stack_have_a_limit() {
    let (dir, store, table) = new();
    write(&store, &table);
    let keys: Vec<[u8; 4]> = (0..8000_u32).map(u32::to_be_bytes).collect();
    let spans = keys.chunks_exact(2).map(|pair| (&pair[0][..], Some(&pair[1][..])));
    let ranges = Ranges::union(spans).unwrap();
    assert!(ranges.bytes() > 128 << 10);
    let birth = base::CheckpointNo(store.stats().unwrap().checkpoint + 1);
    let ranges_run = ranges.write(&store.pool, &store.space, birth).unwrap();
    let delta = Delta { ranges: Arc::new(ranges), ranges_run, ..empty() };
    forge_stack(&store, &table, |mut entries| {
        entries.insert(0, Stacked { delta, role: Role::Rests });
        entries
    });
    store.close().unwrap();
    is_damage(open(&dir), "the range deletes of a run take more than");
}

/// Appends records to the log, each of which attaches some runs.
fn forge_log(store: &Store, records: &[Vec<(TableId, [u8; Delta::BYTES])>]) {
    let last = store.clocks.applied();
    let mut end = store.log.end().lsn;
    for (ts, runs) in (last.0 + 1..).zip(records) {
        let mut record = Vec::new();
        let mut encoder = Encoder::begin(&mut record, CommitTs(ts), runs.len() as u64);
        for (table, delta) in runs {
            encoder.push(*table, Op::Attach { delta, extents: &[] });
        }
        store.reserve_log(&record).unwrap();
        let _committer = lock(&store.committer);
        store.log.reserve(record.len() as u64).unwrap();
        end = store.log.append_to_sync(&record).unwrap();
    }
    store.sync_log(end).unwrap();
}

#[test]
fn more_runs_of_a_table_than_a_commit_attaches_are_damage() {
    for count in [5, 1000] {
        let (dir, store, table) = new();
        forge_log(&store, &[vec![(table.id(), empty().encode()); count]]);
        store.close().unwrap();
        is_damage(open(&dir), "attached more than 4 runs");
    }
}

#[test]
fn a_run_that_a_commit_attaches_twice_is_damage() {
    let (dir, store, table) = new();
    let Some(Layout::Lsm(stack)) = store.layout_of(&table) else { panic!("the table has a stack") };
    let delta = stack.entries()[0].delta.encode();
    let others = (table.id().0 + 1..table.id().0 + 1000).map(TableId);
    forge_log(&store, &[others.map(|table| (table, delta)).collect()]);
    store.close().unwrap();
    is_damage(open(&dir), "where another run has its own");
}

/// However many runs the log attaches, a scan has room for all of them.
#[test]
fn a_replay_makes_room_for_attached_runs() {
    let (dir, store, table) = new();
    forge_log(&store, &vec![vec![(table.id(), empty().encode()); 4]; 100]);
    store.close().unwrap();
    let read_only = Options { read_only: true, ..options() };
    let error = crate::open(Arc::clone(&dir), &read_only).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!(error.to_string().contains("open the database for writing"), "{error}");
    let store = open(&dir).unwrap();
    let snapshot = store.snapshot().unwrap();
    let mut cursor = snapshot.cursor(&table, Span::all()).unwrap();
    assert_eq!(cursor.next().unwrap(), Some((&b"key"[..], &b"value"[..])));
    assert_eq!(snapshot.get(&table, b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// Inner pages of a forged catalog can lead to the same leaf again and again.
#[test]
fn rows_that_come_again_are_damage() {
    let mut rows = crate::state::tables::Rows::default();
    let row = |table: u32| Layout::BTree(Run::EMPTY).rows(TableId(table)).remove(0);
    for (table, is_legal) in [(16, true), (18, true), (17, false), (16, false)] {
        let (key, value) = row(table);
        assert_eq!(rows.push(&key, page::Value::Inline(&value)).is_ok(), is_legal, "table {table}");
    }
}
