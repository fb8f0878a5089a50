//! A backup's stream: changed in any way it is refused, and leaves nothing in the directory. One whose checksums are
//! computed anew after the change may be restored: then the database opens, or refuses to.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pando::{BackupOptions, Database, ErrorKind, Result};
use pando_fuzz::{Edit, is_refusal, reseal_backup};
use std::sync::{Arc, OnceLock};

fn sound() -> &'static Vec<u8> {
    static SOUND: OnceLock<Vec<u8>> = OnceLock::new();
    SOUND.get_or_init(|| {
        let dir = Arc::new(io::MemDir::new());
        let db = Database::builder().page_bytes(4096).memory_bytes(4 << 20).create_in(dir).expect("memory");
        let table = db.ensure_table("t").expect("memory");
        db.put(&table, b"large", &[3; 9000]).expect("memory");
        (0..200u8).for_each(|key| db.put(&table, &[key], &[key; 20]).expect("memory"));
        db.checkpoint().expect("memory");
        db.put(&table, b"later", b"in the log").expect("memory");
        let mut stream = Vec::new();
        db.backup(BackupOptions::default(), &mut stream).expect("memory");
        let mut resealed = stream.clone();
        reseal_backup(&mut resealed);
        assert_eq!(resealed, stream, "the checksums are computed as the engine computes them");
        stream
    })
}

fn open_and_read(dir: Arc<dyn io::Dir>) -> Result<()> {
    let db = Database::builder().memory_bytes(4 << 20).open_in(dir)?;
    let findings = db.check();
    if let Some(table) = db.table("t")? {
        let snapshot = db.snapshot()?;
        let mut cursor = snapshot.cursor(&table, ..)?;
        while cursor.next()?.is_some() {}
        db.put(&table, b"key", b"value")?;
    }
    db.checkpoint()?;
    findings.map(drop)?;
    db.close()
}

fuzz_target!(|input: (Vec<Edit>, bool)| {
    let (edits, reseals) = input;
    let mut stream = sound().clone();
    for edit in edits.iter().take(8) {
        edit.apply(&mut stream);
    }
    if reseals {
        reseal_backup(&mut stream);
    }
    let changed = stream != *sound();
    let dir: Arc<dyn io::Dir> = Arc::new(io::MemDir::new());
    match pando::restore_stream_in(&mut &stream[..], Arc::clone(&dir)) {
        Ok(_) => {
            assert!(reseals || !changed, "a changed backup was restored");
            if let Err(error) = open_and_read(dir) {
                assert!(
                    changed && (is_refusal(error.kind()) || error.kind() == ErrorKind::Latched),
                    "{error:?}"
                );
            }
        }
        Err(error) => {
            assert!(changed && is_refusal(error.kind()), "{error:?}");
            let names = dir.list().expect("memory can be listed");
            assert!(names.iter().all(|name| name == "lock"), "{names:?} are left");
        }
    }
});
