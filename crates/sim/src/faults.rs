//! Makes every call fail in turn, and tries disks of every size.
//!
//! A script is a number of transactions with checkpoints between them, on an empty disk or on the disk of a killed
//! process. For each kind of call, for an I/O error and for a full disk, for one failure and for permanent failure, the
//! script is run with the first such call failing, then with the second, until a run meets no failure. Then:
//!
//! 1. Every error must be typed and explained by the failure; nothing may panic.
//! 2. The disk is reopened without faults after a power loss and after a kill. It must hold a prefix of the commits
//!    that includes every acknowledged one.
//! 3. What recovery showed after the kill must survive a power loss directly after it: a failed sync is not trusted
//!    later.
//!
//! On a disk that is too small, every call may fail for lack of space. If the database keeps a reserve, everything in
//! it can still be deleted, and then it can be written to again. Once there is space, the same database continues.

use crate::copying::Copies;
use crate::history::{Crossed, Promise, Run};
use crate::model::{Bytes, Draft};
use crate::perform::{Trouble, perform};
use crate::verify;
use crate::workload::{Op, TABLES, Workload};
use base::env::{Clock, Random};
use base::{CommitTs, Error, ErrorKind};
use io::sim::{CallKind, Fate, Fault, FaultError, SimDisk};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{Options, Store, Transaction, TransactionOptions};
use txn::Durability;

/// The number of transactions of a script, and the number after which a checkpoint follows.
const TRANSACTIONS: usize = 36;
const CHECKPOINT_EVERY: usize = 9;
/// The number of calls beyond which a script is assumed to loop.
const MAX_CALLS: u64 = 5000;

/// The least free space of a database with pages of 16 KiB, including a segment of the log.
const LEAST_RESERVE_BLOCKS: u64 = 80;

/// The counts of the loops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Failed {
    /// The scripts that were run with a failing call.
    pub runs: u64,
    /// The runs that the failure latched.
    pub latched: u64,
    /// The runs on disks that were too small.
    pub small_disks: u64,
    /// Those of them whose full database was emptied, and then written to again.
    pub emptied: u64,
    /// The images that were reopened.
    pub images: u64,
}

/// The state in which a script begins.
struct Start {
    disk: SimDisk,
    run: Run,
    promise: Promise,
    workload: Workload,
}

/// Runs all loops for the script of `seed`.
///
/// # Errors
/// The first failure.
pub fn seed(seed: u64, failed: &mut Failed) -> Result<(), String> {
    let again =
        format!("again: cargo run --release -q -p pando-sim -- faults --scripts 1 --first-seed {seed}");
    let empty = Start::empty(seed);
    let killed = empty.after_kill().map_err(|wrong| format!("seed {seed}, no fault: {wrong}\n  {again}"))?;
    for (name, start) in [("an empty disk", empty), ("what a kill left", killed)] {
        let mut what = String::new();
        let looped = catch_unwind(AssertUnwindSafe(|| {
            failing_calls(&start, seed, failed, &mut what)?;
            small_disks(&start, failed, &mut what)
        }));
        looped
            .unwrap_or_else(|_| Err("panic".into()))
            .map_err(|wrong| format!("seed {seed}, from {name}, {what}: {wrong}\n  {again}"))?;
    }
    Ok(())
}

fn failing_calls(start: &Start, seed: u64, failed: &mut Failed, what: &mut String) -> Result<(), String> {
    for call in CallKind::EACH {
        for (error, sticky) in [
            (FaultError::Io, false),
            (FaultError::Io, true),
            (FaultError::Full, false),
            (FaultError::Full, true),
        ] {
            for nth in 1.. {
                let how = if sticky { "from then on" } else { "once" };
                *what = format!("{call:?} call {nth} fails {how} with {error:?}");
                let mut script = start.copy();
                script.disk.inject(Fault { call, nth, sticky, error });
                let store = script.play_twice()?;
                if script.disk.faults_hit() == 0 {
                    script.end(store);
                    break;
                }
                // These calls latch, even if the caller that met the failure could not return it. A new segment is made
                // again if it could not be confirmed once that it is in place.
                let latches = call == CallKind::Store || (call == CallKind::InPlace && sticky);
                if latches && !script.refused {
                    return Err("no call returned an error although the files were out of reach".into());
                }
                failed.runs += 1;
                failed.latched += u64::from(store.as_ref().is_some_and(|store| store.latched().is_some()));
                script.disk.clear_faults();
                script.judge(store, seed ^ nth, failed)?;
                if nth == MAX_CALLS {
                    return Err("no run without it".into());
                }
            }
        }
    }
    Ok(())
}

/// Tries disks of every size, from none to enough.
fn small_disks(start: &Start, failed: &mut Failed, what: &mut String) -> Result<(), String> {
    let least_blocks = start.disk.used_bytes() / 4096;
    for blocks in least_blocks.. {
        *what = format!("a disk of {blocks} blocks");
        let mut script = start.copy();
        script.disk.set_capacity(blocks * 4096);
        let store = script.play()?;
        let refused = script.refused;
        failed.small_disks += u64::from(refused);
        if let Some(cause) = store.as_ref().and_then(|store| store.latched()) {
            return Err(format!("a full disk latched the database: {cause:?}"));
        }
        if let Some(store) = store.as_ref().filter(|_| refused) {
            failed.emptied += u64::from(script.empties(store, blocks)?);
        }
        script.disk.set_capacity(None);
        let store = script.reopen_unless(store)?;
        script.transactions(&store, 3)?;
        script.checkpoint(&store)?;
        if std::mem::take(&mut script.refused) && !refused {
            return Err("refused although there is room".into());
        }
        script.judge(Some(store), blocks, failed)?;
        if !refused {
            return Ok(());
        }
    }
    Ok(())
}

/// A script in progress.
struct Script {
    disk: SimDisk,
    run: Run,
    promise: Promise,
    workload: Workload,
    /// Whether a call was refused so far.
    refused: bool,
}

impl Start {
    fn empty(seed: u64) -> Start {
        let workload = Workload::new(seed);
        let run = Run {
            options: workload.options.clone(),
            model: Default::default(),
            sessions: Vec::new(),
            crossed: Crossed::default(),
            copies: Copies::default(),
            looks: 0,
            given: 0,
        };
        Start { disk: SimDisk::new(), run, promise: Promise::default(), workload }
    }

    fn copy(&self) -> Script {
        // Each copy has a clock of its own, so that all get the same times.
        let (clock, hand) = Clock::set_by_hand(self.workload.hand.load(Ordering::SeqCst));
        let run = Run {
            // A failed write of the board costs readers in other processes their progress, and returns no error.
            options: Options { clock, admits_readers: false, ..self.run.options.clone() },
            model: self.run.model.clone(),
            sessions: Vec::new(),
            crossed: Crossed::default(),
            copies: Copies::default(),
            looks: 0,
            given: 0,
        };
        let mut workload = self.workload.clone();
        workload.hand = hand;
        Script { disk: self.disk.after_kill(), run, promise: self.promise, workload, refused: false }
    }

    /// Returns the state that is left if the script is killed before it closes.
    fn after_kill(&self) -> Result<Start, String> {
        let mut script = self.copy();
        let store = script.open()?.ok_or("nothing was to fail")?;
        // The next opener seals so often that it must make checkpoints before the database is open.
        script.run.options.seal_records = 2;
        script.transactions(&store, TRANSACTIONS / 2)?;
        let disk = script.disk.after_kill();
        script.end(Some(store));
        let promise = Promise { buffered: script.run.model.newest_buffered(), ..script.promise };
        Ok(Start { disk, run: script.run, promise, workload: script.workload })
    }
}

impl Script {
    /// Plays the whole script, closes, and plays a little more.
    fn play_twice(&mut self) -> Result<Option<Arc<Store>>, String> {
        let Some(store) = self.play()? else { return Ok(None) };
        if store.latched().is_some() {
            return Ok(Some(store));
        }
        match store.close() {
            Ok(()) => self.promise.synced = self.run.model.last(),
            Err(error) => self.excuse("close", &error)?,
        }
        let Some(store) = self.open()? else { return Ok(None) };
        self.transactions(&store, 3)?;
        Ok(Some(store))
    }

    /// Opens the database and runs the transactions and checkpoints. Returns `None` if it could not be opened.
    fn play(&mut self) -> Result<Option<Arc<Store>>, String> {
        let Some(store) = self.open()? else { return Ok(None) };
        for _ in 0..TRANSACTIONS / CHECKPOINT_EVERY {
            self.transactions(&store, CHECKPOINT_EVERY)?;
            self.checkpoint(&store)?;
        }
        Ok(Some(store))
    }

    fn open(&mut self) -> Result<Option<Arc<Store>>, String> {
        match store::open_or_create(self.disk.dir(), &self.run.options) {
            Ok(store) => {
                let commits =
                    store.snapshot().map_err(|error| format!("the first snapshot: {error:?}"))?.ts().0;
                self.promise = Promise { exists: true, synced: commits, buffered: commits };
                Ok(Some(store))
            }
            Err(error) => self.excuse("open", &error).map(|()| None),
        }
    }

    fn reopen_unless(&mut self, store: Option<Arc<Store>>) -> Result<Arc<Store>, String> {
        match store {
            Some(store) => Ok(store),
            None => self.open()?.ok_or("not opened although there is room".into()),
        }
    }

    /// Accepts an error if a refused call explains it.
    fn excuse(&mut self, what: &str, error: &Error) -> Result<(), String> {
        let kinds = [ErrorKind::Io, ErrorKind::Full, ErrorKind::Latched, ErrorKind::Indeterminate];
        if !kinds.contains(&error.kind()) {
            return Err(format!("{what}: {error:?}"));
        }
        self.refused = true;
        Ok(())
    }

    fn transactions(&mut self, store: &Arc<Store>, count: usize) -> Result<(), String> {
        for _ in 0..count {
            if store.latched().is_some() {
                return Ok(());
            }
            let script = self.workload.script();
            self.workload.hand.fetch_add(7, Ordering::SeqCst);
            let mut tx = match Transaction::begin(store, script.options) {
                Ok(tx) => tx,
                Err(error) => return self.excuse("begin", &error),
            };
            let mut draft = self.run.model.begin(tx.time_ms());
            let done = script.ops.iter().try_for_each(|op| perform(&mut tx, &mut draft, op));
            match done {
                Ok(()) => self.commit(store, tx, &draft, script.options.durability)?,
                Err(Trouble::Engine(what, error)) => self.excuse(&what, &error)?,
                Err(Trouble::Wrong(wrong)) => return Err(wrong),
            }
        }
        Ok(())
    }

    fn commit(
        &mut self,
        store: &Arc<Store>,
        tx: Transaction,
        draft: &Draft,
        durability: Durability,
    ) -> Result<(), String> {
        let isolation = tx.options().isolation;
        let next = CommitTs(self.run.model.last() + 1);
        let applied = match tx.apply() {
            Ok(applied) => applied,
            Err(error) => {
                if store.latched().is_some() && !draft.is_read_only() {
                    // It may be in the log or not; if it is, it is the last one.
                    self.run.model.commit(draft, next, isolation, durability, store.time_ms())?;
                }
                return self.excuse("apply", &error);
            }
        };
        if !draft.is_read_only() {
            self.run.model.commit(draft, applied.ts(), isolation, durability, store.time_ms())?;
        }
        match store.acknowledge(applied) {
            Ok(ts) => {
                self.promise.synced = self.promise.synced.max(self.run.model.newest_sync(ts.0));
                self.promise.buffered = self.promise.buffered.max(self.run.model.newest_buffered());
                Ok(())
            }
            Err(error) => self.excuse("acknowledge", &error),
        }
    }

    /// Deletes everything on a full disk of that many blocks, table by table, and makes a checkpoint. This must succeed
    /// if the database keeps a reserve. Then it writes a little, which must succeed once there is space for the least
    /// reserve again, because some of the first reserve became a log segment. Returns whether the database keeps one.
    fn empties(&mut self, store: &Arc<Store>, blocks: u64) -> Result<bool, String> {
        if !store.keeps_reserve() {
            return Ok(false);
        }
        let tables = TABLES.into_iter().filter(|table| self.run.model.newest().has(table));
        for table in tables.collect::<Vec<_>>() {
            let all = Op::DeleteRange(table, Bytes::from(b"".as_slice()), Bytes::from(b"z".as_slice()));
            self.must(store, &format!("deleting all of {table}"), &all)?;
        }
        store.checkpoint().map_err(|error| format!("a checkpoint of deletes on a full disk: {error:?}"))?;
        let put = Op::Put(TABLES[0], Bytes::from(b"key-again".as_slice()), Bytes::from(b"value".as_slice()));
        self.disk.set_capacity((blocks + LEAST_RESERVE_BLOCKS) * 4096);
        self.must(store, "writing to what was emptied", &put).map(|()| true)
    }

    /// Runs a transaction of `op` alone, which must succeed, at the latest after a checkpoint.
    fn must(&mut self, store: &Arc<Store>, what: &str, op: &Op) -> Result<(), String> {
        for is_last in [false, true] {
            let before = std::mem::take(&mut self.refused);
            let options = TransactionOptions { durability: Durability::Buffered, ..Default::default() };
            let mut tx = Transaction::begin(store, options).map_err(|error| format!("{what}: {error:?}"))?;
            let mut draft = self.run.model.begin(tx.time_ms());
            match perform(&mut tx, &mut draft, op) {
                Ok(()) => self.commit(store, tx, &draft, options.durability)?,
                Err(Trouble::Engine(_, error)) => self.excuse(what, &error)?,
                Err(Trouble::Wrong(wrong)) => return Err(wrong),
            }
            let refused = std::mem::replace(&mut self.refused, before);
            if !refused {
                return Ok(());
            }
            if is_last {
                return Err(format!("{what} was refused on a full disk: {:?}", store.short_of_room()));
            }
            self.checkpoint(store)?;
        }
        Ok(())
    }

    fn checkpoint(&mut self, store: &Store) -> Result<(), String> {
        match store.checkpoint() {
            Ok(_) => Ok(()),
            Err(error) => self.excuse("checkpoint", &error),
        }
    }

    fn end(&self, store: Option<Arc<Store>>) {
        if let Some(store) = store {
            // This releases what this thread holds of the store; the disk is not examined any further.
            let _ = store.close();
        }
    }

    /// Reopens what a power loss and a kill leave.
    fn judge(&mut self, store: Option<Arc<Store>>, seed: u64, failed: &mut Failed) -> Result<(), String> {
        let at = self.disk.event_count();
        let killed = self.disk.after_kill();
        self.end(store);
        let mut random = Random::seeded(seed);
        let subsets = [Fate::Subset(random.next_u64()), Fate::Subset(random.next_u64())];
        for fate in [Fate::Nothing, Fate::Everything].into_iter().chain(subsets) {
            let required = if fate == Fate::Everything { self.promise.buffered } else { self.promise.synced };
            let disk = self.disk.image(at, fate.clone()).restore();
            self.holds(&disk, required, &mut random).map_err(|wrong| format!("after {fate}: {wrong}"))?;
            failed.images += 1;
        }
        let shown = self
            .holds(&killed, self.promise.buffered, &mut random)
            .map_err(|wrong| format!("after a kill: {wrong}"))?;
        let lost = killed.image(killed.event_count(), Fate::Nothing).restore();
        self.promise.exists = true;
        self.holds(&lost, shown, &mut random)
            .map_err(|wrong| format!("after a kill and a power loss: {wrong}"))?;
        failed.images += 2;
        Ok(())
    }

    /// Opens `disk`, compares it with the model and closes it. Returns how many commits it holds.
    fn holds(&self, disk: &SimDisk, required: u64, random: &mut Random) -> Result<u64, String> {
        let recovered = verify::recover(disk, &self.run, self.promise.exists, random)?;
        recovered.store.close().map_err(|error| format!("closing: {error:?}"))?;
        if recovered.commits < required {
            return Err(format!("{} commits are left, {required} were promised", recovered.commits));
        }
        Ok(recovered.commits)
    }
}
