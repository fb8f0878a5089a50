//! One behaviour for every directory: the system's, the one in memory, and the simulated disk with and without
//! mappings.

use base::env::Random;
use base::{ErrorKind, Result};
use pando_io::sim::SimDisk;
use pando_io::{Dir, File, MemDir, OsDir};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// A directory, and what keeps it alive.
struct Subject {
    dir: Arc<dyn Dir>,
    _home: Option<tempfile::TempDir>,
}

fn os() -> Subject {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = OsDir::create(home.path().join("deep/er")).expect("a directory in it");
    Subject { dir: Arc::new(dir), _home: Some(home) }
}

fn memory() -> Subject {
    Subject { dir: Arc::new(MemDir::new()), _home: None }
}

fn simulated() -> Subject {
    Subject { dir: SimDisk::new().dir(), _home: None }
}

fn simulated_without_maps() -> Subject {
    let disk = SimDisk::new();
    disk.set_maps(false);
    Subject { dir: disk.dir(), _home: None }
}

macro_rules! on_every_directory {
    ($($behaviour:ident),* $(,)?) => {
        on_every_directory!(@ os: $($behaviour),*);
        on_every_directory!(@ memory: $($behaviour),*);
        on_every_directory!(@ simulated: $($behaviour),*);
        on_every_directory!(@ simulated_without_maps: $($behaviour),*);
    };
    (@ $subject:ident: $($behaviour:ident),*) => {
        mod $subject {
            $(
                #[test]
                fn $behaviour() {
                    let subject = super::$subject();
                    super::$behaviour(&*subject.dir).expect("no call fails");
                }
            )*
        }
    };
}

on_every_directory!(
    names,
    plain_names_only,
    reads_and_writes,
    lengths,
    handles_outlive_names,
    locks,
    locks_of_files,
    names_that_lead_elsewhere,
    mappings,
    allocations,
    discards,
    a_file_is_a_vector,
    a_directory_is_a_map,
);

fn kind<T>(result: Result<T>) -> ErrorKind {
    result.err().expect("a refusal").kind()
}

fn bytes_of(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0xee; file.len().expect("a length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("all bytes");
    bytes
}

fn names(dir: &dyn Dir) -> Result<()> {
    assert_eq!(dir.list()?, [""; 0]);
    assert_eq!(kind(dir.open("a")), ErrorKind::Io);
    assert_eq!(kind(dir.remove("a")), ErrorKind::Io);
    assert_eq!(kind(dir.rename("a", "b")), ErrorKind::Io);
    assert_eq!(dir.create("b")?.name(), "b");
    dir.create("a")?.write_at(b"from a", 0)?;
    assert_eq!(kind(dir.create("a")), ErrorKind::Io);
    assert_eq!(dir.list()?, ["a", "b"]);
    dir.rename("a", "b")?;
    dir.rename("b", "b")?;
    assert_eq!(dir.list()?, ["b"]);
    assert_eq!(bytes_of(&*dir.open("b")?), b"from a");
    dir.remove("b")?;
    dir.sync()?;
    assert_eq!(dir.list()?, [""; 0]);
    assert!(!dir.describe().is_empty());
    let message = dir.open("gone").expect_err("it is gone").to_string();
    assert!(message.contains("gone"), "{message}");
    Ok(())
}

fn plain_names_only(dir: &dyn Dir) -> Result<()> {
    dir.create("plain")?;
    for name in ["", ".", "..", "a/b", "../a", "nul\0"] {
        assert_eq!(kind(dir.create(name)), ErrorKind::Invalid, "{name:?}");
        assert_eq!(kind(dir.open(name)), ErrorKind::Invalid, "{name:?}");
        assert_eq!(kind(dir.rename("plain", name)), ErrorKind::Invalid, "{name:?}");
        assert_eq!(kind(dir.rename(name, "plain")), ErrorKind::Invalid, "{name:?}");
        assert_eq!(kind(dir.remove(name)), ErrorKind::Invalid, "{name:?}");
        assert_eq!(kind(dir.lock(name)), ErrorKind::Invalid, "{name:?}");
    }
    Ok(())
}

fn reads_and_writes(dir: &dyn Dir) -> Result<()> {
    let file = dir.create("data")?;
    assert!(file.is_empty()?);
    file.write_at(b"", 100)?;
    assert_eq!(file.len()?, 0, "nothing written, nothing extended");
    file.write_at(b"world", 5)?;
    assert_eq!(bytes_of(&*file), b"\0\0\0\0\0world");
    file.write_at(b"hello", 0)?;
    file.sync()?;
    let mut four = [0; 4];
    assert_eq!(file.read_at(&mut four, 3)?, 4);
    assert_eq!(&four, b"lowo");
    assert_eq!(file.read_at(&mut four, 8)?, 2);
    assert_eq!(&four[..2], b"ld");
    assert_eq!(file.read_at(&mut four, 10)?, 0);
    for beyond in [1 << 40, i64::MAX as u64, u64::MAX] {
        assert_eq!(file.read_at(&mut four, beyond)?, 0);
        assert_eq!(kind(file.read_exact_at(&mut four, beyond)), ErrorKind::Corruption);
    }
    let short = file.read_exact_at(&mut four, 8).expect_err("two bytes are missing");
    assert_eq!(short.kind(), ErrorKind::Corruption);
    assert!(short.message().contains("data") && short.message().contains("10"), "{short}");
    assert_eq!(kind(file.write_at(b"far", u64::MAX - 1)), ErrorKind::Full);
    Ok(())
}

fn lengths(dir: &dyn Dir) -> Result<()> {
    let file = dir.create("data")?;
    file.write_at(&[7; 10_000], 0)?;
    file.set_len(5_000)?;
    file.set_len(9_000)?;
    let bytes = bytes_of(&*file);
    assert!(bytes.len() == 9_000 && bytes[..5_000].iter().all(|&byte| byte == 7));
    assert!(bytes[5_000..].iter().all(|&byte| byte == 0), "what was cut does not come back");
    assert_eq!(kind(file.set_len(u64::MAX)), ErrorKind::Full);
    assert_eq!(kind(file.set_len(i64::MAX as u64)), ErrorKind::Full, "longer than any file system allows");
    file.set_len(0)?;
    assert!(file.is_empty()?);
    Ok(())
}

fn handles_outlive_names(dir: &dyn Dir) -> Result<()> {
    let old = dir.create("old")?;
    old.write_at(b"old", 0)?;
    let new = dir.create("new")?;
    new.write_at(b"new", 0)?;
    dir.rename("new", "old")?;
    dir.sync()?;
    new.write_at(b"N", 0)?;
    assert_eq!(bytes_of(&*old), b"old", "the file that was replaced");
    assert_eq!(bytes_of(&*dir.open("old")?), b"New");
    dir.remove("old")?;
    dir.sync()?;
    new.write_at(b"still", 0)?;
    new.sync()?;
    assert_eq!(bytes_of(&*new), b"still");
    assert_eq!(kind(dir.open("old")), ErrorKind::Io);
    Ok(())
}

fn locks(dir: &dyn Dir) -> Result<()> {
    for _ in 0..2 {
        let held = dir.lock("lock")?;
        let refused = dir.lock("lock").expect_err("it is held");
        assert_eq!(refused.kind(), ErrorKind::Locked);
        assert!(refused.message().contains(&std::process::id().to_string()), "{refused}");
        let other = dir.lock("other")?;
        drop((held, other));
        let readers = (dir.lock_shared("lock")?, dir.lock_shared("lock")?);
        let refused = dir.lock("lock").expect_err("two share it");
        assert_eq!(refused.kind(), ErrorKind::Locked);
        assert!(refused.message().contains(&std::process::id().to_string()), "{refused}");
        drop(readers.0);
        assert_eq!(kind(dir.lock("lock")), ErrorKind::Locked, "one still shares it");
        drop(readers.1);
        let held = dir.lock("lock")?;
        assert_eq!(kind(dir.lock_shared("lock")), ErrorKind::Locked);
        drop(held);
    }
    Ok(())
}

fn names_that_lead_elsewhere(dir: &dyn Dir) -> Result<()> {
    let (data, log) = (dir.create("data")?, dir.create("log")?);
    dir.check_in_place(&[&*data, &*log])?;
    assert_eq!(data.id()?, dir.open("data")?.id()?);
    assert_ne!(data.id()?, log.id()?);
    dir.rename("log", "old")?;
    assert_eq!(kind(dir.check_in_place(&[&*data, &*log])), ErrorKind::Io, "no file has the name");
    dir.create("log")?;
    assert_eq!(kind(dir.check_in_place(&[&*log])), ErrorKind::Io, "another file has it");
    dir.check_in_place(&[&*data])?;
    dir.rename("old", "log")?;
    dir.check_in_place(&[&*data, &*log])?;
    dir.remove("data")?;
    assert_eq!(kind(dir.check_in_place(&[&*data])), ErrorKind::Io);
    Ok(())
}

fn locks_of_files(dir: &dyn Dir) -> Result<()> {
    assert_eq!(kind(dir.lock_existing("data")), ErrorKind::Io, "it makes none");
    dir.create("data")?.write_at(b"aspen", 0)?;
    let held = dir.lock_existing("data")?;
    let refused = dir.lock_existing("data").expect_err("it is held");
    assert_eq!(refused.kind(), ErrorKind::Locked);
    assert!(refused.message().contains(&std::process::id().to_string()), "{refused}");
    assert_eq!(kind(dir.lock_shared("data")), ErrorKind::Locked);
    drop(held);
    let readers = (dir.lock_shared("data")?, dir.lock_shared("data")?);
    assert_eq!(kind(dir.lock_existing("data")), ErrorKind::Locked);
    drop(readers);
    drop(dir.lock_existing("data")?);
    assert_eq!(bytes_of(&*dir.open("data")?), b"aspen", "its bytes stay");
    Ok(())
}

fn mappings(dir: &dyn Dir) -> Result<()> {
    let file = dir.create("log")?;
    assert_eq!(kind(file.map(1)), ErrorKind::Invalid, "shorter than the mapping");
    file.write_at(&[0; 8192], 0)?;
    let Some(map) = file.map(8192)? else { return Ok(()) };
    map.write(4090, b"aspen grove")?;
    map.write(8191, b"!")?;
    map.write(8192, b"")?;
    let mut bytes = [0; 11];
    file.read_exact_at(&mut bytes, 4090)?;
    assert_eq!(&bytes, b"aspen grove");
    assert_eq!(file.len()?, 8192);
    for (offset, len) in [(8192, 1), (8000, 193), (u64::MAX, 1)] {
        let beyond = std::panic::AssertUnwindSafe(|| map.write(offset, &vec![1; len]));
        assert!(std::panic::catch_unwind(beyond).is_err(), "{len} bytes at {offset}");
    }
    drop(file);
    map.write(0, b"alive")?; // a mapping keeps its file
    assert_eq!(&bytes_of(&*dir.open("log")?)[..5], b"alive");
    assert_eq!(bytes_of(&*dir.open("log")?)[8191], b'!');
    dir.open("log")?.sync()
}

fn allocations(dir: &dyn Dir) -> Result<()> {
    let file = dir.create("log")?;
    file.write_at(b"aspen", 0)?;
    assert_eq!(kind(file.allocate(u64::MAX)), ErrorKind::Full);
    if !file.allocate(8192)? {
        assert!(file.len()? == 5 && file.map(5)?.is_none(), "nothing done, and no mapping to need it");
        return Ok(());
    }
    let bytes = bytes_of(&*file);
    assert!(bytes.len() == 8192 && &bytes[..5] == b"aspen" && bytes[5..].iter().all(|&byte| byte == 0));
    if let Some(map) = file.map(8192)? {
        map.write(4090, b"aspen grove")?;
    }
    assert!(file.allocate(4096)?);
    assert_eq!(file.len()?, 8192, "nothing is cut");
    file.set_len(0)?;
    file.set_len(9000)?;
    assert!(file.allocate(9000)? && bytes_of(&*file) == [0; 9000], "holes get room, too");
    Ok(())
}

fn discards(dir: &dyn Dir) -> Result<()> {
    let file = dir.create("data")?;
    file.write_at(&[7; 20_000], 0)?;
    file.discard(4096, 8192)?;
    file.discard(19_000, 100_000)?;
    file.discard(1 << 30, 4096)?;
    file.discard(0, 0)?;
    assert_eq!(kind(file.discard(4096, u64::MAX)), ErrorKind::Full);
    let bytes = bytes_of(&*file);
    assert_eq!(bytes.len(), 20_000, "the length stays");
    assert!(bytes[..4096].iter().chain(&bytes[12_288..19_000]).all(|&byte| byte == 7));
    assert!(bytes.iter().all(|&byte| byte == 7 || byte == 0));
    file.write_at(&[8; 100], 6000)?;
    assert_eq!(bytes_of(&*file)[6000..6100], [8; 100]);
    Ok(())
}

fn a_file_is_a_vector(dir: &dyn Dir) -> Result<()> {
    let mut random = Random::seeded(42);
    let file = dir.create("data")?;
    let mut model = Vec::new();
    for step in 0..300_u64 {
        let offset = random.below(40_000) as usize;
        match random.below(8) {
            0 => {
                file.set_len(offset as u64)?;
                model.resize(offset, 0);
            }
            1 => file.sync()?,
            _ => {
                let bytes = vec![step as u8; 1 + random.below(9_000) as usize];
                file.write_at(&bytes, offset as u64)?;
                model.resize(model.len().max(offset + bytes.len()), 0);
                model[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
        }
        assert_eq!(file.len()?, model.len() as u64);
        let mut some = vec![0; random.below(5_000) as usize];
        let read = file.read_at(&mut some, offset as u64)?;
        let rest = model.get(offset..).unwrap_or_default();
        assert_eq!(some[..read], rest[..some.len().min(rest.len())]);
    }
    assert_eq!(bytes_of(&*file), model);
    Ok(())
}

fn a_directory_is_a_map(dir: &dyn Dir) -> Result<()> {
    let mut random = Random::seeded(7);
    let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for step in 0..300_u64 {
        let [a, b] = std::array::from_fn(|_| format!("file-{}", random.below(6)));
        match random.below(4) {
            0 => match dir.create(&a) {
                Ok(file) => {
                    file.write_at(&step.to_le_bytes(), 0)?;
                    assert!(model.insert(a, step.to_le_bytes().into()).is_none());
                }
                Err(error) => assert!(error.kind() == ErrorKind::Io && model.contains_key(&a)),
            },
            1 => match dir.rename(&a, &b) {
                Ok(()) => {
                    let bytes = model.remove(&a).expect("the model has it too");
                    model.insert(b, bytes);
                }
                Err(error) => assert!(error.kind() == ErrorKind::Io && !model.contains_key(&a)),
            },
            2 => assert_eq!(dir.remove(&a).is_ok(), model.remove(&a).is_some()),
            _ => dir.sync()?,
        }
        assert_eq!(dir.list()?, model.keys().cloned().collect::<Vec<_>>());
    }
    for (name, bytes) in model {
        assert_eq!(bytes_of(&*dir.open(&name)?), bytes);
    }
    Ok(())
}

#[test]
fn a_directory_of_the_system_is_opened_and_created() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let path = home.path().join("a/b/c");
    assert_eq!(kind(OsDir::open(&path)), ErrorKind::Missing);
    OsDir::create(&path)?.create("data")?.write_at(b"kept", 0)?;
    let again = OsDir::create(&path)?;
    assert_eq!(bytes_of(&*again.open("data")?), b"kept");
    std::fs::create_dir(path.join("lost+found")).expect("a directory");
    assert_eq!(again.list()?, ["data"], "directories are not files");
    assert!(again.describe().ends_with("a/b/c"));
    assert_eq!(kind(OsDir::open(path.join("data"))), ErrorKind::Invalid, "a file is no directory");
    let message = again.open("gone").expect_err("it is gone").to_string();
    assert!(message.contains("open") && message.contains("a/b/c/gone"), "{message}");
    Ok(())
}

#[test]
fn a_lock_excludes_other_handles_and_outlives_a_stale_file() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (first, second) = (OsDir::open(home.path())?, OsDir::open(home.path())?);
    let held = first.lock("lock")?;
    assert_eq!(kind(second.lock("lock")), ErrorKind::Locked);
    drop(held);
    // What a killed owner leaves: its number in the file, and no lock.
    std::fs::write(home.path().join("lock"), "4000000000").expect("a lock file");
    let held = second.lock("lock")?;
    let message = first.lock("lock").expect_err("it is held").to_string();
    assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
    drop(held);
    std::fs::write(home.path().join("lock"), "4000000000").expect("a lock file");
    let held = second.lock_shared("lock")?;
    let message = first.lock("lock").expect_err("it is shared").to_string();
    if cfg!(target_os = "linux") {
        assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
    }
    drop(held);
    let left = std::fs::read(home.path().join("lock")).expect("a lock file");
    assert_eq!(left, b"4000000000", "who shares a lock writes nothing");
    Ok(())
}

const LOCK_HOME: &str = "PANDO_TEST_LOCK_HOME";

/// Run by the test below in a process of its own: takes the lock, says so, and waits to be killed.
#[test]
fn holds_a_lock_in_another_process() -> Result<()> {
    let Ok(home) = std::env::var(LOCK_HOME) else { return Ok(()) };
    let _held = OsDir::open(home)?.lock("lock")?;
    println!("\nheld");
    let _ = std::io::stdin().read_line(&mut String::new());
    Ok(())
}

#[test]
fn a_lock_names_its_process_and_dies_with_it() -> Result<()> {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = OsDir::open(home.path())?;
    let mut owner = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "behaviour::holds_a_lock_in_another_process", "--nocapture"])
        .env(LOCK_HOME, home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("another process");
    let lines = BufReader::new(owner.stdout.take().expect("it is piped")).lines();
    assert!(lines.map_while(|line| line.ok()).any(|line| line == "held"));
    let refused = dir.lock("lock").expect_err("the other process has it");
    assert_eq!(refused.kind(), ErrorKind::Locked);
    assert!(refused.message().contains(&format!("process {}", owner.id())), "{refused}");
    owner.kill().expect("it is still there");
    owner.wait().expect("its end");
    dir.lock("lock").map(drop)
}

#[test]
#[cfg(target_os = "linux")]
fn stores_through_a_mapping_reach_other_handles_of_the_system() -> Result<()> {
    let subject = os();
    let file = subject.dir.create("log")?;
    file.write_at(&[0; 65_536], 0)?;
    // Not every file system is fit for it; where the tests run, one may not be.
    let Some(map) = file.map(65_536)? else { return Ok(()) };
    let map = &map;
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            scope.spawn(move || {
                for block in (0..512).filter(|block| block % 4 == u64::from(thread)) {
                    map.write(block * 128 + 1, &[thread + 1; 126]).expect("a file system at work");
                }
            });
        }
    });
    let bytes = bytes_of(&*subject.dir.open("log")?);
    for (block, bytes) in bytes.chunks(128).enumerate() {
        assert!(bytes[1..127].iter().all(|&byte| byte == (block % 4 + 1) as u8));
        assert_eq!((bytes[0], bytes[127]), (0, 0));
    }
    file.sync()
}

/// A process that has a file open keeps it when it is removed, and where there is time its room goes back bit by bit.
#[test]
fn a_long_file_goes_in_pieces_where_there_is_time() {
    const MIB: u64 = 1 << 20;
    let subject = os();
    for is_throttled in [false, true] {
        let file = subject.dir.create("long").unwrap();
        file.set_len(8 * MIB).unwrap();
        let (lengths, seen) = (Rc::new(RefCell::new(Vec::new())), Arc::clone(&file));
        let noted = Rc::clone(&lengths);
        let pause = move || noted.borrow_mut().push(seen.len().unwrap() / MIB);
        if is_throttled {
            base::background::throttled(Rc::new(pause), || subject.dir.remove("long")).unwrap();
            assert_eq!(*lengths.borrow(), [7, 6, 5, 4, 3, 2, 1]);
        } else {
            subject.dir.remove("long").unwrap();
            assert_eq!(file.len().unwrap(), 8 * MIB);
        }
        assert!(subject.dir.list().unwrap().is_empty());
    }
}

#[test]
fn a_long_write_comes_in_pieces_where_there_is_time() {
    const KIB: u64 = 1 << 10;
    let subject = os();
    let written: Vec<u8> = (0..200 * KIB).map(|i| (i / KIB) as u8).collect();
    for is_throttled in [false, true] {
        let file = subject.dir.create("long").unwrap();
        let (lengths, seen) = (Rc::new(RefCell::new(Vec::new())), Arc::clone(&file));
        let noted = Rc::clone(&lengths);
        let pause = move || noted.borrow_mut().push(seen.len().unwrap() / KIB);
        if is_throttled {
            base::background::throttled(Rc::new(pause), || file.write_at(&written, 8 * KIB)).unwrap();
            assert_eq!(*lengths.borrow(), [72, 136, 200]);
        } else {
            file.write_at(&written, 8 * KIB).unwrap();
        }
        let mut read = vec![0; written.len()];
        file.read_exact_at(&mut read, 8 * KIB).unwrap();
        assert!(read == written);
        assert_eq!(file.len().unwrap(), 208 * KIB);
        subject.dir.remove("long").unwrap();
    }
}

#[test]
fn a_file_that_somebody_has_linked_to_is_not_cut() {
    let dir = tempfile::tempdir().unwrap();
    let subject = OsDir::open(dir.path()).unwrap();
    let kept = dir.path().join("kept");
    subject.create("long").unwrap().set_len(8 << 20).unwrap();
    std::fs::hard_link(dir.path().join("long"), &kept).unwrap();
    base::background::throttled(Rc::new(|| ()), || subject.remove("long")).unwrap();
    assert_eq!(kept.metadata().unwrap().len(), 8 << 20);
}
