//! What the disk makes of 4 KiB written over a file that has its size, and synced: the least that an answer to a
//! `Sync` commit can take.

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
/// Blocks of the file, which are written in turn.
const BLOCKS: u64 = 500;
/// How often a sync of [`Beside`] is due: seldom enough to leave the disk to others, and often enough for a p99.
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

    /// Writes the next block, and syncs.
    fn sync(&mut self) -> Outcome<()> {
        self.file.write_at(&[0xa5; BLOCK_BYTES], self.next * BLOCK_BYTES as u64)?;
        self.file.sync()?;
        self.next = (self.next + 1) % BLOCKS;
        Ok(())
    }
}

/// Adds to `taken` what each block of a new file `name` in `dir` takes, one right after the other.
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

/// What syncs beside something else took.
#[derive(Debug)]
pub struct Syncs {
    /// Each by itself.
    pub taken: Histogram<u64>,
    /// From when each was due, as requests are counted: a machine that stood still for 5 ms holds up whatever was due
    /// meanwhile, and few syncs are under way at such a moment.
    pub from_due: Histogram<u64>,
}

/// Syncs now and then, on a thread of its own, while something else is measured.
#[derive(Debug)]
pub struct Beside {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Outcome<Syncs>>,
}

impl Beside {
    /// Begins, in a new file `name` in `dir`.
    pub fn start(dir: &Path, name: &str) -> Outcome<Self> {
        let mut blocks = Blocks::create(dir, name)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let work = move || {
            // As the requests that it is compared with.
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

    /// Ends, and answers what the syncs took.
    pub fn end(self) -> Outcome<Syncs> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("it does not panic")
    }
}
