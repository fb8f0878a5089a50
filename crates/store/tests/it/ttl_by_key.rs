//! Tables in which each entry has a TTL of its own.

use crate::ttl::{Bed, LAYOUTS, expect, listed};
use base::ErrorKind;
use pando_store::ttl::{Expiry, Ttl};
use pando_store::{Compression, RequestedLayout, Table};
use std::time::Duration;

fn table(bed: &Bed, name: &str, layout: RequestedLayout) -> Table {
    let mut tx = bed.begin();
    let table = tx.create_table_with(name, layout, Some(Ttl::BY_KEY), Compression::None).unwrap();
    bed.commit(tx);
    assert!(table.has_ttl_by_key() && table.ttl().is_none());
    table
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Each key lives for ten times its number, and key 0 for ever: in the write set, in a memtable, in a run, after a
/// merge, and in the data file.
#[test]
fn each_entry_expires_at_its_own_time_wherever_it_lies() {
    for layout in LAYOUTS {
        for place in 0..4 {
            let mut bed = Bed::new();
            let mut table = table(&bed, "t", layout);
            let values = [vec![0; 10], vec![1; 30], vec![2; 2_000], vec![3; 8_000], vec![4; 30_000]];
            let mut tx = bed.begin();
            for (key, value) in (0u8..).zip(&values) {
                match key {
                    0 => tx.put(&table, &[key], value).unwrap(),
                    4 => {
                        let mut writer = tx.value_writer_with_ttl(&table, &[key], ms(40)).unwrap();
                        writer.append(value).unwrap();
                        writer.finish().unwrap();
                    }
                    key => tx.put_with_ttl(&table, &[key], value, ms(10 * u64::from(key))).unwrap(),
                }
                if place == 3 {
                    tx.spill().unwrap();
                }
                assert_eq!(tx.get(&table, &[key]).unwrap().as_ref(), Some(value));
                let life = if key == 0 { Expiry::Never } else { Expiry::In(ms(10 * u64::from(key))) };
                assert_eq!(tx.expiry(&table, &[key]).unwrap(), Some(life));
            }
            bed.commit(tx);
            match place {
                1 => drop(bed.store.begin_checkpoint().unwrap()),
                2 => drop(bed.store.checkpoint().unwrap()),
                _ => {}
            }
            for now in [0, 9, 10, 29, 30, 39, 40, 1_000_000] {
                if now == 30 {
                    bed.store.checkpoint().unwrap();
                    bed.reopen();
                    table = bed.store.snapshot().unwrap().table("t").unwrap().unwrap();
                    assert!(table.has_ttl_by_key());
                }
                bed.at(now);
                let snapshot = bed.store.snapshot().unwrap();
                for (key, value) in (0u8..).zip(&values) {
                    let until = if key == 0 { u64::MAX } else { 10 * u64::from(key) };
                    let lives = now < until;
                    expect(&bed, &table, &[key], lives.then_some(value));
                    let life =
                        if key == 0 { Expiry::Never } else { Expiry::In(ms(until.saturating_sub(now))) };
                    assert_eq!(snapshot.expiry(&table, &[key]).unwrap(), lives.then_some(life));
                }
            }
            bed.put(&table, b"another", b"");
            bed.compact();
            let records = bed.store.snapshot().unwrap().approximate_len(&table).unwrap();
            assert_eq!(records, 2, "{layout} {place}: what has expired is gone");
        }
    }
}

#[test]
fn an_entry_that_expired_hides_older_versions_also_when_it_is_merged() {
    for layout in LAYOUTS {
        let bed = Bed::new();
        let table = table(&bed, "t", layout);
        bed.put(&table, b"k", b"for ever");
        for n in 0..2_000u32 {
            bed.put(&table, &n.to_be_bytes(), &[7; 60]);
        }
        bed.store.checkpoint().unwrap();
        let mut tx = bed.begin();
        tx.put_with_ttl(&table, b"k", b"short", ms(5)).unwrap();
        bed.commit(tx);
        let early = bed.store.snapshot().unwrap();
        assert_eq!(early.get(&table, b"k").unwrap().as_deref(), Some(&b"short"[..]));
        bed.at(5);
        for _ in 0..3 {
            expect(&bed, &table, b"k", None);
            bed.put(&table, b"other", b"");
            bed.store.checkpoint().unwrap();
        }
        assert_eq!(early.get(&table, b"k").unwrap().as_deref(), Some(&b"short"[..]), "its time stands");
        drop(early);
        bed.compact();
        expect(&bed, &table, b"k", None);
        assert_eq!(listed(&bed.store.snapshot().unwrap(), &table).len(), 2_001);
    }
}

/// A put without a TTL takes an earlier one away, and the longest TTL is shorter than for ever.
#[test]
fn a_put_sets_the_ttl_anew() {
    let bed = Bed::new();
    let table = table(&bed, "t", RequestedLayout::BTree);
    let mut tx = bed.begin();
    tx.put_with_ttl(&table, b"a", b"1", ms(5)).unwrap();
    tx.put_with_ttl(&table, b"b", b"1", ms(5)).unwrap();
    tx.put_with_ttl(&table, b"c", b"1", ms(u64::MAX - 1)).unwrap();
    bed.commit(tx);
    bed.put(&table, b"a", b"2");
    let mut tx = bed.begin();
    tx.put_with_ttl(&table, b"b", b"2", ms(50)).unwrap();
    bed.commit(tx);
    bed.at(5);
    expect(&bed, &table, b"a", Some(b"2"));
    expect(&bed, &table, b"b", Some(b"2"));
    let snapshot = bed.store.snapshot().unwrap();
    assert_eq!(snapshot.expiry(&table, b"a").unwrap(), Some(Expiry::Never));
    assert_eq!(snapshot.expiry(&table, b"b").unwrap(), Some(Expiry::In(ms(45))));
    assert!(matches!(snapshot.expiry(&table, b"c").unwrap(), Some(Expiry::In(_))));
    assert_eq!(snapshot.expiry(&table, b"d").unwrap(), None);
}

#[test]
fn the_kinds_of_ttl_do_not_mix() {
    let bed = Bed::new();
    let by_key = table(&bed, "by key", RequestedLayout::Lsm);
    let mut tx = bed.begin();
    let plain = tx.create_table("plain", RequestedLayout::Lsm).unwrap();
    let ttl = Some(Ttl::new(ms(9)).unwrap());
    let dated = tx.create_table_with("dated", RequestedLayout::BTree, ttl, Compression::None).unwrap();
    for table in [&plain, &dated] {
        let message = tx.put_with_ttl(table, b"k", b"v", ms(1)).unwrap_err();
        assert!(message.kind() == ErrorKind::Invalid && message.message().contains("by key"), "{message}");
        assert_eq!(tx.value_writer_with_ttl(table, b"k", ms(1)).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(tx.expiry(table, b"k").unwrap_err().kind(), ErrorKind::Invalid);
        assert!(!table.has_ttl_by_key());
    }
    for ttl in [None, Some(ms(9))] {
        let message = tx.set_ttl(&by_key, ttl).unwrap_err();
        assert!(message.message().contains("a TTL of its own"), "{message}");
    }
    assert_eq!(tx.put_with_ttl(&by_key, b"k", b"v", Duration::ZERO).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(tx.put_with_ttl(&by_key, &[0; 5_000], b"v", ms(1)).unwrap_err().kind(), ErrorKind::Invalid);
    bed.commit(tx);
    assert_eq!(listed(&bed.store.snapshot().unwrap(), &by_key), []);
    assert_eq!(bed.store.snapshot().unwrap().expiry(&plain, b"k").unwrap_err().kind(), ErrorKind::Invalid);
}
