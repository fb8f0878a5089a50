//! The bytes of changes: altered in any way they are refused, and nothing of an altered change is applied.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pando::Database;
use pando_fuzz::{Edit, is_refusal};
use std::sync::OnceLock;

fn open() -> Database {
    Database::builder().page_bytes(4096).memory_bytes(4 << 20).in_memory().expect("memory")
}

fn sound() -> &'static Vec<u8> {
    static SOUND: OnceLock<Vec<u8>> = OnceLock::new();
    SOUND.get_or_init(|| {
        let db = open();
        let mut changes = db.changes(0).expect("memory");
        let table = db.ensure_table("t").expect("memory");
        db.put(&table, b"long", &vec![3; 70_000]).expect("memory");
        (0..50u8).for_each(|key| db.put(&table, &[key], &[key; 20]).expect("memory"));
        db.write(|tx| tx.delete_range(&table, vec![3]..vec![9])).expect("memory");
        db.rename_table("t", "u").expect("memory");
        let mut bytes = Vec::new();
        while let Some(mut change) = changes.next().expect("memory") {
            change.write_to(&mut bytes).expect("memory");
        }
        bytes
    })
}

fuzz_target!(|edits: Vec<Edit>| {
    let mut bytes = sound().clone();
    for edit in edits.iter().take(8) {
        edit.apply(&mut bytes);
    }
    let db = open();
    match db.apply_changes(&mut &bytes[..]) {
        // Whole changes may be missing at the end.
        Ok(_) => assert!(sound().starts_with(&bytes), "altered changes were applied"),
        Err(error) => assert!(is_refusal(error.kind()), "{error:?}"),
    }
});
