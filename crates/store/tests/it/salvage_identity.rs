//! Which database salvage reads, in a directory that has files of two, or of a newer version.

use crate::salvage::{Files, Records, Taken};
use base::{CheckpointNo, DatabaseId, ErrorKind, checksum};
use io::{Dir, MemDir};
use pando_store::salvage::{Report, salvage};
use pando_store::superblock::Superblock;
use pando_store::{Options, RequestedLayout, Transaction, TransactionOptions};
use std::sync::Arc;

const UNIT: usize = 4096;
const OWN: DatabaseId = DatabaseId(5);
/// Greater, which must not decide anything.
const OTHER: DatabaseId = DatabaseId(9);

/// A closed database, after as many commits as fill the log up to `segment`, and then this many checkpoints. The last
/// commit is in the log alone.
fn filled(database: DatabaseId, table: &str, segment: usize, checkpoints: u64) -> (Files, Records) {
    let dir = MemDir::new();
    let options = Options {
        page_bytes: Some(UNIT),
        memory_bytes: 4 << 20,
        max_segment_bytes: 16 << 10,
        database: Some(database),
        ..Options::default()
    };
    let store = pando_store::open_or_create(Arc::new(dir.clone()), &options).unwrap();
    let mut records = Records::new();
    let mut put = |n: usize| {
        let mut tx = Transaction::begin(&store, TransactionOptions::default()).unwrap();
        let known = tx.table(table).unwrap();
        let table = known.unwrap_or_else(|| tx.create_table(table, RequestedLayout::BTree).unwrap());
        let (key, value) = (format!("{table:?}-{n}").into_bytes(), vec![n as u8; 900]);
        tx.put(&table, &key, &value).unwrap();
        store.acknowledge(tx.apply().unwrap()).unwrap();
        records.insert(key, value);
    };
    let has_reached = || dir.files().keys().any(|name| *name >= format!("log-{segment:016x}"));
    (0..).take_while(|_| !has_reached()).for_each(&mut put);
    for n in 0..checkpoints {
        put(10_000 + n as usize);
        store.checkpoint().unwrap();
    }
    put(20_000);
    store.close().unwrap();
    (dir.files(), records)
}

fn segments(files: &Files) -> impl Iterator<Item = (&String, &Vec<u8>)> {
    files.iter().filter(|(name, _)| name.starts_with("log-"))
}

fn salvaged(files: &Files) -> (Taken, Report) {
    let mut taken = Taken::default();
    let report = salvage(Arc::new(MemDir::from(files.clone())), &mut taken).unwrap();
    (taken, report)
}

fn superblock(files: &Files) -> Superblock {
    Superblock::read(&*MemDir::from(files.clone()).open("data").unwrap()).unwrap()
}

/// Checks that everything of `t` is certain, and nothing of the other database is there.
fn check(taken: &Taken, report: &Report, records: &Records) {
    assert_eq!(taken.certain.keys().collect::<Vec<_>>(), ["t"], "{report:?}");
    assert!(taken.certain["t"] == *records && taken.uncertain.is_empty(), "{report:?}");
    assert!(!report.is_complete(), "what belongs to another database is damage");
}

#[test]
fn an_intact_superblock_outweighs_any_number_of_foreign_segments() {
    let (others, _) = filled(OTHER, "other", 5, 0);
    for own_segment in [8, 1] {
        let (mut files, records) = filled(OWN, "t", own_segment, 3);
        let own: Vec<String> = segments(&files).map(|(name, _)| name.clone()).collect();
        let foreign = segments(&others).filter(|(name, _)| !own.contains(name));
        let foreign: Vec<_> = foreign.map(|(name, bytes)| (name.clone(), bytes.clone())).collect();
        assert!(foreign.len() > own.len() + 2, "more than the superblocks and the segments name");
        files.extend(foreign.iter().cloned());
        let (taken, report) = salvaged(&files);
        check(&taken, &report, &records);
        assert_eq!(report.checkpoint, Some(superblock(&files).checkpoint.0));
        for (name, _) in &foreign {
            assert!(report.damage.iter().any(|what| what.contains(name)), "{name}: {report:?}");
        }
        // One after the end may have replaced a segment of ours.
        assert_eq!((report.log_stopped.is_some(), report.is_outdated), (own_segment == 1, own_segment == 1));
    }
}

#[test]
fn of_two_databases_without_a_superblock_the_one_with_more_segments_counts() {
    let (others, _) = filled(OTHER, "other", 1, 0);
    let (mut files, records) = filled(OWN, "t", 4, 0);
    let (name, bytes) = segments(&others).next().unwrap();
    files.insert("log-00000000000000a0".into(), bytes.clone());
    files.insert(name.clone(), bytes.clone());
    files.get_mut("data").unwrap()[..2 * UNIT].fill(0);
    let (taken, report) = salvaged(&files);
    let found: Vec<_> = taken.uncertain.values().flatten().collect();
    assert!(taken.certain.is_empty() && !found.is_empty(), "{report:?}");
    assert!(found.iter().all(|(key, value)| records.get(*key) == Some(*value)), "{report:?}");
    assert!(report.damage.iter().any(|what| what.contains(name)), "{report:?}");
}

#[test]
fn of_two_superblocks_of_different_databases_the_one_counts_to_which_the_log_belongs() {
    let (mut files, records) = filled(OWN, "t", 1, 3);
    let at = superblock(&files).checkpoint.0;
    let (others, _) = filled(OTHER, "other", 1, at + 1);
    let newer = superblock(&others);
    assert_eq!(newer.checkpoint, CheckpointNo(at + 1), "in the other slot");
    let slot = (newer.checkpoint.0 as usize % 2) * UNIT;
    files.get_mut("data").unwrap()[slot..slot + UNIT].copy_from_slice(&others["data"][slot..slot + UNIT]);
    let (taken, report) = salvaged(&files);
    check(&taken, &report, &records);
    assert_eq!(report.checkpoint, Some(at));
    assert!(report.damage.iter().any(|what| what.contains("another database")), "{report:?}");
}

#[test]
fn a_superblock_of_a_newer_format_is_no_damage() {
    let (files, _) = filled(OWN, "t", 1, 3);
    for slots in [&[0][..], &[1], &[0, 1]] {
        let mut newer = files.clone();
        let data = newer.get_mut("data").unwrap();
        for slot in slots {
            let slot = &mut data[slot * UNIT..][..168];
            slot[8] = 2;
            let sum = checksum::header(&slot[..160]);
            slot[160..].copy_from_slice(&sum.to_le_bytes());
        }
        let mut taken = Taken::default();
        let error = salvage(Arc::new(MemDir::from(newer)), &mut taken).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{slots:?}: {error}");
        assert!(error.message().contains("format 2"), "{slots:?}: {error}");
        assert!(taken.certain.is_empty() && taken.uncertain.is_empty());
    }
}
