//! What the disk makes of 4 KiB written over a file that has its size, and synced: the least that an answer to a
//! `Sync` commit can take.

use crate::Outcome;
use crate::measure::latencies;
use hdrhistogram::Histogram;
use io::{Dir, File, OsDir};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const BLOCK_BYTES: usize = 4096;
/// Blocks of the file, which are written in turn.
const BLOCKS: u64 = 500;
/// How often [`Beside`] syncs: seldom enough to leave the disk to others, and often enough for a p99.
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

    /// Writes the next block, syncs, and notes what that took.
    fn sync(&mut self, taken: &mut Histogram<u64>) -> Outcome<()> {
        let began = Instant::now();
        self.file.write_at(&[0xa5; BLOCK_BYTES], self.next * BLOCK_BYTES as u64)?;
        self.file.sync()?;
        taken.saturating_record(began.elapsed().as_nanos() as u64);
        self.next = (self.next + 1) % BLOCKS;
        Ok(())
    }
}

/// Adds to `taken` what each block of a new file `name` in `dir` takes, one right after the other.
pub fn time_syncs(dir: &Path, name: &str, taken: &mut Histogram<u64>) -> Outcome<()> {
    let mut blocks = Blocks::create(dir, name)?;
    (0..BLOCKS).try_for_each(|_| blocks.sync(taken))
}

/// Syncs now and then, on a thread of its own, while something else is measured.
#[derive(Debug)]
pub struct Beside {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Outcome<Histogram<u64>>>,
}

impl Beside {
    /// Begins, in a new file `name` in `dir`.
    pub fn start(dir: &Path, name: &str) -> Outcome<Self> {
        let mut blocks = Blocks::create(dir, name)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let work = move || {
            let mut taken = latencies();
            loop {
                blocks.sync(&mut taken)?;
                if stopping.load(Ordering::SeqCst) {
                    return Ok(taken);
                }
                thread::sleep(EVERY);
            }
        };
        let thread = thread::Builder::new().name("raw-sync".to_owned()).spawn(work)?;
        Ok(Beside { stop, thread })
    }

    /// Ends, and answers what the syncs took.
    pub fn end(self) -> Outcome<Histogram<u64>> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("it does not panic")
    }
}
