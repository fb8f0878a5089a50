//! A table of which 2,000 range deletes in a memtable removed eight of every ten records.

use super::{Bench, RANGES};
use pando_bench::Outcome;
use std::hint::black_box;

#[inline(never)]
pub fn range_delete(bench: &mut Bench, times: u64) -> Outcome<()> {
    for first in (0..times).map(|i| 10 * (i * 37 % RANGES)) {
        let (start, end) = ((first + 2).to_be_bytes(), (first + 4).to_be_bytes());
        bench.db().write(|tx| tx.delete_range(&bench.ranged, start..end))?;
    }
    Ok(())
}

#[inline(never)]
pub fn range_get(bench: &mut Bench, times: u64) -> Outcome<()> {
    let snapshot = bench.db().snapshot()?;
    for key in (0..times).map(|i| i * 7919 % (10 * RANGES)) {
        let found = black_box(snapshot.get(&bench.ranged, &key.to_be_bytes())?).is_some();
        assert_eq!(found, matches!(key % 10, 0 | 9));
    }
    Ok(())
}

#[inline(never)]
pub fn range_seek(bench: &mut Bench, times: u64) -> Outcome<()> {
    let snapshot = bench.db().snapshot()?;
    for first in (0..times).map(|i| 10 * (i * 37 % RANGES)) {
        let mut cursor = snapshot.cursor(&bench.ranged, (first + 1).to_be_bytes()..)?;
        assert!(black_box(cursor.next()?).is_some_and(|(key, _)| key == (first + 9).to_be_bytes()));
    }
    Ok(())
}

#[inline(never)]
pub fn range_scan(bench: &mut Bench, times: u64) -> Outcome<()> {
    let snapshot = bench.db().snapshot()?;
    let mut cursor = snapshot.cursor(&bench.ranged, ..)?;
    let mut seen = 0;
    while black_box(cursor.next()?).is_some() {
        seen += 1;
    }
    assert_eq!(seen, times);
    Ok(())
}
