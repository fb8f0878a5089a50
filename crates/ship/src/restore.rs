//! Restoring: the newest base that is not too new, and the log after it up to the goal.
//!
//! 1. Nothing is believed before it was verified: each object has its hash, and each segment names its predecessor's.
//! 2. Commits have no gap. Where the log has one, a base leaps over it; without that base the restore ends there. A
//!    base whose manifest is damaged is passed over: the log from the base before it has the same commits, or such a
//!    gap.
//! 3. A listing is used to notice that an object is missing, never to conclude that there is no more.
//! 4. A writer may delete a base, and the log after it, while they are read. It raises the floor first, so a restore
//!    that misses something and finds a higher floor begins again with a newer base.

use crate::ahead::Ahead;
use crate::bucket::Bucket;
use crate::format::Hash;
use crate::lineage::{Base, Lineage, NamedBase, Standing};
use crate::name;
use crate::parts::PartReader;
use crate::segment::{Change, Content, Segment};
use crate::source::Target;
use base::{Error, ErrorKind, Result};
use serde::Serialize;

/// The state to which a database is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The newest commit in the bucket.
    Newest,
    /// The commit of this number.
    Commit(u64),
    /// The last commit before the first one that is later than this time, in milliseconds since 1970.
    Time(u64),
}

/// The result of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The number of the last commit of the restored database.
    pub commit: u64,
    /// The time of the last commit, in milliseconds since 1970. If a base ends with it, this is a time that none of the
    /// base's commits is after.
    pub time_ms: u64,
    /// The number of the base's last commit.
    pub base_commit: u64,
    /// The number of commits that were applied from the log.
    pub log_commits: u64,
    /// The number of segments that were read.
    pub segments: u64,
    /// The number of bytes that were read from the bucket.
    pub bytes: u64,
    /// The time when the database was dropped, in milliseconds since 1970; `None` if it had not been dropped when the
    /// restore began.
    pub dropped_ms: Option<u64>,
}

/// Returns a time in milliseconds since 1970 as the text that [`Goal::at`] parses.
///
/// ```
/// use pando_ship::{Goal, moment};
/// assert_eq!(moment(1_796_053_226_746), "2026-11-30T15:40:26.746Z");
/// assert_eq!(Goal::at(&moment(500)).unwrap(), Goal::Time(500));
/// ```
#[must_use]
pub fn moment(time_ms: u64) -> String {
    let known = i64::try_from(time_ms).ok().and_then(chrono::DateTime::from_timestamp_millis);
    known.map_or_else(
        || format!("{time_ms} ms since 1970"),
        |moment| moment.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
    )
}

impl Goal {
    /// Parses a time in the form of RFC 3339, such as `2026-11-25T10:00:00Z`, and returns the goal of that time.
    ///
    /// ```
    /// use pando_ship::Goal;
    /// assert_eq!(Goal::at("1970-01-01T01:00:00.5+01:00").unwrap(), Goal::Time(500));
    /// assert!(Goal::at("yesterday").is_err());
    /// ```
    ///
    /// # Errors
    /// `Invalid` for any other text.
    pub fn at(moment: &str) -> Result<Self> {
        let parsed = chrono::DateTime::parse_from_rfc3339(moment).ok();
        let time_ms = parsed.and_then(|moment| u64::try_from(moment.timestamp_millis()).ok());
        let refused =
            || Error::invalid(format!("{moment:?} is not a time; write it as in 2026-11-25T10:00:00Z"));
        time_ms.map(Goal::Time).ok_or_else(refused)
    }

    /// Returns whether a base is not beyond the goal.
    fn admits(self, base: &Base) -> bool {
        match self {
            Goal::Newest => true,
            Goal::Commit(commit) => base.manifest.commit <= commit,
            Goal::Time(time_ms) => base.manifest.time_ms <= time_ms,
        }
    }

    /// Returns whether a change is beyond the goal.
    fn excludes(self, change: &Change<'_>) -> bool {
        match self {
            Goal::Newest => false,
            Goal::Commit(commit) => change.commit > commit,
            Goal::Time(time_ms) => change.time_ms > time_ms,
        }
    }
}

/// How often a restore begins, if what it reads is deleted each time.
const ATTEMPTS: u32 = 5;

/// Restores `lineage` into `target`. `progress` is called with the bytes that were read so far.
pub(crate) fn run(
    lineage: &Lineage,
    goal: Goal,
    target: &mut dyn Target,
    progress: &mut dyn FnMut(u64),
) -> Result<Report> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let floor = lineage.floor()?.segment;
        let error = match run_once(lineage, goal, target, progress) {
            Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Missing) => error,
            done => return done,
        };
        if !lineage.floor().is_ok_and(|now| now.segment > floor) {
            return Err(error);
        }
        last = Some(error);
    }
    let last = last.expect("there was an attempt");
    let advice = "keep more bases (--ship-keep), or keep them for longer (--ship-keep-for)";
    let message = format!("{last}; objects were deleted while they were read, {ATTEMPTS} times; {advice}");
    Err(Error::new(ErrorKind::Conflict, message))
}

fn run_once(
    lineage: &Lineage,
    goal: Goal,
    target: &mut dyn Target,
    progress: &mut dyn FnMut(u64),
) -> Result<Report> {
    let (base, first, damaged) = choose(lineage, goal)?;
    let mut restoring = Restoring { lineage, goal, target, progress, report: Report::default() };
    let done = restoring.base(&base).and_then(|()| restoring.log(first));
    match (done, damaged) {
        // The log leaps over what that base had.
        (Err(error), Some(damaged)) if error.kind() == ErrorKind::Corruption => Err(damaged),
        (done, _) => done,
    }
}

/// Applies what `target` lacks of `segment`, where `commit` is its last commit.
///
/// # Errors
/// `Corruption` if the log has a gap there.
pub(crate) fn apply(
    lineage: &Lineage,
    segment: &Segment,
    commit: u64,
    target: &mut dyn Target,
) -> Result<Report> {
    let report = Report { commit, ..Report::default() };
    let mut restoring = Restoring { lineage, goal: Goal::Newest, target, progress: &mut |_| {}, report };
    restoring.check_next(segment)?;
    restoring.apply(segment)?;
    Ok(restoring.report)
}

/// Checks that `segment` continues the log after the one with the hash `before`.
///
/// # Errors
/// `Corruption` if `segment` is not the successor of the one with the hash `before`, or of an older epoch.
pub(crate) fn check_chain(lineage: &Lineage, segment: &Segment, before: Hash, epoch: u64) -> Result<()> {
    let named = |what: String| {
        let name = name::numbered(name::LOG, segment.head.number);
        Err(Error::corruption(format!("{}/{name}: {what}", lineage.bucket)))
    };
    if segment.head.previous != before {
        let (expected, found) = (hex::encode(&before), hex::encode(&segment.head.previous));
        return named(format!("expected {expected} as the hash of its predecessor, found {found}"));
    }
    if segment.author.epoch < epoch {
        return named(format!("epoch {} comes after epoch {epoch}", segment.author.epoch));
    }
    Ok(())
}

/// Returns the error for a segment after the one that dropped the database.
pub(crate) fn follows_a_drop(lineage: &Lineage, number: u64) -> Error {
    let name = name::numbered(name::LOG, number);
    let message = "it follows the segment that says that the database was dropped, so it was forged";
    Error::corruption(format!("{}/{name}: {message}", lineage.bucket))
}

/// Returns the newest valid base that the goal admits, its segment, and the error of a newer one that is damaged.
fn choose(lineage: &Lineage, goal: Goal) -> Result<(Base, Segment, Option<Error>)> {
    let (mut oldest, mut damaged) = (None, None);
    for NamedBase { commit, base, .. } in lineage.kept_bases()?.into_iter().rev() {
        // The commit of a damaged manifest is known from its name.
        let base = match (base, goal) {
            (Err(_), Goal::Commit(last)) if commit > last => continue,
            (Err(error), _) if error.kind() == ErrorKind::Corruption => {
                damaged.get_or_insert(error);
                continue;
            }
            (base, _) => base?,
        };
        if goal.admits(&base)
            && let Standing::Valid(segment) = lineage.stands(&base)?
        {
            return Ok((base, *segment, damaged));
        }
        oldest = Some((base.manifest.commit, base.manifest.time_ms));
    }
    if let Some(damaged) = damaged {
        return Err(damaged);
    }
    let said = match oldest {
        None => "there is no base yet: nothing can be restored".to_owned(),
        Some((commit, time_ms)) => {
            format!("the oldest state that can be reached is commit {commit}, at {}", moment(time_ms))
        }
    };
    Err(Error::new(ErrorKind::Missing, format!("{}: {said}", lineage.bucket)))
}

struct Restoring<'a> {
    lineage: &'a Lineage,
    goal: Goal,
    target: &'a mut dyn Target,
    progress: &'a mut dyn FnMut(u64),
    report: Report,
}

impl Restoring<'_> {
    fn bucket(&self) -> &Bucket {
        &self.lineage.bucket
    }

    fn base(&mut self, base: &Base) -> Result<()> {
        let (commit, time_ms) = (base.manifest.commit, base.manifest.time_ms);
        let (report, progress) = (&mut self.report, &mut *self.progress);
        let mut count = |bytes| {
            report.bytes += bytes;
            progress(report.bytes);
        };
        let parts = &base.manifest.parts;
        let folder = name::BASE_PARTS.to_owned();
        let mut reader = PartReader::new(&self.lineage.bucket, folder, parts, &mut count);
        let restored = self.target.base(&mut reader).map_err(|error| reader.failure(error))?;
        if restored != commit {
            let name = name::manifest(base.epoch, commit);
            let message = format!("{}/{name}: the base has commit {restored}", self.bucket());
            return Err(Error::corruption(message));
        }
        (self.report.base_commit, self.report.commit, self.report.time_ms) = (commit, commit, time_ms);
        Ok(())
    }

    /// Applies segments from `first`, on which the base stands, to the goal.
    fn log(mut self, first: Segment) -> Result<Report> {
        let mut segment = first;
        let mut ahead = Ahead::default();
        loop {
            self.check_next(&segment)?;
            if self.apply(&segment)? {
                return Ok(self.report);
            }
            let (before, epoch) = (segment.hash, segment.author.epoch);
            let number = segment.head.number + 1;
            let next = match ahead.take(self.lineage, number)? {
                None => self.next_or_end(number)?,
                next => next,
            };
            match next {
                Some(next) if segment.head.dropped_ms.is_some() => {
                    return Err(follows_a_drop(self.lineage, next.head.number));
                }
                Some(next) => segment = next,
                None => break,
            }
            check_chain(self.lineage, &segment, before, epoch)?;
        }
        match self.goal {
            Goal::Commit(commit) if self.report.commit < commit => {
                let newest = self.report.commit;
                let message =
                    format!("{}: commit {commit} is not there; the newest is {newest}", self.bucket());
                Err(Error::new(ErrorKind::Missing, message))
            }
            _ => Ok(self.report),
        }
    }

    /// Returns segment `number`, which was not there a moment ago; `None` if the log ends before it.
    fn next_or_end(&self, number: u64) -> Result<Option<Segment>> {
        match self.lineage.nothing_after(number - 1) {
            Ok(()) => Ok(None),
            // A writer may have added it meanwhile.
            Err(error) => self.lineage.segment(number)?.map_or(Err(error), |next| Ok(Some(next))),
        }
    }

    /// Checks that the segment continues the log at the database's last commit.
    fn check_next(&self, segment: &Segment) -> Result<()> {
        let (at, head) = (self.report.commit, &segment.head);
        if head.first_commit <= at + 1 {
            return Ok(());
        }
        let name = name::numbered(name::LOG, head.number);
        let gap = format!("commits {} to {}", at + 1, head.first_commit - 1);
        let goal_is_inside = match self.goal {
            Goal::Newest => false,
            Goal::Commit(commit) => commit < head.first_commit - 1,
            Goal::Time(time_ms) => time_ms < head.first_time_ms,
        };
        if head.is_rebase && goal_is_inside {
            let message = format!(
                "{}: the log leaps over {gap}, so this state cannot be reached; name commit {at} or {}",
                self.bucket(),
                head.first_commit - 1
            );
            return Err(Error::new(ErrorKind::Missing, message));
        }
        let from = if head.is_rebase {
            format!(
                "; they were in {}, which is missing",
                name::manifest(segment.author.epoch, head.last_commit)
            )
        } else {
            String::new()
        };
        Err(Error::corruption(format!("{}/{name}: the log lacks {gap}{from}", self.bucket())))
    }

    /// Applies what the database lacks of a segment. Returns whether the goal is reached.
    fn apply(&mut self, segment: &Segment) -> Result<bool> {
        self.report.segments += 1;
        let mut together = Vec::new();
        let mut is_reached = false;
        let from = self.report.commit;
        for change in segment.changes().filter(|change| change.commit > from) {
            if self.goal.excludes(&change) {
                is_reached = true;
                break;
            }
            match &change.content {
                Content::Here(bytes) => together.extend_from_slice(bytes),
                Content::Parts(_) => {
                    self.apply_bytes(&mut together)?;
                    self.apply_parts(segment, &change)?;
                }
            }
            self.report.log_commits += 1;
            (self.report.commit, self.report.time_ms) = (change.commit, change.time_ms);
        }
        self.apply_bytes(&mut together)?;
        self.report.bytes += segment.body.len() as u64;
        (self.progress)(self.report.bytes);
        Ok(is_reached || self.goal == Goal::Commit(self.report.commit))
    }

    fn apply_bytes(&mut self, together: &mut Vec<u8>) -> Result<()> {
        if together.is_empty() {
            return Ok(());
        }
        self.target.apply(&mut &together[..])?;
        together.clear();
        Ok(())
    }

    fn apply_parts(&mut self, segment: &Segment, change: &Change<'_>) -> Result<()> {
        let Content::Parts(parts) = &change.content else { return Ok(()) };
        let (report, progress) = (&mut self.report, &mut *self.progress);
        let mut count = |bytes| {
            report.bytes += bytes;
            progress(report.bytes);
        };
        let folder = name::change(segment.head.number);
        let mut reader = PartReader::new(&self.lineage.bucket, folder, parts, &mut count);
        self.target.apply(&mut reader).map_err(|error| reader.failure(error))
    }
}
