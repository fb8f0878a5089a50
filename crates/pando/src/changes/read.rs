//! A reader of changes from untrusted bytes: it verifies every frame before use, and its memory is bounded by the
//! longest frame.

use super::format::{
    Begin, End, FRAME_BYTES, Head, Kind, LongValue, MAX_PAYLOAD_BYTES, decode_changes, decode_table,
};
use base::checksum::Running;
use base::codec::Reader as Bytes;
use base::op::Decoder;
use base::{Error, Result, TableId};
use std::io::{self, Read};
use store::changes::TableChange;

/// The next part of a change.
#[derive(Debug)]
pub(super) enum Part<'a> {
    Tables(Vec<TableChange>),
    Table(TableId, &'a str),
    Operations(Decoder<'a>),
    Value(LongValue<'a>),
    Piece(&'a [u8]),
    /// The end: all frames of the change have been read.
    End,
}

/// A reader of changes, frame by frame.
pub(super) struct Reader<'i> {
    input: &'i mut dyn Read,
    payload: Vec<u8>,
    commit: u64,
    sequence: u64,
    hash: Running,
}

impl<'i> Reader<'i> {
    pub fn new(input: &'i mut dyn Read) -> Self {
        Reader { input, payload: Vec::new(), commit: 0, sequence: 0, hash: Running::unseeded() }
    }

    /// Reads the beginning of the next change. Returns `None` at the end of the input.
    ///
    /// # Errors
    /// `Foreign` and `Corruption` if the bytes are not the beginning of a change.
    pub fn begin(&mut self) -> Result<Option<Begin>> {
        let Some(head) = self.head()? else { return Ok(None) };
        let head = Head::decode(&head)?;
        if head.kind != Kind::Begin {
            return Err(Error::corruption("expected the first frame of a change, found another one"));
        }
        self.read_payload(&head)?;
        let begin = Begin::decode(&self.payload)?;
        (self.commit, self.sequence, self.hash) = (begin.commit, 0, Running::unseeded());
        self.accept(&head)?;
        Ok(Some(begin))
    }

    /// Reads the next part of the change that was begun.
    ///
    /// # Errors
    /// `Corruption` if the input ends, or holds something else.
    pub fn next(&mut self) -> Result<Part<'_>> {
        let head = self.head()?.ok_or_else(|| self.cut())?;
        let head = Head::decode(&head)?;
        self.read_payload(&head)?;
        let before = End { frames: self.sequence, hash: self.hash.finish() };
        self.accept(&head)?;
        let (commit, payload) = (self.commit, &self.payload[..]);
        let wrong = || Error::corruption(format!("commit {commit}: a frame cannot be decoded"));
        Ok(match head.kind {
            Kind::Begin => {
                return Err(Error::corruption(format!(
                    "commit {commit}: another change begins before its end"
                )));
            }
            Kind::Tables => Part::Tables(decode_changes(payload)?),
            Kind::Table => decode_table(payload).map(|(id, name)| Part::Table(id, name)).ok_or_else(wrong)?,
            Kind::Operations => {
                let mut reader = Bytes::new(payload);
                let count = reader.varint().ok_or_else(wrong)?;
                let decoder = Decoder::of_operations(reader.rest(), count);
                Part::Operations(decoder)
            }
            Kind::Value => Part::Value(LongValue::decode(payload).ok_or_else(wrong)?),
            Kind::Piece => Part::Piece(payload),
            Kind::End if End::decode(payload) == Some(before) => Part::End,
            Kind::End => {
                return Err(Error::corruption(format!("commit {commit}: frames are missing before its end")));
            }
        })
    }

    /// Reads a frame's head. Returns `None` if the input ends before it.
    fn head(&mut self) -> Result<Option<[u8; FRAME_BYTES]>> {
        let mut head = [0; FRAME_BYTES];
        match self.fill(&mut head)? {
            0 => Ok(None),
            FRAME_BYTES => Ok(Some(head)),
            _ => Err(self.cut()),
        }
    }

    fn read_payload(&mut self, head: &Head) -> Result<()> {
        debug_assert!(head.payload_bytes <= MAX_PAYLOAD_BYTES, "the head was checked");
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(head.payload_bytes, 0);
        let filled = self.fill(&mut payload)?;
        self.payload = payload;
        if filled < head.payload_bytes { Err(self.cut()) } else { Ok(()) }
    }

    fn accept(&mut self, head: &Head) -> Result<()> {
        head.check(&self.payload, self.commit, self.sequence)?;
        self.hash.update(&Head::encode_head(head.kind, &self.payload, self.commit, self.sequence));
        self.hash.update(&self.payload);
        self.sequence += 1;
        Ok(())
    }

    /// Fills `buffer` as far as the input goes.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(Error::io("read the changes", cause)),
            }
        }
        Ok(filled)
    }

    #[cold]
    fn cut(&self) -> Error {
        Error::corruption(format!(
            "the changes end in the middle of one: after frame {} of commit {}",
            self.sequence, self.commit
        ))
    }
}
