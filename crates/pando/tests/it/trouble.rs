//! Disks that fill up and calls that fail: what was acknowledged stays, the kind of the error says what has failed.

use crate::support::{Data, read_all, small};
use io::sim::{CallKind, Fault, FaultError, ImageKind, SimDisk};
use pando::{Builder, Database, ErrorKind, Result, Stats, Table};
use std::time::{Duration, Instant};

fn disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.keep_history(false);
    disk
}

fn builder() -> Builder {
    small().page_bytes(4096)
}

fn once(call: CallKind, nth: u64, error: FaultError) -> Fault {
    Fault { call, nth, sticky: false, error }
}

/// Waits until `reached` says so, a few seconds at most.
fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what} never came");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A database and what it acknowledged.
struct Run {
    db: Database,
    table: Table,
    model: Data,
}

impl Run {
    fn on(disk: &SimDisk) -> Result<Run> {
        let db = builder().create_in(disk.dir())?;
        let table = db.ensure_table("t")?;
        let model = read_all(&db)?;
        Ok(Run { db, table, model })
    }

    fn put(&mut self, key: u32, value_bytes: usize) -> Result<()> {
        let value: Vec<u8> = (0..value_bytes as u32).map(|i| (i * 13 + key) as u8).collect();
        self.db.put(&self.table, &key.to_be_bytes(), &value)?;
        self.model.get_mut("t").unwrap().insert(key.to_be_bytes().to_vec(), value);
        Ok(())
    }

    fn fill(&mut self, keys: std::ops::Range<u32>, value_bytes: usize) {
        keys.for_each(|key| self.put(key, value_bytes).unwrap());
    }

    /// Everything that was acknowledged is there, nothing else is, and every page and the space map are in order.
    fn verify(&self) {
        assert!(read_all(&self.db).unwrap() == self.model);
        assert_eq!(self.db.check().unwrap().orphan_units, 0);
    }

    fn reopened_on(self, disk: &SimDisk) -> Run {
        let Run { db, model, .. } = self;
        db.close().unwrap();
        drop(db);
        let run = Run::on(disk).unwrap();
        assert!(run.model == model);
        run.verify();
        run
    }
}

#[test]
fn a_disk_that_fills_up_under_commits() {
    let disk = disk();
    let mut run = Run::on(&disk).unwrap();
    run.fill(0..20, 500);
    disk.set_capacity(disk.used_bytes() + (100 << 10));
    let refused = (20..400).find_map(|key| run.put(key, 3000).err()).expect("the disk is full at some time");
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    run.verify();
    // Each is refused for itself; what needs no room still goes.
    for key in 1000..1020 {
        if let Err(error) = run.put(key, 3000) {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        }
    }
    let huge = run.put(2000, 1 << 20).unwrap_err();
    assert_eq!(huge.kind(), ErrorKind::Full, "{huge}");
    run.verify();
    disk.set_capacity(None);
    run.fill(3000..3050, 3000);
    run.put(2000, 1 << 20).unwrap();
    run.verify();
    run.db.checkpoint().unwrap();
    run.verify();
    run.reopened_on(&disk);
}

/// One takes the room in the log that another had made sure of: that is no reason to stop everything.
#[test]
fn a_disk_that_fills_up_under_many_writers() {
    for _ in 0..10 {
        let disk = disk();
        let mut run = Run::on(&disk).unwrap();
        disk.set_capacity(disk.used_bytes() + (64 << 10));
        let put = |key: &u32| match run.db.put(&run.table, &key.to_be_bytes(), &[7; 1500]) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                false
            }
        };
        let kept: Vec<u32> = std::thread::scope(|scope| {
            let write = |thread: u32| {
                let keys = thread * 1000..thread * 1000 + 30;
                scope.spawn(move || keys.filter(put).collect::<Vec<_>>())
            };
            let writers: Vec<_> = (0..4).map(write).collect();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        let records = kept.iter().map(|key| (key.to_be_bytes().to_vec(), vec![7; 1500]));
        run.model.get_mut("t").unwrap().extend(records);
        run.verify();
        disk.set_capacity(None);
        run.fill(90_000..90_010, 3000);
        run.reopened_on(&disk);
    }
}

#[test]
fn a_disk_that_fills_up_under_a_checkpoint_at_every_page() {
    let disk = disk();
    // On a file system that sets no room aside: elsewhere a checkpoint has its room already.
    disk.set_maps(false);
    let mut run = Run::on(&disk).unwrap();
    run.fill(0..50, 400);
    run.db.checkpoint().unwrap();
    run.fill(20..120, 900);
    run.put(200, 30_000).unwrap();
    let before = run.db.stats().unwrap();
    let used = disk.used_bytes();
    let mut failures = 0;
    for room in (0..).map(|pages| pages * 4096) {
        disk.set_capacity(used + room);
        match run.db.checkpoint() {
            Ok(()) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Full, "{error}"),
        }
        failures += 1;
        assert!(failures < 1000, "it never gets enough");
        let Stats { data_used_bytes, checkpoint, .. } = run.db.stats().unwrap();
        assert_eq!((data_used_bytes, checkpoint), (before.data_used_bytes, before.checkpoint));
        run.verify();
        if failures % 8 == 0 {
            // A process killed now leaves a database as good.
            let left = disk.after_kill();
            left.set_capacity(None);
            let after = Run::on(&left).unwrap();
            assert!(after.model == run.model);
            after.verify();
        }
    }
    assert!(failures > 20, "only {failures} pages were missing");
    run.verify();
    disk.set_capacity(None);
    run.fill(300..320, 900);
    run.db.checkpoint().unwrap();
    run.verify();
    run.reopened_on(&disk);
}

/// The worker goes on by itself when there is room again, without anybody asking.
#[test]
fn background_checkpoints_resume_when_there_is_room() {
    let disk = disk();
    let mut run = Run::on(&disk).unwrap();
    run.fill(0..100, 1000);
    disk.set_capacity(disk.used_bytes() + (16 << 10));
    let mut refused = 0;
    for key in 100..400 {
        match run.put(key, 1000) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
    disk.set_capacity(None);
    run.fill(400..800, 1000);
    wait_until("a checkpoint", || {
        let stats = run.db.stats().unwrap();
        stats.checkpoints > 0 && stats.sealed_memtables == 0
    });
    run.verify();
    run.reopened_on(&disk);
}

#[test]
fn a_failed_sync_stops_writing_but_not_reading() {
    let disk = disk();
    let mut run = Run::on(&disk).unwrap();
    run.fill(0..30, 300);
    run.db.checkpoint().unwrap();
    run.fill(30..40, 300);
    let snapshot = run.db.snapshot().unwrap();
    let mut open = run.db.begin().unwrap();
    open.put(&run.table, b"open", b"when it failed").unwrap();

    // A segment that the log's thread makes ready just then may meet the fault instead: that stops nothing.
    let mut key = 40;
    let doubtful = loop {
        disk.inject(once(CallKind::Sync, 1, FaultError::Io));
        match run.put(key, 300) {
            Err(error) => break error,
            Ok(()) => key += 1,
        }
        assert!(key < 90, "no commit meets the fault");
    };
    assert_eq!(doubtful.kind(), ErrorKind::Indeterminate);
    assert!(doubtful.to_string().contains("simulated disk"), "{doubtful}");

    for refused in [
        open.commit().map(drop),
        run.put(91, 10),
        run.db.begin().map(drop),
        run.db.checkpoint(),
        run.db.sync(),
        run.db.drop_table("t"),
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Latched, "{refused}");
        assert!(refused.to_string().contains("simulated disk"), "{refused}");
    }
    run.verify();
    assert_eq!(snapshot.range(&run.table, ..).unwrap().count(), 40);
    run.db.stats().unwrap();

    // Whatever a power loss leaves now has everything that was acknowledged.
    let random = &mut base::env::Random::seeded(1);
    for image in disk.images_now(&ImageKind::all(8), random) {
        let mut after = Run::on(&image.restore()).unwrap();
        after.model.get_mut("t").unwrap().remove(&key.to_be_bytes()[..]);
        assert!(after.model == run.model);
    }
    assert_eq!(run.db.close().unwrap_err().kind(), ErrorKind::Latched, "closing says so, too");
    let mut after = Run::on(&disk).unwrap();
    after.verify();
    after.put(41, 300).unwrap();
    after.reopened_on(&disk);
}

/// Whether a checkpoint fails whose `nth` sync does.
fn fails_at_sync(nth: u64) -> bool {
    let disk = disk();
    let mut run = Run::on(&disk).unwrap();
    run.fill(0..30, 300);
    disk.inject(once(CallKind::Sync, nth, FaultError::Io));
    let failed = run.db.checkpoint().is_err();
    disk.clear_faults();
    if failed {
        let refused = run.put(50, 10).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Latched, "{refused}");
    }
    run.verify();
    assert_eq!(run.db.close().is_err(), failed, "closing says so, too");
    let after = Run::on(&disk).unwrap();
    assert!(after.model == run.model);
    after.verify();
    failed
}

#[test]
fn a_failed_sync_of_the_data_file_latches() {
    // The first sync is the log's, unless nothing is unsynced; the second and third are the checkpoint's own. One of a
    // segment that the log's thread makes ready just then counts as well, and its failure stops nothing.
    for nth in 1..=3 {
        assert!((0..20).any(|_| fails_at_sync(nth)) || nth > 2);
    }
}

#[test]
fn a_failed_read_costs_that_read_only() {
    let disk = disk();
    let mut run = Run::on(&disk).unwrap();
    run.fill(0..200, 300);
    run.put(500, 50_000).unwrap();
    run.db.checkpoint().unwrap();
    let mut failures = 0;
    for nth in 1.. {
        // Cold: nothing is in the pool yet.
        run = run.reopened_cold(&disk);
        disk.inject(once(CallKind::Read, nth, FaultError::Io));
        let first = read_all(&run.db);
        disk.clear_faults();
        match first {
            Ok(data) => {
                assert!(data == run.model);
                break;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
        }
        failures += 1;
        run.verify();
        run.put(600 + nth as u32, 10).unwrap();
    }
    assert!(failures > 10, "{failures}");
}

/// A large value is read when the cursor comes to it. Where that fails, the one before must not show in its place, nor
/// may the next move go on from there.
#[test]
fn a_cursor_does_not_show_what_it_could_not_read() {
    let disk = disk();
    let mut run = Run::on(&disk).unwrap();
    run.fill(0..20, 10);
    run.put(10, 50_000).unwrap();
    run.db.checkpoint().unwrap();
    run = run.reopened_cold(&disk);
    let snapshot = run.db.snapshot().unwrap();
    let mut cursor = snapshot.cursor(&run.table, ..).unwrap();
    let first = cursor.next().unwrap().unwrap().0.to_vec();
    (1..10).for_each(|_| assert!(cursor.next().unwrap().is_some()));
    disk.inject(once(CallKind::Read, 1, FaultError::Io));
    assert_eq!(cursor.next().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(cursor.current(), None);
    assert_eq!(cursor.next().unwrap().map(|(key, _)| key.to_vec()), Some(first));
}

impl Run {
    fn reopened_cold(self, disk: &SimDisk) -> Run {
        let Run { db, model, .. } = self;
        db.close().unwrap();
        let db = builder().create_in(disk.dir()).unwrap();
        let table = db.table("t").unwrap().unwrap();
        Run { db, table, model }
    }
}

#[test]
fn a_failed_read_in_a_checkpoint_leaves_the_database_in_use() {
    let disk = disk();
    let mut run = Run::on(&disk).unwrap();
    run.fill(0..200, 300);
    run.db.checkpoint().unwrap();
    let mut failures = 0;
    for nth in 1.. {
        run = run.reopened_cold(&disk);
        let before = run.db.stats().unwrap();
        run.put(nth as u32 % 200, 250).unwrap();
        disk.inject(once(CallKind::Read, nth, FaultError::Io));
        let result = run.db.checkpoint();
        disk.clear_faults();
        let Err(error) = result else { break };
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        failures += 1;
        assert_eq!(run.db.stats().unwrap().data_used_bytes, before.data_used_bytes);
        run.verify();
        run.put(1000, 10).unwrap();
        run.db.checkpoint().unwrap();
        run.verify();
    }
    assert!(failures > 0);
}

/// One failed read must not end background checkpoints for good: memory would grow without bound.
#[test]
fn background_checkpoints_survive_a_failed_read() {
    let disk = disk();
    let mut run = Run::on(&disk).unwrap();
    run.fill(0..200, 300);
    run.db.checkpoint().unwrap();
    run = run.reopened_cold(&disk);
    run.fill(999..1000, 10); // the first commit reads the log's end
    disk.inject(once(CallKind::Read, 1, FaultError::Io));
    let mut key = 1000;
    while run.db.stats().unwrap().seals == 0 {
        run.fill(key..key + 10, 1000);
        key += 10;
    }
    wait_until("the failed read", || disk.faults_hit() > 0);
    wait_until("the next checkpoint", || run.db.stats().unwrap().sealed_memtables == 0);
    run.verify();
}

/// What one step of the script did.
enum Change {
    Put(&'static str, u32, usize),
    DeleteRange(&'static str, u32, u32),
    Drop(&'static str),
    Checkpoint,
    Read,
}

const SCRIPT: [Change; 15] = [
    Change::Put("a", 1, 100),
    Change::Put("b", 1, 6000),
    Change::Checkpoint,
    Change::Put("a", 2, 3000),
    Change::DeleteRange("a", 0, 2),
    Change::Read,
    Change::Put("a", 3, 9000),
    Change::Checkpoint,
    Change::Put("b", 7, 20),
    Change::Drop("b"),
    Change::Put("c", 9, 900),
    Change::Checkpoint,
    Change::Read,
    Change::Put("c", 10, 900),
    Change::Put("a", 1, 50),
];

/// Runs the script over a disk with a fault armed. Answers what the data may be afterwards: one state, and a second one
/// if a commit is in doubt. Stops at an error that is of no kind that a fault can cause.
fn play(disk: &SimDisk) -> Vec<Data> {
    let mut data = Data::new();
    let Ok(db) = builder().create_in(disk.dir()).map_err(expected) else { return vec![data] };
    for change in &SCRIPT {
        match play_one(&db, change, &data) {
            Ok(after) => data = after,
            Err((error, after)) => {
                if expected(error) == ErrorKind::Indeterminate {
                    return vec![data, after];
                }
            }
        }
        if let Ok(found) = read_all(&db).map_err(expected) {
            assert!(found == data, "what is read is not what was acknowledged");
        }
    }
    let _ = db.close().map_err(expected);
    vec![data]
}

#[allow(clippy::needless_pass_by_value)] // So that it can be handed to `map_err`.
fn expected(error: pando::Error) -> ErrorKind {
    let kind = error.kind();
    assert!(
        matches!(kind, ErrorKind::Io | ErrorKind::Full | ErrorKind::Latched | ErrorKind::Indeterminate),
        "{error:?}"
    );
    kind
}

/// Each step is one transaction, so that a table is made and written at once or not at all.
fn play_one(db: &Database, change: &Change, data: &Data) -> std::result::Result<Data, (pando::Error, Data)> {
    let mut after = data.clone();
    let done = match change {
        Change::Checkpoint => db.checkpoint(),
        Change::Read => db.check().map(drop),
        Change::Put(table, key, bytes) => {
            let (key, value) = (key.to_be_bytes(), vec![*key as u8; *bytes]);
            after.entry(table.to_string()).or_default().insert(key.to_vec(), value.clone());
            db.write(|tx| {
                let table = tx.ensure_table(table)?;
                tx.put(&table, &key, &value)
            })
        }
        Change::DeleteRange(table, from, to) => {
            let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
            if let Some(records) = after.get_mut(*table) {
                records.retain(|key, _| key[..] < from[..] || key[..] >= to[..]);
            }
            db.write(|tx| match tx.table(table)? {
                Some(table) => tx.delete_range(&table, &from[..]..&to[..]),
                None => Ok(()),
            })
        }
        Change::Drop(table) => {
            after.remove(*table);
            db.write(|tx| match tx.table(table)? {
                Some(table) => tx.drop_table(&table),
                None => Ok(()),
            })
        }
    };
    match done {
        Ok(()) => Ok(after),
        Err(error) => Err((error, after)),
    }
}

/// For every kind of call, lets the first one fail, then the second, and so on until a run meets no fault; once and for
/// good; as a failing and as a full disk. Then opens what is left, and what a power loss would have left.
#[test]
fn every_call_fails_in_turn() {
    let (mut runs, mut in_doubt) = (0, 0);
    for call in CallKind::EACH {
        for (error, sticky) in [
            (FaultError::Io, false),
            (FaultError::Io, true),
            (FaultError::Full, false),
            (FaultError::Full, true),
        ] {
            for nth in 1.. {
                let disk = disk();
                disk.inject(Fault { call, nth, sticky, error });
                let may_be = play(&disk);
                if disk.faults_hit() == 0 {
                    break;
                }
                disk.clear_faults();
                runs += 1;
                in_doubt += usize::from(may_be.len() > 1);
                let case = format!("{call:?} {nth}, {error:?}, sticky: {sticky}");
                let random = &mut base::env::Random::seeded(nth);
                let lost = disk.images_now(&[ImageKind::Nothing, ImageKind::Everything], random);
                let lost: Vec<_> = lost.map(|image| image.restore()).collect();
                for disk in [disk].iter().chain(&lost) {
                    let db =
                        builder().create_in(disk.dir()).unwrap_or_else(|error| panic!("{case}: {error:?}"));
                    let data = read_all(&db).unwrap();
                    assert!(may_be.contains(&data), "{case}: wrong data");
                    db.check().unwrap();
                    db.write(|tx| tx.create_table("after", &Default::default()).map(drop)).unwrap();
                    db.checkpoint().unwrap();
                    db.check().unwrap();
                }
            }
        }
    }
    println!("{runs} runs met a fault, {in_doubt} left a commit in doubt");
    assert!(runs > 100 && in_doubt > 5);
}
