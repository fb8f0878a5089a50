//! Many tasks on one thread of tokio, each of which reads a record and commits it durably, beside 64 threads that do
//! the same with the blocking calls. Meanwhile a task that only sleeps measures how late it is.
//!
//! Run it with `cargo run --release -p pando-db --features aio --example async_commits`, and after `--` with `--tasks
//! N` and `--seconds N`, the length of each of the three parts.
//!
//! The parts: *tasks*, *threads*, and a *control* without a database: tasks that append as many bytes to a buffer,
//! which one thread writes to a file and syncs for all of them. In every part a thread that only sleeps runs beside the
//! task that does: it shows how late sleepers are because of the machine alone. `scripts/loop-calls` counts what the
//! one thread of tokio asks of the system in the parts with tasks.

use pando::Table;
use pando::aio::Database;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

const KEYS: u64 = 100_000;
const VALUE_BYTES: usize = 100;
const THREADS: u64 = 64;
/// The period of the sleeper.
const TICK: Duration = Duration::from_millis(2);

/// What a run is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The number of tasks that read and commit.
    pub tasks: u64,
    /// The length of each part.
    pub part: Duration,
}

/// What the workers share.
struct Count {
    stop: AtomicBool,
    commits: AtomicU64,
    /// Counts the tasks of the control that live.
    tasks: Arc<()>,
}

impl Count {
    fn start() -> Arc<Self> {
        Arc::new(Count { stop: AtomicBool::new(false), commits: AtomicU64::new(0), tasks: Arc::default() })
    }

    /// Counts one round. Returns whether another one is wanted.
    fn next(&self) -> bool {
        self.commits.fetch_add(1, Ordering::Relaxed); // Relaxed: a tally, which orders nothing.
        !self.stop.load(Ordering::SeqCst)
    }
}

/// The result of a part with tasks.
#[derive(Debug)]
struct Part {
    per_s: f64,
    /// How late the task that sleeps was, each time.
    task_late: Vec<Duration>,
    /// How late the thread that sleeps was.
    thread_late: Vec<Duration>,
}

impl Part {
    fn worst(&self) -> Duration {
        self.task_late.iter().copied().max().unwrap_or_default()
    }

    fn print(&self, what: &str) {
        println!("{what}: {:.0}/s", self.per_s);
        for (who, late) in [("task", &self.task_late), ("thread", &self.thread_late)] {
            let mut sorted = late.clone();
            sorted.sort_unstable();
            let ms = |at: f64| sorted[(at * (sorted.len() - 1) as f64) as usize].as_secs_f64() * 1e3;
            let over = late.iter().filter(|late| **late > Duration::from_millis(5)).count();
            println!(
                "    a {who} that sleeps is late by {:.2} ms (median), {:.2} ms (99 %), {:.2} ms (at most); \
                 {over} of {} times by more than 5 ms",
                ms(0.5),
                ms(0.99),
                ms(1.0),
                late.len()
            );
        }
    }
}

/// The keys that worker `n` reads and writes, one after the other: spread over the table, and no other worker's.
fn key(n: u64, workers: u64, round: u64) -> [u8; 8] {
    let own = (KEYS / workers).max(1);
    (n * own + round.wrapping_mul(7919) % own).to_be_bytes()
}

/// Shows `scripts/loop-calls` where a part begins, and which thread is the loop's; an empty name ends the part.
fn phase(name: &str) {
    let _ = std::fs::exists(format!("/phase:{name}"));
}

/// Sleeps and wakes until `count` stops. Returns how late each wake-up was.
async fn tick(count: Arc<Count>, name: &str) -> Vec<Duration> {
    let mut late = Vec::new();
    phase(name);
    while !count.stop.load(Ordering::SeqCst) {
        let due = tokio::time::Instant::now() + TICK;
        tokio::time::sleep_until(due).await;
        late.push(due.elapsed());
    }
    phase("");
    late
}

/// Does the same in a thread.
fn tick_in_thread(count: &Count) -> Vec<Duration> {
    let mut late = Vec::new();
    while !count.stop.load(Ordering::SeqCst) {
        let due = Instant::now() + TICK;
        thread::sleep(TICK);
        late.push(due.elapsed());
    }
    late
}

/// Runs `tasks` copies of `task` on one thread of tokio for the time asked.
fn run<F: Future<Output = pando::Result<()>> + Send + 'static>(
    name: &'static str,
    asked: Asked,
    task: impl Fn(u64, Arc<Count>) -> F + Send + 'static,
) -> pando::Result<Part> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build();
    let runtime = runtime.expect("a runtime needs a thread");
    let count = Count::start();
    runtime.block_on(async {
        // Starting the tasks is not what is measured, and takes the one thread for milliseconds.
        let tasks: Vec<_> = (0..asked.tasks).map(|n| tokio::spawn(task(n, Arc::clone(&count)))).collect();
        tokio::time::sleep(asked.part / 4).await;
        let ticks = tokio::spawn(tick(Arc::clone(&count), name));
        let beside = Arc::clone(&count);
        let in_thread = thread::spawn(move || tick_in_thread(&beside));
        let (begun, before) = (Instant::now(), count.commits.load(Ordering::SeqCst));
        tokio::time::sleep(asked.part).await;
        let commits = count.commits.load(Ordering::SeqCst) - before;
        let per_s = commits as f64 / begun.elapsed().as_secs_f64();
        count.stop.store(true, Ordering::SeqCst);
        let task_late = ticks.await.expect("the sleeper does not panic");
        let thread_late = in_thread.join().expect("nor does this one");
        for task in tasks {
            task.await.expect("no task panics")?;
        }
        Ok(Part { per_s, task_late, thread_late })
    })
}

/// One task: reads a record and commits it, again and again.
async fn commit(db: Database, table: Table, n: u64, workers: u64, count: Arc<Count>) -> pando::Result<()> {
    let mut round = 0;
    loop {
        let key = key(n, workers, round);
        let table = &table;
        db.transact(|mut tx| async move {
            let mut value = tx.get(table, key).await?.unwrap_or_else(|| vec![0; VALUE_BYTES]);
            value[0] = value[0].wrapping_add(1);
            tx.put(table, key, &value).await
        })
        .await?;
        round += 1;
        if !count.next() {
            return Ok(());
        }
    }
}

/// The control: a buffer that one thread writes and syncs for all tasks.
#[derive(Default)]
struct Bare {
    waiting: Mutex<(Vec<u8>, Vec<oneshot::Sender<()>>)>,
}

impl Bare {
    /// Writes and syncs what there is, until all tasks have ended.
    fn run(&self, mut file: File, count: &Count) -> std::io::Result<()> {
        loop {
            let (bytes, waiting) = std::mem::take(&mut *self.waiting.lock().expect("nothing panics here"));
            if waiting.is_empty() {
                if count.stop.load(Ordering::SeqCst) && Arc::strong_count(&count.tasks) == 1 {
                    return Ok(());
                }
                thread::sleep(Duration::from_micros(20));
                continue;
            }
            // Like a log whose space is prepared: the same place again.
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&bytes)?;
            file.sync_data()?;
            waiting.into_iter().for_each(|task| task.send(()).expect("its task waits"));
        }
    }
}

/// One task of the control.
async fn append(bare: Arc<Bare>, count: Arc<Count>) -> pando::Result<()> {
    let _lives = Arc::clone(&count.tasks);
    loop {
        let (sender, receiver) = oneshot::channel();
        {
            let mut waiting = bare.waiting.lock().expect("nothing panics here");
            waiting.0.extend_from_slice(&[7; VALUE_BYTES]);
            waiting.1.push(sender);
        }
        receiver.await.expect("the thread lives longer");
        if !count.next() {
            return Ok(());
        }
    }
}

/// The same with one thread for each worker.
fn with_threads(db: &pando::Database, table: &Table, asked: Asked) -> pando::Result<f64> {
    let count = Count::start();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|n| {
                let count = Arc::clone(&count);
                scope.spawn(move || {
                    let mut round = 0;
                    loop {
                        let key = key(n, THREADS, round);
                        db.write(|tx| {
                            let mut value = tx.get(table, key)?.unwrap_or_else(|| vec![0; VALUE_BYTES]);
                            value[0] = value[0].wrapping_add(1);
                            tx.put(table, key, &value)
                        })?;
                        round += 1;
                        if !count.next() {
                            return pando::Result::Ok(());
                        }
                    }
                })
            })
            .collect();
        thread::sleep(asked.part / 4);
        let (begun, before) = (Instant::now(), count.commits.load(Ordering::SeqCst));
        thread::sleep(asked.part);
        let commits = count.commits.load(Ordering::SeqCst) - before;
        let per_s = commits as f64 / begun.elapsed().as_secs_f64();
        count.stop.store(true, Ordering::SeqCst);
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))?;
        Ok(per_s)
    })
}

/// Runs the three parts in `dir`, and prints and returns the worst lateness and the ratio of the throughputs.
pub fn measure(dir: &Path, asked: Asked) -> pando::Result<(Duration, f64)> {
    let db = pando::Database::create(dir)?;
    let table = db.ensure_table("records")?;
    db.bulk_load(&table, (0..KEYS).map(|n| Ok((n.to_be_bytes(), [0; VALUE_BYTES]))))?;
    db.checkpoint()?;
    let shared = Database::new(db.clone())?;

    let of_tasks = {
        let (shared, table) = (shared.clone(), table.clone());
        run("commits", asked, move |n, count| commit(shared.clone(), table.clone(), n, asked.tasks, count))?
    };
    let flushed = db.stats()?.log_flushes;
    let of_threads = with_threads(&db, &table, asked)?;
    let flushes = db.stats()?.log_flushes - flushed;
    let control = control(dir, asked)?;

    let ratio = of_tasks.per_s / of_threads;
    control.print(&format!("control, {} tasks on one thread that share the flush of a file", asked.tasks));
    of_tasks.print(&format!("get and durable commit, {} tasks on one thread", asked.tasks));
    println!("get and durable commit, {THREADS} threads: {of_threads:.0}/s, {flushes} flushes");
    println!("tasks / threads: {ratio:.2}");
    let check = db.check()?;
    assert!(check.records >= KEYS, "{check:?}");
    Ok((of_tasks.worst(), ratio))
}

/// Runs the control.
fn control(dir: &Path, asked: Asked) -> pando::Result<Part> {
    let bare = Arc::new(Bare::default());
    let mut file = File::create(dir.join("control")).expect("the directory can be written");
    file.write_all(&vec![0; 4 << 20]).and_then(|()| file.sync_all()).expect("the disk has room");
    let (writer, shared) = (Arc::clone(&bare), Arc::new(OnceLock::<Arc<Count>>::new()));
    let counted = Arc::clone(&shared);
    let thread = thread::spawn(move || writer.run(file, counted.wait()));
    let part = run("control", asked, move |_, count| {
        shared.get_or_init(|| Arc::clone(&count));
        append(Arc::clone(&bare), count)
    })?;
    thread.join().expect("the writer does not panic").expect("the file can be written");
    Ok(part)
}

fn argument(name: &str) -> Option<u64> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments
        .nth(1)
        .map(|value| value.parse().unwrap_or_else(|_| panic!("{name} takes a number, not {value}")))
}

fn main() -> pando::Result<()> {
    let tasks = argument("--tasks").unwrap_or(10_000);
    let part = Duration::from_secs(argument("--seconds").unwrap_or(5));
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    measure(dir.path(), Asked { tasks, part }).map(drop)
}
