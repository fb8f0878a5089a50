//! The throttle of a checkpoint that no thread waits for: it pauses after each piece of its work, so that processors
//! and the disk are free for threads that wait for a commit.
//!
//! The store derives the length of a pause from its debt ([`store::store::Pressure`]): pauses are shorter as more waits
//! to be merged, and end before writers are slowed. A checkpoint does not pause while a thread waits for its end, or
//! for the memory that it will return.

use super::Signals;
use base::background;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use store::Store;

/// The least length of a piece of work. Shorter pieces delay other threads less; sleeping and waking takes about a
/// twentieth of this.
const PIECE: Duration = Duration::from_micros(250);
/// The longest single sleep, after which the throttle checks whether to continue the pause.
const SLICE: Duration = Duration::from_millis(2);

/// The work of one thread, and its pauses.
struct CheckpointThrottle {
    store: Arc<Store>,
    signals: Arc<Signals>,
    resumed: Cell<Instant>,
    paused: Cell<Duration>,
}

/// Runs `work` with pauses. Returns its result and the sum of the pauses.
pub(crate) fn throttled<R>(
    store: &Arc<Store>,
    signals: &Arc<Signals>,
    work: impl FnOnce() -> R,
) -> (R, Duration) {
    let (resumed, paused) = (Cell::new(Instant::now()), Cell::default());
    let throttle = Rc::new(CheckpointThrottle {
        store: Arc::clone(store),
        signals: Arc::clone(signals),
        resumed,
        paused,
    });
    let outcome = background::throttled(Rc::clone(&throttle) as Rc<dyn background::Throttle>, work);
    (outcome, throttle.paused.get())
}

impl background::Throttle for CheckpointThrottle {
    fn pause(&self) {
        let worked = self.resumed.get().elapsed();
        if worked < PIECE {
            return;
        }
        let begun = Instant::now();
        loop {
            let (paused, most) = (begun.elapsed(), self.pause_after(worked));
            if paused >= most {
                break;
            }
            thread::sleep((most - paused).min(SLICE));
        }
        self.paused.set(self.paused.get() + begun.elapsed());
        self.resumed.set(Instant::now());
    }

    fn is_throttled(&self) -> bool {
        !self.pause_after(PIECE).is_zero()
    }
}

impl CheckpointThrottle {
    /// Returns how long to pause after a piece of work.
    fn pause_after(&self, worked: Duration) -> Duration {
        let is_awaited = self.signals.wants_checkpoints_soon() || self.store.is_checkpoint_awaited();
        let permille = if is_awaited { 0 } else { self.store.pressure().pause_permille() };
        worked * permille as u32 / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    /// Returns the sum of the pauses after a hundred pieces of work.
    fn paused(db: &Database) -> Duration {
        let work = || {
            for _ in 0..100 {
                let begun = Instant::now();
                while begun.elapsed() < PIECE {}
                background::pause();
            }
        };
        throttled(&db.shared.store, &db.shared.signals, work).1
    }

    #[test]
    fn a_checkpoint_that_a_thread_waits_for_does_not_pause() {
        let db = Database::builder().in_memory().unwrap();
        let table = db.ensure_table("t").unwrap();
        db.put(&table, b"k", b"v").unwrap();
        assert!(paused(&db) >= 100 * 2 * PIECE, "without debt it pauses");
        let is_throttled = || throttled(&db.shared.store, &db.shared.signals, background::is_throttled).0;
        assert!(is_throttled());

        let under_way = db.shared.store.begin_checkpoint().unwrap().expect("there is something to merge");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| db.checkpoint());
            while !db.shared.store.is_checkpoint_awaited() {
                thread::yield_now();
            }
            assert!(paused(&db) < 100 * PIECE && !is_throttled(), "a thread waits");
            under_way.finish().unwrap();
            waiting.join().unwrap().unwrap();
        });
        assert!(paused(&db) >= 100 * 2 * PIECE, "no thread waits");
    }
}
