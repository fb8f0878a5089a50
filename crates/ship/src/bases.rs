//! Making a base: a backup, uploaded in parts by a thread of its own while the log goes on.
//!
//! A base is published only when the log through its commit is in the bucket. Before that it would name commits that
//! the lineage may never have.
//!
//! A base is dated by the time of the database, as its commits are (decision 31): a restore as of a time must not begin
//! with a base that has commits after it. Commits that the database repeated have the time of the database that made
//! them, which may be ahead of its own. So a base is not dated before the end of the log that it stands on.

use crate::bucket::Bucket;
use crate::format::{Hash, PartList};
use crate::name;
use crate::objects::Manifest;
use crate::parts::PartWriter;
use crate::source::Source;
use crate::writer::Tail;
use base::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// A base that was uploaded and is not published yet.
#[derive(Debug)]
pub(crate) struct Draft {
    pub commit: u64,
    pub time_ms: u64,
    pub parts: PartList,
}

impl Draft {
    /// Returns the manifest of this base, which stands on segment `segment` with that hash.
    pub fn manifest(&self, segment: u64, segment_hash: Hash, leaps_after: Option<u64>) -> Manifest {
        let Draft { commit, time_ms, ref parts } = *self;
        Manifest { commit, time_ms, segment, segment_hash, leaps_after, parts: parts.clone() }
    }
}

/// The end of the log at some moment after the draft was begun.
#[derive(Clone, Copy, Debug)]
struct Mark {
    number: u64,
    hash: Hash,
    last_commit: u64,
    last_time_ms: u64,
}

/// A base that is being made.
#[derive(Debug)]
pub(crate) struct Drafting {
    thread: Option<JoinHandle<Result<Draft>>>,
    done: Option<Draft>,
    marks: VecDeque<Mark>,
}

impl Drafting {
    /// Begins a base, whose parts have `attempt` in their names.
    pub fn begin(source: &Arc<dyn Source>, bucket: &Bucket, attempt: u64) -> Result<Self> {
        let (source, bucket) = (Arc::clone(source), bucket.clone());
        let work = move || draft(&*source, &bucket, attempt);
        let thread = Builder::new().name("pando-ship-base".to_owned()).spawn(work);
        let thread = thread.map_err(|cause| Error::io("start a thread", cause))?;
        Ok(Drafting { thread: Some(thread), done: None, marks: VecDeque::new() })
    }

    /// Notes where the log ends: a base with an older commit stands on a segment before that end.
    pub fn mark(&mut self, tail: &Tail) {
        let Tail { number, hash, last_commit, last_time_ms, .. } = *tail;
        self.marks.push_back(Mark { number, hash, last_commit, last_time_ms });
    }

    /// Returns the draft once it is uploaded; `None` before.
    pub fn poll(&mut self) -> Result<Option<&Draft>> {
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            let panicked =
                |_| Err(Error::new(ErrorKind::Closed, "the thread that makes a base has panicked"));
            self.done = Some(thread.join().unwrap_or_else(panicked)?);
        }
        Ok(self.done.as_ref())
    }

    /// Returns the draft itself once it is uploaded; `None` before.
    pub fn take(&mut self) -> Result<Option<Draft>> {
        self.poll()?;
        Ok(self.done.take())
    }

    /// Returns the manifest once the draft is uploaded and the log has its commit; `None` before.
    pub fn manifest(&mut self) -> Result<Option<Manifest>> {
        let Some(draft) = self.poll()? else { return Ok(None) };
        let (commit, time_ms) = (draft.commit, draft.time_ms);
        let Some(&mark) = self.marks.iter().find(|mark| mark.last_commit >= commit) else { return Ok(None) };
        let draft = self.done.as_mut().expect("it was polled");
        draft.time_ms = time_ms.max(mark.last_time_ms);
        Ok(Some(draft.manifest(mark.number, mark.hash, None)))
    }
}

fn draft(source: &dyn Source, bucket: &Bucket, attempt: u64) -> Result<Draft> {
    let parts = PartWriter::of_attempt(bucket, name::BASE_PARTS.to_owned(), attempt);
    let mut out = Stamped { source, parts, time_ms: None };
    let done = source.backup(&mut out).map_err(|error| out.parts.failure(error));
    let time_ms = out.time_ms.unwrap_or_else(|| source.time_ms());
    match done {
        Ok(commit) => Ok(Draft { commit, time_ms, parts: out.parts.finish()? }),
        Err(error) => {
            out.parts.delete();
            Err(error)
        }
    }
}

/// Notes when the first byte came: the backup's commit was chosen before.
struct Stamped<'a> {
    source: &'a dyn Source,
    parts: PartWriter,
    time_ms: Option<u64>,
}

impl Write for Stamped<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.time_ms.get_or_insert_with(|| self.source.time_ms());
        self.parts.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
