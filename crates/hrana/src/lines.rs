//! The reply to a cursor: a line with the baton, then a line for each part of a result, handed on in pieces.

use crate::failure::{Failure, Outcome};
use crate::sink::{Sink, write_columns, write_end, write_row};
use serde_json::json;
use sql::{ColumnInfo, ValueRef};
use std::fmt;
use std::io::Write as _;

/// The length from which a piece is handed on.
const PIECE_BYTES: usize = 64 << 10;

/// The reply to a cursor.
pub struct Lines {
    piece: Vec<u8>,
    send: Box<dyn FnMut(Vec<u8>) -> bool + Send>,
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lines")
    }
}

impl Lines {
    /// Begins a reply with the baton that the stream has afterwards. `send` hands a piece on, and returns false if
    /// nothing more is wanted.
    pub fn new(baton: Option<&str>, send: impl FnMut(Vec<u8>) -> bool + Send + 'static) -> Self {
        let mut piece = json!({ "baton": baton, "base_url": null }).to_string().into_bytes();
        piece.push(b'\n');
        Lines { piece, send: Box::new(send) }
    }

    /// Returns the last piece.
    pub fn finish(self) -> Vec<u8> {
        self.piece
    }

    /// Writes the failure of the whole batch, which is the last line.
    pub(crate) fn fail_all(&mut self, failure: &Failure) {
        let _ = writeln!(self.piece, "{}", json!({ "type": "error", "error": failure.to_json() }));
    }
}

/// Hands a piece on if it is full.
fn hand_on(piece: &mut Vec<u8>, send: &mut dyn FnMut(Vec<u8>) -> bool) -> Outcome<()> {
    if piece.len() < PIECE_BYTES || send(std::mem::take(piece)) {
        return Ok(());
    }
    Err(Failure::new(
        "SQLITE_INTERRUPT",
        "the statements, including the transfer of their rows, took too long and were stopped",
    ))
}

impl Sink for Lines {
    fn begin(&mut self, step: usize, columns: &[ColumnInfo]) -> Outcome<()> {
        let _ = write!(self.piece, r#"{{"type":"step_begin","step":{step},"cols":"#);
        write_columns(columns, &mut self.piece);
        self.piece.extend_from_slice(b"}\n");
        hand_on(&mut self.piece, &mut *self.send)
    }

    fn row<'v>(&mut self, values: impl Iterator<Item = ValueRef<'v>>, _may_refuse: bool) -> Outcome<()> {
        let Lines { piece, send } = self;
        piece.extend_from_slice(br#"{"type":"row","row":"#);
        write_row(values, piece, |piece| hand_on(piece, &mut **send))?;
        piece.extend_from_slice(b"}\n");
        Ok(())
    }

    fn end(&mut self, changes: u64, last_row_id: i64) -> Outcome<()> {
        self.piece.extend_from_slice(br#"{"type":"step_end","#);
        write_end(changes, last_row_id, &mut self.piece);
        self.piece.extend_from_slice(b"}\n");
        Ok(())
    }

    fn fail(&mut self, step: usize, failure: Failure) {
        let entry = json!({ "type": "step_error", "step": step, "error": failure.to_json() });
        let _ = writeln!(self.piece, "{entry}");
    }

    fn skip(&mut self) {}

    fn check_room(&self) -> Outcome<()> {
        Ok(())
    }
}
