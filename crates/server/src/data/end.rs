//! The end of a background thread.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// The end of a thread, which pauses meanwhile.
#[derive(Debug, Default)]
pub struct End {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl End {
    /// Returns whether the thread is to end. This cannot change until the guard is dropped.
    pub fn flag(&self) -> MutexGuard<'_, bool> {
        self.is_over.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns whether the thread is to end.
    pub fn is_over(&self) -> bool {
        *self.flag()
    }

    /// Sets whether the thread is to end. If it is, its pause ends.
    pub fn set(&self, is_over: bool) {
        *self.flag() = is_over;
        self.changed.notify_all();
    }

    /// Waits for `time`, or until the thread is to end.
    pub fn pause(&self, time: Duration) {
        drop(self.changed.wait_timeout_while(self.flag(), time, |is_over| !*is_over));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_pause_ends_with_its_thread() {
        let end = End::default();
        let begun = Instant::now();
        end.pause(Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20) && !end.is_over());
        std::thread::scope(|scope| {
            scope.spawn(|| end.pause(Duration::from_secs(600)));
            end.set(true);
        });
        assert!(begun.elapsed() < Duration::from_secs(300));
    }
}
