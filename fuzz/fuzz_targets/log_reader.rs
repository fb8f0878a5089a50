//! The log: a damaged one is refused, or read as a prefix of what was written, and goes on from there. One whose
//! checksums are computed anew after the damage is refused, or read as something.
#![no_main]

use base::{CheckpointNo, DatabaseId, Lsn};
use libfuzzer_sys::fuzz_target;
use log::{Log, Options, Position};
use pando_fuzz::{Edit, Files, dir_of, files_of, is_refusal, reseal_segment};
use std::sync::{Arc, OnceLock};

const DATABASE: DatabaseId = DatabaseId(7);
const SMALL: Options =
    Options { first_segment_bytes: 4096, max_segment_bytes: 8192, flush_worth_bytes: u64::MAX };
const START: Position = Position { segment: 1, generation: 1, lsn: Lsn(0) };

/// Several segments and two generations, synced here and there; and what was appended.
fn sound() -> &'static (Files, Vec<Vec<u8>>) {
    static SOUND: OnceLock<(Files, Vec<Vec<u8>>)> = OnceLock::new();
    SOUND.get_or_init(|| {
        let dir: Arc<dyn io::Dir> = Arc::new(io::MemDir::new());
        let mut written = Vec::new();
        let mut log = Log::create(Arc::clone(&dir), DATABASE, SMALL).expect("memory");
        for round in 0..3u8 {
            for n in 0..20u8 {
                let payload = vec![n ^ round; 40 + usize::from(n) * 23 % 300];
                log.append(&payload).expect("memory");
                written.push(payload);
                if n == 12 {
                    log.sync(log.end().lsn).expect("memory");
                }
            }
            if round < 2 {
                let tail = Log::scan(&dir, DATABASE, START, &mut |_| Ok(())).expect("a sound log");
                log = Log::resume(Arc::clone(&dir), tail, CheckpointNo(0), SMALL).expect("a sound log");
            }
        }
        let files = files_of(&*dir);
        let mut resealed = files.clone();
        resealed.values_mut().for_each(|segment| reseal_segment(segment, DATABASE));
        assert_eq!(resealed, files, "the checksums are computed as the engine computes them");
        (files, written)
    })
}

fuzz_target!(|input: (Vec<(u8, Edit)>, bool)| {
    let (edits, reseals) = input;
    let (files, written) = sound();
    let mut files = files.clone();
    for (which, edit) in edits.iter().take(8) {
        let count = files.len();
        let bytes = files.values_mut().nth(usize::from(*which) % count).expect("there are some");
        edit.apply(bytes);
        if reseals {
            reseal_segment(bytes, DATABASE);
        }
    }
    let dir = dir_of(&files);
    let mut found = Vec::new();
    let scanned = Log::scan(&dir, DATABASE, START, &mut |block| {
        found.push(block.payload.to_vec());
        Ok(())
    });
    match scanned {
        Err(error) => assert!(is_refusal(error.kind()), "{error:?}"),
        Ok(tail) => {
            assert!(reseals || written.starts_with(&found), "something else was read");
            match Log::resume(Arc::clone(&dir), tail, CheckpointNo(0), SMALL) {
                Ok(log) => match log.append(b"more") {
                    Ok(_) => {}
                    Err(error) => assert!(reseals && is_refusal(error.kind()), "{error:?}"),
                },
                Err(error) => assert!(is_refusal(error.kind()), "{error:?}"),
            }
        }
    }
});
