//! Batches of files and streams.
//!
//! The readers of arrow-rs check lengths and offsets before they use them. What they reserve before bytes arrive is
//! checked before, by `footer` and `blocks`. What the decoder of a stream gathers for one batch is bounded here.

use crate::blocks;
#[cfg(feature = "parquet")]
use crate::footer;
#[cfg(feature = "parquet")]
use crate::groups::Groups;
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::{FileReader, StreamDecoder};
use arrow_schema::SchemaRef;
use pando::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
#[cfg(feature = "parquet")]
use std::sync::Arc;
use std::sync::Once;

/// The bytes that are read of a stream at once.
const PIECE_BYTES: usize = 64 << 10;
/// The most bytes of a file or a stream of Arrow IPC for one batch.
const MOST_BATCH_BYTES: usize = 512 << 20;
/// The beginning of a file of Arrow IPC.
const ARROW_FILE: &[u8] = b"ARROW1";
/// The beginning of a file of Parquet.
#[cfg(feature = "parquet")]
const PARQUET_FILE: &[u8] = b"PAR1";

/// The batches of a file or of a stream, as an iterator.
pub struct Batches<'a> {
    schema: SchemaRef,
    source: Source<'a>,
    done: bool,
}

enum Source<'a> {
    #[cfg(feature = "parquet")]
    Parquet(Box<Groups>),
    File(Box<FileReader<BufReader<File>>>),
    Stream(Box<Stream<'a>>),
}

/// A stream of Arrow IPC.
struct Stream<'a> {
    input: Box<dyn Read + 'a>,
    decoder: StreamDecoder,
    /// What was read and not decoded.
    rest: Buffer,
    /// The bytes that were decoded since the last batch.
    gathered_bytes: usize,
    ended: bool,
    /// A batch that came before it was asked for, with the schema.
    early: Option<RecordBatch>,
}

impl Batches<'static> {
    /// Opens a Parquet file, a file of Arrow IPC, or a file with a stream of Arrow IPC. The first bytes of the file
    /// decide which one it is.
    ///
    /// # Errors
    /// `Io` if it cannot be read; `Invalid` if it is malformed.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |cause| Error::io(format!("read {}", path.display()), cause);
        let mut file = File::open(path).map_err(failed)?;
        let mut begin = Vec::new();
        file.by_ref().take(ARROW_FILE.len() as u64).read_to_end(&mut begin).map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let opened = match &begin[..] {
            ARROW_FILE => Batches::file(file),
            #[cfg(feature = "parquet")]
            begin if begin.starts_with(PARQUET_FILE) => Batches::parquet(file),
            _ => Batches::stream(file),
        };
        opened.map_err(|error| error.within(format!("reading {}", path.display())))
    }

    /// Reads a Parquet file.
    ///
    /// # Errors
    /// As for [`Batches::open`].
    #[cfg(feature = "parquet")]
    pub fn parquet(mut file: File) -> Result<Self> {
        let checked = footer::check(&mut file).map_err(|cause| Error::io("read the footer", cause))?;
        checked.map_err(invalid)?;
        guarded(|| {
            let groups = Groups::open(file)?;
            let schema = Arc::clone(groups.schema());
            Ok(Batches { schema, source: Source::Parquet(Box::new(groups)), done: false })
        })
    }

    /// Reads a file of Arrow IPC.
    fn file(mut file: File) -> Result<Self> {
        let checked = blocks::check(&mut file, MOST_BATCH_BYTES as u64);
        checked.map_err(|cause| Error::io("read the footer", cause))?.map_err(invalid)?;
        guarded(|| {
            let reader = FileReader::try_new(BufReader::new(file), None).map_err(invalid)?;
            let schema = reader.schema();
            Ok(Batches { schema, source: Source::File(Box::new(reader)), done: false })
        })
    }
}

impl<'a> Batches<'a> {
    /// Reads a stream of Arrow IPC.
    ///
    /// # Errors
    /// As for [`Batches::open`]. A *file* of Arrow IPC is not a stream, because its directory is at its end.
    pub fn stream(input: impl Read + 'a) -> Result<Self> {
        let mut stream = Stream {
            input: Box::new(input),
            decoder: StreamDecoder::new(),
            rest: Buffer::default(),
            gathered_bytes: 0,
            ended: false,
            early: None,
        };
        stream.begin()?;
        stream.early = guarded(|| stream.decode(true))?;
        let schema = stream.decoder.schema().ok_or_else(|| Error::invalid("the stream has no schema"))?;
        Ok(Batches { schema, source: Source::Stream(Box::new(stream)), done: false })
    }

    /// Returns the schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.done {
            return None;
        }
        let next = guarded(|| match &mut self.source {
            #[cfg(feature = "parquet")]
            Source::Parquet(groups) => groups.next_batch(),
            Source::File(reader) => reader.next().transpose().map_err(invalid),
            Source::Stream(stream) => match stream.early.take() {
                Some(batch) => Ok(Some(batch)),
                None => stream.decode(false),
            },
        });
        self.done = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

impl Stream<'_> {
    /// Reads the first piece.
    fn begin(&mut self) -> Result<()> {
        self.read()?;
        if self.rest.starts_with(ARROW_FILE) {
            let message =
                "this is a file of Arrow, not a stream: its directory is at its end, so name the file";
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    /// Returns the next batch; or `None` at the end, and also once the schema is known if that is `enough`.
    fn decode(&mut self, enough: bool) -> Result<Option<RecordBatch>> {
        loop {
            let before = self.rest.len();
            let batch = self.decoder.decode(&mut self.rest).map_err(invalid)?;
            self.gathered_bytes += before - self.rest.len();
            if batch.is_some() {
                self.gathered_bytes = 0;
                return Ok(batch);
            }
            if enough && self.decoder.schema().is_some() {
                return Ok(None);
            }
            if self.gathered_bytes > MOST_BATCH_BYTES {
                let most = MOST_BATCH_BYTES >> 20;
                return Err(Error::invalid(format!("a batch has more than {most} MiB; write smaller ones")));
            }
            if self.ended || (self.rest.is_empty() && !self.read()?) {
                return self.check_end().map(|()| None);
            }
        }
    }

    /// Checks, at the end of the input, that it ends with the mark of an end. The format allows to leave the mark out,
    /// but no program is known that does, and without it a stream that was cut off would look complete.
    fn check_end(&mut self) -> Result<()> {
        // A decoder that has seen the mark takes no byte more.
        let refuses_more = self.decoder.decode(&mut Buffer::from_vec(vec![0u8])).is_err();
        if refuses_more && self.decoder.finish().is_ok() {
            return Ok(());
        }
        Err(Error::invalid("the file or stream ends before its end mark: it was cut off"))
    }

    /// Reads the next piece. Returns whether there was any.
    fn read(&mut self) -> Result<bool> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut filled = 0;
        while filled < PIECE_BYTES {
            match self.input.read(&mut piece[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(Error::io("read the stream", cause)),
            }
        }
        piece.truncate(filled);
        self.ended = filled == 0;
        self.rest = Buffer::from_vec(piece);
        Ok(!self.ended)
    }
}

thread_local! {
    /// Whether this thread runs a reader whose panics are errors.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a reader of arrow-rs, whose panics over malformed bytes are errors here.
fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    silence_guarded_panics();
    // A stream reads from an input of the caller, which may be guarded itself.
    let before = IS_GUARDED.replace(true);
    let read = panic::catch_unwind(AssertUnwindSafe(read));
    IS_GUARDED.set(before);
    read.unwrap_or_else(|_| {
        Err(Error::invalid(
            "the file is malformed: its reader stopped at a length or an offset that is impossible",
        ))
    })
}

/// Keeps the process's panic hook from reporting a panic that becomes an error: a user would take it for a defect.
/// Other panics are reported as before.
fn silence_guarded_panics() {
    static SILENCE: Once = Once::new();
    SILENCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_GUARDED.get() {
                before(info);
            }
        }));
    });
}

pub(crate) fn invalid(error: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Invalid, "the file cannot be read as Arrow or Parquet").caused_by(error.to_string())
}

impl fmt::Debug for Batches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").field("schema", &self.schema).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// The only test here that calls `guarded`, whose first call finds the hook of this test.
    #[test]
    fn only_panics_that_become_errors_are_not_reported() {
        static REPORTED: AtomicUsize = AtomicUsize::new(0);
        panic::set_hook(Box::new(|_| {
            REPORTED.fetch_add(1, Ordering::SeqCst);
        }));
        let read = guarded::<()>(|| panic!("an offset"));
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(REPORTED.load(Ordering::SeqCst), 0);
        assert!(panic::catch_unwind(|| panic!("another")).is_err());
        assert_eq!(REPORTED.load(Ordering::SeqCst), 1);
    }
}
