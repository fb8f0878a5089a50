//! What is counted is what was done, and a page for Prometheus shows it.

use pando::{Database, Durability, ErrorKind, Latency, TableStats, TransactionOptions, WaitCause};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// Reads a page in Prometheus' text format as strictly as its parsers do: every sample belongs to the family announced
/// right above it, each family comes once, values are numbers. Samples by name and labels.
fn parsed(page: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut families) = (BTreeMap::new(), BTreeMap::new());
    let mut family = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').expect("a help text");
            let kind =
                lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} "))).expect("a type");
            assert!(["counter", "gauge", "summary"].contains(&kind) && !text.is_empty(), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            assert!(families.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
            name.clone_into(&mut family);
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').expect("a name and a value");
        let name = sample.split('{').next().expect("a name");
        let of_summary = [format!("{family}_sum"), format!("{family}_count")];
        let belongs =
            name == family || families[&family] == "summary" && of_summary.iter().any(|part| part == name);
        assert!(belongs, "{line} under {family}");
        let value: f64 = value.parse().expect("a number");
        assert!(value.is_finite() && value >= 0.0, "{line}");
        assert!(samples.insert(sample.to_owned(), value).is_none(), "{sample} twice");
    }
    assert!(page.ends_with('\n'));
    samples
}

#[test]
fn counts_are_what_was_done() {
    let db = Database::builder().in_memory().unwrap();
    let names = ["plain", "with \"quotes\" and \\", "c", "d", "e", "f", "g"];
    let tables = names.map(|name| db.ensure_table(name).unwrap());
    for (index, table) in tables.iter().enumerate() {
        db.write(|tx| (0..=index as u8).try_for_each(|key| tx.put(table, &[key], b"v"))).unwrap();
    }
    // More tables than a reader counts by itself, in turns.
    for round in 0..700_usize {
        let index = round % tables.len();
        db.get(&tables[index], &[round as u8]).unwrap();
        if round < tables.len() {
            let snapshot = db.snapshot().unwrap();
            let mut cursor = snapshot.cursor(&tables[index], ..).unwrap();
            while cursor.next().unwrap().is_some() {}
        }
    }
    let of = db.table_stats().unwrap();
    for (index, name) in names.into_iter().enumerate() {
        let table = of.iter().find(|table| table.name == name).unwrap();
        let writes = index as u64 + 1;
        let TableStats { gets, scans, cursor_moves, commits, writes: written, .. } = *table;
        assert_eq!((gets, scans, commits, written), (100, 1, 1, writes), "{name}");
        assert_eq!(cursor_moves, writes + 1, "{name}");
        assert_eq!(table.approximate_records, writes);
    }
    let (stats, page) = (db.stats().unwrap(), db.prometheus().unwrap());
    assert!(stats.gets >= 700 && stats.writes >= 28);
    let samples = parsed(&page);
    assert_eq!(samples["pando_table_gets_total{table=\"with \\\"quotes\\\" and \\\\\"}"], 100.0);
    assert_eq!(samples["pando_writes_total"], stats.writes as f64);
    assert_eq!(samples["pando_commits_total"], stats.commits as f64);
}

#[test]
fn waits_are_counted_by_their_cause() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder().create(dir.path()).unwrap();
    let table = db.ensure_table("t").unwrap();
    let waited = |cause| db.stats().unwrap().latencies.get(cause);
    let before = waited(WaitCause::Sync);
    for n in 0..10_u8 {
        db.put(&table, &[n], b"v").unwrap();
    }
    let syncs = waited(WaitCause::Sync);
    assert_eq!(syncs.count - before.count, 10);
    assert!(syncs.p50_ns <= syncs.p99_ns && syncs.p99_ns <= syncs.max_ns && syncs.total_ns >= syncs.max_ns);

    let buffered = TransactionOptions { durability: Durability::Buffered, ..db.transaction_options() };
    let mut attempts = 0;
    db.write(|tx| {
        attempts += 1;
        let seen = tx.get(&table, b"shared")?;
        if attempts == 1 {
            let mut other = db.begin_with(&buffered)?;
            other.put(&table, b"shared", b"theirs")?;
            other.commit()?;
        }
        tx.put(&table, b"mine", &seen.unwrap_or_default())
    })
    .unwrap();
    assert_eq!((attempts, waited(WaitCause::ConflictRetry).count), (2, 1));

    assert_eq!(waited(WaitCause::Memtable), Latency::default());
    for _ in 0..2048 {
        db.get(&table, &[1]).unwrap();
    }
    assert_eq!(waited(WaitCause::Memtable).count, 2);
    assert_eq!(waited(WaitCause::PoolHit).count, 0);
    db.checkpoint().unwrap();
    for _ in 0..2048 {
        db.get(&table, &[1]).unwrap();
    }
    assert_eq!((waited(WaitCause::Memtable).count, waited(WaitCause::PoolHit).count), (2, 2));
    db.close().unwrap();

    let db = Database::open(dir.path()).unwrap();
    let table = db.ensure_table("t").unwrap();
    db.get(&table, &[1]).unwrap();
    // The workers fault as well, also between two counters' readings: they agree as soon as nothing goes on. A thread
    // that waits for a page that another thread loads meanwhile waits for a fault too, and makes none.
    let agrees = || {
        let (stats, samples) = (db.stats().unwrap(), parsed(&db.prometheus().unwrap()));
        let sampled = samples["pando_wait_seconds_count{cause=\"pool_fault\"}"];
        let faults = stats.latencies.get(WaitCause::PoolFault).count;
        stats.pool_faults > 0 && faults >= stats.pool_faults && sampled == faults as f64
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while !agrees() {
        assert!(Instant::now() < deadline, "faults are counted differently in two places");
        thread::sleep(Duration::from_millis(10));
    }
    db.close().unwrap();
    assert_eq!(db.prometheus().unwrap_err().kind(), ErrorKind::Closed);
}
