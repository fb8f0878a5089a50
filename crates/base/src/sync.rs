//! The one import of locks and atomics. Under `--cfg loom` and `--cfg shuttle` it exports the types of the model
//! checkers, so that they check the code that ships.

#[cfg(not(any(loom, shuttle)))]
use std::sync::TryLockError;
#[cfg(not(any(loom, shuttle)))]
pub use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, atomic};

#[cfg(loom)]
pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, atomic};

#[cfg(all(shuttle, not(loom)))]
pub use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, atomic};

/// Locks `mutex`. A holder that panicked left the data as it was between two statements, so poisoning is ignored; a
/// caller that must not continue after a panic keeps a latch of its own. The [hook](crate::waits) hears of a wait for
/// another holder.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // For a model checker a failed try is one more state, and shows nothing that a wait does not show.
    #[cfg(not(any(loom, shuttle)))]
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            crate::waits::timed(|| mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
        }
    }
    #[cfg(any(loom, shuttle))]
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Locks `mutex` unless another thread holds it. Poisoning is ignored as in [`lock`].
#[cfg(not(any(loom, shuttle)))]
#[inline]
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Locks `mutex`. If another thread held it, calls `waited` with the nanoseconds of the wait. Use it for a lock that is
/// held for microseconds and taken often: a waiter spins for a tenth of a millisecond before it sleeps.
#[inline]
pub fn lock_timed<T>(mutex: &Mutex<T>, waited: impl FnOnce(u64)) -> MutexGuard<'_, T> {
    #[cfg(not(any(loom, shuttle)))]
    return match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            let watch = crate::env::Stopwatch::start();
            let guard = crate::waits::timed(|| lock_awake(mutex, &watch));
            waited(watch.elapsed_ns());
            guard
        }
    };
    #[cfg(any(loom, shuttle))]
    {
        let _ = waited;
        lock(mutex)
    }
}

/// How long a waiter spins before it sleeps: as long as sleeping costs. A wake-up takes 5 us of the thread that
/// releases the lock, and up to 50 us until the sleeper runs, most of all on a virtual machine. Schedulers also place a
/// woken thread after the thread that woke it, even if another processor is free. The mutex itself spins for some 5 us,
/// which is less than it takes to commit a hundred rows: with it, eight unsynced writers on two processors were idle
/// for a quarter of their time, and committed less than two writers did. `yield` is not used, because it gives up a
/// slice of milliseconds where other programs want the processor.
#[cfg(not(any(loom, shuttle)))]
const AWAKE_NS: u64 = 100_000;

/// The largest number of pauses between two looks, about a microsecond: a look takes the lock's cache line from its
/// holder.
#[cfg(not(any(loom, shuttle)))]
const MOST_PAUSES: u32 = 32;

/// Locks `mutex`, for which the caller has waited since `watch` was started. Spins before it sleeps.
#[cfg(not(any(loom, shuttle)))]
fn lock_awake<'a, T>(mutex: &'a Mutex<T>, watch: &crate::env::Stopwatch) -> MutexGuard<'a, T> {
    let mut pauses = 4;
    while watch.elapsed_ns() < AWAKE_NS {
        (0..pauses).for_each(|_| std::hint::spin_loop());
        pauses = (pauses * 2).min(MOST_PAUSES);
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
    }
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits until `condvar` is notified, or until a spurious wake-up. Use it for waits that delay an operation: the
/// [hook](crate::waits) is called for them. Poisoning is ignored as in [`lock`].
pub fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    #[cfg(not(any(loom, shuttle)))]
    return crate::waits::timed(|| condvar.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner()));
    #[cfg(any(loom, shuttle))]
    condvar.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits until `condvar` is notified, until `limit` has passed, or until a spurious wake-up. The [hook](crate::waits)
/// is called for the wait, and poisoning is ignored as in [`lock`].
#[cfg(not(any(loom, shuttle)))]
pub fn wait_at_most<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    limit: std::time::Duration,
) -> MutexGuard<'a, T> {
    let wait = || condvar.wait_timeout(guard, limit).unwrap_or_else(|poisoned| poisoned.into_inner());
    crate::waits::timed(wait).0
}

/// Yields, or informs the model checker that this loop waits for another thread.
#[inline]
pub fn spin() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(all(shuttle, not(loom)))]
    shuttle::thread::yield_now();
    #[cfg(not(any(loom, shuttle)))]
    std::hint::spin_loop();
}

/// Follows a `SeqCst` store that a later `SeqCst` load must not overtake. It does nothing except under loom, which
/// treats `SeqCst` operations as acquire and release, and knows the total order of all of them from fences alone.
#[inline]
pub fn loom_fence() {
    #[cfg(loom)]
    loom::sync::atomic::fence(atomic::Ordering::SeqCst);
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Returns how long a waiter waited, as reported to it, for a lock that stays held for `held_for`.
    fn reported(held_for: Duration) -> Option<u64> {
        let (mutex, mut reported) = (Mutex::new(()), None);
        std::thread::scope(|scope| {
            let held = lock(&mutex);
            let waiter = scope.spawn(|| drop(lock_timed(&mutex, |ns| reported = Some(ns))));
            std::thread::sleep(held_for);
            drop(held);
            waiter.join().unwrap();
        });
        reported
    }

    #[test]
    fn waiters_get_the_lock_awake_and_asleep_and_learn_how_long() {
        let shortly = Duration::from_micros(AWAKE_NS / 1000);
        assert!((0..1000).any(|_| reported(shortly).is_some()), "held no longer than somebody stays awake");
        let asleep = (0..100).filter_map(|_| reported(Duration::from_millis(5))).any(|ns| ns > 10 * AWAKE_NS);
        assert!(asleep, "held for longer than anybody stays awake");
        let mut reported = None;
        drop(lock_timed(&Mutex::new(()), |ns| reported = Some(ns)));
        assert_eq!(reported, None, "nobody held it");
    }

    #[test]
    fn many_waiters_all_get_their_turns() {
        let count = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1000).for_each(|_| *lock_timed(&count, |_| ()) += 1));
            }
        });
        assert_eq!(*lock(&count), 8000);
    }
}
