//! Checks what a disk holds: it is opened, read completely, compared with the model, checked, and written to again.

use crate::history::Run;
use crate::model::{Bytes, Change, State};
use crate::perform::first_layout;
use crate::workload::TABLES;
use base::env::{Clock, Random};
use io::sim::SimDisk;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use store::relocate::Compaction;
use store::{Options, Store, Transaction, TransactionOptions};
use txn::{Durability, Isolation};

/// The result of opening an image.
#[derive(Debug)]
pub struct Recovered {
    /// The open database.
    pub store: Arc<Store>,
    /// The number of commits that it holds.
    pub commits: u64,
    /// The number of the disk's events until it was open.
    pub opened_at: usize,
    /// The number of checkpoints that the opening made.
    pub checkpoints: u64,
}

/// Opens the database on `disk` and compares its content with the state after the same number of commits. If a database
/// `exists` already, it must be found.
///
/// # Errors
/// A description of what is wrong.
pub fn recover(disk: &SimDisk, run: &Run, exists: bool, random: &mut Random) -> Result<Recovered, String> {
    // The clock of that opening does not matter: time continues from where the checkpoint knows that it was.
    let last_ms = run.options.clock.now_ms();
    let (clock, _) = Clock::set_by_hand(last_ms.saturating_sub(random.below(2_000)));
    let options = Options { clock, ..hurried(&run.options, random) };
    let opened = match exists {
        true => store::open(disk.dir(), &options),
        false => store::open_or_create(disk.dir(), &options),
    };
    let store = opened.map_err(|error| format!("{error:?}"))?;
    let (opened_at, checkpoints) =
        (disk.event_count(), store.stats().map_err(|error| format!("stats: {error:?}"))?.checkpoints);
    let snapshot = store.snapshot().map_err(|error| format!("the first snapshot: {error:?}"))?;
    let commits = snapshot.ts().0;
    let made = run.model.last();
    let state =
        run.model.at(commits).ok_or_else(|| format!("{commits} commits recovered, {made} were made"))?;
    state.check(&snapshot).map_err(|wrong| format!("as of commit {commits}: {wrong}"))?;
    if random.chance(1, 8) {
        check_gets(&snapshot, state, 1 + random.below(9) as usize)?;
        let before = run.model.at(random.below(commits + 1)).expect("states up to now are known");
        check_gone(&snapshot, state, before)?;
    }
    drop(snapshot);
    check_exactly(&store)?;
    let consumers = store.consumers().map_err(|error| format!("consumers: {error:?}"))?;
    if let Some(wrong) = consumers.iter().find(|consumer| consumer.is_lost || consumer.position > commits) {
        return Err(format!("{commits} commits recovered, and {wrong:?}"));
    }
    if random.chance(1, 4) {
        check_changes(&store, commits)?;
    }
    Ok(Recovered { store, commits, opened_at, checkpoints })
}

/// Reads all changes that are kept: commit after commit, up to the newest one.
fn check_changes(store: &Arc<Store>, commits: u64) -> Result<(), String> {
    let failed = |error: base::Error| format!("the changes: {error:?}");
    let mut feed = store.feed(None).map_err(failed)?;
    let mut last = feed.passed();
    while feed.advance().map_err(failed)? {
        let change = feed.change();
        if change.commit_number() != last + 1 {
            return Err(format!("the change after commit {last} is commit {}", change.commit_number()));
        }
        last += 1;
        let mut operations = change.operations().map_err(failed)?;
        while operations.next().map_err(failed)?.is_some() {}
    }
    if last == commits {
        Ok(())
    } else {
        Err(format!("{commits} commits recovered, the changes end at {last}"))
    }
}

/// Returns `options`, which sometimes seal memtables after a few records. A recovery then reaches the limit of waiting
/// memtables long before the log's end, and must make several checkpoints on its way.
pub fn hurried(options: &Options, random: &mut Random) -> Options {
    let seal_records = match random.chance(1, 3) {
        true => 1 + random.below(3),
        false => options.seal_records,
    };
    Options { seal_records, ..options.clone() }
}

/// Checks everything, and that each used unit is reached, so that none is leaked.
///
/// # Errors
/// A description of what is wrong.
pub fn check_exactly(store: &Store) -> Result<(), String> {
    match store.check() {
        Ok(report) if report.orphan_units == 0 => Ok(()),
        Ok(report) => Err(format!("check: {} units are in use and not reached", report.orphan_units)),
        Err(error) => Err(format!("check: {error:?}")),
    }
}

/// Opens the database on `disk` read-only, twice at once, and compares its content with the model. Returns how many
/// commits it holds. The disk must not see a single event.
///
/// # Errors
/// A description of what is wrong.
pub fn read_only(disk: &SimDisk, run: &Run) -> Result<u64, String> {
    let failed = |error: base::Error| format!("read-only: {error:?}");
    let events = disk.event_count();
    let options = Options { read_only: true, ..run.options.clone() };
    let beside = store::open(disk.dir(), &options).map_err(failed)?;
    let store = store::open(disk.dir(), &options).map_err(failed)?;
    let snapshot = store.snapshot().map_err(failed)?;
    let commits = snapshot.ts().0;
    let state = run.model.at(commits).ok_or_else(|| format!("read-only: {commits} commits"))?;
    state.check(&snapshot).map_err(|wrong| format!("read-only, as of commit {commits}: {wrong}"))?;
    drop(snapshot);
    check_exactly(&store)?;
    store.close().and_then(|()| beside.close()).map_err(failed)?;
    if disk.event_count() != events {
        return Err("read-only: the disk was written to".into());
    }
    Ok(commits)
}

/// Looks some keys up one by one, including one that does not exist.
fn check_gets(snapshot: &store::Snapshot, state: &State, step: usize) -> Result<(), String> {
    for (name, key, value) in state.sample(step, snapshot.time_ms()) {
        let failed = |error| format!("get from {name}: {error:?}");
        let table = snapshot.table(name).map_err(failed)?.ok_or(format!("get: table {name} is gone"))?;
        let found = snapshot.get(&table, key).map_err(failed)?;
        let absent = snapshot.get(&table, &[key, &b"\0"[..]].concat()).map_err(failed)?;
        if found.as_deref() != value.map(|value| &**value) || absent.is_some() {
            return Err(format!("get of {} from {name} is wrong", crate::model::text(key)));
        }
        let Some(value) = value else { continue };
        let tail = tail_of(snapshot, &table, key, value.len() / 3)
            .map_err(|error| format!("reader of {} from {name}: {error}", crate::model::text(key)))?;
        if tail != value[value.len() / 3..] {
            return Err(format!("a reader of {} from {name} is wrong", crate::model::text(key)));
        }
    }
    Ok(())
}

/// Looks up, one by one, keys that existed in `before` and were deleted since.
fn check_gone(snapshot: &store::Snapshot, state: &State, before: &State) -> Result<(), String> {
    let now = snapshot.time_ms();
    for (name, key, _) in before.sample(1, now) {
        if !state.has(name) || state.get(name, key, now).is_some() {
            continue;
        }
        let failed = |error| format!("get from {name}: {error:?}");
        let table = snapshot.table(name).map_err(failed)?.ok_or(format!("get: table {name} is gone"))?;
        if snapshot.get(&table, key).map_err(failed)?.is_some() {
            return Err(format!("get of {} from {name} finds what was deleted", crate::model::text(key)));
        }
    }
    Ok(())
}

/// Reads the value of `key` from byte `from` on with a value reader.
fn tail_of(
    snapshot: &store::Snapshot,
    table: &store::Table,
    key: &[u8],
    from: usize,
) -> std::io::Result<Vec<u8>> {
    let reader = snapshot.value_reader(table, key).map_err(std::io::Error::other)?;
    let mut reader = reader.ok_or_else(|| std::io::Error::other("the key is absent"))?;
    reader.seek(SeekFrom::Start(from as u64))?;
    let mut tail = Vec::new();
    reader.read_to_end(&mut tail)?;
    Ok(tail)
}

/// Continues from a recovered database: a commit, a checkpoint, a check, a close, an opening, and a read of everything.
///
/// # Errors
/// A description of what is wrong.
pub fn go_on(recovered: &Recovered, disk: &SimDisk, run: &Run) -> Result<(), String> {
    let failed = |error: base::Error| format!("going on: {error:?}");
    let Recovered { store, commits, .. } = recovered;
    let mut draft = run.model.at(*commits).cloned().unwrap_or_default();
    let options = TransactionOptions { durability: Durability::Sync, isolation: Isolation::Serializable };
    let mut tx = Transaction::begin(store, options).map_err(failed)?;
    let name = TABLES[*commits as usize % TABLES.len()];
    let table = match tx.table(name).map_err(failed)? {
        Some(table) => table,
        None => {
            let table = tx.create_table(name, first_layout(name)).map_err(failed)?;
            draft.change(&Change::Create(name, table.id().0, table.layout(), table.compression(), None))?;
            table
        }
    };
    let (key, value) = (Bytes::from(&b"afterwards"[..]), Bytes::from(vec![0xAF; 1500]));
    tx.put(&table, &key, &value).map_err(failed)?;
    let date = if draft.has_ttl_by_key(name) { u64::MAX } else { store.time_ms() };
    draft.change(&Change::Put(name, key, value, date))?;
    let applied = tx.apply().map_err(failed)?;
    let ts = store.acknowledge(applied).map_err(failed)?.0;
    if ts != commits + 1 {
        return Err(format!("going on: commit {ts} follows {commits}"));
    }
    store.checkpoint().map_err(failed)?;
    if commits % 2 == 0 {
        let mut compaction = Compaction::new();
        while let Some(round) = compaction.next_round(store).map_err(failed)? {
            round.finish().map_err(failed)?;
        }
    }
    draft.check(&store.snapshot().map_err(failed)?).map_err(|wrong| format!("going on: {wrong}"))?;
    check_exactly(store)?;
    store.close().map_err(failed)?;
    let again = store::open(disk.dir(), &run.options).map_err(failed)?;
    let checked = again.snapshot().map_err(failed).and_then(|snapshot| draft.check(&snapshot));
    again.close().map_err(failed)?;
    checked.map_err(|wrong| format!("going on, reopened: {wrong}"))
}
