//! A reader of backups: it uses no byte before its checksum is verified, and allocates memory only for bytes that
//! exist.

use super::channel::Source;
use super::format::{HEADER_BYTES, Header, Kind, RECORD_BYTES, RecordHead, Totals};
use base::checksum::Running;
use base::codec;
use base::{Error, ErrorKind, PagePtr, Result};
use store::superblock::Superblock;
use store::{Part, Piece};

/// The step in which a payload's buffer grows. A stated length is trusted only as far as bytes arrive.
const STEP_BYTES: usize = 1 << 20;

/// The next item of a backup.
#[derive(Debug)]
pub(super) enum Next<'a> {
    /// The superblock, with which the state begins.
    State(Superblock),
    /// A part of the state.
    Part(Part<'a>),
    /// The end: the backup is complete.
    End(Totals),
}

/// A reader of one backup.
pub(super) struct Reader<'a> {
    source: &'a mut dyn Source,
    header: Header,
    totals: Totals,
    running: Running,
    last: Option<Kind>,
    payload: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// Reads the header. Returns `None` if the source has ended.
    pub fn begin(source: &'a mut dyn Source) -> Result<Option<Self>> {
        let mut bytes = [0; HEADER_BYTES];
        let read = fill(source, &mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        let header = match read {
            HEADER_BYTES => Header::decode(&bytes),
            _ => Err(Error::new(ErrorKind::Foreign, format!("{read} bytes are too few for a backup"))),
        };
        let header = header.map_err(|error| error.within(source.name()))?;
        let mut running = Running::unseeded();
        running.update(&bytes);
        let totals = Totals { bytes: HEADER_BYTES as u64, ..Totals::default() };
        Ok(Some(Reader { source, header, totals, running, last: None, payload: Vec::new() }))
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the next record. It must not be called after the end.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] naming the source, the place, what was expected and what was found.
    pub fn next(&mut self) -> Result<Next<'_>> {
        let (at, sequence) = (self.totals.bytes, self.totals.records);
        let name = self.source.name().to_owned();
        self.read_record().and_then(|kind| self.interpret(kind)).map_err(|error| match error.kind() {
            ErrorKind::Corruption => error.within(format!("{name}: record {sequence} at byte {at}")),
            _ => error,
        })
    }

    fn read_record(&mut self) -> Result<Kind> {
        let mut bytes = [0; RECORD_BYTES];
        expect_whole(fill(self.source, &mut bytes)?, RECORD_BYTES)?;
        let head = RecordHead::decode(&bytes, self.totals.records)?;
        self.payload.clear();
        while self.payload.len() < head.payload_bytes {
            let begin = self.payload.len();
            self.payload.resize((begin + STEP_BYTES).min(head.payload_bytes), 0);
            let wanted = self.payload.len() - begin;
            expect_whole(fill(self.source, &mut self.payload[begin..])?, wanted)?;
        }
        head.verify(&bytes, self.header.id, &self.payload)?;
        self.expect_in_order(head.kind)?;
        if head.kind != Kind::End {
            self.running.update(&bytes);
            self.running.update(&self.payload);
            self.totals.bytes += (RECORD_BYTES + head.payload_bytes) as u64;
            self.totals.records += 1;
            self.totals.commits += u64::from(head.kind == Kind::Commit);
            self.totals.pages += u64::from(head.kind == Kind::Page);
        }
        Ok(head.kind)
    }

    fn expect_in_order(&mut self, kind: Kind) -> Result<()> {
        let follows = match (self.last, kind) {
            (None, Kind::State) => true,
            (None, _) | (_, Kind::State) | (Some(Kind::End), _) => false,
            (Some(Kind::Page | Kind::Extent), Kind::Commit) => false,
            _ => true,
        };
        if !follows {
            return Err(Error::corruption(format!("{kind:?} after {:?}", self.last)));
        }
        self.last = Some(kind);
        Ok(())
    }

    fn interpret(&self, kind: Kind) -> Result<Next<'_>> {
        let mut reader = codec::Reader::new(&self.payload);
        let short = || {
            Error::corruption(format!(
                "a record of {} bytes cannot be decoded as {kind:?}",
                self.payload.len()
            ))
        };
        Ok(match kind {
            Kind::State => Next::State(self.state()?),
            Kind::Commit => Next::Part(Part::Commit(&self.payload)),
            Kind::Page => {
                let ptr = PagePtr::decode(&reader.array().ok_or_else(short)?);
                Next::Part(Part::Page(ptr, reader.rest()))
            }
            Kind::Extent => {
                let ptr = PagePtr::decode(&reader.array().ok_or_else(short)?);
                let len_bytes = reader.u64().ok_or_else(short)?;
                let offset = reader.u64().ok_or_else(short)?;
                Next::Part(Part::Extent(Piece { ptr, len_bytes, offset, bytes: reader.rest() }))
            }
            Kind::End => {
                let (found, hash) = (Totals::decode(&self.payload)?, self.running.finish());
                let expected = Totals { hash, ..self.totals };
                if found != expected {
                    return Err(Error::corruption(format!("expected {expected:?}, found {found:?}")));
                }
                Next::End(found)
            }
        })
    }

    /// Returns the superblock, which must agree with the header.
    fn state(&self) -> Result<Superblock> {
        let superblock = Superblock::from_bytes(&self.payload)?;
        let header = &self.header;
        let same = superblock.database == header.database
            && superblock.fork == header.fork
            && superblock.page_bytes == header.page_bytes as usize
            && superblock.checkpoint == header.checkpoint
            && self.payload.len() == Superblock::BYTES;
        if same {
            Ok(superblock)
        } else {
            Err(Error::corruption("the backup's contents do not belong to the state that its header names"))
        }
    }
}

/// Reads until `buffer` is full or the source ends.
fn fill(source: &mut dyn Source, buffer: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

fn expect_whole(read: usize, wanted: usize) -> Result<()> {
    if read == wanted {
        return Ok(());
    }
    Err(Error::corruption(format!("the backup is incomplete: expected {wanted} more bytes, found {read}")))
}
