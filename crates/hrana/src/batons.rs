//! What clients hold between two of their requests, under batons.
//!
//! 1. A baton is a text that the server makes of random bytes. It is used once: taking what it stands for removes it,
//!    and the reply has a new one. So a client cannot run two requests of a stream at once, and a baton that others
//!    read later is worthless.
//! 2. A baton belongs to an owner, and is unknown to every other one.
//! 3. The number of places is bounded, whether what has one is kept or in use. If all are taken, the one that was not
//!    used for the longest time and has no transaction gives its place away.
//! 4. What was not used for the idle time is dropped, and so is what exceeds the longest lifetime.

use crate::failure::{Failure, Outcome};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The owner of a baton: a hash of who may use it, and for what.
pub type Owner = [u8; 32];

/// The longest lifetime, in idle times.
const LONGEST_IDLES: u32 = 20;

/// What is kept under batons.
pub struct Batons<T> {
    kept: Mutex<HashMap<String, Kept<T>>>,
    taken: Arc<AtomicUsize>,
    most: usize,
    idle: Duration,
}

struct Kept<T> {
    value: T,
    place: Place,
    owner: Owner,
    used: Instant,
    /// Whether its place can be given away.
    is_spare: bool,
}

/// One of the places. It is free again when it is dropped.
#[derive(Debug)]
pub struct Place {
    taken: Arc<AtomicUsize>,
    begun: Instant,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<T> fmt::Debug for Batons<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batons").field("places", &self.places()).finish_non_exhaustive()
    }
}

impl<T> Batons<T> {
    /// Allows `most` places; what is not used for `idle` is dropped.
    ///
    /// ```
    /// let batons = pando_hrana::Batons::new(8, std::time::Duration::from_secs(30));
    /// let (place, _) = batons.place()?;
    /// let baton = "random digits";
    /// batons.keep(baton, place, [0; 32], "a stream", false);
    /// assert!(batons.take(baton, &[1; 32]).is_err());
    /// assert_eq!(batons.take(baton, &[0; 32])?.1, "a stream");
    /// assert!(batons.take(baton, &[0; 32]).is_err());
    /// # Ok::<(), pando_hrana::Failure>(())
    /// ```
    pub fn new(most: usize, idle: Duration) -> Self {
        Batons { kept: Mutex::default(), taken: Arc::default(), most, idle }
    }

    /// Returns the number of places that are taken.
    pub fn places(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, Kept<T>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place. If that of another one was given away, it is returned, too: drop it where waiting is allowed.
    ///
    /// # Errors
    /// `STREAM_LIMIT` if all places are taken, and each is in use or has a transaction.
    pub fn place(&self) -> Outcome<(Place, Option<T>)> {
        let free = |taken| if taken < self.most { Some(taken + 1) } else { None };
        if self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, free).is_ok() {
            return Ok((Place { taken: Arc::clone(&self.taken), begun: Instant::now() }, None));
        }
        let mut kept = self.kept();
        let spare = kept.iter().filter(|(_, kept)| kept.is_spare);
        let oldest = spare.min_by_key(|(_, kept)| kept.used).map(|(baton, _)| baton.clone());
        let Some(given) = oldest.and_then(|baton| kept.remove(&baton)) else {
            return Err(Failure::new(
                "STREAM_LIMIT",
                format!(
                    "the limit of {} open streams is reached (--max-transactions): close some, or try \
                     again in a moment",
                    self.most
                ),
            ));
        };
        let mut place = given.place;
        place.begun = Instant::now();
        Ok((place, Some(given.value)))
    }

    /// Keeps `value` for `owner` until it is taken. With `is_spare`, it has no transaction. `baton` must be new, and
    /// hold at least 16 bytes that nobody can guess.
    pub fn keep(&self, baton: &str, place: Place, owner: Owner, value: T, is_spare: bool) {
        let kept = Kept { value, place, owner, used: Instant::now(), is_spare };
        self.kept().insert(baton.to_owned(), kept);
    }

    /// Takes what is kept under `baton`, which is then unknown.
    ///
    /// # Errors
    /// `STREAM_EXPIRED` if there is no such baton of this owner.
    pub fn take(&self, baton: &str, owner: &Owner) -> Outcome<(Place, T)> {
        let mut kept = self.kept();
        let is_own = kept.get(baton).is_some_and(|kept| kept.owner == *owner);
        match is_own.then(|| kept.remove(baton)).flatten() {
            Some(found) => Ok((found.place, found.value)),
            None => Err(Failure::new(
                "STREAM_EXPIRED",
                "there is no stream with this baton: the baton was used before, or the stream was closed \
                 because it was idle for too long, and its transaction was rolled back; begin again",
            )),
        }
    }

    /// Removes what was unused for too long, or lived for too long, and returns it: drop it where waiting is allowed.
    pub fn expired(&self) -> Vec<T> {
        let now = Instant::now();
        let is_over = |kept: &Kept<T>| {
            now.duration_since(kept.used) >= self.idle
                || now.duration_since(kept.place.begun) >= self.idle * LONGEST_IDLES
        };
        let mut kept = self.kept();
        kept.extract_if(|_, kept| is_over(kept)).map(|(_, kept)| kept.value).collect()
    }

    /// Removes everything.
    pub fn clear(&self) {
        let kept = std::mem::take(&mut *self.kept());
        drop(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = [1; 32];

    fn keep(batons: &Batons<u32>, value: u32, is_spare: bool) -> String {
        let (place, _) = batons.place().unwrap();
        let baton = format!("baton {value}");
        batons.keep(&baton, place, OWNER, value, is_spare);
        baton
    }

    #[test]
    fn a_baton_is_used_once_and_only_by_its_owner() {
        let batons = Batons::new(2, Duration::from_secs(60));
        let baton = keep(&batons, 7, false);
        assert_eq!(batons.take(&baton, &[2; 32]).unwrap_err().code(), "STREAM_EXPIRED");
        // An attempt of somebody else does not take it away.
        let (place, value) = batons.take(&baton, &OWNER).unwrap();
        assert_eq!((value, batons.places()), (7, 1));
        assert!(batons.take(&baton, &OWNER).is_err());
        drop(place);
        assert_eq!(batons.places(), 0);
    }

    #[test]
    fn places_are_bounded_and_spare_ones_are_given_away() {
        let batons = Batons::new(3, Duration::from_secs(60));
        let busy = keep(&batons, 0, false);
        let oldest = keep(&batons, 1, true);
        let newer = keep(&batons, 2, true);
        let (place, given) = batons.place().unwrap();
        assert_eq!((given, batons.places()), (Some(1), 3));
        assert!(batons.take(&oldest, &OWNER).is_err());
        let (in_use, _) = batons.take(&newer, &OWNER).unwrap();
        assert_eq!(batons.place().unwrap_err().code(), "STREAM_LIMIT");
        drop(in_use);
        batons.place().unwrap();
        drop(place);
        batons.take(&busy, &OWNER).unwrap();
        assert_eq!(batons.places(), 0);
    }

    #[test]
    fn what_is_idle_expires() {
        let batons = Batons::new(3, Duration::from_millis(20));
        keep(&batons, 1, false);
        assert!(batons.expired().is_empty());
        std::thread::sleep(Duration::from_millis(30));
        let late = keep(&batons, 2, false);
        assert_eq!((batons.expired(), batons.places()), (vec![1], 1));
        batons.clear();
        assert!(batons.take(&late, &OWNER).is_err());
        assert_eq!(batons.places(), 0);
    }
}
