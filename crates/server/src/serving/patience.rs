//! How long connections of either version of HTTP wait for their clients.

use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval_at, sleep};

/// How often the timer of a connection fires within the time that the connection can be idle.
pub const LOOKS: u32 = 4;
/// How long a client whose connection is closed may take to receive the reason.
pub const LAST_WORDS: Duration = Duration::from_secs(2);

/// The timers of connections.
///
/// They are those of the event loop that accepts connections, and wake the tasks of the others. An event loop with
/// timers reads the clock once more each time it waits for sockets, and has the system arm a timer of its own. For a
/// worker that would be almost every request.
#[derive(Clone, Debug)]
pub struct Timers(Handle);

impl Timers {
    /// Uses the timers of this event loop. It must run for as long as connections do.
    pub fn new(accepting: Handle) -> Self {
        Timers(accepting)
    }

    /// Returns a timer that fires [`LOOKS`] times in the time of `patience`.
    pub fn looks(&self, patience: Duration) -> Interval {
        let between = patience / LOOKS;
        let _inside = self.0.enter();
        let mut look = interval_at(Instant::now() + between, between);
        // A machine that stood still does not make up for the looks that it has missed.
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look
    }

    /// Returns a timer that fires once, after `time`.
    pub fn sleep(&self, time: Duration) -> Sleep {
        let _inside = self.0.enter();
        sleep(time)
    }
}
