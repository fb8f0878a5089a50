//! `copy` from and to PostgreSQL, with servers that the tests start.

use crate::common::{failure, pando, text};
use crate::copy::{Person, Tables, contents, fill, kill_during, path};
use crate::server;
use pando::remote::RemoteDatabase;
use pando::{Compression, Database, Layout, TableOptions};
use pando_postgres::Options;
use rows::Table;
use std::process::{Command, Output};
use std::time::Duration;

/// A schema of the shared server.
struct Store {
    url: String,
    schema: String,
}

/// The standard output of a run that succeeds.
#[track_caller]
fn success(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

impl Store {
    /// Returns a new one, if there is a server.
    fn new() -> Option<Store> {
        Some(Store { url: server::url(server::shared()?), schema: server::schema() })
    }

    fn open(&self) -> RemoteDatabase {
        Options::default().schema(&self.schema).open(&self.url).unwrap()
    }

    fn contents(&self) -> Tables {
        let snapshot = self.open().snapshot();
        let records = |table: &pando::Table| snapshot.range(table, ..).unwrap().map(Result::unwrap).collect();
        snapshot.tables().unwrap().iter().map(|table| (table.name().to_owned(), records(table))).collect()
    }
}

#[test]
fn a_directory_goes_to_postgres_and_back() {
    let Some(store) = Store::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (from, back) = (path(dir.path(), "from"), path(dir.path(), "back"));
    let db = Database::create(&from).unwrap();
    fill(&db, 2, 2684);
    let options = TableOptions::with_layout(Layout::Lsm).compression(Compression::Lz4);
    let films = db.create_table("films", &options).unwrap();
    let film: Vec<u8> = (0..16_u32 << 20).map(|at| (at % 251) as u8).collect();
    db.write(|tx| tx.put_reader(&films, "long", &film[..])).unwrap();
    db.close().unwrap();
    let all = contents(&from);

    let there = ["copy", &from, &store.url, "--to-schema", &store.schema];
    let said = text(pando(there));
    for what in ["not kept: layouts of table \"films\"", "not kept: compression of table \"films\""] {
        assert!(said.contains(what), "{said}");
    }
    assert!(store.contents() == all);
    let (people, snapshot) =
        (Table::<Person>::open(&store.open().snapshot()).unwrap().unwrap(), store.open().snapshot());
    assert_eq!(people.by_index(&snapshot, "by_city", "Bern").unwrap().count(), 100);
    assert!(failure(pando(there), 2).contains("has tables already"));

    let said = text(pando(["copy", &store.url, &back, "--from-schema", &store.schema, "--json"]));
    assert!(said.contains("\"not_kept\":[]"), "{said}");
    assert!(contents(&back) == all);
    text(pando(["check", &back]));

    let other = Store::new().unwrap();
    let between =
        ["copy", &store.url, &other.url, "--from-schema", &store.schema, "--to-schema", &other.schema];
    text(pando(between));
    assert!(other.contents() == all);
}

#[test]
fn what_postgres_cannot_keep_is_named_and_nothing_is_written() {
    let Some(store) = Store::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let from = path(dir.path(), "from");
    let db = Database::create(&from).unwrap();
    let big = db.ensure_table("big").unwrap();
    db.put(&big, "fits", vec![1; 16 << 20]).unwrap();
    db.put(&big, "too-long", vec![1; (16 << 20) + 1]).unwrap();
    db.put(&big, vec![b'k'; 2685], "key").unwrap();
    db.close().unwrap();

    // A mistyped schema is no empty source, and is not made on the way.
    for _ in 0..2 {
        let said =
            failure(pando(["copy", &store.url, &path(dir.path(), "to"), "--from-schema", "mistyped"]), 1);
        assert!(said.contains("no database of Pando in the schema \"mistyped\""), "{said}");
    }
    let words = ["copy", &from, &store.url, "--to-schema", &store.schema];
    let with = |more: &[&str]| pando([&words[..], more].concat());
    let output = with(&[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for named in [
        "key too-long: a value of 16777217 bytes, the limit is 16777216",
        "a key of 2685 bytes, the limit is 2684",
    ] {
        assert!(said.contains(named), "{said}");
    }
    assert!(!said.contains("fits") && store.open().tables().unwrap().is_empty(), "{said}");
}

/// What SQL made moves to the store, is changed there, and moves back.
#[test]
fn tables_of_sql_move_to_postgres_and_back() {
    let Some(store) = Store::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let [from, back] = ["from", "back"].map(|name| path(dir.path(), name));
    let fruit = "CREATE TABLE fruit(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, price REAL);
        CREATE INDEX by_price ON fruit(price); CREATE TABLE log(what);
        CREATE TRIGGER logs AFTER INSERT ON fruit BEGIN INSERT INTO log VALUES (new.name); END;
        CREATE VIEW cheap AS SELECT name FROM fruit WHERE price < 2;
        INSERT INTO fruit(name, price) VALUES ('apple', 1.5), ('fig', 3), ('pear', 1)";
    success(pando(["sql", &from, fruit]));
    success(pando(["copy", &from, &store.url, "--to-schema", &store.schema]));
    let over = ["sql", &store.url, "--schema", &store.schema, "--format", "csv"];
    let ask = |statement: &str| success(pando([&over[..], &[statement]].concat()));
    assert_eq!(ask("SELECT name FROM cheap ORDER BY name"), "name\napple\npear\n");
    ask("INSERT INTO fruit(name, price) VALUES ('plum', 1.25)");
    assert_eq!(ask("SELECT id FROM fruit INDEXED BY by_price WHERE price = 1.25"), "id\n4\n");
    let said = failure(pando([&over[..], &["INSERT INTO fruit(name) VALUES ('fig')"]].concat()), 1);
    assert!(said.contains("UNIQUE constraint failed: fruit.name"), "{said}");
    let said = failure(pando([&over[..], &["--read-only", "DELETE FROM fruit"]].concat()), 1);
    assert!(said.contains("read-only"), "{said}");
    success(pando(["copy", &store.url, &back, "--from-schema", &store.schema]));
    let all = "SELECT (SELECT group_concat(name) FROM fruit), (SELECT count(*) FROM log),
        (SELECT seq FROM sqlite_sequence)";
    assert_eq!(
        success(pando(["sql", &back, "--format", "csv", all])).lines().last(),
        Some("\"apple,fig,pear,plum\",4,4")
    );
    assert_eq!(
        success(pando(["sql", &back, "--format", "csv", "PRAGMA integrity_check"])).lines().last(),
        Some("ok")
    );
}

/// The copy is killed, the server crashes, and the copy is continued.
#[test]
fn a_killed_copy_to_postgres_is_resumed() {
    let Some(mut own) = server::Server::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (from, url) = (path(dir.path(), "from"), server::url(&own.dir));
    let db = Database::create(&from).unwrap();
    let table = db.ensure_table("t").unwrap();
    for part in 0..10_u32 {
        db.write(|tx| {
            (0..10_000).try_for_each(|at| tx.put(&table, (part * 10_000 + at).to_be_bytes(), [7; 50]))
        })
        .unwrap();
    }
    db.close().unwrap();
    let copied = kill_during(&["copy", &from, &url], || {
        let target = pando_postgres::open(&url).unwrap();
        let snapshot = target.snapshot();
        let table = snapshot.table("t").unwrap()?;
        let copied = snapshot.range(&table, ..).ok()?.count();
        (copied > 3_000).then_some(copied)
    });
    assert!(copied < 100_000, "it was finished");
    own.restart("immediate");
    assert!(failure(pando(["copy", &from, &url]), 2).contains("--resume"));
    let said = text(pando(["copy", &from, &url, "--resume", "--json"]));
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(report["unchanged"].as_u64().unwrap() >= copied as u64 && report["deleted"] == 0, "{said}");
    let target = pando_postgres::open(&url).unwrap();
    let table = target.table("t").unwrap().unwrap();
    assert_eq!(target.snapshot().range(&table, ..).unwrap().count(), 100_000);
    assert_eq!(target.tables().unwrap().len(), 1, "the note of the unfinished copy is gone");
}

/// The second pass finds what the first one did not write: here the server changes a value that it is sent.
#[test]
fn a_copy_that_is_not_equal_is_a_failure() {
    let Some(store) = Store::new() else { return };
    store.open();
    let schema = &store.schema;
    let change = format!(
        "CREATE FUNCTION {schema}.change() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN NEW.value := 'other'; RETURN NEW; END $$;
         CREATE TRIGGER change BEFORE INSERT ON {schema}.records
             FOR EACH ROW WHEN (NEW.key = 'lemon') EXECUTE FUNCTION {schema}.change()"
    );
    let psql = server::programs().unwrap().join("psql");
    let changed = Command::new(psql).args([&store.url, "-c", &change]).output().unwrap();
    assert!(changed.status.success(), "{changed:?}");
    let dir = tempfile::tempdir().unwrap();
    let from = path(dir.path(), "from");
    text(pando(["put", &from, "fruit", "apple", "green"]));
    text(pando(["put", &from, "fruit", "lemon", "olive"]));
    let words = ["copy", &from, &store.url, "--to-schema", schema];
    let said = failure(pando(words), 1);
    for part in ["table \"fruit\" is not equal", "2 records, 20 bytes", "--resume"] {
        assert!(said.contains(part), "{said}");
    }
    let is_marked = |store: &Store| store.open().table("pando-copy-unfinished").unwrap().is_some();
    assert!(is_marked(&store), "it is not called finished");
    failure(pando([&words[..], &["--resume"]].concat()), 1);
    assert!(is_marked(&store));
}

#[test]
fn a_ttl_begins_again_if_that_is_allowed() {
    let Some(store) = Store::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    let from = path(dir.path(), "from");
    let db = Database::create(&from).unwrap();
    let hour = Duration::from_secs(3600);
    let cache = db.create_table("cache", &TableOptions::default().ttl(hour)).unwrap();
    db.put(&cache, "k", "v").unwrap();
    db.close().unwrap();
    let words = ["copy", &from, &store.url, "--to-schema", &store.schema];
    assert!(failure(pando(words), 2).contains("--restart-ttl"));
    text(pando([&words[..], &["--restart-ttl"]].concat()));
    let copied = store.open();
    let cache = copied.table("cache").unwrap().unwrap();
    assert_eq!(cache.ttl(), Some(hour));
    assert_eq!(copied.get(&cache, "k").unwrap().as_deref(), Some(&b"v"[..]));
}
