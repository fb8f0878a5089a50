//! Documents as a stream of Arrow, for clients that accept `application/vnd.apache.arrow.stream`. A batch of rows is
//! complete before it is sent, and the stream ends with its mark; without the mark it was cut off.

use crate::wire::accept::sendable;
use arrow::{Format, Shape, Writer};
use pando::{Error, Result};
use rows::{DynamicRow, DynamicTable};
use std::fmt;
use std::io;

/// The stream, and what of it was not sent.
pub struct Columns {
    /// `None` after its end.
    writer: Option<Writer<Vec<u8>>>,
    /// What is sent next.
    ready: Vec<u8>,
}

impl Columns {
    pub fn new(table: &DynamicTable) -> Self {
        let writer = Writer::new(Vec::new(), Format::ArrowStream, Shape::of_table(table));
        Columns { writer: Some(writer.expect("a vector takes everything")), ready: Vec::new() }
    }

    /// Writes the rows that `next` returns, until there are `bytes` to be sent or no more rows. Returns whether the
    /// stream has ended.
    pub fn fill(
        &mut self,
        bytes: usize,
        mut next: impl FnMut() -> Result<Option<DynamicRow>>,
    ) -> Result<bool> {
        let Some(mut writer) = self.writer.take() else { return Ok(true) };
        while writer.stream_mut().is_some_and(|out| out.len() < bytes) {
            match next()? {
                Some(row) => writer.row(&row).map_err(wrong)?,
                None => {
                    self.ready = writer.finish().map_err(wrong)?;
                    return Ok(true);
                }
            }
        }
        self.ready = writer.stream_mut().map(sendable).unwrap_or_default();
        self.writer = Some(writer);
        Ok(false)
    }

    /// Returns what is to be sent.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.ready)
    }
}

/// Converts the error of a value that a batch cannot hold: a vector takes everything else.
fn wrong(cause: io::Error) -> Error {
    Error::invalid(cause.to_string())
}

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Columns").finish_non_exhaustive()
    }
}
