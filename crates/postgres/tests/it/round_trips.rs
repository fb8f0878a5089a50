//! How many round trips each kind of work takes, counted between the client and the server.

use crate::proxy::Proxy;
use crate::server;
use pando::remote::RemoteDatabase;
use pando::{Table, TableOptions};
use std::time::Duration;

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
fn a_get_of_an_entry_with_a_ttl_takes_one() {
    let Some((proxy, db, _)) = start() else { return };
    let options = TableOptions::default().ttl(Duration::from_secs(60));
    let t = db.create_table("dated", &options).unwrap();
    db.put(&t, "k", "v").unwrap();
    let (round_trips, found) = proxy.round_trips(|| db.get(&t, "k").unwrap());
    assert_eq!((round_trips, found.as_deref()), (1, Some(&b"v"[..])));
    let (round_trips, found) = proxy.round_trips(|| db.multi_get(&t, &["a", "k", "k"]).unwrap());
    assert_eq!((round_trips, found), (1, vec![None, Some(b"v".to_vec()), Some(b"v".to_vec())]));
}

#[test]
fn a_put_takes_one_and_so_do_a_hundred() {
    let Some((proxy, db, t)) = start() else { return };
    assert_eq!(proxy.round_trips(|| db.put(&t, "k", "v").unwrap()).0, 1);
    let hundred = || db.write(|tx| (0..100_u8).try_for_each(|key| tx.put(&t, [key], "v"))).unwrap();
    assert_eq!(proxy.round_trips(hundred).0, 1);
    assert_eq!(db.snapshot().range(&t, ..).unwrap().count(), 102);
    // A range needs a transaction around the deletes and the rest, which begins first.
    let ranges = || db.write(|tx| tx.delete_range(&t, "k".."l").and_then(|()| tx.delete_range(&t, "w"..)));
    assert_eq!(proxy.round_trips(|| ranges().unwrap()).0, 2);
    assert_eq!(db.snapshot().range(&t, ..).unwrap().count(), 100);
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

/// The table's row, eight pages of 64 records, 128 and so on up to 4,096, and the end of the snapshot.
#[test]
fn ten_thousand_records_take_ten() {
    let Some((proxy, db, t)) = start() else { return };
    db.write(|tx| (0..10_000_u32).try_for_each(|key| tx.put(&t, key.to_be_bytes(), [7; 100]))).unwrap();
    // A commit of this size closes its connection, so the pool gets another one first.
    db.put(&t, "warm", "").unwrap();
    let scan = |backward: bool| {
        let snapshot = db.snapshot();
        let mut cursor = snapshot.cursor(&t, ..).unwrap();
        let mut count = 0;
        while if backward { cursor.prev() } else { cursor.next() }.unwrap().is_some() {
            count += 1;
        }
        count
    };
    assert_eq!(proxy.round_trips(|| scan(false)), (10, 10_001));
    assert_eq!(proxy.round_trips(|| scan(true)), (10, 10_001));
}

/// A page ends after 128 KiB of values, and each later one after twice as many, up to 4 MiB, so that long ones do not
/// come at once.
#[test]
fn pages_of_long_values_are_short() {
    let Some((proxy, db, t)) = start() else { return };
    let (value, count) = (vec![7; 1 << 20], 24_u8);
    for keys in (0..count).collect::<Vec<_>>().chunks(8) {
        db.write(|tx| keys.iter().try_for_each(|key| tx.put(&t, [*key], &value))).unwrap();
    }
    db.delete(&t, "warm").unwrap();
    let snapshot = db.snapshot();
    let (round_trips, found) = proxy.round_trips(|| snapshot.range(&t, ..).unwrap().count());
    // The table's row, four pages of one value each, one of two, and five of up to four. The last one is not full.
    assert_eq!((round_trips, found), (1 + 4 + 1 + 5, usize::from(count)));
}

/// A page ends with the bytes that are wanted, too, so that nothing is read that a short batch does not take.
#[test]
fn a_page_has_the_bytes_that_are_wanted() {
    let Some((_proxy, db, t)) = start() else { return };
    db.write(|tx| (0..100_u8).try_for_each(|key| tx.put(&t, [key], [7; 1000]))).unwrap();
    let snapshot = db.snapshot();
    let mut cursor = snapshot.cursor(&t, ..).unwrap();
    cursor.expect(4096, 10_000);
    assert!(cursor.advance().unwrap());
    assert_eq!(cursor.run_on(5000, |_, _, _| {}).unwrap(), 9);
}

/// A look-up of many keys ends with the value that reaches a number of bytes.
#[test]
fn many_values_come_in_parts() {
    let Some((proxy, db, t)) = start() else { return };
    db.write(|tx| (0..6_u8).try_for_each(|key| tx.put(&t, [key], [key; 1000]))).unwrap();
    let keys: Vec<_> = [9_u8, 0, 1, 2, 3, 4, 5].map(|key| [key]).into();
    let snapshot = db.snapshot();
    // The table is not known to the first request.
    for _ in 0..2 {
        for (most_bytes, count) in [(1, 2), (1000, 2), (1001, 3), (3000, 4), (7000, 7), (usize::MAX, 7)] {
            let (round_trips, found) =
                proxy.round_trips(|| snapshot.multi_get_within(&t, &keys, most_bytes).unwrap());
            assert_eq!((round_trips, found.len()), (1, count), "{most_bytes} bytes");
            assert_eq!(found[0], None);
            assert!(
                (0..count - 1).all(|at| found[at + 1] == Some(vec![at as u8; 1000])),
                "{most_bytes} bytes"
            );
        }
        assert_eq!(snapshot.multi_get_within(&t, &keys[1..], 1).unwrap(), [Some(vec![0; 1000])]);
        assert_eq!(snapshot.multi_get(&t, &keys).unwrap().len(), 7);
    }
    let mut tx = db.begin();
    tx.put(&t, [0], [7; 5000]).unwrap();
    tx.delete(&t, [1]).unwrap();
    for (most_bytes, count) in [(1, 2), (5000, 2), (5001, 4), (6001, 5), (usize::MAX, 7)] {
        let found = tx.multi_get_within(&t, &keys, most_bytes).unwrap();
        assert_eq!(found.len(), count, "{most_bytes} bytes");
        assert_eq!(found[1], Some(vec![7; 5000]));
        assert!(found.get(2).is_none_or(Option::is_none), "it is deleted");
    }
}

/// The values that a look-up leaves for the next one are not sent.
#[test]
fn what_is_left_is_not_sent() {
    let Some((proxy, db, t)) = start() else { return };
    let keys: Vec<_> = (0..20_u8).map(|key| [key]).collect();
    db.write(|tx| keys.iter().try_for_each(|key| tx.put(&t, key, vec![key[0]; 100_000]))).unwrap();
    let snapshot = db.snapshot();
    let (sent, found) = proxy.sent_bytes(|| snapshot.multi_get_within(&t, &keys, 200_000).unwrap());
    assert_eq!(found.len(), 2);
    assert!((200_000..320_000).contains(&sent), "{sent} bytes were sent");
}

/// Own writes are merged into pages by pages, in both directions.
#[test]
fn own_writes_among_stored_records_are_in_order() {
    let Some((_proxy, db, t)) = start() else { return };
    db.delete(&t, "warm").unwrap();
    db.write(|tx| {
        (0..1500_u32).filter(|key| key % 2 == 0).try_for_each(|key| tx.put(&t, key.to_be_bytes(), "stored"))
    })
    .unwrap();
    let mut tx = db.begin();
    for key in 0..1500_u32 {
        match key % 6 {
            1 | 4 => tx.put(&t, key.to_be_bytes(), "own").unwrap(),
            0 => tx.delete(&t, key.to_be_bytes()).unwrap(),
            _ => {}
        }
    }
    // A page of few records does not have all that the transaction has written.
    let mut cursor = tx.cursor(&t, ..).unwrap();
    cursor.expect(5, 1 << 20);
    assert!(cursor.advance().unwrap());
    assert!(cursor.run_on(5000, |_, _, _| {}).unwrap() < 10);
    let expected: Vec<_> = (0..1500_u32).filter(|key| [1, 2, 4].contains(&(key % 6))).collect();
    for wanted in [1, 5, 64, 5000] {
        let keys = |is_backward: bool| {
            let mut cursor = tx.cursor(&t, ..).unwrap();
            cursor.expect(wanted, 1 << 20);
            let mut keys = Vec::new();
            while let Some((key, value)) = if is_backward { cursor.prev() } else { cursor.next() }.unwrap() {
                let key = u32::from_be_bytes(key.try_into().unwrap());
                assert_eq!(value, if key % 6 == 2 { &b"stored"[..] } else { &b"own"[..] });
                keys.push(key);
            }
            keys
        };
        assert_eq!(keys(false), expected, "{wanted}");
        assert_eq!(keys(true), expected.iter().rev().copied().collect::<Vec<_>>(), "{wanted}");
    }
}
