//! The extents that log records refer to, and how recovery claims them.
//!
//! The space map that a superblock names has these extents as free: only the log refers to them until a checkpoint has
//! merged its records. So after a crash, before anything is allocated, the [`references`] of every record from the
//! superblock's position on are collected, and their extents are [`claim`]ed. Extents that no record names, because
//! their transaction never committed, are free without further work.

use base::op::{DELTA_BYTES, Decoder, Op, decode_extents};
use base::{Error, LargeRef, Result};
use pool::Pool;
use run::{Delta, Pieces};
use space::Space;

/// Something in the data file that a log record refers to.
#[derive(Clone, Debug)]
pub(crate) enum Reference {
    /// A large value.
    Large(LargeRef),
    /// An attached run, with some of its record's extents.
    Attached(Box<AttachedRef>),
}

/// The reference of an attached run; see [`Op::Attach`].
#[derive(Clone, Debug)]
pub(crate) struct AttachedRef {
    pub delta: [u8; DELTA_BYTES],
    pub extents: Vec<u8>,
}

/// Returns what `record` refers to, in its order. A damaged record refers to nothing: applying it returns the error.
pub(crate) fn references(record: &[u8]) -> impl Iterator<Item = Reference> {
    Decoder::begin(record).into_iter().flatten().filter_map(|(_, op)| match op {
        Op::PutLarge { large, .. } => Some(Reference::Large(large.reference())),
        Op::Attach { delta, extents } => {
            let attached = AttachedRef { delta: *delta, extents: extents.to_vec() };
            Some(Reference::Attached(Box::new(attached)))
        }
        Op::Put { .. } | Op::Delete { .. } | Op::DeleteRange { .. } => None,
    })
}

/// Takes the extents of `reference` out of what `space` may allocate.
///
/// Errors: [`base::ErrorKind::Corruption`] if they are invalid, not in the file, or in use, also by another reference.
/// So the work is bounded by the file, whatever the log contains.
pub(crate) fn claim(reference: &Reference, pool: &Pool, space: &mut Space) -> Result<()> {
    match reference {
        Reference::Large(large) => {
            let pieces = Pieces::open(pool, *large)?;
            pieces.extents().try_for_each(|ptr| space.claim(ptr.unit(), ptr.units()))
        }
        Reference::Attached(attached) => {
            let extents = decode_extents(&attached.extents).ok_or_else(|| {
                Error::corruption("the list of extents of an attached run ends in the middle of an extent")
            })?;
            extents.into_iter().try_for_each(|(unit, units)| space.claim(unit, units))
        }
    }
}

/// Reads and verifies everything that `reference` refers to.
pub(crate) fn read_through(reference: &Reference, pool: &Pool) -> Result<()> {
    match reference {
        Reference::Large(large) => {
            let pieces = Pieces::open(pool, *large)?;
            let mut buffer = Vec::new();
            (0..pieces.count()).try_for_each(|at| pieces.read(pool, at, &mut buffer))
        }
        Reference::Attached(attached) => Delta::runs(&attached.delta)?
            .iter()
            .try_for_each(|run| run.check(pool, &mut |_| Ok(())).map(drop)),
    }
}
