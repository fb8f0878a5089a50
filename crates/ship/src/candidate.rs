//! Whether a database may become the writer of a lineage.

use crate::bucket::Bucket;
use crate::lineage::Lineage;
use crate::restore::moment;
use crate::segment::Segment;
use crate::source::Origin;
use base::{Error, ErrorKind, Result};
use pando::Identity;

/// What a database says about itself to be allowed to continue a lineage.
pub(crate) struct Candidate<'a> {
    pub identity: Identity,
    pub origin: Option<Origin>,
    pub newest: u64,
    /// Whether the database has a prefix of the lineage and nothing else, and applies what it lacks before it writes.
    pub follows: bool,
    /// The checksum of the database's change with this number, if it still has it.
    pub checksum: &'a dyn Fn(u64) -> Result<Option<u64>>,
}

/// How a database may go on where a lineage ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continues {
    /// As the lineage's next writer.
    Within,
    /// In a lineage of its own, because this one ends with a drop.
    After,
}

/// Checks that the database may begin a lineage of its own after number `number` of this name, which ended with a drop.
/// If it had the name before, its own last lineage decides, however many other databases have had the name since: a
/// drop that was acknowledged stays final when the name is dropped again.
pub(crate) fn check_begins(bucket: &Bucket, number: u64, candidate: &Candidate<'_>) -> Result<()> {
    let bucket = bucket.of_name();
    let mut numbers = bucket.incarnations()?;
    numbers.retain(|&earlier| earlier < number);
    // A listing may be late.
    numbers.push(number);
    for number in numbers.into_iter().rev() {
        // The objects of one that was dropped may have been deleted.
        let Some(lineage) = Lineage::open(&bucket.incarnation(number)?)? else { continue };
        if lineage.database == candidate.identity.database {
            let tail = lineage.tail()?;
            return check_continues(&lineage, tail.as_ref(), candidate).map(drop);
        }
    }
    Ok(())
}

/// Checks that the database has everything that the lineage has, and nothing else in its place.
///
/// After a drop, another database may have the name. The database that was dropped may return in two cases: its last
/// writer has dropped it, and ended before its directory was removed; or it was restored after the drop. Any other copy
/// of it is older than the drop, which was acknowledged.
pub(crate) fn check_continues(
    lineage: &Lineage,
    tail: Option<&Segment>,
    candidate: &Candidate<'_>,
) -> Result<Continues> {
    let Candidate { identity, origin, newest, follows, checksum } = candidate;
    let refuse = |what: String| {
        let advice = "restore from the bucket into a new directory, or ship to another prefix";
        Err(Error::new(ErrorKind::Mismatch, format!("{}: {what}; {advice}", lineage.bucket)))
    };
    let dropped_ms = tail.and_then(|tail| tail.head.dropped_ms);
    let continues = if dropped_ms.is_some() { Continues::After } else { Continues::Within };
    if let Some(dropped_ms) = dropped_ms {
        let is_another = lineage.database != identity.database;
        let is_restored = origin.is_some_and(|origin| origin.lineage == lineage.id && origin.after_drop);
        let is_of_last = tail.is_some_and(|tail| tail.author.fork == identity.fork);
        if !follows && (is_another || is_restored) {
            return Ok(Continues::After);
        }
        if *follows || !is_of_last {
            return refuse(format!("the database was dropped at {}", moment(dropped_ms)));
        }
    }
    if lineage.database != identity.database {
        return refuse("the lineage is of another database".to_owned());
    }
    let Some(tail) = tail.filter(|_| !follows) else { return Ok(continues) };
    let last = tail.head.last_commit;
    if last > *newest {
        return refuse(format!("the lineage has commit {last}, but this database ends at {newest}"));
    }
    if tail.author.fork != identity.fork {
        return match origin {
            Some(origin) if (origin.lineage, origin.commit) == (lineage.id, last) => Ok(continues),
            Some(origin) if origin.lineage == lineage.id => refuse(format!(
                "this database was restored from commit {}, and the lineage went on to {last}",
                origin.commit
            )),
            _ => refuse("another copy of this database has taken the lineage over".to_owned()),
        };
    }
    match tail.head.last_change {
        0 => Ok(continues),
        expected if checksum(last)?.is_none_or(|found| found == expected) => Ok(continues),
        _ => refuse(format!("commit {last} of this database differs from commit {last} of the lineage")),
    }
}
