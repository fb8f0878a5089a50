//! How long connections of either version of HTTP wait for their clients.

use std::time::Duration;

/// How often the timer of a connection fires within the time that the connection can be idle.
pub const LOOKS: u32 = 4;
/// How long a client whose connection is closed may take to receive the reason.
pub const LAST_WORDS: Duration = Duration::from_secs(2);
