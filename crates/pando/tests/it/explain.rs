//! What is explained is what is done.

use base::env::Random;
use pando::explain::Explanation;
use pando::{Database, Durability, TransactionOptions};

const PAGE: usize = 4096;

fn last(explained: &Explanation) -> &str {
    &explained.steps.last().unwrap().outcome
}

#[test]
fn explained_gets_find_what_gets_find() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder().page_bytes(PAGE).create(dir.path()).unwrap();
    let table = db.ensure_table("t").unwrap();
    let mut random = Random::seeded(5);
    for round in 0..4 {
        let mut tx = db.begin().unwrap();
        for _ in 0..600 {
            let key = (random.below(1000) as u16).to_be_bytes();
            match random.below(4) {
                0 => tx.delete(&table, &key).unwrap(),
                n => tx.put(&table, &key, &vec![n as u8; random.below(90) as usize]).unwrap(),
            }
        }
        tx.commit().unwrap();
        if round < 3 {
            db.checkpoint().unwrap();
        }
    }
    let (mut in_memtable, mut in_pages, mut absent) = (0, 0, 0);
    for key in 0..1000_u16 {
        let key = key.to_be_bytes();
        let explained = db.explain_get(&table, &key).unwrap();
        match db.get(&table, &key).unwrap() {
            Some(value) => assert_eq!(last(&explained), format!("a value of {} bytes", value.len())),
            None => {
                absent += 1;
                assert!(last(&explained).ends_with("absent"), "{explained:?}");
            }
        }
        match explained.pages() {
            (0, 0) => in_memtable += 1,
            (resident, read) => {
                in_pages += 1;
                assert_eq!((resident + read, read), (2, 0), "an inner page and a leaf: {explained:?}");
            }
        }
    }
    assert!(in_memtable > 100 && in_pages > 100 && absent > 100);
}

#[test]
fn pages_are_read_once_and_then_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder().page_bytes(PAGE).create(dir.path()).unwrap();
    let table = db.ensure_table("t").unwrap();
    db.write(|tx| (0..3000_u32).try_for_each(|n| tx.put(&table, &n.to_be_bytes(), b"value"))).unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let table = db.ensure_table("t").unwrap();
    let key = 77_u32.to_be_bytes();
    assert_eq!(db.explain_get(&table, &key).unwrap().pages(), (0, 2));
    let again = db.explain_get(&table, &key).unwrap();
    assert_eq!(again.pages(), (2, 0));
    let step = again.steps.last().unwrap();
    assert_eq!(step.pages.iter().map(|page| page.level).collect::<Vec<_>>(), [1, 0]);
    assert!(step.pages.iter().all(|page| page.entries > 1 && page.bytes == PAGE as u64));

    let scan = db.explain_scan(&table, .., 2000).unwrap();
    let text: Vec<&str> = scan.steps.iter().map(|step| &step.outcome[..]).collect();
    assert!(text.iter().any(|outcome| outcome.starts_with("1999 records, ")), "{text:?}");
    assert_eq!(scan.steps.iter().map(|step| step.bytes).sum::<u64>(), 2000 * 9);
}

#[test]
fn a_commit_says_what_it_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::create(dir.path()).unwrap();
    let table = db.ensure_table("t").unwrap();
    let records = [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())];
    let explain = |durability| {
        let options = TransactionOptions { durability, ..db.transaction_options() };
        db.explain_commit(&table, &records, options).unwrap()
    };
    let explained = explain(Durability::Sync);
    let of = |what: &str| explained.steps.iter().find(|step| step.what == what);
    assert_eq!(of("of it: log").unwrap().outcome, "1 blocks appended, 1 flushes");
    assert_eq!(of("of it: waited for sync").unwrap().outcome, "1 times");
    assert!(of("of it: waited for sync").unwrap().ns <= of("commit").unwrap().ns);
    let buffered = explain(Durability::Buffered);
    assert!(buffered.steps.iter().any(|step| step.outcome == "1 blocks appended, 0 flushes"), "{buffered:?}");
    assert_eq!(db.get(&table, b"b").unwrap(), Some(b"2".to_vec()));
}

#[test]
fn a_scan_is_explained_without_reading_long_values() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::create(dir.path()).unwrap();
    let table = db.ensure_table("t").unwrap();
    db.put(&table, b"a", b"short").unwrap();
    db.put(&table, b"b", &vec![0xab; 3 << 20]).unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    // It would be seen that it was read.
    let data = dir.path().join("data");
    let mut bytes = std::fs::read(&data).unwrap();
    let within = bytes.windows(4096).position(|window| window.iter().all(|&byte| byte == 0xab)).unwrap();
    bytes[within] ^= 1;
    std::fs::write(&data, bytes).unwrap();
    let db = Database::open(dir.path()).unwrap();
    let table = db.ensure_table("t").unwrap();
    assert_eq!(db.get(&table, b"b").unwrap_err().kind(), pando::ErrorKind::Corruption);
    let explained = db.explain_scan(&table, .., 10).unwrap();
    assert_eq!(explained.steps.iter().map(|step| step.bytes).sum::<u64>(), 1 + 5 + 1 + (3 << 20));
}
