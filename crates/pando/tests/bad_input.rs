//! Damaged, mixed up and foreign files: detected or harmless, never wrong data, never a panic.
//!
//! Each case takes the files of a small database, damages them, opens what is left and reads everything. It passes if
//! opening or reading answers `Corruption` or `Foreign`, or if all that is read is right. "Right" is the last state;
//! or, where the log was not closed and damage at its end cannot be distinguished from a torn write, the one before.
//!
//! By default every 101st byte is flipped; `PANDO_FLIP_EVERY=1` flips each. This is a program of its own, as the tests
//! replace the panic hook of the process, and bound its peak of memory.

mod support;

use io::Dir;
use pando::{Database, ErrorKind, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Data, Files, dir_of, means_bad_files, new_block, read_all, small};

const UNIT: usize = 4096;

/// The files that a database left, and what they may be read as.
struct Sample {
    name: &'static str,
    files: Files,
    right: Vec<Data>,
    /// What the data was before, the newest last: what may be left where the very end of the log is gone.
    before: Vec<Data>,
    /// Where the log's last block begins: its segment and the offset in it.
    last_block: (String, usize),
    /// The data file at earlier moments.
    older: Vec<Vec<u8>>,
}

impl Sample {
    /// What may be read where the bytes `lost` of file `name` are gone. Without the log's last block the blocks right
    /// before it have nothing that vouches for them: see the known limits in `docs/durability.md`.
    fn right_without(&self, name: &str, lost: &Range<usize>) -> Vec<Data> {
        let mut right = self.right.clone();
        if self.last_block.0 == name && lost.contains(&self.last_block.1) {
            right.extend(self.before.iter().rev().cloned());
        }
        right
    }
}

/// How a sample's process ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Killed,
    /// Killed, recovered, written to and killed again: its log has two generations.
    KilledTwice,
}

/// Builds a sample, noting the data after every commit.
struct Making {
    db: Database,
    states: Vec<Data>,
}

impl Making {
    fn commit(&mut self, work: impl Fn(&mut pando::Transaction) -> Result<()>) {
        self.db.write(|tx| work(tx)).unwrap();
        self.states.push(read_all(&self.db).unwrap());
    }

    fn fill(&mut self, table: &str, keys: Range<u32>, value_bytes: usize) {
        let table = self.db.ensure_table(table).unwrap();
        self.commit(|tx| {
            keys.clone().try_for_each(|key| {
                let value: Vec<u8> = (0..value_bytes as u32).map(|i| (i * 31 + key) as u8).collect();
                tx.put(&table, &key.to_be_bytes(), &value)
            })
        });
    }
}

fn sample(name: &'static str, end: End, checkpointed: bool) -> Sample {
    let dir = dir_of(&Files::new());
    let db = small().page_bytes(UNIT).create_in(dir.clone()).unwrap();
    let mut making = Making { db, states: Vec::new() };
    let mut older = vec![dir.files()["data"].clone()];
    making.fill("large", 0..3, 5000);
    making.fill("small", 0..200, 40);
    if checkpointed {
        making.db.checkpoint().unwrap();
        older.push(dir.files()["data"].clone());
    }
    making.fill("middle", 0..60, 300);
    let small_table = making.db.ensure_table("small").unwrap();
    making.commit(|tx| tx.delete_range(&small_table, &50u32.to_be_bytes()[..]..&80u32.to_be_bytes()[..]));
    making.fill("large", 2..4, 9000);
    if checkpointed {
        making.db.checkpoint().unwrap();
        older.push(dir.files()["data"].clone());
    }
    for i in 0..6 {
        making.fill("small", i * 40..i * 40 + 5, 100);
    }
    let mut before = dir.files();
    making.commit(|tx| tx.delete(&small_table, &7u32.to_be_bytes()));
    let mut files = dir.files();
    match end {
        End::Killed => drop(making.db),
        End::Closed => {
            making.db.close().unwrap();
            before = std::mem::replace(&mut files, dir.files());
        }
        End::KilledTwice => {
            let dir = dir_of(&files);
            making.db = small().create_in(dir.clone()).unwrap();
            making.fill("small", 300..320, 60);
            before = dir.files();
            making.fill("small", 320..340, 60);
            files = dir.files();
        }
    }
    let mut right = vec![making.states.pop().unwrap()];
    if end != End::Closed {
        right.push(making.states.pop().unwrap());
    }
    older.retain(|older| *older != files["data"]);
    let last_block = new_block(&before, &files);
    Sample { name, files, right, before: making.states, last_block, older }
}

fn samples() -> Vec<Sample> {
    vec![
        sample("closed", End::Closed, true),
        sample("killed", End::Killed, true),
        sample("killed twice", End::KilledTwice, true),
        sample("closed, log only", End::Closed, false),
        sample("killed, log only", End::Killed, false),
    ]
}

/// Panics of the engine's own threads, which no test sees otherwise.
fn panics() -> usize {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name().is_some_and(|name| name.starts_with("pando-")) {
                SEEN.fetch_add(1, Ordering::SeqCst);
            }
            before(info);
        }));
    });
    SEEN.load(Ordering::SeqCst)
}

/// How a case came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Refused,
    FoundReading,
    FoundChecking,
    Harmless,
    LastCommitLost,
}

/// Opens `files`, reads everything, checks, writes, and reads again.
fn judge(files: &Files, right: &[Data], case: &str) -> Verdict {
    let before = panics();
    let verdict = judge_calmly(files, right, case);
    assert_eq!(panics(), before, "{case}: a thread panicked");
    verdict
}

/// As [`judge`]; and where the damage did no harm, goes on with what was opened: it must not do harm later.
fn judge_and_go_on(files: &Files, right: &[Data], case: &str) -> Verdict {
    let verdict = judge(files, right, case);
    if matches!(verdict, Verdict::Harmless | Verdict::LastCommitLost) {
        go_on(files).unwrap_or_else(|error| panic!("{case}: harmless at first, but then {error:?}"));
    }
    verdict
}

fn go_on(files: &Files) -> Result<()> {
    let dir = dir_of(files);
    let db = small().create_in(dir.clone())?;
    let table = db.ensure_table("small")?;
    for round in 0..3u8 {
        db.write(|tx| (0..50u8).try_for_each(|key| tx.put(&table, &[key, round], &[key; 200])))?;
        db.checkpoint()?;
        db.check()?;
    }
    let data = read_all(&db)?;
    db.close()?;
    let db = small().create_in(dir)?;
    db.check()?;
    assert!(data == read_all(&db)?);
    Ok(())
}

fn judge_calmly(files: &Files, right: &[Data], case: &str) -> Verdict {
    let dir = dir_of(files);
    let typed = |error: pando::Error| {
        assert!(means_bad_files(error.kind()), "{case}: {error:?}");
    };
    let db = match small().create_in(dir) {
        Ok(db) => db,
        Err(error) => {
            typed(error);
            return Verdict::Refused;
        }
    };
    let data = match read_all(&db) {
        Ok(data) => data,
        Err(error) => {
            typed(error);
            return Verdict::FoundReading;
        }
    };
    let Some(age) = right.iter().position(|right| *right == data) else {
        panic!("{case}: wrong data, {:?}", shape(&data));
    };
    if let Err(error) = db.check() {
        typed(error);
        return Verdict::FoundChecking;
    }
    if age == 0 { Verdict::Harmless } else { Verdict::LastCommitLost }
}

fn shape(data: &Data) -> BTreeMap<&str, usize> {
    data.iter().map(|(table, records)| (&table[..], records.len())).collect()
}

/// Counts verdicts, to show that a test reaches what it is for.
#[derive(Debug, Default)]
struct Tally(BTreeMap<Verdict, usize>);

impl Tally {
    fn add(&mut self, verdict: Verdict) {
        *self.0.entry(verdict).or_default() += 1;
    }

    fn of(&self, verdict: Verdict) -> usize {
        self.0.get(&verdict).copied().unwrap_or(0)
    }
}

fn flip_every() -> usize {
    std::env::var("PANDO_FLIP_EVERY").map_or(101, |every| every.parse().expect("a number"))
}

#[test]
fn undamaged_files_are_read_whole() {
    for sample in samples() {
        let sizes: Vec<_> = sample.files.iter().map(|(name, bytes)| (name, bytes.len())).collect();
        println!("{}: {sizes:?} {:?}", sample.name, shape(&sample.right[0]));
        assert_eq!(judge(&sample.files, &sample.right[..1], sample.name), Verdict::Harmless);
    }
}

#[test]
fn every_byte_flipped_in_turn() {
    for sample in samples() {
        let mut tally = Tally::default();
        for (name, bytes) in &sample.files {
            for at in (0..bytes.len()).step_by(flip_every()) {
                let mut files = sample.files.clone();
                files.get_mut(name).unwrap()[at] ^= 1 << (at % 8);
                tally.add(judge(&files, &sample.right, &format!("{}: {name} at {at}", sample.name)));
            }
        }
        println!("{}: {tally:?}", sample.name);
        assert!(tally.of(Verdict::Refused) > 0 && tally.of(Verdict::Harmless) > 0);
    }
    // No length that a flipped bit makes is believed before it is checked.
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kib < 256 << 10, "the peak of memory was {kib} KiB");
    }
}

#[test]
fn zeroed_sectors() {
    for sample in samples() {
        let mut tally = Tally::default();
        for (name, bytes) in &sample.files {
            for at in (0..bytes.len()).step_by(512) {
                let mut files = sample.files.clone();
                let end = (at + 512).min(bytes.len());
                files.get_mut(name).unwrap()[at..end].fill(0);
                let case = format!("{}: {name} zeroed at {at}", sample.name);
                tally.add(judge_and_go_on(&files, &sample.right_without(name, &(at..end)), &case));
            }
        }
        println!("{}: {tally:?}", sample.name);
    }
}

#[test]
fn files_cut_at_every_sector() {
    for sample in samples() {
        let mut tally = Tally::default();
        for (name, bytes) in &sample.files {
            for at in (0..bytes.len()).step_by(512) {
                let mut files = sample.files.clone();
                files.get_mut(name).unwrap().truncate(at);
                tally.add(judge_and_go_on(
                    &files,
                    &sample.right,
                    &format!("{}: {name} cut at {at}", sample.name),
                ));
            }
        }
        println!("{}: {tally:?}", sample.name);
    }
}

#[test]
fn two_pages_swapped() {
    for sample in samples() {
        let mut tally = Tally::default();
        let units = sample.files["data"].len() / UNIT;
        for (a, b) in (0..units).flat_map(|b| (0..b).map(move |a| (a, b))) {
            let mut files = sample.files.clone();
            let data = files.get_mut("data").unwrap();
            let (front, back) = data.split_at_mut(b * UNIT);
            front[a * UNIT..(a + 1) * UNIT].swap_with_slice(&mut back[..UNIT]);
            tally.add(judge_and_go_on(
                &files,
                &sample.right,
                &format!("{}: units {a} and {b} swapped", sample.name),
            ));
        }
        println!("{}: {tally:?}", sample.name);
    }
}

#[test]
fn a_page_as_it_once_was() {
    for sample in samples() {
        let mut tally = Tally::default();
        for (version, older) in sample.older.iter().enumerate() {
            for at in (0..older.len().min(sample.files["data"].len())).step_by(UNIT) {
                let mut files = sample.files.clone();
                let data = files.get_mut("data").unwrap();
                let end = (at + UNIT).min(older.len()).min(data.len());
                data[at..end].copy_from_slice(&older[at..end]);
                let case = format!("{}: unit {} of version {version}", sample.name, at / UNIT);
                tally.add(judge_and_go_on(&files, &sample.right, &case));
            }
            let mut files = sample.files.clone();
            files.insert("data".into(), older.clone());
            let case = format!("{}: the data file of version {version}", sample.name);
            tally.add(judge_and_go_on(&files, &sample.right, &case));
        }
        println!("{}: {tally:?}", sample.name);
    }
}

#[test]
fn files_that_are_gone() {
    for sample in samples() {
        let mut tally = Tally::default();
        for name in sample.files.keys().filter(|name| *name != "lock") {
            let mut files = sample.files.clone();
            files.remove(name);
            tally.add(judge_and_go_on(&files, &sample.right, &format!("{}: without {name}", sample.name)));
        }
        println!("{}: {tally:?}", sample.name);
        assert!(
            tally.of(Verdict::Refused) >= 2,
            "neither the data file nor the newest segment can be missing"
        );
    }
}

#[test]
fn files_that_do_not_belong_there_are_let_be() {
    for mut sample in samples() {
        let strangers = ["notes.txt", "data.bak", "log-notes", "log-00000000000000zz", ".hidden"];
        sample.files.extend(strangers.iter().map(|name| (name.to_string(), b"not ours".to_vec())));
        assert_eq!(judge(&sample.files, &sample.right[..1], sample.name), Verdict::Harmless);
        let dir = dir_of(&sample.files);
        let db = small().create_in(dir.clone()).unwrap();
        let table = db.ensure_table("small").unwrap();
        db.put(&table, b"k", b"v").unwrap();
        db.checkpoint().unwrap();
        db.close().unwrap();
        for name in strangers {
            assert_eq!(dir.files()[name], b"not ours", "{name}");
        }
    }
}

#[test]
fn the_log_or_the_data_file_of_another_database() {
    let (ours, theirs) = (samples(), samples());
    for (ours, theirs) in ours.iter().flat_map(|ours| theirs.iter().map(move |theirs| (ours, theirs))) {
        let case = format!("{} with the log of another, {}", ours.name, theirs.name);
        let is_log = |name: &str| name.starts_with("log-");
        let mut files = ours.files.clone();
        files.retain(|name, _| !is_log(name));
        files.extend(theirs.files.clone().into_iter().filter(|(name, _)| is_log(name)));
        let error = small().create_in(dir_of(&files)).unwrap_err();
        assert!(means_bad_files(error.kind()), "{case}: {error:?}");

        let mut files = ours.files.clone();
        files.insert("data".into(), theirs.files["data"].clone());
        let error = small().create_in(dir_of(&files)).unwrap_err();
        assert!(means_bad_files(error.kind()), "{case}: {error:?}");

        // One file of another database among ours.
        for (name, bytes) in theirs.files.iter().filter(|(name, _)| is_log(name)) {
            let mut files = ours.files.clone();
            files.insert(name.clone(), bytes.clone());
            judge(&files, &ours.right, &format!("{}: {name} of another database", ours.name));
        }
    }
}

#[test]
fn a_log_of_another_database_is_called_foreign() {
    let (ours, theirs) = (sample("ours", End::Closed, false), sample("theirs", End::Closed, false));
    let mut files = theirs.files;
    files.insert("data".into(), ours.files["data"].clone());
    let error = small().create_in(dir_of(&files)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(error.to_string().contains("another database"), "{error}");
}

/// Superblocks lie in the first two units; the newer one, of checkpoint 2, in the first.
#[test]
fn a_lost_superblock() {
    let two = sample("two checkpoints", End::Closed, true);
    let wreck = |unit: usize| {
        let mut files = two.files.clone();
        files.get_mut("data").unwrap()[unit * UNIT..(unit + 1) * UNIT].fill(0xee);
        files
    };
    let error = small().create_in(dir_of(&wreck(0))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(judge(&wreck(1), &two.right, "the older superblock lost"), Verdict::Harmless);

    // With no checkpoint there is only the one that creation wrote.
    let none = sample("no checkpoint", End::Closed, false);
    let mut files = none.files.clone();
    files.get_mut("data").unwrap()[..UNIT].fill(0);
    let error = small().create_in(dir_of(&files)).unwrap_err();
    assert!(means_bad_files(error.kind()), "{error:?}");
}

#[test]
fn a_newer_format_is_named() {
    let sample = sample("newer", End::Closed, true);
    let mut files = sample.files.clone();
    for slot in 0..2 {
        let bytes = &mut files.get_mut("data").unwrap()[slot * UNIT..][..168];
        bytes[8] = 2;
        let sum = base::checksum::header(&bytes[..160]);
        bytes[160..].copy_from_slice(&sum.to_le_bytes());
    }
    let error = small().create_in(dir_of(&files)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign);
    assert!(error.to_string().contains("format 2"), "{error}");
}

#[test]
fn data_files_that_are_none() {
    let sample = sample("none", End::Closed, true);
    let sqlite = [b"SQLite format 3\0".to_vec(), vec![7; 9000]].concat();
    for (what, bytes) in
        [("empty", Vec::new()), ("SQLite", sqlite), ("zeros", vec![0; 16384]), ("short", vec![1])]
    {
        let mut files = sample.files.clone();
        files.insert("data".into(), bytes.clone());
        let error = small().create_in(dir_of(&files)).unwrap_err();
        assert!(means_bad_files(error.kind()), "{what}: {error:?}");
        // Alone in its directory as well: it is never taken for a place to begin a database in.
        let alone = Files::from([("data".to_owned(), bytes)]);
        let dir = dir_of(&alone);
        let error = small().create_in(dir.clone()).unwrap_err();
        assert!(means_bad_files(error.kind()), "{what}: {error:?}");
        assert_eq!(dir.files()["data"], alone["data"], "{what}: it was changed");
    }
}

#[test]
fn what_was_found_bad_is_not_made_worse() {
    let sample = sample("killed", End::Killed, true);
    let segment = sample.files.keys().rfind(|name| name.starts_with("log-")).unwrap();
    for name in ["data", segment] {
        let mut files = sample.files.clone();
        files.get_mut(name).unwrap()[..UNIT].fill(0xee);
        let dir = dir_of(&files);
        if small().create_in(dir.clone()).is_err() {
            assert!(
                dir.files().iter().filter(|(name, _)| *name != "lock").all(|(name, now)| files[name] == *now)
            );
        }
        // The lock is let go of.
        assert!(dir.lock("lock").is_ok());
    }
}
