//! Random transactions against a map: every read of an open transaction, and every state after a commit.

use crate::server;
use base::env::Random;
use pando::ReadTables;
use pando::Table;
use pando::remote::RemoteTransaction;
use std::collections::BTreeMap;
use std::ops::Bound;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[test]
fn transactions_do_what_a_map_does() {
    let Some(db) = server::database() else { return };
    let seed = std::env::var("SEED").map_or(0x5eed, |seed| seed.parse().unwrap());
    eprintln!("SEED={seed}");
    let mut random = Random::seeded(seed);
    let t = db.ensure_table("t").unwrap();
    let mut committed = Model::new();
    for _ in 0..60 {
        let (mut tx, mut model) = (db.begin(), committed.clone());
        let mut savepoints = Vec::new();
        for _ in 0..random.below(60) {
            match random.below(10) {
                0..4 => {
                    let (key, value) =
                        (key(&mut random), vec![random.below(256) as u8; random.below(300) as usize]);
                    tx.put(&t, &key, &value).unwrap();
                    model.insert(key, value);
                }
                4 => {
                    let key = key(&mut random);
                    assert_eq!(tx.remove(&t, &key).unwrap(), model.remove(&key));
                }
                5 => {
                    let start = random.below(3000) as u16;
                    let end = (start + random.below(150) as u16).to_be_bytes().to_vec();
                    let start = start.to_be_bytes().to_vec();
                    tx.delete_range(&t, &start..&end).unwrap();
                    model.retain(|key, _| *key < start || *key >= end);
                }
                6 => savepoints.push((tx.savepoint(), model.clone())),
                7 => {
                    if let Some((savepoint, before)) = savepoints.pop() {
                        tx.rollback_to(&savepoint).unwrap();
                        tx.release(&savepoint).unwrap();
                        model = before;
                    }
                }
                8 => walk(&mut random, &tx, &t, &model),
                _ => {
                    let key = key(&mut random);
                    assert_eq!(tx.get(&t, &key).unwrap(), model.get(&key).cloned());
                }
            }
        }
        check(&tx, &t, &model);
        if random.chance(3, 4) {
            tx.commit().unwrap();
            committed = model;
        }
        check(&db.snapshot(), &t, &committed);
    }
    assert!(committed.len() > 100);
}

fn key(random: &mut Random) -> Vec<u8> {
    (random.below(3000) as u16).to_be_bytes().to_vec()
}

fn check(reader: &impl ReadTables, t: &Table, model: &Model) {
    let forward: Vec<_> = reader.range(t, ..).unwrap().map(Result::unwrap).collect();
    assert!(forward.iter().map(|(key, value)| (key, value)).eq(model));
    let backward = reader.range(t, ..).unwrap().rev().map(Result::unwrap);
    assert!(backward.eq(forward.into_iter().rev()));
}

/// Moves a cursor at random.
fn walk(random: &mut Random, tx: &RemoteTransaction, t: &Table, model: &Model) {
    let (start, end) = (key(random), key(random));
    if start >= end {
        return;
    }
    let within: Vec<_> =
        model.range::<[u8], _>((Bound::Included(&start[..]), Bound::Excluded(&end[..]))).collect();
    let mut cursor = tx.cursor(t, &start..&end).unwrap();
    // The place of the model's cursor: one before each record, and one after the last; `on` a record or between two.
    let (mut next, mut on, mut fresh) = (0, false, true);
    for _ in 0..20 {
        let found = match random.below(5) {
            0 => {
                let to = key(random);
                next = within.partition_point(|(key, _)| **key < to);
                on = next < within.len();
                cursor.seek(&to).unwrap()
            }
            1 | 2 => {
                next += usize::from(on);
                on = next < within.len();
                cursor.next().unwrap()
            }
            _ => {
                // The first move leads in from either end.
                next = if fresh { within.len() } else { next };
                on = next > 0;
                next = next.saturating_sub(1);
                cursor.prev().unwrap()
            }
        };
        let expected = within.get(next).filter(|_| on).map(|(key, value)| (&key[..], &value[..]));
        assert_eq!(found, expected);
        fresh = false;
    }
}
