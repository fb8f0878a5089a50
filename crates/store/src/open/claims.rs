//! What log records refer to outside the log, and how recovery takes it for its own.
//!
//! The space map that a superblock names has such extents as free: only the log knows of them until a checkpoint has
//! merged its records. So after a crash, before anything is allocated, every record from the superblock's position on
//! is asked for its [`references`], and their extents are [`claim`]ed. What no record names, because its transaction
//! never committed, is free: nothing else has to be done for it.

use base::op::{DELTA_BYTES, Decoder, Op, decode_extents};
use base::{Error, LargeRef, Result};
use pool::Pool;
use run::{Delta, Pieces};
use space::Space;

/// Something in the data file that a log record names.
#[derive(Clone, Debug)]
pub(crate) enum Reference {
    /// A value.
    Large(LargeRef),
    /// A run that was attached, with some of its record's extents.
    Attached(Box<AttachedRef>),
}

/// See [`Op::Attach`].
#[derive(Clone, Debug)]
pub(crate) struct AttachedRef {
    pub delta: [u8; DELTA_BYTES],
    pub extents: Vec<u8>,
}

/// What `record` refers to, in its order. A record that is none refers to nothing: applying it finds out.
pub(crate) fn references(record: &[u8]) -> impl Iterator<Item = Reference> {
    Decoder::begin(record).into_iter().flatten().filter_map(|(_, op)| match op {
        Op::PutLarge { large, .. } => Some(Reference::Large(large)),
        Op::Attach { delta, extents } => {
            let attached = AttachedRef { delta: *delta, extents: extents.to_vec() };
            Some(Reference::Attached(Box::new(attached)))
        }
        Op::Put { .. } | Op::Delete { .. } | Op::DeleteRange { .. } => None,
    })
}

/// Takes the extents of `reference` out of what `space` may hand out.
///
/// Errors: [`base::ErrorKind::Corruption`] if they are not what they must be, not in the file, or in use, by another
/// reference too: so the work is bounded by the file, whatever the log says.
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

/// Reads and verifies all that `reference` names.
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
