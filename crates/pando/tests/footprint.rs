//! What a database costs when little happens in it, and what memory it takes when much does.
//!
//! This is a program of its own, as its allocator counts all memory of the process. What a whole process has is read
//! from `/proc` of a child that does one thing: the test starts itself again with `PANDO_FOOTPRINT` naming it.

use pando::{Builder, Database, Expiry, Result, TableOptions};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Counts the bytes that are allocated, over all threads.
struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it is; the counters change nothing about it.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the contract is `GlobalAlloc`'s and is handed on to the system's allocator.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE_BYTES.fetch_add(layout.size(), Ordering::SeqCst) + layout.size();
        PEAK_BYTES.fetch_max(live, Ordering::SeqCst);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as above.
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::SeqCst);
        // SAFETY: the caller keeps the promises of `dealloc`, and `ptr` came from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn live_bytes() -> usize {
    LIVE_BYTES.load(Ordering::SeqCst)
}

/// The counters and the clock are everybody's: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn bytes_in(dir: &Path) -> u64 {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

fn fill(db: &Database, table: &str, records: u64, value_bytes: usize) -> Result<()> {
    let table = db.ensure_table(table)?;
    let value = vec![0x5a; value_bytes];
    for first in (0..records).step_by(100) {
        let keys = first..(first + 100).min(records);
        db.write(|tx| keys.clone().try_for_each(|key| tx.put(&table, &key.to_be_bytes(), &value)))?;
    }
    Ok(())
}

#[test]
fn an_empty_database_is_small_with_every_page_size() -> Result<()> {
    let _alone = alone();
    for page_bytes in [4096, 16384, 65536] {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::builder().page_bytes(page_bytes).create(dir.path())?;
        let open = bytes_in(dir.path());
        db.close()?;
        let closed = bytes_in(dir.path());
        println!("an empty database with pages of {page_bytes}: {open} bytes open, {closed} closed");
        assert!(open.max(closed) <= 64 << 10);
    }
    Ok(())
}

/// The log's files and their lengths.
fn log_files(dir: &Path) -> Vec<(String, u64)> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let files = files.map(|file| (file.file_name().into_string().unwrap(), file.metadata().unwrap().len()));
    let mut files: Vec<_> = files.filter(|(name, _)| name.starts_with("log-")).collect();
    files.sort();
    files
}

/// Three syncs would go into making one. It fills less than half of what is ready: else the next one would be made.
#[test]
fn a_commit_longer_than_the_segment_finds_one_ready() -> Result<()> {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let db = Database::create(dir.path())?;
    let table = db.ensure_table("t")?;
    let mut tx = db.begin()?;
    for i in 0..25u64 {
        tx.put(&table, &key_of(i), &[1; 1000])?;
    }
    let patience = Instant::now() + Duration::from_secs(60);
    while log_files(dir.path()).iter().all(|&(_, bytes)| bytes < 64 << 10) {
        assert!(Instant::now() < patience, "no segment was made ready: {:?}", log_files(dir.path()));
        std::thread::sleep(Duration::from_millis(1));
    }
    let names = || log_files(dir.path()).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let before = names();
    tx.commit()?;
    assert_eq!(names(), before);
    db.close()
}

/// The processor's time of this process, all threads together. Syncs, and other processes, take none.
fn worked() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a place for the answer.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The bytes of this process that are resident, without its own code and libraries, of which a build without
/// optimization has more than a database has of data; 0 where there is no `smaps`. Counted page by page, where the sums
/// in `status` lag behind by up to 32 pages a processor.
fn resident_bytes(dir: &Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let mut is_data = false;
    let mut kib = 0;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.nth(4)) {
            (Some("Rss:"), _) if is_data => kib += number(line, "Rss:"),
            (Some(range), path) if range.contains('-') => {
                is_data = path.is_none_or(|path| !path.starts_with('/') || Path::new(path).starts_with(dir));
            }
            _ => {}
        }
    }
    kib << 10
}

/// What it takes to open what is in `dir`, the median of many times, which a child measures, and by how much the
/// memory at the first time grew, with what the heap had given back by its end.
fn cost_of_opening(dir: &Path) -> Result<()> {
    PEAK_BYTES.store(live_bytes(), Ordering::SeqCst);
    let before = resident_bytes(dir);
    let db = Database::open(dir)?;
    let given_back = PEAK_BYTES.load(Ordering::SeqCst).saturating_sub(live_bytes());
    let grown = resident_bytes(dir).saturating_sub(before) + given_back;
    db.close()?;
    let mut times = Vec::new();
    for _ in 0..51 {
        let before = worked();
        let db = Database::open(dir)?;
        times.push(worked() - before);
        db.close()?;
    }
    times.sort();
    println!("ns {} grown {grown}", times[times.len() / 2].as_nanos());
    Ok(())
}

#[test]
fn opening_what_was_closed_is_quick_and_small() -> Result<()> {
    if let Some(("opening", dir)) = child_task() {
        return cost_of_opening(&dir);
    }
    let _alone = alone();
    // The longest log that this leaves is what it would have to replay.
    for (what, records, value_bytes, checkpoint) in [
        ("empty", 0, 0, false),
        ("10,000 records, checkpointed", 10_000, 100, true),
        ("1,000 records in the log", 1000, 100, false),
        ("10 MB in the log, then a checkpoint", 10_000, 1000, true),
        ("10 MB in the log", 10_000, 1000, false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::builder().durability(pando::Durability::Buffered).create(dir.path())?;
        fill(&db, "t", records, value_bytes)?;
        if checkpoint {
            db.checkpoint()?;
        }
        db.close()?;
        let text = run_child("opening_what_was_closed_is_quick_and_small", "opening", dir.path());
        let (time, grown) = (Duration::from_nanos(number(&text, "ns") as u64), number(&text, "grown"));
        println!("{what}: opened in {time:?}, memory grew by {} KiB", grown >> 10);
        // A log to replay takes its time and its memory; everything else has to be at hand at once.
        if records < 1000 || checkpoint {
            assert!(grown < 2 << 20, "{what}: {grown} bytes");
            // Ten times what is asked of a quiet machine: this one may be slow, and its build not optimized.
            assert!(time < Duration::from_millis(10), "{what}: {time:?}");
        }
    }
    Ok(())
}

#[test]
fn a_thousand_of_each_handle_cost_little() -> Result<()> {
    let _alone = alone();
    let db = Database::builder().memory_bytes(8 << 20).in_memory()?;
    fill(&db, "t", 100, 100)?;
    let table = db.ensure_table("t")?;
    drop((db.snapshot()?, db.begin()?));
    /// Returns the bytes that a thousand take. A thread of the database may allocate meanwhile, so the least counts.
    fn cost<T>(most: usize, what: &str, make: impl Fn(usize) -> Result<T>) -> Result<()> {
        let mut costs = Vec::new();
        for _ in 0..5 {
            let before = live_bytes();
            let made = (0..1000).map(&make).collect::<Result<Vec<_>>>()?;
            costs.push(live_bytes().saturating_sub(before) / 1000);
            drop(made);
        }
        println!("{what}: {costs:?} bytes each");
        assert!(costs.iter().any(|cost| *cost <= most), "{what}: {costs:?} bytes each");
        Ok(())
    }

    cost(512, "snapshot", |_| db.snapshot())?;
    cost(1024, "transaction", |_| db.begin())?;
    cost(8 << 10, "transaction with a read and a write", |i| {
        let mut tx = db.begin()?;
        tx.get(&table, b"absent")?;
        tx.put(&table, &i.to_be_bytes(), b"a small value")?;
        Ok(tx)
    })?;
    cost(64, "clone of a database and a table", |_| Ok((db.clone(), table.clone())))?;
    cost(256, "table, opened by name", |_| db.ensure_table("t"))?;
    Ok(())
}

#[test]
fn a_hundred_databases_open_at_once() -> Result<()> {
    let _alone = alone();
    let before = live_bytes();
    let dirs: Vec<_> = (0..100).map(|_| tempfile::tempdir().unwrap()).collect();
    let databases: Vec<_> = dirs.iter().map(|dir| Database::create(dir.path())).collect::<Result<_>>()?;
    let each = live_bytes().saturating_sub(before) / databases.len();
    println!("an open, empty database: {each} bytes");
    assert!(each < 256 << 10);
    Ok(())
}

const BUDGET_BYTES: usize = 8 << 20;
/// What a process has beyond the budget: the program's own pages that were not touched before, the log's mapping,
/// stacks, and what the allocator keeps. 3 to 4 MiB, measured under a load.
const CONSTANT_BYTES: usize = 6 << 20;

fn budgeted() -> Builder {
    Database::builder().memory_bytes(BUDGET_BYTES).durability(pando::Durability::Buffered)
}

/// Ten times more data than memory.
const RECORDS: u64 = 80 << 10;
const VALUE_BYTES: usize = 1000;
/// Of one transaction, four times its budget.
const INSERTS: u64 = 1_600_000;
const INSERTS_BUDGET_BYTES: usize = 24 << 20;

fn key_of(i: u64) -> [u8; 8] {
    // In no order: multiplication by an odd number permutes.
    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes()
}

fn load(db: &Database) -> Result<()> {
    let table = db.ensure_table("t")?;
    for first in (0..RECORDS).step_by(64) {
        db.write(|tx| {
            (first..first + 64).try_for_each(|i| tx.put(&table, &key_of(i), &[i as u8; VALUE_BYTES]))
        })?;
    }
    Ok(())
}

fn scan(db: &Database) -> Result<()> {
    let table = db.ensure_table("t")?;
    let snapshot = db.snapshot()?;
    let mut cursor = snapshot.cursor(&table, ..)?;
    let mut seen = 0;
    while cursor.next()?.is_some() {
        seen += 1;
    }
    assert_eq!(seen, RECORDS);
    Ok(())
}

fn read_randomly(db: &Database) -> Result<()> {
    let table = db.ensure_table("t")?;
    let mut random = base::env::Random::seeded(1);
    for _ in 0..20_000 {
        let i = random.below(RECORDS);
        let found = db.snapshot()?.get_with(&table, &key_of(i), |value| value == [i as u8; VALUE_BYTES])?;
        assert_eq!(found, Some(true));
    }
    Ok(())
}

/// One transaction of many times the memory: its writes are spilled again and again, and what it has spilled it asks
/// for, so that the pool shrinks and grows as often.
fn insert_in_one(db: &Database) -> Result<()> {
    let table = db.ensure_table("u")?;
    db.write(|tx| (0..INSERTS).try_for_each(|i| tx.insert(&table, &key_of(i), &i.to_be_bytes()))).map(drop)
}

/// A line of `/proc/self/status`, in bytes; `None` where there is no such file.
fn status_bytes(name: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok().map(|kib| kib << 10)
}

/// What a child does, and what its memory is before and at the most.
fn in_a_child(phase: &str, dir: &Path) -> Result<()> {
    let before = status_bytes("VmRSS").unwrap_or(0);
    let allocated = live_bytes();
    PEAK_BYTES.store(allocated, Ordering::SeqCst);
    let builder =
        if phase == "one transaction" { budgeted().memory_bytes(INSERTS_BUDGET_BYTES) } else { budgeted() };
    let db = builder.create(dir)?;
    match phase {
        "load" => load(&db)?,
        "scan" => scan(&db)?,
        "one transaction" => insert_in_one(&db)?,
        _ => read_randomly(&db)?,
    }
    let stats = db.stats()?;
    println!("pool {} memtables {} views {}", stats.pool_bytes, stats.memtable_bytes, stats.views);
    println!("data {} used {} log {}", stats.data_file_bytes, stats.data_used_bytes, stats.log_file_bytes);
    println!("live {}", live_bytes() - allocated + stats.pool_bytes as usize);
    drop(db);
    let heap = PEAK_BYTES.load(Ordering::SeqCst) - allocated;
    println!("heap {heap} before {before} peak {}", status_bytes("VmHWM").unwrap_or(0));
    Ok(())
}

/// What this process is to do, if a test started it as its child.
fn child_task() -> Option<(&'static str, PathBuf)> {
    let task = std::env::var("PANDO_FOOTPRINT").ok()?;
    Some((task.leak(), std::env::var_os("PANDO_FOOTPRINT_DIR")?.into()))
}

/// Runs one test of this binary as a child with `task`; answers what it printed.
fn run_child(test: &str, task: &str, dir: &Path) -> String {
    let child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env("PANDO_FOOTPRINT", task)
        .env("PANDO_FOOTPRINT_DIR", dir)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{text}{}", String::from_utf8_lossy(&child.stderr));
    text
}

/// The number after the word `name`.
fn number(text: &str, name: &str) -> usize {
    let mut words = text.split_whitespace();
    words.find(|word| *word == name).unwrap();
    words.next().unwrap().parse().unwrap()
}

#[test]
fn a_database_ten_times_larger_than_its_memory() -> Result<()> {
    if let Some((phase, dir)) = child_task() {
        return in_a_child(phase, &dir);
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    for phase in ["load", "scan", "random reads"] {
        let text = run_child("a_database_ten_times_larger_than_its_memory", phase, dir.path());
        let [heap, live, before, peak] = ["heap", "live", "before", "peak"].map(|name| number(&text, name));
        let grown = peak.saturating_sub(before);
        let mib = |bytes: usize| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
        let [pool, memtables, data, used, log] =
            ["pool", "memtables", "data", "used", "log"].map(|name| mib(number(&text, name)));
        println!(
            "{phase}, in MiB: budget {}, heap at most {}, resident set grew by {} to {}; pool {pool}, \
             memtables {memtables}, data file {data} ({used} used), log {log}",
            mib(BUDGET_BYTES),
            mib(heap),
            mib(grown),
            mib(peak),
        );
        assert!(grown <= BUDGET_BYTES + CONSTANT_BYTES, "{phase}");
        assert!(heap <= BUDGET_BYTES, "{phase}: {heap} bytes are allocated");
        // Pages are mapped.
        assert!(live <= BUDGET_BYTES, "{phase}: {live} bytes are allocated or pages, at the end");
    }
    Ok(())
}

/// An allocator in which pages and writes lay side by side kept a quarter more, in gaps that were too small for either.
#[test]
fn memory_that_is_used_for_this_and_that_in_turn_stays_within_the_budget() -> Result<()> {
    if let Some((phase, dir)) = child_task() {
        return in_a_child(phase, &dir);
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let test = "memory_that_is_used_for_this_and_that_in_turn_stays_within_the_budget";
    let text = run_child(test, "one transaction", dir.path());
    let grown = number(&text, "peak").saturating_sub(number(&text, "before"));
    println!("resident set grew by {} KiB", grown >> 10);
    assert!(grown <= INSERTS_BUDGET_BYTES + (4 << 20), "{grown}");
    Ok(())
}

/// What a child does that merges a memtable of 80 MiB, and what it has then.
fn merge_in_a_child(dir: &Path) -> Result<()> {
    let before = status_bytes("VmRSS").unwrap_or(0);
    let db =
        Database::builder().memory_bytes(512 << 20).durability(pando::Durability::Buffered).create(dir)?;
    let table = db.ensure_table("t")?;
    // A commit of a megabyte allocates and frees as much, and from then on glibc keeps what is freed in such pieces.
    for first in (0..RECORDS).step_by(1000) {
        db.write(|tx| {
            (first..first + 1000).try_for_each(|i| tx.put(&table, &key_of(i), &[i as u8; VALUE_BYTES]))
        })?;
    }
    let loaded = status_bytes("VmRSS").unwrap_or(0);
    db.checkpoint()?;
    let patience = Instant::now() + Duration::from_secs(20);
    let beyond = loop {
        let stats = db.stats()?;
        let counted = before + (stats.pool_bytes + stats.memtable_bytes) as usize;
        let beyond = status_bytes("VmRSS").unwrap_or(0).saturating_sub(counted);
        // What was merged is kept for the next memtable for two seconds, and then freed in parts.
        if beyond < MERGED_BYTES || Instant::now() > patience {
            break beyond;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    println!("loaded {loaded} beyond {beyond}");
    Ok(())
}

/// What a process may have after a merge, beyond pages and memtables.
const MERGED_BYTES: usize = 24 << 20;

/// An allocator kept the memory of a large memtable that was merged: a program with 80 MiB of records had 160.
#[test]
fn the_memory_of_a_merged_memtable_goes_back_to_the_system() -> Result<()> {
    if let Some((_, dir)) = child_task() {
        return merge_in_a_child(&dir);
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let text = run_child("the_memory_of_a_merged_memtable_goes_back_to_the_system", "merge", dir.path());
    let [loaded, beyond] = ["loaded", "beyond"].map(|name| number(&text, name) >> 10);
    println!(
        "resident set {loaded} KiB after the load; {beyond} KiB beyond pages and memtables after the merge"
    );
    assert!(beyond << 10 < MERGED_BYTES, "{beyond} KiB");
    Ok(())
}

/// 32 MiB, four times the budget, of which a piece and an index are in memory.
#[test]
fn a_value_is_streamed_with_the_memory_of_a_piece() -> Result<()> {
    const VALUE_BYTES: u64 = 32 << 20;
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder().memory_bytes(8 << 20).create(dir.path())?;
    let table = db.create_table("t", &TableOptions::default().ttl_by_key())?;
    let peak_of = |work: &mut dyn FnMut() -> Result<()>| {
        let before = live_bytes();
        PEAK_BYTES.store(before, Ordering::SeqCst);
        work().map(|()| PEAK_BYTES.load(Ordering::SeqCst).saturating_sub(before))
    };
    let put = peak_of(&mut || {
        db.write(|tx| tx.put_reader(&table, b"k", std::io::repeat(7).take(VALUE_BYTES))).map(drop)
    })?;
    let checkpoint = peak_of(&mut || db.checkpoint())?;
    let read = peak_of(&mut || {
        let mut reader = db.snapshot()?.value_reader(&table, b"k")?.expect("it was put");
        assert_eq!(std::io::copy(&mut reader, &mut std::io::sink()).unwrap(), VALUE_BYTES);
        Ok(())
    })?;
    let hour = Some(Duration::from_secs(3600));
    let expiry = peak_of(&mut || db.write(|tx| tx.set_expiry(&table, b"k", hour)).map(drop))?;
    assert!(matches!(db.snapshot()?.expiry(&table, b"k")?, Some(Expiry::In(_))));
    let kib = [put, checkpoint, read, expiry].map(|bytes| bytes >> 10);
    println!("heap, in KiB: put, checkpoint, read, another expiry: {kib:?}");
    let most = [3 << 10, 2 << 10, 1 << 10, 4 << 10];
    assert!(kib.iter().zip(most).all(|(kib, most)| *kib < most), "{kib:?}");
    Ok(())
}
