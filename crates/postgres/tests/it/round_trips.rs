//! How many round trips each kind of work takes, counted between the client and the server.

use crate::proxy::Proxy;
use crate::server;
use pando::Table;
use pando::remote::RemoteDatabase;

fn start() -> Option<(Proxy, RemoteDatabase, Table)> {
    let proxy = Proxy::start(server::shared()?);
    let db = server::options().open(&server::url(&proxy.dir)).unwrap();
    let table = db.ensure_table("t").unwrap();
    // The pool has a connection from here on.
    db.put(&table, "warm", "").unwrap();
    Some((proxy, db, table))
}

#[test]
fn a_get_takes_one() {
    let Some((proxy, db, t)) = start() else { return };
    assert_eq!(proxy.round_trips(|| db.get(&t, "k").unwrap()).0, 1);
    assert_eq!(proxy.round_trips(|| db.multi_get(&t, &["a", "b", "c"]).unwrap()).0, 1);
}

#[test]
fn a_put_takes_one_and_so_do_a_hundred() {
    let Some((proxy, db, t)) = start() else { return };
    assert_eq!(proxy.round_trips(|| db.put(&t, "k", "v").unwrap()).0, 1);
    let hundred = || db.write(|tx| (0..100_u8).try_for_each(|key| tx.put(&t, [key], "v"))).unwrap();
    assert_eq!(proxy.round_trips(hundred).0, 1);
    assert_eq!(db.snapshot().range(&t, ..).unwrap().count(), 102);
}

#[test]
fn a_get_a_put_and_their_commit_take_two() {
    let Some((proxy, db, t)) = start() else { return };
    let work = || {
        let mut tx = db.begin();
        assert_eq!(tx.get(&t, "k").unwrap(), None);
        tx.put(&t, "k", "v").unwrap();
        tx.delete_range(&t, "x".."y").unwrap();
        tx.commit().unwrap();
    };
    assert_eq!(proxy.round_trips(work).0, 2);
}

#[test]
fn ten_thousand_records_take_at_most_twelve() {
    let Some((proxy, db, t)) = start() else { return };
    db.write(|tx| (0..10_000_u32).try_for_each(|key| tx.put(&t, key.to_be_bytes(), [7; 100]))).unwrap();
    let scan = || {
        let snapshot = db.snapshot();
        let mut cursor = snapshot.cursor(&t, ..).unwrap();
        let mut count = 0;
        while cursor.next().unwrap().is_some() {
            count += 1;
        }
        count
    };
    let (round_trips, count) = proxy.round_trips(scan);
    assert_eq!(count, 10_001);
    assert!(round_trips <= 12, "{round_trips} round trips");
}
