//! Epochs against an evictor, and calls against a reclaimer that revokes, under every interleaving:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p pando-db-base --test slots_loom`. What views do with slots is proved
//! where views are, in `pando-db-store`.
#![cfg(loom)]

use loom::thread;
use pando_base::slots::{Announced, EpochGuard, Holding, Reader, Slots};
use pando_base::sync::Arc;
use pando_base::sync::atomic::{AtomicBool, Ordering};

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

/// Where a reader looks in two calls at what it holds, beside a reclaimer that frees it when `is_free` says so, given
/// what the reader was seen to hold.
fn revoke(begin: fn(&Reader) -> Option<EpochGuard<'_>>, is_free: fn(&Slots, &Holding) -> bool) {
    loom::model(move || {
        let slots = std::sync::Arc::new(Slots::new());
        let freed = Arc::new(AtomicBool::new(false));
        let reader = slots.claim().unwrap();
        reader.hold(7, false);
        let Some(Announced::Held(holding)) = slots.announced().next() else { panic!("it holds a view") };
        let thread = {
            let freed = Arc::clone(&freed);
            thread::spawn(move || {
                let look = || assert!(!freed.load(Ordering::SeqCst), "a view was freed under its reader");
                for _ in 0..2 {
                    let Some(call) = begin(&reader) else { return };
                    look();
                    let suspended = call.suspend();
                    look();
                    drop(suspended);
                }
            })
        };
        if is_free(&slots, &holding) {
            freed.store(true, Ordering::SeqCst);
        }
        thread.join().unwrap();
        assert!(slots.revoke(&holding) || slots.announced().next().is_none());
        assert!(slots.announced().next().is_none(), "at rest it holds nothing any more");
    });
}

fn is_let_go(slots: &Slots) -> bool {
    slots.announced().next().is_none()
}

#[test]
fn a_view_is_not_taken_from_a_call() {
    revoke(Reader::begin_call, |slots, holding| slots.revoke(holding) && is_let_go(slots));
}

#[test]
#[should_panic(expected = "freed under its reader")]
fn a_call_that_looks_before_it_is_announced_is_caught() {
    fn begin(reader: &Reader) -> Option<EpochGuard<'_>> {
        let is_revoked = reader.is_revoked();
        (!is_revoked).then(|| reader.enter())
    }
    revoke(begin, |slots, holding| slots.revoke(holding) && is_let_go(slots));
}

#[test]
#[should_panic(expected = "freed under its reader")]
fn a_revocation_that_does_not_look_for_calls_is_caught() {
    revoke(Reader::begin_call, |slots, holding| slots.revoke(holding));
}
