//! Several writers import the files, one batch for each commit, while a verifier reads.
//!
//! A commit puts each file's content into [`FILES`] and, under the same path, its batch's number and its length into
//! [`INDEX`]. The two tables and the known number of files of a batch reveal a partially visible commit.

use super::source::{FILES, INDEX, Source, index_row};
use super::verify::{self, Tally};
use crate::failure::Outcome;
use crate::tree;
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use pando::{Database, Table};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The measurements of an import.
#[derive(Debug)]
pub struct Loaded {
    /// The time from the beginning of the first commit to the end of the last.
    pub elapsed: Duration,
    /// The latencies of the commits in microseconds: building and committing the transaction, without reading the
    /// files.
    pub latencies: Histogram<u64>,
    /// The comparisons that were made meanwhile.
    pub verified: Tally,
}

/// Imports `source`.
pub fn run(db: &Database, source: &Source, writers: usize) -> Outcome<Loaded> {
    let batches = source.batches().collect();
    let (files, index) = (db.ensure_table(FILES)?, db.ensure_table(INDEX)?);
    let bar = progress(source.bytes);
    let (next, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    let load = Load { db, files, index, batches, next, failed: AtomicBool::new(false), bar };
    let begun = Instant::now();
    let loaded = thread::scope(|scope| {
        let verifier = scope.spawn(|| verify_until(db, source, &done));
        let writers: Vec<_> = (0..writers).map(|_| scope.spawn(|| load.write_batches())).collect();
        let written: Vec<_> =
            writers.into_iter().map(|writer| writer.join().expect("it does not panic")).collect();
        let elapsed = begun.elapsed();
        done.store(true, Ordering::SeqCst);
        let verified = verifier.join().expect("it does not panic")?;
        let mut latencies = histogram();
        for histogram in written {
            latencies.add(&histogram?).expect("both have the same bounds");
        }
        Ok(Loaded { elapsed, latencies, verified })
    });
    load.bar.finish_and_clear();
    loaded
}

/// Creates a histogram of microseconds up to a minute, with three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are in order")
}

/// Returns a progress bar of bytes on standard error, if that is a terminal.
fn progress(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("  {bar:40} {bytes} of {total_bytes}, {bytes_per_sec}");
    ProgressBar::new(bytes).with_style(style.expect("the template is right"))
}

struct Load<'a> {
    db: &'a Database,
    files: Table,
    index: Table,
    batches: Vec<&'a [tree::Entry]>,
    /// The number of the next batch that no writer has taken.
    next: AtomicUsize,
    failed: AtomicBool,
    bar: ProgressBar,
}

impl Load<'_> {
    /// Takes batches until none are left or another writer failed.
    fn write_batches(&self) -> Outcome<Histogram<u64>> {
        let mut latencies = histogram();
        while !self.failed.load(Ordering::SeqCst) {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            let Some(batch) = self.batches.get(number) else { break };
            let written = self.write(number, batch);
            let latency = written.inspect_err(|_| self.failed.store(true, Ordering::SeqCst))?;
            latencies.saturating_record(latency.as_micros() as u64);
        }
        Ok(latencies)
    }

    fn write(&self, number: usize, batch: &[tree::Entry]) -> Outcome<Duration> {
        let contents = batch.iter().map(|file| tree::read(&file.path)).collect::<Outcome<Vec<_>>>()?;
        let begun = Instant::now();
        self.db.write(|tx| {
            batch.iter().zip(&contents).try_for_each(|(file, content)| {
                tx.put(&self.files, &file.key, content)?;
                tx.put(&self.index, &file.key, &index_row(number, content.len()))
            })
        })?;
        let latency = begun.elapsed();
        self.bar.inc(batch.iter().map(|file| file.bytes).sum());
        Ok(latency)
    }
}

/// Compares one snapshot after another until the writers are done.
fn verify_until(db: &Database, source: &Source, done: &AtomicBool) -> Outcome<Tally> {
    let mut tally = Tally::default();
    while !done.load(Ordering::SeqCst) {
        verify::sweep(db, source, false, &mut tally)?;
    }
    Ok(tally)
}
