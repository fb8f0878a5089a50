//! Every interleaving (up to a bound on preemptions) of a writer that splits nodes and a reader that goes
//! down them: `RUSTFLAGS="--cfg loom" cargo test --release -p pando-db-memtable --test it`. Nodes have three
//! slots here.
#![cfg(loom)]

use base::sync::Arc;
use base::{CommitTs, TableId, Value};
use loom::thread;
use pando_memtable::{Memtable, Staged, Writer};

const TABLE: TableId = TableId(16);

/// Longer than a head, so that nodes between two separators skip it.
const PREFIX: &[u8] = b"a prefix of 19 byte";

fn whole(key: u8) -> Vec<u8> {
    [PREFIX, &[key]].concat()
}

/// Lets a writer put `later` at timestamp 2 over `sooner` at timestamp 1, while a reader at 1 does `read`.
fn race(sooner: &'static [u8], later: &'static [u8], read: fn(&Memtable)) {
    race_with(sooner, later, read, |writer, keys| {
        for key in keys {
            writer.put(TABLE, &whole(*key), b"new", CommitTs(2));
        }
    });
}

/// Does the same with all of `later` in one sorted piece, as a commit applies them.
fn race_sorted(sooner: &'static [u8], later: &'static [u8], read: fn(&Memtable)) {
    race_with(sooner, later, read, |writer, keys| {
        let keys: Vec<_> = keys.iter().map(|&key| whole(key)).collect();
        let changes = keys.iter().map(|key| (&key[..], Value::Inline(b"new")));
        writer.extend_sorted(TABLE, CommitTs(2), &mut { changes });
    });
}

fn race_with(
    sooner: &'static [u8],
    later: &'static [u8],
    read: fn(&Memtable),
    write: fn(&mut Writer, &[u8]),
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(4);
    model.check(move || {
        let (memtable, mut writer) = Memtable::new();
        for key in sooner {
            writer.put(TABLE, &whole(*key), b"old", CommitTs(1));
        }
        let reader = {
            let memtable = Arc::clone(&memtable);
            thread::spawn(move || read(&memtable))
        };
        write(&mut writer, later);
        reader.join().unwrap();
    });
}

fn keys_forward(memtable: &Memtable) -> Vec<u8> {
    let mut cursor = memtable.cursor(TABLE, CommitTs(1));
    let mut keys = Vec::new();
    cursor.seek_first();
    while let Some((key, found)) = cursor.entry() {
        assert_eq!(found, Value::Inline(b"old"));
        keys.push(key[PREFIX.len()]);
        cursor.next();
    }
    keys
}

fn keys_backward(memtable: &Memtable) -> Vec<u8> {
    let mut cursor = memtable.cursor(TABLE, CommitTs(1));
    let mut keys = Vec::new();
    cursor.seek_last();
    while let Some((key, _)) = cursor.entry() {
        keys.push(key[PREFIX.len()]);
        cursor.prev();
    }
    keys.reverse();
    keys
}

#[test]
fn a_get_finds_its_key_while_the_root_leaf_splits() {
    race(&[10, 20, 30], &[5, 20], |memtable| {
        assert_eq!(memtable.get(TABLE, &whole(20), CommitTs(1)), Some(Value::Inline(b"old")));
    });
}

#[test]
fn a_cursor_sees_its_keys_while_leaf_and_root_split() {
    race(&[10, 20, 30, 40], &[25, 35, 36], |memtable| {
        assert_eq!(keys_forward(memtable), [10, 20, 30, 40]);
    });
}

#[test]
fn a_cursor_goes_back_over_its_keys_while_the_tree_grows() {
    race(&[10, 20, 30, 40], &[15, 12], |memtable| {
        assert_eq!(keys_backward(memtable), [10, 20, 30, 40]);
    });
}

#[test]
fn a_get_finds_its_key_while_a_leaf_that_skips_is_split() {
    // 40 begins a leaf of its own between 30 and 50, both of which it knows when it is made.
    race(&[10, 20, 30, 50, 60, 40], &[42, 41, 44], |memtable| {
        assert_eq!(memtable.get(TABLE, &whole(40), CommitTs(1)), Some(Value::Inline(b"old")));
        assert_eq!(memtable.get(TABLE, &whole(43), CommitTs(1)), None);
    });
}

#[test]
fn a_cursor_sees_its_keys_while_ascending_keys_get_leaves_of_their_own() {
    // After the last leaf, which is full; then between two separators.
    race_sorted(&[10, 20, 30], &[31, 32, 33, 34], |memtable| {
        assert_eq!(keys_forward(memtable), [10, 20, 30]);
    });
    race_sorted(&[10, 20, 30, 40], &[31, 32, 33, 35], |memtable| {
        assert_eq!(keys_backward(memtable), [10, 20, 30, 40]);
    });
}

#[test]
fn a_get_finds_its_key_while_smaller_ones_are_cut_off_from_it() {
    race_sorted(&[10, 50, 60], &[11, 12, 13], |memtable| {
        assert_eq!(memtable.get(TABLE, &whole(50), CommitTs(1)), Some(Value::Inline(b"old")));
        assert_eq!(memtable.get(TABLE, &whole(12), CommitTs(1)), None);
    });
}

#[test]
fn a_new_table_and_a_range_tombstone_appear_whole() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(4);
    model.check(|| {
        let (memtable, mut writer) = Memtable::new();
        let reader = {
            let memtable = Arc::clone(&memtable);
            thread::spawn(move || {
                assert_eq!(memtable.get(TABLE, b"a", CommitTs(0)), None);
                for span in memtable.ranges(TABLE, CommitTs::MAX).spans(CommitTs(0)) {
                    assert_eq!(span, (&b"a"[..], Some(&b"z"[..])));
                }
            })
        };
        for ts in 1..3 {
            writer.delete_range(TABLE, b"a", Some(b"z"), CommitTs(ts));
        }
        reader.join().unwrap();
    });
}

/// Lets a thread stage `staged` while the writer puts `later` over `sooner`, and links it then.
fn race_staged(sooner: &'static [u8], later: &'static [u8], staged: &'static [u8]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.max_branches = 100_000;
    model.check(move || {
        let (memtable, mut writer) = Memtable::new();
        for key in sooner {
            writer.put(TABLE, &whole(*key), b"old", CommitTs(1));
        }
        let stager = {
            let memtable = Arc::clone(&memtable);
            thread::spawn(move || {
                let mut commit = Staged::begin(&memtable, 100, staged.len() as u64, usize::MAX)
                    .expect("there is a writer");
                staged.iter().for_each(|&key| commit.push(TABLE, &whole(key), Value::Inline(b"new")));
                commit.search();
                commit
            })
        };
        for key in later {
            writer.put(TABLE, &whole(*key), b"new", CommitTs(2));
        }
        writer.link(&mut stager.join().unwrap(), CommitTs(3));
        for &key in sooner.iter().chain(later).chain(staged) {
            let found = memtable.newest_in(TABLE, &whole(key)).expect("it was put");
            let ts = if staged.contains(&key) { 3 } else { 1 + u64::from(later.contains(&key)) };
            assert_eq!(found, CommitTs(ts));
            let is_unchanged = |since| memtable.is_unchanged(TABLE, &whole(key), &whole(key), since, 100);
            assert!(!is_unchanged(CommitTs(ts - 1)) && is_unchanged(CommitTs(ts)));
        }
    });
}

#[test]
fn a_hint_finds_its_leaf_or_is_dropped_while_leaves_are_split() {
    race_staged(&[10, 30, 50], &[20, 40], &[25, 45]);
}

#[test]
fn a_hint_finds_its_leaf_or_is_dropped_while_the_root_is_split() {
    race_staged(&[10, 20, 30, 40, 50, 60, 70], &[15, 17], &[16, 71, 72]);
}
