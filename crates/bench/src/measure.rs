//! Measures time, memory, bytes and flushes of a piece of work.
//!
//! A [`Meter`] starts, and each lap returns the usage since the start. Reading the counters is not part of the time. On
//! systems without `/proc` there is only the time.

use crate::Outcome;
use hdrhistogram::Histogram;
use pando::Database;
use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// The usage of a piece of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// The wall time in seconds.
    pub seconds: f64,
    /// The processor time of all threads in seconds, including those of the database, in steps of 10 ms.
    pub cpu_seconds: Option<f64>,
    /// The resident memory at the start in bytes, including the workload's own keys.
    pub start_memory_bytes: Option<u64>,
    /// The peak of resident memory until the end, in bytes.
    pub peak_memory_bytes: Option<u64>,
    /// The bytes that were made dirty for the disk. A page that is rewritten before it is written back counts once.
    pub disk_bytes: Option<u64>,
    /// The bytes passed to `write` calls. Stores into a mapped log are not included.
    pub write_call_bytes: Option<u64>,
    /// The bytes appended to the database's log.
    pub log_bytes: Option<u64>,
    /// The number of flushes of the database's log.
    pub flushes: Option<u64>,
}

/// Measures the usage since [`Meter::start`].
#[derive(Debug)]
pub struct Meter<'a> {
    db: Option<&'a Database>,
    began: Instant,
    /// The time spent reading counters.
    paused: Duration,
    before: Counters,
    start_memory_bytes: Option<u64>,
}

/// The counters, which only grow.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    cpu_ticks: Option<u64>,
    disk_bytes: Option<u64>,
    write_call_bytes: Option<u64>,
    log_bytes: Option<u64>,
    flushes: Option<u64>,
}

impl<'a> Meter<'a> {
    /// Starts measuring. Flushes and log bytes are those of `db`, if there is one. The peak of the process's memory is
    /// reset.
    pub fn start(db: Option<&'a Database>) -> Outcome<Self> {
        // 5 resets the peak. Where that is refused, the peak is that of the process since its start.
        let _ = fs::write("/proc/self/clear_refs", "5");
        let before = Counters::now(db)?;
        let start_memory_bytes = status_bytes("VmRSS:");
        Ok(Meter { db, began: Instant::now(), paused: Duration::ZERO, before, start_memory_bytes })
    }

    /// Returns the usage since the start.
    pub fn lap(&mut self) -> Outcome<Usage> {
        let now = Instant::now();
        let elapsed = now - self.began - self.paused;
        let (before, after) = (self.before, Counters::now(self.db)?);
        let usage = Usage {
            seconds: elapsed.as_secs_f64(),
            cpu_seconds: grown(before.cpu_ticks, after.cpu_ticks)
                .map(|ticks| ticks as f64 / TICKS_PER_SECOND),
            start_memory_bytes: self.start_memory_bytes,
            peak_memory_bytes: status_bytes("VmHWM:"),
            disk_bytes: grown(before.disk_bytes, after.disk_bytes),
            write_call_bytes: grown(before.write_call_bytes, after.write_call_bytes),
            log_bytes: grown(before.log_bytes, after.log_bytes),
            flushes: grown(before.flushes, after.flushes),
        };
        self.paused += now.elapsed();
        Ok(usage)
    }
}

impl Counters {
    fn now(db: Option<&Database>) -> Outcome<Self> {
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let stats = db.map(Database::stats).transpose()?;
        Ok(Counters {
            cpu_ticks: cpu_ticks(&fs::read_to_string("/proc/self/stat").unwrap_or_default()),
            disk_bytes: field(&io, "write_bytes:"),
            write_call_bytes: field(&io, "wchar:"),
            log_bytes: stats.map(|stats| stats.log_appended_bytes),
            flushes: stats.map(|stats| stats.log_flushes),
        })
    }
}

fn grown(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

/// The unit that Linux reports to user programs, for any frequency of its own clock.
const TICKS_PER_SECOND: f64 = 100.0;

/// Returns user and system time of a process's `stat`: fields 14 and 15, counted from 1. The second field is the
/// program's name in parentheses, which may contain any character.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Returns the current resident memory in bytes; `None` without `/proc`.
pub fn resident_bytes() -> Option<u64> {
    status_bytes("VmRSS:")
}

/// Returns how long the calling thread was ready to run while other threads had the processors, in nanoseconds; `None`
/// if the kernel does not count it.
pub fn run_queue_wait() -> Option<u64> {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

/// Separates the time of an operation from the time for which its thread was ready to run. The kernel counts only the
/// latter's total, so it is read only after long operations; short ones are assumed to have no such wait.
#[derive(Debug)]
pub struct OwnTime {
    waited: Option<u64>,
    /// The total time for which the thread was ready to run, in nanoseconds.
    pub ready_ns: u64,
}

/// The duration in nanoseconds from which the kernel's count is read.
const ASK_NS: u64 = 50_000;

impl OwnTime {
    /// Starts for the calling thread.
    pub fn start() -> Self {
        OwnTime { waited: run_queue_wait(), ready_ns: 0 }
    }

    /// Returns the own time of an operation that took `took_ns` and has just ended.
    pub fn subtract_waits(&mut self, took_ns: u64) -> u64 {
        if took_ns < ASK_NS {
            return took_ns;
        }
        let now = run_queue_wait();
        let ready_ns = now.zip(self.waited).map_or(0, |(now, before)| now.saturating_sub(before));
        self.waited = now;
        self.ready_ns += ready_ns;
        took_ns.saturating_sub(ready_ns)
    }
}

/// Returns the number after `label` at the start of a line.
fn field(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_whitespace().next()?.parse().ok()
}

fn status_bytes(label: &str) -> Option<u64> {
    field(&fs::read_to_string("/proc/self/status").ok()?, label).map(|kib| kib * 1024)
}

/// Runs `work` on `threads` threads that start together. Returns the seconds from the first start to the last end, and
/// the result of each thread.
pub fn together<T: Send>(
    threads: usize,
    work: impl Fn(usize) -> Outcome<T> + Sync,
) -> Outcome<(f64, Vec<T>)> {
    let barrier = Barrier::new(threads);
    let timed = |thread: usize| {
        barrier.wait();
        let began = Instant::now();
        work(thread).map(|answer| (began, Instant::now(), answer))
    };
    let ended: Vec<_> = thread::scope(|scope| {
        let timed = &timed;
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || timed(thread))).collect();
        handles.into_iter().map(|handle| handle.join().expect("a workload's thread panicked")).collect()
    });
    let ended = ended.into_iter().collect::<Outcome<Vec<_>>>()?;
    let first = ended.iter().map(|(began, ..)| *began).min().expect("there is a thread");
    let last = ended.iter().map(|(_, end, _)| *end).max().expect("there is a thread");
    Ok(((last - first).as_secs_f64(), ended.into_iter().map(|(.., answer)| answer).collect()))
}

/// Creates an empty histogram of latencies from 1 ns to 10 minutes, with three digits.
pub fn latencies() -> Histogram<u64> {
    const LONGEST_NS: u64 = 600_000_000_000;
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are in order")
}

/// Keeps the processor busy for `time`.
pub fn spin(time: Duration) {
    if time.is_zero() {
        return;
    }
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_the_number_behind_its_label() {
        assert_eq!(field("VmPeak:\t  7 kB\nVmHWM:\t 12 kB\n", "VmHWM:"), Some(12));
        assert_eq!(field("cancelled_write_bytes: 3\nwrite_bytes: 5\n", "write_bytes:"), Some(5));
        assert_eq!(field("VmHWM:\n", "VmHWM:"), None);
    }

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "7 (a) b 3) R 1 7 7 0 -1 4194304 90 0 0 0 12 30 0 0 20 0 1 0 100 4096 1";
        assert_eq!(cpu_ticks(stat), Some(42));
        assert_eq!(cpu_ticks("7 (x) R 1"), None);
    }

    #[test]
    fn latencies_keep_three_digits() {
        let mut histogram = latencies();
        histogram.saturating_record(123_456_789);
        assert!(histogram.max().abs_diff(123_456_789) < 123_456);
    }

    #[test]
    fn laps_count_from_the_start() {
        let mut meter = Meter::start(None).unwrap();
        spin(Duration::from_millis(2));
        let first = meter.lap().unwrap();
        let second = meter.lap().unwrap();
        assert!(first.seconds >= 0.002 && second.seconds >= first.seconds);
        assert_eq!(first.flushes, None);
    }

    #[test]
    fn all_threads_answer() {
        let (seconds, mut answers) = together(3, Ok).unwrap();
        answers.sort_unstable();
        assert!(seconds >= 0.0);
        assert_eq!(answers, [0, 1, 2]);
    }
}
