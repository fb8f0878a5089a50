//! The actions of a turn: a client takes a step of its transaction, the store does some of its own work, or a reader
//! looks.

use super::{Client, Driver, Stop};
use crate::model::Draft;
use crate::perform::{Trouble, perform};
use crate::phase::Phase;
use crate::workload::Script;
use base::{CommitTs, Error, ErrorKind};
use io::sim::Event;
use store::Transaction;
use store::checkpoint::Step;
use store::commit::Applied;
use store::relocate::Compaction;

impl Driver<'_> {
    // Clients.

    pub(super) fn client(&mut self) -> Result<(), Stop> {
        let at = self.random.below(self.clients.len() as u64) as usize;
        let client = std::mem::replace(&mut self.clients[at], Client::Idle);
        self.clients[at] = match client {
            Client::Idle => self.begin()?,
            Client::Active { mut tx, mut draft, script, next } => match script.ops.get(next) {
                Some(op) => match perform(&mut tx, &mut draft, op) {
                    Ok(()) => Client::Active { tx, draft, script, next: next + 1 },
                    Err(Trouble::Engine(_, error)) if self.is_expired(&error) => Client::Idle,
                    // The client rolls back if a large value, or data beyond its memory, could not be written.
                    Err(Trouble::Engine(what, error)) => {
                        self.excuse(&what, &error)?;
                        Client::Idle
                    }
                    Err(wrong) => return Err(Stop::Wrong(wrong.to_string())),
                },
                None if script.commits => self.apply(*tx, &draft, &script)?,
                None => Client::Idle,
            },
            Client::Applied { applied, synced } => self.acknowledge(applied, synced)?,
        };
        Ok(())
    }

    fn begin(&mut self) -> Result<Client, Stop> {
        let script = self.workload.script();
        let tx =
            Transaction::begin(self.store, script.options).map_err(|error| self.explain("begin", &error))?;
        let now = tx.time_ms();
        Ok(Client::Active { tx: Box::new(tx), draft: Box::new(self.model.begin(now)), script, next: 0 })
    }

    /// Returns whether a commit was refused as a whole because spilled runs must be merged first: its turn came before
    /// that of the checkpoint.
    fn waits_for_checkpoint(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::Full
            && self.store.latched().is_none()
            && error.to_string().contains("wait for a checkpoint")
    }

    fn apply(&mut self, tx: Transaction, draft: &Draft, script: &Script) -> Result<Client, Stop> {
        let start = self.events();
        self.enter(Phase::Append);
        let applied = tx.apply();
        if self.switched_since(start) {
            self.session.course.correct(start, Phase::SegmentSwitch);
            self.crossed.switches += 1;
        }
        let applied = match applied {
            Ok(applied) => applied,
            Err(error) if error.is_retryable() || self.waits_for_checkpoint(&error) => {
                return Ok(Client::Idle);
            }
            Err(error) => return self.excuse("apply", &error).map(|()| Client::Idle),
        };
        let durability = script.options.durability;
        if !draft.is_read_only() {
            self.model.commit(draft, applied.ts(), script.options.isolation, durability, self.time_ms)?;
        } else if applied.ts() > CommitTs(self.model.last()) {
            return Err(Stop::Wrong(format!(
                "a transaction that wrote nothing became commit {}",
                applied.ts().0
            )));
        }
        if applied.sealed() {
            self.crossed.seals += 1;
            self.enter_marked(Phase::Seal);
        }
        self.promise_synced(0);
        // This also holds for reads: no acknowledged transaction has seen a `Sync` commit that can be lost.
        let synced = self.model.newest_sync(applied.ts().0);
        Ok(Client::Applied { applied, synced })
    }

    /// Returns whether the log prepared a segment since `start`.
    fn switched_since(&self, start: usize) -> bool {
        let events = self.session.disk.events_since(start);
        events.iter().any(|event| matches!(event, Event::Create { .. } | Event::Rename { .. }))
    }

    fn acknowledge(&mut self, applied: Applied, synced: u64) -> Result<Client, Stop> {
        self.enter(Phase::GroupSync);
        let ts = self.store.acknowledge(applied).map_err(|error| self.explain("acknowledge", &error))?;
        let visible = self.store.snapshot().map_err(|error| self.explain("a snapshot", &error))?.ts();
        if visible < ts {
            return Err(Stop::Wrong(format!(
                "commit {} was acknowledged, but readers see only {}",
                ts.0, visible.0
            )));
        }
        self.promise_synced(synced);
        Ok(Client::Idle)
    }

    // The store's own work.

    pub(super) fn checkpoint(&mut self) -> Result<(), Stop> {
        let Some(checkpoint) = &mut self.checkpoint else { return self.begin_checkpoint() };
        let step = checkpoint.next_step();
        if step <= Step::SpaceMap && self.random.chance(1, 150) {
            // The checkpoint is abandoned, as by a caller that gives up. Nothing may be left of it.
            self.checkpoint = None;
            return Ok(());
        }
        self.session.course.enter(self.session.disk.event_count(), Phase::of_checkpoint(step));
        if matches!(step, Step::Switch | Step::Free) {
            self.session.disk.mark(Phase::of_checkpoint(step).label());
        }
        match checkpoint.step() {
            Ok(Step::Done) => {
                self.crossed.checkpoints += 1;
                self.checkpoint = None;
                if self.crossed.checkpoints.is_multiple_of(2) {
                    return Ok(());
                }
                self.store.keep_filters().map(drop).map_err(|error| self.explain("keep filters", &error))
            }
            Ok(_) => Ok(()),
            Err(error) => {
                self.checkpoint = None;
                self.excuse("checkpoint", &error)
            }
        }
    }

    fn begin_checkpoint(&mut self) -> Result<(), Stop> {
        let sealed = self.store.pressure().sealed;
        let begun = match self.random.below(14) {
            0 => {
                self.enter_marked(Phase::Seal);
                self.store.begin_checkpoint()
            }
            1..9 if sealed > 0 => self.store.begin_pending_checkpoint(),
            9..12 => self.store.begin_compaction(),
            12.. => return self.compact(),
            _ => return Ok(()),
        };
        let begun = begun.map_err(|error| self.explain("begin a checkpoint", &error))?;
        self.crossed.seals += u64::from(begun.is_some() && sealed == 0);
        self.checkpoint = begun;
        Ok(())
    }

    /// Runs the next round of a compaction.
    fn compact(&mut self) -> Result<(), Stop> {
        self.enter(Phase::SegmentSwitch);
        match self.compaction.next_round(self.store) {
            Ok(Some(round)) => self.checkpoint = Some(round),
            Ok(None) => self.compaction = Compaction::new(),
            Err(error) => self.excuse("begin a round of a compaction", &error)?,
        }
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<(), Stop> {
        self.enter(Phase::GroupSync);
        self.store.sync().map_err(|error| self.explain("sync", &error))?;
        self.promise_synced(self.model.last());
        Ok(())
    }

    pub(super) fn check(&mut self) -> Result<(), Stop> {
        if self.checkpoint.is_none() {
            match self.store.check() {
                Ok(report) if report.orphan_units == 0 => {}
                Ok(report) => {
                    let units = report.orphan_units;
                    return Err(Stop::Wrong(format!("{units} units are in use and not reached")));
                }
                Err(error) => return Err(self.explain("check", &error)),
            }
        }
        Ok(())
    }

    pub(super) fn close(&mut self) -> Result<(), String> {
        while self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.next_step() > Step::SpaceMap) {
            match self.checkpoint() {
                Ok(()) => {}
                Err(Stop::Latched) => return Ok(()),
                Err(Stop::Wrong(wrong)) => return Err(wrong),
            }
        }
        self.checkpoint = None;
        self.snapshots.clear();
        self.clients.clear();
        self.enter(Phase::Close);
        match self.store.close() {
            Ok(()) => self.promise_synced(self.model.last()),
            Err(error) if self.session.disk.faults_hit() > 0 && error.kind() != ErrorKind::Corruption => {}
            Err(error) => return Err(format!("closing: {error:?}")),
        }
        self.copier.closed()
    }

    // Readers.

    pub(super) fn take_snapshot(&mut self) -> Result<(), Stop> {
        let snapshot = self.store.snapshot().map_err(|error| self.explain("a snapshot", &error))?;
        let state =
            self.model.at(snapshot.ts().0).ok_or("a snapshot of a commit that was not made".to_string())?;
        self.snapshots.push((snapshot, state.clone()));
        if self.snapshots.len() > 4 {
            self.snapshots.remove(0);
        }
        Ok(())
    }

    pub(super) fn look_at_snapshot(&mut self) -> Result<(), Stop> {
        if self.snapshots.is_empty() {
            return Ok(());
        }
        let at = self.random.below(self.snapshots.len() as u64) as usize;
        if self.snapshots[at].0.tables().is_err_and(|error| self.is_expired(&error)) {
            self.snapshots.swap_remove(at);
            return Ok(());
        }
        let (snapshot, state) = &self.snapshots[at];
        state
            .check(snapshot)
            .map_err(|wrong| format!("a snapshot of commit {}: {wrong}", snapshot.ts().0))?;
        if self.random.chance(1, 3) {
            self.snapshots.swap_remove(at);
        }
        Ok(())
    }

    pub(super) fn clone_snapshot(&mut self) -> Result<(), Stop> {
        if let Some((snapshot, state)) = self.snapshots.last() {
            match snapshot.try_clone() {
                Ok(copy) => self.snapshots.push((copy, state.clone())),
                Err(error) if self.is_expired(&error) => {}
                Err(error) => return Err(self.explain("a second snapshot", &error)),
            }
        }
        Ok(())
    }

    /// Checks that reads work and writes are refused.
    pub(super) fn check_latched(&mut self) -> Result<(), String> {
        for (snapshot, state) in &self.snapshots {
            if snapshot.tables().is_err_and(|error| self.is_expired(&error)) {
                continue;
            }
            state.check(snapshot).map_err(|wrong| format!("a snapshot after the latch: {wrong}"))?;
        }
        match Transaction::begin(self.store, Default::default()) {
            Err(error) if error.kind() == ErrorKind::Latched => Ok(()),
            Err(error) => Err(format!("a latched database answers with {error:?}")),
            Ok(_) => Err("a latched database lets a transaction begin".into()),
        }
    }
}
