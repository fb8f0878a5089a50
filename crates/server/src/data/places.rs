//! The places where open databases are found, by name.
//!
//! 1. One look into a map finds an open database, without a lock and without memory. The map itself is never changed:
//!    a new one takes its place.
//! 2. Opening, closing and dropping a database happen under its gate, on threads that may wait.
//! 3. A database is closed when its last user has let go of it, never under one: the handle is taken out of its place
//!    first, so that nobody new finds it.

use crate::data::names::Names;
use crate::data::open::Open;
use crate::wire::problem::Answer;
use arc_swap::{ArcSwap, ArcSwapOption};
use pando::Result;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// All of them.
#[derive(Debug, Default)]
pub struct Places {
    by_name: ArcSwap<Names<Arc<Place>>>,
    /// Counts uses, as a clock for what was used last.
    uses: AtomicU64,
}

/// Where an open database is found.
#[derive(Debug)]
pub struct Place {
    /// Its name.
    pub name: Box<str>,
    open: ArcSwapOption<Open>,
    gate: Mutex<()>,
    /// When it was used last, by the server's clock of seconds.
    used_at: AtomicU64,
}

fn locked(gate: &Mutex<()>) -> MutexGuard<'_, ()> {
    gate.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Places {
    /// Moves the clock, and returns what it was.
    pub fn tick(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::SeqCst)
    }

    /// Runs `with` on a database that is open.
    #[inline]
    pub fn with_open<T>(&self, name: &str, with: impl FnOnce(&Open) -> T) -> Option<T> {
        let places = self.by_name.load();
        let place = places.get(name)?;
        let open = place.open.load();
        let open = open.as_ref()?;
        self.note_use(place);
        Some(with(open))
    }

    /// A database that is open, to be used for longer.
    pub fn get_open(&self, name: &str) -> Option<Arc<Open>> {
        let places = self.by_name.load();
        let place = places.get(name)?;
        self.note_use(place);
        place.open()
    }

    /// Stored only when the clock has moved: readers of one database write to no line that they share.
    #[inline]
    fn note_use(&self, place: &Place) {
        // Relaxed on all: an estimate of who was used last, which orders nothing.
        let now = self.uses.load(Ordering::Relaxed);
        // Relaxed, as above.
        if place.used_at.load(Ordering::Relaxed) != now {
            place.used_at.store(now, Ordering::Relaxed);
        }
    }

    /// Runs `work` under the gate of the place of that name, which is made if it is new and goes again if in the end
    /// there is nothing of that name, as `is_there` says.
    pub fn at_gate<T>(
        &self,
        name: &str,
        is_there: impl Fn() -> bool,
        mut work: impl FnMut(&Place) -> Answer<T>,
    ) -> Answer<T> {
        loop {
            let place = self.place(name);
            let _gate = locked(&place.gate);
            // The request that held the gate before may have taken the place away: nobody would find what is opened
            // there.
            if !self.by_name.load().get(name).is_some_and(|current| Arc::ptr_eq(current, &place)) {
                continue;
            }
            let outcome = work(&place);
            if place.open.load().is_none() && !is_there() {
                self.by_name.rcu(|places| {
                    let mut places = Names::clone(places);
                    places.remove(name);
                    places
                });
            }
            return outcome;
        }
    }

    /// The place of a database of that name, made if it is new.
    fn place(&self, name: &str) -> Arc<Place> {
        if let Some(place) = self.by_name.load().get(name) {
            return Arc::clone(place);
        }
        let new = Arc::new(Place {
            name: name.into(),
            open: ArcSwapOption::empty(),
            gate: Mutex::new(()),
            used_at: AtomicU64::new(0),
        });
        let mut found = Arc::clone(&new);
        self.by_name.rcu(|places| {
            let mut places = Names::clone(places);
            found = Arc::clone(places.entry(name.into()).or_insert_with(|| Arc::clone(&new)));
            places
        });
        found
    }

    /// Has requests find a database at `place`, whose gate the caller holds.
    pub fn install(&self, place: &Place, open: Open) -> Arc<Open> {
        let open = Arc::new(open);
        place.open.store(Some(Arc::clone(&open)));
        self.note_use(place);
        open
    }

    /// Every database that is open.
    pub fn all_open(&self) -> Vec<(String, Arc<Open>)> {
        let places = self.by_name.load();
        places.values().filter_map(|place| Some((place.name.to_string(), place.open()?))).collect()
    }

    /// Closes those that were used longest ago until no more than `count` are open. What is in use stays.
    pub fn close_down_to(&self, count: usize) {
        let open = self.by_name.load().values().filter(|place| place.open.load().is_some()).count();
        self.close_some(open.saturating_sub(count), 0);
    }

    /// Closes `count` databases at most, those that were used longest ago first: none that a request is using, or that
    /// was used within so many ticks. Returns how many were closed.
    pub fn close_some(&self, count: usize, idle_ticks: u64) -> usize {
        let places = self.by_name.load_full();
        let now = self.uses.load(Ordering::Relaxed); // Relaxed: as in `note_use`.
        // Relaxed: as in `note_use`.
        let is_idle = |place: &Place| place.used_at.load(Ordering::Relaxed) + idle_ticks <= now;
        let mut open: Vec<&Arc<Place>> =
            places.values().filter(|place| place.open.load().is_some() && is_idle(place)).collect();
        // Relaxed: as in `note_use`.
        open.sort_by_key(|place| place.used_at.load(Ordering::Relaxed));
        let mut surplus = count;
        for place in open {
            if surplus == 0 {
                break;
            }
            // Somebody who opens, closes or drops it holds the gate, and may be waiting for this very call's gate.
            let Ok(_gate) = place.gate.try_lock() else { continue };
            match place.close(Duration::ZERO) {
                Ok(true) => surplus -= 1,
                Ok(false) => {}
                Err(error) => tracing::error!(%error, database = %place.name, "closing a database failed"),
            }
        }
        count - surplus
    }

    /// Closes everything, to the last one that can be: the first error is returned.
    pub fn close_all(&self) -> Result<()> {
        let mut outcome = Ok(());
        for place in self.by_name.load().values() {
            let _gate = locked(&place.gate);
            if let Some(open) = place.open.swap(None) {
                outcome = outcome.and(open.close());
            }
        }
        outcome
    }

    /// How many names have a place.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.by_name.load().len()
    }
}

impl Place {
    /// The database, if it is open.
    pub fn open(&self) -> Option<Arc<Open>> {
        self.open.load_full()
    }

    /// Closes what is open here, if those who use it let go of it in time. The caller holds the gate. Until then
    /// requests find it: they would wait at the gate.
    pub fn close(&self, patience: Duration) -> Result<bool> {
        let begun = Instant::now();
        let is_used = |open: &Arc<Open>, own: usize| {
            Arc::strong_count(open) > own || Arc::strong_count(&open.writer) > 1
        };
        loop {
            let Some(open) = self.open.load_full() else { return Ok(true) };
            // The place's and this one.
            let seems_used = is_used(&open, 2);
            drop(open);
            // The swap turns what is only borrowed from the place into counted handles: the count is all users.
            if !seems_used && let Some(open) = self.open.swap(None) {
                if !is_used(&open, 1) {
                    open.close()?;
                    return Ok(true);
                }
                self.open.store(Some(open));
            }
            if begun.elapsed() >= patience {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
