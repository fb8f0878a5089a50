//! Compressed tables: backups, restores, read-only handles, compaction, and files that are damaged.

use crate::support::{Data, Files, dir_of, means_bad_files, read_all, small};
use base::env::Random;
use io::{Dir, MemDir};
use pando::{BackupOptions, Backups, Compression, Database, Layout, Result, TableOptions};
use std::sync::Arc;

const WORDS: [&str; 8] =
    ["amount", "berlin", "customer", "delivery", "invoice", "order", "pending", "refund"];

/// Rows of words and numbers.
fn fill(db: &Database, random: &mut Random, rows: u64) -> Result<()> {
    let options = TableOptions::with_layout(Layout::Lsm).compression(Compression::Lz4);
    let table = db.ensure_table_with("rows", &options)?;
    db.write(|tx| {
        for _ in 0..rows {
            let word = |random: &mut Random| WORDS[random.below(8) as usize];
            let (one, two, id) = (word(random), word(random), random.next_u64() >> 30);
            let value = format!("{{\"id\":{id},\"status\":\"{one}\",\"city\":\"{two}\"}}");
            tx.put(&table, &(random.below(20_000) as u32).to_be_bytes(), value.as_bytes())?;
            if random.chance(1, 4) {
                tx.delete(&table, &(random.below(20_000) as u32).to_be_bytes())?;
            }
        }
        Ok(())
    })?;
    db.checkpoint()
}

fn saved_bytes(db: &Database) -> u64 {
    db.table_stats().unwrap().iter().map(|table| table.saved_bytes).sum()
}

fn restored(backups: &Backups, name: &str) -> Data {
    let target: Arc<dyn Dir> = Arc::new(MemDir::new());
    pando::restore_in(backups, Some(name), Arc::clone(&target)).unwrap();
    let db = small().create_in(target).unwrap();
    assert!(saved_bytes(&db) > 0, "what is restored lies there as it did");
    assert_eq!(db.check().unwrap().orphan_units, 0);
    read_all(&db).unwrap()
}

#[test]
fn backups_hold_what_is_stored_and_restore_to_it() -> Result<()> {
    let db = small().create_in(Arc::new(MemDir::new()))?;
    let backups = Backups::in_dir(Arc::new(MemDir::new()));
    let mut random = Random::seeded(1);
    let mut expected = Vec::new();
    for turn in 0..6 {
        fill(&db, &mut random, 2000)?;
        let options = match backups.newest()?.filter(|_| turn != 3) {
            Some(base) => BackupOptions::default().since(&base),
            None => BackupOptions::default(),
        };
        expected.push((db.backup_to(&backups, options)?.name.unwrap(), read_all(&db)?));
        if turn == 4 {
            db.compact(|_| {})?;
        }
    }
    assert!(saved_bytes(&db) > 100_000);
    for (name, data) in expected {
        assert!(restored(&backups, &name) == data, "backup {name}");
    }
    Ok(())
}

#[test]
fn a_compaction_leaves_what_is_compressed_so() -> Result<()> {
    let db = small().create_in(Arc::new(MemDir::new()))?;
    let mut random = Random::seeded(2);
    for _ in 0..12 {
        fill(&db, &mut random, 2000)?;
    }
    let data = read_all(&db)?;
    db.compact(|_| {})?;
    // What was merged last lies beyond what it was merged from, and moves there.
    let (stats, tables) = (db.stats()?, db.table_stats()?);
    let table = &tables[0];
    assert!(table.saved_bytes * 10 > table.stored_bytes * 7, "{table:?}");
    // Inner pages, filters, catalogs and the space map take a page each or two.
    assert!(
        stats.data_file_bytes < table.stored_bytes + (160 << 10),
        "{} for {table:?}",
        stats.data_file_bytes
    );
    db.compact(|_| {})?;
    assert!(saved_bytes(&db) >= table.saved_bytes * 9 / 10);
    // Small tables of one leaf, as the catalog is, are stored so whatever they say.
    let of_small_tables = db.check()?.saved_bytes - saved_bytes(&db);
    assert!(of_small_tables <= 4 * (16 << 10), "{of_small_tables}");
    assert!(read_all(&db)? == data);
    Ok(())
}

#[test]
fn a_read_only_handle_reads_what_is_compressed() -> Result<()> {
    let dir = Arc::new(MemDir::new());
    let db = small().create_in(dir.clone())?;
    fill(&db, &mut Random::seeded(3), 5000)?;
    let data = read_all(&db)?;
    db.close()?;
    let db = small().read_only(true).open_in(dir)?;
    assert!(saved_bytes(&db) > 0 && read_all(&db)? == data);
    db.check()?;
    Ok(())
}

#[test]
fn damage_is_an_error_and_never_a_value() -> Result<()> {
    let dir = Arc::new(MemDir::new());
    let db = small().create_in(dir.clone())?;
    let mut random = Random::seeded(4);
    fill(&db, &mut random, 5000)?;
    let data = read_all(&db)?;
    db.close()?;
    let files: Files = dir.files();
    let mut reported = 0;
    for turn in 0..60 {
        let mut bad = files.clone();
        let bytes = bad.get_mut("data").unwrap();
        let at = 8192 + random.below(bytes.len() as u64 - 8192) as usize;
        match turn % 3 {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at / 4096 * 4096..][..4096].fill(0),
            _ => {
                let from = random.below(bytes.len() as u64 / 4096) as usize * 4096;
                bytes.copy_within(from..from + 4096, at / 4096 * 4096);
            }
        }
        let read = small().open_in(dir_of(&bad)).and_then(|db| {
            db.check()?;
            read_all(&db)
        });
        match read {
            Ok(found) => assert!(found == data, "turn {turn}"),
            Err(error) => {
                reported += 1;
                assert!(means_bad_files(error.kind()), "turn {turn}: {error}");
            }
        }
    }
    assert!(reported > 20, "{reported} of 60");
    Ok(())
}
