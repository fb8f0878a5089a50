//! What a run promises besides holding what was put in.

use crate::common::{Bed, DATABASE, Model, get};
use base::env::Random;
use base::limits::{max_inline_bytes, max_key_bytes};
use base::{CheckpointNo, ErrorKind, PagePtr};
use page::{EditCounters, Kind, PageMut, Value};
use pando_run::check::Expected;
use pando_run::{Cursor, Run};

const LIMIT: usize = 64 << 20;

fn key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn filled(bed: &mut Bed, records: u64, value: &[u8]) -> (Run, Model) {
    let model: Model = (0..records).map(|n| (key(n), value.to_vec())).collect();
    let run = bed.edit(Run::EMPTY, LIMIT, |editor| {
        for (key, value) in &model {
            editor.put(key, value).unwrap();
        }
    });
    bed.checkpoint(&[run]);
    (run, model)
}

#[test]
fn an_empty_run_answers_nothing() {
    let mut bed = Bed::new(4096);
    bed.verify(&Run::EMPTY, &Model::new());
    let run = bed.edit(Run::EMPTY, 0, |editor| {
        assert!(!editor.remove(b"a").unwrap());
        assert_eq!(editor.get(b"a").unwrap(), None);
        editor.remove_range(b"", None).unwrap();
        assert_eq!(editor.dirty_bytes(), 0);
    });
    assert_eq!(run, Run::EMPTY);
    bed.checkpoint(&[]);
}

#[test]
fn ascending_inserts_leave_full_pages() {
    let mut bed = Bed::new(4096);
    let (run, model) = filled(&mut bed, 20_000, b"0123456789");
    let report = bed.verify(&run, &model);
    let pages = report.leaves + report.inner_pages;
    assert!(report.free_bytes < pages * 4096 / 8, "{report:?}");
}

#[test]
fn descending_inserts_leave_full_pages() {
    let mut bed = Bed::new(4096);
    let model: Model = (0..20_000).map(|n| (key(n), b"0123456789".to_vec())).collect();
    let run = bed.edit(Run::EMPTY, LIMIT, |editor| {
        for (key, value) in model.iter().rev() {
            editor.put(key, value).unwrap();
        }
    });
    let report = bed.verify(&run, &model);
    assert!(report.free_bytes < report.leaves * 4096 / 6, "{report:?}");
}

#[test]
fn steady_inserts_never_compact_a_page() {
    for shuffled in [false, true] {
        let mut bed = Bed::new(8192);
        let mut keys: Vec<u64> = (0..10_000).collect();
        if shuffled {
            Random::seeded(3).shuffle(&mut keys);
        }
        bed.edit(Run::EMPTY, LIMIT, |editor| {
            for n in keys {
                assert!(editor.insert(&key(n), b"").unwrap());
            }
            let counters = editor.counters();
            assert_eq!((counters.allocator_failures, counters.compactions), (0, 0), "{counters:?}");
            assert!(counters.splits > 10, "{counters:?}");
        });
    }
}

#[test]
fn memory_stays_bounded_and_sorted_edits_write_each_page_about_once() {
    let mut bed = Bed::new(4096);
    let (run, mut model) = filled(&mut bed, 30_000, &[7; 40]);
    let report = bed.verify(&run, &model);
    let pages = report.leaves + report.inner_pages;
    let run = bed.edit(run, 40 * 4096, |editor| {
        for (key, value) in model.iter_mut() {
            *value = vec![8; 40];
            editor.put(key, value).unwrap();
            assert!(editor.dirty_bytes() <= 50 * 4096, "{} dirty bytes", editor.dirty_bytes());
        }
    });
    bed.verify(&run, &model);
    // The file holds the old pages, the new ones, and what was written twice.
    let stats = bed.space.get_mut().unwrap().stats();
    assert!(stats.used_units + stats.retired_units < pages * 21 / 10 + 60, "{stats:?} for {pages} pages");
    bed.checkpoint(&[run]);
}

#[test]
fn ascending_inserts_survive_a_write_back_in_their_midst() {
    for touched in 0..24 {
        let mut bed = Bed::new(4096);
        let (run, mut model) = filled(&mut bed, 8_000, &[7; 40]);
        let run = bed.edit(run, 0, |editor| {
            let scattered = (0..touched).map(|n| key(n * 300));
            for key in scattered.chain((9_000..9_020).map(key)) {
                editor.put(&key, b"new").unwrap();
                model.insert(key, b"new".to_vec());
            }
        });
        bed.verify(&run, &model);
        bed.checkpoint(&[run]);
    }
}

#[test]
fn an_old_run_stays_readable_until_its_pages_are_released() {
    let mut bed = Bed::with_pool(4096, 256 << 10);
    let (old, before) = filled(&mut bed, 5_000, b"old");
    let reader = bed.slots.claim().unwrap();
    let mut model = before.clone();
    let mut random = Random::seeded(11);
    let (pool, birth) = (&bed.pool, CheckpointNo(bed.birth.0 + 1));
    let writer = bed.slots.claim().unwrap();
    let mut editor = pando_run::Editor::open(old, pool, &writer, &bed.space, birth, 0);
    for round in 0..2_000 {
        let n = random.below(5_000);
        editor.put(&key(n), b"new").unwrap();
        model.insert(key(n), b"new".to_vec());
        if round % 10 == 0 {
            assert_eq!(get(&old, pool, &reader, &key(n)).as_deref(), Some(&b"old"[..]));
        }
    }
    let (run, _) = editor.finish().unwrap();
    bed.birth = birth;
    bed.verify(&old, &before);
    bed.verify(&run, &model);
    bed.checkpoint(&[run]);
}

#[test]
fn a_range_is_dropped_without_reading_its_leaves() {
    let mut bed = Bed::new(4096);
    let (run, mut model) = filled(&mut bed, 50_000, b"0123456789");
    let report = bed.verify(&run, &model);
    bed.cool();
    let (start, end) = (key(1_000), key(49_000));
    let edited = bed.edit(run, LIMIT, |editor| editor.remove_range(&start, Some(&end)).unwrap());
    let faults = bed.pool.stats().faults;
    assert!(faults <= report.inner_pages + 8, "{faults} pages were read of {report:?}");
    model.retain(|key, _| *key < start || *key >= end);
    let after = bed.verify(&edited, &model);
    let error = edited.records.abs_diff(after.records);
    assert!(error < 1_000, "estimated {} of {}", edited.records, after.records);
    bed.checkpoint(&[edited]);
}

#[test]
fn a_range_with_large_values_gives_their_extents_back() {
    let mut bed = Bed::new(4096);
    let mut model = Model::new();
    let run = bed.edit(Run::EMPTY, 0, |editor| {
        for n in 0..3_000 {
            let value = if n % 500 == 250 { vec![n as u8; 10_000] } else { vec![n as u8; 30] };
            editor.put(&key(n), &value).unwrap();
            model.insert(key(n), value);
        }
    });
    assert_eq!(bed.verify(&run, &model).large_values, 6);
    bed.checkpoint(&[run]);
    let run = bed.edit(run, 0, |editor| editor.remove_range(&key(100), Some(&key(2_900))).unwrap());
    model.retain(|k, _| *k < key(100) || *k >= key(2_900));
    bed.verify(&run, &model);
    bed.checkpoint(&[run]);
    let run = bed.edit(run, 0, |editor| editor.remove_range(b"", None).unwrap());
    assert_eq!(run, Run::EMPTY);
    bed.checkpoint(&[]);
}

#[test]
fn the_longest_keys_and_values_fit() {
    for page_bytes in [4096, 16384] {
        let mut bed = Bed::new(page_bytes);
        let mut random = Random::seeded(9);
        let mut model = Model::new();
        let run = bed.edit(Run::EMPTY, 0, |editor| {
            for n in 0..400u32 {
                let mut key = vec![9; max_key_bytes(page_bytes)];
                let at = random.below(key.len() as u64 - 4) as usize;
                key[at..at + 4].copy_from_slice(&n.to_be_bytes());
                let value = vec![n as u8; max_inline_bytes(page_bytes)];
                editor.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            let longer = vec![0; max_key_bytes(page_bytes) + 1];
            assert_eq!(editor.put(&longer, b"").unwrap_err().kind(), ErrorKind::Invalid);
        });
        bed.verify(&run, &model);
        bed.checkpoint(&[run]);
    }
}

#[test]
fn an_edit_that_changes_nothing_dirties_nothing() {
    let mut bed = Bed::new(4096);
    let (run, _) = filled(&mut bed, 5_000, b"x");
    let same = bed.edit(run, 0, |editor| {
        assert!(!editor.insert(&key(17), b"y").unwrap());
        assert!(!editor.remove(&key(5_000)).unwrap());
        assert_eq!(editor.get(&key(17)).unwrap().as_deref(), Some(&b"x"[..]));
        assert_eq!(editor.dirty_bytes(), 0);
    });
    assert_eq!(same, run);
}

/// Writes a page by hand and answers its pointer.
fn plant(bed: &mut Bed, kind: Kind, level: u8, child: Option<PagePtr>) -> PagePtr {
    let mut bytes = vec![0; 4096];
    let unit = bed.space.get_mut().unwrap().allocate(1).unwrap();
    let mut page = PageMut::init(&mut bytes, kind, level, CheckpointNo(1));
    let counters = &mut EditCounters::default();
    match child {
        Some(child) => page.insert_child(0, b"", child, counters).unwrap(),
        None if kind == Kind::Leaf => page.insert(0, b"k", Value::Inline(b"v"), counters).unwrap(),
        None => {}
    }
    let checksum = page.seal(DATABASE, unit);
    bed.file.write_at(&bytes, unit * 4096).unwrap();
    PagePtr::new(unit, 1, checksum)
}

#[test]
fn levels_that_do_not_fall_are_corruption_everywhere() {
    let mut bed = Bed::new(4096);
    let leaf = plant(&mut bed, Kind::Leaf, 0, None);
    let low = plant(&mut bed, Kind::Inner, 1, Some(leaf));
    let high = plant(&mut bed, Kind::Inner, 1, Some(low));
    let short = plant(&mut bed, Kind::Inner, 2, Some(leaf));
    bed.birth.0 += 1;
    for (root, height) in [(high, 2), (high, 3), (short, 3), (leaf, 2), (low, 1), (low, 3)] {
        let run = Run { root: Some(root), height, records: 1, bytes: 2, leaves: 1, ..Run::EMPTY };
        bed.read(|pool, reader| {
            let corrupt =
                |result: base::Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::Corruption);
            corrupt(run.get(pool, &mut reader.enter(), b"k").map(drop));
            let mut cursor = Cursor::new(run);
            corrupt(cursor.seek_first(pool, reader).map(drop));
            corrupt(cursor.seek_last(pool, reader).map(drop));
            assert!(cursor.entry().is_none());
            corrupt(run.check(pool, &mut |_| Ok(())).map(drop));
        });
        let edited = bed.try_edit(run, 0, |editor| editor.put(b"k", b"w").map(drop));
        assert_eq!(edited.unwrap_err().kind(), ErrorKind::Corruption);
    }
}

#[test]
fn rot_is_found_by_check_even_behind_a_good_copy_in_the_pool() {
    let mut bed = Bed::new(4096);
    let (run, model) = filled(&mut bed, 2_000, b"0123456789");
    bed.verify(&run, &model);
    let mut leaves = Vec::new();
    run.check(&bed.pool, &mut |ptr| {
        leaves.push(ptr);
        Ok(())
    })
    .unwrap();
    bed.file.write_at(&[0xff], leaves[leaves.len() / 2].offset_bytes() + 2_000).unwrap();
    assert_eq!(run.check(&bed.pool, &mut |_| Ok(())).unwrap_err().kind(), ErrorKind::Corruption);
}

/// A merge of any length holds up nobody who needs room: the lock is free between its steps.
#[test]
fn others_allocate_while_an_editor_is_at_work() {
    let mut bed = Bed::with_pool(4096, 256 << 10);
    let (old, mut model) = filled(&mut bed, 5_000, b"old");
    let birth = CheckpointNo(bed.birth.0 + 1);
    let writer = bed.slots.claim().unwrap();
    let mut editor = pando_run::Editor::open(old, &bed.pool, &writer, &bed.space, birth, 0);
    for n in 0..5_000 {
        editor.put(&key(n), b"new").unwrap();
        model.insert(key(n), b"new".to_vec());
        if n % 500 == 0 {
            let unit = bed.space.try_lock().expect("nobody holds it").allocate_logged(7).unwrap();
            bed.space.try_lock().expect("nobody holds it").free_unused(unit, 7);
        }
    }
    let (run, _) = editor.finish().unwrap();
    bed.birth = birth;
    bed.verify(&run, &model);
    bed.checkpoint(&[run]);
}

#[test]
fn a_check_goes_on_beside_what_is_wrong() {
    let mut bed = Bed::new(4096);
    let (run, _) = filled(&mut bed, 2_000, b"0123456789");
    let mut pages = Vec::new();
    let whole = run.check(&bed.pool, &mut |ptr| {
        pages.push(ptr);
        Ok(())
    });
    let whole = whole.unwrap();
    let last = pages.len() - 1;
    for bad in [last, last / 2] {
        bed.file.write_at(&[0xff], pages[bad].offset_bytes() + 2_000).unwrap();
    }
    let mut wrong = Vec::new();
    let mut note = |error: base::Error| {
        wrong.push(error.kind());
        Ok(())
    };
    let found = run.check_all(&bed.pool, Expected::default(), &mut |_| Ok(()), &mut note).unwrap();
    assert_eq!((wrong, found.leaves), (vec![ErrorKind::Corruption; 2], whole.leaves - 2));
    assert!(found.records > 0 && found.records < whole.records);
}

/// Thirty levels of pages that each name their child twice: as many ways to the leaf as would never end.
#[test]
fn a_page_with_two_parents_is_read_once() {
    let bed = Bed::new(4096);
    let mut bytes = vec![0; 4096];
    let mut counters = EditCounters::default();
    let mut leaf = PageMut::init(&mut bytes, Kind::Leaf, 0, CheckpointNo(1));
    leaf.insert(0, b"a", Value::Inline(b"v"), &mut counters).unwrap();
    let mut child = PagePtr::new(2, 1, leaf.seal(DATABASE, 2));
    bed.file.write_at(&bytes, child.offset_bytes()).unwrap();
    for level in 1..30u8 {
        let mut page = PageMut::init(&mut bytes, Kind::Inner, level, CheckpointNo(1));
        page.insert_child(0, b"", child, &mut counters).unwrap();
        page.insert_child(1, &[level], child, &mut counters).unwrap();
        let unit = 2 + u64::from(level);
        child = PagePtr::new(unit, 1, page.seal(DATABASE, unit));
        bed.file.write_at(&bytes, child.offset_bytes()).unwrap();
    }
    let run = Run { root: Some(child), height: 30, records: 1, bytes: 2, leaves: 1, ..Run::EMPTY };
    let (mut visits, mut wrong) = (0, 0);
    let mut visit = |_| {
        visits += 1;
        Ok(())
    };
    let mut note = |_| {
        wrong += 1;
        Ok(())
    };
    run.check_all(&bed.pool, Expected::default(), &mut visit, &mut note).unwrap();
    assert!(wrong > 0 && visits < 100, "{wrong} problems, {visits} visits");
}
