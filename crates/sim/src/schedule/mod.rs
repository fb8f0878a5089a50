//! A seeded scheduler: clients, checkpoints, snapshots and faults take turns on one simulated disk, in one thread.
//!
//! A run consists of a few *sessions*, each from an opening to a kill or a close. The next session continues with what
//! the process left: bytes that were not synced are still pending then, and may be lost later. In a session each turn
//! is one resumable step: an operation of a client's transaction, its apply, its acknowledgement, a step of the
//! checkpoint, or a look at a snapshot. Therefore several commits are applied before one is acknowledged, and all of it
//! happens between the steps of a checkpoint.
//!
//! The result of a run is the history of its disks, and for each moment of them what a crash there must preserve: the
//! *promise*, which grows with every acknowledgement and with everything that a reader was shown.
//!
//! This file has the sessions and the choice of turns; `turns` has what is done in a turn.

mod turns;

use crate::beside::Follow;
use crate::consuming::Consume;
use crate::copying::{Copier, Copies};
use crate::history::{Crossed, Promise, Run, Session};
use crate::model::{Draft, Model, State};
use crate::phase::{Course, Phase};
use crate::verify::hurried;
use crate::workload::{Script, Workload};
use base::env::Random;
use base::{Error, ErrorKind};
use io::sim::{CallKind, Fault, FaultError, SimDisk};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::checkpoint::Checkpoint;
use store::commit::Applied;
use store::relocate::Compaction;
use store::{Snapshot, Store, Transaction};

/// The least number of seals, checkpoints and segment switches of every run.
const LEAST: Crossed = Crossed { seals: 3, checkpoints: 2, switches: 1 };
/// The number of sessions within which a run must reach that number. Otherwise the workload is wrong.
const MAX_SESSIONS: usize = 12;

/// Runs the workload of `seed`.
///
/// # Errors
/// The first failure while it ran: a wrong read or snapshot, or an error that nothing explains.
pub fn run(seed: u64) -> Result<Run, String> {
    let mut workload = Workload::new(seed);
    let mut random = Random::seeded(seed ^ 0x7363_6865_6475_6c65);
    let mut run = Run {
        options: workload.options.clone(),
        model: Model::default(),
        sessions: Vec::new(),
        crossed: Crossed::default(),
        copies: Copies::default(),
        looks: 0,
        given: 0,
    };
    let copier = Copier::new(seed, run.options.clone());
    let mut companions = Companions { copier, consume: Consume::new(seed) };
    let mut disk = SimDisk::new();
    disk.set_maps(random.chance(3, 4));
    let mut promise = Promise::default();
    while !run.crossed.is_enough() || run.sessions.len() < 2 {
        if run.sessions.len() == MAX_SESSIONS {
            // A run that attaches runs is sealed and absorbed so often that its log may never fill a segment.
            if run.options.write_set_bytes.is_some() && run.crossed.seals >= 10 * LEAST.seals {
                break;
            }
            return Err(format!("{MAX_SESSIONS} sessions crossed no more than {:?}", run.crossed));
        }
        let (session, next) =
            run_session(seed, &disk, promise, &mut run, &mut workload, &mut random, &mut companions)?;
        promise = session.promise(session.last);
        run.sessions.push(session);
        disk = next;
    }
    (run.copies, run.given) = (companions.copier.copies, companions.consume.given);
    Ok(run)
}

impl Crossed {
    fn is_enough(self) -> bool {
        self.seals >= LEAST.seals && self.checkpoints >= LEAST.checkpoints && self.switches >= LEAST.switches
    }
}

/// The participants that continue from session to session.
struct Companions {
    copier: Copier,
    consume: Consume,
}

/// Opens, takes turns for a while, and ends. Returns the session and the disk that the next process finds.
fn run_session(
    seed: u64,
    disk: &SimDisk,
    promise: Promise,
    run: &mut Run,
    workload: &mut Workload,
    random: &mut Random,
    companions: &mut Companions,
) -> Result<(Session, SimDisk), String> {
    let first = disk.event_count();
    let mut session = Session {
        disk: disk.clone(),
        first,
        last: first,
        course: Course::default(),
        promises: vec![(first, promise)],
    };
    disk.mark("open");
    let options = if random.chance(1, 4) { hurried(&run.options, random) } else { run.options.clone() };
    let store = store::open_or_create(disk.dir(), &options).map_err(|error| format!("opening: {error:?}"))?;
    session.course.enter_recovery(disk, first, !promise.exists);
    let recovered = store.snapshot().map_err(|error| format!("the first snapshot: {error:?}"))?;
    let commits = recovered.ts().0;
    if commits < promise.buffered || commits > run.model.last() {
        let last = run.model.last();
        return Err(format!(
            "a killed process left {} to {last} commits, {commits} were recovered",
            promise.buffered
        ));
    }
    run.model.cut(commits);
    run.model.newest().check(&recovered)?;
    drop(recovered);
    let promise = Promise { exists: true, synced: commits, buffered: commits };
    session.promises.push((disk.event_count(), promise));

    let clients = (0..workload.clients).map(|_| Client::Idle).collect();
    let mut driver = Driver {
        store: &store,
        session: &mut session,
        promise,
        model: &mut run.model,
        crossed: &mut run.crossed,
        workload,
        random,
        copier: &mut companions.copier,
        consume: &mut companions.consume,
        clients,
        checkpoint: None,
        compaction: Compaction::new(),
        time_ms: store.time_ms(),
        snapshots: Vec::new(),
        number: run.sessions.len() as u64,
        follow: Follow::new(seed ^ run.sessions.len() as u64, &run.options),
        turns: 0,
    };
    let next = driver.drive()?;
    let looks = driver.follow.looks;
    drop(driver);
    run.looks += looks;
    // The process has ended; this releases what its thread still holds of the store.
    session.disk.clear_faults();
    let _ = store.close();
    Ok((session, next))
}

/// The reason why a turn did not end as usual.
enum Stop {
    /// The engine latched after an injected fault, so the session is over.
    Latched,
    /// A failure, with its description.
    Wrong(String),
}

impl From<String> for Stop {
    fn from(wrong: String) -> Stop {
        Stop::Wrong(wrong)
    }
}

/// The state of a client.
enum Client {
    Idle,
    Active {
        tx: Box<Transaction>,
        draft: Box<Draft>,
        script: Script,
        next: usize,
    },
    /// `synced` is what an acknowledgement promises.
    Applied {
        applied: Applied,
        synced: u64,
    },
}

struct Driver<'s> {
    store: &'s Arc<Store>,
    session: &'s mut Session,
    promise: Promise,
    model: &'s mut Model,
    crossed: &'s mut Crossed,
    workload: &'s mut Workload,
    random: &'s mut Random,
    copier: &'s mut Copier,
    consume: &'s mut Consume,
    clients: Vec<Client>,
    checkpoint: Option<Checkpoint<'s>>,
    compaction: Compaction,
    /// The last time that the store returned.
    time_ms: u64,
    snapshots: Vec<(Snapshot, State)>,
    /// The number of sessions before this one. Later ones are longer, so that every limit is reached in the end.
    number: u64,
    follow: Follow,
    turns: u64,
}

impl<'s> Driver<'s> {
    /// Takes all turns of the session, and ends it.
    fn drive(&mut self) -> Result<SimDisk, String> {
        let turns = 80 + self.random.below(260) + 60 * self.number;
        let fault_at = if self.random.chance(1, 3) { self.random.below(turns) } else { turns };
        for turn in 0..turns {
            if turn == fault_at {
                self.inject();
            }
            // A turn takes a millisecond.
            self.store.tick(Duration::from_millis(turn));
            self.move_hand()?;
            match self.turn() {
                Ok(()) => {}
                Err(Stop::Latched) => {
                    self.check_latched()?;
                    break;
                }
                Err(Stop::Wrong(wrong)) => return Err(wrong),
            }
        }
        if self.store.latched().is_none() && self.random.chance(1, 3) {
            self.close()?;
        }
        self.session.last = self.events();
        let next = self.session.disk.after_kill();
        self.copier.give_up();
        self.follow.give_up();
        self.consume.give_up();
        // The lock on the checkpoint is released first, because closing waits for it.
        self.checkpoint = None;
        self.clients.clear();
        self.snapshots.clear();
        Ok(next)
    }

    fn events(&self) -> usize {
        self.session.disk.event_count()
    }

    fn enter(&mut self, phase: Phase) {
        let events = self.events();
        self.session.course.enter(events, phase);
    }

    /// Enters a step without events, which gets a moment of its own.
    fn enter_marked(&mut self, phase: Phase) {
        self.enter(phase);
        self.session.disk.mark(phase.label());
    }

    /// Advances the clock by a millisecond. Sometimes it jumps, and sometimes it runs back, but the store's time never
    /// runs back. It is at least what the clock shows, and advances no faster. After an opening at which the clock had
    /// run back, it may be ahead.
    fn move_hand(&mut self) -> Result<(), String> {
        let hand = &self.workload.hand;
        let shown = hand.load(Ordering::SeqCst);
        match self.random.below(60) {
            0 => drop(hand.fetch_sub(1 + self.random.below(40), Ordering::SeqCst)),
            1..4 => drop(hand.fetch_add(1 + self.random.below(100), Ordering::SeqCst)),
            _ => drop(hand.fetch_add(1, Ordering::SeqCst)),
        }
        let (before, now, shows) = (self.time_ms, self.store.time_ms(), hand.load(Ordering::SeqCst));
        let passed = shows.saturating_sub(shown);
        if !(before.max(shows)..=(before + passed).max(shows)).contains(&now) {
            return Err(format!("the time is {now} after {before}, and the clock says {hand:?}"));
        }
        self.time_ms = now;
        Ok(())
    }

    /// Makes some call fail, once or from then on.
    fn inject(&mut self) {
        let call = if self.random.chance(2, 3) { CallKind::Sync } else { CallKind::Write };
        let (nth, sticky) = (1 + self.random.below(12), self.random.chance(1, 2));
        let error = if self.random.chance(2, 3) { FaultError::Io } else { FaultError::Full };
        self.session.disk.inject(Fault { call, nth, sticky, error });
    }

    fn turn(&mut self) -> Result<(), Stop> {
        let turned = match self.random.below(100) {
            0..64 => self.client(),
            64..86 => self.checkpoint(),
            86..90 => self.take_snapshot(),
            90..95 => self.look_at_snapshot(),
            95..97 => {
                if self.checkpoint.is_none() {
                    self.store.reclaim();
                }
                Ok(())
            }
            97 => self.sync(),
            98 => self.check(),
            _ => self.clone_snapshot(),
        };
        turned?;
        let (copier, model) = (&mut *self.copier, &*self.model);
        copier.turn(self.store, |commits| model.at(commits).cloned())?;
        self.turns += 1;
        if self.store.latched().is_none() {
            let model = &*self.model;
            let state_at = |commits| model.at(commits).cloned();
            self.follow.turn(&self.session.disk, self.store, self.turns, state_at)?;
            self.consume.turn(&self.session.disk, self.store, state_at)?;
        }
        self.observe()
    }

    /// Promises what readers are shown now.
    fn observe(&mut self) -> Result<(), Stop> {
        if self.store.latched().is_some() {
            return Ok(());
        }
        let visible = self.store.snapshot().map_err(|error| self.explain("a snapshot", &error))?.ts().0;
        if visible > self.model.last() {
            return Err(Stop::Wrong(format!("commit {visible} is visible, {} were made", self.model.last())));
        }
        self.promise_synced(self.model.newest_sync(visible));
        Ok(())
    }

    fn promise_synced(&mut self, commits: u64) {
        let synced = self.promise.synced.max(commits);
        let buffered = self.promise.buffered.max(self.model.newest_buffered());
        let promise = Promise { synced, buffered, ..self.promise };
        if promise != self.promise {
            self.promise = promise;
            self.session.promises.push((self.events(), promise));
        }
    }

    /// Returns the stop for an error that an injected fault explains. Any other error is a failure.
    fn explain(&self, what: &str, error: &Error) -> Stop {
        let injected = self.session.disk.faults_hit() > 0;
        let kinds = [ErrorKind::Io, ErrorKind::Full, ErrorKind::Latched, ErrorKind::Indeterminate];
        if injected && kinds.contains(&error.kind()) && self.store.latched().is_some() {
            return Stop::Latched;
        }
        Stop::Wrong(format!("{what}: {error:?}"))
    }

    /// Same as [`Self::explain`], but a fault after which the engine can continue costs the caller only this step.
    fn excuse(&self, what: &str, error: &Error) -> Result<(), Stop> {
        let injected = self.session.disk.faults_hit() > 0 && self.store.latched().is_none();
        if injected && matches!(error.kind(), ErrorKind::Io | ErrorKind::Full) {
            return Ok(());
        }
        Err(self.explain(what, error))
    }

    /// Returns whether a snapshot or transaction was refused because it was open for too long.
    fn is_expired(&self, error: &Error) -> bool {
        self.workload.options.max_snapshot_age.is_some() && error.kind() == ErrorKind::SnapshotTooOld
    }
}
