//! Cursors over what is dead: they see what they should, whatever was found out before, and pass over dead entries a
//! few times at most, however often they are asked.

use base::env::{Clock, Random};
use io::{Dir, MemDir};
use pando_store::ttl::Ttl;
use pando_store::{
    Compression, Cursor, Options, RequestedLayout, Snapshot, Span, Store, Table, Transaction,
    TransactionOptions,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use txn::{Durability, Isolation};

const LAYOUTS: [RequestedLayout; 2] = RequestedLayout::ALL;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

struct Bed {
    store: Arc<Store>,
    hand: Arc<AtomicU64>,
}

impl Bed {
    fn new() -> Bed {
        let (clock, hand) = Clock::set_by_hand(1_000_000);
        let (page_bytes, write_set_bytes) = (Some(4096), Some(40_000));
        let options =
            Options { page_bytes, write_set_bytes, memory_bytes: 8 << 20, clock, ..Options::default() };
        let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
        Bed { store: pando_store::open_or_create(dir, &options).unwrap(), hand }
    }

    fn begin(&self) -> Transaction {
        let options =
            TransactionOptions { isolation: Isolation::Serializable, durability: Durability::Buffered };
        Transaction::begin(&self.store, options).unwrap()
    }

    fn commit(&self, tx: Transaction) {
        let applied = tx.apply().unwrap();
        self.store.acknowledge(applied).unwrap();
    }

    fn write(&self, write: impl FnOnce(&mut Transaction)) {
        let mut tx = self.begin();
        write(&mut tx);
        self.commit(tx);
    }

    fn table(&self, layout: RequestedLayout, ttl: Option<Duration>) -> Table {
        let mut tx = self.begin();
        let table = tx
            .create_table_with("t", layout, ttl.map(|ttl| Ttl::new(ttl).unwrap()), Compression::None)
            .unwrap();
        self.commit(tx);
        table
    }

    fn passed(&self) -> u64 {
        self.store.stats().unwrap().dead_passed
    }
}

fn key(n: u64) -> [u8; 4] {
    (n as u32).to_be_bytes()
}

/// The first `most` records from one end.
fn ends(cursor: &mut Cursor<'_>, forward: bool, most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    while found.len() < most {
        let next = if forward { cursor.next() } else { cursor.prev() };
        let Some((key, value)) = next.unwrap() else { break };
        found.push((key.to_vec(), value.to_vec()));
    }
    found
}

fn random_span(random: &mut Random) -> (u64, u64, Span) {
    let (a, b) = (random.below(2_000), random.below(2_000));
    match random.below(4) {
        0 => (0, u64::MAX, Span::all()),
        1 => (a, u64::MAX, Span::from(&key(a)[..]..)),
        2 => (0, b, Span::from(..&key(b)[..])),
        _ => (a.min(b), a.max(b), Span::from(&key(a.min(b))[..]..&key(a.max(b))[..])),
    }
}

/// What a cursor shows from a random end of its span, against a map.
fn expect(random: &mut Random, map: &Map, cursor: &mut Cursor<'_>, (start, end): (u64, u64), what: &str) {
    let (forward, most) = (random.chance(1, 2), 1 + random.below(6) as usize);
    let start = key(start).to_vec();
    let inside = map.range(start..).take_while(|(found, _)| end == u64::MAX || found[..] < key(end)[..]);
    let inside = inside.map(|(key, value)| (key.clone(), value.clone()));
    let mut wanted: Vec<_> = inside.collect();
    if !forward {
        wanted.reverse();
    }
    wanted.truncate(most);
    assert_eq!(ends(cursor, forward, most), wanted, "{what}, forward: {forward}");
}

/// Changes of hundreds of keys side by side, so that there are long stretches to walk over.
fn change(random: &mut Random, tx: &mut Transaction, table: &Table, map: &mut Map) {
    let (at, count) = (random.below(1_800), 1 + random.below(200));
    match random.below(7) {
        6 => {
            // Enough for a run of its own.
            let load = (at..at + count).map(|n| (key(n).to_vec(), vec![n as u8; 150])).collect::<Vec<_>>();
            tx.bulk_load(table, load.iter().cloned().map(Ok)).unwrap();
            map.extend(load);
        }
        0 => {
            tx.delete_range(table, &Span::from(&key(at)[..]..&key(at + count)[..])).unwrap();
            let gone: Vec<_> =
                map.range(key(at).to_vec()..key(at + count).to_vec()).map(|(key, _)| key.clone()).collect();
            gone.iter().for_each(|key| drop(map.remove(key)));
        }
        1 | 2 => (at..at + count).for_each(|n| {
            let value = random.below(1000).to_be_bytes().to_vec();
            tx.put(table, &key(n), &value).unwrap();
            map.insert(key(n).to_vec(), value);
        }),
        3 => {
            let value = random.below(1000).to_be_bytes().to_vec();
            tx.put(table, &key(at), &value).unwrap();
            map.insert(key(at).to_vec(), value);
        }
        _ => (at..at + count).for_each(|n| {
            tx.delete(table, &key(n)).unwrap();
            map.remove(&key(n)[..]);
        }),
    }
}

/// Looks through a transaction, which writes, goes back, and spills meanwhile.
fn look_within(random: &mut Random, bed: &Bed, table: &Table, map: &mut Map, what: &str) {
    let (mut tx, mut own) = (bed.begin(), map.clone());
    let mut saved = None;
    for _ in 0..random.below(12) {
        match random.below(5) {
            0 => saved = Some((tx.savepoint(), own.clone())),
            1 => {
                if let Some((savepoint, before)) = saved.take() {
                    tx.rollback_to(&savepoint).unwrap();
                    own = before;
                }
            }
            2 => change(random, &mut tx, table, &mut own),
            _ => {
                let (start, end, span) = random_span(random);
                expect(random, &own, &mut tx.cursor(table, span).unwrap(), (start, end), what);
            }
        }
    }
    if random.chance(1, 2) {
        bed.commit(tx);
        *map = own;
    }
}

#[test]
fn every_snapshot_sees_its_records_whatever_others_found_empty() {
    let mut passed = 0;
    for seed in 0..24 {
        let mut random = Random::seeded(seed);
        let bed = Bed::new();
        let table = bed.table(LAYOUTS[seed as usize % 2], None);
        let mut map = Map::new();
        let mut snapshots: Vec<(Snapshot, Map)> = Vec::new();
        for step in 0..150 {
            let what = format!("seed {seed}, step {step}");
            match random.below(12) {
                0 => bed.store.checkpoint().map(drop).unwrap(),
                1 if snapshots.len() < 6 => snapshots.push((bed.store.snapshot().unwrap(), map.clone())),
                1 => drop(snapshots.swap_remove(random.below(6) as usize)),
                2..5 => bed.write(|tx| change(&mut random, tx, &table, &mut map)),
                5 => look_within(&mut random, &bed, &table, &mut map, &what),
                _ => {
                    let now = (bed.store.snapshot().unwrap(), map.clone());
                    for (snapshot, map) in snapshots.iter().chain([&now]) {
                        let (start, end, span) = random_span(&mut random);
                        let mut cursor = snapshot.cursor(&table, span).unwrap();
                        expect(&mut random, map, &mut cursor, (start, end), &what);
                    }
                }
            }
        }
        passed += bed.passed();
    }
    assert!(passed > 24 * 1_000, "{passed} dead entries were walked over");
}

const COUNT: u64 = 4_000;

/// Records 0 to [`COUNT`], in the memtable or below it.
fn filled(layout: RequestedLayout, below: bool) -> (Bed, Table) {
    let bed = Bed::new();
    let table = bed.table(layout, None);
    for from in (0..COUNT).step_by(500) {
        bed.write(|tx| (from..from + 500).for_each(|n| tx.put(&table, &key(n), b"job").unwrap()));
    }
    if below {
        bed.store.checkpoint().unwrap();
    }
    (bed, table)
}

/// Once somebody has walked over what is dead, nobody has to.
#[test]
fn the_first_record_behind_any_number_of_deleted_ones_is_near() {
    for (layout, below, forward) in LAYOUTS
        .into_iter()
        .flat_map(|layout| [(layout, true, true), (layout, false, false), (layout, true, false)])
    {
        let (bed, table) = filled(layout, below);
        let kept = if forward { COUNT - 1 } else { 0 };
        for n in (0..COUNT).filter(|n| *n != kept) {
            bed.write(|tx| tx.delete(&table, &key(n)).unwrap());
        }
        let old = bed.store.snapshot().unwrap();
        let first = |snapshot: &Snapshot| {
            ends(&mut snapshot.cursor(&table, Span::all()).unwrap(), forward, 1)[0].0.clone()
        };
        assert_eq!(first(&old), key(kept));
        assert!(bed.passed() < 2 * COUNT, "{layout:?}: {} passed by the first", bed.passed());
        let before = bed.passed();
        for _ in 0..100 {
            assert_eq!(first(&bed.store.snapshot().unwrap()), key(kept));
        }
        assert!(bed.passed() - before <= 100 * 16, "{layout:?}: {} passed by 100", bed.passed() - before);
        // A key comes back to the middle, and goes; a snapshot of before is asked in between.
        let middle = COUNT / 2;
        bed.write(|tx| tx.put(&table, &key(middle), b"back").unwrap());
        assert_eq!(first(&bed.store.snapshot().unwrap()), key(middle));
        assert_eq!(first(&old), key(kept));
        bed.write(|tx| tx.delete(&table, &key(middle)).unwrap());
        let before = bed.passed();
        for _ in 0..100 {
            assert_eq!(first(&bed.store.snapshot().unwrap()), key(kept));
            assert_eq!(first(&old), key(kept));
        }
        assert!(bed.passed() - before <= 200 * 32, "{layout:?}: {} passed by 200", bed.passed() - before);
    }
}

/// Puts behind the last, takes the first, over and over.
#[test]
fn a_queue_costs_the_same_however_long_it_has_been_used() {
    for (layout, from_front) in [(LAYOUTS[0], true), (LAYOUTS[1], true), (LAYOUTS[0], false)] {
        let bed = Bed::new();
        let table = bed.table(layout, None);
        let place = |n: u64| key(if from_front { n } else { 1 << 30 } - if from_front { 0 } else { n });
        bed.write(|tx| (0..100).for_each(|n| tx.put(&table, &place(n), b"job").unwrap()));
        for n in 0..COUNT {
            bed.write(|tx| {
                let first = ends(&mut tx.cursor(&table, Span::all()).unwrap(), from_front, 1);
                assert_eq!(first[0].0, place(n));
                tx.delete(&table, &first[0].0).unwrap();
                tx.put(&table, &place(n + 100), b"job").unwrap();
            });
        }
        assert!(bed.passed() < COUNT * 64, "{layout:?}: {} passed", bed.passed());
    }
}

/// One that puts the next job before it takes one, or removes its last job then.
#[test]
fn a_queue_costs_the_same_if_its_consumers_write_first() {
    for (layout, from_front, puts_first) in [
        (LAYOUTS[0], true, true),
        (LAYOUTS[0], true, false),
        (LAYOUTS[0], false, false),
        (LAYOUTS[1], true, true),
        (LAYOUTS[1], true, false),
    ] {
        let bed = Bed::new();
        let table = bed.table(layout, None);
        let place = |n: u64| key(if from_front { n } else { (1 << 30) - n });
        bed.write(|tx| (0..COUNT).for_each(|n| tx.put(&table, &place(n), b"job").unwrap()));
        for n in 1..COUNT {
            bed.write(|tx| {
                if puts_first {
                    tx.put(&table, &place(n + COUNT), b"job").unwrap();
                } else {
                    tx.delete(&table, &place(n - 1)).unwrap();
                }
                let first = ends(&mut tx.cursor(&table, Span::all()).unwrap(), from_front, 1);
                assert_eq!(first[0].0, place(if puts_first { n - 1 } else { n }));
                if puts_first {
                    tx.delete(&table, &first[0].0).unwrap();
                }
            });
        }
        let passed = bed.passed();
        assert!(passed < COUNT * 64, "{layout:?} {from_front} {puts_first}: {passed} passed");
    }
}

#[test]
fn a_queue_within_one_transaction_costs_the_same_too() {
    for below in [false, true] {
        let (bed, table) = filled(RequestedLayout::BTree, below);
        bed.write(|tx| {
            for n in 0..COUNT - 1 {
                let first = ends(&mut tx.cursor(&table, Span::all()).unwrap(), true, 1);
                assert_eq!(first[0].0, key(n));
                tx.delete(&table, &first[0].0).unwrap();
                if n % 7 == 0 {
                    tx.put(&table, &key(COUNT + n), b"later").unwrap();
                }
            }
        });
        assert!(bed.passed() < COUNT * 64, "{} passed", bed.passed());
    }
}

/// Many queues in one table, one behind the other.
#[test]
fn each_of_many_queues_has_its_own_stretch() {
    let (bed, table) = filled(RequestedLayout::BTree, true);
    const EACH: u64 = 200;
    let first = |queue: u64| {
        let snapshot = bed.store.snapshot().unwrap();
        let span = Span::from(&key(queue * EACH)[..]..&key((queue + 1) * EACH)[..]);
        ends(&mut snapshot.cursor(&table, span).unwrap(), true, 1).pop().map(|record| record.0)
    };
    for round in 0..EACH {
        for queue in 0..COUNT / EACH {
            let taken = key(queue * EACH + round);
            assert_eq!(first(queue).as_deref(), Some(&taken[..]));
            bed.write(|tx| tx.delete(&table, &taken).unwrap());
        }
    }
    assert_eq!(first(3), None);
    assert!(bed.passed() < COUNT * 64, "{} passed", bed.passed());
}

#[test]
fn what_has_expired_is_walked_over_once() {
    for layout in LAYOUTS {
        let bed = Bed::new();
        let table = bed.table(layout, Some(Duration::from_millis(1000)));
        for from in (0..COUNT).step_by(500) {
            bed.write(|tx| (from..from + 500).for_each(|n| tx.put(&table, &key(n), b"session").unwrap()));
        }
        let old = bed.store.snapshot().unwrap();
        let first =
            |snapshot: &Snapshot| ends(&mut snapshot.cursor(&table, Span::all()).unwrap(), true, 1).pop();
        assert_eq!(first(&old).unwrap().0, key(0));
        bed.hand.fetch_add(2_000, Ordering::SeqCst);
        bed.write(|tx| tx.put(&table, &key(COUNT), b"alive").unwrap());
        for _ in 0..100 {
            assert_eq!(first(&bed.store.snapshot().unwrap()).unwrap().0, key(COUNT));
            assert_eq!(first(&old).unwrap().0, key(0), "its time stands");
        }
        assert!(bed.passed() < COUNT + 100 * 64, "{layout:?}: {} passed", bed.passed());
    }
}

/// What a transaction puts into a stretch that it found empty is seen, and so is what a rollback brings back to it.
#[test]
fn a_transaction_sees_what_it_puts_and_brings_back_into_a_stretch_that_it_found_empty() {
    for seed in 0..8 {
        let mut random = Random::seeded(seed);
        let (bed, table) = filled(LAYOUTS[seed as usize % 2], seed < 4);
        bed.write(|tx| {
            // So few that the write set is not spilled, so many that the stretch is noted. Stretches are asked about
            // only by a walk over dead entries, of which there are some before the savepoint.
            let (live, last) = (20, 120);
            let middle = live + random.below(last - live);
            let first =
                |tx: &Transaction| ends(&mut tx.cursor(&table, Span::all()).unwrap(), true, 1)[0].0.clone();
            (0..live).for_each(|n| tx.delete(&table, &key(n)).unwrap());
            let savepoint = tx.savepoint();
            (live..last).for_each(|n| tx.delete(&table, &key(n)).unwrap());
            assert_eq!(first(tx), key(last), "seed {seed}");
            tx.put(&table, &key(middle), b"back").unwrap();
            assert_eq!(first(tx), key(middle), "seed {seed}, after a put");
            tx.delete(&table, &key(middle)).unwrap();
            assert_eq!(first(tx), key(last), "seed {seed}");
            tx.rollback_to(&savepoint).unwrap();
            assert_eq!(first(tx), key(live), "seed {seed}, after a rollback");
        });
    }
}

/// A bulk load is no put, and must be seen where nothing was.
#[test]
fn a_transaction_sees_what_it_loads_into_a_stretch_that_it_found_empty() {
    let (bed, table) = filled(RequestedLayout::BTree, true);
    bed.write(|tx| {
        (0..COUNT - 1).for_each(|n| tx.delete(&table, &key(n)).unwrap());
        let first =
            |tx: &Transaction| ends(&mut tx.cursor(&table, Span::all()).unwrap(), true, 1)[0].0.clone();
        assert_eq!(first(tx), key(COUNT - 1));
        let load = (500..700).map(|n| Ok((key(n), [1; 150])));
        assert_eq!(tx.bulk_load(&table, load).unwrap(), 200);
        assert_eq!(first(tx), key(500));
    });
    let snapshot = bed.store.snapshot().unwrap();
    assert_eq!(ends(&mut snapshot.cursor(&table, Span::all()).unwrap(), true, 1)[0].0, key(500));
}
