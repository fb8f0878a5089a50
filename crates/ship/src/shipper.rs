//! Shipping: a thread that follows the database's commits and writes them to the bucket.
//!
//! Each round does the first of these that is due:
//! 1. Take the lineage over.
//! 2. Settle the segment whose outcome is unknown.
//! 3. Make a base that leaps, where there is none yet, or where the database no longer has the commits that follow.
//! 4. Gather changes, write a segment, publish a base that is finished, begin one when the log has outgrown the last.
//!
//! A request that fails ends the round; the next one begins after a pause. Nothing is lost by that: the database has
//! every commit that is not in the bucket, or a new base has it. The database never waits for this thread.

use crate::bases::{Draft, Drafting};
use crate::bucket::Bucket;
use crate::candidate::Candidate;
use crate::gather::{Batch, ChangeWriter};
use crate::lineage::Standing;
use crate::objects::Manifest;
use crate::options::{LEAST_LOG_BYTES, MOST_SEGMENT_BYTES, Options};
use crate::retention::Retention;
use crate::source::{Follow, Source};
use crate::status::{Board, State};
use crate::writer::Writer;
use base::checksum::Running;
use base::{Error, ErrorKind, Result};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The pauses after failures: doubled each time, up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// How long the thread waits for a change before it looks after anything else.
const LOOK: Duration = Duration::from_millis(20);

/// The work of the thread.
pub(crate) struct Worker {
    source: Arc<dyn Source>,
    bucket: Bucket,
    options: Options,
    board: Arc<Board>,
    /// The database's newest commit when shipping began: what this process adds must not look as if it had been there.
    newest_at_start: u64,
    writer: Option<Writer>,
    /// A base that is published before the pending segment is written.
    leap: Option<Manifest>,
    needs_leap: bool,
    drafting: Option<Drafting>,
    /// Changes that were put into the segment that is pending.
    pending: Option<PendingBatch>,
    base_bytes: u64,
    retention: Retention,
    stop_by: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct PendingBatch {
    bytes: u64,
    began: Instant,
}

impl Worker {
    pub fn new(source: Arc<dyn Source>, bucket: Bucket, options: Options, board: Arc<Board>) -> Result<Self> {
        let newest_at_start = source.newest()?;
        let options =
            Options { segment_bytes: options.segment_bytes.clamp(1, MOST_SEGMENT_BYTES), ..options };
        Ok(Worker {
            source,
            bucket,
            options,
            board,
            newest_at_start,
            writer: None,
            leap: None,
            needs_leap: false,
            drafting: None,
            pending: None,
            base_bytes: 0,
            retention: Retention::default(),
            stop_by: None,
        })
    }

    /// Ships until it is stopped, or until an error that no repetition mends.
    pub fn run(mut self) {
        let mut pause = PAUSES.0;
        let end = loop {
            let before = self.board.status(None).shipped_commit;
            let error = match self.round() {
                Ok(()) => break None,
                Err(error) => error,
            };
            if !is_passing(&error) {
                break Some(error);
            }
            if self.is_out_of_time() {
                break Some(error.within("shipping was stopped before everything was in the bucket"));
            }
            self.board.update(|status| {
                status.state = State::Retrying;
                status.last_error = Some(error.to_string());
                status.puts = self.bucket.puts();
            });
            let moved = self.board.status(None).shipped_commit > before;
            pause = if moved { PAUSES.0 } else { (pause * 2).min(PAUSES.1) };
            self.board.sleep(pause);
        };
        self.board.end(end);
    }

    fn is_out_of_time(&mut self) -> bool {
        if !self.board.is_stopping() {
            return false;
        }
        let within = self.options.stop_within;
        *self.stop_by.get_or_insert_with(|| Instant::now() + within) <= Instant::now()
    }

    /// Returns when shipping was stopped and everything is in the bucket.
    fn round(&mut self) -> Result<()> {
        if self.writer.is_none() {
            self.take_over()?;
        }
        self.settle()?;
        if self.writer().tail().is_drop {
            return Ok(());
        }
        loop {
            if self.needs_leap {
                self.leap()?;
            }
            let after = self.writer().tail().last_commit;
            let followed = self.source.follow(after).and_then(|mut feed| self.follow(&mut *feed));
            match followed {
                Err(error) if error.kind() == ErrorKind::TooOld => self.needs_leap = true,
                done => return done,
            }
        }
    }

    fn writer(&self) -> &Writer {
        self.writer.as_ref().expect("the lineage was taken over")
    }

    fn take_over(&mut self) -> Result<()> {
        let source = Arc::clone(&self.source);
        let checksum = |commit| checksum_of(&*source, commit);
        let (identity, origin) = (source.identity()?, source.origin()?);
        let candidate =
            Candidate { identity, origin, newest: self.newest_at_start, follows: false, checksum: &checksum };
        let writer = Writer::take_over(&self.bucket, &candidate)?;
        self.needs_leap = !self.has_base(&writer)?;
        let (epoch, commit) = (writer.epoch(), writer.tail().last_commit);
        self.writer = Some(writer);
        let has_base = !self.needs_leap;
        self.board.update(|status| {
            (status.epoch, status.has_base) = (epoch, has_base);
            if has_base {
                (status.state, status.shipped_commit) = (State::Shipping, commit);
            }
        });
        Ok(())
    }

    /// Returns whether the log that follows can be restored. Learns how long the newest base is.
    fn has_base(&mut self, writer: &Writer) -> Result<bool> {
        for named in writer.lineage.kept_bases()?.into_iter().rev() {
            let stands = named.base.and_then(|base| Ok((writer.lineage.stands(&base)?, base)));
            match stands {
                Ok((Standing::Valid(_), base)) => {
                    self.base_bytes = base.manifest.parts.stored_bytes();
                    // A newer one that is gone may have leapt over commits.
                    return Ok(base.manifest.commit >= writer.tail().base_commit);
                }
                Ok((Standing::Unfinished, _)) => {}
                // Of no use, and those before it may lack commits over which it leaps: a new one takes its place.
                Err(error) if error.kind() == ErrorKind::Corruption => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Writes the segment that is pending, if there is one.
    fn settle(&mut self) -> Result<()> {
        let writer = self.writer.as_mut().expect("the lineage was taken over");
        if !writer.is_pending() {
            return Ok(());
        }
        if let Some(manifest) = &self.leap {
            writer.publish(manifest)?;
        }
        self.source.sync()?;
        let stored = writer.settle()?;
        let tail = *writer.tail();
        if let Some(manifest) = self.leap.take() {
            self.needs_leap = false;
            self.published(&manifest);
        }
        let pending = self.pending.take();
        if let Some(drafting) = &mut self.drafting {
            drafting.mark(&tail);
        }
        self.board.set_waiting(0, None);
        // A database that was closed meanwhile has it all the same.
        let newest = self.source.newest().unwrap_or(tail.last_commit);
        let puts = self.bucket.puts();
        self.board.update(|status| {
            (status.state, status.has_base) = (State::Shipping, true);
            status.shipped_commit = tail.last_commit;
            status.newest_commit = newest;
            status.segments += 1;
            status.segment_bytes += stored;
            status.change_bytes += pending.map_or(0, |pending| pending.bytes);
            status.puts = puts;
        });
        Ok(())
    }

    /// Makes a base of what the database has now, and lets the log begin anew after it.
    fn leap(&mut self) -> Result<()> {
        let mut drafting = self.draft()?;
        self.drafting = None;
        let draft = loop {
            if let Some(draft) = drafting.take()? {
                break draft;
            }
            if self.is_out_of_time() {
                return Err(Error::new(ErrorKind::Io, "the base was not finished in time"));
            }
            std::thread::sleep(LOOK);
        };
        let writer = self.writer.as_mut().expect("the lineage was taken over");
        let tail = *writer.tail();
        let time_ms = draft.time_ms.max(tail.last_time_ms);
        let (number, hash) = writer.prepare_rebase(draft.commit, time_ms);
        self.leap = Some(Draft { time_ms, ..draft }.manifest(number, hash, Some(tail.last_commit)));
        self.settle()?;
        self.retain();
        Ok(())
    }

    /// Begins a base, beside the log of this very lineage.
    fn draft(&mut self) -> Result<Drafting> {
        let writer = self.writer.as_mut().expect("the lineage was taken over");
        let attempt = writer.begin_attempt();
        Drafting::begin(&self.source, &writer.lineage.bucket, attempt)
    }

    /// Looks for what is no longer needed. Commits do not wait for it to succeed: the next base is the next occasion.
    fn retain(&mut self) {
        let writer = self.writer.as_ref().expect("the lineage was taken over");
        let begun = self.retention.begin(writer, &self.options, self.source.time_ms());
        self.note(begun);
    }

    /// Deletes a little of that. Returns whether there is more.
    fn delete_some(&mut self) -> bool {
        let writer = self.writer.as_ref().expect("the lineage was taken over");
        let more = self.retention.step(writer);
        self.note(more).unwrap_or(false)
    }

    /// Notes an error that changes nothing.
    fn note<T>(&self, outcome: Result<T>) -> Option<T> {
        outcome
            .inspect_err(|error| self.board.update(|status| status.last_error = Some(error.to_string())))
            .ok()
    }

    fn published(&mut self, manifest: &Manifest) {
        self.base_bytes = manifest.parts.stored_bytes();
        let bytes = self.base_bytes;
        self.board.update(|status| {
            status.state = State::Shipping;
            status.bases += 1;
            status.base_bytes += bytes;
        });
    }

    /// Ships what `feed` yields.
    fn follow(&mut self, feed: &mut dyn Follow) -> Result<()> {
        loop {
            self.look_after_bases()?;
            self.delete_some();
            let stopping = self.board.is_stopping();
            let newest = self.source.newest()?;
            match self.gather(feed)? {
                Some(batch) => {
                    let pending = PendingBatch { bytes: batch.bytes, began: batch.began };
                    self.board.set_waiting(pending.bytes, Some(pending.began));
                    self.writer.as_mut().expect("the lineage was taken over").prepare(batch)?;
                    self.pending = Some(pending);
                    self.settle()?;
                }
                None if stopping && self.writer().tail().last_commit >= newest => {
                    while self.delete_some() && !self.is_out_of_time() {}
                    return self.say_end();
                }
                None if self.is_out_of_time() => {
                    return Err(Error::new(ErrorKind::Io, "the last commits were not shipped in time"));
                }
                None => {}
            }
        }
    }

    /// Says that this writer has ended in order, or that the database was dropped, if it is to, and if the newest
    /// segment does not say so. If the outcome is unknown, the next round settles it. A commit that comes meanwhile is
    /// shipped after a release, which is then said again. Nothing is shipped after a drop.
    fn say_end(&mut self) -> Result<()> {
        let dropped_ms = self.source.time_ms();
        let (is_dropping, is_releasing) = (self.board.is_dropping(), self.board.is_releasing());
        let writer = self.writer.as_mut().expect("the lineage was taken over");
        if is_dropping {
            writer.prepare_drop(dropped_ms);
        } else if is_releasing && !writer.tail().is_release {
            writer.prepare_release();
        }
        self.settle()
    }

    /// Collects changes until a segment is due; `None` if there is none.
    fn gather(&mut self, feed: &mut dyn Follow) -> Result<Option<Batch>> {
        let mut batch: Option<Batch> = None;
        loop {
            let wait = match &batch {
                None => LOOK,
                Some(batch) if self.is_due(batch) => Duration::ZERO,
                Some(batch) => self.options.interval.saturating_sub(batch.began.elapsed()).min(LOOK),
            };
            let writer = self.writer();
            let mut out = ChangeWriter::new(&writer.lineage.bucket, writer.next_number());
            let next = feed.next(wait, &mut out);
            match next.map_err(|error| out.failure(error))? {
                Some(stamp) => Batch::add(&mut batch, stamp, out.finish()?),
                None if batch.as_ref().is_none_or(|batch| self.is_due(batch)) => return Ok(batch),
                None => {}
            }
            if let Some(pending) = &batch {
                self.board.set_waiting(pending.bytes, Some(pending.began));
                let is_late = pending.began.elapsed() >= self.options.interval;
                if is_late || pending.body.len() >= self.options.segment_bytes {
                    return Ok(batch);
                }
            }
        }
    }

    /// Returns whether the pending changes are written without waiting for more.
    fn is_due(&self, batch: &Batch) -> bool {
        self.options.sync
            || batch.began.elapsed() >= self.options.interval
            || self.board.wanted() > self.writer().tail().last_commit
            || self.board.is_stopping()
    }

    fn look_after_bases(&mut self) -> Result<()> {
        if let Some(drafting) = &mut self.drafting {
            let manifest = match drafting.manifest() {
                Ok(manifest) => manifest,
                Err(error) => {
                    self.drafting = None;
                    return Err(error);
                }
            };
            if let Some(manifest) = manifest {
                self.writer.as_mut().expect("the lineage was taken over").publish(&manifest)?;
                self.drafting = None;
                self.published(&manifest);
                self.retain();
            }
            return Ok(());
        }
        let multiple = u64::from(self.options.base_multiple);
        if self.writer().tail().log_bytes > (self.base_bytes.saturating_mul(multiple)).max(LEAST_LOG_BYTES) {
            let mut drafting = self.draft()?;
            drafting.mark(self.writer().tail());
            self.drafting = Some(drafting);
        }
        Ok(())
    }
}

/// Returns whether it makes sense to try again.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Full | ErrorKind::WouldWait | ErrorKind::Conflict)
}

/// Returns the checksum of the change with number `commit`; `None` if the database no longer has it.
fn checksum_of(source: &dyn Source, commit: u64) -> Result<Option<u64>> {
    struct Sum(Running);
    impl Write for Sum {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    // A forged log may end before the first commit.
    let Some(before) = commit.checked_sub(1) else { return Ok(None) };
    let mut feed = match source.follow(before) {
        Err(error) if error.kind() == ErrorKind::TooOld => return Ok(None),
        feed => feed?,
    };
    let mut sum = Sum(Running::unseeded());
    match feed.next(Duration::ZERO, &mut sum) {
        Err(error) if error.kind() == ErrorKind::TooOld => Ok(None),
        Ok(Some(stamp)) if stamp.commit == commit => Ok(Some(sum.0.finish())),
        done => done.map(|_| None),
    }
}
