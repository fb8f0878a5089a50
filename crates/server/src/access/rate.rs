//! A limit on the requests of a token in a second.
//!
//! The generic cell rate algorithm: one number holds the time at which the requests so far would be used up if they
//! came evenly. A request is refused if that time is more than [`BURST`] ahead. So a token that was not used may send
//! the requests of one second at once, and on average no more than its rate.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How far ahead of an even rate the requests of a token can be.
const BURST: Duration = Duration::from_secs(1);

/// The limit of one token, and how much of it is used.
#[derive(Debug)]
pub struct Rate {
    /// The time of one request at the rate, in nanoseconds.
    each_ns: u64,
    begun: Instant,
    /// When the requests so far are used up, in nanoseconds since `begun`.
    used_until_ns: AtomicU64,
}

impl Rate {
    /// Creates a limit of `per_second` requests, at least 1.
    pub fn new(per_second: u32) -> Self {
        let each_ns = 1_000_000_000 / u64::from(per_second.max(1));
        Rate { each_ns, begun: Instant::now(), used_until_ns: AtomicU64::new(0) }
    }

    /// Counts a request. Returns the time after which it could be accepted if it is one too many.
    #[inline]
    pub fn take(&self) -> Option<Duration> {
        self.take_at(self.begun.elapsed())
    }

    /// Counts a request at `now`, a time since the limit was created. Returns the time after which it could be accepted
    /// if it is one too many.
    fn take_at(&self, now: Duration) -> Option<Duration> {
        let now_ns = now.as_nanos() as u64;
        let latest_ns = now_ns + BURST.as_nanos() as u64;
        // Relaxed for all: the number stands by itself, and an exchange that lost a race tries again.
        let taken = self.used_until_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used_until_ns| {
            Some(used_until_ns.max(now_ns) + self.each_ns).filter(|next| *next <= latest_ns)
        });
        let full_ns = taken.err()?;
        Some(Duration::from_nanos((full_ns + self.each_ns).saturating_sub(latest_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_an_even_rate() {
        let rate = Rate::new(10);
        let at = |ms: u64| rate.take_at(Duration::from_millis(ms));
        for request in 0..10 {
            assert_eq!(at(0), None, "request {request} of the burst");
        }
        assert_eq!(at(0), Some(Duration::from_millis(100)));
        assert_eq!(at(99), Some(Duration::from_millis(1)));
        assert_eq!((at(100), at(100)), (None, Some(Duration::from_millis(100))));
        // In a minute it gets ten a second, and after a pause no more than a burst.
        let taken = (200..60_200).filter(|ms| at(*ms).is_none()).count();
        assert!((599..=601).contains(&taken), "{taken}");
        let taken = (0..100).filter(|_| at(600_000).is_none()).count();
        assert_eq!(taken, 10);
    }

    #[test]
    fn threads_share_a_rate() {
        let rate = Rate::new(100);
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        taken.fetch_add(u64::from(rate.take_at(Duration::ZERO).is_none()), Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(taken.into_inner(), 100);
    }
}
