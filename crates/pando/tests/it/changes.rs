//! Changes as bytes: written by one database, applied to another, whole, interrupted and damaged.

use base::env::Random;
use io::{Dir, MemDir};
use pando::{
    BackupOptions, Builder, ChangesOptions, Compression, Database, Durability, ErrorKind, Layout, Operation,
    TableOptions, Transaction, TransactionOptions, restore_stream_in,
};
use std::io::{Read, Write};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::support::{Data, read_all, small};

fn builder() -> Builder {
    small().page_bytes(8192)
}

fn buffered(db: &Database) -> TransactionOptions {
    TransactionOptions { durability: Durability::Buffered, ..db.transaction_options() }
}

/// What a database holds, and how its tables are.
fn export(db: &Database) -> (Data, Vec<String>) {
    let tables = db.snapshot().unwrap().tables().unwrap();
    let table = |table: &pando::Table| {
        format!(
            "{} {} {} {:?} {:?}",
            table.name(),
            table.id(),
            table.layout(),
            table.ttl(),
            table.compression()
        )
    };
    (read_all(db).unwrap(), tables.iter().map(table).collect())
}

fn value(random: &mut Random) -> Vec<u8> {
    let len = match random.below(80) {
        0 => (1 << 20) + random.below(2 << 20),
        1..3 => 60_000 + random.below(20_000),
        _ => random.below(200),
    };
    let mut value = random.next_u64().to_be_bytes().to_vec();
    value.resize(8 + len as usize, b'v');
    value
}

fn write(tx: &mut Transaction, random: &mut Random) -> pando::Result<()> {
    let names = (0..5).map(|n| format!("t{n}")).chain((0..3).map(|n| format!("r{n}")));
    let tables: Vec<_> =
        names.filter_map(|name| tx.table(&name).transpose()).collect::<pando::Result<_>>()?;
    if tables.is_empty() || random.chance(1, 25) {
        let layout = if random.chance(1, 2) { Layout::BTree } else { Layout::Lsm };
        let mut options = TableOptions::with_layout(layout);
        if random.chance(1, 3) {
            options = options.ttl(Duration::from_secs(86_400));
        }
        if layout == Layout::Lsm && random.chance(1, 2) {
            options = options.compression(Compression::Lz4);
        }
        let name = format!("t{}", random.below(5));
        return match tx.create_table(&name, &options) {
            Err(error) if error.kind() == ErrorKind::Exists => Ok(()),
            made => made.map(drop),
        };
    }
    let table = &tables[random.below(tables.len() as u64) as usize];
    let key = random.below(300).to_be_bytes();
    match random.below(100) {
        0 => tx.drop_table(table),
        1 => match tx.rename_table(table, &format!("r{}", random.below(3))) {
            Err(error) if error.kind() == ErrorKind::Exists => Ok(()),
            renamed => renamed.map(drop),
        },
        2..4 => {
            let end = (u64::from_be_bytes(key) + random.below(40)).to_be_bytes();
            tx.delete_range(table, key..end)
        }
        4..20 => tx.delete(table, key),
        20..22 => {
            let records = (0..random.below(3000)).map(|n| Ok(((300 + n).to_be_bytes(), [n as u8; 300])));
            tx.bulk_load(table, records).map(drop)
        }
        _ => tx.put(table, key, value(random)),
    }
}

fn commit_some(db: &Database, random: &mut Random, transactions: u32) {
    for _ in 0..transactions {
        let mut tx = db.begin_with(&buffered(db)).unwrap();
        for _ in 0..1 + random.below(6) {
            write(&mut tx, random).unwrap();
        }
        tx.commit().unwrap();
        if random.chance(1, 20) {
            db.checkpoint().unwrap();
        }
    }
}

/// All changes that there are, whole, each by its end in the bytes.
fn written(changes: &mut pando::Changes) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    while let Some(mut change) = changes.next().unwrap() {
        let before = bytes.len();
        let count = change.write_to(&mut bytes).unwrap();
        assert_eq!(count as usize, bytes.len() - before);
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn restored(backup: &[u8]) -> Arc<MemDir> {
    let dir = Arc::new(MemDir::new());
    restore_stream_in(&mut &backup[..], Arc::clone(&dir) as Arc<dyn Dir>).unwrap();
    dir
}

fn open(dir: &Arc<MemDir>) -> Database {
    builder().open_in(Arc::clone(dir) as Arc<dyn Dir>).unwrap()
}

#[test]
fn a_copy_of_a_backup_follows_and_so_does_an_empty_database() {
    for seed in 0..4 {
        let mut random = Random::seeded(seed);
        let db = builder().in_memory().unwrap();
        let mut all = db.changes(0).unwrap();
        commit_some(&db, &mut random, 40);
        let mut backup = Vec::new();
        let report = db.backup(BackupOptions::default(), &mut backup).unwrap();
        let mut later = db.changes(report.commit).unwrap();
        let (copy, empty) = (open(&restored(&backup)), builder().in_memory().unwrap());
        for _ in 0..3 {
            commit_some(&db, &mut random, 40);
            for (follower, changes) in [(&copy, &mut later), (&empty, &mut all)] {
                let (bytes, ends) = written(changes);
                let applied = follower.apply_changes(&mut &bytes[..]).unwrap();
                assert_eq!((applied.applied, applied.skipped), (ends.len() as u64, 0));
                assert_eq!(applied.last_commit, db.stats().unwrap().last_commit);
                assert!(export(follower) == export(&db), "seed {seed}");
                follower.check().unwrap();
                let again = follower.apply_changes(&mut &bytes[..]).unwrap();
                assert_eq!((again.applied, again.skipped), (0, ends.len() as u64));
            }
        }
    }
}

/// Gives an input up to a place, and then an error, as a connection that breaks.
struct Broken<'a>(&'a [u8]);

impl Read for Broken<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(std::io::ErrorKind::ConnectionReset.into()),
            count => Ok(count),
        }
    }
}

#[test]
fn interrupted_anywhere_nothing_is_missing_or_twice() {
    let mut random = Random::seeded(31);
    let db = builder().in_memory().unwrap();
    let mut changes = db.changes(0).unwrap();
    commit_some(&db, &mut random, 60);
    let (bytes, ends) = written(&mut changes);
    let dir = Arc::new(MemDir::new());
    drop(builder().create_in(Arc::clone(&dir) as Arc<dyn Dir>).unwrap());
    let (mut from, mut last) = (0, 0);
    for round in 0..60 {
        let follower = open(&dir);
        let until = bytes.len().min(from + random.below(1 + bytes.len() as u64 / 12) as usize);
        let input = &bytes[..until];
        // A whole change that ends here may be the end of the input, or not.
        let outcome = follower.apply_changes(&mut Broken(input));
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Io);
        let whole = ends.partition_point(|&end| end <= until) as u64;
        last = last.max(whole);
        assert_eq!(follower.stats().unwrap().last_commit, last, "round {round}");
        from = until.saturating_sub(random.below(5000) as usize);
        follower.close().unwrap();
    }
    let follower = open(&dir);
    follower.apply_changes(&mut &bytes[..]).unwrap();
    assert!(export(&follower) == export(&db));
}

#[test]
fn forks_gaps_and_strangers_are_refused() {
    let db = builder().in_memory().unwrap();
    let table = db.ensure_table("t").unwrap();
    let mut changes = db.changes(0).unwrap();
    for n in 0..6_u8 {
        db.put(&table, [n], [n]).unwrap();
    }
    let (bytes, ends) = written(&mut changes);
    assert_eq!(ends.len(), 7);
    let kind = |db: &Database, bytes: &[u8]| db.apply_changes(&mut &bytes[..]).unwrap_err().kind();
    let message = |db: &Database, bytes: &[u8]| db.apply_changes(&mut &bytes[..]).unwrap_err().to_string();

    let follower = builder().in_memory().unwrap();
    follower.apply_changes(&mut &bytes[..ends[1]]).unwrap();
    let gap = &bytes[ends[3]..];
    assert_eq!(kind(&follower, gap), ErrorKind::Missing);
    let said = message(&follower, gap);
    assert!(said.contains("3 to 4") && said.contains("commit 5"), "{said}");

    // Another database, with as many commits.
    let other = builder().in_memory().unwrap();
    let mut other_changes = other.changes(0).unwrap();
    for n in 0..7 {
        other.ensure_table(&format!("o{n}")).unwrap();
    }
    let (others, other_ends) = written(&mut other_changes);
    assert_eq!(kind(&follower, &others[other_ends[1]..]), ErrorKind::Mismatch);
    assert_eq!(kind(&db, &bytes), ErrorKind::Mismatch, "its own changes");

    // A commit of its own.
    let own = follower.ensure_table("own").unwrap();
    let said = message(&follower, &bytes);
    assert!(said.contains("commit 2") && said.contains("is 3"), "{said}");
    drop(own);
    let mut backup = Vec::new();
    let at = db.backup(BackupOptions::default(), &mut backup).unwrap().commit;
    db.put(&table, b"more", b"").unwrap();
    let (more, _) = written(&mut db.changes(at).unwrap());
    let copy = open(&restored(&backup));
    copy.ensure_table("own").unwrap();
    assert_eq!(kind(&copy, &more), ErrorKind::Mismatch, "its first commit after the restore was its own");
    let copy = open(&restored(&backup));
    assert_eq!(copy.apply_changes(&mut &more[..]).unwrap().applied, 1);
}

#[test]
fn damaged_bytes_are_errors_and_change_nothing() {
    let db = builder().in_memory().unwrap();
    let mut changes = db.changes(0).unwrap();
    let options = TableOptions::with_layout(Layout::Lsm).ttl(Duration::from_secs(1000));
    let mut tx = db.begin().unwrap();
    let table = tx.create_table("t", &options).unwrap();
    tx.put(&table, b"k", b"v").unwrap();
    tx.put(&table, b"long", [7; 70_000]).unwrap();
    tx.delete_range(&table, "x".."y").unwrap();
    tx.commit().unwrap();
    db.write(|tx| tx.rename_table(&table, "u").map(drop)).unwrap();
    let (bytes, ends) = written(&mut changes);
    let follower = || builder().in_memory().unwrap();
    // The piece of the long value is tested at every hundredth byte.
    let is_tested = |at: usize| !(1000..bytes.len() - 1000).contains(&at) || at.is_multiple_of(100);
    for at in (0..bytes.len()).filter(|&at| is_tested(at)) {
        let mut forged = bytes.clone();
        forged[at] ^= 1 << (at % 8);
        let db = follower();
        let error = db.apply_changes(&mut &forged[..]).unwrap_err();
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::Corruption | ErrorKind::Foreign), "byte {at}: {error:?}");
        assert_eq!(db.stats().unwrap().last_commit, u64::from(at >= ends[0]), "byte {at}");
    }
    for cut in (0..bytes.len()).filter(|&at| is_tested(at)) {
        let db = follower();
        let whole = ends.iter().filter(|&&end| end <= cut).count() as u64;
        match db.apply_changes(&mut &bytes[..cut]) {
            Ok(applied) => assert!(cut == 0 || ends.contains(&cut), "cut at {cut}: {applied:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "cut at {cut}"),
        }
        assert_eq!(db.stats().unwrap().last_commit, whole, "cut at {cut}");
    }
    let error = follower().apply_changes(&mut &bytes[ends[0]..]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Missing);
}

#[test]
fn a_filter_leaves_out_what_was_not_asked_for() {
    let db = builder().in_memory().unwrap();
    let (a, b) = (db.ensure_table("a").unwrap(), db.ensure_table("b").unwrap());
    let after = db.stats().unwrap().last_commit;
    let options = ChangesOptions::default().after(after).table("a").prefix(b"k");
    let mut changes = db.changes_with(options).unwrap();
    db.put(&b, b"k1", b"").unwrap();
    db.write(|tx| {
        tx.put(&a, b"k1", b"v")?;
        tx.put(&a, b"j1", b"v")?;
        tx.put(&b, b"k1", b"v")
    })
    .unwrap();
    db.put(&a, b"other", b"").unwrap();
    db.write(|tx| tx.delete_range(&a, "a".."k5")).unwrap();
    let mut seen = Vec::new();
    while let Some(mut change) = changes.next().unwrap() {
        assert_eq!(change.write_to(&mut Vec::new()).unwrap_err().kind(), ErrorKind::Invalid);
        let mut operations = change.operations().unwrap();
        while let Some(operation) = operations.next().unwrap() {
            seen.push(match operation {
                Operation::Put { key, .. } => {
                    format!("{} put {}", change.commit_number() - after, key.escape_ascii())
                }
                Operation::DeleteRange { start, end, .. } => {
                    let end = end.unwrap().escape_ascii();
                    format!("{} delete {}..{end}", change.commit_number() - after, start.escape_ascii())
                }
                other => panic!("{other:?}"),
            });
        }
    }
    assert_eq!(seen, ["2 put k1", "4 delete k..k5"]);
    assert_eq!(changes.position(), after + 4);
}

#[test]
fn a_change_can_be_read_again() {
    let db = builder().in_memory().unwrap();
    let (a, b) = (db.ensure_table("a").unwrap(), db.ensure_table("b").unwrap());
    let after = db.stats().unwrap().last_commit;
    let mut changes = db.changes_with(ChangesOptions::default().after(after).table("a")).unwrap();
    changes.repeat();
    assert!(!changes.is_ready(Waker::noop()), "it stands at no change");
    for (table, key) in [(&a, "1"), (&b, "2"), (&a, "3")] {
        db.put(table, key, b"").unwrap();
    }
    let number = |changes: &mut pando::Changes| changes.next().unwrap().map(|change| change.commit_number());
    for expected in [after + 1, after + 3] {
        assert_eq!(number(&mut changes), Some(expected));
        for _ in 0..2 {
            changes.repeat();
            assert!(changes.is_ready(Waker::noop()));
            let position = changes.position();
            let change = changes.wait(Duration::ZERO).unwrap().expect("the same change");
            assert_eq!(change.commit_number(), expected);
            let mut operations = change.operations().unwrap();
            assert!(matches!(operations.next().unwrap(), Some(Operation::Put { .. })));
            assert!(position < expected, "what is returned again is not passed");
        }
    }
    assert_eq!(number(&mut changes), None);
    changes.repeat();
    assert_eq!(number(&mut changes), None, "the last call returned none");
    assert_eq!(changes.position(), after + 3);
}

#[test]
fn a_long_value_passes_through_little_memory() {
    let db = builder().memory_bytes(4 << 20).in_memory().unwrap();
    let follower = builder().memory_bytes(4 << 20).in_memory().unwrap();
    let mut changes = db.changes(0).unwrap();
    let table = db.ensure_table("t").unwrap();
    db.write(|tx| tx.put_reader(&table, b"film", std::io::repeat(7).take(64 << 20))).unwrap();
    let (mut output, mut input) = (Pipe::default(), 0);
    while let Some(mut change) = changes.next().unwrap() {
        change.write_to(&mut output).unwrap();
        input += output.take(&follower);
    }
    assert_eq!(input, 2);
    let table = follower.ensure_table("t").unwrap();
    assert_eq!(follower.snapshot().unwrap().value_len(&table, b"film").unwrap(), Some(64 << 20));
}

/// Bytes on their way.
#[derive(Default)]
struct Pipe(Vec<u8>);

impl Pipe {
    fn take(&mut self, db: &Database) -> u64 {
        let bytes = std::mem::take(&mut self.0);
        db.apply_changes(&mut &bytes[..]).unwrap().applied
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        assert!(bytes.len() <= 256 << 10, "a frame is short");
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_replica_takes_changes_and_nothing_else() {
    let (primary, replica) = (builder().in_memory().unwrap(), builder().in_memory().unwrap());
    replica.set_replica(true);
    assert!(replica.is_replica() && replica.is_read_only());
    let mut random = Random::seeded(7);
    let mut changes = primary.changes(0).unwrap();
    commit_some(&primary, &mut random, 20);
    replica.apply_changes(&mut &written(&mut changes).0[..]).unwrap();
    assert!(export(&replica) == export(&primary));
    let before = replica.snapshot().unwrap().commit_number();
    let refused = |error: Option<pando::Error>| {
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::ReadOnly), "seed 7: it made a commit");
    };
    refused(replica.create_table("own", &TableOptions::default()).err());
    let table = replica.snapshot().unwrap().tables().unwrap()[0].clone();
    refused(replica.put(&table, b"k", b"v").err());
    refused(replica.write(|tx| tx.delete_range(&table, ..)).err());
    // So many records are spilled before the commit.
    let records = (0..200_000_u32).map(|n| Ok((n.to_be_bytes(), [7; 100])));
    refused(replica.bulk_load(&table, records).err());
    // A transaction that only reads commits.
    let tx = replica.begin().unwrap();
    tx.get(&table, b"k").unwrap();
    tx.commit().unwrap();
    assert_eq!(replica.snapshot().unwrap().commit_number(), before);
    commit_some(&primary, &mut random, 20);
    replica.apply_changes(&mut &written(&mut changes).0[..]).unwrap();
    assert!(export(&replica) == export(&primary));
    replica.set_replica(false);
    replica.create_table("own", &TableOptions::default()).unwrap();
    commit_some(&primary, &mut random, 1);
    let bytes = written(&mut changes).0;
    assert_eq!(replica.apply_changes(&mut &bytes[..]).unwrap_err().kind(), ErrorKind::Mismatch);
}
