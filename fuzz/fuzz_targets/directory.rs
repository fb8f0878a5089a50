//! A whole database, changed here and there, and its checksums put right again: every call refuses, or ends.
#![no_main]

use arbitrary::Arbitrary;
use base::DatabaseId;
use libfuzzer_sys::fuzz_target;
use pando::{Database, Result};
use pando_fuzz::{Edit, Files, dir_of, files_of, is_refusal, repair, reseal_segment};
use std::sync::{Arc, OnceLock};

#[derive(Arbitrary, Debug)]
struct Input {
    edits: Vec<(u8, Edit)>,
    repairs: bool,
}

fn builder() -> pando::Builder {
    Database::builder().memory_bytes(4 << 20)
}

/// Trees of two levels, large values, a dropped range, a log that was not absorbed; and the database's id.
fn sound() -> &'static (Files, DatabaseId) {
    static SOUND: OnceLock<(Files, DatabaseId)> = OnceLock::new();
    SOUND.get_or_init(|| {
        let dir: Arc<dyn io::Dir> = Arc::new(io::MemDir::new());
        make(&dir).expect("memory");
        let files = files_of(&*dir);
        // Magic, format, page size: then the id.
        let id = files["data"][16..24].try_into().expect("eight bytes");
        (files, DatabaseId(u64::from_le_bytes(id)))
    })
}

fn make(dir: &Arc<dyn io::Dir>) -> Result<()> {
    let db = builder().page_bytes(4096).create_in(Arc::clone(dir))?;
    let (small, large) = (db.ensure_table("small")?, db.ensure_table("large")?);
    db.write(|tx| (0..300u16).try_for_each(|key| tx.put(&small, &key.to_be_bytes(), &[key as u8; 40])))?;
    db.write(|tx| (0..3u8).try_for_each(|key| tx.put(&large, &[key], &[key; 5000])))?;
    db.checkpoint()?;
    db.write(|tx| tx.delete_range(&small, &50u16.to_be_bytes()[..]..&90u16.to_be_bytes()[..]))?;
    db.checkpoint()?;
    db.write(|tx| (0..20u16).try_for_each(|key| tx.put(&small, &key.to_be_bytes(), b"later")))?;
    db.close()
}

/// Reads, checks and writes all that can be.
fn go_over(files: &Files) -> Result<()> {
    let db = builder().open_in(dir_of(files))?;
    let findings = db.check();
    for name in ["small", "large"] {
        let table = db.ensure_table(name)?;
        let snapshot = db.snapshot()?;
        let mut cursor = snapshot.cursor(&table, ..)?;
        while cursor.next()?.is_some() {}
        db.write(|tx| tx.put(&table, b"key", b"value"))?;
        db.write(|tx| tx.delete_range(&table, &[1u8][..]..&[2u8][..]))?;
    }
    db.checkpoint()?;
    findings.map(drop)?;
    db.close()
}

fuzz_target!(|input: Input| {
    let (files, database) = sound();
    let mut files = files.clone();
    for (which, edit) in input.edits.iter().take(6) {
        let count = files.len();
        let (name, bytes) = files.iter_mut().nth(usize::from(*which) % count).expect("there are some");
        let at = edit.apply(bytes);
        if let Some(at) = at.filter(|_| input.repairs && name == "data") {
            repair(bytes, *database, at / 4096);
        }
        if input.repairs && name.starts_with("log-") {
            reseal_segment(bytes, *database);
        }
    }
    if let Err(error) = go_over(&files) {
        let latched = error.kind() == pando::ErrorKind::Latched;
        assert!(latched || is_refusal(error.kind()), "{error:?}");
    }
});
