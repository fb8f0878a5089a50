//! Every call of the library in random order, against ordered maps.
//!
//! Pages, memtables and log segments are tiny, so that everything crosses seals, checkpoints and reopenings. A failure
//! names its seed; `PANDO_SEEDS=1000` runs more of them, `PANDO_SEED=7`
//! begins at one.

use crate::support::{dir_of, small};
use base::env::Random;
use pando::{
    Database, Durability, ErrorKind, Isolation, Layout, Result, Snapshot, Span, Table, TableOptions,
    Transaction,
};
use pando::{TransactionOptions, limits};
use std::collections::BTreeMap;
use std::ops::Bound;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;
type Model = BTreeMap<String, Records>;

const NAMES: [&str; 4] = ["a", "b", "c", "another"];

struct World {
    random: Random,
    /// Beyond the seed's number the contents of values only have to differ.
    serial: u64,
    /// Half of the runs delete ranges; the others can be held to exact counts.
    drops_ranges: bool,
}

impl World {
    fn chance(&mut self, n: u64, of: u64) -> bool {
        self.random.chance(n, of)
    }

    fn layout(&mut self) -> Layout {
        Layout::ALL[self.random.below(2) as usize]
    }

    fn key(&mut self) -> Vec<u8> {
        let longest = limits::max_key_bytes(4096);
        let len = match self.random.below(40) {
            0 => longest,
            1 => self.random.below(longest as u64) as usize,
            _ => self.random.below(4) as usize,
        };
        let letters = [0, 1, b'a', b'b', b'c', b'x', 0xfe, 0xff];
        let filling = letters[self.random.below(8) as usize];
        let mut key = vec![filling; len];
        key.iter_mut().take(3).for_each(|byte| *byte = letters[self.random.below(8) as usize]);
        key
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.random.below(60) {
            0 => 20_000,
            1..4 => 1500,
            4..8 => 0,
            _ => self.random.below(120) as usize,
        };
        self.serial += 1;
        let serial = self.serial.to_le_bytes();
        (0..len).map(|i| serial[i % 8].wrapping_add(i as u8)).collect()
    }

    fn span(&mut self) -> Span {
        let bound = |world: &mut World| match world.random.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(world.key()),
            _ => Bound::Excluded(world.key()),
        };
        match self.random.below(6) {
            0 => Span::all(),
            1 => Span::prefix(&self.key()[..].iter().copied().take(2).collect::<Vec<_>>()),
            _ => Span::from((bound(self), bound(self))),
        }
    }
}

fn within<'m>(records: &'m Records, span: &Span) -> Vec<(&'m Vec<u8>, &'m Vec<u8>)> {
    let inside = |key: &[u8]| key >= span.start() && span.end().is_none_or(|end| key < end);
    records.iter().filter(|(key, _)| inside(key)).collect()
}

/// Where a cursor stands in the model.
#[derive(Clone, Debug)]
enum Place {
    Fresh,
    On(Vec<u8>),
    Before,
    After,
}

impl Place {
    fn next(&self, records: &Records, span: &Span) -> Place {
        let inside = within(records, span);
        let found = match self {
            Place::Fresh | Place::Before => inside.first(),
            Place::On(at) => inside.iter().find(|(key, _)| *key > at),
            Place::After => None,
        };
        found.map_or(Place::After, |(key, _)| Place::On(key.to_vec()))
    }

    fn prev(&self, records: &Records, span: &Span) -> Place {
        let inside = within(records, span);
        let found = match self {
            Place::Fresh | Place::After => inside.last(),
            Place::On(at) => inside.iter().rfind(|(key, _)| *key < at),
            Place::Before => None,
        };
        found.map_or(Place::Before, |(key, _)| Place::On(key.to_vec()))
    }

    fn seek(key: &[u8], records: &Records, span: &Span) -> Place {
        let found = within(records, span).into_iter().find(|(found, _)| &found[..] >= key);
        found.map_or(Place::After, |(key, _)| Place::On(key.to_vec()))
    }

    fn record<'m>(&self, records: &'m Records) -> Option<(&'m [u8], &'m [u8])> {
        let Place::On(key) = self else { return None };
        records.get_key_value(key).map(|(key, value)| (&key[..], &value[..]))
    }
}

/// What snapshots and transactions both can do.
macro_rules! read_calls {
    ($name:ident, $reader:ty) => {
        fn $name(world: &mut World, reader: &$reader, table: &Table, records: &Records) -> Result<()> {
            let key = world.key();
            let expected = records.get(&key);
            assert_eq!(reader.get(table, &key)?.as_ref(), expected);
            assert_eq!(reader.get_with(table, &key, <[u8]>::to_vec)?.as_ref(), expected);
            assert_eq!(reader.contains(table, &key)?, expected.is_some());
            let keys = [world.key(), key, world.key()];
            let expected: Vec<_> = keys.iter().map(|key| records.get(key).cloned()).collect();
            assert_eq!(reader.multi_get(table, &keys)?, expected);

            let span = world.span();
            let mut left = std::collections::VecDeque::from(within(records, &span));
            let mut range = reader.range(table, span.clone())?;
            let ends = world.random.next_u64();
            for step in 0.. {
                let forward = match ends % 3 {
                    0 => true,
                    1 => false,
                    _ => ends >> (step % 60) & 4 == 0,
                };
                let (found, expected) = if forward {
                    (range.next(), left.pop_front())
                } else {
                    (range.next_back(), left.pop_back())
                };
                let found = found.transpose()?;
                assert_eq!(found.as_ref().map(|(key, value)| (key, value)), expected, "{span:?}");
                if found.is_none() {
                    break;
                }
            }

            let mut cursor = reader.cursor(table, span.clone())?;
            let mut place = Place::Fresh;
            for _ in 0..world.random.below(12) {
                let found = match world.random.below(5) {
                    0 => {
                        let key = world.key();
                        place = Place::seek(&key, records, &span);
                        cursor.seek(&key)?
                    }
                    1 | 2 => {
                        place = place.prev(records, &span);
                        cursor.prev()?
                    }
                    _ => {
                        place = place.next(records, &span);
                        cursor.next()?
                    }
                };
                assert_eq!(found, place.record(records), "{span:?} {place:?}");
                assert_eq!(cursor.current(), place.record(records));
            }
            let prefix: Vec<u8> = world.key().into_iter().take(2).collect();
            let expected = records.iter().filter(|(key, _)| key.starts_with(&prefix)).count();
            assert_eq!(reader.prefix(table, &prefix)?.count(), expected);
            Ok(())
        }
    };
}

read_calls!(read_snapshot, Snapshot);
read_calls!(read_transaction, Transaction);

/// Puts and deletes while scanning.
fn scan_and_write(
    world: &mut World,
    tx: &mut Transaction,
    table: &Table,
    records: &mut Records,
) -> Result<()> {
    let span = world.span();
    let mut cursor = tx.cursor_mut(table, span.clone())?;
    let mut place = Place::Fresh;
    let mostly_forward = world.chance(1, 2);
    for _ in 0..world.random.below(40) {
        let found = match world.random.below(12) {
            0 => {
                let key = world.key();
                place = Place::seek(&key, records, &span);
                cursor.seek(&key)?
            }
            1 => {
                let (key, value) = (world.key(), world.value());
                cursor.transaction().put(table, &key, &value)?;
                records.insert(key, value);
                continue;
            }
            n if (n < 10) == mostly_forward => {
                place = place.next(records, &span);
                cursor.next()?
            }
            _ => {
                place = place.prev(records, &span);
                cursor.prev()?
            }
        };
        assert_eq!(found, place.record(records), "{span:?} {place:?}");
        let Place::On(key) = &place else { continue };
        match world.random.below(4) {
            0 => {
                let value = world.value();
                cursor.put(&value)?;
                records.insert(key.clone(), value);
                assert_eq!(cursor.current(), place.record(records));
            }
            1 => {
                cursor.delete()?;
                records.remove(key);
                assert_eq!(cursor.current(), None);
            }
            _ => {}
        }
    }
    Ok(())
}

fn write_once(world: &mut World, tx: &mut Transaction, table: &Table, records: &mut Records) -> Result<()> {
    let (key, value) = (world.key(), world.value());
    match world.random.below(9) {
        0 | 1 => {
            tx.put(table, &key, &value)?;
            records.insert(key, value);
        }
        2 | 3 => match tx.insert(table, &key, &value) {
            Ok(()) => assert!(records.insert(key, value).is_none()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Exists);
                assert!(records.contains_key(&key));
            }
        },
        4 => {
            tx.delete(table, &key)?;
            records.remove(&key);
        }
        5 => assert_eq!(tx.remove(table, &key)?, records.remove(&key)),
        6 => {
            let expected = if world.chance(2, 3) { records.get(&key).cloned() } else { Some(world.value()) };
            let new = world.chance(2, 3).then_some(value);
            let same = records.get(&key) == expected.as_ref();
            assert_eq!(tx.compare_and_swap(table, &key, expected.as_deref(), new.as_deref())?, same);
            if same {
                match new {
                    Some(value) => records.insert(key, value),
                    None => records.remove(&key),
                };
            }
        }
        7 if world.drops_ranges && world.chance(1, 3) => {
            let span = world.span();
            tx.delete_range(table, span.clone())?;
            let gone: Vec<_> = within(records, &span).into_iter().map(|(key, _)| key.clone()).collect();
            gone.iter().for_each(|key| drop(records.remove(key)));
        }
        _ => scan_and_write(world, tx, table, records)?,
    }
    Ok(())
}

/// One transaction; answers what is there after it.
fn transact(world: &mut World, db: &Database, committed: &Model) -> Result<Model> {
    let options = TransactionOptions {
        isolation: if world.chance(1, 2) { Isolation::Serializable } else { Isolation::Snapshot },
        durability: [Durability::Sync, Durability::Buffered, Durability::Lazy]
            [world.random.below(3) as usize],
    };
    let mut tx = db.begin_with(&options)?;
    let mut model = committed.clone();
    let mut savepoints = Vec::new();
    for _ in 0..world.random.below(30) {
        let name = NAMES[world.random.below(4) as usize];
        let table = tx.table(name)?;
        assert_eq!(table.is_some(), model.contains_key(name));
        match (world.random.below(40), table) {
            (0, Some(table)) => {
                tx.drop_table(&table)?;
                model.remove(name);
                assert_eq!(tx.get(&table, b"").unwrap_err().kind(), ErrorKind::Missing);
            }
            (_, None) => {
                tx.create_table(name, &TableOptions::with_layout(world.layout()))?;
                model.insert(name.into(), Records::new());
            }
            (39, Some(table)) if world.chance(1, 4) => tx.set_layout(&table, world.layout())?,
            (1..4, _) => savepoints.push((tx.savepoint(), model.clone())),
            (4..6, _) if !savepoints.is_empty() => {
                savepoints.truncate(world.random.below(savepoints.len() as u64) as usize + 1);
                let (savepoint, then) = savepoints.last().expect("at least one is left");
                tx.rollback_to(savepoint)?;
                model = then.clone();
            }
            (6..12, Some(table)) => read_transaction(world, &tx, &table, &model[name])?,
            (_, Some(table)) => {
                write_once(world, &mut tx, &table, model.get_mut(name).expect("it exists"))?;
            }
        }
    }
    if world.chance(1, 5) {
        tx.abort();
        return Ok(committed.clone());
    }
    tx.commit()?;
    Ok(model)
}

fn verify(world: &mut World, snapshot: &Snapshot, model: &Model) -> Result<()> {
    let tables = snapshot.tables()?;
    assert!(tables.iter().map(Table::name).eq(model.keys()));
    for table in &tables {
        let records = &model[table.name()];
        let all = snapshot.range(table, ..)?.collect::<Result<Vec<_>>>()?;
        assert!(all.iter().map(|(key, value)| (key, value)).eq(records), "table {}", table.name());
        let about = snapshot.approximate_len(table)?;
        assert!(world.drops_ranges || about >= records.len() as u64, "{about} of {}", records.len());
        read_snapshot(world, snapshot, table, records)?;
    }
    Ok(())
}

fn run(seed: u64) -> Result<()> {
    let mut world =
        World { random: Random::seeded(seed), serial: seed << 20, drops_ranges: seed.is_multiple_of(2) };
    let builder = small()
        .checkpoint_bytes([2 << 10, 16 << 10, 256 << 10][world.random.below(3) as usize])
        .memory_bytes([1 << 20, 8 << 20][world.random.below(2) as usize]);
    let in_memory = seed % 4 == 3;
    let dir = dir_of(&Default::default());
    let open = |builder: pando::Builder| {
        if in_memory {
            builder.page_bytes(4096).in_memory()
        } else {
            builder.page_bytes(4096).create_in(dir.clone())
        }
    };
    let mut db = open(builder.clone())?;
    let mut model = Model::new();
    let mut kept: Vec<(Snapshot, Model)> = Vec::new();
    for _ in 0..world.random.below(60) {
        match world.random.below(24) {
            0 => db.checkpoint()?,
            1 => drop(db.check()?),
            2 if !in_memory => {
                kept.clear();
                if world.chance(1, 2) {
                    db.close()?;
                }
                drop(db);
                db = open(builder.clone())?;
            }
            3 => kept.push((db.snapshot()?, model.clone())),
            4 if !kept.is_empty() => {
                let (snapshot, then) = kept.swap_remove(world.random.below(kept.len() as u64) as usize);
                verify(&mut world, &snapshot, &then)?;
                kept.push((snapshot.try_clone()?, then));
                drop(snapshot);
            }
            5 => drop(kept.pop()),
            6 => db.sync()?,
            _ => model = transact(&mut world, &db, &model)?,
        }
        if world.chance(1, 4) {
            verify(&mut world, &db.snapshot()?, &model)?;
        }
    }
    for (snapshot, then) in kept {
        verify(&mut world, &snapshot, &then)?;
    }
    db.checkpoint()?;
    let report = db.check()?;
    assert_eq!(report.orphan_units, 0);
    if report.runs > report.tables {
        // What several runs of an LSM table hold counts several times, until it is one.
        verify(&mut world, &db.snapshot()?, &model)?;
        db.compact(|_| {})?;
        assert_eq!(db.check()?.orphan_units, 0);
    }
    // Each table has its row in the catalog.
    let records: usize = model.values().map(|records| records.len() + 1).sum();
    assert_eq!(db.check()?.records, records as u64);
    for table in db.tables()? {
        // Nothing is in memory only: exact, but for ranges that were dropped unread.
        let about = db.snapshot()?.approximate_len(&table)?;
        assert!(world.drops_ranges || about == model[table.name()].len() as u64);
    }
    verify(&mut world, &db.snapshot()?, &model)
}

#[test]
fn the_library_agrees_with_ordered_maps() {
    let seeds = std::env::var("PANDO_SEEDS").map_or(150, |seeds| seeds.parse().expect("a number"));
    let first = std::env::var("PANDO_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    for seed in first..first + seeds {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(matches!(outcome, Ok(Ok(()))), "seed {seed}: {outcome:?}");
    }
}
