//! Sleeping for less than a tenth of a millisecond.

use std::thread;
use std::time::Duration;

/// Sleeps for `time`, and on Linux for about 10 to 20 microseconds more.
///
/// Linux delays the end of a sleep by up to 50 microseconds, the *timer slack*, to wake several threads at once. During
/// the call this thread has no slack, and afterwards its former slack: three system calls.
///
/// ```
/// use std::time::{Duration, Instant};
/// let begun = Instant::now();
/// pando_io::precise_sleep(Duration::from_micros(100));
/// assert!(begun.elapsed() >= Duration::from_micros(100));
/// ```
pub fn precise_sleep(time: Duration) {
    #[cfg(target_os = "linux")]
    let _slack = slack::Least::begin();
    thread::sleep(time);
}

#[cfg(target_os = "linux")]
mod slack {
    use rustix::thread::{current_timer_slack, set_current_timer_slack};
    use std::num::NonZeroU64;

    /// A guard during which this thread has no timer slack. Where the system refuses, sleeps are a little longer, and
    /// no error is reported.
    pub(super) struct Least {
        before: Option<NonZeroU64>,
    }

    impl Least {
        pub(super) fn begin() -> Least {
            let before = current_timer_slack().ok().and_then(NonZeroU64::new);
            if before.is_some() {
                let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
            }
            Least { before }
        }
    }

    impl Drop for Least {
        fn drop(&mut self) {
            if self.before.is_some() {
                let _ = set_current_timer_slack(self.before);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_thread_has_its_own_slack_again() {
            let own = NonZeroU64::new(70_000).unwrap();
            set_current_timer_slack(Some(own)).unwrap();
            let least = Least::begin();
            assert_eq!(current_timer_slack(), Ok(1));
            drop(least);
            assert_eq!(current_timer_slack(), Ok(own.get()));
        }
    }
}
