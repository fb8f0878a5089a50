//! Which steps of a checkpoint may pause between pieces of their work: the long ones, and none that writers wait for.
//! A file of its own, as one function of a process hears of phases.

use base::phases::{self, Phase};
use base::sync::lock;
use base::{Result, background};
use pando::{Database, Durability};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Steps, and whether there was time.
static SEEN: Mutex<BTreeSet<(&'static str, bool)>> = Mutex::new(BTreeSet::new());

fn hear(phase: Phase, work: &mut dyn FnMut()) {
    if let Phase::Checkpoint { step, .. } = phase {
        lock(&SEEN).insert((step, background::is_throttled()));
    }
    work();
}

#[test]
fn the_long_steps_pause_unless_somebody_waits() -> Result<()> {
    assert!(phases::listen(hear));
    let builder = Database::builder().memory_bytes(256 << 20).checkpoint_bytes(1 << 20);
    let db = builder.durability(Durability::Buffered).in_memory()?;
    let table = db.ensure_table("t")?;
    let checkpoints = || db.stats().map(|stats| stats.checkpoints);
    (0..1500_u32).try_for_each(|key| db.put(&table, &key.to_be_bytes(), &[7; 1000]))?;
    let end = Instant::now() + Duration::from_secs(20);
    while !lock(&SEEN).iter().any(|(step, _)| *step == "drop log") {
        assert!(Instant::now() < end, "{} checkpoints, and none to its end", checkpoints()?);
        thread::sleep(Duration::from_millis(1));
    }
    let of = |time: bool, seen: BTreeSet<(&'static str, bool)>| {
        seen.into_iter().filter(|(_, had)| *had == time).map(|(step, _)| step).collect::<BTreeSet<_>>()
    };
    let seen = std::mem::take(&mut *lock(&SEEN));
    let long = ["absorb", "compact", "relocate", "physical rows", "switch", "free", "drop log"];
    assert_eq!(of(true, seen.clone()), BTreeSet::from(long));
    let flushes_and_locks =
        ["sync log", "space map", "sync data", "superblock", "sync superblock", "note in log"];
    assert_eq!(of(false, seen), BTreeSet::from(flushes_and_locks));

    db.put(&table, b"k", b"v")?;
    db.checkpoint()?;
    let seen = std::mem::take(&mut *lock(&SEEN));
    assert!(seen.len() > 10 && of(true, seen.clone()).is_empty(), "{seen:?}");
    Ok(())
}
