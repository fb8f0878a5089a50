//! Giving up old bases, and what only they need.
//!
//! 1. The newest bases are kept, by count, and the newest base that is older than the stretch of time that has to stay
//!    reachable, with all after it.
//! 2. First the floor is raised: readers stop using what is below it, and a writer that takes over knows that a free
//!    number below it means nothing. Then objects are deleted, in any order; a crash leaves some, for the next time.
//! 3. Fences are never deleted: each blocks the next put of a writer that was replaced, which may come any time.
//! 4. Parts of a base that no manifest names are left by a writer that ended, failed, or gave the base up. They are
//!    deleted when no manifest will ever name them: those of this writer, but for its newest attempt; and those of an
//!    epoch before that of the segment at the floor. A writer of such an epoch that is still alive may publish its base
//!    however late, but the base stands on a segment of its epoch or an older one. That is below the floor, so the base
//!    does not count. Parts of any other writer stay.

use crate::lineage::{Base, NamedBase, Standing};
use crate::name;
use crate::objects::Floor;
use crate::options::Options;
use crate::segment;
use crate::writer::{Attempt, Writer};
use base::Result;
use std::collections::{HashSet, VecDeque};

/// The number of objects that one step deletes.
const STEP_OBJECTS: usize = 4;

/// Deletes what is no longer needed.
#[derive(Debug, Default)]
pub(crate) struct Retention {
    /// What is to be deleted, in this order.
    names: VecDeque<String>,
    /// Fences below the floor, which need not be looked at again.
    fences: HashSet<u64>,
}

/// Returns the oldest base that is kept; `None` if all are kept.
pub(crate) fn oldest_kept<'b>(bases: &'b [Base], options: &Options, now_ms: u64) -> Option<&'b Base> {
    let by_count = bases.len().saturating_sub(options.keep_bases.max(1));
    let since_ms = now_ms.saturating_sub(options.keep_for.as_millis().try_into().unwrap_or(u64::MAX));
    let by_age = bases.iter().rposition(|base| base.manifest.time_ms <= since_ms).unwrap_or(0);
    let oldest = by_count.min(by_age);
    (oldest > 0).then(|| &bases[oldest])
}

impl Retention {
    /// Looks for what can go. [`Retention::step`] deletes it.
    pub fn begin(&mut self, writer: &Writer, options: &Options, now_ms: u64) -> Result<()> {
        let mut bases = Vec::new();
        for base in writer.lineage.bases()? {
            // One that was never finished is kept in place of none.
            if let Standing::Valid(_) = writer.lineage.stands(&base)? {
                bases.push(base);
            }
        }
        if let Some(oldest) = oldest_kept(&bases, options, now_ms) {
            let (segment, commit) = (oldest.manifest.segment, oldest.manifest.commit);
            writer.raise_floor(Floor { segment, commit })?;
        }
        let floor = writer.lineage.floor()?;
        self.names.clear();
        let named = writer.lineage.all_bases()?;
        self.add_orphans(writer, floor, &named)?;
        self.add_bases(named, floor);
        self.add_segments(writer, floor)
    }

    /// Parts of bases that no manifest names, and that none will.
    fn add_orphans(&mut self, writer: &Writer, floor: Floor, bases: &[NamedBase]) -> Result<()> {
        let mut named = HashSet::new();
        for base in bases {
            match &base.base {
                Ok(base) => named.insert(base.manifest.parts.attempt),
                // Its parts may be any of these, and the manifest may be put back.
                Err(_) => return Ok(()),
            };
        }
        let at_floor = writer.lineage.segment(floor.segment).ok().flatten();
        let passed = at_floor.map_or(0, |segment| segment.author.epoch);
        let is_orphan = |attempt: u64| {
            let is_over = Attempt::epoch(attempt).is_some_and(|epoch| epoch < passed);
            (is_over || writer.has_given_up(attempt)) && !named.contains(&attempt)
        };
        let parts = writer.lineage.bucket.list(name::BASE_PARTS, None)?;
        self.names.extend(parts.into_iter().filter(|part| name::attempt_of(part).is_some_and(is_orphan)));
        Ok(())
    }

    /// Parts first: their names are in the manifest.
    fn add_bases(&mut self, bases: Vec<NamedBase>, floor: Floor) {
        for named in bases {
            if named.is_kept(floor) {
                continue;
            }
            let NamedBase { commit, epoch, base } = named;
            // Of a damaged manifest nobody knows the parts.
            if let Ok(base) = base {
                let parts = &base.manifest.parts;
                let names =
                    (0..parts.entries.len()).map(|at| name::part(name::BASE_PARTS, parts.attempt, at));
                self.names.extend(names);
            }
            self.names.push_back(name::manifest(epoch, commit));
        }
    }

    fn add_segments(&mut self, writer: &Writer, floor: Floor) -> Result<()> {
        let bucket = &writer.lineage.bucket;
        let is_below = |number: Option<u64>| number.is_some_and(|number| number < floor.segment);
        for name in bucket.list(name::LOG, None)? {
            let number = name::number_of(name::LOG, &name);
            if is_below(number) && number.is_none_or(|number| !self.fences.contains(&number)) {
                self.names.push_back(name);
            }
        }
        let parts = bucket.list(name::CHANGE_PARTS, None)?;
        self.names.extend(parts.into_iter().filter(|name| is_below(name::segment_of(name))));
        Ok(())
    }

    /// Deletes a few objects, so that commits never wait for many. Returns whether there are more.
    pub fn step(&mut self, writer: &Writer) -> Result<bool> {
        let bucket = &writer.lineage.bucket;
        for _ in 0..STEP_OBJECTS {
            let Some(name) = self.names.pop_front() else { return Ok(false) };
            let Some(number) = name::number_of(name::LOG, &name) else {
                bucket.delete(&name)?;
                continue;
            };
            let Some(start) = bucket.get_start(&name, segment::START_BYTES)? else { continue };
            if segment::is_fence(&start) {
                self.fences.insert(number);
            } else {
                bucket.delete(&name)?;
            }
        }
        Ok(!self.names.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::PartList;
    use crate::objects::Manifest;
    use std::time::Duration;

    #[test]
    fn bases_are_kept_by_count_and_by_age() {
        let base = |at: u64| {
            let (segment_hash, parts) = ([0; 32], PartList::default());
            let manifest =
                Manifest { commit: at, time_ms: at, segment: at, segment_hash, leaps_after: None, parts };
            Base { epoch: 1, manifest }
        };
        let bases: Vec<_> = [10, 20, 30, 40].map(base).into();
        let kept = |keep_bases, keep_ms, now_ms| {
            let keep_for = Duration::from_millis(keep_ms);
            let options = Options { keep_bases, keep_for, ..Options::default() };
            oldest_kept(&bases, &options, now_ms).map_or(10, |base| base.manifest.commit)
        };
        assert_eq!(kept(2, 0, 100), 30, "the newest two");
        assert_eq!(kept(0, 0, 100), 40, "at least one");
        assert_eq!(kept(9, 0, 100), 10, "all of them");
        assert_eq!(kept(1, 75, 100), 20, "the state of 25 needs the base of 20");
        assert_eq!(kept(1, 95, 100), 10, "nothing is older");
        assert_eq!(kept(3, 60, 100), 20, "both rules");
    }
}
