//! The changes of a live database against `BTreeMap`: random histories of both layouts, with large values, spilled
//! transactions, bulk loads, range deletes, changes of tables and savepoints, while checkpoints, merges and relocation
//! go on; read from the beginning, from random commits, and late.

use base::ErrorKind;
use base::env::Random;
use io::{Dir, MemDir};
use pando_store::changes::{Change, Feed, Operation, TableChange};
use pando_store::ttl::Ttl;
use pando_store::{
    Compression, Forks, Options, Repeat, RequestedLayout, Span, Store, Table, Transaction, TransactionOptions,
};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use txn::{Durability, Isolation};

type Records = BTreeMap<Vec<u8>, Vec<u8>>;
/// Every table by name.
type Model = BTreeMap<String, Records>;

fn options() -> Options {
    Options {
        page_bytes: Some(4096),
        memory_bytes: 4 << 20,
        write_set_bytes: Some(48 << 10),
        seal_bytes: Some(96 << 10),
        max_segment_bytes: 32 << 10,
        large_bytes: 6000,
        piece_bytes: 4096,
        slice_bytes: 64 << 10,
        fan: 3,
        ..Options::default()
    }
}

fn open(options: &Options) -> Arc<Store> {
    pando_store::open_or_create(Arc::new(MemDir::new()), options).unwrap()
}

fn begin(store: &Arc<Store>, durability: Durability) -> Transaction {
    Transaction::begin(store, TransactionOptions { isolation: Isolation::Serializable, durability }).unwrap()
}

fn commit(store: &Store, tx: Transaction) -> u64 {
    let committed = tx.apply().and_then(|applied| store.acknowledge(applied));
    committed.unwrap_or_else(|error| panic!("{error}")).0
}

/// A database, and what it should hold.
struct Bed {
    seed: u64,
    dir: Arc<MemDir>,
    store: Arc<Store>,
    random: Random,
    model: Model,
    /// The model as of some commits.
    past: BTreeMap<u64, Model>,
    last: u64,
    named: u64,
}

impl Bed {
    fn new(seed: u64) -> Bed {
        let (dir, random) = (Arc::new(MemDir::new()), Random::seeded(seed));
        let store = pando_store::open_or_create(Arc::clone(&dir) as Arc<dyn Dir>, &options()).unwrap();
        let (model, past) = (Model::new(), BTreeMap::from([(0, Model::new())]));
        Bed { seed, dir, store, random, model, past, last: 0, named: 0 }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("{:04}", self.random.below(400)).into_bytes()
    }

    /// Values that no two writes share: short ones, ones that take extents of a run, and ones of several pieces.
    fn value(&mut self) -> Vec<u8> {
        let len = match self.random.below(60) {
            0 => 6000 + self.random.below(30_000),
            1..4 => 2000 + self.random.below(3000),
            _ => self.random.below(100),
        };
        let mut value = self.random.next_u64().to_be_bytes().to_vec();
        value.resize(8 + len as usize, b'v');
        value
    }

    fn any_table(&mut self) -> Option<String> {
        let at = self.random.below(self.model.len().max(1) as u64) as usize;
        self.model.keys().nth(at).cloned()
    }

    fn create(&mut self, tx: &mut Transaction) {
        let name = format!("t{}", self.named % 6);
        self.named += 1;
        if self.model.contains_key(&name) {
            return;
        }
        let layout = if self.random.chance(1, 2) { RequestedLayout::BTree } else { RequestedLayout::Lsm };
        let ttl = self.random.chance(1, 4).then_some(Duration::from_secs(86_400));
        tx.create_table_with(&name, layout, ttl.map(|ttl| Ttl::new(ttl).unwrap()), Compression::None)
            .unwrap();
        self.model.insert(name, Records::new());
    }

    fn change_tables(&mut self, tx: &mut Transaction) {
        let Some(name) = self.any_table() else { return self.create(tx) };
        let table = tx.table(&name).unwrap().unwrap();
        match self.random.below(6) {
            0 | 1 => self.create(tx),
            2 => {
                tx.drop_table(&table).unwrap();
                self.model.remove(&name);
            }
            3 => {
                let to = format!("r{}", self.random.below(4));
                if !self.model.contains_key(&to) {
                    tx.rename_table(&table, &to).unwrap();
                    let records = self.model.remove(&name).unwrap();
                    self.model.insert(to, records);
                }
            }
            4 => {
                let other = if table.layout() == RequestedLayout::BTree {
                    RequestedLayout::Lsm
                } else {
                    RequestedLayout::BTree
                };
                tx.set_layout(&table, other).unwrap();
            }
            _ if table.ttl().is_some() => {
                tx.set_ttl(&table, Some(Duration::from_secs(90_000 + self.random.below(9)))).unwrap();
            }
            _ => {}
        }
    }

    fn write(&mut self, tx: &mut Transaction, many: bool) {
        let Some(name) = self.any_table() else { return self.create(tx) };
        let table: Table = tx.table(&name).unwrap().unwrap();
        let key = self.key();
        let value = self.value();
        match self.random.below(100) {
            0..70 => {
                tx.put(&table, &key, &value).unwrap();
                self.model.get_mut(&name).unwrap().insert(key, value);
            }
            70..85 => {
                tx.delete(&table, &key).unwrap();
                self.model.get_mut(&name).unwrap().remove(&key);
            }
            85..92 => {
                let end = format!("{:04}", self.random.below(500)).into_bytes();
                tx.delete_range(&table, &Span::from(&key[..]..&end[..])).unwrap();
                self.model.get_mut(&name).unwrap().retain(|k, _| *k < key || *k >= end);
            }
            92..96 if many => {
                let count = self.random.below(900);
                let mut records: Vec<_> = (0..count).map(|_| (self.key(), self.value())).collect();
                if self.random.chance(2, 3) {
                    records.sort();
                }
                tx.bulk_load(&table, records.iter().cloned().map(Ok)).unwrap();
                self.model.get_mut(&name).unwrap().extend(records);
            }
            96..97 if many => {
                let mut writer = tx.value_writer(&table, &key).unwrap();
                value.chunks(1000).for_each(|piece| writer.append(piece).unwrap());
                writer.finish().unwrap();
                self.model.get_mut(&name).unwrap().insert(key, value);
            }
            97..99 if many => tx.spill().unwrap(),
            _ => {}
        }
    }

    /// One committed transaction.
    fn step(&mut self) {
        let durability = if self.random.chance(1, 3) { Durability::Sync } else { Durability::Buffered };
        if self.store.has_waiting_runs() {
            self.store.checkpoint().unwrap();
        }
        let store = Arc::clone(&self.store);
        let mut tx = begin(&store, durability);
        let many = self.random.chance(1, 12);
        let writes = if many { self.random.below(500) } else { 1 + self.random.below(8) };
        for _ in 0..writes {
            match self.random.below(60) {
                0 | 1 => self.change_tables(&mut tx),
                2 => {
                    let (savepoint, model) = (tx.savepoint(), self.model.clone());
                    (0..4).for_each(|_| self.write(&mut tx, many));
                    if self.random.chance(1, 2) {
                        tx.rollback_to(&savepoint).unwrap();
                        self.model = model;
                    }
                }
                _ => self.write(&mut tx, many),
            }
        }
        if tx.is_read_only() {
            return;
        }
        self.last = commit(&self.store, tx);
        if self.random.chance(1, 10) {
            self.past.insert(self.last, self.model.clone());
        }
        match self.random.below(30) {
            0 | 1 => drop(self.store.checkpoint().unwrap()),
            2 => drop(self.store.begin_compaction().unwrap().map(|slice| slice.finish().unwrap())),
            3 => self.store.reclaim(),
            _ => {}
        }
    }

    fn run(&mut self, steps: usize) {
        (0..steps).for_each(|_| self.step());
        self.store.sync().unwrap();
        self.past.insert(self.last, self.model.clone());
    }

    /// The process is killed, and another one opens the files.
    fn kill(&mut self) {
        self.dir = Arc::new(MemDir::from(self.dir.files()));
        self.store = pando_store::open(Arc::clone(&self.dir) as Arc<dyn Dir>, &options()).unwrap();
    }

    fn catch_up(&self, feed: &mut Feed, model: &mut Model) -> u64 {
        let mut count = 0;
        let mut last = feed.passed();
        while sound(feed.advance(), self.seed) {
            let change = feed.change();
            assert_eq!(change.commit_number(), last + 1, "in order, without gaps");
            last = change.commit_number();
            apply(model, change, self.seed);
            if let Some(expected) = self.past.get(&last) {
                assert_eq!(names(model), names(expected), "tables after commit {last}");
                assert!(model == expected, "records after commit {last}");
            }
            count += 1;
        }
        count
    }
}

fn names(model: &Model) -> Vec<(&str, usize)> {
    model.iter().map(|(name, records)| (&name[..], records.len())).collect()
}

/// What was read, which must be there.
fn sound<T, E: Debug>(read: Result<T, E>, seed: u64) -> T {
    read.unwrap_or_else(|error| panic!("seed {seed}: {error:?}"))
}

/// Repeats a change in a model.
fn apply(model: &mut Model, change: Change<'_>, seed: u64) {
    let mut operations = sound(change.operations(), seed);
    let mut renamed: Vec<(String, Records)> = Vec::new();
    let mut placed = false;
    while let Some(operation) = sound(operations.next(), seed) {
        if !matches!(operation, Operation::Table(_)) && !placed {
            model.extend(std::mem::take(&mut renamed));
            placed = true;
        }
        match operation {
            Operation::Table(TableChange::Created(table)) => {
                renamed.push((table.name().to_owned(), Records::new()));
            }
            Operation::Table(TableChange::Dropped { name, .. }) => {
                assert!(model.remove(&**name).is_some(), "{name} was there");
            }
            Operation::Table(TableChange::Renamed { from, table }) => {
                let records = model.remove(&**from).expect("it was there");
                renamed.push((table.name().to_owned(), records));
            }
            Operation::Table(TableChange::Altered(table)) => assert!(model.contains_key(table.name())),
            Operation::Put { table, key, value } => {
                let mut read = Vec::new();
                sound(sound(value.reader(), seed).read_to_end(&mut read), seed);
                assert_eq!(value.len_bytes(), read.len() as u64);
                assert_eq!(sound(value.to_vec(), seed), read);
                assert!(value.inline().is_none_or(|inline| inline == read));
                assert_eq!(value.date_ms().is_some(), table.is_dated());
                model.get_mut(table.name()).unwrap().insert(key.to_vec(), read);
            }
            Operation::Delete { table, key } => {
                model.get_mut(table.name()).unwrap().remove(key);
            }
            Operation::DeleteRange { table, start, end } => {
                let is_in = |key: &[u8]| key >= start && end.is_none_or(|end| key < end);
                model.get_mut(table.name()).unwrap().retain(|key, _| !is_in(key));
            }
        }
    }
    model.extend(renamed);
}

/// What the database holds.
fn held(store: &Arc<Store>) -> Model {
    let snapshot = store.snapshot().unwrap();
    let tables = snapshot.tables().unwrap();
    let records = |table: &Table| {
        let mut cursor = snapshot.cursor(table, Span::all()).unwrap();
        let mut found = Records::new();
        while let Some((key, value)) = cursor.next().unwrap() {
            found.insert(key.to_vec(), value.to_vec());
        }
        found
    };
    tables.iter().map(|table| (table.name().to_owned(), records(table))).collect()
}

#[test]
fn random_histories_come_back_in_order() {
    for seed in 0..4 {
        let mut bed = Bed::new(seed);
        let mut feed = bed.store.feed(Some(0)).unwrap();
        let mut late = bed.store.feed(None).unwrap();
        let (mut model, mut seen) = (Model::new(), 0);
        for _ in 0..6 {
            bed.run(60);
            seen += bed.catch_up(&mut feed, &mut model);
            assert_eq!(seen, bed.last, "seed {seed}");
            assert!(model == bed.model && held(&bed.store) == bed.model, "seed {seed}");
        }
        // From the past, which the late feed keeps.
        for (from, model) in bed.past.clone() {
            let (mut again, mut model) = (bed.store.feed(Some(from)).unwrap(), model);
            assert_eq!(bed.catch_up(&mut again, &mut model), bed.last - from, "seed {seed}, from {from}");
            assert!(model == bed.model);
        }
        assert_eq!(bed.catch_up(&mut late, &mut Model::new()), bed.last);
        bed.store.check().unwrap();
    }
}

#[test]
fn nothing_is_kept_when_the_last_feed_ends() {
    let mut bed = Bed::new(77);
    let feed = bed.store.feed(None).unwrap();
    bed.run(300);
    let kept = |store: &Store| store.stats().unwrap().data_retired_bytes;
    bed.store.checkpoint().unwrap();
    bed.store.reclaim();
    assert!(kept(&bed.store) > 0, "what the late feed still has to read");
    drop(feed);
    bed.store.reclaim();
    bed.run(1);
    bed.store.checkpoint().unwrap();
    bed.store.reclaim();
    let left = kept(&bed.store);
    assert!(left < 64 << 10, "{left} bytes wait for nobody");
    let error = bed.store.feed(Some(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooOld);
    let oldest = bed.store.oldest_feed().unwrap();
    assert!(error.message().contains(&format!("commit {oldest} or later")), "{error}");
    assert!(bed.store.feed(Some(oldest)).is_ok());
    let error = bed.store.feed(Some(bed.last + 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_late_feed_loses_its_place_and_never_stops_the_writer() {
    let options = Options { max_changes_bytes: 256 << 10, ..options() };
    let store = open(&options);
    let mut feed = store.feed(None).unwrap();
    let mut tx = begin(&store, Durability::Buffered);
    let table = tx.create_table("t", RequestedLayout::BTree).unwrap();
    commit(&store, tx);
    assert!(feed.advance().unwrap());
    for round in 0..200_u32 {
        let mut tx = begin(&store, Durability::Buffered);
        tx.put(&table, &(round % 7).to_be_bytes(), &[round as u8; 9000]).unwrap();
        commit(&store, tx);
        if round % 10 == 0 {
            store.checkpoint().unwrap();
        }
    }
    assert!(feed.has_news());
    let error = feed.advance().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooOld);
    assert!(error.message().contains(&store.oldest_feed().unwrap().to_string()), "{error}");
    let stats = store.stats().unwrap();
    assert!(stats.data_retired_bytes + stats.log_file_bytes < 2 << 20, "{stats:?}");
}

#[test]
fn only_what_is_visible_is_shown() {
    let store = open(&options());
    let mut feed = store.feed(None).unwrap();
    let mut tx = begin(&store, Durability::Sync);
    let table = tx.create_table("t", RequestedLayout::BTree).unwrap();
    let applied = tx.apply().unwrap();
    assert!(!feed.advance().unwrap(), "its flush has not come");
    // What hangs on it is not visible either.
    let mut tx = begin(&store, Durability::Buffered);
    tx.put(&table, b"k", b"v").unwrap();
    let second = tx.apply().unwrap();
    assert!(!feed.advance().unwrap());
    store.acknowledge(applied).unwrap();
    store.acknowledge(second).unwrap();
    assert!(feed.advance().unwrap() && feed.change().commit_number() == 1);
    assert!(feed.change().time_ms() > 1_600_000_000_000);
    assert!(feed.advance().unwrap() && feed.change().commit_number() == 2);
    assert!(!feed.advance().unwrap());
    store.close().unwrap();
    assert_eq!(feed.advance().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_follower_repeats_each_commit_once() {
    let mut bed = Bed::new(5);
    let mut feed = bed.store.feed(Some(0)).unwrap();
    let follower = open(&options());
    for _ in 0..4 {
        bed.run(50);
        while feed.advance().unwrap() {
            repeat(&follower, feed.change()).unwrap();
            repeat(&follower, feed.change()).unwrap();
        }
        assert!(held(&follower) == bed.model);
        follower.check().unwrap();
    }
    let mut tx = begin(&follower, Durability::Buffered);
    tx.create_table("own", RequestedLayout::BTree).unwrap();
    commit(&follower, tx);
    bed.run(2);
    assert!(feed.advance().unwrap());
    assert_eq!(repeat(&follower, feed.change()).unwrap_err().kind(), ErrorKind::Mismatch);
    let empty = open(&options());
    assert_eq!(repeat(&empty, feed.change()).unwrap_err().kind(), ErrorKind::Missing, "a gap");
}

fn repeat(store: &Arc<Store>, change: Change<'_>) -> base::Result<()> {
    let lineage = pando_store::repeat::Lineage { database: change.database(), fork: change.fork() };
    let options = TransactionOptions { durability: Durability::Buffered, ..TransactionOptions::default() };
    if store.has_waiting_runs() {
        store.checkpoint()?;
    }
    let (number, time_ms) = (change.commit_number(), change.time_ms());
    let Some(mut repeat) = Repeat::begin(store, lineage, number, time_ms, Forks::One, options)? else {
        return Ok(());
    };
    repeat.change_tables(change.tables())?;
    let mut operations = change.operations()?;
    while let Some(operation) = operations.next()? {
        match operation {
            Operation::Table(_) => {}
            Operation::Put { table, key, value } => {
                repeat.enter(table.id(), table.name())?;
                match value.stored_inline() {
                    Some(stored) => repeat.put(table.id(), key, stored)?,
                    None => {
                        let mut reader = value.stored_reader()?;
                        let mut writer = repeat.value(table.id(), key)?;
                        let mut piece = [0; 1000];
                        loop {
                            match reader.read(&mut piece).unwrap() {
                                0 => break,
                                count => writer.append(&piece[..count])?,
                            }
                        }
                        writer.finish()?;
                    }
                }
            }
            Operation::Delete { table, key } => {
                repeat.enter(table.id(), table.name())?;
                repeat.delete(table.id(), key)?;
            }
            Operation::DeleteRange { table, start, end } => {
                repeat.enter(table.id(), table.name())?;
                repeat.delete_range(table.id(), start, end)?;
            }
        }
    }
    let applied = repeat.apply()?;
    assert_eq!(store.acknowledge(applied)?.0, number);
    Ok(())
}

#[test]
fn a_consumer_goes_on_where_it_acknowledged() {
    for seed in 0..6 {
        let mut bed = Bed::new(100 + seed);
        bed.run(20);
        let mut consumer = bed.store.consumer("mail").unwrap();
        assert_eq!(consumer.position(), bed.last);
        let mut acknowledged = bed.model.clone();
        for round in 0..8 {
            bed.run(25);
            // It reads some, acknowledges less, and is killed with the database.
            let mut feed = consumer.feed().unwrap();
            let (mut model, mut last) = (acknowledged.clone(), consumer.position());
            let some = bed.random.below(30);
            for _ in 0..some {
                if !feed.advance().unwrap() {
                    break;
                }
                apply(&mut model, feed.change(), seed);
                last = feed.change().commit_number();
                if bed.random.chance(1, 4) {
                    consumer.acknowledge(last).unwrap();
                    acknowledged = model.clone();
                }
            }
            let position = consumer.position();
            assert!(position <= last);
            drop((feed, consumer));
            if round % 2 == 0 {
                bed.kill();
            } else {
                bed.store.close().unwrap();
                bed.kill();
            }
            // What is freed now, if anything, is written over.
            let reached = bed.last;
            bed.run(10);
            consumer = bed.store.consumer("mail").unwrap();
            assert_eq!(consumer.position(), position);
            let (mut feed, mut model) = (consumer.feed().unwrap(), acknowledged.clone());
            assert_eq!(
                bed.catch_up(&mut feed, &mut model),
                bed.last - position,
                "seed {seed}, round {round}"
            );
            assert!(model == bed.model && bed.last >= reached);
            bed.store.check().unwrap();
        }
    }
}

#[test]
fn consumers_are_listed_held_and_removed() {
    let mut bed = Bed::new(9);
    bed.run(5);
    let consumer = bed.store.consumer("a").unwrap();
    assert_eq!(bed.store.consumer("a").unwrap_err().kind(), ErrorKind::Locked);
    assert_eq!(bed.store.drop_consumer("a").unwrap_err().kind(), ErrorKind::Locked);
    assert_eq!(bed.store.consumer("").unwrap_err().kind(), ErrorKind::Invalid);
    let first = bed.last;
    bed.run(40);
    drop(bed.store.consumer("b").unwrap());
    drop(consumer);
    bed.kill();
    let all = |store: &Arc<Store>| -> Vec<(String, u64, bool)> {
        let all = store.consumers().unwrap().into_iter();
        all.map(|consumer| (consumer.name, consumer.position, consumer.is_lost)).collect()
    };
    assert_eq!(all(&bed.store), [("a".to_owned(), first, false), ("b".to_owned(), bed.last, false)]);
    assert_eq!(bed.store.oldest_feed().unwrap(), first);
    let mut b = bed.store.consumer("b").unwrap();
    assert_eq!(b.acknowledge(bed.last + 1).unwrap_err().kind(), ErrorKind::Invalid);
    b.acknowledge(first).unwrap();
    assert_eq!(b.position(), bed.last);
    // The log of the oldest is gone, as if by an older program: it has lost its place, and says so.
    bed.store.checkpoint().unwrap();
    drop(b);
    bed.store.close().unwrap();
    let mut files = bed.dir.files();
    let oldest = files.keys().filter(|name| name.starts_with("log-")).min().unwrap().clone();
    files.remove(&oldest);
    bed.dir = Arc::new(MemDir::from(files));
    bed.kill();
    assert_eq!(all(&bed.store)[0], ("a".to_owned(), first, true));
    let lost = bed.store.consumer("a").unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::TooOld);
    let begin = format!("a copy of the database of commit {} or later", bed.store.oldest_feed().unwrap());
    assert!(lost.to_string().contains(&begin), "{lost}");
    bed.store.drop_consumer("a").unwrap();
    assert_eq!(bed.store.drop_consumer("a").unwrap_err().kind(), ErrorKind::Missing);
    bed.kill();
    assert_eq!(all(&bed.store).len(), 1);
}

#[test]
fn a_consumer_that_has_everything_keeps_a_place_in_an_old_segment() {
    let mut bed = Bed::new(11);
    bed.run(40);
    drop(bed.store.consumer("a").unwrap());
    let last = bed.last;
    for round in 0..3 {
        // Opened again, the log has a new segment, in which the checkpoint's place is. The consumer's is before it.
        bed.kill();
        bed.store.checkpoint().unwrap();
        bed.kill();
        assert_eq!(sound(bed.store.oldest_feed(), bed.seed), last, "round {round}");
        let mut feed = sound(bed.store.feed(None), bed.seed);
        let mut commits = 0;
        while sound(feed.advance(), bed.seed) {
            commits += 1;
        }
        assert_eq!(commits, bed.last - last, "round {round}");
        bed.run(20);
    }
    assert!(!bed.store.consumers().unwrap()[0].is_lost);
    let mut consumer = bed.store.consumer("a").unwrap();
    consumer.acknowledge(bed.last).unwrap();
}
