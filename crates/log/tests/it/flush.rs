//! Many threads, few flushes.

use crate::common::*;
use base::sync::atomic::{AtomicU64, Ordering};
use io::{Dir, File, LogMap, MemDir};
use pando_log::{Log, Options};
use std::cell::Cell;
use std::sync::Arc;
use std::thread::LocalKey;
use std::time::{Duration, Instant};

/// A directory whose syncs take a while, and whose removals first do what a test sets.
#[derive(Debug)]
struct Slow(MemDir, Arc<AtomicU64>, fn());

#[derive(Debug)]
struct SlowFile(Arc<dyn File>, Arc<AtomicU64>);

/// A mapping that adds up how many bytes were stored, and how many released.
#[derive(Debug)]
struct Mapped(Arc<dyn LogMap>, u64);

// By one thread, as tests run beside each other.
thread_local! {
    static STORED: Cell<u64> = const { Cell::new(0) };
    static RELEASED: Cell<u64> = const { Cell::new(0) };
    /// How many syncs were begun without waiting.
    static BEGUN: Cell<u64> = const { Cell::new(0) };
    /// The number of files whose syncs are begun by their caller.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    /// The length of the longest write.
    static LONGEST: Cell<u64> = const { Cell::new(0) };
}

fn add(count: &'static LocalKey<Cell<u64>>, more: u64) {
    count.set(count.get() + more);
}

impl LogMap for Mapped {
    fn write(&self, offset: u64, bytes: &[u8]) -> base::Result<()> {
        add(&STORED, bytes.len() as u64);
        self.0.write(offset, bytes)
    }
    fn release(&self, offset: u64, bytes: u64) {
        add(&RELEASED, bytes.min(self.1 - offset));
    }
}

impl Dir for Slow {
    fn create(&self, name: &str) -> base::Result<Arc<dyn File>> {
        Ok(Arc::new(SlowFile(self.0.create(name)?, self.1.clone())))
    }
    fn open(&self, name: &str) -> base::Result<Arc<dyn File>> {
        Ok(Arc::new(SlowFile(self.0.open(name)?, self.1.clone())))
    }
    fn rename(&self, from: &str, to: &str) -> base::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> base::Result<()> {
        (self.2)();
        self.0.remove(name)
    }
    fn list(&self) -> base::Result<Vec<String>> {
        self.0.list()
    }
    fn sync(&self) -> base::Result<()> {
        self.0.sync()
    }
    fn lock(&self, name: &str) -> base::Result<Box<dyn io::Lock>> {
        self.0.lock(name)
    }
    fn lock_existing(&self, name: &str) -> base::Result<Box<dyn io::Lock>> {
        self.0.lock_existing(name)
    }
    fn check_in_place(&self, files: &[&dyn File]) -> base::Result<()> {
        self.0.check_in_place(files)
    }
    fn lock_shared(&self, name: &str) -> base::Result<Box<dyn io::Lock>> {
        self.0.lock_shared(name)
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl File for SlowFile {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> base::Result<usize> {
        self.0.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> base::Result<()> {
        LONGEST.set(LONGEST.get().max(bytes.len() as u64));
        self.0.write_at(bytes, offset)
    }
    fn len(&self) -> base::Result<u64> {
        self.0.len()
    }
    fn id(&self) -> base::Result<io::FileId> {
        self.0.id()
    }
    fn set_len(&self, len: u64) -> base::Result<()> {
        self.0.set_len(len)
    }
    fn allocate_at(&self, offset: u64, len: u64) -> base::Result<bool> {
        self.0.allocate_at(offset, len)
    }
    fn sync(&self) -> base::Result<()> {
        self.1.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(1));
        self.0.sync()
    }
    fn begin_sync(&self) {
        add(&BEGUN, 1);
    }
    fn begin_no_syncs(&self) {
        add(&LEFT, 1);
    }
    fn map(&self, len: u64) -> base::Result<Option<Arc<dyn LogMap>>> {
        Ok(self.0.map(len)?.map(|map| Arc::new(Mapped(map, len)) as Arc<dyn LogMap>))
    }
    fn discard(&self, offset: u64, len: u64) -> base::Result<()> {
        self.0.discard(offset, len)
    }
}

#[test]
fn one_flush_serves_all_who_wait() {
    const THREADS: u64 = 8;
    const EACH: u64 = 60;
    let file_syncs = Arc::new(AtomicU64::new(0));
    let dir: Arc<dyn Dir> = Arc::new(Slow(MemDir::new(), file_syncs.clone(), || {}));
    let options = Options { first_segment_bytes: 16 << 10, ..SMALL };
    let log = Log::create(dir.clone(), DATABASE, options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                for n in 0..EACH {
                    let end = log.append(&payload(thread * EACH + n, 40)).unwrap();
                    log.sync(end).unwrap();
                    assert!(log.synced() >= end);
                }
            });
        }
    });
    let stats = log.stats();
    assert_eq!(stats.appends - (stats.segments - 1), THREADS * EACH, "end blocks aside");
    assert!(stats.syncs * 2 < THREADS * EACH, "{stats:?}");
    assert!(file_syncs.load(Ordering::SeqCst) <= stats.syncs + 3 * stats.segments);
    let (mut found, _) = scan(&dir, START).unwrap();
    found.sort_by_key(|bytes| u64::from_le_bytes(bytes[..8].try_into().unwrap()));
    let wanted: Vec<_> = (0..THREADS * EACH).map(|n| payload(n, 40)).collect();
    assert_eq!(found, wanted);
}

#[test]
fn an_expected_record_is_appended_without_a_sync() {
    let file_syncs = Arc::new(AtomicU64::new(0));
    let dir: Arc<dyn Dir> = Arc::new(Slow(MemDir::new(), file_syncs.clone(), || {}));
    let log = Log::create(dir, DATABASE, Options { first_segment_bytes: 16 << 10, ..SMALL }).unwrap();
    assert!(!log.expect(1000).unwrap(), "the first segment has room");
    assert!(log.expect(100_000).unwrap());
    assert!(!log.expect(100_000).unwrap(), "it is there already");
    let before = file_syncs.load(Ordering::SeqCst);
    log.reserve(100_000).unwrap();
    let end = log.append(&payload(1, 100_000)).unwrap();
    assert_eq!(file_syncs.load(Ordering::SeqCst), before);
    log.sync(end).unwrap();
    assert_eq!(file_syncs.load(Ordering::SeqCst), before + 2, "the segment that ended and this one");
    log.close().unwrap();
    assert!(!log.expect(1_000_000).unwrap(), "a closed log expects nothing");
}

#[test]
fn a_long_segment_goes_to_the_disk_in_pieces() {
    for (kib, syncs) in [(256, 2), (260, 3), (4352, 3), (4356, 4)] {
        let file_syncs = Arc::new(AtomicU64::new(0));
        let dir: Arc<dyn Dir> = Arc::new(Slow(MemDir::new(), file_syncs.clone(), || {}));
        let options = Options { first_segment_bytes: kib << 10, max_segment_bytes: kib << 10, ..SMALL };
        Log::create(dir, DATABASE, options).unwrap();
        assert_eq!(file_syncs.load(Ordering::SeqCst), syncs, "256 KiB, then 4 MiB at a time, and the header");
    }
}

#[test]
fn zeros_leave_the_disk_to_others_while_there_is_time() {
    let options =
        Options { first_segment_bytes: 2 << 20, max_segment_bytes: 4 << 20, flush_worth_bytes: 1 << 40 };
    // How much is appended first, and how many of the 15 pieces that are not the last are followed by a pause.
    for (appended_mib, pauses) in [(0, 15), (1, 0)] {
        let dir: Arc<dyn Dir> = Arc::new(MemDir::new());
        let log = Log::create(dir, DATABASE, options).unwrap();
        for _ in 0..appended_mib << 10 {
            log.append(&payload(1, 1024)).unwrap();
        }
        let paused = AtomicU64::new(0);
        let pause = |_| {
            paused.fetch_add(1, Ordering::SeqCst);
            true
        };
        assert!(log.prepare_in_time(&pause).unwrap());
        assert_eq!(paused.load(Ordering::SeqCst), pauses, "{appended_mib} MiB appended");
        assert_eq!(log.stats().spare_bytes, 4 << 20);
    }
}

#[test]
fn nobody_waits_for_the_zeros_of_a_segment_that_nobody_needs_yet() {
    let options =
        Options { first_segment_bytes: 2 << 20, max_segment_bytes: 4 << 20, flush_worth_bytes: 1 << 40 };
    let log = Arc::new(Log::create(Arc::new(MemDir::new()), DATABASE, options).unwrap());
    let pauses = AtomicU64::new(0);
    let pause = |_| {
        let done = Arc::new(AtomicU64::new(0));
        let (log, says) = (log.clone(), done.clone());
        // Not scoped: who waits for the segment would be waited for.
        std::thread::spawn(move || {
            log.append(&payload(1, 1000)).unwrap();
            log.sync(log.end().lsn).unwrap();
            log.drop_before(log.end()).unwrap();
            log.stats();
            says.store(1, Ordering::SeqCst);
        });
        assert!(comes(&done), "somebody waits for a segment that is being made");
        pauses.fetch_add(1, Ordering::SeqCst);
        true
    };
    assert!(log.prepare_in_time(&pause).unwrap());
    assert_eq!(pauses.load(Ordering::SeqCst), 15);
}

#[test]
fn a_segment_that_is_being_made_is_dropped_with_the_spares() {
    let options =
        Options { first_segment_bytes: 2 << 20, max_segment_bytes: 4 << 20, flush_worth_bytes: 1 << 40 };
    let log = Arc::new(Log::create(Arc::new(MemDir::new()), DATABASE, options).unwrap());
    let dropping = std::cell::RefCell::new(None);
    let pause = |_| {
        let shared = log.clone();
        let mut dropping = dropping.borrow_mut();
        let dropping = dropping.get_or_insert_with(|| std::thread::spawn(move || shared.drop_spares()));
        // It would be done by then if it did not wait for what is being made.
        let since = Instant::now();
        while !dropping.is_finished() && since.elapsed() < Duration::from_millis(50) {
            std::thread::yield_now();
        }
        true
    };
    assert!(log.prepare_in_time(&pause).unwrap());
    dropping.into_inner().expect("there were pauses").join().unwrap().unwrap();
    assert_eq!(log.stats().spare_bytes, 0);
}

#[test]
fn what_lies_beyond_the_end_cannot_be_synced() {
    let log = Log::create(memory(), DATABASE, SMALL).unwrap();
    let end = log.append(b"x").unwrap();
    let beyond = base::Lsn(end.0 + 8);
    assert_eq!(log.sync(beyond).unwrap_err().kind(), base::ErrorKind::Invalid);
    log.sync(end).unwrap();
    assert_eq!(log.stats().syncs, 1);
    log.sync(end).unwrap();
    assert_eq!(log.stats().syncs, 1);
}

/// How many bytes are written to the second segment's file, of 8 KiB, until it is ready: behind three appends to the
/// first one, each of them flushed if `flushed`.
fn written_until_the_second_segment(flushed: bool, maps: bool) -> u64 {
    let disk = io::sim::SimDisk::new();
    disk.set_maps(maps);
    let options = Options { flush_worth_bytes: 2048, ..SMALL };
    let log = Log::create(disk.dir(), DATABASE, options).unwrap();
    let before = disk.calls(io::sim::CallKind::Write);
    for n in 0..3 {
        let end = log.append(&payload(n, 900)).unwrap();
        if flushed {
            log.sync(end).unwrap();
        }
    }
    assert!(log.prepare_next().unwrap(), "more than half full");
    let made = disk.events().1.into_iter().filter_map(|event| match event {
        io::sim::Event::Write { name, payload, .. } if name.contains('2') => Some(payload.len()),
        _ => None,
    });
    assert!(disk.calls(io::sim::CallKind::Write) > before);
    made.sum()
}

#[test]
fn zeros_are_written_for_flushes_to_come_alone() {
    assert!(written_until_the_second_segment(true, true) > 8192, "four flushes are worth 8 KiB");
    assert!(written_until_the_second_segment(false, true) < 4096, "a header");
    assert!(written_until_the_second_segment(false, false) > 8192, "nothing can be allocated");
}

#[test]
fn a_log_that_is_flushed_often_goes_on_where_that_is_cheap() {
    let disk = io::sim::SimDisk::new();
    let options = Options { first_segment_bytes: 4096, max_segment_bytes: 16 << 10, flush_worth_bytes: 0 };
    let log = Log::create(disk.dir(), DATABASE, options).unwrap();
    let mut payloads = Vec::new();
    let append = |n: u64, payloads: &mut Vec<Vec<u8>>| {
        payloads.push(payload(n, 300));
        log.append(&payloads[payloads.len() - 1]).unwrap()
    };
    // The second segment is allocated: nothing was flushed.
    while log.stats().segments < 2 {
        append(payloads.len() as u64, &mut payloads);
        log.prepare_next().unwrap();
    }
    let number = log.end().segment;
    let zeros = disk.calls(io::sim::CallKind::Write);
    for n in 0..2 {
        let end = append(n, &mut payloads);
        log.sync(end).unwrap();
        log.prepare_next().unwrap();
        append(n, &mut payloads);
        log.prepare_next().unwrap();
        assert_eq!(log.end().segment, number, "flushed now and then");
    }
    for n in 0..3 {
        assert_eq!(log.end().segment, number, "{n}");
        let end = append(n, &mut payloads);
        log.sync(end).unwrap();
        log.prepare_next().unwrap();
    }
    let second = log.end();
    assert!(second.segment > number && disk.calls(io::sim::CallKind::Write) >= zeros + 4, "written over");
    for n in 0..4 {
        let end = append(n, &mut payloads);
        log.sync(end).unwrap();
        log.prepare_next().unwrap();
    }
    assert_eq!(log.end().segment, second.segment, "where it was, it stays");
    log.drop_before(log.end()).unwrap();
    let names = disk.dir().list().unwrap();
    assert!(!names.contains(&format!("log-{number:016x}")), "what was given up is no spare: {names:?}");
    log.close().unwrap();
    drop(log);
    let (found, _) = scan(&disk.dir(), second).unwrap();
    assert_eq!(found, payloads[payloads.len() - 4..]);
}

#[test]
fn a_log_that_is_flushed_often_leaves_a_long_segment_before_the_next_one_is_full_of_zeros() {
    const MIB: u64 = 1 << 20;
    let disk = io::sim::SimDisk::new();
    let options = Options { first_segment_bytes: 4096, max_segment_bytes: 64 * MIB, flush_worth_bytes: MIB };
    let log = Log::create(disk.dir(), DATABASE, options).unwrap();
    // A large record, behind which there is room in its segment; then many small ones.
    assert!(log.expect(8 * MIB).unwrap());
    let mut payloads = vec![payload(0, 5 << 20)];
    log.append(&payloads[0]).unwrap();
    let long = log.end().segment;
    for n in 1..20 {
        payloads.push(payload(n, 100));
        log.sync(log.append(&payloads[n as usize]).unwrap()).unwrap();
    }
    assert_eq!(log.end().segment, long);
    let calls = disk.calls(io::sim::CallKind::Write);
    assert!(log.prepare_next().unwrap());
    let short = log.end().segment;
    let written = disk.calls(io::sim::CallKind::Write) - calls;
    assert!(short > long && written < 2 * MIB / 4096, "{written} calls");
    // From there on, the next segment is made while flushes are cheap.
    payloads.push(payload(20, 100));
    log.sync(log.append(&payloads[20]).unwrap()).unwrap();
    log.prepare_next().unwrap();
    assert_eq!(log.end().segment, short);
    log.close().unwrap();
    drop(log);
    assert_eq!(scan(&disk.dir(), START).unwrap().0, payloads);
}

/// Segments that are allocated, but for the first.
const ALLOCATED: Options = Options { flush_worth_bytes: 0, ..SMALL };

#[test]
fn a_log_opened_again_finds_out_that_its_flushes_are_dear() {
    let dir = memory();
    let log = Log::create(dir.clone(), DATABASE, ALLOCATED).unwrap();
    log.append(b"one").unwrap();
    log.close().unwrap();
    let (_, tail) = scan(&dir, START).unwrap();
    let log = Log::resume(dir, tail, base::CheckpointNo(0), ALLOCATED).unwrap();
    let segment = log.end().segment;
    for n in 0..3 {
        assert_eq!(log.end().segment, segment);
        log.sync(log.append(&payload(n, 100)).unwrap()).unwrap();
        log.prepare_next().unwrap();
    }
    assert!(log.end().segment > segment);
}

#[test]
fn what_was_allocated_and_not_used_is_no_spare() {
    let log = Log::create(memory(), DATABASE, ALLOCATED).unwrap();
    log.append(&payload(1, 3000)).unwrap();
    assert!(log.prepare_next().unwrap());
    let next_bytes = log.stats().spare_bytes;
    assert!(log.expect(50_000).unwrap());
    let large_bytes = log.stats().spare_bytes;
    assert!(next_bytes == 8192 && (50_000..58_192).contains(&large_bytes), "{next_bytes}, {large_bytes}");
}

#[test]
fn appends_and_flushes_go_on_while_the_log_looks_for_cheaper_ones() {
    let dir: Arc<dyn Dir> = Arc::new(Slow(MemDir::new(), Arc::default(), || {}));
    let log = Log::create(dir.clone(), DATABASE, ALLOCATED).unwrap();
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while done.load(Ordering::SeqCst) == 0 {
                log.sync(log.end().lsn).unwrap();
            }
        });
        scope.spawn(|| {
            while done.load(Ordering::SeqCst) == 0 {
                log.prepare_next().unwrap();
            }
        });
        for n in 0..3000 {
            log.append(&payload(n, 300)).unwrap();
            std::thread::sleep(Duration::from_micros(20));
        }
        done.store(1, Ordering::SeqCst);
    });
    log.close().unwrap();
    drop(log);
    let (found, _) = scan(&dir, START).unwrap();
    assert!(found.len() == 3000 && (0..3000).all(|n| found[n as usize] == payload(n, 300)));
}

#[test]
fn holes_in_a_copied_segment_get_their_room_again() {
    let disk = io::sim::SimDisk::new();
    let options = Options { first_segment_bytes: 16 << 10, ..SMALL };
    let log = Log::create(disk.dir(), DATABASE, options).unwrap();
    log.append(b"one").unwrap();
    log.close().unwrap();
    let name = disk.dir().list().unwrap().pop().unwrap();
    let file = disk.dir().open(&name).unwrap();
    let used = disk.used_bytes();
    let len = file.len().unwrap();
    // As a copy that skips what reads as zeros leaves it.
    file.set_len(1000).unwrap();
    file.set_len(len).unwrap();
    let (_, tail) = scan(&disk.dir(), START).unwrap();
    let log = Log::resume(disk.dir(), tail, base::CheckpointNo(0), options).unwrap();
    let end = log.append(&payload(1, 9000)).unwrap();
    log.sync(end).unwrap();
    assert_eq!(disk.used_bytes(), used);
}

/// Whether it is set within some seconds.
fn comes(flag: &AtomicU64) -> bool {
    (0..10_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        flag.load(Ordering::SeqCst) > 0
    })
}

#[test]
fn appends_and_new_segments_go_on_while_files_are_removed() {
    // How far each side is: a removal has begun, and what was to go on meanwhile is done.
    static BEGUN: AtomicU64 = AtomicU64::new(0);
    static DONE: AtomicU64 = AtomicU64::new(0);
    let removal = || {
        BEGUN.store(1, Ordering::SeqCst);
        assert!(comes(&DONE), "nothing goes on while a file is removed");
    };
    let dir: Arc<dyn Dir> = Arc::new(Slow(MemDir::new(), Arc::default(), removal));
    let log = Log::create(dir, DATABASE, Options { flush_worth_bytes: 0, ..SMALL }).unwrap();
    while log.stats().segments < 8 {
        log.append(&payload(1, 1000)).unwrap();
    }
    log.sync(log.end().lsn).unwrap();
    std::thread::scope(|scope| {
        let dropping = scope.spawn(|| log.drop_before(log.end()));
        assert!(comes(&BEGUN), "nothing was removed");
        let segments = log.stats().segments;
        while log.stats().segments < segments + 3 {
            log.append(&payload(2, 1000)).unwrap();
        }
        DONE.store(1, Ordering::SeqCst);
        dropping.join().unwrap().unwrap();
    });
}

/// Returns a new log, whose stores and calls are counted, and its directory.
fn with_segments_of_a_mib() -> (Arc<dyn Dir>, Log) {
    let dir: Arc<dyn Dir> = Arc::new(Slow(MemDir::new(), Arc::default(), || {}));
    let options = Options { first_segment_bytes: 1 << 20, max_segment_bytes: 1 << 20, ..SMALL };
    let log = Log::create(dir.clone(), DATABASE, options).unwrap();
    (dir, log)
}

/// What was written since the last flush, and no more; of a segment that ended and is still mapped all.
#[test]
fn a_long_flush_releases_what_it_flushes() {
    let (_, log) = with_segments_of_a_mib();
    let released = |appends: u64, payload_bytes: usize| {
        let before = RELEASED.get();
        for n in 0..appends {
            log.append(&payload(n, payload_bytes)).unwrap();
        }
        log.sync(log.end().lsn).unwrap();
        RELEASED.get() - before
    };
    assert_eq!(released(100, 100), 0, "a few pages");
    let many = released(200, 2_000);
    assert!((400_000..420_000).contains(&many), "{many}");
    // 600,000 bytes of the first segment, all of which is released, and 200,000 of the next.
    let many = released(400, 2_000);
    assert!((1_200_000..1_300_000).contains(&many), "{many}: {:?}", log.stats());
}

#[test]
fn what_is_to_be_synced_at_once_is_not_stored_into_a_mapping() {
    let (dir, log) = with_segments_of_a_mib();
    let counts = || (STORED.get(), RELEASED.get());
    let mut payloads = Vec::new();
    // Short ones are put together, long ones go as they are; all in all more than a segment.
    for n in 0..400 {
        payloads.push(payload(n, if n % 40 == 0 { 100_000 } else { 1000 }));
    }
    let before = counts();
    for payload in &payloads {
        log.append_to_sync(payload).unwrap();
    }
    log.sync(log.end().lsn).unwrap();
    assert!(log.stats().segments > 1);
    assert_eq!(counts(), before, "nothing is mapped that would have to be released");
    // The two may come in any order, also within a page.
    for n in 0..400 {
        payloads.push(payload(n, 700));
        let append = if n % 2 == 0 { Log::append } else { Log::append_to_sync };
        append(&log, &payloads[payloads.len() - 1]).unwrap();
    }
    let stored = counts().0 - before.0;
    assert!((200 * 700..200 * 800).contains(&stored), "{stored}");
    log.sync(log.end().lsn).unwrap();
    assert!(counts().1 > before.1, "what was stored between is released");
    let (found, _) = scan(&dir, START).unwrap();
    assert!(found == payloads);
}

#[test]
fn a_long_block_is_not_stored_into_a_mapping() {
    let (dir, log) = with_segments_of_a_mib();
    // In turns with short ones, within a page, too.
    let lengths = [2_000, 2_048, 100, 70_000];
    let mut payloads: Vec<_> = (0..100).map(|n| payload(n, lengths[n as usize % 4])).collect();
    let (stored_before, begun_before) = (STORED.get(), BEGUN.get());
    LONGEST.set(0);
    for payload in &payloads {
        log.append(payload).unwrap();
    }
    let stored = STORED.get() - stored_before;
    assert!((25 * 2_100..25 * 2_300).contains(&stored), "{stored}");
    assert_eq!(LONGEST.get(), 16 << 10, "a longer write makes large folios");
    log.prepare_next().unwrap();
    assert!(BEGUN.get() > begun_before, "the disk begins with what was not stored, too");
    // A block that is synced at once is written whole, and begun if it is long.
    for (n, payload_bytes) in [(100, 70_000), (101, 300_000)] {
        let begun_before = BEGUN.get();
        payloads.push(payload(n, payload_bytes));
        log.append_to_sync(&payloads[n as usize]).unwrap();
        assert!(LONGEST.get() >= payload_bytes as u64);
        assert_eq!(BEGUN.get() - begun_before, u64::from(n == 101));
    }
    let (found, _) = scan(&dir, START).unwrap();
    assert!(found == payloads);
}

/// Pages count, and not bytes: between long blocks, which are not stored, each short one has a page of its own.
#[test]
fn pages_of_short_blocks_between_long_ones_are_released() {
    let left_before = LEFT.get();
    let (_, log) = with_segments_of_a_mib();
    assert!(LEFT.get() > left_before, "the log begins syncs by itself");
    let released = |pairs: u64| {
        let before = RELEASED.get();
        for n in 0..pairs {
            log.append(&payload(n, 100)).unwrap();
            log.append(&payload(n, 8_000)).unwrap();
        }
        log.sync(log.end().lsn).unwrap();
        RELEASED.get() - before
    };
    assert_eq!(released(10), 0, "a few pages");
    let many = released(20);
    assert!((160_000..170_000).contains(&many), "{many}");
}

/// Each MiB, with what is left of the segments before; a flush counts as well.
#[test]
fn the_disk_begins_before_anybody_waits() {
    let syncs = Arc::new(AtomicU64::new(0));
    let dir: Arc<dyn Dir> = Arc::new(Slow(MemDir::new(), syncs.clone(), || {}));
    let options = Options { first_segment_bytes: 4 << 20, max_segment_bytes: 4 << 20, ..SMALL };
    let log = Log::create(dir, DATABASE, options).unwrap();
    log.prepare_next().unwrap();
    let begun = |appends: u64, flushed: bool| {
        let before = (BEGUN.get(), RELEASED.get());
        for n in 0..appends {
            log.append(&payload(n, 2_000)).unwrap();
        }
        if flushed {
            log.sync(log.end().lsn).unwrap();
        }
        let released = RELEASED.get();
        log.prepare_next().unwrap();
        let released = RELEASED.get() - if flushed { released } else { before.1 };
        (BEGUN.get() - before.0, released)
    };
    assert_eq!(begun(400, false), (0, 0), "less than a MiB");
    let (files, released) = begun(400, false);
    assert!(files == 1 && (1_600_000..1_700_000).contains(&released), "{released}");
    assert_eq!(begun(400, false), (0, 0), "it was begun with the rest");
    assert_eq!(begun(400, true), (0, 0), "all is flushed");
    let syncs_before = syncs.load(Ordering::SeqCst);
    let (files, _) = begun(800, false);
    assert_eq!(files, 2, "a segment ended: {:?}", log.stats());
    assert!(log.synced() < log.end().lsn, "nothing of it counts as flushed");
    assert!(syncs.load(Ordering::SeqCst) <= syncs_before + 3, "those of a new segment");
}

#[test]
fn the_disk_begins_with_a_new_segment_while_the_end_of_the_old_one_is_waited_for() {
    let (_, log) = with_segments_of_a_mib();
    let segments_before = log.stats().segments;
    let begun = |appends: u64| {
        for n in 0..appends {
            log.append_to_sync(&payload(n, 1000)).unwrap();
        }
        let before = BEGUN.get();
        log.sync(log.end().lsn).unwrap();
        BEGUN.get() - before
    };
    assert_eq!(begun(10), 0, "it is waited for at once");
    let begun = begun(1_100);
    assert_eq!((begun, log.stats().segments), (1, segments_before + 1));
}

/// The lengths of the segments' files in `dir`, oldest first.
fn segment_lengths(dir: &Arc<dyn io::Dir>) -> Vec<u64> {
    let mut names = dir.list().unwrap();
    names.sort();
    names.iter().map(|name| dir.open(name).unwrap().len().unwrap()).collect()
}

#[test]
fn segments_grow_fast_while_appends_wait_for_them() {
    const KIB: u64 = 1 << 10;
    let dir = memory();
    let options = Options { first_segment_bytes: 4 * KIB, max_segment_bytes: 16 << 20, ..Options::default() };
    let log = Log::create(dir.clone(), DATABASE, options).unwrap();
    let fill = |segments: u64| {
        while log.stats().segments < segments {
            log.append(&payload(0, 900)).unwrap();
        }
    };
    // The append that finds no segment ready makes one 16 times as long, and the next one is due at once.
    fill(2);
    assert_eq!(segment_lengths(&dir), [4 * KIB, 64 * KIB]);
    assert!(log.prepare_next().unwrap());
    assert_eq!(segment_lengths(&dir), [4 * KIB, 64 * KIB, KIB * KIB]);
    // It was ready in time. The next one has twice its length, like any other that is.
    fill(3);
    assert!(log.prepare_next().unwrap());
    assert_eq!(segment_lengths(&dir)[3..], [2 * KIB * KIB]);
}

#[test]
fn a_segment_for_an_expected_record_does_not_count_as_late() {
    const KIB: u64 = 1 << 10;
    let dir = memory();
    let options = Options { first_segment_bytes: 4 * KIB, ..Options::default() };
    let log = Log::create(dir.clone(), DATABASE, options).unwrap();
    assert!(log.expect(40 * KIB).unwrap());
    assert_eq!(segment_lengths(&dir), [4 * KIB, 44 * KIB]);
    log.append(&payload(0, 30 * 1024)).unwrap();
    assert!(log.prepare_next().unwrap(), "more than half full");
    assert_eq!(segment_lengths(&dir)[2..], [88 * KIB]);
}

#[test]
fn a_log_that_was_made_short_does_not_grow_at_once() {
    const KIB: u64 = 1 << 10;
    let dir = memory();
    let options = Options { first_segment_bytes: 4 * KIB, ..Options::default() };
    let log = Log::create(dir.clone(), DATABASE, options).unwrap();
    while log.stats().segments < 2 {
        log.append(&payload(0, 900)).unwrap();
    }
    assert!(log.has_room(8 * KIB).unwrap());
    log.shorten().unwrap();
    assert!(!log.has_room(8 * KIB).unwrap(), "the segment has 4 KiB");
    assert!(!log.prepare_next().unwrap(), "the short segment is empty");
    assert_eq!(segment_lengths(&dir), [4 * KIB, 64 * KIB, 4 * KIB]);
}
