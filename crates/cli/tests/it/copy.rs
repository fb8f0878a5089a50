//! `copy` between directories, as a user runs it. `copy_postgres` has the stores.

use crate::common::{failure, pando, text};
use pando::{Compression, Database, Layout, TableOptions};
use rows::{Row, Table};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

#[derive(Row, Debug, Clone, PartialEq)]
#[row(table = "people", unique(by_email = "email"), index(by_city = "city"))]
pub struct Person {
    #[row(key)]
    pub id: u64,
    pub email: String,
    pub city: String,
}

pub fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

/// The records of each table.
pub type Tables = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Returns all records of a directory.
pub fn contents(dir: &str) -> Tables {
    let db = Database::builder().read_only(true).open(dir).unwrap();
    let snapshot = db.snapshot().unwrap();
    let records = |table: &pando::Table| snapshot.range(table, ..).unwrap().map(Result::unwrap).collect();
    snapshot.tables().unwrap().iter().map(|table| (table.name().to_owned(), records(table))).collect()
}

/// A stream of numbers that is the same for the same seed.
pub fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// Fills a database with tables of random records, and with typed rows.
pub fn fill(db: &Database, seed: u64, max_key_bytes: u64) {
    let mut number = numbers(seed);
    for name in ["", "fruit", "grün", "empty"].map(|name| format!("t{name}")) {
        let table = db.ensure_table(&name).unwrap();
        let records = if name == "tempty" { 0 } else { 2_000 };
        db.write(|tx| {
            for _ in 0..records {
                let key_bytes = if number(50) == 0 { max_key_bytes } else { number(30) };
                let value_bytes = if number(50) == 0 { number(40_000) } else { number(100) };
                let mut bytes = |count| (0..count).map(|_| number(256) as u8).collect::<Vec<_>>();
                let (key, value) = (bytes(key_bytes), bytes(value_bytes));
                tx.put(&table, key, value)?;
            }
            Ok(())
        })
        .unwrap();
    }
    let people = db.write(Table::<Person>::create).unwrap();
    db.write(|tx| {
        (0..300).try_for_each(|id| {
            let city = if id % 3 == 0 { "Bern" } else { "Rome" };
            people.insert(tx, &Person { id, email: format!("{id}@example.org"), city: city.to_owned() })
        })
    })
    .unwrap();
}

#[test]
fn a_table_that_was_an_lsm_table_keeps_its_compression() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (path(dir.path(), "from"), path(dir.path(), "to"));
    text(pando(["put", &from, "t", "a", "b", "--layout", "lsm", "--compression", "lz4"]));
    text(pando(["layout", &from, "t", "btree"]));
    text(pando(["copy", &from, &to]));
    assert!(contents(&to) == contents(&from));
    text(pando(["check", &to]));
    let db = Database::open(&to).unwrap();
    let table = db.table("t").unwrap().unwrap();
    assert_eq!((table.layout(), table.compression()), (Layout::BTree, Compression::Lz4));
    db.checkpoint().unwrap();
    db.check().unwrap();
    db.close().unwrap();
    // A second copy into it takes the table as it is.
    text(pando(["put", &from, "t", "c", "d"]));
    let said = failure(pando(["copy", &from, &to]), 2);
    assert!(!said.contains("layout"), "{said}");
}

#[test]
fn a_directory_is_copied_with_layouts_pages_of_another_size_and_long_values() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (path(dir.path(), "from"), path(dir.path(), "to"));
    let db = Database::create(&from).unwrap();
    fill(&db, 1, 900);
    let options = TableOptions::with_layout(Layout::Lsm).compression(Compression::Lz4);
    let films = db.create_table("films", &options).unwrap();
    let film: Vec<u8> = (0..5_u32 << 20).map(|at| (at % 251) as u8).collect();
    db.write(|tx| tx.put_reader(&films, "long", &film[..])).unwrap();
    db.put(&films, "short", "film").unwrap();
    // What SQLite's library makes is tables of records, too.
    let [meta, _] = ["sql:meta", "sql:1"].map(|name| db.ensure_table(name).unwrap());
    db.put(&meta, "k", "v").unwrap();
    db.close().unwrap();

    let said = failure(pando(["copy", &from, &to, "--skip", "sql:1"]), 2);
    assert!(said.contains("\"sql:meta\" and the others of SQLite's library are one whole"), "{said}");
    let said = text(pando(["copy", &from, &to, "--dry-run"]));
    assert!(said.contains("nothing was written") && !Path::new(&to).exists(), "{said}");
    let said = text(pando(["copy", &from, &to, "--page-size", "8K", "--json"]));
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let all = contents(&from);
    assert_eq!(report["records"], all.values().map(BTreeMap::len).sum::<usize>());
    assert_eq!((&report["not_kept"], &report["resumed"]), (&serde_json::json!([]), &false.into()));
    for table in report["tables"].as_array().unwrap() {
        assert_eq!(table["records"], all[table["table"].as_str().unwrap()].len(), "{table}");
        assert_eq!((&table["verified"], &table["unchanged"]), (&true.into(), &0.into()), "{table}");
    }
    assert!(contents(&to) == all);
    text(pando(["check", &to]));
    let db = Database::builder().read_only(true).open(&to).unwrap();
    assert_eq!(db.stats().unwrap().page_bytes, 8192);
    let films = db.table("films").unwrap().unwrap();
    assert_eq!((films.layout(), films.compression()), (Layout::Lsm, Compression::Lz4));

    // The reader of the output goes away, and the copy is made all the same.
    let unread = path(dir.path(), "unread");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pando"));
    command.args(["copy", &from, &unread, "--page-size", "4K"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success() && contents(&unread) == all);

    let said = text(pando(["copy", &from, &path(dir.path(), "small"), "--page-size", "4K"]));
    assert!(said.contains("not kept: compression of table \"films\": it has no effect"), "{said}");
}

#[test]
fn what_would_be_lost_is_named_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (path(dir.path(), "from"), path(dir.path(), "to"));
    let db = Database::create(&from).unwrap();
    let [plain, sessions] = [("plain", TableOptions::default()), ("sessions", TableOptions::default())]
        .map(|(name, options)| db.create_table(name, &options).unwrap());
    let hour = Duration::from_secs(3600);
    let cache = db.create_table("cache", &TableOptions::default().ttl(hour)).unwrap();
    let by_key = db.create_table("by-key", &TableOptions::default().ttl_by_key()).unwrap();
    for table in [&plain, &sessions, &cache, &by_key] {
        db.put(table, "k", "v").unwrap();
    }
    db.write(Table::<Person>::create).unwrap();
    db.put(&plain, vec![b'x'; 1000], "v").unwrap();
    db.close().unwrap();

    let said = failure(pando(["copy", &from, &to]), 2);
    assert!(
        said.contains("\"cache\"") && said.contains("\"by-key\"") && !said.contains("\"plain\""),
        "{said}"
    );
    let skips = ["--skip", "by-key", "--skip", "cac*"];
    let with = |more: &[&str]| pando([&["copy", &from, &to][..], &skips, more].concat());
    let said = failure(with(&["--page-size", "4K"]), 2);
    assert!(
        said.contains("a key of 1000 bytes, the limit is 928") && said.contains("table \"plain\""),
        "{said}"
    );
    assert!(failure(with(&["--skip", "other"]), 2).contains("matches no table"));
    assert!(failure(with(&["--skip", "rows/*"]), 2).contains("part of a typed table"));
    for (options, why) in [
        (["--page-size", "5K"], "4K, 8K"),
        (["--page-size", "100"], "4K, 8K"),
        (["--to-schema", "x"], "TO is a directory"),
        (["--from-schema", "x"], "FROM is a directory"),
    ] {
        assert!(failure(with(&options), 2).contains(why), "{options:?}");
    }
    assert!(!Path::new(&to).exists(), "nothing was created");

    let said = text(with(&[]));
    assert!(
        said.contains("left out: table \"by-key\"") && said.contains("left out: table \"cache\""),
        "{said}"
    );
    assert_eq!(contents(&to).len(), contents(&from).len() - 2);
    let third = path(dir.path(), "third");
    text(pando(["copy", &from, &third, "--skip", "by-key", "--restart-ttl"]));
    let copied = Database::builder().read_only(true).open(&third).unwrap();
    assert_eq!(copied.table("cache").unwrap().unwrap().ttl(), Some(hour));
}

#[test]
fn targets_that_a_copy_must_not_change_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let [from, to, other, empty] = ["from", "to", "other", "empty"].map(|name| path(dir.path(), name));
    text(pando(["put", &from, "t", "k", "v"]));
    text(pando(["put", &other, "t", "k", "other"]));
    assert!(failure(pando(["copy", &from, &other]), 2).contains("has tables already"));
    assert!(failure(pando(["copy", &from, &other, "--resume"]), 2).contains("no unfinished copy"));
    assert!(failure(pando(["copy", &from, "http://127.0.0.1:1/x"]), 2).contains("server's machine"));
    failure(pando(["copy", &empty, &to]), 1);
    assert!(contents(&other)["t"][&b"k"[..]] == b"other");

    // A copy of `from` into `to` that had just begun.
    text(pando(["copy", &from, &to]));
    let id = Database::builder().read_only(true).open(&from).unwrap().identity().database;
    text(pando(["put", &to, "pando-copy-unfinished", "source", &format!("{id:016x}")]));
    assert!(failure(pando(["copy", &from, &to]), 2).contains("continue it with --resume"));
    assert!(failure(pando(["copy", &other, &to, "--resume"]), 2).contains("of another database"));
    assert!(failure(pando(["copy", &to, &empty]), 2).contains("itself an unfinished copy"));
    text(pando(["put", &to, "stranger", "k", "v"]));
    // A table that the source has dropped since.
    let said = text(pando(["copy", &from, &to, "--resume"]));
    assert!(said.contains("0 records were written, 1 were there already, 0 were deleted"), "{said}");
    assert!(said.contains("table \"stranger\": dropped"), "{said}");
    assert!(contents(&to) == contents(&from));

    // Without PostgreSQL in the command, its addresses are refused by the name of the feature.
    if cfg!(not(feature = "postgres")) {
        assert!(failure(pando(["copy", &from, "postgres://u:secret@h/d"]), 2).contains("feature `postgres`"));
    }
}

/// A copy that was killed is continued, also if the source has changed meanwhile.
#[test]
fn a_killed_copy_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (path(dir.path(), "from"), path(dir.path(), "to"));
    let db = Database::create(&from).unwrap();
    let (first, second) = (db.ensure_table("first").unwrap(), db.ensure_table("second").unwrap());
    let key = |number: u32| number.to_be_bytes();
    for part in 0..30 {
        db.write(|tx| {
            (0..10_000).try_for_each(|at| tx.put(&first, key(part * 10_000 + at), [part as u8; 100]))
        })
        .unwrap();
    }
    db.put(&first, "long", vec![3; 2 << 20]).unwrap();
    db.put(&second, "k", "v").unwrap();

    let copied = kill_during(&["copy", &from, &to], || {
        let db = Database::builder().read_only(true).open(&to).ok()?;
        let table = db.table("first").ok()??;
        db.snapshot().ok()?.approximate_len(&table).ok().filter(|count| *count > 20_000)
    });
    assert!(copied < 300_000, "it was finished");
    assert!(failure(pando(["copy", &from, &to]), 2).contains("--resume"));

    db.write(|tx| {
        tx.delete(&first, key(5))?;
        tx.delete(&first, key(copied as u32 / 2))?;
        tx.put(&first, key(7), [200; 100])?;
        tx.put(&first, key(8), "shorter")?;
        tx.put(&first, [&key(9)[..], b"new"].concat(), "new")?;
        tx.put(&first, "long", vec![4; 2 << 20])
    })
    .unwrap();
    db.close().unwrap();
    let said = text(pando(["copy", &from, &to, "--resume", "--json"]));
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let [written, unchanged, deleted] =
        ["written", "unchanged", "deleted"].map(|name| report[name].as_u64().unwrap());
    assert!(report["resumed"] == true && deleted == 2 && unchanged >= 19_000, "{said}");
    assert_eq!(written + unchanged, report["records"].as_u64().unwrap());
    assert!(contents(&to) == contents(&from));
}

/// Runs a command until `reached` returns something, kills it, and returns that.
pub fn kill_during<T>(words: &[&str], mut reached: impl FnMut() -> Option<T>) -> T {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pando"));
    let mut child = command.args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let seen = loop {
        if let Some(seen) = reached() {
            break seen;
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::sleep(Duration::from_millis(1));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    seen
}
