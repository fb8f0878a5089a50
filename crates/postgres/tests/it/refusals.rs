//! What is refused, and by which error.

use crate::server;
use pando::remote::{Capability, Unsupported};
use pando::{Compression, ErrorKind, Layout, TableOptions};
use pando_postgres::Options;

#[test]
fn capabilities_of_the_engine_are_refused_by_name() {
    let Some(db) = server::database() else { return };
    let lsm = TableOptions::with_layout(Layout::Lsm);
    let compressed = TableOptions::default().compression(Compression::Lz4);
    for (options, capability) in [(lsm, Capability::Layouts), (compressed, Capability::Compression)] {
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
    let never = Options::default().request_timeout(std::time::Duration::ZERO);
    assert_eq!(refused(never, "postgres://h/d"), ErrorKind::Invalid);
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
}
