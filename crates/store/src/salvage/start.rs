//! The start of an export: which database it is, and which superblock counts.

use super::report::Report;
use crate::state::superblock::Superblock;
use base::{DatabaseId, Error, ErrorKind, Result};
use io::{Dir, File};
use log::Log;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The data by which everything else is verified.
#[derive(Debug)]
pub struct Start {
    /// The seed of every checksum.
    pub database: DatabaseId,
    /// The newest superblock that can be read.
    pub superblock: Option<Superblock>,
}

impl Start {
    /// Reads both superblocks and every segment's header. If they belong to different databases, the one that most of
    /// them name counts.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`] if none of them can be read.
    pub fn find(dir: &Arc<dyn Dir>, data: Option<&dyn File>, report: &mut Report) -> Result<Self> {
        let slots = match data {
            Some(file) => Superblock::read_slots(file),
            None => {
                report.damage.push("the data file is missing".into());
                [None, None]
            }
        };
        let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
        let named = slots.iter().flatten().map(|slot| slot.database);
        for database in named.chain(Log::segments(dir)?.into_iter().map(|(database, _)| database)) {
            *votes.entry(database.0).or_default() += 1;
        }
        let database =
            votes.iter().max_by_key(|(_, count)| **count).map(|(database, _)| DatabaseId(*database));
        let database = database.ok_or_else(|| {
            let message = "neither a superblock nor the header of a log segment can be read: nothing says \
                           which database this was, and no page can be verified without its id";
            Error::new(ErrorKind::Foreign, message)
        })?;
        let ours = slots.into_iter().flatten().filter(|slot| slot.database == database);
        let superblock = ours.max_by_key(|slot| slot.checkpoint);
        report.checkpoint = superblock.map(|superblock| superblock.checkpoint.0);
        if superblock.is_none() && data.is_some() {
            report.damage.push("no superblock can be read".into());
        }
        Ok(Start { database, superblock })
    }
}
