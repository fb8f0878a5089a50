//! The start of an export: which database it is, and which superblock counts.

use super::report::Report;
use crate::state::superblock::Superblock;
use base::{DatabaseId, Error, ErrorKind, Lsn, Result};
use io::{Dir, File};
use log::{Log, Position};
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
    /// Reads both superblocks and every segment's header. The newer intact superblock counts, and names the database.
    /// (If the two belong to different databases, the one counts that more segments belong to.) Only if there is none,
    /// the segments name the database: the one to which most of them belong. Whatever belongs to another database is
    /// reported as damage.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`] if nothing names a database, or a superblock has a newer format.
    pub fn find(dir: &Arc<dyn Dir>, data: Option<&dyn File>, report: &mut Report) -> Result<Self> {
        let slots = match data {
            Some(file) => Superblock::read_slots(file)?,
            None => {
                report.damage.push("the data file is missing".into());
                [None, None]
            }
        };
        let segments = Log::segments(dir)?;
        let intact = || slots.iter().flatten();
        let superblock =
            intact().max_by_key(|slot| (rank(&segments, slot.database).0, slot.checkpoint)).copied();
        let named = segments.iter().map(|(database, _)| *database);
        let most_named = || named.max_by_key(|&database| rank(&segments, database));
        let database = superblock.map(|superblock| superblock.database).or_else(most_named);
        let database = database.ok_or_else(|| {
            let message = "neither a superblock nor the header of a log segment can be read: nothing says \
                           which database this was, and no page can be verified without its id";
            Error::new(ErrorKind::Foreign, message)
        })?;
        report.checkpoint = superblock.map(|superblock| superblock.checkpoint.0);
        if superblock.is_none() && data.is_some() {
            report.damage.push("no superblock can be read".into());
        }
        for other in intact().filter(|slot| slot.database != database) {
            let checkpoint = other.checkpoint.0;
            report
                .damage
                .push(format!("the superblock of checkpoint {checkpoint} belongs to another database"));
        }
        // If the directory cannot be read, the replay reports it.
        let foreign = Log::foreign_segments(dir, database).unwrap_or_default();
        report.damage.extend(foreign.iter().map(Error::to_string));
        Ok(Start { database, superblock })
    }
}

/// Returns how much of the log belongs to `database`: the number of its segments, and where the last one begins. The id
/// makes the order total.
fn rank(segments: &[(DatabaseId, Position)], database: DatabaseId) -> (usize, Lsn, u64) {
    let own = segments.iter().filter(|(whose, _)| *whose == database);
    let last = own.clone().map(|(_, begin)| begin.lsn).max();
    (own.count(), last.unwrap_or_default(), database.0)
}
