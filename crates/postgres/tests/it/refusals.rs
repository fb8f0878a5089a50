//! What is refused, and by which error.

use crate::{server, statements};
use pando::remote::{Capability, RemoteDatabase, Unsupported, WriteMemory};
use pando::{Compression, ErrorKind, Layout, TableOptions};
use pando_postgres::Options;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn capabilities_of_the_engine_are_refused_by_name() {
    let Some(db) = server::database() else { return };
    let lsm = TableOptions::with_layout(Layout::Lsm);
    let compressed = TableOptions::default().compression(Compression::Lz4);
    let by_key = TableOptions::default().ttl_by_key();
    let refused =
        [(lsm, Capability::Layouts), (compressed, Capability::Compression), (by_key, Capability::TtlByKey)];
    for (options, capability) in refused {
        let error = db.create_table("t", &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(Unsupported::in_error(&error), Some(Unsupported { capability }));
        assert!(error.to_string().contains(capability.name()), "{error}");
    }
    assert!(db.tables().unwrap().is_empty());
}

#[test]
fn limits_are_refused_by_their_numbers() {
    let Some(db) = server::database() else { return };
    let t = db.ensure_table("t").unwrap();
    let limits = db.limits();
    assert_eq!(limits.max_key_bytes, 2684);
    let mut tx = db.begin();
    let value = vec![0; limits.max_value_bytes + 1];
    let error = tx.put(&t, "k", &value).unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.message().contains("16777216"), "{error:?}");
    let pieces = limits.max_transaction_bytes / limits.max_value_bytes;
    for key in 0..pieces as u8 - 1 {
        tx.put(&t, [key], &value[1..]).unwrap();
    }
    let full = (0..2).find_map(|key| tx.put(&t, [100 + key], &value[1..]).err()).unwrap();
    assert_eq!(full.kind(), ErrorKind::Full, "{full:?}");
}

/// A range delete takes memory for its bounds, whatever it deletes.
#[test]
fn range_deletes_are_bounded_as_puts_are() {
    let Some(db) = server::database() else { return };
    let limits = db.limits();
    let memory = WriteMemory::new(4 << 20);
    let limited = db.clone().with_write_memory(Arc::clone(&memory));
    // Each ends before the next one begins, so that they do not become one.
    let fill = |db: &RemoteDatabase| {
        let (mut tx, t) = (db.begin(), db.ensure_table("t").unwrap());
        let bound = |number: u32, last: u8| {
            let mut bound = vec![last; limits.max_key_bytes];
            bound[..4].copy_from_slice(&number.to_be_bytes());
            bound
        };
        let mut bytes = 0;
        let error = (0..).find_map(|number| {
            bytes += 2 * limits.max_key_bytes;
            tx.delete_range(&t, bound(number, 0)..bound(number, 1)).err()
        });
        (error.unwrap(), bytes, memory.used_bytes())
    };
    let (error, bytes, used_bytes) = fill(&limited);
    assert_eq!(error.kind(), ErrorKind::Full, "{error:?}");
    assert!((3 << 20..=4 << 20).contains(&used_bytes), "{used_bytes}");
    assert!(bytes < 4 << 20, "{bytes}");
    assert_eq!(memory.used_bytes(), 0, "the transaction has ended");
    let (error, bytes, _) = fill(&db);
    assert!(error.kind() == ErrorKind::Full && error.message().contains("268435456"), "{error:?}");
    assert!(bytes <= limits.max_transaction_bytes + 2 * limits.max_key_bytes, "{bytes}");
}

#[test]
fn bad_options_and_urls_are_refused_before_a_connection() {
    let refused = |options: Options, url: &str| options.open(url).unwrap_err().kind();
    for schema in ["", "Upper", "1st", "a-b", "a\"; DROP", &"n".repeat(64)] {
        assert_eq!(
            refused(Options::default().schema(schema), "postgres://h/d"),
            ErrorKind::Invalid,
            "{schema}"
        );
    }
    assert_eq!(refused(Options::default().max_connections(0), "postgres://h/d"), ErrorKind::Invalid);
    for timeout in [Duration::ZERO, Duration::MAX] {
        let options = Options::default();
        let connect = options.clone().connect_timeout(timeout);
        let request = options.clone().request_timeout(timeout);
        for options in [connect, request, options.idle_timeout(timeout)] {
            assert_eq!(refused(options, "postgres://h/d"), ErrorKind::Invalid);
        }
    }
    let error = Options::default().open("postgres://u:secret@h:port/d").unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && !format!("{error:?}").contains("secret"), "{error:?}");
    let nobody = Options::default().open("postgres:///d?host=/nonexistent&user=u").unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::Io);
}

/// Two programs that open a new database at once make one, and a database of a newer program stays as it is.
#[test]
fn versions_of_the_schema() {
    let Some(server) = server::shared() else { return };
    let (options, url) = (server::options(), server::url(server));
    let ids: Vec<_> = std::thread::scope(|scope| {
        let opened: Vec<_> =
            (0..6).map(|_| scope.spawn(|| options.clone().open(&url).unwrap().id())).collect();
        opened.into_iter().map(|opened| opened.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let other = server::options().open(&url).unwrap();
    assert_ne!(other.id(), ids[0]);
    // A handle does not fit a database in another schema.
    let one = options.clone().open(&url).unwrap();
    let t = one.ensure_table("t").unwrap();
    other.ensure_table("t").unwrap();
    assert_eq!(other.get(&t, "k").unwrap_err().kind(), ErrorKind::Invalid);
    let schema = server::schema();
    let open = || Options::default().schema(&schema).open(&url);
    open().unwrap();
    statements::run(server, &format!("UPDATE {schema}.meta SET version = 99"));
    let newer = open().unwrap_err();
    assert!(newer.kind() == ErrorKind::Foreign && newer.message().contains("99"), "{newer:?}");
}

#[test]
fn a_word_of_sql_can_be_the_name_of_a_schema() {
    let Some(server) = server::shared() else { return };
    let db = Options::default().schema("user").open(&server::url(server)).unwrap();
    let t = db.ensure_table("t").unwrap();
    db.write(|tx| tx.put(&t, "k", "v").and_then(|()| tx.delete_range(&t, "x"..))).unwrap();
    assert_eq!(db.snapshot().range(&t, ..).unwrap().count(), 1);
}

/// What the server sends is not trusted: relations that another program made or changed are an error, and no panic.
#[test]
fn relations_of_another_program_are_refused() {
    let Some(server) = server::shared() else { return };
    let (url, schema) = (server::url(server), server::schema());
    let meta = format!(
        "CREATE SCHEMA {schema}; CREATE TABLE {schema}.meta (version text, database text);
         INSERT INTO {schema}.meta VALUES ('first', 'shop')"
    );
    statements::run(server, &meta);
    let error = Options::default().schema(&schema).open(&url).unwrap_err();
    assert!(error.kind() == ErrorKind::Io && error.to_string().contains("first"), "{error:?}");

    let schema = server::schema();
    let db = Options::default().schema(&schema).open(&url).unwrap();
    let t = db.ensure_table("t").unwrap();
    db.put(&t, "k", "v").unwrap();
    let emptied = format!(
        "ALTER TABLE {schema}.records ALTER value DROP NOT NULL;
         UPDATE {schema}.records SET value = NULL WHERE tbl = {}",
        t.id().0
    );
    statements::run(server, &emptied);
    assert_eq!(db.multi_get(&t, &["a", "k"]).unwrap_err().kind(), ErrorKind::Foreign);
}

#[test]
fn an_unknown_user_is_named_as_the_reason() {
    let Some(server) = server::shared() else { return };
    let url = server::url(server).replace("user=test", "user=nobody_here");
    let error = Options::default().open(&url).unwrap_err();
    assert!(error.kind() == ErrorKind::Io && error.message().contains("the user"), "{error:?}");
}
