//! What reads and writes do, on every subject alike.

use crate::subject::{Subject, on_every_subject};
use pando::{ErrorKind, ReadTables, RecordCursor, Result, Table, TableOptions, WriteTables};
use std::io::Read;
use std::time::Duration;

on_every_subject!(
    reads,
    writes,
    deletes_of_ranges,
    ranges_from_both_ends,
    cursors_turn_and_seek,
    savepoints,
    limits_of_keys,
    long_values,
    entries_expire,
    a_snapshot_stays,
    a_dropped_transaction_has_no_effect,
);

fn table(subject: &impl Subject) -> Table {
    subject.write(|tx| tx.ensure_table("t")).unwrap()
}

fn keys(range: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>) -> String {
    range.map(|record| String::from_utf8(record.unwrap().0).unwrap()).collect()
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// Sets each letter to its upper case.
fn fill(subject: &impl Subject, table: &Table, letters: &str) {
    let put = |tx: &mut _, letter: char| {
        WriteTables::put(tx, table, letter.to_string(), letter.to_uppercase().to_string())
    };
    subject.write(|tx| letters.chars().try_for_each(|letter| put(tx, letter))).unwrap();
}

fn reads(subject: &impl Subject) {
    let t = table(subject);
    fill(subject, &t, "ac");
    subject.write(|tx| tx.put(&t, "", "empty key").and_then(|()| tx.put(&t, [0, 255], []))).unwrap();
    fn all(reader: &impl ReadTables, t: &Table) {
        assert_eq!(reader.get(t, "a").unwrap().as_deref(), Some(&b"A"[..]));
        assert_eq!(reader.get(t, "b").unwrap(), None);
        assert_eq!(reader.get(t, "").unwrap().as_deref(), Some(&b"empty key"[..]));
        assert_eq!(reader.get(t, [0, 255]).unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(reader.get_ref(t, "c").unwrap().as_deref(), Some(&b"C"[..]));
        assert_eq!(reader.get_with(t, "a", <[u8]>::len).unwrap(), Some(1));
        assert_eq!(reader.get_with(t, "b", <[u8]>::len).unwrap(), None);
        let many = reader.multi_get(t, &["c", "b", "a", "c"]).unwrap();
        let many: Vec<_> = many.iter().map(Option::as_deref).collect();
        assert_eq!(many, [Some(&b"C"[..]), None, Some(b"A"), Some(b"C")]);
        assert!(reader.multi_get::<&str>(t, &[]).unwrap().is_empty());
        assert!(reader.contains(t, "a").unwrap() && !reader.contains(t, "aa").unwrap());
        assert_eq!((reader.value_len(t, "").unwrap(), reader.value_len(t, "z").unwrap()), (Some(9), None));
        let mut text = String::new();
        reader.value_reader(t, "").unwrap().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "empty key");
        assert_eq!(reader.table("t").unwrap().unwrap().id(), t.id());
        assert!(reader.table("u").unwrap().is_none());
    }
    all(&subject.snapshot(), &t);
    all(&subject.begin(), &t);
}

fn writes(subject: &impl Subject) {
    let t = table(subject);
    fill(subject, &t, "abc");
    let mut tx = subject.begin();
    assert_eq!(kind(tx.insert(&t, "a", "1")), ErrorKind::Exists);
    tx.insert(&t, "d", "1").unwrap();
    assert_eq!(kind(tx.insert(&t, "d", "2")), ErrorKind::Exists);
    assert_eq!(tx.remove(&t, "a").unwrap().as_deref(), Some(&b"A"[..]));
    assert_eq!(tx.remove(&t, "a").unwrap(), None);
    tx.insert(&t, "a", "again").unwrap();
    tx.delete(&t, "b").unwrap();
    tx.delete(&t, "nothing").unwrap();
    tx.put(&t, "c", "1").unwrap();
    tx.put(&t, "c", "2").unwrap();
    let many = tx.multi_get(&t, &["a", "b", "c", "d", "e"]).unwrap();
    let expected = [Some(b"again".to_vec()), None, Some(b"2".to_vec()), Some(b"1".to_vec()), None];
    assert_eq!(many, expected);
    assert_eq!(keys(tx.range(&t, ..).unwrap()), "acd");
    assert_eq!(keys(subject.snapshot().range(&t, ..).unwrap()), "abc", "nothing is committed yet");
    subject.commit(tx).unwrap();
    assert_eq!(subject.snapshot().multi_get(&t, &["a", "b", "c", "d", "e"]).unwrap(), expected);
}

fn deletes_of_ranges(subject: &impl Subject) {
    let t = table(subject);
    fill(subject, &t, "abcdefgh");
    let mut tx = subject.begin();
    tx.put(&t, "cc", "").unwrap();
    tx.delete_range(&t, "b".."d").unwrap();
    tx.put(&t, "c", "back").unwrap();
    tx.delete_range(&t, "g"..).unwrap();
    tx.delete_range(&t, "f".."f").unwrap();
    assert_eq!(tx.get(&t, "b").unwrap(), None);
    assert_eq!(keys(tx.range(&t, ..).unwrap()), "acdef");
    assert_eq!(keys(tx.range(&t, "b".."e").unwrap().rev()), "dc");
    subject.commit(tx).unwrap();
    assert_eq!(keys(subject.snapshot().range(&t, ..).unwrap()), "acdef");
    // The range as the first and only write, of a transaction that has read nothing.
    subject.write(|tx| tx.delete_range(&t, ..)).unwrap();
    assert_eq!(keys(subject.snapshot().range(&t, ..).unwrap()), "");
}

fn ranges_from_both_ends(subject: &impl Subject) {
    let t = table(subject);
    fill(subject, &t, "abcdefgh");
    let snapshot = subject.snapshot();
    assert_eq!(keys(snapshot.range(&t, "b".."e").unwrap()), "bcd");
    assert_eq!(keys(snapshot.range(&t, "b"..="e").unwrap()), "bcde");
    assert_eq!(keys(snapshot.range(&t, "bb"..).unwrap()), "cdefgh");
    assert_eq!(keys(snapshot.range(&t, .."c").unwrap().rev()), "ba");
    assert_eq!(keys(snapshot.range(&t, "e".."b").unwrap()), "");
    assert_eq!(keys(snapshot.prefix(&t, "c").unwrap()), "c");
    let mut range = snapshot.range(&t, "b".."g").unwrap();
    let mut taken = String::new();
    for from_the_back in [false, true, true, false, false, true] {
        let record = if from_the_back { range.next_back() } else { range.next() };
        taken += &record.map_or("-".into(), |record| String::from_utf8(record.unwrap().0).unwrap());
    }
    assert_eq!(taken, "bfecd-");
}

fn cursors_turn_and_seek(subject: &impl Subject) {
    let t = table(subject);
    fill(subject, &t, "abcdefgh");
    let mut tx = subject.begin();
    tx.delete(&t, "d").unwrap();
    tx.put(&t, "dd", "own").unwrap();
    let mut cursor = tx.cursor(&t, "b".."g").unwrap();
    let mut visited = String::new();
    let mut note = |record: Option<(&[u8], &[u8])>| {
        visited += &record.map_or("-".into(), |(key, _)| String::from_utf8(key.to_vec()).unwrap());
        visited += " ";
    };
    note(cursor.current());
    note(cursor.next().unwrap());
    note(cursor.prev().unwrap());
    note(cursor.prev().unwrap());
    note(cursor.next().unwrap());
    note(cursor.next().unwrap());
    note(cursor.next().unwrap());
    note(cursor.prev().unwrap());
    note(cursor.seek(b"d").unwrap());
    note(cursor.next().unwrap());
    note(cursor.seek(b"a").unwrap());
    note(cursor.seek(b"z").unwrap());
    note(cursor.next().unwrap());
    note(cursor.prev().unwrap());
    note(cursor.current());
    assert_eq!(visited, "- b - - b c dd c dd e b - - f f ");
    assert!(cursor.retreat().unwrap());
    assert_eq!((cursor.key(), cursor.value_len()), (Some(&b"e"[..]), Some(1)));
    assert_eq!(cursor.value().unwrap(), Some(&b"E"[..]));
    assert!(cursor.advance().unwrap() && !cursor.advance().unwrap() && cursor.key().is_none());
}

fn savepoints(subject: &impl Subject) {
    let t = table(subject);
    fill(subject, &t, "ab");
    let mut tx = subject.begin();
    tx.put(&t, "a", "1").unwrap();
    let first = tx.savepoint();
    tx.put(&t, "a", "2").unwrap();
    tx.delete(&t, "b").unwrap();
    let made = tx.create_table("made", &TableOptions::default()).unwrap();
    tx.put(&made, "k", "v").unwrap();
    let second = tx.savepoint();
    tx.delete_range(&t, ..).unwrap();
    tx.put(&t, "c", "3").unwrap();
    assert_eq!(keys(tx.range(&t, ..).unwrap()), "c");
    tx.rollback_to(&second).unwrap();
    assert_eq!(
        (tx.get(&t, "a").unwrap().unwrap(), keys(tx.range(&t, ..).unwrap())),
        (b"2".to_vec(), "a".into())
    );
    tx.rollback_to(&first).unwrap();
    assert_eq!(kind(tx.release(&second)), ErrorKind::Invalid);
    assert_eq!(kind(tx.put(&made, "k", "v")), ErrorKind::Missing);
    assert_eq!(kind(tx.get(&made, "k")), ErrorKind::Missing);
    let inner = tx.savepoint();
    tx.put(&t, "d", "4").unwrap();
    tx.release(&inner).unwrap();
    assert_eq!(kind(tx.rollback_to(&inner)), ErrorKind::Invalid);
    subject.commit(tx).unwrap();
    let snapshot = subject.snapshot();
    assert_eq!(keys(snapshot.range(&t, ..).unwrap()), "abd");
    assert_eq!(snapshot.get(&t, "a").unwrap().unwrap(), b"1");
    assert!(snapshot.table("made").unwrap().is_none());
}

/// Bytes that no compression shortens.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn limits_of_keys(subject: &impl Subject) {
    let t = table(subject);
    let longest = noise(subject.max_key_bytes());
    subject.write(|tx| tx.put(&t, &longest, "there")).unwrap();
    assert_eq!(subject.snapshot().get(&t, &longest).unwrap().unwrap(), b"there");
    assert_eq!(subject.snapshot().range(&t, &longest[..]..).unwrap().count(), 1);
    let longer = noise(subject.max_key_bytes() + 1);
    let mut tx = subject.begin();
    assert_eq!(kind(tx.put(&t, &longer, "")), ErrorKind::Invalid);
    assert_eq!(kind(tx.insert(&t, &longer, "")), ErrorKind::Invalid);
    assert_eq!(kind(tx.delete(&t, &longer)), ErrorKind::Invalid);
    assert_eq!(tx.get(&t, &longer).unwrap(), None);
    // The transaction can continue.
    tx.put(&t, "k", "v").unwrap();
    subject.commit(tx).unwrap();
}

fn long_values(subject: &impl Subject) {
    let t = table(subject);
    let longest = noise(subject.long_value_bytes());
    subject.write(|tx| tx.put(&t, "long", &longest)).unwrap();
    subject.write(|tx| tx.put(&t, "longer", &longest[1..])).unwrap();
    let snapshot = subject.snapshot();
    assert!(snapshot.get(&t, "long").unwrap().unwrap() == longest);
    assert_eq!(snapshot.value_len(&t, "longer").unwrap(), Some(longest.len() as u64 - 1));
    let mut cursor = snapshot.cursor(&t, ..).unwrap();
    assert!(cursor.next().unwrap().unwrap().1 == longest);
    assert_eq!(cursor.next().unwrap().unwrap().1.len(), longest.len() - 1);
    assert!(cursor.next().unwrap().is_none());
}

fn entries_expire(subject: &impl Subject) {
    let ttl = Duration::from_secs(2);
    let t = subject.write(|tx| tx.create_table("dated", &TableOptions::default().ttl(ttl))).unwrap();
    assert_eq!(t.ttl(), Some(ttl));
    subject.write(|tx| tx.put(&t, "old", "1").and_then(|()| tx.put(&t, "renewed", "1"))).unwrap();
    let mut tx = subject.begin();
    tx.put(&t, "own", "1").unwrap();
    assert_eq!(tx.get(&t, "own").unwrap().unwrap(), b"1");
    assert_eq!(tx.range(&t, ..).unwrap().count(), 3);
    drop(tx);
    assert_eq!(subject.snapshot().get(&t, "old").unwrap().unwrap(), b"1");
    std::thread::sleep(Duration::from_millis(1500));
    subject.write(|tx| tx.put(&t, "renewed", "2")).unwrap();
    std::thread::sleep(Duration::from_millis(600));
    let snapshot = subject.snapshot();
    assert_eq!(snapshot.get(&t, "old").unwrap(), None);
    assert_eq!(snapshot.multi_get(&t, &["old", "renewed"]).unwrap(), [None, Some(b"2".to_vec())]);
    assert_eq!(snapshot.range(&t, ..).unwrap().count(), 1);
    drop(snapshot);
    subject.write(|tx| tx.insert(&t, "old", "3")).unwrap();
    assert_eq!(subject.snapshot().get(&t, "old").unwrap().unwrap(), b"3");
}

fn a_snapshot_stays(subject: &impl Subject) {
    let t = table(subject);
    fill(subject, &t, "ab");
    let (snapshot, tx) = (subject.snapshot(), subject.begin());
    assert!(snapshot.contains(&t, "a").unwrap() && tx.contains(&t, "a").unwrap());
    subject.write(|tx| tx.put(&t, "b", "changed").and_then(|()| tx.put(&t, "c", ""))).unwrap();
    assert_eq!(snapshot.get(&t, "b").unwrap().unwrap(), b"B");
    assert_eq!(tx.get(&t, "b").unwrap().unwrap(), b"B");
    assert_eq!(keys(snapshot.range(&t, ..).unwrap()) + &keys(tx.range(&t, ..).unwrap()), "abab");
}

fn a_dropped_transaction_has_no_effect(subject: &impl Subject) {
    let t = table(subject);
    let mut tx = subject.begin();
    assert_eq!(tx.get(&t, "k").unwrap(), None);
    tx.put(&t, "k", "v").unwrap();
    let made = tx.create_table("made", &TableOptions::default()).unwrap();
    drop(tx);
    let snapshot = subject.snapshot();
    assert_eq!(snapshot.get(&t, "k").unwrap(), None);
    assert!(snapshot.table("made").unwrap().is_none());
    subject.write(|tx| tx.create_table("made", &TableOptions::default())).unwrap();
    assert_eq!(kind(subject.snapshot().get(&made, "k")), ErrorKind::Missing);
}
