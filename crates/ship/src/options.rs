//! The options of shipping.

use std::time::Duration;

/// The options of shipping.
///
/// ```
/// use std::time::Duration;
/// let options = pando_ship::Options { interval: Duration::from_millis(200), ..Default::default() };
/// assert_eq!(options.segment_bytes, 1 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// The time that a commit waits for others before its segment is written. Default: 1 second. A short interval loses
    /// fewer commits if the machine is lost; a long one sends fewer requests.
    pub interval: Duration,
    /// The number of bytes of changes at which a segment is written before the interval has passed. Default: 1 MiB; at
    /// most 32 MiB.
    pub segment_bytes: usize,
    /// Whether a segment is written at once, with all commits that wait for it. Default: false.
    pub sync: bool,
    /// The length of the log at which a new base is made, as a multiple of the last base's bytes; at least 16 MiB. Each
    /// segment counts as at least 16 KiB. Default: 4. A large number uploads less; a small one makes restores faster.
    pub base_multiple: u32,
    /// The number of bases that are kept, the newest ones. Default: 2; at least 1.
    pub keep_bases: usize,
    /// The time for which every state stays restorable. Default: 7 days.
    pub keep_for: Duration,
    /// The time for which [`Shipper::stop`](crate::Shipper::stop) tries to ship the remaining commits. Default: 10
    /// seconds.
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
