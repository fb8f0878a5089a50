//! The history checker catches what is planted: one hand-made history for each of Adya's classes, and clean ones.

use crate::histories::checker::{Class, End, Op, Transaction, check, classes};
use std::collections::BTreeSet;

/// A committed transaction that ran beside all others.
fn tx(ops: &[Op]) -> Transaction {
    Transaction { ops: ops.to_vec(), end: End::Committed, began: 0, ended: 1000 }
}

fn aborted(ops: &[Op]) -> Transaction {
    Transaction { end: End::Aborted, ..tx(ops) }
}

fn at(began: u64, ended: u64, ops: &[Op]) -> Transaction {
    Transaction { began, ended, ..tx(ops) }
}

fn append(key: u32, element: u64) -> Op {
    Op::Append(key, element)
}

fn read(key: u32, list: &[u64]) -> Op {
    Op::Read(key, list.to_vec())
}

const X: u32 = 1;
const Y: u32 = 2;

#[test]
fn each_planted_anomaly_is_found_and_named() {
    let planted: [(&str, Vec<Transaction>, &[Class]); 11] = [
        (
            "nothing wrong",
            vec![tx(&[append(X, 1)]), tx(&[read(X, &[1]), append(X, 2)]), tx(&[read(X, &[1, 2])])],
            &[],
        ),
        (
            "two writers' versions interleave",
            vec![
                tx(&[append(X, 1), append(Y, 2)]),
                tx(&[append(X, 3), append(Y, 4)]),
                tx(&[read(X, &[1, 3])]),
                tx(&[read(Y, &[4, 2])]),
            ],
            &[Class::G0],
        ),
        ("an aborted append is read", vec![aborted(&[append(X, 1)]), tx(&[read(X, &[1])])], &[Class::G1a]),
        (
            "the first of two appends is read",
            vec![tx(&[append(X, 1), append(X, 2)]), tx(&[read(X, &[1])]), tx(&[read(X, &[1, 2])])],
            &[Class::G1b, Class::GSingle],
        ),
        (
            "each reads what the other wrote",
            vec![tx(&[append(X, 1), read(Y, &[2])]), tx(&[append(Y, 2), read(X, &[1])])],
            &[Class::G1c],
        ),
        (
            "read skew",
            vec![tx(&[append(X, 1), append(Y, 2)]), tx(&[read(X, &[]), read(Y, &[2])]), tx(&[read(X, &[1])])],
            &[Class::GSingle],
        ),
        (
            "lost update",
            vec![
                tx(&[read(X, &[]), append(X, 1)]),
                tx(&[read(X, &[]), append(X, 2)]),
                tx(&[read(X, &[1, 2])]),
            ],
            &[Class::GSingle],
        ),
        (
            "write skew",
            vec![
                tx(&[read(X, &[]), append(Y, 1)]),
                tx(&[read(Y, &[]), append(X, 2)]),
                tx(&[read(X, &[2]), read(Y, &[1])]),
            ],
            &[Class::G2],
        ),
        (
            "reads that are no prefixes of each other",
            vec![tx(&[append(X, 1)]), tx(&[append(X, 2)]), tx(&[read(X, &[1, 2])]), tx(&[read(X, &[2])])],
            // Whatever the order was, T3 read the second element without the first: it came before and after T1.
            &[Class::GSingle, Class::Incompatible],
        ),
        ("an own append is not seen", vec![tx(&[append(X, 1), read(X, &[])])], &[Class::Internal]),
        (
            "a list changes under its reader",
            vec![tx(&[append(X, 1)]), tx(&[read(X, &[]), read(X, &[1])])],
            &[Class::GSingle, Class::Internal],
        ),
    ];
    for (name, history, expected) in planted {
        let expected: BTreeSet<_> = expected.iter().copied().collect();
        assert_eq!(classes(&history), expected, "{name}: {:?}", check(&history));
    }
}

#[test]
fn what_was_acknowledged_before_somebody_began_is_seen_by_them() {
    let lost = [at(0, 1, &[append(X, 1)]), at(2, 3, &[read(X, &[])])];
    assert!(classes(&lost).contains(&Class::Lost));
    // A stale answer that a later reader does not repeat is a contradiction of real time only.
    let stale = [at(0, 1, &[append(X, 1)]), at(2, 3, &[read(X, &[])]), at(4, 5, &[read(X, &[1])])];
    let found = check(&stale);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].class == Class::GSingle && found[0].real_time, "{}", found[0]);
    let beside = [at(0, 3, &[append(X, 1)]), at(2, 4, &[read(X, &[])]), at(5, 6, &[read(X, &[1])])];
    assert_eq!(check(&beside), []);
}

#[test]
fn a_long_clean_history_is_clean_and_one_fault_in_it_is_found() {
    let mut history = Vec::new();
    let mut lists = vec![Vec::new(); 7];
    for i in 0..5000u64 {
        let (from, to) = ((i % 7) as usize, (i * 3 % 7) as usize);
        let mut ops = vec![read(from as u32, &lists[from])];
        if lists[to].len() < 400 {
            ops.push(append(to as u32, i));
            lists[to].push(i);
        }
        history.push(at(2 * i, 2 * i + 1, &ops));
    }
    assert_eq!(check(&history), []);
    let Op::Read(_, list) = &mut history[3000].ops[0] else { panic!("the first is a read") };
    list.truncate(list.len() / 2);
    assert_eq!(check(&history).len(), 1);
}
