//! Calls that fail, syncs that lose, and a disk that fills up.

use crate::common::disk_with;
use base::{ErrorKind, Result};
use pando_io::sim::{CallKind, Fate, Fault, FaultError, SimDisk};

fn fail(disk: &SimDisk, call: CallKind, nth: u64) {
    disk.inject(Fault { call, nth, sticky: false, error: FaultError::Io });
}

fn kind<T>(result: Result<T>) -> ErrorKind {
    result.err().expect("a refusal").kind()
}

fn durable(disk: &SimDisk, name: &str) -> Option<Vec<u8>> {
    disk.image(disk.event_count(), Fate::Nothing).read(name)
}

#[test]
fn each_kind_of_call_is_counted_and_fails_alone() -> Result<()> {
    for call in CallKind::EACH {
        let (disk, file) = disk_with(&[1; 8192])?;
        let dir = disk.dir();
        let map = file.map(4096)?.expect("the simulated disk maps");
        let every: [(CallKind, &dyn Fn() -> Result<()>); CallKind::EACH.len()] = [
            (CallKind::Create, &|| dir.create("new").map(drop)),
            (CallKind::Open, &|| dir.open("f").map(drop)),
            (CallKind::Rename, &|| dir.rename("f", "f")),
            (CallKind::Remove, &|| dir.create("gone").and_then(|_| dir.remove("gone"))),
            (CallKind::List, &|| dir.list().map(drop)),
            (CallKind::DirSync, &|| dir.sync()),
            (CallKind::Lock, &|| dir.lock("lock").map(drop)),
            (CallKind::Read, &|| file.read_exact_at(&mut [0; 10], 0)),
            (CallKind::InPlace, &|| dir.check_in_place(&[&*file])),
            (CallKind::Write, &|| file.write_at(b"x", 0)),
            (CallKind::Store, &|| map.write(0, b"x")),
            (CallKind::Resize, &|| file.set_len(8192)),
            (CallKind::Allocate, &|| file.allocate(100).map(drop)),
            (CallKind::Sync, &|| file.sync()),
            (CallKind::Map, &|| file.map(100).map(drop)),
            (CallKind::Discard, &|| file.discard(0, 1)),
        ];
        fail(&disk, call, 1);
        for (made, act) in every {
            let before = (disk.calls(made), disk.calls(CallKind::Any));
            let result = act();
            assert_eq!(result.is_err(), made == call, "{made:?} with a fault at {call:?}: {result:?}");
            assert_eq!(disk.calls(made), before.0 + 1);
            assert!(disk.calls(CallKind::Any) > before.1);
            if made == call {
                let error = result.expect_err("injected");
                assert_eq!(error.kind(), ErrorKind::Io);
                assert!(std::error::Error::source(&error).is_some());
            }
        }
        assert_eq!(disk.faults_hit(), 1);
    }
    Ok(())
}

#[test]
fn the_nth_call_fails_once_or_from_then_on() -> Result<()> {
    let (disk, file) = disk_with(b"base")?;
    fail(&disk, CallKind::Sync, 3);
    let results: Vec<bool> = (0..5).map(|_| file.sync().is_ok()).collect();
    assert_eq!(results, [true, true, false, true, true]);
    disk.inject(Fault { call: CallKind::Any, nth: 2, sticky: true, error: FaultError::Full });
    file.read_exact_at(&mut [0; 4], 0)?;
    assert_eq!(kind(file.write_at(b"x", 0)), ErrorKind::Full);
    assert_eq!(kind(disk.dir().list()), ErrorKind::Full);
    assert_eq!(disk.faults_hit(), 3);
    disk.clear_faults();
    file.write_at(b"x", 0)
}

#[test]
fn a_failed_write_has_written_a_part_and_other_failed_calls_nothing() -> Result<()> {
    let (disk, file) = disk_with(&[0; 4096])?;
    fail(&disk, CallKind::Write, 1);
    let message = file.write_at(&[1; 4096], 0).expect_err("injected").to_string();
    assert!(message.contains("4096 bytes at 0 of f"), "{message}");
    let mut bytes = [0; 4096];
    file.read_exact_at(&mut bytes, 0)?;
    assert!(bytes[..2048] == [1; 2048] && bytes[2048..] == [0; 2048]);
    for call in [CallKind::Create, CallKind::Rename, CallKind::Remove, CallKind::Resize, CallKind::DirSync] {
        fail(&disk, call, 1);
    }
    let (events, dir) = (disk.event_count(), disk.dir());
    assert_eq!(kind(dir.create("g")), ErrorKind::Io);
    assert_eq!(kind(dir.rename("f", "g")), ErrorKind::Io);
    assert_eq!(kind(dir.remove("f")), ErrorKind::Io);
    assert_eq!(kind(file.set_len(0)), ErrorKind::Io);
    assert_eq!(kind(dir.sync()), ErrorKind::Io);
    assert_eq!((disk.event_count(), file.len()?, dir.list()?), (events, 4096, vec!["f".to_string()]));
    Ok(())
}

#[test]
fn what_was_pending_when_a_sync_failed_stays_losable() -> Result<()> {
    let (disk, file) = disk_with(b"base")?;
    file.write_at(b"lost", 0)?;
    fail(&disk, CallKind::Sync, 1);
    assert_eq!(kind(file.sync()), ErrorKind::Io);
    file.sync()?;
    file.sync()?;
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, 0)?;
    assert_eq!(&bytes, b"lost", "the cache has it");
    assert_eq!(durable(&disk, "f").as_deref(), Some(&b"base"[..]), "the disk need not");
    let kept = disk.image(disk.event_count(), Fate::Everything);
    assert_eq!(kept.read("f").as_deref(), Some(&b"lost"[..]), "but it may");

    file.write_at(b"los", 0)?; // the same bytes again, but not all
    file.sync()?;
    assert_eq!(durable(&disk, "f").as_deref(), Some(&b"lose"[..]), "of 'base' the e is left");
    file.write_at(b"t", 3)?;
    file.sync()?;
    assert_eq!(durable(&disk, "f").as_deref(), Some(&b"lost"[..]));
    assert_eq!(
        disk.images_now(&pando_io::sim::ImageKind::all(9), &mut base::env::Random::seeded(1)).count(),
        4
    );
    Ok(())
}

#[test]
fn after_a_failed_sync_the_next_one_settles_the_length_but_not_the_bytes() -> Result<()> {
    let (disk, file) = disk_with(b"base")?;
    file.write_at(b"more", 4)?;
    fail(&disk, CallKind::Sync, 1);
    assert_eq!(kind(file.sync()), ErrorKind::Io);
    assert_eq!(durable(&disk, "f").as_deref(), Some(&b"base"[..]));
    file.write_at(b"late", 8)?;
    file.sync()?;
    assert_eq!(durable(&disk, "f").as_deref(), Some(&b"base\0\0\0\0late"[..]));
    file.set_len(6)?;
    file.sync()?;
    file.set_len(12)?;
    file.sync()?;
    let kept = disk.image(disk.event_count(), Fate::Everything).read("f");
    assert_eq!(kept.as_deref(), Some(&b"basemo\0\0\0\0\0\0"[..]), "what was cut off is not pending any more");
    Ok(())
}

#[test]
fn names_stay_pending_through_a_failed_directory_sync() -> Result<()> {
    let (disk, _file) = disk_with(b"base")?;
    disk.dir().create("g")?;
    fail(&disk, CallKind::DirSync, 1);
    assert_eq!(kind(disk.dir().sync()), ErrorKind::Io);
    assert_eq!(durable(&disk, "g"), None);
    disk.dir().sync()?;
    assert_eq!(durable(&disk, "g").as_deref(), Some(&b""[..]));
    Ok(())
}

#[test]
fn a_full_disk_refuses_until_there_is_room() -> Result<()> {
    let disk = SimDisk::new();
    disk.set_capacity(5 * 4096);
    let file = disk.dir().create("f")?;
    file.write_at(&[1; 3 * 4096], 0)?;
    assert_eq!(disk.used_bytes(), 3 * 4096);
    assert_eq!(kind(file.write_at(&[2; 5 * 4096], 2 * 4096)), ErrorKind::Full);
    assert_eq!(file.len()?, 5 * 4096, "what fits was written");
    assert_eq!(disk.used_bytes(), 5 * 4096);
    file.write_at(&[3; 4096], 100)?; // overwriting needs no room
    assert_eq!(kind(file.write_at(&[4; 1], 5 * 4096)), ErrorKind::Full);
    file.set_len(6 * 4096)?; // length alone takes no room
    file.set_len(5 * 4096)?;

    file.discard(0, 4096)?;
    file.write_at(&[4; 4096], 5 * 4096)?;
    assert_eq!(kind(file.write_at(&[5; 1], 0)), ErrorKind::Full, "a hole needs room again");
    disk.set_capacity(7 * 4096);
    file.write_at(&[5; 1], 0)?;

    let other = disk.dir().create("g")?;
    disk.dir().remove("f")?;
    assert_eq!(kind(other.write_at(&[6; 3 * 4096], 0)), ErrorKind::Full, "the handle keeps the file");
    drop(file);
    other.write_at(&[6; 7 * 4096], 0)?;
    disk.set_capacity(None);
    other.write_at(&[6; 99 * 4096], 0)
}

#[test]
fn allocated_bytes_have_their_room() -> Result<()> {
    let disk = SimDisk::new();
    disk.set_capacity(4 * 4096);
    let (a, b) = (disk.dir().create("a")?, disk.dir().create("b")?);
    assert!(a.allocate(3 * 4096)?);
    assert_eq!(disk.used_bytes(), 3 * 4096);
    assert_eq!(kind(b.allocate(2 * 4096)), ErrorKind::Full);
    assert_eq!((b.len()?, disk.used_bytes()), (4096, 4 * 4096), "what there was");
    a.write_at(&[1; 3 * 4096], 0)
}

#[test]
fn reserved_length_has_no_room_yet() -> Result<()> {
    let disk = SimDisk::new();
    disk.set_capacity(4 * 4096);
    let (a, b) = (disk.dir().create("a")?, disk.dir().create("b")?);
    a.set_len(3 * 4096)?;
    b.write_at(&[1; 3 * 4096], 0)?;
    assert_eq!(kind(a.write_at(&[1; 3 * 4096], 0)), ErrorKind::Full, "as with a sparse file");
    assert_eq!(a.len()?, 3 * 4096);
    Ok(())
}
