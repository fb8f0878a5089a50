//! The anomalies of the Hermitage suite (Kleppmann 2014, after Adya 1999), played on a toy database: one table,
//! every version kept, reads from the snapshot, writes held back until validation passes.

use base::{CommitTs, TableId};
use pando_txn::{Conflict, History, Isolation, ReadSet, WrittenKey, validate};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;

const T: TableId = TableId(16);
type Versions = BTreeMap<Vec<u8>, Vec<(CommitTs, Option<i64>)>>;

#[derive(Default)]
struct Toy {
    versions: RefCell<Versions>,
    now: RefCell<CommitTs>,
}

impl History for Toy {
    fn newest_in(&self, _: TableId, key: &[u8], since: CommitTs) -> Option<CommitTs> {
        let changed = self.versions.borrow().get(key).and_then(|versions| versions.last()).map(|v| v.0);
        changed.filter(|&ts| ts > since)
    }
    fn changed_in(&self, _: TableId, start: &[u8], end: Bound<&[u8]>, since: CommitTs) -> Option<Vec<u8>> {
        let versions = self.versions.borrow();
        let mut range = versions.range::<[u8], _>((Bound::Included(start), end));
        range.find(|(_, versions)| versions.last().unwrap().0 > since).map(|(key, _)| key.clone())
    }
    fn table_newest(&self, _: TableId) -> CommitTs {
        *self.now.borrow()
    }
}

struct Tx<'a> {
    db: &'a Toy,
    isolation: Isolation,
    since: CommitTs,
    reads: ReadSet,
    writes: BTreeMap<Vec<u8>, (Option<i64>, bool)>,
}

impl Toy {
    fn with(pairs: &[(&str, i64)]) -> Toy {
        let db = Toy::default();
        let mut tx = db.begin(Isolation::Serializable);
        pairs.iter().for_each(|(key, value)| tx.put(key, *value));
        tx.commit().unwrap();
        db
    }
    fn begin(&self, isolation: Isolation) -> Tx<'_> {
        let since = *self.now.borrow();
        Tx { db: self, isolation, since, reads: ReadSet::new(), writes: BTreeMap::new() }
    }
    fn at(&self, key: &[u8], at: CommitTs) -> Option<i64> {
        let versions = self.versions.borrow();
        versions.get(key)?.iter().rev().find(|version| version.0 <= at)?.1
    }
    fn now(&self, key: &str) -> Option<i64> {
        self.at(key.as_bytes(), *self.now.borrow())
    }
}

impl Tx<'_> {
    fn get(&mut self, key: &str) -> Option<i64> {
        if let Some(own) = self.writes.get(key.as_bytes()) {
            return own.0;
        }
        self.reads.key(T, key.as_bytes());
        self.db.at(key.as_bytes(), self.since)
    }
    /// The sum of all values in the range, read to its end.
    fn sum(&mut self, start: &str, end: &str) -> i64 {
        self.reads.range(T, start.as_bytes(), Bound::Excluded(end.as_bytes()));
        let keys: Vec<_> = self.db.versions.borrow().keys().cloned().collect();
        let inside = keys.iter().filter(|key| (start.as_bytes()..end.as_bytes()).contains(&&key[..]));
        inside.filter_map(|key| self.db.at(key, self.since)).sum()
    }
    fn put(&mut self, key: &str, value: i64) {
        self.writes.insert(key.as_bytes().to_vec(), (Some(value), false));
    }
    /// Answers duplicates itself: the read is a flag of the write.
    fn insert(&mut self, key: &str, value: i64) -> bool {
        let absent = self.db.at(key.as_bytes(), self.since).is_none();
        self.writes.insert(key.as_bytes().to_vec(), (Some(value), true));
        absent
    }
    fn commit(self) -> Result<(), Conflict> {
        let keys = self.writes.iter().map(|(key, (_, read))| (T, WrittenKey::Key { key, read: *read }));
        validate(&self.reads, &mut { keys }, self.isolation, self.since, self.db)?;
        let ts = CommitTs(self.db.now.borrow().0 + 1);
        *self.db.now.borrow_mut() = ts;
        let mut versions = self.db.versions.borrow_mut();
        for (key, (value, _)) in self.writes {
            versions.entry(key).or_default().push((ts, value));
        }
        Ok(())
    }
}

const BOTH: [Isolation; 2] = [Isolation::Serializable, Isolation::Snapshot];

/// G0 dirty write, and P4 lost update: the second of two writers of a key loses, if it read the key first; under
/// snapshot isolation also if it did not.
/// The key of the conflict in table [`T`] that a commit met.
fn key_of<D: std::fmt::Debug>(committed: Result<D, Conflict>) -> Vec<u8> {
    let conflict = committed.unwrap_err();
    assert_eq!(conflict.table_id(), T);
    conflict.key().unwrap().to_vec()
}

#[test]
fn of_two_writers_of_what_both_read_one_wins() {
    for isolation in BOTH {
        let db = Toy::with(&[("x", 10)]);
        let (mut a, mut b) = (db.begin(isolation), db.begin(isolation));
        let (in_a, in_b) = (a.get("x").unwrap(), b.get("x").unwrap());
        a.put("x", in_a + 1);
        b.put("x", in_b + 1);
        a.commit().unwrap();
        assert_eq!(key_of(b.commit()), b"x");
        assert_eq!(db.now("x"), Some(11));
    }
}

#[test]
fn blind_writes_serialize_but_lose_under_snapshot_isolation() {
    for (isolation, wins) in [(Isolation::Serializable, true), (Isolation::Snapshot, false)] {
        let db = Toy::with(&[("x", 10)]);
        let (mut a, mut b) = (db.begin(isolation), db.begin(isolation));
        a.put("x", 1);
        b.put("x", 2);
        a.commit().unwrap();
        assert_eq!(b.commit().is_ok(), wins);
    }
}

/// G1a aborted, G1b intermediate, G1c circular: what is not committed is not seen.
#[test]
fn what_is_not_committed_is_not_seen() {
    for isolation in BOTH {
        let db = Toy::with(&[("x", 10), ("y", 20)]);
        let (mut a, mut b) = (db.begin(isolation), db.begin(isolation));
        a.put("x", 11);
        b.put("y", 22);
        assert_eq!((a.get("y"), b.get("x")), (Some(20), Some(10)));
        a.commit().unwrap();
        assert_eq!(b.get("x"), Some(10));
        assert_eq!(b.commit().is_ok(), isolation == Isolation::Snapshot);
    }
}

/// PMP predicate-many-preceders, and phantoms: a key that appears in a range that was read.
#[test]
fn a_phantom_conflicts() {
    let db = Toy::with(&[("k1", 10), ("k3", 20)]);
    let mut reader = db.begin(Isolation::Serializable);
    assert_eq!(reader.sum("k", "l"), 30);
    reader.put("total", 30);
    let mut writer = db.begin(Isolation::Serializable);
    writer.put("k2", 5);
    writer.commit().unwrap();
    assert_eq!(key_of(reader.commit()), b"k2");
}

#[test]
fn what_appears_beside_a_range_does_not_conflict() {
    let db = Toy::with(&[("k1", 10)]);
    let mut reader = db.begin(Isolation::Serializable);
    reader.sum("k", "l");
    reader.put("total", 10);
    let mut writer = db.begin(Isolation::Serializable);
    writer.put("l", 5);
    writer.put("j", 5);
    writer.commit().unwrap();
    reader.commit().unwrap();
}

/// G-single read skew: a snapshot is of one moment.
#[test]
fn a_snapshot_is_of_one_moment() {
    for isolation in BOTH {
        let db = Toy::with(&[("x", 10), ("y", 20)]);
        let mut reader = db.begin(isolation);
        assert_eq!(reader.get("x"), Some(10));
        let mut writer = db.begin(isolation);
        writer.put("x", 12);
        writer.put("y", 18);
        writer.commit().unwrap();
        assert_eq!(reader.get("y"), Some(20));
    }
}

/// G2-item write skew: both read both, each writes another. Only serializable forbids it.
#[test]
fn write_skew_conflicts_when_serializable() {
    for isolation in BOTH {
        let db = Toy::with(&[("x", 1), ("y", 1)]);
        let (mut a, mut b) = (db.begin(isolation), db.begin(isolation));
        for tx in [&mut a, &mut b] {
            assert_eq!(tx.get("x").unwrap() + tx.get("y").unwrap(), 2);
        }
        a.put("x", 0);
        b.put("y", 0);
        a.commit().unwrap();
        assert_eq!(b.commit().is_ok(), isolation == Isolation::Snapshot);
    }
}

/// G2 anti-dependency cycle over predicates: each counts a range and adds to it.
#[test]
fn predicate_write_skew_conflicts_when_serializable() {
    for isolation in BOTH {
        let db = Toy::with(&[("k1", 10)]);
        let (mut a, mut b) = (db.begin(isolation), db.begin(isolation));
        assert_eq!(a.sum("k", "l") + b.sum("k", "l"), 20);
        a.put("k2", 30);
        b.put("k3", 42);
        a.commit().unwrap();
        assert_eq!(b.commit().is_ok(), isolation == Isolation::Snapshot);
    }
}

#[test]
fn two_inserts_of_one_key_conflict_by_their_flag_alone() {
    for isolation in BOTH {
        let db = Toy::with(&[]);
        let (mut a, mut b) = (db.begin(isolation), db.begin(isolation));
        assert!(a.insert("x", 1) && b.insert("x", 2));
        assert!(b.reads.is_empty());
        a.commit().unwrap();
        assert!(b.commit().is_err());
    }
}

#[test]
fn an_absent_key_that_appears_conflicts() {
    let db = Toy::with(&[]);
    let mut reader = db.begin(Isolation::Serializable);
    assert_eq!(reader.get("x"), None);
    reader.put("y", 1);
    let mut writer = db.begin(Isolation::Serializable);
    writer.put("x", 1);
    writer.commit().unwrap();
    assert!(reader.commit().is_err());
}

#[test]
fn a_range_that_is_required_unchanged_counts_at_every_isolation() {
    let db = Toy::with(&[("m", 1)]);
    let check = |high: &[u8], is_required: bool, isolation, since| {
        let mut reads = ReadSet::new();
        let token = reads.range(T, b"k", Bound::Excluded(high));
        reads.close(token);
        if is_required {
            reads.require();
        }
        validate(&reads, &mut [].into_iter(), isolation, CommitTs(since), &db).is_ok()
    };
    assert!(!check(b"n", true, Isolation::Snapshot, 0) && !check(b"n", true, Isolation::Serializable, 0));
    assert!(check(b"n", true, Isolation::Snapshot, 1) && check(b"m", true, Isolation::Snapshot, 0));
    assert!(check(b"n", false, Isolation::Snapshot, 0));
    let mut reads = ReadSet::new();
    reads.require();
    reads.clear();
    assert!(!reads.is_required(), "the next transaction begins without it");
}

/// Range deletes and rolled-back writes, straight through [`validate`].
#[test]
fn ranges_and_rolled_back_writes_count_as_their_isolation_says() {
    let db = Toy::with(&[("m", 1)]);
    let check = |written, isolation, since| {
        validate(&ReadSet::new(), &mut [(T, written)].into_iter(), isolation, CommitTs(since), &db).is_ok()
    };
    let range = |end| WrittenKey::Range { start: b"k", end };
    for (written, serializable, snapshot) in [
        (range(Some(&b"n"[..])), true, false),
        (range(Some(&b"m"[..])), true, true),
        (range(None), true, false),
        (WrittenKey::Read { key: b"m" }, false, true),
        (WrittenKey::Read { key: b"l" }, true, true),
    ] {
        assert_eq!(check(written, Isolation::Serializable, 0), serializable, "{written:?}");
        assert_eq!(check(written, Isolation::Snapshot, 0), snapshot, "{written:?}");
        assert!(check(written, Isolation::Serializable, 1) && check(written, Isolation::Snapshot, 1));
    }
}
