//! Opening to read alone: nothing is written, others may read too, a writer excludes and is excluded.

use crate::support::{Files, dir_of, new_block, read_all, small};
use base::env::Random;
use io::{Dir, MemDir, OsDir};
use pando::{Database, Durability, Error, ErrorKind, Result, Table, TableOptions, TransactionOptions};
use std::sync::Arc;

/// The files of a database with a checkpoint, more in the log, and a large value.
struct Made {
    data: crate::support::Data,
    /// What a process leaves that is killed before the last commit, ...
    before: Files,
    /// ... after it, ...
    killed: Files,
    /// ... and one that closes the database.
    closed: Files,
}

fn made(seed: u64) -> Result<Made> {
    let mut random = Random::seeded(seed);
    let dir = Arc::new(MemDir::new());
    let db = small().page_bytes(4096).create_in(dir.clone())?;
    let tables = [db.ensure_table("a")?, db.ensure_table("b")?];
    let commits = 20 + random.below(60);
    for commit in 0..commits {
        let options = TransactionOptions { durability: Durability::Buffered, ..Default::default() };
        let mut tx = db.begin_with(&options)?;
        for _ in 0..1 + random.below(20) {
            let table = &tables[random.below(2) as usize];
            let key = random.below(500).to_be_bytes();
            match random.below(10) {
                0 => tx.delete(table, &key)?,
                1 => tx.put(table, &key, &vec![commit as u8; 5000])?,
                _ => tx.put(table, &key, &vec![commit as u8; random.below(200) as usize])?,
            }
        }
        tx.commit()?;
        if commit == commits / 2 {
            db.checkpoint()?;
        }
    }
    let before = dir.files();
    db.put(&tables[0], b"last", b"commit")?;
    let (data, killed) = (read_all(&db)?, dir.files());
    db.close()?;
    Ok(Made { data, before, killed, closed: dir.files() })
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error: Error| error.kind())
}

#[test]
fn the_same_data_and_not_a_byte_changes() -> Result<()> {
    for seed in 0..10 {
        let Made { data, killed, closed, .. } = made(seed)?;
        for files in [killed, closed] {
            let dir = dir_of(&files);
            let readers = [(); 3].map(|()| small().read_only(true).open_in(dir.clone()).unwrap());
            for db in &readers {
                assert_eq!(read_all(db)?, data, "seed {seed}");
                db.check()?;
                db.stats()?;
            }
            drop(readers);
            assert!(dir.files() == files, "seed {seed}: a file changed");
            // What it was opened for before, it still opens for.
            assert_eq!(read_all(&small().open_in(dir)?)?, data, "seed {seed}");
        }
    }
    Ok(())
}

#[test]
fn a_torn_tail_is_passed_over_and_left() -> Result<()> {
    let Made { mut data, before, killed, .. } = made(3)?;
    let (name, at) = new_block(&before, &killed);
    let mut torn = killed;
    torn.get_mut(&name).unwrap()[at] ^= 0x40;
    let dir = dir_of(&torn);
    let db = small().read_only(true).open_in(dir.clone())?;
    let found = read_all(&db)?;
    data.get_mut("a").unwrap().remove(&b"last"[..]);
    assert_eq!(found, data, "the last commit is gone, and nothing else");
    db.close()?;
    assert!(dir.files() == torn);
    assert_eq!(read_all(&small().open_in(dir)?)?, found, "a writer takes the same prefix");
    Ok(())
}

#[test]
fn every_write_is_refused_by_name() -> Result<()> {
    let killed = made(1)?.killed;
    let dir = dir_of(&killed);
    let db = small().read_only(true).open_in(dir.clone())?;
    assert!(db.is_read_only());
    let table: Table = db.ensure_table("a")?;
    let refusals = [
        db.put(&table, b"k", b"v").err(),
        db.delete(&table, b"k").err(),
        db.write(|tx| tx.put(&table, b"k", b"v")).err(),
        db.begin().err(),
        db.ensure_table("new").err(),
        db.create_table("new", &TableOptions::default()).err(),
        db.drop_table("a").err(),
        db.checkpoint().err(),
        db.sync().err(),
    ];
    for refusal in refusals {
        let error = refusal.expect("it would write");
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
        assert!(error.message().contains("opened read-only"), "{error}");
    }
    db.close()?;
    db.close()?;
    assert_eq!(kind(db.snapshot()), Some(ErrorKind::Closed));
    assert!(dir.files() == killed);
    Ok(())
}

#[test]
fn readers_and_a_writer_come_in_any_order() -> Result<()> {
    let home = tempfile::tempdir().unwrap();
    let me = format!("process {}", std::process::id());
    assert_eq!(kind(Database::open_read_only(home.path())), Some(ErrorKind::Missing));
    assert!(std::fs::read_dir(home.path()).unwrap().next().is_none(), "nothing was made");
    assert_eq!(
        kind(Database::builder().read_only(true).create(home.path().join("new"))),
        Some(ErrorKind::Invalid)
    );
    assert!(!home.path().join("new").exists());
    let writer = Database::create(home.path())?;
    let beside = Database::open_read_only(home.path())?;
    assert!(beside.is_beside_writer() && !writer.is_beside_writer());
    let refused = Database::open(home.path()).unwrap_err();
    assert!(refused.kind() == ErrorKind::Locked && refused.message().contains(&me), "{refused}");
    writer.close()?;
    drop(beside);
    let first = Database::open_read_only(home.path())?;
    let second = Database::open_read_only(home.path())?;
    assert!(!first.is_beside_writer());
    let writer = Database::open(home.path())?;
    let table = writer.ensure_table("t")?;
    writer.put(&table, "key", "value")?;
    for reader in [&first, &second] {
        reader.catch_up()?;
        assert!(reader.is_beside_writer());
        let table = reader.table("t")?.expect("it was created");
        assert_eq!(reader.get(&table, "key")?.as_deref(), Some(&b"value"[..]));
    }
    first.close()?;
    drop((first, second));
    writer.close()?;
    // Nobody left a place behind.
    let names = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().starts_with("reader-")));
    Ok(())
}

#[test]
fn a_log_beyond_the_memory_is_refused_with_the_amount_that_does() -> Result<()> {
    for value_bytes in [40, 900, 50_000] {
        let dir = Arc::new(MemDir::new());
        let db =
            Database::builder().memory_bytes(64 << 20).checkpoint_bytes(32 << 20).create_in(dir.clone())?;
        let table = db.ensure_table("t")?;
        for piece in 0..8 {
            db.write(|tx| {
                (0..250_000 / value_bytes).try_for_each(|n: usize| {
                    tx.put(&table, &[&[piece as u8][..], &n.to_be_bytes()].concat(), &vec![9; value_bytes])
                })
            })?;
        }
        let (data, killed) = (read_all(&db)?, dir.files());
        drop(db);
        let little = Database::builder().memory_bytes(2 << 20).read_only(true);
        let refused = little.open_in(dir_of(&killed)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
        let said = refused.to_string();
        let enough = said.split("bytes were given, ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let enough: usize = enough.parse().unwrap();
        assert!(enough < 128 << 20, "{said}");
        let db = Database::builder().memory_bytes(enough).read_only(true).open_in(dir_of(&killed))?;
        assert_eq!(read_all(&db)?, data);
    }
    Ok(())
}

#[test]
fn what_is_no_database_makes_no_lock() -> Result<()> {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("note"), "hello").unwrap();
    assert_eq!(kind(Database::open_read_only(home.path())), Some(ErrorKind::Missing));
    assert_eq!(OsDir::open(home.path())?.list()?, ["note"]);
    Ok(())
}
