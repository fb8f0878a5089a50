//! A cursor over a database of the engine or of a remote store.

use crate::cursor::{Begun, Cursor, Lent, LentRun, RecordCursor, Span};
use crate::remote::RemoteCursor;
use base::Result;
use store::ValueReader;

/// A cursor over records of a database of the engine or of a remote store. Its methods are those of [`RecordCursor`].
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // A box would be an allocation for each cursor.
#[must_use = "a cursor reads records only as it moves"]
pub enum AnyCursor<'a> {
    /// A cursor of the engine.
    Native(Cursor<'a>),
    /// A cursor of a remote store.
    Remote(RemoteCursor<'a>),
}

/// Calls a method on the cursor of either kind.
macro_rules! on_cursor {
    ($any:expr, $cursor:ident => $call:expr) => {
        match $any {
            AnyCursor::Native($cursor) => $call,
            AnyCursor::Remote($cursor) => $call,
        }
    };
}

impl RecordCursor for AnyCursor<'_> {
    fn span(&self) -> &Span {
        on_cursor!(self, cursor => cursor.span())
    }

    fn key(&self) -> Option<&[u8]> {
        on_cursor!(self, cursor => cursor.key())
    }

    fn current(&self) -> Lent<'_> {
        on_cursor!(self, cursor => cursor.current())
    }

    fn value_len(&self) -> Option<u64> {
        on_cursor!(self, cursor => cursor.value_len())
    }

    fn value(&mut self) -> Result<Option<&[u8]>> {
        on_cursor!(self, cursor => cursor.value())
    }

    fn value_reader(&self) -> Result<Option<ValueReader>> {
        on_cursor!(self, cursor => cursor.value_reader())
    }

    fn advance(&mut self) -> Result<bool> {
        on_cursor!(self, cursor => cursor.advance())
    }

    fn retreat(&mut self) -> Result<bool> {
        on_cursor!(self, cursor => cursor.retreat())
    }

    fn next(&mut self) -> Result<Lent<'_>> {
        on_cursor!(self, cursor => cursor.next())
    }

    fn prev(&mut self) -> Result<Lent<'_>> {
        on_cursor!(self, cursor => cursor.prev())
    }

    fn seek(&mut self, key: &[u8]) -> Result<Lent<'_>> {
        on_cursor!(self, cursor => cursor.seek(key))
    }

    fn next_beginning(&mut self) -> Result<Begun<'_>> {
        on_cursor!(self, cursor => cursor.next_beginning())
    }

    fn prev_beginning(&mut self) -> Result<Begun<'_>> {
        on_cursor!(self, cursor => cursor.prev_beginning())
    }

    fn seek_beginning(&mut self, key: &[u8]) -> Result<Begun<'_>> {
        on_cursor!(self, cursor => cursor.seek_beginning(key))
    }

    fn run_on(&mut self, most: usize, each: impl FnMut(&[u8], &[u8], &[u8])) -> Result<usize> {
        on_cursor!(self, cursor => cursor.run_on(most, each))
    }

    fn run_back(&mut self, most: usize, each: impl FnMut(&[u8], &[u8], &[u8])) -> Result<usize> {
        on_cursor!(self, cursor => cursor.run_back(most, each))
    }

    fn lend_run(&mut self, most: usize) -> Result<Option<LentRun>> {
        on_cursor!(self, cursor => cursor.lend_run(most))
    }
}
