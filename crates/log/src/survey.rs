//! The segment files in a directory, judged by their names and headers alone.

use crate::format::{
    ALIGN_BYTES, Parsed, Position, SEGMENT_HEADER_BYTES, SegmentHeader, Successor, segment_name,
    segment_number,
};
use crate::stock::Spare;
use base::{DatabaseId, Error, ErrorKind, Lsn, Result};
use io::Dir;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One file with a segment's name.
#[derive(Debug)]
struct Entry {
    len_bytes: u64,
    parsed: Parsed,
}

/// All segment files by the number in their name.
#[derive(Debug)]
pub(crate) struct Survey {
    database: DatabaseId,
    entries: BTreeMap<u64, Entry>,
}

impl Survey {
    /// Reads the directory and the first bytes of every segment file.
    pub fn read(dir: &Arc<dyn Dir>, database: DatabaseId) -> Result<Survey> {
        let mut entries = BTreeMap::new();
        for name in dir.list()? {
            let Some(number) = segment_number(&name) else { continue };
            let file = dir.open(&name)?;
            let mut bytes = [0; SEGMENT_HEADER_BYTES];
            file.read_at(&mut bytes, 0)?;
            entries.insert(number, Entry { len_bytes: file.len()?, parsed: SegmentHeader::parse(&bytes) });
        }
        Ok(Survey { database, entries })
    }

    /// Returns an error for each file that another database or a newer version has made, whatever its number. Such a
    /// file is in no chain, but it is not ours to reuse or to remove: it may be the only copy of what it holds.
    fn foreign(&self) -> impl Iterator<Item = Error> {
        self.entries.iter().filter_map(|(&number, entry)| match &entry.parsed {
            Parsed::Header(header) => self.check_database(header, &segment_name(number)).err(),
            Parsed::NewerFormat(format) => Some(newer_format(&segment_name(number), *format)),
            Parsed::Blank | Parsed::Damaged(_) => None,
        })
    }

    /// Checks that no file was made by another database or a newer version.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`], which names the first such file.
    pub fn check_own(&self) -> Result<()> {
        let Some(error) = self.foreign().next() else { return Ok(()) };
        let advice = "if it was copied here by mistake, move it out of this directory";
        Err(Error::new(ErrorKind::Foreign, format!("{}; {advice}", error.message())))
    }

    /// Returns the header of segment `number`, which `namer` refers to.
    pub fn named(&self, number: u64, namer: &str) -> Result<SegmentHeader> {
        let name = segment_name(number);
        let Some(entry) = self.entries.get(&number) else {
            return Err(Error::corruption(format!(
                "log segment {name} is missing, but {namer} refers to it"
            )));
        };
        let header = match &entry.parsed {
            Parsed::Header(header) => *header,
            Parsed::Blank => {
                return Err(Error::corruption(format!("{name}: expected a segment header, found zeros")));
            }
            Parsed::Damaged(reason) => {
                return Err(Error::corruption(format!("{name}: segment header: {reason}")));
            }
            Parsed::NewerFormat(format) => return Err(newer_format(&name, *format)),
        };
        self.check_database(&header, &name)?;
        if header.number != number {
            let found = header.name();
            return Err(Error::corruption(format!(
                "{name}: expected its own segment header, found that of {found}"
            )));
        }
        Ok(header)
    }

    /// Returns the header of the segment that an end block in `namer` names.
    pub fn successor(&self, successor: Successor, namer: &str) -> Result<SegmentHeader> {
        let header = self.named(successor.number, namer)?;
        let found = header.as_successor();
        if found != successor {
            let name = header.name();
            return Err(Error::corruption(format!(
                "{name}: {namer} expected {successor:?}, found {found:?}"
            )));
        }
        Ok(header)
    }

    fn check_database(&self, header: &SegmentHeader, name: &str) -> Result<()> {
        if header.database == self.database {
            return Ok(());
        }
        let (expected, found) = (self.database.0, header.database.0);
        Err(Error::new(
            ErrorKind::Foreign,
            format!("{name} belongs to another database: expected {expected:016x}, found {found:016x}"),
        ))
    }

    /// Returns the segments of our database under their own names.
    fn own(&self) -> impl Iterator<Item = &SegmentHeader> {
        self.entries.iter().filter_map(|(&number, entry)| match &entry.parsed {
            Parsed::Header(header) if header.number == number && header.database == self.database => {
                Some(header)
            }
            _ => None,
        })
    }

    /// Returns the first segment of the generation that a recovery began after `header`'s segment. Of several it
    /// returns the newest: a recovery that did not see the one before it found nothing in it.
    pub fn recovered_after(&self, header: &SegmentHeader) -> Option<SegmentHeader> {
        let follows = |other: &&SegmentHeader| {
            (other.previous, other.previous_generation) == (header.number, header.generation)
                && other.generation > header.generation
        };
        self.own().filter(follows).max_by_key(|other| other.generation).copied()
    }

    /// Returns the segments after number `number`. A file that cannot exist if the log ends before it is an error.
    pub fn after(&self, number: u64) -> Result<Vec<SegmentHeader>> {
        let mut later = Vec::new();
        for (&other, entry) in self.entries.range(number + 1..) {
            let name = segment_name(other);
            match &entry.parsed {
                Parsed::Header(header) => {
                    self.check_database(header, &name)?;
                    // A spare that was renamed but did not get its new header has its old number.
                    if header.number == other {
                        later.push(*header);
                    }
                }
                Parsed::Blank => (),
                // No crash leaves half a header, so these files once were segments.
                Parsed::Damaged(reason) => {
                    return Err(Error::corruption(format!("{name}: segment header: {reason}")));
                }
                Parsed::NewerFormat(format) => return Err(newer_format(&name, *format)),
            }
        }
        Ok(later)
    }

    /// Returns a number greater than that of any file.
    pub fn next_number(&self) -> u64 {
        self.entries.last_key_value().map_or(1, |(&number, _)| number + 1)
    }

    /// Returns the headers of our database in any file, under any name. Recoveries must not reuse their numbers.
    fn any(&self) -> impl Iterator<Item = &SegmentHeader> {
        self.entries.values().filter_map(|entry| match &entry.parsed {
            Parsed::Header(header) if header.database == self.database => Some(header),
            _ => None,
        })
    }

    /// Returns a generation greater than any that was ever begun.
    pub fn next_generation(&self) -> u64 {
        self.any().map(|header| header.generation).max().unwrap_or(0) + 1
    }

    /// Returns an LSN at or after every LSN that a segment had room for.
    pub fn next_lsn(&self) -> Lsn {
        let limit = self.any().map(|header| header.limit_lsn().0).max().unwrap_or(0);
        Lsn(limit.next_multiple_of(ALIGN_BYTES))
    }

    /// Returns the files of this database that are not in `live`, which can be reused or removed:
    ///
    /// 1. segments that ended, or were made ready and not used, of any generation of this log;
    /// 2. the same after they were renamed for reuse, with their old headers, which have other numbers;
    /// 3. files that were never made ready, which begin with zeros or are empty.
    ///
    /// Only a file with a header is known to have its space. A file with a damaged header is left as it is: no crash
    /// leaves one, and nothing says whose it is.
    pub fn spares(&self, live: &[SegmentHeader]) -> Vec<Spare> {
        let is_live = |number: u64| live.iter().any(|header| header.number == number);
        let spare = |(&number, entry): (&u64, &Entry)| {
            let len_bytes = match &entry.parsed {
                Parsed::Header(header) if header.database != self.database => return None,
                Parsed::Header(header) if header.len_bytes <= entry.len_bytes => header.len_bytes,
                Parsed::Header(_) | Parsed::Blank => 0,
                Parsed::NewerFormat(_) | Parsed::Damaged(_) => return None,
            };
            Some(Spare { name: segment_name(number), len_bytes })
        };
        self.entries.iter().filter(|(number, _)| !is_live(**number)).filter_map(spare).collect()
    }
}

impl crate::Log {
    /// Returns where each segment with a readable header begins, and its database. Salvage uses this when nothing says
    /// where replay begins. Skips unreadable files.
    pub fn segments(dir: &Arc<dyn Dir>) -> Result<Vec<(DatabaseId, Position)>> {
        let header = |name: &String| {
            let number = segment_number(name)?;
            let mut bytes = [0; SEGMENT_HEADER_BYTES];
            dir.open(name).and_then(|file| file.read_at(&mut bytes, 0)).ok()?;
            match SegmentHeader::parse(&bytes) {
                Parsed::Header(header) if header.number == number => Some(header),
                _ => None,
            }
        };
        let begin = |header: SegmentHeader| {
            let SegmentHeader { database, generation, number, first_lsn, .. } = header;
            (database, Position { segment: number, generation, lsn: first_lsn })
        };
        Ok(dir.list()?.iter().filter_map(header).map(begin).collect())
    }

    /// Returns an error for each segment that another database than `database` or a newer version has made.
    ///
    /// # Errors
    /// The errors of reading the directory and the headers.
    pub fn foreign_segments(dir: &Arc<dyn Dir>, database: DatabaseId) -> Result<Vec<Error>> {
        Ok(Survey::read(dir, database)?.foreign().collect())
    }
}

fn newer_format(name: &str, format: u32) -> Error {
    Error::new(
        ErrorKind::Foreign,
        format!("{name} has log format {format}, but this version of Pando reads only format 1"),
    )
}
