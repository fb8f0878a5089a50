//! The server's log, whose reader no request waits for.
//!
//! 1. A line goes into a queue of at most 1 MiB (`MOST_BYTES`), and the request continues at once. A line that does not
//!    fit is dropped and counted.
//! 2. One thread takes lines out of the queue and writes them. It writes to a descriptor of its own, so that it holds
//!    no lock of the standard library while a pipe's reader stalls.
//! 3. A line that cannot be written because the disk is full or the pipe is closed is also dropped and counted. After
//!    the next line that can be written, the log adds a line with the number of dropped ones.
//! 4. [`Log::finish`] waits for the queue for a bounded time, so that a shutdown does not depend on the reader either.
//!
//! The number of dropped lines is `pando_log_dropped_lines_total` of `/metrics`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// The memory of lines that wait to be written: about 8,000 lines about requests.
const MOST_BYTES: usize = 1 << 20;
/// The approximate memory of a line in addition to its text.
const LINE_BYTES: usize = 48;
/// The pause before the next try if a non-blocking descriptor accepts nothing.
const PAUSE: Duration = Duration::from_millis(20);

/// The number of lines that were dropped, over all logs of this process.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Returns how many lines were dropped since the process started.
pub fn dropped_lines() -> u64 {
    // Relaxed: this is a counter, which orders nothing.
    DROPPED.load(Ordering::Relaxed)
}

fn drop_line() {
    // Relaxed: as above.
    DROPPED.fetch_add(1, Ordering::Relaxed);
}

/// A destination of log lines. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Log(Arc<Shared>);

/// A writer of lines. Each call of `write` writes one line, and never fails or waits.
#[derive(Debug)]
pub struct Line(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// Whether a line was taken out and is being written.
    is_writing: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn push(&self, line: &[u8]) {
        let mut state = self.state();
        let bytes = line.len() + LINE_BYTES;
        if state.bytes + bytes > MOST_BYTES {
            drop(state);
            return drop_line();
        }
        state.bytes += bytes;
        state.lines.push_back(line.into());
        self.changed.notify_all();
    }

    /// Waits for the next line and returns it.
    fn take(&self) -> Box<[u8]> {
        let mut state = self.state();
        state.is_writing = false;
        self.changed.notify_all();
        loop {
            if let Some(line) = state.lines.pop_front() {
                state.bytes -= line.len() + LINE_BYTES;
                state.is_writing = true;
                return line;
            }
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

impl Log {
    /// Creates a log and starts a thread that writes it to standard error.
    ///
    /// # Errors
    /// If there is no standard error, or if the thread cannot be started.
    pub fn to_stderr() -> io::Result<Self> {
        Log::to(File::from(io::stderr().as_fd().try_clone_to_owned()?))
    }

    fn to(mut out: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let mut reported = dropped_lines();
        let write = move || {
            loop {
                let line = own.take();
                if write_all(&mut out, &line).is_err() {
                    drop_line();
                    continue;
                }
                let dropped = dropped_lines();
                let missing = dropped - reported;
                if missing > 0 && write_all(&mut out, missing_lines(missing).as_bytes()).is_ok() {
                    reported = dropped;
                }
            }
        };
        thread::Builder::new().name("pando-log".to_owned()).spawn(write)?;
        Ok(Log(shared))
    }

    /// Returns a writer of the next line.
    pub fn line(&self) -> Line {
        Line(Arc::clone(&self.0))
    }

    /// Redirects panics to this log. A panic that is written to standard error directly would wait for its reader.
    pub fn take_panics(&self) {
        let log = self.clone();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = thread::current();
            let name = thread.name().unwrap_or("<unnamed>");
            let backtrace = std::backtrace::Backtrace::capture();
            let _ = log.line().write_all(format!("thread {name:?}: {panic}\n{backtrace}\n").as_bytes());
        }));
    }

    /// Waits until all lines are written, but no longer than `patience`.
    pub fn finish(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut state = self.0.state();
        while state.is_writing || !state.lines.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let woken = self.0.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }
}

fn missing_lines(count: u64) -> String {
    format!("{count} lines of the log were dropped, because they could not be written in time\n")
}

/// Writes a line, even if the descriptor is non-blocking.
fn write_all(out: &mut impl Write, mut line: &[u8]) -> io::Result<()> {
    while !line.is_empty() {
        match out.write(line) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => line = &line[bytes..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// An output that takes a line when the test asks for one, and returns it.
    struct Slow {
        may: Receiver<bool>,
        took: Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            if !self.may.recv().unwrap_or(false) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let _ = self.took.send(line.to_vec());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_nobody_takes_are_dropped_and_counted() {
        let ((go_on, may), (took, taken)) = (channel(), channel());
        let log = Log::to(Slow { may, took }).unwrap();
        let before = dropped_lines();
        let line = [b'x'; 1000];
        let begun = Instant::now();
        for _ in 0..5_000 {
            log.line().write_all(&line).unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "it took {:?}", begun.elapsed());
        let dropped = dropped_lines() - before;
        assert!((3_900..=4_000).contains(&dropped), "{dropped} were dropped");
        log.finish(Duration::from_millis(10));
        // The first cannot be written, the second can.
        go_on.send(false).unwrap();
        go_on.send(true).unwrap();
        assert_eq!(taken.recv().unwrap(), line);
        go_on.send(true).unwrap();
        assert_eq!(taken.recv().unwrap(), missing_lines(dropped + 1).as_bytes());
        drop(go_on);
        log.finish(Duration::from_secs(20));
        assert!(log.0.state().lines.is_empty());
    }
}
