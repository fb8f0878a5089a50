//! A checkpoint that nobody waits for takes its time: it pauses behind each piece of work, so that processors and disk
//! are there for those who wait for a commit.
//!
//! For how long, the store tells from its debt ([`store::store::Pressure`]): less as more waits to be merged, and not
//! at all before writers are slowed. Nor does a checkpoint pause while somebody waits for its end, or for the memory
//! that it will give back.

use super::Signals;
use base::background;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use store::Store;

/// A piece of work is at least so long. The shorter, the less anybody waits behind one; sleeping and waking takes some
/// twentieth of this.
const PIECE: Duration = Duration::from_micros(250);
/// After so long a pause it is looked again whether there is time.
const SLICE: Duration = Duration::from_millis(2);

/// The work of one thread, and how it is interrupted.
struct Leisure {
    store: Arc<Store>,
    signals: Arc<Signals>,
    resumed: Cell<Instant>,
    paused: Cell<Duration>,
}

/// Runs `work` with pauses, as far as there is time for them. Answers what they came to, too.
pub(crate) fn within<R>(
    store: &Arc<Store>,
    signals: &Arc<Signals>,
    work: impl FnOnce() -> R,
) -> (R, Duration) {
    let (resumed, paused) = (Cell::new(Instant::now()), Cell::default());
    let leisure =
        Rc::new(Leisure { store: Arc::clone(store), signals: Arc::clone(signals), resumed, paused });
    let outcome = background::within(Rc::clone(&leisure) as Rc<dyn background::Leisure>, work);
    (outcome, leisure.paused.get())
}

impl background::Leisure for Leisure {
    fn pause(&self) {
        let worked = self.resumed.get().elapsed();
        if worked < PIECE {
            return;
        }
        let begun = Instant::now();
        loop {
            let (paused, most) = (begun.elapsed(), self.time_after(worked));
            if paused >= most {
                break;
            }
            thread::sleep((most - paused).min(SLICE));
        }
        self.paused.set(self.paused.get() + begun.elapsed());
        self.resumed.set(Instant::now());
    }

    fn has_time(&self) -> bool {
        !self.time_after(PIECE).is_zero()
    }
}

impl Leisure {
    /// For how long a piece of work may be followed by none.
    fn time_after(&self, worked: Duration) -> Duration {
        let is_awaited = self.signals.wants_checkpoints_soon() || self.store.is_checkpoint_awaited();
        let permille = if is_awaited { 0 } else { self.store.pressure().leisure_permille() };
        worked * permille as u32 / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    /// What a hundred pieces of work are interrupted for.
    fn paused(db: &Database) -> Duration {
        let work = || {
            for _ in 0..100 {
                let begun = Instant::now();
                while begun.elapsed() < PIECE {}
                background::pause();
            }
        };
        within(&db.shared.store, &db.shared.signals, work).1
    }

    #[test]
    fn whoever_waits_for_a_checkpoint_hurries_it() {
        let db = Database::builder().in_memory().unwrap();
        let table = db.table("t").unwrap();
        db.put(&table, b"k", b"v").unwrap();
        assert!(paused(&db) >= 100 * 2 * PIECE, "without debt there is time");
        let has_time = || within(&db.shared.store, &db.shared.signals, background::has_time).0;
        assert!(has_time());

        let under_way = db.shared.store.begin_checkpoint().unwrap().expect("there is something to merge");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| db.checkpoint());
            while !db.shared.store.is_checkpoint_awaited() {
                thread::yield_now();
            }
            assert!(paused(&db) < 100 * PIECE && !has_time(), "somebody waits");
            under_way.finish().unwrap();
            waiting.join().unwrap().unwrap();
        });
        assert!(paused(&db) >= 100 * 2 * PIECE, "nobody does any more");
    }
}
