//! Tables with a TTL: every way to read, every place where an entry can lie, both layouts.

use base::ErrorKind;
use base::env::{Clock, Random};
use io::{Dir, MemDir};
use pando_store::relocate::Compaction;
use pando_store::salvage::{Sink, StoredOptions, Trust};
use pando_store::ttl::Ttl;
use pando_store::{
    Compression, Options, RequestedLayout, Resident, Snapshot, Span, Store, Table, Transaction,
    TransactionOptions,
};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use txn::{Durability, Isolation};

pub(crate) const LAYOUTS: [RequestedLayout; 2] = RequestedLayout::ALL;

pub(crate) struct Bed {
    dir: Arc<dyn Dir>,
    hand: Arc<AtomicU64>,
    options: Options,
    pub(crate) store: Arc<Store>,
}

impl Bed {
    pub(crate) fn new() -> Bed {
        let (clock, hand) = Clock::set_by_hand(1_000_000);
        let options = Options {
            page_bytes: Some(4096),
            memory_bytes: 4 << 20,
            write_set_bytes: Some(30_000),
            large_bytes: 9_000,
            piece_bytes: 4096,
            slice_bytes: 20_000,
            fan: 3,
            clock,
            ..Options::default()
        };
        let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
        let store = pando_store::open_or_create(Arc::clone(&dir), &options).unwrap();
        Bed { dir, hand, options, store }
    }

    pub(crate) fn at(&self, ms: u64) {
        self.hand.store(1_000_000 + ms, Ordering::SeqCst);
    }

    pub(crate) fn begin(&self) -> Transaction {
        let options =
            TransactionOptions { isolation: Isolation::Serializable, durability: Durability::Buffered };
        Transaction::begin(&self.store, options).unwrap()
    }

    pub(crate) fn commit(&self, tx: Transaction) {
        let applied = tx.apply().unwrap();
        self.store.acknowledge(applied).unwrap();
    }

    fn table(&self, layout: RequestedLayout, ttl_ms: u64) -> Table {
        let mut tx = self.begin();
        let ttl = Some(Duration::from_millis(ttl_ms));
        let table = tx
            .create_table_with("t", layout, ttl.map(|ttl| Ttl::new(ttl).unwrap()), Compression::None)
            .unwrap();
        self.commit(tx);
        assert_eq!(self.store.snapshot().unwrap().table("t").unwrap().unwrap().ttl(), ttl);
        table
    }

    pub(crate) fn put(&self, table: &Table, key: &[u8], value: &[u8]) {
        let mut tx = self.begin();
        tx.put(table, key, value).unwrap();
        self.commit(tx);
    }

    fn set_ttl(&self, table: &Table, ttl_ms: Option<u64>) {
        let mut tx = self.begin();
        tx.set_ttl(table, ttl_ms.map(Duration::from_millis)).unwrap();
        self.commit(tx);
    }

    /// As `Database::compact` does.
    pub(crate) fn compact(&self) {
        self.store.checkpoint().unwrap();
        let mut compaction = Compaction::new();
        while let Some(round) = compaction.next_round(&self.store).unwrap() {
            round.finish().unwrap();
        }
        assert_eq!(self.store.check().unwrap().orphan_units, 0);
    }

    pub(crate) fn reopen(&mut self) {
        self.store.close().unwrap();
        self.store = pando_store::open(Arc::clone(&self.dir), &self.options).unwrap();
    }
}

pub(crate) fn listed(snapshot: &Snapshot, table: &Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = snapshot.cursor(table, Span::all()).unwrap();
    let mut forward = Vec::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        forward.push((key.to_vec(), value.to_vec()));
    }
    let mut backward = Vec::new();
    while let Some((key, value)) = cursor.prev().unwrap() {
        backward.push((key.to_vec(), value.to_vec()));
    }
    backward.reverse();
    assert_eq!(forward, backward);
    forward
}

/// Asks for `key` in every way that there is.
pub(crate) fn expect(bed: &Bed, table: &Table, key: &[u8], value: Option<&[u8]>) {
    let snapshot = bed.store.snapshot().unwrap();
    assert_eq!(snapshot.get(table, key).unwrap().as_deref(), value);
    assert_eq!(snapshot.get_with(table, key, <[u8]>::to_vec).unwrap().as_deref(), value);
    assert_eq!(snapshot.contains(table, key).unwrap(), value.is_some());
    assert_eq!(snapshot.value_len(table, key).unwrap(), value.map(|value| value.len() as u64));
    let read = snapshot.value_reader(table, key).unwrap().map(|mut reader| {
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        read
    });
    assert_eq!(read.as_deref(), value);
    let resident = snapshot.get_resident(table, key).unwrap();
    let expected = value.map_or(Resident::Absent, |value| Resident::Found(value.to_vec()));
    assert!(resident == expected || resident == Resident::WouldWait, "{resident:?}");
    let listed = listed(&snapshot, table);
    assert_eq!(listed.iter().find(|(found, _)| found == key).map(|(_, value)| &value[..]), value);
    let mut cursor = snapshot.cursor(table, Span::prefix(key)).unwrap();
    assert_eq!(cursor.seek(key).unwrap().map(|(_, found)| found.to_vec()).as_deref(), value);
    assert_eq!(cursor.value_len(), value.map(|value| value.len() as u64));
    assert_eq!(cursor.value_reader().unwrap().is_some(), value.is_some());
    let mut tx = bed.begin();
    assert_eq!(tx.get(table, key).unwrap().as_deref(), value);
    assert_eq!(tx.contains(table, key).unwrap(), value.is_some());
    assert!(tx.compare_and_swap(table, key, value, value).unwrap());
    assert_eq!(tx.remove(table, key).unwrap().as_deref(), value);
    let mut tx = bed.begin();
    let inserted = tx.insert(table, key, b"new");
    assert_eq!(inserted.map_err(|error| error.kind()), value.map_or(Ok(()), |_| Err(ErrorKind::Exists)));
    assert_eq!(tx.get(table, key).unwrap().as_deref(), Some(value.unwrap_or(b"new")));
}

#[test]
fn every_read_knows_what_has_expired_wherever_it_lies() {
    for layout in LAYOUTS {
        for place in 0..4 {
            let mut bed = Bed::new();
            let table = bed.table(layout, 100);
            let values = [vec![1; 30], vec![2; 2_000], vec![3; 8_000], vec![4; 30_000]];
            let mut tx = bed.begin();
            for (key, value) in values.iter().enumerate() {
                tx.put(&table, &[key as u8], value).unwrap();
                assert_eq!(tx.get(&table, &[key as u8]).unwrap().as_ref(), Some(value));
                if place == 3 {
                    tx.spill().unwrap();
                    assert_eq!(tx.get(&table, &[key as u8]).unwrap().as_ref(), Some(value));
                }
            }
            bed.commit(tx);
            match place {
                1 => drop(bed.store.begin_checkpoint().unwrap()),
                2 => drop(bed.store.checkpoint().unwrap()),
                _ => {}
            }
            let early = bed.store.snapshot().unwrap();
            assert_eq!(listed(&early, &table).len(), 4);
            bed.at(99);
            (0..4).for_each(|key| expect(&bed, &table, &[key], Some(&values[usize::from(key)])));
            bed.at(100);
            (0..4).for_each(|key| expect(&bed, &table, &[key], None));
            assert_eq!(listed(&early, &table).len(), 4, "its own time stands");
            assert_eq!(listed(&early.try_clone().unwrap(), &table).len(), 4, "its clone's too");
            drop(early);
            bed.put(&table, &[1], b"again");
            bed.store.checkpoint().unwrap();
            bed.reopen();
            let table = bed.store.snapshot().unwrap().table("t").unwrap().unwrap();
            (0..4).for_each(|key| expect(&bed, &table, &[key], (key == 1).then_some(&b"again"[..])));
            bed.compact();
            assert_eq!(bed.store.snapshot().unwrap().approximate_len(&table).unwrap(), 1, "{layout} {place}");
        }
    }
}

/// The newest version was put first, and expires first: it goes on hiding the one below.
#[test]
fn what_has_expired_hides_older_versions_also_when_it_is_merged() {
    for layout in LAYOUTS {
        let bed = Bed::new();
        let table = bed.table(layout, 60);
        let mut late = bed.begin();
        late.put(&table, b"k", b"newest").unwrap();
        bed.at(50);
        bed.put(&table, b"k", b"older");
        // A delta of its own, over one that is much larger.
        for n in 0..2_000u32 {
            bed.put(&table, &n.to_be_bytes(), &[7; 60]);
        }
        bed.store.checkpoint().unwrap();
        bed.commit(late);
        bed.at(61);
        expect(&bed, &table, b"k", None);
        bed.store.checkpoint().unwrap();
        expect(&bed, &table, b"k", None);
        bed.put(&table, b"other", b"");
        bed.store.checkpoint().unwrap();
        expect(&bed, &table, b"k", None);
        bed.compact();
        expect(&bed, &table, b"k", None);
    }
}

#[test]
fn inserts_over_one_expired_entry_conflict() {
    let bed = Bed::new();
    let table = bed.table(RequestedLayout::BTree, 10);
    bed.put(&table, b"k", b"old");
    bed.at(10);
    let (mut one, mut two) = (bed.begin(), bed.begin());
    one.insert(&table, b"k", b"1").unwrap();
    two.insert(&table, b"k", b"2").unwrap();
    bed.commit(one);
    assert_eq!(two.apply().unwrap_err().kind(), ErrorKind::Conflict);
    let mut scan = bed.begin();
    assert!(scan.cursor(&table, Span::all()).unwrap().next().unwrap().is_some());
    scan.put(&table, b"x", b"").unwrap();
    bed.put(&table, b"k", b"3");
    assert_eq!(scan.apply().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn another_ttl_brings_nothing_back() {
    for layout in LAYOUTS {
        let mut bed = Bed::new();
        let table = bed.table(layout, 50);
        bed.put(&table, b"a", b"1");
        bed.at(20);
        bed.put(&table, b"b", b"2");
        bed.at(55);
        // Begun before, and committed later: what has expired meanwhile stays so.
        let mut tx = bed.begin();
        tx.set_ttl(&table, Some(Duration::from_millis(1_000))).unwrap();
        bed.at(69);
        bed.commit(tx);
        let snapshot = bed.store.snapshot().unwrap();
        assert_eq!(snapshot.table("t").unwrap().unwrap().ttl(), Some(Duration::from_secs(1)));
        // The handle of before goes on.
        expect(&bed, &table, b"a", None);
        expect(&bed, &table, b"b", Some(b"2"));
        bed.at(700);
        bed.compact();
        bed.reopen();
        let table = bed.store.snapshot().unwrap().table("t").unwrap().unwrap();
        expect(&bed, &table, b"b", Some(b"2"));
        bed.set_ttl(&table, None);
        bed.at(1 << 40);
        expect(&bed, &table, b"b", Some(b"2"));
        bed.set_ttl(&table, Some(10));
        expect(&bed, &table, b"b", None);
        bed.set_ttl(&table, None);
        expect(&bed, &table, b"b", None);
        bed.put(&table, b"b", b"3");
        expect(&bed, &table, b"b", Some(b"3"));
    }
}

/// The same in a transaction that writes more: its record is completed after it was encoded.
#[test]
fn another_ttl_beside_writes_brings_nothing_back() {
    for layout in LAYOUTS {
        let mut bed = Bed::new();
        let table = bed.table(layout, 50);
        bed.at(10);
        bed.put(&table, b"gone", b"1");
        bed.at(55);
        let mut tx = bed.begin();
        tx.set_ttl(&table, Some(Duration::from_millis(1_000))).unwrap();
        (0..20_u8).for_each(|n| tx.put(&table, &[n], b"2").unwrap());
        bed.at(69);
        bed.commit(tx);
        assert_eq!(bed.store.snapshot().unwrap().get(&table, b"gone").unwrap(), None, "seed 0");
        expect(&bed, &table, b"gone", None);
        bed.reopen();
        let table = bed.store.snapshot().unwrap().table("t").unwrap().unwrap();
        expect(&bed, &table, b"gone", None);
        expect(&bed, &table, &[7], Some(b"2"));
    }
}

#[test]
fn a_table_gets_dates_only_while_nothing_was_written_to_it() {
    let bed = Bed::new();
    let mut tx = bed.begin();
    let table = tx.create_table("t", RequestedLayout::Lsm).unwrap();
    let full = tx.create_table("full", RequestedLayout::BTree).unwrap();
    tx.put(&full, b"k", b"v").unwrap();
    bed.commit(tx);
    let second = Some(Duration::from_secs(1));
    let mut tx = bed.begin();
    assert_eq!(tx.set_ttl(&full, second).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(tx.set_ttl(&table, Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::Invalid);
    tx.set_ttl(&full, None).unwrap();
    tx.set_ttl(&table, second).unwrap();
    // A transaction that writes to it meanwhile writes no dates.
    bed.put(&table, b"k", b"v");
    assert_eq!(tx.apply().unwrap_err().kind(), ErrorKind::Conflict);

    let mut tx = bed.begin();
    let empty = tx.create_table("empty", RequestedLayout::BTree).unwrap();
    bed.commit(tx);
    for isolation in [Isolation::Serializable, Isolation::Snapshot] {
        let options = TransactionOptions { isolation, durability: Durability::Buffered };
        let mut tx = Transaction::begin(&bed.store, options).unwrap();
        let mut other = bed.begin();
        other.put(&empty, b"x", b"").unwrap();
        tx.set_ttl(&empty, second).unwrap();
        drop(tx);
    }
    let mut other = bed.begin();
    other.put(&empty, b"k", b"v").unwrap();
    bed.set_ttl(&empty, Some(1_000));
    assert_eq!(other.apply().unwrap_err().kind(), ErrorKind::Conflict);
    let snapshot = bed.store.snapshot().unwrap();
    assert_eq!(snapshot.get(&empty, b"k").unwrap_err().kind(), ErrorKind::Missing, "a handle without dates");
    let dated = snapshot.table("empty").unwrap().unwrap();
    bed.put(&dated, b"k", b"v");
    expect(&bed, &dated, b"k", Some(b"v"));
}

#[test]
fn time_goes_on_from_the_last_checkpoint() {
    let mut bed = Bed::new();
    let table = bed.table(RequestedLayout::BTree, 100);
    bed.put(&table, b"k", b"v");
    bed.at(100);
    expect(&bed, &table, b"k", None);
    bed.at(0);
    expect(&bed, &table, b"k", None);
    bed.put(&table, b"later", b"v");
    bed.store.checkpoint().unwrap();
    bed.reopen();
    assert_eq!(bed.store.time_ms(), 1_000_100);
    expect(&bed, &table, b"k", None);
    expect(&bed, &table, b"later", Some(b"v"));
}

/// A second before a clock that was set ahead is set back, and after: nothing lives longer for it, nor shorter.
#[test]
fn a_clock_that_is_wrong_for_a_moment_neither_keeps_nor_kills() {
    const DAY_MS: u64 = 24 * 3_600_000;
    for layout in LAYOUTS {
        let mut bed = Bed::new();
        let (clock, wall, passed) = Clock::set_by_two_hands(1_000_000);
        bed.options.clock = clock;
        bed.reopen();
        let pass = |ms: u64| {
            wall.fetch_add(ms, Ordering::SeqCst);
            passed.fetch_add(ms, Ordering::SeqCst);
        };
        let table = bed.table(layout, 5_000);
        bed.put(&table, b"before", b"1");
        wall.fetch_add(DAY_MS, Ordering::SeqCst);
        bed.put(&table, b"meanwhile", b"2");
        expect(&bed, &table, b"before", Some(b"1"));
        bed.store.checkpoint().unwrap();
        pass(500);
        wall.fetch_sub(DAY_MS, Ordering::SeqCst);
        pass(2_000);
        expect(&bed, &table, b"meanwhile", Some(b"2"));
        bed.reopen();
        let table = bed.store.snapshot().unwrap().table("t").unwrap().unwrap();
        expect(&bed, &table, b"meanwhile", Some(b"2"));
        pass(2_500);
        expect(&bed, &table, b"before", None);
        expect(&bed, &table, b"meanwhile", None);
        bed.put(&table, b"after", b"3");
        pass(4_999);
        expect(&bed, &table, b"after", Some(b"3"));
        pass(1);
        expect(&bed, &table, b"after", None);
    }
}

/// No checkpoint was made since: closing remembers the time, and so does who is killed, but for some seconds.
#[test]
fn a_clock_that_goes_back_while_it_is_closed_brings_nothing_back() {
    let all = LAYOUTS.into_iter().flat_map(|layout| [(layout, false), (layout, true)]);
    for (seed, (layout, is_killed)) in (0..).zip(all) {
        println!("seed {seed}");
        let back_to = Random::seeded(seed).below(10_000);
        let mut bed = Bed::new();
        let table = bed.table(layout, 20_000);
        bed.put(&table, b"k", b"v");
        bed.at(30_000);
        expect(&bed, &table, b"k", None);
        if is_killed {
            bed.store.keep_time();
            // What a killed process leaves: the files as they are.
            let files = MemDir::new();
            for name in bed.dir.list().unwrap().iter().filter(|name| *name != "lock") {
                let file = bed.dir.open(name).unwrap();
                let mut bytes = vec![0; file.len().unwrap() as usize];
                file.read_exact_at(&mut bytes, 0).unwrap();
                files.create(name).unwrap().write_at(&bytes, 0).unwrap();
            }
            bed.store.close().unwrap();
            bed.dir = Arc::new(files);
            bed.at(back_to);
            bed.store = pando_store::open(Arc::clone(&bed.dir), &bed.options).unwrap();
        } else {
            bed.at(back_to);
            bed.reopen();
        }
        let table = bed.store.snapshot().unwrap().table("t").unwrap().unwrap();
        expect(&bed, &table, b"k", None);
        bed.put(&table, b"new", b"v");
        bed.at(back_to + 19_999);
        expect(&bed, &table, b"new", Some(b"v"));
        bed.at(back_to + 20_000);
        expect(&bed, &table, b"new", None);
    }
}

/// Salvage knows from the catalog that values have dates.
#[test]
fn time_goes_on_from_the_last_change_of_a_ttl() {
    for layout in LAYOUTS {
        let mut bed = Bed::new();
        let table = bed.table(layout, 20);
        bed.put(&table, b"old", b"1");
        bed.at(500);
        bed.set_ttl(&table, Some(30));
        // A crash, and a clock that has gone back meanwhile: no checkpoint knows how far the time had come.
        bed.at(100);
        bed.reopen();
        let table = bed.store.snapshot().unwrap().table("t").unwrap().unwrap();
        expect(&bed, &table, b"old", None);
        let mut tx = bed.begin();
        tx.put(&table, b"new", b"2").unwrap();
        assert_eq!(tx.get(&table, b"new").unwrap().as_deref(), Some(&b"2"[..]), "{layout:?}");
        bed.commit(tx);
        expect(&bed, &table, b"new", Some(b"2"));
    }
}

#[test]
fn what_is_salvaged_has_no_dates() {
    #[derive(Default)]
    struct Kept(Vec<(Vec<u8>, Vec<u8>)>);
    impl Sink for Kept {
        fn begin(&mut self, _: Option<usize>) -> base::Result<()> {
            Ok(())
        }
        fn table(&mut self, _: &str, _: &StoredOptions) -> base::Result<()> {
            Ok(())
        }
        fn record(&mut self, _: Trust, _: &str, key: &[u8], value: &[u8]) -> base::Result<()> {
            self.0.push((key.to_vec(), value.to_vec()));
            Ok(())
        }
    }
    for layout in LAYOUTS {
        let bed = Bed::new();
        let table = bed.table(layout, 100);
        let records =
            [(b"a".to_vec(), vec![1; 50]), (b"b".to_vec(), vec![2; 6_000]), (b"c".to_vec(), vec![3; 30_000])];
        records[..2].iter().for_each(|(key, value)| bed.put(&table, key, value));
        bed.store.checkpoint().unwrap();
        bed.put(&table, &records[2].0, &records[2].1);
        bed.store.close().unwrap();
        let mut kept = Kept::default();
        let report = pando_store::salvage::salvage(Arc::clone(&bed.dir), &mut kept).unwrap();
        assert!(report.is_complete() && kept.0 == records, "{report:?}");
    }
}

/// A time series in a B+tree: new keys at one end, expired ones at the other.
#[test]
fn checkpoints_sweep_what_has_expired_out_of_a_tree() {
    let bed = Bed::new();
    let table = bed.table(RequestedLayout::BTree, 2_000);
    let mut random = Random::seeded(3);
    for tick in 0..12_000u64 {
        bed.at(tick);
        let len = if random.chance(1, 50) { 5_000 } else { random.below(60) };
        bed.put(&table, &tick.to_be_bytes(), &vec![1; len as usize]);
        if tick % 100 == 99 {
            bed.store.checkpoint().unwrap();
            let records = bed.store.snapshot().unwrap().approximate_len(&table).unwrap();
            assert!(records <= 2_700, "at {tick}: {records} records, of which 2,000 live");
        }
    }
    assert_eq!(listed(&bed.store.snapshot().unwrap(), &table).len(), 2_000);
    assert_eq!(bed.store.check().unwrap().orphan_units, 0);
    bed.at(20_000);
    bed.compact();
    let stats = bed.store.stats().unwrap();
    assert!(stats.data_used_bytes < 100_000, "{} bytes for nothing", stats.data_used_bytes);
    assert_eq!(bed.store.snapshot().unwrap().approximate_len(&table).unwrap(), 0);
}

/// Against a map of values with their dates. Some transactions commit long after their puts, over younger entries.
#[test]
fn at_random() {
    for seed in 0..12 {
        let layout = LAYOUTS[seed as usize % 2];
        Run::new(seed, layout).go();
    }
}

type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

struct Run {
    seed: u64,
    random: Random,
    bed: Bed,
    table: Table,
    now: u64,
    ttl: u64,
    floor: u64,
    model: Model,
    /// A transaction that has put some, and will commit.
    late: Option<(Transaction, Model)>,
}

impl Run {
    fn new(seed: u64, layout: RequestedLayout) -> Run {
        let bed = Bed::new();
        let table = bed.table(layout, 300);
        let (random, model) = (Random::seeded(seed), Model::new());
        Run { seed, random, bed, table, now: 0, ttl: 300, floor: 0, model, late: None }
    }

    fn oldest(&self) -> u64 {
        (self.now + 1).saturating_sub(self.ttl).max(self.floor)
    }

    fn record(&mut self) -> ([u8; 8], Vec<u8>) {
        let longest = if self.random.chance(1, 30) { 12_000 } else { 90 };
        let len = self.random.below(longest) as usize;
        (self.random.below(150).to_be_bytes(), vec![self.random.next_u64() as u8; len])
    }

    fn write(&mut self) {
        let mut tx = self.bed.begin();
        for _ in 0..self.random.below(20) {
            let (key, value) = self.record();
            let had = self.model.get(&key[..]).is_some_and(|entry| entry.1 >= self.oldest());
            match self.random.below(10) {
                0 => {
                    assert_eq!(tx.remove(&self.table, &key).unwrap().is_some(), had, "seed {}", self.seed);
                    self.model.remove(&key[..]);
                }
                1 => {
                    let inserted = tx.insert(&self.table, &key, &value).is_ok();
                    assert_eq!(inserted, !had, "seed {}", self.seed);
                    if !had {
                        self.model.insert(key.to_vec(), (value, self.now));
                    }
                }
                _ => {
                    tx.put(&self.table, &key, &value).unwrap();
                    self.model.insert(key.to_vec(), (value, self.now));
                }
            }
        }
        self.bed.commit(tx);
    }

    fn begin_late(&mut self) {
        let (mut tx, mut model) = (self.bed.begin(), Model::new());
        for _ in 0..30 {
            let (key, value) = self.record();
            tx.put(&self.table, &key, &value).unwrap();
            model.insert(key.to_vec(), (value, self.now));
        }
        self.late = Some((tx, model));
    }

    fn maintain(&mut self) {
        match self.random.below(16) {
            0..5 => drop(self.bed.store.checkpoint().unwrap()),
            5 => self.bed.compact(),
            6 => {
                self.late = None;
                self.floor = self.oldest();
                self.ttl = 100 + self.random.below(400);
                self.bed.set_ttl(&self.table, Some(self.ttl));
            }
            7 => {
                self.late = None;
                self.bed.reopen();
                self.table = self.bed.store.snapshot().unwrap().table("t").unwrap().unwrap();
            }
            8..11 => match self.late.take() {
                None => self.begin_late(),
                Some((tx, mut model)) => {
                    self.bed.commit(tx);
                    self.model.append(&mut model);
                }
            },
            _ => {}
        }
    }

    fn go(mut self) {
        for _ in 0..400 {
            self.now += self.random.below(20);
            self.bed.at(self.now);
            self.write();
            self.maintain();
            let oldest = self.oldest();
            let live = self.model.iter().filter(|(_, entry)| entry.1 >= oldest);
            let live: Vec<_> = live.map(|(key, entry)| (key.clone(), entry.0.clone())).collect();
            let found = listed(&self.bed.store.snapshot().unwrap(), &self.table);
            assert!(found == live, "seed {} at {}", self.seed, self.now);
        }
        self.late = None;
        self.bed.compact();
        let oldest = self.oldest();
        let live = self.model.values().filter(|entry| entry.1 >= oldest).count() as u64;
        let snapshot = self.bed.store.snapshot().unwrap();
        assert_eq!(snapshot.approximate_len(&self.table).unwrap(), live, "seed {}", self.seed);
    }
}
