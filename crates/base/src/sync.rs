//! The one door to locks and atomics. Under `--cfg loom` and `--cfg shuttle` the model checkers' own types stand
//! in, so that what is proved is the code that ships.

#[cfg(not(any(loom, shuttle)))]
use std::sync::TryLockError;
#[cfg(not(any(loom, shuttle)))]
pub use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, atomic};

#[cfg(loom)]
pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, atomic};

#[cfg(all(shuttle, not(loom)))]
pub use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, atomic};

/// Locks `mutex`. A holder that panicked left the data as it was between two statements; whoever must not go on
/// after that keeps a latch of its own, so poisoning is ignored here. Waiting for another holder is told to the
/// [hook](crate::waits).
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // To a model checker a failed try is one more state, and says nothing that a wait does not.
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

/// Locks `mutex`, and tells `waited` for how many nanoseconds if somebody else held it.
#[inline]
pub fn lock_timed<T>(mutex: &Mutex<T>, waited: impl FnOnce(u64)) -> MutexGuard<'_, T> {
    #[cfg(not(any(loom, shuttle)))]
    return match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            let watch = crate::seams::Stopwatch::start();
            let guard = lock(mutex);
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

/// Waits until `condvar` is notified, or for no reason, as condition variables do. For waits that hold up somebody's
/// operation: the [hook](crate::waits) hears of them. Poisoning is ignored as in [`lock`].
pub fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    #[cfg(not(any(loom, shuttle)))]
    return crate::waits::timed(|| condvar.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner()));
    #[cfg(any(loom, shuttle))]
    condvar.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Yields, or tells the model checker that this loop waits for another thread.
#[inline]
pub fn spin() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(all(shuttle, not(loom)))]
    shuttle::thread::yield_now();
    #[cfg(not(any(loom, shuttle)))]
    std::hint::spin_loop();
}

/// Follows a `SeqCst` store that a later `SeqCst` load must not overtake. Nothing, but under loom, which takes
/// `SeqCst` operations for acquire and release and knows the one order of all of them from fences alone.
#[inline]
pub fn loom_fence() {
    #[cfg(loom)]
    loom::sync::atomic::fence(atomic::Ordering::SeqCst);
}
