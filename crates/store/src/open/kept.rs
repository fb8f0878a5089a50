//! What consumers still have to read, and how opening a database keeps it.
//!
//! Recovery needs the log from the superblock's position on. Consumers may need older records, and the extents that
//! those refer to; the superblock's map has these as free if a checkpoint has replaced them. Before anything is
//! allocated:
//! 1. The tail gets the older segments, as far back as the oldest position.
//! 2. Their records are read, and the extents that they refer to are kept as the previous process kept them: they
//!    cannot be allocated until the consumers have passed.
//!
//! If one of these is missing or damaged, those consumers have lost their positions, and nothing is kept for them. Any
//! other error ends the opening, because what is not kept is lost for good.

use crate::open::claims::{Reference, references};
use crate::open::pinned::following;
use crate::state::consumers::{self, Consumers, Known};
use crate::state::feeds::{Feeds, Held};
use crate::state::superblock::Superblock;
use base::op::decode_extents;
use base::{CommitTs, Error, ErrorKind, Result};
use io::Dir;
use log::Tail;
use pool::Pool;
use run::Pieces;
use space::Space;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Keeps the log and the extents that consumers still have to read (steps 1 and 2). Returns the consumers, each with
/// whether what it needs exists.
pub(super) fn keep_for_consumers(
    dir: &Arc<dyn Dir>,
    superblock: &Superblock,
    tail: &mut Tail,
    pool: &Pool,
    space: &mut Space,
) -> Result<Vec<(String, Held, bool)>> {
    let mut places = consumers::read_all(&**dir, superblock.database)?;
    places.sort_by_key(|(_, held)| held.last);
    let mut kept = Vec::new();
    // After the oldest consumer that can be kept, all others can be kept, too.
    let mut has_all = false;
    for (name, held) in places {
        // One that has everything may stand at the end of a segment that the superblock does not need.
        has_all = has_all || exists(keep_from(dir, superblock, &held, tail, pool, space))?;
        kept.push((name, held, has_all));
    }
    Ok(kept)
}

/// Returns whether everything that a consumer needs was found.
///
/// Errors: all that do not show that something is missing. What cannot be read at this moment is not lost.
fn exists(kept: Result<()>) -> Result<bool> {
    match kept {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Missing) => Ok(false),
        Err(error) => Err(error.within("reading what a consumer of changes still needs")),
    }
}

fn keep_from(
    dir: &Arc<dyn Dir>,
    superblock: &Superblock,
    held: &Held,
    tail: &mut Tail,
    pool: &Pool,
    space: &mut Space,
) -> Result<()> {
    tail.keep_from(held.at)?;
    let mut follow = tail.follow(dir, held.at)?;
    let mut last = held.last;
    while last < superblock.absorbed {
        if !follow.advance()? {
            return Err(Error::corruption("the log ends before the superblock's position"));
        }
        last = following(last, follow.payload())?;
        for reference in references(follow.payload()) {
            keep_named(&reference, superblock.absorbed, pool, space)?;
        }
    }
    Ok(())
}

fn keep_named(reference: &Reference, absorbed: CommitTs, pool: &Pool, space: &mut Space) -> Result<()> {
    match reference {
        Reference::Large(large) => {
            let pieces = Pieces::open(pool, *large)?;
            pieces.extents().try_for_each(|ptr| space.keep_named(ptr.unit(), ptr.units(), absorbed))
        }
        Reference::Attached(attached) => {
            let extents = decode_extents(&attached.extents)
                .ok_or_else(|| Error::corruption("the extents of an attached run cannot be decoded"))?;
            extents.into_iter().try_for_each(|(unit, units)| space.keep_named(unit, units, absorbed))
        }
    }
}

/// Makes the store's feeds hold what consumers need.
pub(super) fn join(feeds: &Feeds, kept: Vec<(String, Held, bool)>) -> Consumers {
    let known = |(name, held, is_kept): (String, Held, bool)| {
        let hold = feeds.join();
        hold.pass(held);
        if !is_kept {
            hold.revoke();
        }
        (name, Arc::new(Known { hold, is_open: AtomicBool::new(false) }))
    };
    kept.into_iter().map(known).collect()
}
