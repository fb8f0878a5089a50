//! Finds open databases by name.
//!
//! 1. One look-up in a map finds an open database, without a lock and without an allocation. The map is never changed;
//!    it is replaced by a new one.
//! 2. A database is opened, closed and dropped under its gate, on threads that may wait.
//! 3. A database is closed only after its last user has released it. Its handle is removed from the place first, so
//!    that no further request finds it.

use crate::data::names::Names;
use crate::data::open::Open;
use crate::wire::problem::Answer;
use arc_swap::{ArcSwap, ArcSwapOption};
use pando::Result;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The places of all databases.
#[derive(Debug, Default)]
pub struct Places {
    by_name: ArcSwap<Names<Arc<Place>>>,
    /// The clock by which the least recently used database is found.
    uses: AtomicU64,
}

/// Which databases may be closed to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Those that are not shipped, or whose shipping works at present. The bucket lacks commits of the others, perhaps,
    /// and their release would wait for it.
    Settled,
    /// All. The rest of their commits is shipped when they are opened again.
    Any,
}

/// The place of a database by name, whether it is open or not.
#[derive(Debug)]
pub struct Place {
    /// The name of the database.
    pub name: Box<str>,
    open: ArcSwapOption<Open>,
    gate: Mutex<()>,
    /// The time of the last use, by the server's clock of seconds.
    used_at: AtomicU64,
}

fn locked(gate: &Mutex<()>) -> MutexGuard<'_, ()> {
    gate.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Places {
    /// Advances the clock and returns its previous value.
    pub fn tick(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::SeqCst)
    }

    /// Runs `with` on the database if it is open.
    #[inline]
    pub fn with_open<T>(&self, name: &str, with: impl FnOnce(&Open) -> T) -> Option<T> {
        let places = self.by_name.load();
        let place = places.get(name)?;
        let open = place.open.load();
        let open = open.as_ref()?;
        self.note_use(place);
        Some(with(open))
    }

    /// Returns a handle to the database if it is open.
    pub fn get_open(&self, name: &str) -> Option<Arc<Open>> {
        let places = self.by_name.load();
        let place = places.get(name)?;
        self.note_use(place);
        place.open()
    }

    /// Stores the time of use only if the clock has advanced, so that readers of one database do not write to a shared
    /// cache line.
    #[inline]
    fn note_use(&self, place: &Place) {
        // Relaxed for all: this is an estimate of the last use, which orders nothing.
        let now = self.uses.load(Ordering::Relaxed);
        // Relaxed: see above.
        if place.used_at.load(Ordering::Relaxed) != now {
            place.used_at.store(now, Ordering::Relaxed);
        }
    }

    /// Runs `work` under the gate of the place of that name. The place is made if it is new, and removed if in the end
    /// the database does not exist according to `is_there`.
    pub fn at_gate<T>(
        &self,
        name: &str,
        is_there: impl Fn() -> bool,
        mut work: impl FnMut(&Place) -> Answer<T>,
    ) -> Answer<T> {
        loop {
            let place = self.place(name);
            let _gate = locked(&place.gate);
            // The request that held the gate before may have removed the place. Nobody would find a database that is
            // opened there.
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

    /// Returns the place of that name, and makes it if it is new.
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

    /// Makes a database available at `place`, whose gate the caller holds.
    pub fn install(&self, place: &Place, open: Open) -> Arc<Open> {
        let open = Arc::new(open);
        place.open.store(Some(Arc::clone(&open)));
        self.note_use(place);
        open
    }

    /// Returns every open database.
    pub fn all_open(&self) -> Vec<(String, Arc<Open>)> {
        let places = self.by_name.load();
        places.values().filter_map(|place| Some((place.name.to_string(), place.open()?))).collect()
    }

    /// Closes the least recently used databases until at most `count` are open. Databases in use stay open, and so do
    /// those that cannot be shipped at present.
    pub fn close_down_to(&self, count: usize) {
        let open = self.by_name.load().values().filter(|place| place.open.load().is_some()).count();
        self.close_some(open.saturating_sub(count), 0, Closing::Settled);
    }

    /// Closes at most `count` databases of those in `closing`, least recently used first. It skips those that a request
    /// is using or that were used within `idle_ticks` ticks. Returns how many were closed.
    pub fn close_some(&self, count: usize, idle_ticks: u64, closing: Closing) -> usize {
        let places = self.by_name.load_full();
        let now = self.uses.load(Ordering::Relaxed); // Relaxed: as in `note_use`.
        // Relaxed: see `note_use`.
        let is_idle = |place: &Place| place.used_at.load(Ordering::Relaxed) + idle_ticks <= now;
        let mut open: Vec<&Arc<Place>> =
            places.values().filter(|place| place.open.load().is_some() && is_idle(place)).collect();
        // Relaxed: see `note_use`.
        open.sort_by_key(|place| place.used_at.load(Ordering::Relaxed));
        let mut surplus = count;
        for place in open {
            if surplus == 0 {
                break;
            }
            // A thread that opens, closes or drops this database holds the gate, and may be waiting for the gate that
            // this caller holds.
            let Ok(_gate) = place.gate.try_lock() else { continue };
            if closing == Closing::Settled && place.open().is_some_and(|open| open.cannot_be_shipped()) {
                continue;
            }
            match place.close(Duration::ZERO) {
                Ok(true) => surplus -= 1,
                Ok(false) => {}
                Err(error) => tracing::error!(%error, database = %place.name, "closing a database failed"),
            }
        }
        count - surplus
    }

    /// Closes all databases at the end of the server, even after an error, and returns the first error.
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

    /// Returns the number of names that have a place.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.by_name.load().len()
    }
}

impl Place {
    /// Returns the database if it is open.
    pub fn open(&self) -> Option<Arc<Open>> {
        self.open.load_full()
    }

    /// Closes the database at this place if its users release it in time. The caller holds the gate. Until the close,
    /// requests find the database, because otherwise they would wait at the gate.
    pub fn close(&self, patience: Duration) -> Result<bool> {
        match self.take(patience) {
            None => Ok(false),
            Some(None) => Ok(true),
            Some(Some(open)) => open.close().map(|()| true),
        }
    }

    /// Takes the database from this place if its users release it in time: `None` if they do not, `Some(None)` if it is
    /// not open. The caller holds the gate.
    pub fn take(&self, patience: Duration) -> Option<Option<Arc<Open>>> {
        let begun = Instant::now();
        let is_used = |open: &Arc<Open>, own: usize| {
            Arc::strong_count(open) > own || Arc::strong_count(&open.own.writer) > 1
        };
        loop {
            let Some(open) = self.open.load_full() else { return Some(None) };
            // The count includes the place's handle and this one.
            let seems_used = is_used(&open, 2);
            drop(open);
            // The swap turns handles that were borrowed from the place into counted ones, so the count then includes
            // all users.
            if !seems_used && let Some(open) = self.open.swap(None) {
                if !is_used(&open, 1) {
                    return Some(Some(open));
                }
                self.open.store(Some(open));
            }
            if begun.elapsed() >= patience {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
