//! `btree-insert`: unique inserts in random order, in three kinds of transaction.
//!
//! * Keys: a random permutation of 0..n (1,000,000), 4 bytes, big-endian. A row is its key alone.
//! * Every insert refuses a duplicate; a sample is tried afterwards. One thread. The table is created inside the timer.
//! * `none`: directly into the tree through the run's editor, without a log. Its second row adds the write-out and a
//!   sync.
//! * `single`: one transaction for all. `per-insert`: one transaction each, `buffered` by default. The second row adds
//!   a checkpoint.
//! * `BTreeMap<u32, ()>`: the same keys as integers without values, in the same run: the smallest representation in
//!   memory. `BTreeMap<u64, u64>`: with the 16 bytes that a slot and a cell take here.

use super::cases::{cases, duplicate_step};
use crate::bed::{Bed, EditorBed};
use crate::measure::Meter;
use crate::records::{check_ascending, permutation};
use crate::report::Row;
use crate::settings::{Api, Durability, Path, Settings, Txn};
use crate::sink::Sink;
use crate::{Failure, Outcome, ensure};
use pando::{Database, ErrorKind};
use std::collections::BTreeMap;

pub(super) const NAME: &str = "btree-insert";
const DEFAULT_N: u64 = 1_000_000;

pub(super) fn run(settings: &Settings) -> Outcome<Vec<Row>> {
    let n = u32::try_from(settings.n.unwrap_or(DEFAULT_N));
    let n =
        n.map_err(|_| Failure::Usage("the keys of btree-insert have 32 bits: --n is too large".into()))?;
    let keys = permutation(n, settings.seed);
    let modes = match (settings.txn, settings.path) {
        (Some(mode), _) => vec![mode],
        (None, Some(Path::Editor)) => vec![Txn::None],
        (None, Some(Path::Txn)) => vec![Txn::Single, Txn::PerInsert],
        // The editor does not support rows.
        (None, None) if settings.api != Api::Bytes => vec![Txn::Single, Txn::PerInsert],
        (None, None) => vec![Txn::None, Txn::Single, Txn::PerInsert],
    };
    let wide = |&key: &u32| (u64::from(key), u64::from(key));
    let mut rows = vec![
        reference("BTreeMap<u32, ()>", keys.iter().map(|&key| (key, ())))?,
        reference("BTreeMap<u64, u64>", keys.iter().map(wide))?,
    ];
    for mode in modes {
        rows.extend(match mode {
            Txn::None => editor(settings, &keys)?,
            Txn::Single => {
                let durability = settings.durability.unwrap_or(Durability::Sync);
                transactions(settings, &keys, "single", durability, insert_in_one)?
            }
            Txn::PerInsert => {
                let durability = settings.durability.unwrap_or(Durability::Buffered);
                transactions(settings, &keys, "per-insert", durability, insert_in_many)?
            }
        });
    }
    Ok(rows)
}

/// Measures a map that stores what `entries` yields. The name of the row has its types.
fn reference<K: Ord, V>(case: &str, entries: impl ExactSizeIterator<Item = (K, V)>) -> Outcome<Row> {
    let n = entries.len();
    let mut meter = Meter::start(None)?;
    let mut map = BTreeMap::new();
    let mut duplicates = 0;
    for (key, value) in entries {
        duplicates += u64::from(map.insert(key, value).is_some());
    }
    let usage = meter.lap()?;
    ensure(duplicates == 0 && map.len() == n, || "the keys have duplicates".into())?;
    Ok(Row::new(NAME, case, "none", n as u64, usage))
}

fn editor(settings: &Settings, keys: &[u32]) -> Outcome<Vec<Row>> {
    let mut bed = EditorBed::new(settings)?;
    let loaded = bed.load(|editor| {
        for key in keys {
            let inserted = editor.insert(&key.to_be_bytes(), b"")?;
            ensure(inserted, || format!("{key} was there before it was inserted"))?;
        }
        Ok(())
    })?;
    bed.check(loaded.run, |scan| check_ascending(keys.len() as u64, scan, make))?;
    let sample: Vec<_> =
        keys.iter().step_by(duplicate_step(keys.len())).map(|key| key.to_be_bytes()).collect();
    bed.check_duplicates(loaded.run, sample.iter().map(|key| &key[..]))?;
    let laps = cases("none").into_iter().zip([loaded.inserted, loaded.synced]);
    Ok(laps
        .map(|(case, usage)| Row::new(NAME, case, "none", keys.len() as u64, usage).edits(&loaded.counters))
        .collect())
}

type Insert = fn(&Settings, &Database, &[u32]) -> Outcome<Sink>;

fn transactions(
    settings: &Settings,
    keys: &[u32],
    name: &str,
    durability: Durability,
    insert: Insert,
) -> Outcome<Vec<Row>> {
    let bed = Bed::new(settings, durability)?;
    let mut meter = Meter::start(Some(&bed.db))?;
    let sink = insert(settings, &bed.db, keys)?;
    let inserted = meter.lap()?;
    bed.db.checkpoint()?;
    let absorbed = meter.lap()?;
    let counters = bed.db.stats()?.edits;
    let snapshot = bed.db.snapshot()?;
    let make = |id: u64, key: &mut Vec<u8>, value: &mut Vec<u8>| {
        sink.record(id, &(id as u32).to_be_bytes(), None, key, value);
    };
    check_ascending(keys.len() as u64, &mut snapshot.cursor(sink.table(), ..)?, make)?;
    let mut tx = bed.db.begin()?;
    for &key in keys.iter().step_by(duplicate_step(keys.len())) {
        match sink.insert(&mut tx, key.into(), &key.to_be_bytes(), None) {
            Err(error) if error.kind() == ErrorKind::Exists => {}
            Err(error) => return Err(error.into()),
            Ok(()) => ensure(false, || format!("the duplicate {key} was inserted"))?,
        }
    }
    tx.abort();
    let row = |case: String, usage| Row::new(NAME, case, durability.name(), keys.len() as u64, usage);
    let [without, with] = cases(name).map(|case| sink.case(case.as_ref()));
    Ok(vec![row(without, inserted), row(with, absorbed).edits(&counters)])
}

fn insert_in_one(settings: &Settings, db: &Database, keys: &[u32]) -> Outcome<Sink> {
    #[cfg(feature = "sql")]
    if settings.api == Api::Sql {
        return crate::through_sql::insert_all(db, keys, true);
    }
    let mut tx = db.begin()?;
    let sink = Sink::create(&mut tx, settings, false)?;
    for &key in keys {
        sink.insert(&mut tx, key.into(), &key.to_be_bytes(), None)?;
    }
    tx.commit()?;
    Ok(sink)
}

fn insert_in_many(settings: &Settings, db: &Database, keys: &[u32]) -> Outcome<Sink> {
    #[cfg(feature = "sql")]
    if settings.api == Api::Sql {
        return crate::through_sql::insert_all(db, keys, false);
    }
    let sink = Sink::new(db, settings, false)?;
    for &key in keys {
        let mut tx = db.begin()?;
        sink.insert(&mut tx, key.into(), &key.to_be_bytes(), None)?;
        tx.commit()?;
    }
    Ok(sink)
}

fn make(i: u64, key: &mut Vec<u8>, _: &mut Vec<u8>) {
    key.extend_from_slice(&(i as u32).to_be_bytes());
}
