//! The latency of the disk for 4 KiB that are written over a file of fixed size and synced: the minimum for the
//! response to a `Sync` commit.

use crate::Outcome;
use crate::measure::latencies;
use hdrhistogram::Histogram;
use io::{Dir, File, OsDir, ShortTimeSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const BLOCK_BYTES: usize = 4096;
/// The number of blocks of the file, which are written in turn.
const BLOCKS: u64 = 500;
/// The interval at which a sync of [`Beside`] is due: long enough to leave the disk to others, and short enough for a
/// p99.
const EVERY: Duration = Duration::from_millis(4);

/// A file whose blocks are written and synced, one at a time.
struct Blocks {
    file: Arc<dyn File>,
    next: u64,
}

impl Blocks {
    fn create(dir: &Path, name: &str) -> Outcome<Self> {
        let file = OsDir::open(dir)?.create(name)?;
        file.write_at(&vec![0; BLOCKS as usize * BLOCK_BYTES], 0)?;
        file.sync()?;
        Ok(Blocks { file, next: 0 })
    }

    /// Writes the next block and syncs it.
    fn sync(&mut self) -> Outcome<()> {
        self.file.write_at(&[0xa5; BLOCK_BYTES], self.next * BLOCK_BYTES as u64)?;
        self.file.sync()?;
        self.next = (self.next + 1) % BLOCKS;
        Ok(())
    }
}

/// Adds to `taken` the latency of each block of a new file `name` in `dir`. The blocks are written without a pause.
pub fn time_syncs(dir: &Path, name: &str, taken: &mut Histogram<u64>) -> Outcome<()> {
    let mut blocks = Blocks::create(dir, name)?;
    (0..BLOCKS).try_for_each(|_| {
        let began = Instant::now();
        blocks.sync()?;
        note(taken, began);
        Ok(())
    })
}

fn note(taken: &mut Histogram<u64>, began: Instant) {
    taken.saturating_record(began.elapsed().as_nanos() as u64);
}

/// The latencies of syncs during other work.
#[derive(Debug)]
pub struct Syncs {
    /// The latency of each sync.
    pub taken: Histogram<u64>,
    /// The latency from the time when each was due, as requests are measured. A machine that stalls for 5 ms delays
    /// everything that is due meanwhile, and few syncs are in progress at such a moment.
    pub from_due: Histogram<u64>,
}

/// Makes syncs at an interval on a thread of its own, while something else is measured.
#[derive(Debug)]
pub struct Beside {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Outcome<Syncs>>,
}

impl Beside {
    /// Starts in a new file `name` in `dir`.
    pub fn start(dir: &Path, name: &str) -> Outcome<Self> {
        let mut blocks = Blocks::create(dir, name)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let work = move || {
            // The same time slice as that of the requests with which it is compared.
            let _slice = ShortTimeSlice::begin();
            let mut syncs = Syncs { taken: latencies(), from_due: latencies() };
            let mut due = Instant::now();
            loop {
                let began = Instant::now();
                blocks.sync()?;
                note(&mut syncs.taken, began);
                note(&mut syncs.from_due, due);
                if stopping.load(Ordering::SeqCst) {
                    return Ok(syncs);
                }
                due += EVERY;
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        };
        let thread = thread::Builder::new().name("raw-sync".to_owned()).spawn(work)?;
        Ok(Beside { stop, thread })
    }

    /// Ends and returns the latencies of the syncs.
    pub fn end(self) -> Outcome<Syncs> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("it does not panic")
    }
}
