//! Epochs against an evictor, under every interleaving:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p pando-base --test slots_loom`. What views do with slots is proved
//! where views are, in `pando-store`.
#![cfg(loom)]

use base::slots::Slots;
use base::sync::Arc;
use base::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// One frame: whether the translation leads to it, and whether it was given to another page.
struct Frame {
    linked: AtomicBool,
    reused: AtomicBool,
}

/// A reader that looks at the frame `rounds` times beside an evictor which unlinks it and reuses it if `is_safe`
/// says so, given the epoch that ended with the unlinking.
fn race(rounds: usize, is_safe: fn(&Slots, u64) -> bool) {
    loom::model(move || {
        let slots = std::sync::Arc::new(Slots::new());
        let frame = Arc::new(Frame { linked: AtomicBool::new(true), reused: AtomicBool::new(false) });
        let reader = {
            let (reader, frame) = (slots.claim().unwrap(), Arc::clone(&frame));
            thread::spawn(move || {
                for _ in 0..rounds {
                    let _guard = reader.enter();
                    if frame.linked.load(Ordering::SeqCst) {
                        let reused = frame.reused.load(Ordering::SeqCst);
                        assert!(!reused, "a frame was reused under its reader");
                    }
                }
            })
        };
        frame.linked.store(false, Ordering::SeqCst);
        let ended = slots.advance_epoch();
        if is_safe(&slots, ended) {
            frame.reused.store(true, Ordering::SeqCst);
        }
        reader.join().unwrap();
    });
}

#[test]
fn a_frame_is_not_reused_under_its_reader() {
    race(2, |slots, ended| slots.oldest_epoch() > ended);
}

#[test]
#[should_panic(expected = "reused under its reader")]
fn reuse_without_a_look_at_the_slots_is_caught() {
    race(1, |_, _| true);
}

#[test]
#[should_panic(expected = "reused under its reader")]
fn an_epoch_too_few_is_caught() {
    race(1, |slots, ended| slots.oldest_epoch() >= ended);
}
