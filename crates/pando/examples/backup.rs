//! Backups of a database in use, and the way back: a full backup, a small one of what changed since, and databases
//! that are restored as of either.
//!
//! Run it with `cargo run -p pando-db --example backup`.

use pando::{BackupOptions, Backups, Database, Error, ErrorKind, Result};
use std::path::Path;

/// Puts accounts with one balance.
fn fill(db: &Database, accounts: std::ops::Range<u32>, balance: u64) -> Result<()> {
    let table = db.ensure_table("accounts")?;
    db.write(|tx| {
        accounts.clone().try_for_each(|number| tx.put(&table, &number.to_be_bytes(), &balance.to_be_bytes()))
    })
}

/// The sum of all balances of the database in a directory.
fn sum(path: &Path) -> Result<u64> {
    let db = Database::open(path)?;
    let (snapshot, mut sum) = (db.snapshot()?, 0);
    for record in snapshot.range(&db.ensure_table("accounts")?, ..)? {
        let (_, balance) = record?;
        sum += u64::from_be_bytes(balance[..].try_into().expect("a balance has eight bytes"));
    }
    Ok(sum)
}

/// Runs the example, and asserts what it shows.
pub fn main() -> Result<()> {
    let home = tempfile::tempdir().map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
    let at = |name: &str| home.path().join(name);
    let db = Database::create(at("bank"))?;
    let backups = Backups::create(at("backups"))?;
    fill(&db, 0..20_000, 1)?;
    // A difference leaves out pages, and not what the log still has of older commits.
    db.checkpoint()?;

    // Readers and writers go on meanwhile. The backup has what was committed when it began.
    let full = db.backup_to(&backups, BackupOptions::default())?;
    println!("the full backup has {} bytes", full.bytes);

    // A difference copies only the pages that changed since another backup.
    fill(&db, 0..100, 1_000)?;
    let first = backups.newest()?.expect("there is one");
    let difference = db.backup_to(&backups, BackupOptions::default().since(&first))?;
    println!("the difference has {} bytes", difference.bytes);
    for entry in backups.list()? {
        println!("  {entry:?}");
    }

    // A change that is regretted. Every page of a backup is verified before the restored database can be opened.
    fill(&db, 0..20_000, 0)?;
    db.close()?;
    assert_eq!(sum(&at("bank"))?, 0);
    let restored = pando::restore(&backups, None, at("newest"))?;
    println!("restored {} backups, up to commit {}", restored.backups, restored.commit);
    assert_eq!(sum(&at("newest"))?, 100 * 1_000 + 19_900);
    pando::restore(&backups, Some("1"), at("first"))?;
    assert_eq!(sum(&at("first"))?, 20_000);

    // A directory that has files is never written over.
    let refused = pando::restore(&backups, None, at("newest")).expect_err("it has files");
    println!("refused: {refused}");

    // Without a folder: a backup is a stream of bytes, to a socket or to a file of your own.
    let mut stream = Vec::new();
    let db = Database::open(at("newest"))?;
    db.backup(BackupOptions::default(), &mut stream)?;
    pando::restore_stream(&mut &stream[..], at("copy"))?;
    println!("a stream of {} bytes was restored, too", stream.len());
    assert_eq!(sum(&at("copy"))?, 119_900);
    Ok(())
}
