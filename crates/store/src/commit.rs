//! Commit: the one path by which anything enters the database.
//!
//! In order, under the commit lock but for 1, 7 and 8:
//! 1. *Encode* the writes in key order and *reserve* room in the log. A failure here aborts this transaction and
//!    nothing else. If it refers to values in the data file, *sync* that: once for all of them, whatever the
//!    durability, because any later flush may make the record durable. (A failed flush latches, as always; nothing
//!    was committed.)
//! 2. *Validate* what was read (or, under snapshot isolation, written) against the commits since its snapshot.
//! 3. *Stamp*: the next timestamp is its place in the order of commits.
//! 4. *Append* to the log: from here on the commit survives a killed process.
//! 5. *Apply* to the open memtable, through the function that recovery uses.
//! 6. *Publish* to writers: `applied` moves on. If no `Sync` commit at or before it waits for the disk, `visible`
//!    moves on too.
//! 7. *Sync*, where the durability asks for it: one flush for all who wait (the log's group commit).
//! 8. *Acknowledge* once `visible` has reached it.
//!
//! A failure from 4 on latches the database and leaves the commit [`ErrorKind::Indeterminate`], but for one: where 4
//! finds that another commit took the room, and there is no more, nothing was written and 1 failed after all.

use crate::apply::apply_record;
use crate::gathered::Admitted;
use crate::handle::Table;
use crate::memory::Patience;
use crate::options::MAX_SEALED;
use crate::store::Store;
use crate::view::{SealedMemtable, oldest_writing_view};
use crate::write_set::WriteSet;
use base::budget::Holder;
use base::op::{Encoder, stamp};
use base::sync::lock;
use base::{CommitTs, Error, ErrorKind, Lsn, Result, TableId};
use memtable::{Memtable, Writer};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use txn::{Durability, History, Isolation, ReadSet, WrittenKey};

/// What the commit lock guards.
#[derive(Debug)]
pub(crate) struct Committer {
    /// The right to write to the open memtable.
    pub writer: Writer,
    /// The open memtable.
    pub open: Arc<Memtable>,
    /// Where the log was when it was opened.
    pub opened_at: Lsn,
    /// The last timestamp given.
    pub last: CommitTs,
    /// Sealed memtables that a read-write transaction may still have to be validated against, newest first.
    pub history: Vec<SealedMemtable>,
    /// Transactions that began before this can no longer be validated.
    pub history_floor: CommitTs,
    /// `Sync` commits whose flush has not come yet, oldest first, each with the log's end behind it.
    pub unsynced: VecDeque<(CommitTs, Lsn)>,
}

impl Committer {
    /// A committer that goes on from `last`.
    pub fn new(
        open: Arc<Memtable>,
        opened_at: Lsn,
        writer: Writer,
        last: CommitTs,
        history: Vec<SealedMemtable>,
    ) -> Self {
        let unsynced = VecDeque::new();
        Committer { writer, open, opened_at, last, history, history_floor: CommitTs(0), unsynced }
    }
}

/// A transaction as the commit path needs it.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The timestamp of its snapshot.
    pub begin: CommitTs,
    /// What it read.
    pub reads: &'a ReadSet,
    /// What it wrote.
    pub writes: &'a mut WriteSet,
    /// An empty buffer for the commit record.
    pub record: &'a mut Vec<u8>,
    /// The tables it used, whose catalog rows must be unchanged if it wrote anything.
    pub tables: &'a [(Table, Admitted)],
    /// How it is isolated.
    pub isolation: Isolation,
    /// How durable it asks to be.
    pub durability: Durability,
}

/// A commit that is in the log and the memtable, and not acknowledged yet.
#[derive(Clone, Copy, Debug)]
#[must_use = "a commit is acknowledged by Store::acknowledge"]
pub struct Applied {
    ts: CommitTs,
    durable_at: Lsn,
    durability: Durability,
    sealed: bool,
    wants_segment: bool,
}

/// How often the log's next segment is looked after, in bytes appended.
const SEGMENT_CARE_BYTES: u64 = 64 << 10;

impl Applied {
    /// Whether this is a good moment to call [`Store::prepare_log`], in the background.
    pub fn wants_segment(&self) -> bool {
        self.wants_segment
    }

    /// Whether it found the memtable full, so that there is something to checkpoint.
    pub fn sealed(&self) -> bool {
        self.sealed
    }

    /// Its place in the order of commits.
    pub fn ts(&self) -> CommitTs {
        self.ts
    }
}

impl Store {
    /// Steps 1 to 6. The first of the two resumable halves of a commit.
    pub(crate) fn apply(&self, request: &mut Request<'_>) -> Result<Applied> {
        self.check_open()?;
        self.latch.check()?;
        let Request { begin, durability, .. } = *request;
        if request.writes.is_empty() {
            let durable_at = self.durable_point_of(begin);
            let durability = Durability::Buffered;
            return Ok(Applied { ts: begin, durable_at, durability, sealed: false, wants_segment: false });
        }
        encode(request.writes, request.record);
        self.log.reserve(request.record.len() as u64)?;
        if request.writes.has_large() {
            self.sync_data()?;
        }
        let mut committer = self.lock_with_memory_for(request)?;
        let committer = &mut *committer;
        // Closing takes the lock that we hold: checked again, so that nothing is appended behind a closing block.
        self.check_open()?;
        self.validate(committer, request)?;
        let ts = CommitTs(committer.last.0 + 1);
        stamp(request.record, ts);
        let appended = self.log.append(request.record).map_err(|cause| self.append_failed(cause));
        if appended.is_ok() || self.latch.cause().is_some() {
            // Also if the record is in the log only perhaps: then its extents are not used again before the next
            // opening has found out.
            request.writes.committed_large().for_each(|value| value.publish());
        }
        let end = appended?;
        committer.last = ts;
        apply_record(request.record, &mut committer.writer).expect("the record was encoded a moment ago");
        if request.writes.tables().next() == Some(TableId::CATALOG) {
            self.catalog_changed.store(ts.0, Ordering::SeqCst);
        }
        self.clocks.advance_applied(ts);
        if durability == Durability::Sync {
            committer.unsynced.push_back((ts, end));
        } else if committer.unsynced.is_empty() {
            self.clocks.publish(ts);
        }
        self.tallies.commits.fetch_add(1, Ordering::Relaxed); // Relaxed: a tally, which orders nothing.
        let begin = end.0.saturating_sub(request.record.len() as u64);
        let wants_segment = begin / SEGMENT_CARE_BYTES != end.0 / SEGMENT_CARE_BYTES;
        let sealed = self.seal_if_full(committer, end);
        Ok(Applied { ts, durable_at: end, durability, sealed, wants_segment })
    }

    /// The commit lock, with memory reserved for what is about to be applied: behind the append there is no way back. A
    /// comparison, unless the memtable's writer has used up what it was given before.
    #[inline]
    fn lock_with_memory_for(&self, request: &Request<'_>) -> Result<MutexGuard<'_, Committer>> {
        let (bytes, operations) = (request.record.len(), request.writes.operations());
        let mut committer = lock(&self.committer);
        if committer.writer.reserve(bytes, operations) {
            return Ok(committer);
        }
        let mut patience = Patience::default();
        loop {
            let missing = committer.writer.missing(bytes, operations);
            drop(committer);
            let charge = self.account.charge_making_room(Holder::Memtables, missing);
            if charge.is_none() && !self.wait_for_memory(&mut patience) {
                return Err(self.no_memory("the transaction's commit", missing));
            }
            committer = lock(&self.committer);
            charge.into_iter().for_each(|charge| committer.writer.add_credit(charge));
            // Not for sure: the memtable may have been sealed, or others may have taken what was added.
            if committer.writer.reserve(bytes, operations) {
                return Ok(committer);
            }
        }
    }

    /// Steps 7 and 8: returns when the commit is as durable as it asked to be and every reader sees it.
    ///
    /// # Errors
    /// [`ErrorKind::Indeterminate`] if the flush failed: the commit may or may not survive.
    pub fn acknowledge(&self, applied: Applied) -> Result<CommitTs> {
        if self.clocks.visible() >= applied.ts && applied.durability != Durability::Sync {
            return Ok(applied.ts);
        }
        let through = match applied.durability {
            Durability::Sync => applied.durable_at,
            Durability::Buffered | Durability::Lazy => self.durable_point_of(applied.ts),
        };
        self.sync_log(through).map_err(|cause| indeterminate(&cause))?;
        debug_assert!(self.clocks.visible() >= applied.ts);
        Ok(applied.ts)
    }

    /// Another commit may have taken the room that this one reserved. If making more fails nothing was written, and
    /// that costs this commit alone; a failed write latches.
    #[cold]
    fn append_failed(&self, cause: Error) -> Error {
        match cause.kind() {
            ErrorKind::Latched => self.latch.set(cause),
            _ if self.log.is_latched() => indeterminate(&self.latch.set(cause)),
            _ => cause,
        }
    }

    /// Where the log must be durable for everything through `ts` to be visible: behind the last `Sync` commit at
    /// or before it.
    fn durable_point_of(&self, ts: CommitTs) -> Lsn {
        if self.clocks.visible() >= ts {
            return Lsn(0);
        }
        let committer = lock(&self.committer);
        committer.unsynced.iter().rev().find(|(at, _)| *at <= ts).map_or(Lsn(0), |(_, lsn)| *lsn)
    }

    /// Moves `visible` as far as the log's synced point allows.
    pub(crate) fn publish_synced(&self) {
        let synced = self.log.synced();
        let mut committer = lock(&self.committer);
        while committer.unsynced.front().is_some_and(|(_, lsn)| *lsn <= synced) {
            committer.unsynced.pop_front();
        }
        let visible = committer.unsynced.front().map_or(committer.last, |(ts, _)| CommitTs(ts.0 - 1));
        self.clocks.publish(visible);
    }

    /// Step 2.
    fn validate(&self, committer: &Committer, request: &Request<'_>) -> Result<()> {
        let Request { begin, reads, writes, isolation, .. } = request;
        if committer.last == *begin {
            return Ok(());
        }
        if *begin < committer.history_floor && self.needs_history(request) {
            let message = "the transaction began too long ago to be checked against what was committed \
                           since; run it again, or make it shorter";
            return Err(Error::new(ErrorKind::SnapshotTooOld, message));
        }
        self.validate_tables(committer, request)?;
        let recent = Recent { open: &committer.open, history: &committer.history };
        let mut written = writes.written(|table| recent.table_newest(table) > *begin);
        txn::validate(reads, &mut written, *isolation, *begin, &recent).map_err(|mut conflict| {
            let of_table = |(table, _): &&(Table, Admitted)| table.id() == conflict.table;
            conflict.name = request.tables.iter().find(of_table).map(|(table, _)| table.name().to_owned());
            self.tallies.conflicts.fetch_add(1, Ordering::Relaxed); // Relaxed: a tally, which orders nothing.
            conflict.into()
        })
    }

    /// Whether anything must be unchanged since the transaction began: all but blind writes under serializable, to
    /// tables that nobody can have dropped.
    fn needs_history(&self, request: &Request<'_>) -> bool {
        let is_blind =
            |written| matches!(written, WrittenKey::Key { read: false, .. } | WrittenKey::Range { .. });
        request.isolation == Isolation::Snapshot
            || !request.reads.is_empty()
            || self.catalog_changed.load(Ordering::SeqCst) > request.begin.0
            || !request.writes.written(|_| true).all(|(_, written)| is_blind(written))
    }

    /// A dropped table conflicts with every transaction that writes while it used it, whatever its isolation.
    fn validate_tables(&self, committer: &Committer, request: &Request<'_>) -> Result<()> {
        if self.catalog_changed.load(Ordering::SeqCst) <= request.begin.0 {
            return Ok(());
        }
        let recent = Recent { open: &committer.open, history: &committer.history };
        let changed = |table: &&Table| {
            recent.newest_in(TableId::CATALOG, table.name().as_bytes(), request.begin).is_some()
        };
        match request.tables.iter().map(|(table, _)| table).find(changed) {
            None => Ok(()),
            Some(table) => {
                let message =
                    format!("table {:?} was made or dropped since the transaction began", table.name());
                Err(Error::new(ErrorKind::Conflict, message))
            }
        }
    }

    /// Answers whether the open memtable was full: for itself, or because others with whom the memory is shared need
    /// some. With [`MAX_SEALED`] waiting it stays open and grows, which [`crate::store::Pressure`] bounds.
    fn seal_if_full(&self, committer: &mut Committer, end: Lsn) -> bool {
        let (used, shares) = (committer.writer.used_bytes(), &self.shares);
        let is_scarce = || self.account.budget().held_as(Holder::Memtables) > shares.memtables_bytes / 3 * 2;
        let full = used >= shares.seal_bytes
            || committer.open.records() >= self.seal_records.min(self.max_log_records / 4).max(1)
            || end.0.saturating_sub(committer.opened_at.0) >= self.max_log_bytes / 4
            || (used >= shares.memtables_bytes / 16 && is_scarce());
        if full && self.pressure().sealed < MAX_SEALED {
            self.seal(committer);
        }
        full
    }

    /// Closes the open memtable and opens a new one. Does nothing if it is empty.
    pub(crate) fn seal(&self, committer: &mut Committer) {
        if committer.open.is_empty() {
            return;
        }
        let (open, writer) = self.new_memtable(committer.writer.take_credit());
        let sealed = self.views.seal(committer.last, self.log.end(), Arc::clone(&open));
        let sealed_end = sealed.log_end.lsn;
        committer.history.insert(0, sealed);
        committer.opened_at = sealed_end;
        committer.open = open;
        committer.writer = writer;
        self.tallies.seals.fetch_add(1, Ordering::Relaxed); // Relaxed: a tally, which orders nothing.
    }

    /// Forgets the sealed memtables that every read-write transaction began after, but for expired ones, which get
    /// [`ErrorKind::SnapshotTooOld`]. They are freed once no view holds them either, by the caller and outside the
    /// lock.
    pub(crate) fn prune_history(&self, committer: &mut Committer) -> Vec<SealedMemtable> {
        let oldest = oldest_writing_view(&self.slots);
        let forgotten: Vec<_> =
            committer.history.extract_if(.., |sealed| sealed.first_view <= oldest).collect();
        for sealed in &forgotten {
            committer.history_floor = committer.history_floor.max(sealed.sealed_at);
        }
        forgotten
    }
}

#[cold]
fn indeterminate(cause: &Error) -> Error {
    let message = "the commit was being written when the disk failed; whether it survives shows when the \
                   database is opened again";
    Error::new(ErrorKind::Indeterminate, message).caused_by(cause.to_string())
}

/// Step 1: the commit record, its timestamp still open.
fn encode(writes: &mut WriteSet, record: &mut Vec<u8>) {
    writes.sort_for_commit();
    let mut encoder = Encoder::begin(record, CommitTs(0), writes.operations());
    for table in writes.tables() {
        for op in writes.ops(table) {
            encoder.push(table, op);
        }
    }
}

/// The commits since a timestamp, as validation asks for them.
struct Recent<'a> {
    open: &'a Memtable,
    history: &'a [SealedMemtable],
}

impl Recent<'_> {
    fn since(&self, since: CommitTs) -> impl Iterator<Item = &Memtable> {
        let sealed = self.history.iter().take_while(move |sealed| sealed.sealed_at > since);
        std::iter::once(self.open).chain(sealed.map(|sealed| &*sealed.memtable))
    }
}

impl History for Recent<'_> {
    fn newest_in(&self, table: TableId, key: &[u8], since: CommitTs) -> Option<CommitTs> {
        self.since(since).find_map(|memtable| memtable.newest_in(table, key).filter(|ts| *ts > since))
    }

    fn changed_in(
        &self,
        table: TableId,
        start: &[u8],
        end: Bound<&[u8]>,
        since: CommitTs,
    ) -> Option<Vec<u8>> {
        self.since(since).find_map(|memtable| memtable.changed_since(table, start, end, since))
    }

    fn table_newest(&self, table: TableId) -> CommitTs {
        self.since(CommitTs(0)).map(|memtable| memtable.newest(table)).max().unwrap_or(CommitTs(0))
    }
}
