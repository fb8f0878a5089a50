//! Many tables in one memtable.

#![cfg(not(loom))]

use base::{CommitTs, TableId, Value};
use pando_memtable::Memtable;
use std::time::{Duration, Instant};

#[test]
fn the_time_for_a_new_table_does_not_grow_with_their_number() {
    const MANY: u32 = 200_000;
    const PART: u32 = 10_000;
    let (memtable, mut writer) = Memtable::new();
    let mut times = Vec::new();
    for first in (0..MANY).step_by(PART as usize) {
        let began = Instant::now();
        (first..first + PART).for_each(|id| writer.put(TableId(id), b"key", &id.to_be_bytes(), CommitTs(1)));
        times.push(began.elapsed());
    }
    for id in [0, 1, PART, MANY - 1] {
        let value = id.to_be_bytes();
        assert_eq!(memtable.get(TableId(id), b"key", CommitTs(1)), Some(Value::Inline(&value)));
    }
    assert_eq!(memtable.get(TableId(MANY), b"key", CommitTs(1)), None);
    // Growing the directory takes a part longer than the others, and another process may hold one up.
    let (early, late) = (times[1..5].iter().min(), times[15..].iter().min());
    assert!(late.unwrap() < &(*early.unwrap() * 6 + Duration::from_millis(20)), "{times:?}");
}
