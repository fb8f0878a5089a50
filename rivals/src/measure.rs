//! A row of figures, and what the process used for it.

use crate::engine::{Durability, Outcome};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// One measured case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    pub engine: String,
    pub workload: String,
    pub case: String,
    pub durability: Durability,
    pub threads: usize,
    pub ops: u64,
    pub seconds: f64,
    /// Seconds until everything lay at rest, `seconds` included; for loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<u64>,
    /// Peak resident memory of the process so far; engines that map their files count mapped pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Bytes made dirty for the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Bytes that the files occupy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_bytes: Option<u64>,
    /// Bytes of the records that are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_bytes: Option<u64>,
}

impl Row {
    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.ops as f64 / self.seconds
    }
}

/// A stretch that is being measured.
pub struct Stretch {
    began: Instant,
    disk_bytes: Option<u64>,
}

impl Stretch {
    /// Starts.
    pub fn start() -> Self {
        let disk_bytes = field("/proc/self/io", "write_bytes:");
        Stretch { began: Instant::now(), disk_bytes }
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// The row of what was measured.
    pub fn row(&self, workload: &str, case: &str, threads: usize, ops: u64, seconds: f64) -> Row {
        Row {
            engine: String::new(),
            workload: workload.into(),
            case: case.into(),
            durability: Durability::Sync,
            threads,
            ops,
            seconds,
            settled_seconds: None,
            p50_ns: None,
            p999_ns: None,
            max_ns: None,
            peak_bytes: field("/proc/self/status", "VmHWM:").map(|kib| kib * 1024),
            disk_bytes: field("/proc/self/io", "write_bytes:")
                .zip(self.disk_bytes)
                .map(|(now, then)| now - then),
            space_bytes: None,
            live_bytes: None,
        }
    }
}

impl Row {
    /// With percentiles.
    pub fn latencies(mut self, histogram: &Histogram<u64>) -> Self {
        self.p50_ns = Some(histogram.value_at_quantile(0.5));
        self.p999_ns = Some(histogram.value_at_quantile(0.999));
        self.max_ns = Some(histogram.max());
        self
    }

    /// With the space that `dir` takes for `live_bytes`.
    pub fn space(mut self, dir: &Path, live_bytes: u64) -> Self {
        self.space_bytes = Some(occupied_bytes(dir));
        self.live_bytes = Some(live_bytes);
        self
    }
}

/// The number behind `label` at the start of a line of a file of `/proc`.
fn field(path: &str, label: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(label))?.split_whitespace().next()?.parse().ok()
}

/// Bytes on the disk, holes not counted.
fn occupied_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => occupied_bytes(&entry.path()),
            Ok(data) => data.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// An empty histogram of latencies from 1 ns to 10 minutes, to three digits.
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("the bounds are in order")
}

/// Runs `work` on threads that start together: the seconds from the first start to the last end, and all latencies.
pub fn together(
    threads: usize,
    work: impl Fn(usize, &mut Histogram<u64>) -> Outcome<()> + Sync,
) -> Outcome<(f64, Histogram<u64>)> {
    let barrier = Barrier::new(threads);
    let timed = |thread: usize| {
        let mut histogram = latencies();
        barrier.wait();
        let began = Instant::now();
        work(thread, &mut histogram).map(|()| (began, Instant::now(), histogram))
    };
    let ended: Vec<_> = thread::scope(|scope| {
        let timed = &timed;
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || timed(thread))).collect();
        handles.into_iter().map(|handle| handle.join().expect("a workload's thread panicked")).collect()
    });
    let ended = ended.into_iter().collect::<Outcome<Vec<_>>>()?;
    let first = ended.iter().map(|(began, ..)| *began).min().expect("there is a thread");
    let last = ended.iter().map(|(_, end, _)| *end).max().expect("there is a thread");
    let mut all = latencies();
    for (.., histogram) in &ended {
        all.add(histogram).expect("all have the same bounds");
    }
    Ok(((last - first).as_secs_f64(), all))
}
