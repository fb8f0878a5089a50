//! Commit: the only path by which data enters the database.
//!
//! The steps, in order; all except 1, 7 and 8 hold the commit lock, and a part of 2 that can take long is done ahead
//! without it:
//! 1. *Encode* the writes in key order and *reserve* room in the log. A failure here aborts only this transaction. If
//!    the record refers to values in the data file, *sync* that file: once for all of them, whatever the durability,
//!    because any later flush may make the record durable. (A failed flush latches, as always; nothing was committed.)
//!    *Stage* the record in the open memtable: copy keys and values to where they will stay, unseen by readers.
//! 2. *Validate* the reads (or, under snapshot isolation, the writes) against the commits since the transaction's
//!    snapshot.
//! 3. *Stamp*: the next timestamp is its place in the order of commits.
//! 4. *Append* to the log: from here on the commit survives a killed process.
//! 5. *Apply* to the open memtable: link what was staged, unless that memtable was sealed meanwhile.
//! 6. *Publish* to writers: `applied` moves on. If no `Sync` commit at or before it waits for the disk, `visible` moves
//!    on too.
//! 7. *Sync*, if the durability requires it: one flush for all commits that wait (the log's group commit).
//! 8. *Acknowledge* once `visible` has reached it, and wake readers of changes.
//!
//! A failure from step 4 on latches the database and leaves the commit [`ErrorKind::Indeterminate`], with one
//! exception: if step 4 finds that another commit took the room and there is no more, nothing was written, and the
//! failure counts as one of step 1. A panic between the append and the end of step 6 latches as well (`unpublished`).

use crate::commit::apply::{apply_record, is_staged_as, stage_record};
use crate::commit::recent::Recent;
use crate::commit::unpublished::Unpublished;
use crate::read::handle::Table;
use crate::read::used::UsedTables;
use crate::state::attach::Attached;
use crate::state::committer::Committer;
use crate::state::options::MAX_SEALED;
use crate::state::store::Store;
use crate::state::ttl::{Ttl, stamp_floors};
use crate::state::view::SealedMemtable;
use crate::uncommitted::spill::Spills;
use crate::uncommitted::write_set::WriteSet;
use base::budget::MemoryCategory;
use base::latency::Cause;
use base::limits::{TIMESTAMP_LIMIT, used_up};
use base::op::{Encoder, stamp, stamp_time};
use base::phases::{self, Phase};
use base::slots::Reader;
use base::sync::lock;
use base::{CommitTs, Error, ErrorKind, Lsn, Result, TableId};
use log::{Log, Position};
use memtable::{Memtable, Staged, Writer};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use txn::{Conflict, Durability, History, Isolation, ReadSet, WrittenKey};

/// A transaction as the commit path needs it.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The timestamp of its snapshot.
    pub begin: CommitTs,
    /// The keys and ranges that it read.
    pub reads: &'a ReadSet,
    /// Its writes.
    pub writes: &'a mut WriteSet,
    /// An empty buffer for the commit record.
    pub record: &'a mut Vec<u8>,
    /// The tables that it used. If it wrote anything, their catalog rows must be unchanged.
    pub tables: &'a UsedTables,
    /// Its isolation.
    pub isolation: Isolation,
    /// Its durability.
    pub durability: Durability,
    /// The reader with which pages are looked at.
    pub reader: &'a Reader,
    /// Its spilled runs.
    pub spills: Option<Box<Spills>>,
    /// The records and bytes of the spilled runs, once they are known: a checkpoint must find room for them, too. The
    /// rest of such a commit goes to a memtable of its own.
    pub spilled: Option<(u64, u64)>,
    /// The tables whose TTL it changes, with the values when it began.
    pub ttls_before: &'a [(TableId, Ttl)],
    /// The commit of another database that it repeats.
    pub repeats: Option<Repeated>,
    /// Whether its writes can be spilled if no memory can be had for them.
    pub can_spill: bool,
    /// Whether it has failed for that reason.
    pub should_spill: bool,
}

/// A commit of another database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repeated {
    /// Its number: it is committed under this number, or not at all.
    pub number: CommitTs,
    /// The time at which the other database made it, in milliseconds since 1970; `None`: unknown.
    pub time_ms: Option<u64>,
}

/// A commit that is in the log and the memtable, and not acknowledged yet.
#[derive(Clone, Copy, Debug)]
#[must_use = "a commit is acknowledged by Store::acknowledge"]
pub struct Applied {
    pub(super) ts: CommitTs,
    pub(super) durable_at: Lsn,
    pub(super) durability: Durability,
    pub(crate) sealed: bool,
    wants_segment: bool,
    /// Whether it became visible in step 6, and readers of changes are to be woken.
    pub(super) is_visible: bool,
}

/// The number of appended bytes after which the log's next segment is checked.
const SEGMENT_CARE_BYTES: u64 = 64 << 10;

impl Applied {
    /// Returns whether this is a good moment to call [`Store::prepare_log`] in the background.
    pub fn wants_segment(&self) -> bool {
        self.wants_segment
    }

    /// Returns whether the commit found the memtable full, so that there is something to checkpoint.
    pub fn sealed(&self) -> bool {
        self.sealed
    }

    /// Returns its place in the order of commits.
    pub fn ts(&self) -> CommitTs {
        self.ts
    }
}

impl Store {
    /// Validates, appends, applies and publishes the transaction: steps 1 to 6, the first of the two resumable parts of
    /// a commit.
    pub(crate) fn apply(&self, request: &mut Request<'_>) -> Result<Applied> {
        self.check_open()?;
        self.latch.check()?;
        let begin = request.begin;
        // This is declared before the lock is taken, and so dropped after it: rolled back spills free their extents.
        let mut spills = request.spills.take();
        if let Some(spills) = spills.take_if(|spills| !spills.is_empty()) {
            return self.apply_spilled(request, *spills);
        }
        if request.writes.is_empty() {
            let durable_at = self.durable_point_of(begin);
            let durability = Durability::Buffered;
            let (sealed, wants_segment, is_visible) = (false, false, false);
            return Ok(Applied { ts: begin, durable_at, durability, sealed, wants_segment, is_visible });
        }
        encode(request.writes, None, self.is_timed(request), request.record);
        self.reserve_log(request.record)?;
        if request.writes.has_large() {
            self.sync_data()?;
        }
        // Attached runs are on the disk: looking into them must not happen in the critical section.
        let since = match self.attached.load(Ordering::SeqCst) > begin.0 {
            true => self.validate_ahead(request, spills.as_deref(), begin)?,
            false => begin,
        };
        // This is declared before the lock is taken, and so dropped after it, too: it may be the last that has a
        // memtable.
        let mut staged = self.stage(request);
        let mut committer = self.lock_with_memory_for(request, &mut staged)?;
        let committer = &mut *committer;
        // Closing takes the lock that is held here. The check is repeated, so that nothing is appended after a closing
        // block.
        self.check_open()?;
        let recent = committer.recent(self, request.reader);
        self.validate(&recent, request, spills.as_deref(), since)?;
        let ts = next_stamp(committer, request)?;
        let unpublished = self.append(request, ts)?;
        committer.last = ts;
        match staged.as_mut().filter(|staged| staged.is_in(&committer.open)) {
            Some(staged) => {
                debug_assert!(
                    is_staged_as(request.record, staged),
                    "the record has changed since it was staged"
                );
                committer.writer.link(staged, ts);
            }
            None => {
                apply_record(request.record, &mut committer.writer).expect("it was encoded a moment ago");
            }
        }
        Ok(self.publish(committer, request, ts, unpublished))
    }

    /// Reserves room in the log, which is nearly always ready; making it requires disk access.
    pub(crate) fn reserve_log(&self, record: &[u8]) -> Result<()> {
        if self.log.has_room(record.len() as u64)? {
            return Ok(());
        }
        self.slots.latencies.time(Cause::LogRoom, || self.make_log_room(record))
    }

    /// Stages the record if that can be done before the lock is held.
    fn stage(&self, request: &Request<'_>) -> Option<Staged> {
        // The rows of tables whose TTL changes are completed under the lock: see `stamp_floors`.
        if !request.ttls_before.is_empty() {
            return None;
        }
        let full_bytes = self.memory.shares.full_bytes();
        stage_record(request.record, request.writes, full_bytes, || self.views.open_memtable())
    }

    /// Publishes an applied commit to writers (step 6), counts what it wrote, and seals the open memtable if it is
    /// full.
    pub(crate) fn publish(
        &self,
        committer: &mut Committer,
        request: &Request<'_>,
        ts: CommitTs,
        unpublished: Unpublished<'_>,
    ) -> Applied {
        let (durability, end) = (request.durability, unpublished.end());
        let (bytes, all) = (request.record.len() as u64, request.writes.operations());
        if request.writes.tables().next() == Some(TableId::CATALOG) {
            self.catalog.note(ts);
        }
        self.clocks.advance_applied(ts);
        if durability == Durability::Sync {
            committer.unsynced.push_back((ts, end));
        }
        let is_visible = committer.unsynced.is_empty();
        if is_visible {
            self.clocks.publish(ts);
            self.show_readers();
        }
        self.tallies.commits.fetch_add(1, Ordering::Relaxed); // Relaxed: a tally, which orders nothing.
        for (table, operations) in request.writes.operations_by_table() {
            let written = committer.written.entry(table).or_default();
            written.commits += 1;
            written.operations += operations;
            written.bytes += if operations == all { bytes } else { bytes * operations / all };
        }
        let begin = end.0.saturating_sub(request.record.len() as u64);
        let wants_segment = begin / SEGMENT_CARE_BYTES != end.0 / SEGMENT_CARE_BYTES;
        if request.writes.has_large() {
            committer.large_bytes += request.writes.large_bytes();
        }
        let sealed = self.seal_if_full(committer, end);
        unpublished.published();
        Applied { ts, durable_at: end, durability, sealed, wants_segment, is_visible }
    }

    /// Appends `request`'s record to the log with the timestamp `ts`. The extents in the data file that it names then
    /// belong to the log. This holds after a failed append, too, if the record may be in the log: after the latch of
    /// such a failure nothing is freed.
    pub(crate) fn append(&self, request: &mut Request<'_>, ts: CommitTs) -> Result<Unpublished<'_>> {
        stamp(request.record, ts);
        if self.is_timed(request) {
            self.note_time(request);
        }
        if !request.ttls_before.is_empty() {
            stamp_floors(request.record, request.ttls_before, self.time.now_ms());
        }
        let append = if request.durability == Durability::Sync { Log::append_to_sync } else { Log::append };
        let end = append(&self.log, request.record).map_err(|cause| self.append_failed(cause))?;
        let unpublished = Unpublished::new(self, end);
        request.writes.committed_large().for_each(|value| value.publish());
        Ok(unpublished)
    }

    /// Returns whether the record should contain the time of its commit.
    #[inline]
    pub(crate) fn is_timed(&self, request: &Request<'_>) -> bool {
        self.feeds.records_time() || request.repeats.is_some()
    }

    /// Adds the time of the commit to the record, if there is room for it.
    #[cold]
    fn note_time(&self, request: &mut Request<'_>) {
        let own = || self.time.now_ms();
        stamp_time(request.record, request.repeats.map_or_else(own, |commit| commit.time_ms.unwrap_or(0)));
    }

    /// Validates the transaction against the commits so far, without the commit lock (step 2). Returns the commit up to
    /// which the rest need not check again.
    pub(crate) fn validate_ahead(
        &self,
        request: &Request<'_>,
        spills: Option<&Spills>,
        since: CommitTs,
    ) -> Result<CommitTs> {
        let (open, history, floor, last) = {
            let committer = lock(&self.committer);
            (Arc::clone(&committer.open), committer.history.clone(), committer.history_floor, committer.last)
        };
        let recent = Recent::new(&open, &history, floor, last, self, request.reader);
        self.validate(&recent, request, spills, since)?;
        Ok(last)
    }

    /// Validates the transaction against the commits after `since`, up to which it was validated before (step 2).
    pub(crate) fn validate(
        &self,
        recent: &Recent<'_>,
        request: &Request<'_>,
        spills: Option<&Spills>,
        since: CommitTs,
    ) -> Result<()> {
        let Request { reads, writes, isolation, .. } = request;
        if recent.last == since {
            return Ok(());
        }
        if since < recent.floor && (spills.is_some() || self.needs_history(request)) {
            let message = "the transaction began too long ago to be checked against what was committed \
                           since; run it again, or make it shorter";
            return Err(Error::new(ErrorKind::SnapshotTooOld, message));
        }
        self.validate_tables(recent, request, since)?;
        let is_concerned =
            |table| recent.table_newest(table) > since && !recent.can_skip(writes, table, since);
        let mut written = writes.written(is_concerned);
        let mut validated = txn::validate(reads, &mut written, *isolation, since, recent);
        if validated.is_ok()
            && let Some(spills) = spills
        {
            validated = recent.validate_spills(spills, *isolation, since);
        }
        // A page that could not be read was reported as a conflict: the failure takes precedence.
        recent.failure.take().map_or(Ok(()), Err)?;
        validated.map_err(|conflict| {
            let mut tables = request.tables.iter();
            let name = tables.find(|table| table.id() == conflict.table_id()).map(Table::name);
            self.tallies.conflicts.fetch_add(1, Ordering::Relaxed); // Relaxed: a tally, which orders nothing.
            conflict.in_table(name).into()
        })
    }

    /// Returns whether anything must be unchanged since the transaction began: everything except blind writes under
    /// serializable isolation, to tables that cannot have been dropped.
    fn needs_history(&self, request: &Request<'_>) -> bool {
        let is_blind =
            |written| matches!(written, WrittenKey::Key { read: false, .. } | WrittenKey::Range { .. });
        request.isolation == Isolation::Snapshot
            || !request.reads.is_empty()
            || self.catalog.newest() > request.begin
            || !request.writes.written(|_| true).all(|(_, written)| is_blind(written))
    }

    /// Checks the tables. A dropped table conflicts with every writing transaction that used it, at any isolation
    /// level.
    fn validate_tables(&self, recent: &Recent<'_>, request: &Request<'_>, since: CommitTs) -> Result<()> {
        if self.catalog.newest() <= since {
            return Ok(());
        }
        let changed =
            |table: &&Table| recent.newest_in(TableId::CATALOG, table.name().as_bytes(), since).is_some();
        match request.tables.iter().find(changed) {
            None => Ok(()),
            Some(table) => Err(Conflict::about_table(table.id(), table.name()).into()),
        }
    }

    /// Seals the open memtable if it is full, or if other databases that share the memory need some. Returns whether it
    /// was. If [`MAX_SEALED`] memtables wait, it stays open and grows, which [`crate::store::Pressure`] bounds.
    fn seal_if_full(&self, committer: &mut Committer, end: Lsn) -> bool {
        let (used, shares) = (committer.writer.used_bytes(), &self.memory.shares);
        // Its own memtables are sealed when they are full, so that it never runs short because of them alone. Sealed
        // early, they would become many small runs of LSM tables.
        let is_scarce = || {
            let (all, own) = (
                self.memory.account.budget().held_as(MemoryCategory::Memtables),
                self.memory.account.held().bytes(MemoryCategory::Memtables),
            );
            all > shares.memtables_bytes / 3 * 2 && all.saturating_sub(own) > all / 8
        };
        let full = used >= shares.full_bytes()
            || committer.open.records() >= self.seal_records.min(self.max_log_records / 4).max(1)
            || end.0.saturating_sub(committer.opened_at.0) >= self.max_log_bytes / 4
            || committer.large_bytes >= shares.large_bytes()
            || (used >= shares.memtables_bytes / 16 && is_scarce());
        if full && self.pressure().sealed < MAX_SEALED {
            self.seal(committer);
        }
        full
    }

    /// Closes the open memtable and opens a new one. Does nothing if it is empty.
    pub(crate) fn seal(&self, committer: &mut Committer) {
        self.seal_at(committer, self.log.end());
    }

    /// Closes the open memtable, whose last commit ends at `log_end`, and opens a new one. Does nothing if it is empty:
    /// then it has no memory, except what commits in progress have staged, which a commit that fails frees.
    pub(crate) fn seal_at(&self, committer: &mut Committer, log_end: Position) {
        if committer.open.is_empty() {
            return;
        }
        phases::within(Phase::Seal, || {
            let (open, writer) = self.memory.new_memtable(committer.writer.take_credit());
            let sealed = self.views.seal(committer.last, log_end, Arc::clone(&open));
            self.note_sealed(committer, sealed, open, writer);
        });
    }

    /// Notes that `sealed` was sealed, and that `open` takes the following commits.
    pub(crate) fn note_sealed(
        &self,
        committer: &mut Committer,
        sealed: SealedMemtable,
        open: Arc<Memtable>,
        writer: Writer,
    ) {
        committer.opened_at = sealed.log_end.lsn;
        committer.large_bytes = 0;
        committer.history.insert(0, sealed);
        committer.open = open;
        committer.writer = writer;
        self.tallies.seals.fetch_add(1, Ordering::Relaxed); // Relaxed: a tally, which orders nothing.
    }
}

/// Returns the timestamp of `request`, its place in the order of commits (step 3).
///
/// Errors: [`ErrorKind::Mismatch`] if it repeats a commit that has another place; [`ErrorKind::Corruption`] if a forged
/// file has left no number.
#[inline]
pub(crate) fn next_stamp(committer: &Committer, request: &Request<'_>) -> Result<CommitTs> {
    let next = CommitTs(committer.last.0 + 1);
    match request.repeats {
        Some(commit) if commit.number != next => Err(out_of_order(commit.number, next)),
        _ if next.0 >= TIMESTAMP_LIMIT => Err(used_up("commit", committer.last.0)),
        _ => Ok(next),
    }
}

#[cold]
fn out_of_order(number: CommitTs, next: CommitTs) -> Error {
    let message = format!(
        "commit {} cannot be repeated here: the next commit of this database is {}, as it made commits of \
         its own",
        number.0, next.0
    );
    Error::new(ErrorKind::Mismatch, message)
}

/// Encodes the commit record, without its timestamp, and with its time if it is `timed` (step 1). Attached runs come
/// first.
pub(crate) fn encode(writes: &mut WriteSet, attached: Option<&Attached>, timed: bool, record: &mut Vec<u8>) {
    writes.sort_for_commit();
    let runs = attached.map_or(0, Attached::count) as u64;
    let begin = if timed { Encoder::begin_timed } else { Encoder::begin };
    let mut encoder = begin(record, CommitTs(0), runs + writes.operations());
    for (table, op) in attached.into_iter().flat_map(Attached::ops) {
        encoder.push(table, op.as_op());
    }
    for table in writes.tables() {
        writes.for_each_op(table, |op| encoder.push(table, op));
    }
}
