//! How a database is shipped.

use std::time::Duration;

/// Options of shipping.
///
/// ```
/// use std::time::Duration;
/// let options = pando_ship::Options { interval: Duration::from_millis(200), ..Default::default() };
/// assert_eq!(options.segment_bytes, 1 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a commit waits for others before its segment is written. Default: 1 second. A shorter interval loses
    /// less when the machine is lost, and costs more requests.
    pub interval: Duration,
    /// A segment is written earlier when its changes have this many bytes. Default: 1 MiB; at most 32 MiB.
    pub segment_bytes: usize,
    /// Whether commits are written at once, those that wait for them together. Default: false.
    pub sync: bool,
    /// A new base is made when the log since the last one has this many times the base's bytes, and at least 16 MiB.
    /// Each segment counts as at least 16 KiB. Default: 4. A larger number uploads less, and restores take longer.
    pub base_multiple: u32,
    /// The number of newest bases that are kept. Default: 2; at least 1.
    pub keep_bases: usize,
    /// Every state of this last stretch of time stays reachable. Default: 7 days.
    pub keep_for: Duration,
    /// How long [`Shipper::stop`](crate::Shipper::stop) tries to ship what is left. Default: 10 seconds.
    pub stop_within: Duration,
}

/// The least log after which a new base is made.
pub(crate) const LEAST_LOG_BYTES: u64 = 16 << 20;
/// What a segment counts for in the log after which a new base is made, if it has fewer bytes. A restore reads each
/// segment by a request of its own, so that many small ones take longer than their bytes do.
pub(crate) const LEAST_COUNTED_BYTES: u64 = 16 << 10;
/// The longest that a segment's changes may become before it is written.
pub(crate) const MOST_SEGMENT_BYTES: usize = 32 << 20;

impl Default for Options {
    fn default() -> Self {
        Options {
            interval: Duration::from_secs(1),
            segment_bytes: 1 << 20,
            sync: false,
            base_multiple: 4,
            keep_bases: 2,
            keep_for: Duration::from_secs(7 * 24 * 3600),
            stop_within: Duration::from_secs(10),
        }
    }
}
